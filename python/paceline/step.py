"""One step of a session's training."""

import functools
import threading

import torch

from paceline.errors import Regroup, is_collective


class Step:
    """A block of the script that is one step: `with step:`. Made by Run.steps().

    number: from 0. passes: how many batches it has. done: after the block, whether the step counts;
    False: it was cut off, and the next step of run.steps() has this number again.

    Inside of the block, `loss.backward()` and `optimizer.step()` of the script are those of the step:
    step.backward(loss), and step.update() without its clipping.
    """

    _active = None  # The step whose block the script is in.

    def __init__(self, run, order):
        self.number = order.number
        self.passes = order.passes
        self.done = False
        self._run = run
        self._engine = run._engine
        self._thread = threading.get_ident()
        self._pass = 0
        self._waits = False     # For the backward pass of the newest batch.
        self._prepared = False  # The gradients are ready for the optimizer.
        self._updated = False
        self._left = False

    def __enter__(self):
        Step._active = self
        return self

    def batches(self, loader):
        """Yields as many batches as the step has passes. Tells apart, in the telemetry, the wait
        for a batch and its forward pass.

        loader: one of run.loader, or any iterable of batches; that is gone through again and again.
        """
        source = self._run._source_of(loader)
        source.begin(self.number)
        for _ in range(self.passes):
            self._engine.begin_pass()
            batch = source.take()
            self._pass += 1
            self._waits = True
            self._engine.begin_forward(samples_of(batch), 0)
            yield batch
            if self._waits:
                raise RuntimeError(f"step {self.number} has no step.backward(loss) for batch "
                                   f"{self._pass} of {self.passes}")

    def backward(self, loss):
        """The backward pass of a batch's mean loss, a scalar. Divides it by the number of passes,
        and scales it if a GradScaler is attached. In the step's last pass, the gradients become the
        mean over the ranks meanwhile."""
        if not self._waits:
            raise RuntimeError("step.backward is called once for each batch of step.batches")
        self._waits = False
        scaler = self._run._scaler
        self._engine.backward(loss if scaler is None else scaler.scale(loss), loss.detach())

    def update(self, *, clip=None):
        """Clips the gradients to the norm `clip` (None: clip_grad_norm of the job's file), makes
        the optimizer's step, and drops the gradients.

        Returns False if the step was left out because gradients were not finite (on_nonfinite, or
        the GradScaler).
        """
        updates = self._prepare(clip)
        optimizer, scaler = self._run._optimizer, self._run._scaler
        if updates and scaler is None:
            optimizer.step()
        elif updates:
            scaler.step(optimizer)
            updates = self._updated
        if scaler is not None:
            scaler.update()
        if not self._updated:
            self._after_optimizer()
        optimizer.zero_grad(set_to_none=True)
        return updates

    def __exit__(self, kind, error, traceback):
        self._left = True
        Step._active = None
        if error is None and not self._updated:
            error = RuntimeError(f"step {self.number} ended without step.update()")
            self._run._fail(error)
            raise error
        self.done = self._updated
        if error is None:
            self._end()
            return False
        if self._engine.cut_off(f"{type(error).__name__}: {error}", is_collective(error)):
            return True
        self._run._fail(error)
        return False

    def _prepare(self, clip):
        """Returns whether the optimizer may make its step."""
        if self._pass < self.passes or self._waits:
            raise RuntimeError(f"the update came before all {self.passes} passes of step "
                               f"{self.number} were made; call it behind step.batches")
        if self._updated:
            raise RuntimeError(f"step {self.number} was updated already; one step is one update")
        if self._run._scaler is not None:
            self._run._scaler.unscale_(self._run._optimizer)
        skip = self._engine.before_update(clip)
        self._prepared = True
        return skip is None or float(skip) == 0

    def _before_optimizer(self):
        """The optimizer's step begins, by whoever's call."""
        if not self._prepared and not self._prepare(0.0):
            raise RuntimeError(f"gradients of step {self.number} are not finite; on_nonfinite: skip "
                               "needs step.update() in the place of optimizer.step()")

    def _after_optimizer(self):
        """The update is done. It is never repeated."""
        self._updated = True
        self._run._updated()

    def _end(self):
        try:
            self._engine.end_step()
        except Regroup:
            pass  # The step is done. Its exchange is made up for.

    def _check_left(self):
        if not self._left:
            raise RuntimeError(f"step {self.number} was not made; write `with step:` in the loop")


def route_backward():
    """Makes a plain loss.backward() inside of a step's block the step's."""
    plain = torch.Tensor.backward
    if hasattr(plain, "_of_paceline"):
        return

    @functools.wraps(plain)
    def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
        step = Step._active
        if (step is None or not step._waits or step._thread != threading.get_ident()
                or gradient is not None or retain_graph or create_graph or inputs is not None):
            return plain(self, gradient, retain_graph, create_graph, inputs)
        return step.backward(self)

    backward._of_paceline = True
    torch.Tensor.backward = backward


def samples_of(batch):
    """How many samples a batch has: the first dimension of its first tensor; 0: it has none."""
    if isinstance(batch, torch.Tensor):
        return batch.shape[0] if batch.dim() else 1
    values = batch.values() if isinstance(batch, dict) else batch
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        return 0
    return next((n for n in map(samples_of, values) if n), 0)
