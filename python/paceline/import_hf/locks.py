"""Locks the files that an import makes, so that no other one makes one of them meanwhile."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from typing import BinaryIO, Generator, List

from paceline.import_hf.sources import Problem

_HOLDER_BYTES = 4096


def folder_beside(path: str) -> str:
    """Has the file's lock while it is made, and the pieces that are joined to it."""
    return path + ".import"


@contextlib.contextmanager
def locked(outputs: List[str], out: str) -> Generator[None, None, None]:
    """Holds the locks of all files. A Problem says which other import has one. `out`: what others
    are told of this one."""
    holder = f"process {os.getpid()} on {socket.gethostname()}, with --out {out}"
    with contextlib.ExitStack() as held:
        for path in sorted(outputs):  # Of two imports with several in common, one goes on.
            held.enter_context(_locked(path, holder))
        yield


@contextlib.contextmanager
def _locked(path: str, holder: str) -> Generator[None, None, None]:
    with contextlib.ExitStack() as closed, _open(path) as lock:
        if not _take(lock):
            raise _is_made(path, _holder_of(lock))
        closed.callback(_remove_empty, folder_beside(path))
        with contextlib.suppress(OSError):  # On a full disk it is held without a name.
            os.ftruncate(lock.fileno(), 0)
            os.write(lock.fileno(), holder.encode("utf-8", "surrogateescape"))
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                if _is_in_place(lock):
                    os.unlink(lock.name)


def _remove_empty(folder: str) -> None:
    """When its lock is closed: NFS keeps a file that is open. A folder with pieces stays."""
    with contextlib.suppress(OSError):
        os.rmdir(folder)


def _open(path: str) -> BinaryIO:
    folder = folder_beside(path)
    os.makedirs(folder, exist_ok=True)
    try:
        return open(os.path.join(folder, "lock"), "a+b")  # noqa: SIM115
    except FileNotFoundError:  # An import has just ended, and removed the folder.
        raise _is_made(path, "") from None


def _take(lock: BinaryIO) -> bool:
    """Whether no other import has the lock, nor has ended and removed it since it was opened."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return _is_in_place(lock)
    except (BlockingIOError, FileNotFoundError):
        return False


def _is_in_place(lock: BinaryIO) -> bool:
    return os.path.samestat(os.fstat(lock.fileno()), os.stat(lock.name))


def _holder_of(lock: BinaryIO) -> str:
    lock.seek(0)
    return " ".join(lock.read(_HOLDER_BYTES).decode("utf-8", "replace").split())


def _is_made(path: str, holder: str) -> Problem:
    by = f" ({holder})" if holder else ""
    return Problem(f"another import writes {path}{by}; wait for its end, or give the result "
                   "another name")
