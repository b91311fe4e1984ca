"""One step of a session's training."""

from __future__ import annotations

import functools
import os
import threading
from types import TracebackType
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, Mapping, Optional,
                    Type, TypeVar, Union, cast, overload)

import torch

from paceline.errors import Regroup, is_collective, is_of_a_step, text_of

if TYPE_CHECKING:
    from paceline._protocols import Order
    from paceline.loader import Loader
    from paceline.session import Run

_Batch = TypeVar("_Batch")


class Step:
    """A block of the script that is one step: `with step:`. Made by Run.steps().

    Inside of the block, `loss.backward()` and `optimizer.step()` of the script are those of the step:
    step.backward(loss), and step.update() without its clipping.
    """

    _active: Optional[Step] = None  # The step whose block the script is in.

    number: int
    """From 0."""
    passes: int
    """How many batches it has."""
    done: bool
    """After the block, whether the step counts. False: it was cut off, and the next step of
    run.steps() has this number again, unless Paceline has made the update of a sharded model."""
    rehearsal: bool
    """Whether a spare makes it by itself, for run.steps(rehearse=True): then it is no step of the
    job, and all that is attached gets another state before the next step."""

    def __init__(self, run: Run, order: Order, rehearsal: bool = False) -> None:
        self.number = order.number
        self.passes = order.passes
        self.rehearsal = rehearsal
        self.done = False
        self._makes_update = order.updates  # Else the engine does, with the ranks' mean gradient.
        self._run = run
        self._engine = run._engine
        self._thread = threading.get_ident()
        self._pass = 0
        self._waits = False     # For the backward pass of the newest batch.
        self._prepared = False  # The gradients are ready for the optimizer.
        self._stepping = False  # The optimizer's step has begun, and is not done.
        self._updated = False
        self._left = False
        self._is_cut_off = False  # Perhaps behind its update.
        self._reported: Dict[str, float] = {}  # By the script; it counts if the step does.

    def __enter__(self) -> Step:
        if Step._active is not None or self._left:
            raise RuntimeError(f"the block of step {self.number} begins a second time, or inside "
                               "of another; each step of run.steps() has one `with step:`")
        Step._active = self
        return self

    @overload
    def batches(self, loader: Loader) -> Iterator[Any]: ...

    @overload
    def batches(self, loader: Iterable[_Batch]) -> Iterator[_Batch]: ...

    def batches(self, loader: Union[Loader, Iterable[Any]]) -> Iterator[Any]:
        """Yields as many batches as the step has passes. Tells apart, in the telemetry, the wait
        for a batch and its forward pass.

        loader: one of run.loader, or any iterable of batches; that is gone through again and again.

        Raises RuntimeError where a batch has no step.backward, ValueError if a parameter has been
        given another storage since run.attach, or the loader has no batches.
        """
        self._check_active("step.batches")
        source = self._run._source_of(loader)
        # With Slipstream, several steps of a rank may have one number.
        source._begin((self.number, self._run._made))
        for _ in range(self.passes):
            self._run._streams.follow()
            self._engine.begin_pass()
            if self._run._sharded is not None:
                self._run._sharded.begin_batch()
            batch = source._take()
            self._pass += 1
            self._waits = True
            samples = samples_of(batch)
            self._engine.begin_forward(samples, 0)
            if self._run._flops is not None:
                self._run._flops.begin_forward(samples)
            yield batch
            if self._waits:
                raise RuntimeError(f"step {self.number} has no step.backward(loss) for batch "
                                   f"{self._pass} of {self.passes}")

    def backward(self, loss: torch.Tensor) -> None:
        """The backward pass of a batch's mean loss. Divides it by the number of passes, and scales
        it if a GradScaler is attached. In the step's last pass, the gradients become the mean over
        the ranks meanwhile.

        loss: one number, any shape of one element.

        Raises RuntimeError unless it is called once for each batch, ValueError for another shape.
        """
        self._check_active("step.backward")
        if not self._waits:
            raise RuntimeError("step.backward is called once for each batch of step.batches")
        if loss.numel() != 1:
            raise ValueError(f"step.backward takes one number, the batch's mean loss, and this "
                             f"loss has shape {tuple(loss.shape)}; call .mean()")
        self._waits = False
        scaler = self._run._scaler
        self._run._streams.follow()
        if self._run._sharded is not None:
            self._run._sharded.begin_backward(self._pass == self.passes)
        flops = self._run._flops
        if flops is not None:
            flops.begin_backward()
        self._engine.backward(loss if scaler is None else scaler.scale(loss),
                              loss.detach().reshape(()))
        if flops is not None:
            flops.leave()

    def update(self, *, clip: Optional[float] = None) -> bool:
        """Clips the gradients, makes the optimizer's step, and drops the gradients.

        clip: the greatest norm of all gradients together. None: clip_grad_norm of the job's file;
          0: no clipping.

        With Slipstream's modes drop and sync the engine updates the ranks' common model instead, as
        soon as it has the mean of their gradients; the model has the result at the next step.

        Returns False if the step was left out because gradients were not finite (on_nonfinite, or
        the GradScaler). Raises RuntimeError before all passes were made, and the second time.
        """
        self._check_active("step.update")
        updates = self._prepare(clip)
        optimizer, scaler = self._run._optimizer, self._run._scaler
        makes_update = updates and self._makes_update
        if makes_update and scaler is None:
            optimizer.step()
        if scaler is not None:
            if makes_update:
                scaler.step(optimizer)
                updates = self._updated
            scaler.update()
        if not self._updated:
            self._after_optimizer()
        optimizer.zero_grad(set_to_none=True)
        return updates

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 traceback: Optional[TracebackType]) -> bool:
        self._left = True
        Step._active = None
        if os.getpid() != self._run._pid:
            return False  # A child of the script leaves by the way of its parent.
        self.done = self._updated
        if self._run._flops is not None:
            self._run._flops.end(self._run, self.done)
        if self.done and self._reported:
            self._engine.report(self._run._numbers.keep(self._reported, self.number + 1))
        if error is None and self._updated:
            self._end()
            return False
        # The script may have swallowed what cut the step off.
        why = error or RuntimeError(f"step {self.number} ended without step.update()")
        # Half of an update is not made up for.
        is_half = self._stepping and self._run._sharded is not None
        if (is_of_a_step(why) and not is_half
                and self._engine.cut_off(text_of(why), is_collective(why))):
            self._is_cut_off = True
            return True
        self._run._fail(why)
        if error is None:
            raise why
        return False

    def _check_active(self, call: str) -> None:
        if Step._active is not self:
            raise RuntimeError(f"{call} of step {self.number} is called outside of its block; call "
                               "it inside of `with step:`")

    def _prepare(self, clip: Optional[float]) -> bool:
        """Returns whether the optimizer may make its step."""
        if self._pass < self.passes or self._waits:
            raise RuntimeError(f"the update came before all {self.passes} passes of step "
                               f"{self.number} were made; call it behind step.batches")
        if self._updated:
            raise RuntimeError(f"step {self.number} was updated already; one step is one update")
        self._check_clip(clip)
        self._run._streams.follow()
        if self._run._sharded is not None:
            self._run._sharded.end_backward()
        if self._makes_update:
            self._run._streams.wait_for(self._engine, "mean of the gradients")
        if self._run._scaler is not None:
            self._run._scaler.unscale_(self._run._optimizer)
        skip = self._engine.before_update(clip)
        self._prepared = True
        if not self._makes_update:
            # Takes the gradients: the optimizer's step, if the script calls it, finds none.
            self._after_optimizer()
        return skip is None or float(skip) == 0

    def _check_clip(self, clip: Optional[float]) -> None:
        if self._run._shadow is None or clip is None:
            return
        of_job = self._engine.clip_grad_norm
        if clip != of_job:
            raise ValueError(
                f"step.update(clip={clip}) and clip_grad_norm: {of_job} of the job's file differ; "
                "with Slipstream and strategy auto, a rank's clipping is that of all: give "
                f"clip_grad_norm: {clip} in the file")

    def _before_optimizer(self) -> None:
        """The optimizer's step begins, by whoever's call."""
        if self._updated and self._makes_update:
            raise RuntimeError(f"step {self.number} was updated already; one step is one update")
        # With Slipstream the ranks' common gradient is clipped, by the job's norm alone.
        clip = 0.0 if self._run._shadow is None else None
        if not self._prepared and not self._prepare(clip):
            raise RuntimeError(f"gradients of step {self.number} are not finite; on_nonfinite: skip "
                               "needs step.update() in the place of optimizer.step()")
        self._stepping = True

    def _after_optimizer(self) -> None:
        """The update is done, or is the engine's to make. It is never repeated."""
        self._stepping = False
        if self._updated:
            return
        self._updated = True
        self._run._updated()

    def _end(self) -> None:
        self._run._streams.follow()
        try:
            self._engine.end_step()
        except Regroup:
            pass  # The step is done. Its exchange is made up for.

    def _check_left(self) -> None:
        if not self._left:
            raise RuntimeError(f"step {self.number} was not made; write `with step:` in the loop")


def route_backward() -> None:
    """Makes a plain loss.backward() inside of a step's block the step's."""
    plain: Callable[..., Any] = getattr(torch.Tensor, "backward")  # Whose own types are partial.
    if hasattr(plain, "_of_paceline"):
        return

    @functools.wraps(plain)
    def backward(self: torch.Tensor, gradient: Optional[torch.Tensor] = None,
                 retain_graph: Optional[bool] = None, create_graph: bool = False,
                 inputs: Any = None) -> Any:
        step = Step._active
        if (step is None or not step._waits or step._thread != threading.get_ident()
                or gradient is not None or retain_graph or create_graph or inputs is not None):
            return plain(self, gradient, retain_graph, create_graph, inputs)
        return step.backward(self)

    setattr(backward, "_of_paceline", True)
    setattr(torch.Tensor, "backward", backward)


def samples_of(batch: Any) -> int:
    """How many samples a batch has: the first dimension of its first tensor; 0: it has none."""
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.dim() else 1
    values: Iterable[Any] = (
        cast(Iterable[Any], batch.values()) if isinstance(batch, Mapping) else batch)
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        return 0
    return next((n for n in map(samples_of, values) if n), 0)
