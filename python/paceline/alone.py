"""A session without Paceline: one rank, nothing connected."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Tuple

import torch
from torch._C._distributed_c10d import HashStore

if TYPE_CHECKING:
    from paceline._engine import SwitchingGroup
    from paceline._protocols import Order
    from paceline.sharded import ShardedModel

_STEPS_BETWEEN_LINES = 10


class AloneEngine:
    """As paceline._engine.Engine (python/csrc/engine.h), for a script that runs by itself."""

    rank, world_size, shards, generation, openings = 0, 1, 1, 1, 0
    recovers = is_broken = may_slip = counts_flops = False
    clip_grad_norm = 0.0

    def __init__(self, *, steps: int, batch: int, seed: int, passes: int = 1) -> None:
        if passes < 1:
            raise ValueError(f"accumulation_steps is {passes}; give at least 1")
        self.steps, self.batch, self.seed, self.passes = steps, batch, seed, passes
        self.device = torch.device("cpu")
        self.spec = "{}"
        self.position: Tuple[int, int] = (0, 0)
        self._began: Tuple[int, int] = (0, 0)  # The position behind the last step that is done.
        self._parameters: List[torch.Tensor] = []
        self._storages: List[Tuple[str, torch.Tensor, int, torch.Size]] = []
        self._sharded: Optional[ShardedModel] = None
        self._next = 0
        self._evaluates = False
        self._evaluated = False
        self._shown_from = 0  # Steps done from which on what is reported is printed.

    def show_rehearsal(self, phase: int) -> None:
        pass

    def load(self, *, parameters: Sequence[Tuple[str, torch.Tensor]],
             buffers: Sequence[Tuple[str, torch.Tensor]], evaluates: bool,
             sharded: Optional[ShardedModel] = None, **_unused: Any) -> None:
        # One that several modules share has several names.
        self._parameters = list({id(p): p for _, p in parameters}.values())
        self._storages = [(name, one, one.data_ptr(), one.shape)
                          for name, one in (*parameters, *buffers)]
        self._evaluates = evaluates
        self._sharded = sharded

    def sampler(self, *, samples: int, rank: int, world_size: int, batch: int, shuffle: bool,
                epoch: int, offset: int) -> _Sampler:
        del rank, world_size  # There is one.
        return _Sampler(self.seed, samples, batch, shuffle, (epoch, offset))

    def set_position(self, epoch: int, offset: int) -> None:
        self.position = (epoch, offset)

    def set_optimizer_slots(self, slots: Sequence[Tuple[str, Sequence[torch.Tensor]]]) -> None:
        pass

    def next(self, _learning_rate: float) -> Order:
        kind = "step"
        for parameter in self._parameters:
            parameter.grad = None
        if self._next >= self.steps:
            kind = "evaluate" if self._evaluates and not self._evaluated else "done"
        return _Order(kind, self._next, self.batch, self.passes)

    def begin_pass(self) -> None:
        for name, one, data, shape in self._storages:
            if one.data_ptr() != data or one.shape != shape:
                raise ValueError(f"{name} has another storage than when it was attached; "
                                 "model.to(), .half() and p.data = ... are only possible before "
                                 "run.attach(model)")

    def begin_forward(self, samples: int, tokens: int) -> None:
        pass

    def backward(self, loss: torch.Tensor, _shown: torch.Tensor) -> None:
        torch.autograd.backward(loss if self.passes == 1 else loss / self.passes)

    def switching_group(self, rank: int, size: int) -> SwitchingGroup:
        raise RuntimeError("a script that runs alone has no ranks to connect")

    def take_mean(self, _gradients: torch.Tensor) -> None:
        pass

    def before_update(self, clip: Optional[float]) -> Optional[torch.Tensor]:
        if clip:
            torch.nn.utils.clip_grad_norm_(self._parameters, clip)
        return None

    def updated(self) -> None:
        self._next += 1
        self._began = self.position

    def end_step(self) -> None:
        pass

    def set_flops(self, *_flops: float) -> None:
        pass

    def process_group(self) -> Optional[torch.distributed.ProcessGroup]:
        return None

    def save(self) -> None:
        pass

    def report(self, numbers: Sequence[Tuple[str, float, int]]) -> None:
        """Prints what the newest step has reported: at first, then once in 10 steps, and last."""
        if self._next < min(self._shown_from, self.steps):
            return
        self._shown_from = self._next + _STEPS_BETWEEN_LINES
        shown = (f"{name}={value:.6g}" for name, value, step in numbers if step == self._next)
        print(f"step={self._next}", *shown, flush=True)

    def artifact(self, name: str, path: str, _directory: bool, size: int, sha256: str, step: int,
                 _time_us: int, error: str) -> None:
        """Prints it once it is hashed."""
        if sha256 or error:
            print(f"artifact {name} of step {step}: {path},", error or
                  f"{size} bytes, sha256 {sha256}", flush=True)

    def give_up_profile(self, _why: str) -> None:
        pass

    def end_evaluation(self, loss: float, correct: float, predictions: float,
                       _samples: int) -> None:
        self._evaluated = True
        accuracy = f" accuracy={correct / predictions:.4f}" if correct >= 0 else ""
        print(f"evaluation loss={loss / predictions:.9g}{accuracy}", flush=True)

    def cut_off(self, _what: str, _collective: bool) -> bool:
        return False

    def fail(self, what: str) -> None:
        """Unlike a job's, it may go on: with the step that is not done, from its first batch."""
        self.position = self._began
        self.openings += 1
        if self._sharded is not None:
            self._sharded.leave()

    def finish(self) -> int:
        return 0


@dataclasses.dataclass
class _Order:
    """The one rank's next order."""

    kind: str
    number: int
    batch: int
    passes: int
    rank, world_size, generation = 0, 1, 1
    updates = scheduled = True


class _Sampler:
    """As paceline._engine.Sampler, in another order."""

    def __init__(self, seed: int, samples: int, batch: int, shuffle: bool,
                 position: Tuple[int, int]) -> None:
        self._seed, self._samples, self._batch, self._shuffle = seed, samples, batch, shuffle
        self.position = position

    def next(self) -> List[int]:
        epoch, offset = self.position
        if offset > self._samples - self._batch:
            epoch, offset = epoch + 1, 0
        self.position = (epoch, offset + self._batch)
        order: List[int] = list(range(self._samples))
        if self._shuffle:
            generator = torch.Generator().manual_seed(self._seed * 1_000_003 + epoch)
            order = torch.randperm(self._samples, generator=generator).tolist()
        return order[offset:offset + self._batch]


def group_of_one(device: torch.device) -> torch.distributed.ProcessGroup:
    """A group whose only member is this process, for tensors on the CPU and on this device."""
    store = HashStore()
    kind = torch.distributed.ProcessGroup.BackendType.GLOO
    group = torch.distributed.ProcessGroup(store, 0, 1)
    group._set_default_backend(kind)
    backend = torch.distributed.ProcessGroupGloo(store, 0, 1, datetime.timedelta(minutes=1))
    for where in sorted({"cpu", device.type}):
        group._register_backend(torch.device(where), kind, backend)
    return group
