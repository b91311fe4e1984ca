"""What the adapters for trainers of others have in common."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

if TYPE_CHECKING:
    from paceline.loader import Loader
    from paceline.session import Run

# What a DataLoader says, and run.loader takes.
_LOADER_OPTIONS = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn",
                   "multiprocessing_context", "prefetch_factor", "persistent_workers")
_OF_LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
_SWITCHES_OF_LAUNCHERS = ("ACCELERATE_USE_DEEPSPEED", "ACCELERATE_USE_FSDP")


def check_environment() -> None:
    """Raises RuntimeError if another program has started this process as one of its ranks."""
    found = [name for name in _OF_LAUNCHERS if name in os.environ]
    found += [name for name in _SWITCHES_OF_LAUNCHERS
              if os.environ.get(name, "").lower() in ("1", "true", "yes")]
    if found:
        raise RuntimeError(f"{', '.join(found)} of torchrun or `accelerate launch` are set; a "
                           "session's ranks are started by a job with `session: true`, or one by "
                           "`python train.py`")


def loader_like(run: Run, given: Any) -> Loader:
    """A run.loader over the samples of a DataLoader, with its collate_fn and workers: its batches
    have the job's size, and it shuffles if that one does.

    Raises TypeError or ValueError for samples or a sampler that a session cannot divide.
    """
    dataset: Any = given.dataset
    kind = type(dataset).__name__
    if isinstance(dataset, IterableDataset):
        raise TypeError(f"the training data is a {kind}, an IterableDataset, "
                        "whose samples a session cannot divide among changing ranks; give a "
                        "map-style dataset, or write the loop yourself with step.batches "
                        "(docs/session.md)")
    # Its own one, made from batch_size; accelerate's shards it.
    if given.batch_sampler is not None and type(given.batch_sampler).__name__ not in (
            BatchSampler.__name__, "BatchSamplerShard"):
        raise ValueError(f"a {type(given.batch_sampler).__name__} makes the batches, and a session "
                         "makes them by itself, from samples that it divides among its ranks; give "
                         "the DataLoader batch_size and shuffle instead of batch_sampler")
    sampler = getattr(given.batch_sampler, "sampler", given.sampler)
    shuffles = (isinstance(sampler, RandomSampler)
                or type(sampler).__name__ == "SeedableRandomSampler")  # Accelerate's.
    if not shuffles and not isinstance(sampler, SequentialSampler):
        raise ValueError(f"a {type(sampler).__name__} draws the training samples, and a session "
                         "divides them among its ranks by itself; use torch's RandomSampler or "
                         "SequentialSampler (shuffle=True or False)")
    return run.loader(dataset, shuffle=shuffles,
                      **{name: getattr(given, name) for name in _LOADER_OPTIONS})
