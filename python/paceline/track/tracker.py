"""What a follower needs of a tracker, and how a tracker's own client is found."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Callable, Dict, Optional, Protocol, Tuple

from paceline.track.points import Batch, Position


class TrackerUnusable(Exception):
    """Trying again is of no use: a package is missing or too old, or the job file is wrong."""


@dataclass(frozen=True)
class JobFacts:
    """What a tracker's run is named by, and shows beside the curves."""

    id: str
    name: str
    facts: Dict[str, str]


class Tracker(Protocol):
    """One run in one tracker. All calls come from one thread, and may block or raise."""

    name: str

    def open(self) -> Position:
        """Finds or makes the run. Returns what it has, read back from where it is kept."""
        ...

    def write(self, batch: Batch) -> None:
        """Writes what is beyond the position that open() has returned, and earlier writes.

        If it raises, open() comes next: a part may have been written.
        """
        ...

    def close(self, state: Optional[str]) -> None:
        """Ends the run as the job did: SUCCEEDED, FAILED, CANCELLED. None: the job goes on."""
        ...


Say = Callable[[str], None]


def client(package: str, module: str, least: str, tested: str) -> Any:
    """Imports `module` of a tracker's client. Raises TrackerUnusable if that cannot be used."""
    advice = f"pip install '{package}>={least}' beside paceline (tested with {tested})"
    try:
        installed = version(package)
    except PackageNotFoundError:
        raise TrackerUnusable(f"the package {package} is not installed: {advice}") from None
    if _numbers(installed) < _numbers(least):
        raise TrackerUnusable(f"{package} {installed} is installed, which is too old: {advice}")
    try:
        return importlib.import_module(module)
    except Exception as error:  # pylint: disable=broad-except  # Whatever a client does there.
        raise TrackerUnusable(f"{package} {installed} cannot be imported ("
                              f"{type(error).__name__}: {error}): {advice}") from error


def _numbers(text: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
