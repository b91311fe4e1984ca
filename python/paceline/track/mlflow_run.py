"""A job's run in MLflow."""

from __future__ import annotations

import os
import posixpath
from typing import Any, Dict, List, Optional, Set

from paceline.track.points import Batch, Point, Position
from paceline.track.tracker import JobFacts, Say, TrackerUnusable, client

LEAST, TESTED = "2.10", "3.17.2"
JOB_TAG = "paceline.job_id"
MARK_TAG = "paceline.event."  # And the event's id, so that no event is there twice.
_MOST_METRICS, _MOST_TAGS, _MOST_PARAMS = 500, 50, 100  # Of one call; MLflow takes more.
_MOST_TEXT = 500  # Of a tag's value and a parameter's.
_STATUS = {"SUCCEEDED": "FINISHED", "FAILED": "FAILED", "CANCELLED": "KILLED"}


def package() -> str:
    """The client that is installed: mlflow, or the smaller mlflow-skinny."""
    try:
        client("mlflow-skinny", "mlflow", LEAST, TESTED)
        return "mlflow-skinny"
    except TrackerUnusable:
        return "mlflow"


class MlflowRun:
    """The run of an experiment that has the job's id as a tag.

    The server's own record of it is the position: the last step of each metric, and the tags of
    marks. A metric's name that MLflow refuses is left out, and said once.
    """

    name = "MLflow"

    def __init__(self, uri: str, experiment: str, job: JobFacts, say: Say) -> None:
        # A call that gets no answer is tried again by the delivery, not within the client.
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
        if uri.startswith("file:"):  # Newer clients refuse such stores unless told so.
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        installed = package()
        self._tracking = client(installed, "mlflow.tracking", LEAST, TESTED)
        self._entities = client(installed, "mlflow.entities", LEAST, TESTED)
        self._refusal = client(installed, "mlflow.exceptions", LEAST, TESTED).MlflowException
        self._uri, self._experiment, self._job, self._say = uri, experiment or "Default", job, say
        self._client: Any = None
        self._run_id = ""
        self._position = Position()
        self._refused: Set[str] = set()

    def open(self) -> Position:
        """As Tracker.open."""
        self._client = self._tracking.MlflowClient(tracking_uri=self._uri)
        experiment = self._client.get_experiment_by_name(self._experiment)
        experiment_id = (experiment.experiment_id if experiment is not None
                         else self._client.create_experiment(self._experiment))
        runs = self._client.search_runs([experiment_id],
                                        f"tags.`{JOB_TAG}` = '{self._job.id}'", max_results=1)
        self._run_id = runs[0].info.run_id if runs else self._create(experiment_id)
        if runs and runs[0].info.status != "RUNNING":
            self._client.update_run(self._run_id, status="RUNNING")
        self._position = self._read_back()
        return Position(dict(self._position.steps), self._position.mark)

    def write(self, batch: Batch) -> None:
        """As Tracker.write."""
        # MLflow's names may differ from the curves'.
        points = [point._replace(name=_metric_name(point.name)) for point in batch.points]
        points = self._position.beyond(
            Batch([point for point in points if point.name not in self._refused])).points
        for first in range(0, len(points), _MOST_METRICS):
            self._write_points(points[first:first + _MOST_METRICS])
        self._position.advance(points, [])
        tags = [self._entities.RunTag(
            f"{MARK_TAG}{mark.id:06d}" if mark.id else f"paceline.gap.{mark.step:012d}",
            f"step {mark.step}: {mark.kind}: {mark.text}"[:_MOST_TEXT]) for mark in batch.marks]
        for first in range(0, len(tags), _MOST_TAGS):
            self._client.log_batch(self._run_id, tags=tags[first:first + _MOST_TAGS])

    def close(self, state: Optional[str]) -> None:
        """As Tracker.close."""
        if state is not None:
            self._client.set_terminated(self._run_id, status=_STATUS[state])

    def _create(self, experiment_id: str) -> str:
        run = self._client.create_run(experiment_id, run_name=self._job.name,
                                      tags={JOB_TAG: self._job.id})
        params = [self._entities.Param(_metric_name(name), value[:_MOST_TEXT])
                  for name, value in self._job.facts.items()]
        for first in range(0, len(params), _MOST_PARAMS):
            self._client.log_batch(run.info.run_id, params=params[first:first + _MOST_PARAMS])
        return str(run.info.run_id)

    def _write_points(self, points: List[Point]) -> None:
        try:
            self._log(points)
        except self._refusal:
            self._write_by_name(points)

    def _write_by_name(self, points: List[Point]) -> None:
        """Finds out which curves MLflow refuses; raises if it takes none."""
        has = self._read_back()  # Some may have been written.
        curves: Dict[str, List[Point]] = {}
        for point in points:
            curves.setdefault(point.name, []).append(point)
        failed: Dict[str, Exception] = {}
        taken = 0
        for name, curve in curves.items():
            last = has.step_of(name)
            try:
                self._log([point for point in curve if point.step > last])
                taken += 1
            except self._refusal as error:
                failed[name] = error
                if len(failed) > 2 and taken == 0:
                    raise
        if taken == 0:
            raise next(iter(failed.values()))
        for name, refusal in failed.items():
            self._refused.add(name)
            self._say(f"MLflow refuses the name {name}, which is left out there: "
                      f"{' '.join(str(refusal).split())[:200]}")

    def _log(self, points: List[Point]) -> None:
        if not points:
            return
        self._client.log_batch(self._run_id, metrics=[
            self._entities.Metric(point.name, point.value, int(point.time * 1000), point.step)
            for point in points])

    def _read_back(self) -> Position:
        data = self._client.get_run(self._run_id).data
        position = Position()
        # The newest of each metric with its step, for which the client has no public name.
        newest: Optional[List[Any]] = getattr(data, "_metric_objs", None)
        for name in data.metrics:
            if newest is None:
                steps = [m.step for m in self._client.get_metric_history(self._run_id, name)]
            else:
                steps = [m.step for m in newest if m.key == name]
            position.steps[name] = max(steps)
        for tag in data.tags:
            if tag.startswith(MARK_TAG):
                position.mark = max(position.mark, int(tag[len(MARK_TAG):]))
        return position


def _metric_name(name: str) -> str:
    """A name that is a plain relative path, as MLflow wants it."""
    plain = posixpath.normpath(name)
    if plain == name and not name.startswith(("/", "..")) and name != ".":
        return name
    return "_" + "_".join(part for part in name.split("/") if part.strip("."))
