"""What a script traces by itself beside `paceline job profile`, which gives way to it.

Kineto, torch's tracer, has room for one trace in a process, and Python for one profile function
in a thread.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

import torch.autograd.profiler as of_torch
from torch._C._autograd import _profiler_enabled

if TYPE_CHECKING:
    from paceline.session import Run

_own = False  # A profiler of the script's is prepared or active.


def problem() -> str:
    """Why Paceline cannot trace this thread now, for people; empty: it can. For the engine."""
    if _own or _profiler_enabled():
        return "the script's own torch.profiler is active; ask again when it is not"
    if sys.getprofile() is not None:
        return ("the script has a profile function of its own (cProfile, sys.setprofile), and "
                "Python has room for one; ask again without it")
    return ""


def give_way(run: Run) -> None:
    """From now on, a profiler that the script starts ends a trace of Paceline's, and does not fail
    because of it. Call it on the thread that makes the steps.
    """
    thread = threading.get_ident()

    def on_begin(name: str) -> None:
        begin = getattr(of_torch, name)

        @functools.wraps(begin)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            global _own  # pylint: disable=global-statement
            if threading.get_ident() == thread and os.getpid() == run._pid:
                run._engine.give_up_profile("the script's own torch.profiler has begun")
            begun = begin(*args, **kwargs)
            _own = True
            return begun

        setattr(of_torch, name, wrapped)

    end = getattr(of_torch, "_disable_profiler")

    @functools.wraps(end)
    def on_end() -> Any:
        global _own  # pylint: disable=global-statement
        _own = False
        return end()

    for name in ("_prepare_profiler", "_enable_profiler"):
        on_begin(name)
    setattr(of_torch, "_disable_profiler", on_end)
