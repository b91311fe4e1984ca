"""A step that a spare makes by itself before it stands by: what torch.compile makes, and all else
that the first step takes longer for, is there when the spare is needed.
"""

from __future__ import annotations

import copy
import time
from typing import TYPE_CHECKING, Any, Optional, Sequence, Tuple

import torch

from paceline import _ring
from paceline.alone import AloneEngine
from paceline.step import Step

if TYPE_CHECKING:
    from paceline._protocols import Order
    from paceline.session import Run


class Rehearsal(AloneEngine):
    """The engine of that step. The job's engine is not loaded yet, and learns only what the rank
    is doing, and that the script has failed.

    What is attached stays as the step leaves it: a rank that takes another's place gets all of it
    from a third one.
    """

    rank = -1

    def __init__(self, run: Run) -> None:
        job = run._engine
        super().__init__(steps=job.steps, batch=job.batch, seed=job.seed)
        self.device, self.spec, self.clip_grad_norm = job.device, job.spec, job.clip_grad_norm
        self._parameters = list(run._trained.values())
        self._run = run
        self._job = job
        self._begun_at = 0.0
        self._positions = [(one, copy.deepcopy(one.state_dict()))
                           for one in run._own_loaders.values()]

    def begin(self) -> Tuple[Step, Order]:
        """From now on the run's engine is this. Returns its only step."""
        print("this spare rehearses a step before it stands by", flush=True)
        self._begun_at = time.monotonic()
        order = _Order(self.batch)
        self._run._engine = self
        self._run._order = order
        return Step(self._run, order, rehearsal=True), order

    def end(self) -> None:
        """The script has left the step's block: the run is as if it had made none."""
        run = self._run
        run._engine = self._job
        run._order = None
        run._made = 0
        run._slots_known = False
        run._iterables.clear()
        for loader in run._loaders:
            loader._forget()
        for own, position in self._positions:
            own.load_state_dict(position)
        run._numbers.clear()
        for parameter in self._parameters:
            parameter.grad = None
        self._job.show_rehearsal(_ring.IDLE)
        print(f"this spare has rehearsed a step in {time.monotonic() - self._begun_at:.3g} s",
              flush=True)

    def begin_pass(self) -> None:
        self._job.show_rehearsal(_ring.DATA_WAIT)

    def begin_forward(self, samples: int, tokens: int) -> None:
        self._job.show_rehearsal(_ring.FORWARD)

    def backward(self, loss: torch.Tensor, _shown: torch.Tensor) -> None:
        self._job.show_rehearsal(_ring.BACKWARD)
        super().backward(loss, _shown)

    def before_update(self, clip: Optional[float]) -> Optional[torch.Tensor]:
        self._job.show_rehearsal(_ring.OPTIMIZER)
        return super().before_update(clip)

    def report(self, numbers: Sequence[Tuple[str, float, int]]) -> None:
        pass

    def artifact(self, *_what: Any, **_more: Any) -> None:
        pass

    def fail(self, what: str) -> None:
        # It has failed in no step of the job.
        self._job.show_rehearsal(_ring.IDLE)
        self._job.fail(f"in the rehearsal of a spare: {what}")

    def finish(self) -> int:
        return self._job.finish()


class _Order:
    """The order to make the step."""

    kind, number, passes = "step", 0, 1
    updates = scheduled = True
    # It is no member; its group is its own.
    rank, world_size, generation = -1, 1, 0

    def __init__(self, batch: int) -> None:
        self.batch = batch
