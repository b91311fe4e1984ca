"""Where a session's batches come from."""

import collections

import torch
from torch.utils.data import DataLoader


class Loader:
    """A DataLoader whose position is two numbers. Made by Run.loader()."""

    def __init__(self, run, dataset, batch_size, shuffle, of_dataloader):
        for key in ("sampler", "batch_sampler", "drop_last"):
            if key in of_dataloader:
                raise ValueError(f"{key} does not go with run.loader, whose ranks share the samples "
                                 "by themselves; use a DataLoader of your own")
        if not hasattr(dataset, "__len__"):
            raise TypeError(f"a {type(dataset).__name__} has no length; run.loader takes a "
                            "map-style dataset, others go into step.batches as they are")
        self.samples = len(dataset)
        self._run = run
        self._dataset = dataset
        self._batch_size = batch_size
        self._shuffle = shuffle
        self._of_dataloader = of_dataloader
        self._as = None        # (rank, world_size, batch) that the iterator is for.
        self._openings = -1
        self._iterator = None
        self._positions = collections.deque()  # Behind each batch that the iterator has drawn.
        self._position = (0, 0)                # Behind the batches taken.
        self._step = None
        self._began = (0, 0)    # The position at the step's beginning.
        self._kept = []         # (position behind, batch) of the step under way.
        self._again = []        # Those of them that are to be given once more.

    def __len__(self):
        """Steps of an epoch, with the present ranks and one pass each."""
        return self.samples // (self.batch * self._run.world_size)

    @property
    def batch(self):
        return self._batch_size or self._run.batch_per_rank

    @property
    def epoch(self):
        """The epoch of the newest batch, from 0."""
        return self._position[0]

    def begin(self, number):
        """A step begins. For Step."""
        engine = self._run._engine
        if engine.openings != self._openings:
            self._openings = engine.openings
            self._open(engine)
        self._step = number
        self._began = self._position
        self._kept = []

    def take(self):
        """The next batch. For Step."""
        if self._again:
            self._position, batch = self._again.pop(0)
        else:
            batch = next(self._iterator)
            self._position = self._positions.popleft()
        self._kept.append((self._position, batch))
        self._run._engine.set_position(*self._position)
        return batch

    def _open(self, engine):
        start = tuple(engine.position)
        taken_as = (self._run.rank, self._run.world_size, self.batch)
        if self._as == taken_as and start == self._began:
            self._again = self._kept + self._again
            self._position = start
            return
        if self._as == taken_as and start == self._position:
            return
        if self.samples < self.batch * self._run.world_size:
            raise ValueError(f"the dataset has {self.samples} samples, less than the "
                             f"{self.batch * self._run.world_size} of one batch of all ranks")
        self._as = taken_as
        self._again = []
        self._position = start
        self._positions.clear()
        # An iterator draws its workers' seed: not from the training's random numbers, which would be
        # others after a restart.
        of_dataloader = {"generator": torch.Generator().manual_seed(self._run.seed),
                         **self._of_dataloader}
        self._iterator = iter(DataLoader(
            self._dataset, batch_sampler=self._indices(start), **of_dataloader))

    def _indices(self, start):
        rank, world_size, batch = self._as
        sampler = self._run._engine.sampler(
            samples=self.samples, rank=rank, world_size=world_size, batch=batch,
            shuffle=self._shuffle, epoch=start[0], offset=start[1])
        return _BatchSampler(sampler, self._positions)


class _BatchSampler:
    """Batches of indices without end. Notes the position behind each."""

    def __init__(self, sampler, positions):
        self._sampler = sampler
        self._positions = positions

    def __iter__(self):
        while True:
            indices = self._sampler.next()
            self._positions.append(tuple(self._sampler.position))
            yield indices


class Iterable:
    """Batches of any iterable, gone through again and again.

    Gives those of a step that was cut off once more; how far it is, is not saved.
    """

    def __init__(self, iterable):
        self._iterable = iterable
        self._iterator = iter(iterable)
        self._step = None
        self._kept = []
        self._again = []

    def begin(self, number):
        """A step begins. For Step."""
        self._again = self._kept + self._again if number == self._step else []
        self._step = number
        self._kept = []

    def take(self):
        """The next batch. For Step."""
        batch = self._again.pop(0) if self._again else self._next()
        self._kept.append(batch)
        return batch

    def _next(self):
        for _ in range(2):
            for batch in self._iterator:
                return batch
            self._iterator = iter(self._iterable)
        raise ValueError("the loader of step.batches has no batches")
