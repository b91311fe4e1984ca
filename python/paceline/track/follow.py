"""Follows one job until its end, for all of its trackers."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Callable, List, Mapping, NamedTuple, Optional, Sequence

from paceline.track import figures
from paceline.track.controller import Away, Controller, Gone, Refused
from paceline.track.delivery import Delivery
from paceline.track.points import Batch, Position
from paceline.track.tracker import JobFacts, Say, Tracker, TrackerUnusable

POLL_S = 5.0
GRACE_S = 60.0  # For trackers, at the end.
_STOPPED_GRACE_S = 10.0  # When the follower is stopped before the job's end.
_RANKS_PER_POLL = 256  # A job of so many ranks is described with each poll, of more less often.
_OVERLAP_MINUTES = 1.0


class Snapshot(NamedTuple):
    """What one poll has found."""

    batch: Batch
    job: Mapping[str, Any]  # As last described.


class Poller:
    """Asks the controller for what is new of a job."""

    def __init__(self, controller: Controller, job: Mapping[str, Any],
                 clock: Callable[[], float] = time.time) -> None:
        self._controller, self._job, self._clock = controller, job, clock
        self._id = str(job["id"])
        self._found = Position()  # By earlier polls.
        self._event = self._event_step = 0  # The last event, and its step.
        self._answered: Optional[float] = None  # When the last poll was.
        self._skipped = 0

    def poll(self) -> Snapshot:
        """Raises Away, and asks for the same again next time."""
        now = self._clock()
        batch = Batch()
        # First, so that a job that has ended is followed by all that there is to know of it.
        if self._describes():
            self._job = self._controller.job(self._id)
        batch.points += figures.points_of_job(self._job, now)
        minutes = (0.0 if self._answered is None
                   else (now - self._answered) / 60 + _OVERLAP_MINUTES)
        series = self._controller.series(self._id, minutes)
        batch.points += figures.points_of_series(series, self._job, now)
        if series.get("end_time") and not figures.has_ended(self._job):
            self._job = self._controller.job(self._id)
            batch.points += figures.points_of_job(self._job, now)
        history = self._controller.history(self._id, self._event)
        marks, self._event_step = figures.marks_of_history(history, self._event_step)
        batch.marks += marks
        self._event = figures.last_event(history, self._event)
        self._answered = now
        batch = self._found.beyond(batch)
        self._found.advance(batch.points, batch.marks)
        return Snapshot(batch, self._job)

    def _describes(self) -> bool:
        self._skipped += 1
        if self._skipped <= len(self._job.get("ranks", [])) // _RANKS_PER_POLL:
            return False
        self._skipped = 0
        return True


def trackers_of(wanted: Mapping[str, Any], job: Mapping[str, Any], positions: Path,
                say: Say) -> List[Tracker]:
    """Makes the trackers of a Tracker message (proto/job_spec.proto).

    Says which cannot be used; raises TrackerUnusable if none can.
    """
    facts = JobFacts(str(job["id"]), str(job["spec"]["name"]), figures.facts_of(job))
    makers: List[Callable[[], Tracker]] = []
    if wanted.get("tensorboard"):
        makers.append(lambda: _tensorboard(wanted["tensorboard"], facts))
    if wanted.get("mlflow"):
        makers.append(lambda: _mlflow(wanted["mlflow"], facts, say))
    if wanted.get("wandb"):
        makers.append(lambda: _wandb(wanted["wandb"], facts, positions))
    if not makers:
        raise TrackerUnusable(f"job {facts.name} ({facts.id}) has no key `tracker`: give it in the "
                              "job file, or --tensorboard, --mlflow or --wandb here")
    made: List[Tracker] = []
    errors: List[str] = []
    for make in makers:
        try:
            made.append(make())
        except TrackerUnusable as error:
            errors.append(str(error))
    if not made:
        raise TrackerUnusable("; ".join(errors))
    for error_text in errors:
        say(f"without this tracker: {error_text}")
    return made


def follow(poller: Poller, deliveries: Sequence[Delivery], say: Say, stop: threading.Event,
           poll_s: float = POLL_S, grace_s: float = GRACE_S) -> bool:
    """Polls until the job has ended or `stop` is set; whether the trackers have got all."""
    told_away = False
    state: Optional[str] = None
    while not stop.is_set():
        try:
            snapshot = poller.poll()
        except Gone as error:
            say(f"the job has been deleted: {error}")
            break
        except (Away, Refused) as error:  # A token may be renewed, for example.
            if not told_away:
                say(f"the controller does not answer, and is asked again: {error}")
            told_away = True
        else:
            if told_away:
                say("the controller answers again")
            told_away = False
            for delivery in deliveries:
                delivery.offer(snapshot.batch)
            if figures.has_ended(snapshot.job):
                state = str(snapshot.job["state"])
                break
        stop.wait(poll_s)
    until = time.monotonic() + (grace_s if state is not None else min(grace_s, _STOPPED_GRACE_S))
    all_of_it = True
    for delivery in deliveries:
        all_of_it &= delivery.close(state, max(0.0, until - time.monotonic()))
    return all_of_it


def _tensorboard(wanted: Mapping[str, Any], facts: JobFacts) -> Tracker:
    from paceline.track.tensorboard_files import TensorBoardFiles

    return TensorBoardFiles(str(wanted["directory"]), facts)


def _mlflow(wanted: Mapping[str, Any], facts: JobFacts, say: Say) -> Tracker:
    from paceline.track.mlflow_run import MlflowRun

    return MlflowRun(str(wanted["uri"]), str(wanted.get("experiment", "")), facts, say)


def _wandb(wanted: Mapping[str, Any], facts: JobFacts, positions: Path) -> Tracker:
    from paceline.track.wandb_run import WandbRun

    return WandbRun(str(wanted["project"]), str(wanted.get("entity", "")),
                    bool(wanted.get("offline")), str(wanted.get("directory") or positions),
                    positions / f"{facts.id}.wandb.json", facts)
