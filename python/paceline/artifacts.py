"""Files and directories that a script has made, and reports (Run.artifact)."""

from __future__ import annotations

import hashlib
import os
import queue
import re
import threading
import time
from typing import Callable, Iterator, NamedTuple, Optional, Set, Tuple, Union

MOST_NAMES = 32
MOST_PATH = 1024  # Bytes.
MOST_FILES = 100_000  # Of a directory.
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,64}")
_PART = 1 << 20  # Bytes that are read at once.

Path = Union[str, "os.PathLike[str]"]
# As proto/status.proto has them: name, path, directory, bytes, sha256, step, time_us, error.
Report = Callable[[str, str, bool, int, str, int, int, str], None]


class _Artifact(NamedTuple):
    name: str
    path: str
    directory: bool
    step: int
    time_us: int
    report: Report


class Artifacts:
    """Reports each at once, and again when a thread of its own has hashed it."""

    def __init__(self) -> None:
        self._names: Set[str] = set()
        self._waiting: queue.SimpleQueue[Optional[_Artifact]] = queue.SimpleQueue()
        self._thread: Optional[threading.Thread] = None
        self._lock = threading.Lock()
        self._closed = False  # Guarded by the lock, which is held during a report.

    def add(self, path: Path, name: Optional[str], step: int, report: Report) -> None:
        """Raises what Run.artifact does; then nothing is reported."""
        whole: str = os.path.abspath(os.fspath(path))
        if name is None:
            name = os.path.basename(whole)
        directory = _check(whole, name)
        if name not in self._names and len(self._names) == MOST_NAMES:
            raise ValueError(f"run.artifact has got {MOST_NAMES} names, which is the most: "
                             f"{', '.join(sorted(self._names))}")
        self._names.add(name)
        artifact = _Artifact(name, whole, directory, step, time.time_ns() // 1000, report)
        report(name, whole, directory, 0, "", step, artifact.time_us, "")
        if self._thread is None:
            self._thread = threading.Thread(target=self._hash_all, name="paceline-artifacts",
                                            daemon=True)
            self._thread.start()
        self._waiting.put(artifact)

    def close(self, timeout_s: float) -> None:
        """Waits so long for what is not hashed yet. Nothing is reported afterwards."""
        if self._thread is not None:
            self._waiting.put(None)
            self._thread.join(timeout_s)
        with self._lock:
            self._closed = True

    def _hash_all(self) -> None:
        while True:
            artifact = self._waiting.get()
            if artifact is None:
                return
            size, sha256, error = 0, "", ""
            try:
                hashed = hash_directory if artifact.directory else hash_file
                size, sha256 = hashed(artifact.path)
            except (OSError, ValueError) as problem:
                error = str(problem).encode(errors="backslashreplace").decode()
            with self._lock:
                if self._closed:
                    return
                artifact.report(artifact.name, artifact.path, artifact.directory, size, sha256,
                              artifact.step, artifact.time_us, error)


def hash_file(path: str) -> Tuple[int, str]:
    """Its size, and its SHA-256 in hexadecimal. Raises ValueError if it changes meanwhile."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as file:
        before = os.fstat(file.fileno())
        while True:
            part = file.read(_PART)
            if not part:
                break
            digest.update(part)
        after = os.fstat(file.fileno())
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise ValueError(f"{path} changed while it was hashed; report it once it is complete")
    return after.st_size, digest.hexdigest()


def hash_directory(path: str) -> Tuple[int, str]:
    """The size of all its files, and the SHA-256 of what `sha256sum` prints of them, in the order
    of their paths. Raises ValueError if there are too many, or one changes meanwhile."""
    files = sorted(_files_below(path), key=os.fsencode)
    digest = hashlib.sha256()
    size = 0
    for file in files:
        file_size, sha256 = hash_file(os.path.join(path, file))
        size += file_size
        digest.update(f"{sha256}  ".encode() + os.fsencode(file) + b"\n")
    return size, digest.hexdigest()


def _files_below(path: str) -> Iterator[str]:
    count = 0
    for folder, _, names in os.walk(path):
        for name in names:
            file = os.path.join(folder, name)
            if not os.path.isfile(file):
                continue  # A socket, or a link that leads nowhere.
            count += 1
            if count > MOST_FILES:
                raise ValueError(f"{path} has more than {MOST_FILES} files, which are not hashed")
            yield os.path.relpath(file, path)


def _check(path: str, name: str) -> bool:
    """Whether the path is a directory. Raises what Run.artifact does."""
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for run.artifact, which has 1 to 64 letters, "
                         "digits, '_', '-', '.' and '/'; give another one by name=")
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise ValueError(f"the path {path!r} is not UTF-8, and cannot be reported") from None
    if size > MOST_PATH:
        raise ValueError(f"the path of run.artifact has {size} bytes, and {MOST_PATH} is the most: "
                         f"{path}")
    os.stat(path)
    return os.path.isdir(path)
