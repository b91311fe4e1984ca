"""What goes to a tracker, and which part of it the tracker has already. No IO, no clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, Iterable, List, NamedTuple

MOST_POINTS = 20_000  # Of a backlog.
MOST_MARKS = 1_000


class Point(NamedTuple):
    """A value of a curve."""

    name: str
    step: int  # Steps completed.
    value: float  # May be NaN or infinite.
    time: float  # Unix time.


class Mark(NamedTuple):
    """An event of the job."""

    id: int  # 1-based within the job, rising. 0: of the follower itself.
    step: int
    kind: str
    warning: bool
    text: str  # One line.
    time: float


@dataclass
class Batch:
    """Points and marks in the order in which they were found."""

    points: List[Point] = field(default_factory=lambda: [])
    marks: List[Mark] = field(default_factory=lambda: [])

    def __bool__(self) -> bool:
        return bool(self.points or self.marks)


@dataclass
class Position:
    """What a tracker has: of each curve all up to a step, and all marks up to an id."""

    steps: Dict[str, int] = field(default_factory=lambda: {})
    mark: int = 0
    floor: int = -1  # Step of curves that are not in `steps`.

    def beyond(self, batch: Batch) -> Batch:
        """Returns the part of `batch` that is new here, in which the steps of each curve rise.

        Steps that a job makes again after a restart are not new: the first value counts.
        """
        steps: Dict[str, int] = {}
        fresh = Batch()
        for point in batch.points:
            if point.step > steps.get(point.name, self.step_of(point.name)):
                steps[point.name] = point.step
                fresh.points.append(point)
        newest = self.mark
        for mark in batch.marks:
            if mark.id == 0 or mark.id > newest:
                newest = max(newest, mark.id)
                fresh.marks.append(mark)
        return fresh

    def step_of(self, name: str) -> int:
        """The last step of a curve; -1: it has none."""
        return self.steps.get(name, self.floor)

    def advance(self, written: Iterable[Point], marks: Iterable[Mark]) -> None:
        """Notes what the tracker has got."""
        for point in written:
            self.steps[point.name] = max(point.step, self.step_of(point.name))
        for mark in marks:
            self.mark = max(self.mark, mark.id)


class Backlog:
    """What waits for a tracker. When it is full, every second point of each curve goes, so a long
    outage costs resolution and no part of the run; of marks, the oldest go.

    Thread-compatible.
    """

    def __init__(self, most_points: int = MOST_POINTS, most_marks: int = MOST_MARKS) -> None:
        self._most_points, self._most_marks = most_points, most_marks
        self._waiting = Batch()
        self.dropped = 0  # Points and marks, ever.

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting.points) + len(self._waiting.marks)

    def add(self, batch: Batch) -> None:
        """Appends a batch."""
        self._put(self._waiting.points + batch.points, self._waiting.marks + batch.marks)

    def put_back(self, batch: Batch) -> None:
        """Puts a batch that was taken, and could not be written, back to the front."""
        self._put(batch.points + self._waiting.points, batch.marks + self._waiting.marks)

    def take(self) -> Batch:
        """Removes and returns all."""
        taken, self._waiting = self._waiting, Batch()
        return taken

    def _put(self, points: List[Point], marks: List[Mark]) -> None:
        before = len(points) + len(marks)
        while len(points) > self._most_points:
            points = _every_second(points)
        marks = marks[-self._most_marks:]
        self._waiting = Batch(points, marks)
        self.dropped += before - len(self)


def _every_second(points: List[Point]) -> List[Point]:
    """Leaves out every second point of each curve, never the newest."""
    kept: List[Point] = []
    wanted: Dict[str, bool] = {}
    for point in reversed(points):
        take = wanted.get(point.name, True)
        wanted[point.name] = not take
        if take:
            kept.append(point)
    kept.reverse()
    # More curves than points may wait: then the older half goes.
    return kept if len(kept) < len(points) else kept[len(kept) // 2:]
