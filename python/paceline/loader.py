"""Where a session's batches come from."""

from __future__ import annotations

import collections
import copy
import typing
from typing import TYPE_CHECKING, Any, Deque, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch.utils.data import DataLoader, IterableDataset

from paceline.state import random_numbers, restore_random_numbers

if TYPE_CHECKING:
    from paceline._protocols import Engine, Sampler
    from paceline.session import Run

_Position = Tuple[int, int]  # Epoch, and samples of it.


class Loader:
    """A DataLoader whose position is two numbers. Made by Run.loader(), for step.batches."""

    samples: int
    """Number of samples of the dataset."""
    batch_size: Optional[int]
    """Samples of a batch, as given; None: batch_per_rank of the job's file."""
    shuffle: bool
    """Whether each epoch has an order of its own."""

    def __init__(self, run: Run, dataset: Any, batch_size: Optional[int], shuffle: bool,
                 of_dataloader: Dict[str, Any]) -> None:
        for key in ("sampler", "batch_sampler", "drop_last"):
            if key in of_dataloader:
                raise ValueError(f"{key} does not go with run.loader, whose ranks share the "
                                 "samples by themselves; use a DataLoader of your own")
        if of_dataloader.get("in_order") is False:
            raise ValueError("in_order=False does not go with run.loader, whose position says how "
                             "many batches were taken; leave it out")
        kind = type(dataset).__name__
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__len__"):
            raise TypeError(f"a {kind} gives samples by no index; run.loader "
                            "takes a map-style dataset, and step.batches a DataLoader of others")
        if batch_size is not None and batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; give at least 1, or None for that of "
                             "the job's file")
        self.samples = len(dataset)
        self._run = run
        self._dataset = dataset
        self.batch_size = batch_size
        self.shuffle = shuffle
        self._of_dataloader = of_dataloader
        # (data_rank, data_world_size, batch) that the iterator is for.
        self._as: Optional[Tuple[int, int, int]] = None
        self._openings = -1
        self._iterator: Iterator[Any] = iter(())
        self._positions: Deque[_Position] = collections.deque()  # Behind each batch drawn.
        self._position: _Position = (0, 0)                       # Behind the batches taken.
        self._began: _Position = (0, 0)  # The position at the step's beginning.
        # (position behind, batch) of the step under way, and those to be given once more.
        self._kept: List[Tuple[_Position, Any]] = []
        self._again: List[Tuple[_Position, Any]] = []

    def __len__(self) -> int:
        """Steps of an epoch, with the present ranks and one pass each."""
        return self.samples // (self.batch * self._run.data_world_size)

    @property
    def batch(self) -> int:
        """Samples of a batch of this rank."""
        return self.batch_size or self._run.batch_per_rank

    @property
    def epoch(self) -> int:
        """The epoch of the newest batch, from 0."""
        return self._position[0]

    def _begin(self, _step: Tuple[int, int]) -> None:
        """A step begins. For Step."""
        engine = self._run._engine
        if engine.openings != self._openings:
            self._openings = engine.openings
            self._open(engine)
        self._began = self._position
        self._kept = []

    def _take(self) -> Any:
        """The next batch. For Step."""
        if self._again:
            self._position, batch = self._again.pop(0)
        else:
            batch = next(self._iterator)
            self._position = self._positions.popleft()
        self._kept.append((self._position, batch))
        self._run._engine.set_position(*self._position)
        return batch

    def _ahead(self, count: int) -> List[Any]:
        """The next batches of the step under way, which are not taken yet. For paceline.hf."""
        while len(self._again) < count:
            batch = next(self._iterator)
            self._again.append((self._positions.popleft(), batch))
        return [batch for _, batch in self._again[:count]]

    def _drop(self) -> None:
        """Leaves the iterator, which may be broken: the next step makes another one. For Run."""
        self._as = None

    def _forget(self) -> None:
        """The next batch is the first. For Rehearsal."""
        self._drop()
        self._openings, self._iterator = -1, iter(())
        self._position = self._began = (0, 0)
        self._kept, self._again = [], []

    def _open(self, engine: Engine) -> None:
        start = engine.position
        taken_as = (self._run.data_rank, self._run.data_world_size, self.batch)
        # Without workers the batches are drawn anew, as their random numbers are the training's.
        has_workers = self._of_dataloader.get("num_workers", 0) > 0
        if self._as == taken_as and start == self._began and has_workers:
            self._again = self._kept + self._again
            self._position = start
            return
        if self._as == taken_as and start == self._position:
            return
        if self.samples < self.batch * self._run.data_world_size:
            raise ValueError(f"the dataset has {self.samples} samples, less than the "
                             f"{self.batch * self._run.data_world_size} of one batch of all ranks")
        self._as = taken_as
        self._again = []
        self._position = start
        self._positions.clear()
        # An iterator draws its workers' seed: not from the training's random numbers, which would
        # be others after a restart.
        of_dataloader: Dict[str, Any] = {
            "generator": torch.Generator().manual_seed(self._run.seed), **self._of_dataloader}
        self._iterator = iter(DataLoader(
            self._dataset, batch_sampler=self._indices(start), **of_dataloader))

    def _indices(self, start: _Position) -> _BatchSampler:
        run = self._run
        sampler = run._engine.sampler(
            samples=self.samples, rank=run.data_rank, world_size=run.data_world_size,
            batch=self.batch, shuffle=self.shuffle, epoch=start[0], offset=start[1])
        return _BatchSampler(sampler, self._positions)


class _BatchSampler:
    """Batches of indices without end. Notes the position behind each."""

    def __init__(self, sampler: Sampler, positions: Deque[_Position]) -> None:
        self._sampler = sampler
        self._positions = positions

    def __iter__(self) -> Iterator[List[int]]:
        while True:
            indices = self._sampler.next()
            self._positions.append(self._sampler.position)
            yield indices


class _Taken(NamedTuple):
    """A batch, and what was so behind it."""

    batch: Any
    numbers: Any  # The random numbers; None: they went on since.
    behind: Any   # The loader's own position, if it tells one.


class Iterable:
    """Batches of any iterable, gone through again and again.

    Gives those of a step that was cut off once more; how far it is, is not saved. keeps: whether a
    step may be cut off.
    """

    def __init__(self, iterable: typing.Iterable[Any], keeps: bool) -> None:
        self._iterable = iterable
        self._keeps = keeps
        self._iterator: Optional[Iterator[Any]] = None
        self._has_given = False
        self._step: Optional[Tuple[int, int]] = None
        self._behind: Any = None  # Of the newest batch given.
        # Of the step under way, and those to be given once more.
        self._kept: List[_Taken] = []
        self._again: List[_Taken] = []

    def _begin(self, step: Tuple[int, int]) -> None:
        """A step begins: its number, and how many this rank has made. For Step."""
        if step == self._step:
            self._again = self._kept + self._again
        else:
            # What a step with fewer passes has left.
            self._again = [one._replace(numbers=None) for one in self._again]
        self._step = step
        self._kept = []

    def _take(self) -> Any:
        """The next batch. For Step."""
        if self._again:
            taken = self._again.pop(0)
            if taken.numbers is not None:
                restore_random_numbers(taken.numbers)
        else:
            batch = self._next()
            taken = _Taken(batch, random_numbers() if self._keeps else None, self._position())
        if self._keeps:
            self._kept.append(taken)
        self._behind = taken.behind
        return taken.batch

    def serves(self, step: Tuple[int, int]) -> bool:
        """Whether batches of this step, as in _begin, were taken from here."""
        return self._step == step

    def _position(self) -> Any:
        return None

    def _next(self) -> Any:
        for _ in range(2):
            if self._iterator is None:
                self._iterator = iter(self._iterable)
            for batch in self._iterator:
                self._has_given = True
                return batch
            self._iterator = None
        if self._has_given:
            raise ValueError("the loader of step.batches has come to its end, and cannot be gone "
                             "through again: give it something that begins anew each time, as a "
                             "DataLoader does")
        raise ValueError("the loader of step.batches has no batches")


class OwnLoader(Iterable):
    """A loader that tells its position, as torchdata's StatefulDataLoader, attached as `own`.

    Once it gives the batches of steps, its state is that behind the batches of those that are done:
    neither of a step that was cut off, nor of batches that are to be given once more.
    """

    def __init__(self, loader: Any, keeps: bool) -> None:
        super().__init__(loader, keeps)
        self._loader = loader
        self._began: Any = None  # The state at the beginning of the step.

    def state_dict(self) -> Any:
        return self._behind if self._is_ahead() else self._loader.state_dict()

    def load_state_dict(self, loaded: Any) -> None:
        self._loader.load_state_dict(copy.deepcopy(loaded))
        self._behind = loaded
        self._iterator = None
        self._kept, self._again = [], []

    def keep(self) -> None:
        """A step begins that may be cut off. For State."""
        self._began = copy.deepcopy(self.state_dict())

    def undo(self) -> None:
        """The step was cut off. For State."""
        if self._is_ahead():
            self._behind = self._began
        else:
            self._loader.load_state_dict(copy.deepcopy(self._began))

    def drop(self) -> None:
        """Leaves the iterator, which may be broken: the next step makes another one. For Run."""
        self._iterator = None

    def _begin(self, step: Tuple[int, int]) -> None:
        if not self._is_ahead():
            self._behind = self._began
        super()._begin(step)

    def _is_ahead(self) -> bool:
        """Whether the loader may be further than the steps that are done."""
        return self._keeps and self._step is not None

    def _position(self) -> Any:
        return copy.deepcopy(self._loader.state_dict()) if self._keeps else None
