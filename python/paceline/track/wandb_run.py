"""A job's run in Weights & Biases."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List, Optional

from paceline.track.points import Batch, Position
from paceline.track.tracker import JobFacts, client

LEAST, TESTED = "0.18", "0.31.0"
STEP, EVENT, EVENT_ID = "step", "paceline/event", "paceline/event_id"


class WandbRun:
    """The run whose id is the job's. Offline, each follower leaves a folder of that run, and
    `wandb sync` joins them.

    The client writes in the background and cannot be asked what it has, so the position is a file,
    which is written before the rows: what was being sent when the follower died is not sent again.
    """

    name = "Weights & Biases"

    def __init__(self, project: str, entity: str, offline: bool, directory: str,
                 position: Path, job: JobFacts) -> None:
        self._wandb = client("wandb", "wandb", LEAST, TESTED)
        self._project, self._entity, self._offline = project, entity, offline
        self._directory, self._file, self._job = directory, position, job
        self._run: Any = None
        self._rows = 0  # The next row of the run's history; the curves' x is STEP.
        self._position = Position()

    def open(self) -> Position:
        """As Tracker.open."""
        if self._run is None:
            os.makedirs(self._directory, exist_ok=True)
            self._run = self._wandb.init(
                project=self._project, entity=self._entity or None, id=self._job.id,
                name=self._job.name, resume="allow", mode="offline" if self._offline else "online",
                dir=self._directory, config=dict(self._job.facts),
                # This process is not the training: its output and load are of no interest.
                settings=self._wandb.Settings(console="off", silent=True, x_disable_stats=True,
                                              disable_git=True, disable_code=True))
            self._run.define_metric(STEP)
            self._run.define_metric("*", step_metric=STEP)
        self._position = self._read_back()
        return Position(dict(self._position.steps), self._position.mark, self._position.floor)

    def write(self, batch: Batch) -> None:
        """As Tracker.write."""
        rows: Dict[int, Dict[str, Any]] = {}
        for point in batch.points:
            rows.setdefault(point.step, {})[point.name] = point.value
        wanted: List[Dict[str, Any]] = [
            {STEP: mark.step, EVENT: f"{mark.kind}: {mark.text}", EVENT_ID: mark.id}
            for mark in batch.marks]
        wanted += [{STEP: step, **row} for step, row in sorted(rows.items())]
        first = self._rows
        self._rows += len(wanted)
        self._position.advance(batch.points, batch.marks)
        self._save()
        try:
            for number, row in enumerate(wanted, first):
                self._run.log(row, step=number)
        except Exception:
            self._run = None  # Its background process may be gone; open() starts another one.
            raise

    def close(self, state: Optional[str]) -> None:
        """As Tracker.close."""
        run, self._run = self._run, None
        if run is not None:
            run.finish(exit_code=0 if state in (None, "SUCCEEDED") else 1)

    def _read_back(self) -> Position:
        if self._file.exists():
            saved = json.loads(self._file.read_text(encoding="utf-8"))
            self._rows = max(int(saved["rows"]), self._run.step)
            return Position(saved["steps"], saved["mark"], saved["floor"])
        # Another machine has followed the job before: its last row counts for all curves.
        self._rows = self._run.step
        if not self._run.resumed:
            return Position()
        summary = self._run.summary
        return Position({}, int(summary.get(EVENT_ID) or 0), int(summary.get(STEP) or -1))

    def _save(self) -> None:
        self._file.parent.mkdir(parents=True, exist_ok=True)
        beside = self._file.with_suffix(".new")
        beside.write_text(json.dumps({
            "rows": self._rows, "steps": self._position.steps, "mark": self._position.mark,
            "floor": self._position.floor}), encoding="utf-8")
        os.replace(beside, self._file)
