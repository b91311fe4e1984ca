"""Where a session begins."""

from __future__ import annotations

import atexit
import os
import sys
from types import TracebackType
from typing import Mapping, Optional, Type

import torch

from paceline import _engines
from paceline.alone import AloneEngine
from paceline.profiling import give_way
from paceline.session import Run
from paceline.step import Step

_ORPHAN_TIMEOUT_S = 600.0

_newest: Optional[Run] = None  # Of this process.


def init(*, mesh: Optional[Mapping[str, int]] = None, steps: int = 100, batch_per_rank: int = 32,
         accumulation_steps: int = 1, seed: int = 0) -> Run:
    """Connects this process, a rank of a job with `session: true`, with its worker daemon.

    Call it once, before the model is made. Waits until the daemon has sent the job's file.

    Without a daemon (`python train.py`), the run has one rank, no telemetry and no checkpoints, so
    that a script can be tried by itself; only then `steps`, `batch_per_rank`, `accumulation_steps`
    and `seed` hold. Only then, too, it may be called again, as when a cell of a notebook is run
    once more: another run begins, and the former one is over.

    mesh: the dimensions of run.mesh and their sizes, whose product is `shards` of the job's file:
      {"shard": 4, "tensor": 2} is for fully_shard with run.mesh["shard"] and parallelize_module
      with run.mesh["tensor"]. Ranks that differ in "tensor" alone have neighbouring numbers, and
      the same samples. None: {"shard": shards}. With one shard, or without a daemon, all are 1.

    With `device: cuda` in the job's file, `run.device` is the rank's GPU, and torch's current one
    of this thread from then on.

    Returns a Run. Raises RuntimeError when the job is no session's, or has been connected before,
    ImportError when this package has no engine for this Python and torch, TrainingError when the
    node lacks what the job needs.
    """
    global _newest  # pylint: disable=global-statement
    if "PACELINE_SOCKET" not in os.environ:
        _leave(_newest)
        _newest = Run(AloneEngine(steps=steps, batch=batch_per_rank, passes=accumulation_steps,
                                  seed=seed), mesh)
        return _newest
    if "PACELINE_SESSION" not in os.environ:
        raise RuntimeError("this job runs a command that is no session: add `session: true` to its "
                           "file, or do not call paceline.init()")
    if _newest is not None:
        raise RuntimeError("paceline.init was called before; a process is one rank, and calls it "
                           "once")
    run = Run(_engines.load(os.environ.get("PACELINE_DEVICE", "cpu")).start(
        directory=os.environ["PACELINE_DIR"], socket=os.environ["PACELINE_SOCKET"],
        ring=os.environ["PACELINE_RING"],
        orphan_timeout_s=float(os.environ.get("PACELINE_ORPHAN_TIMEOUT_S", _ORPHAN_TIMEOUT_S))),
        mesh)
    _report_the_end(run)
    give_way(run)
    if run.device.type == "cuda":
        torch.cuda.set_device(run.device)  # The engine has; this tells torch's Python, too.
    _newest = run
    return run


def _leave(run: Optional[Run]) -> None:
    """Lets go of the former run's optimizer, and of a block that an interrupt has left open."""
    Step._active = None
    if run is not None and run._attached:
        run._hooks.remove()
        if run._sharded is not None:
            run._sharded.remove()
        run._attached = False


def _report_the_end(run: Run) -> None:
    former = sys.excepthook

    def tell(kind: Type[BaseException], error: BaseException,
             traceback: Optional[TracebackType]) -> None:
        former(kind, error, traceback)
        # pylint: disable-next=protected-access
        if not (run._finished or run._failed) and os.getpid() == run._pid:
            run._fail(error)  # pylint: disable=protected-access

    sys.excepthook = tell
    atexit.register(run.finish)
