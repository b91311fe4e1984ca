"""Points and marks of the controller's answers, as `paceline -o json` prints them. No IO.

The fields are those of proto/telemetry.proto, proto/job.proto and proto/job_history.proto.
"""

from __future__ import annotations

import calendar
import time
from typing import Any, Dict, Iterator, List, Mapping, Tuple, cast

from paceline.track.points import Mark, Point

# Of the engine's own curves. A script's keep the names that it reports.
PREFIX = "paceline/"

Json = Mapping[str, Any]

_OF_SERIES = ("loss", "samples_per_s", "tokens_per_s", "mfu")
_OF_STEPS = ("step_s", "wait_share", "data_wait_share")  # Known if a step ended in the period.
_OF_RANK = ("learning_rate", "grad_norm")
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


def unix_time(text: str) -> float:
    """Of a timestamp such as 2026-11-28T07:12:40.123456789Z."""
    whole, _, fraction = text.rstrip("Z").partition(".")
    seconds = calendar.timegm(time.strptime(whole, "%Y-%m-%dT%H:%M:%S"))
    return seconds + (float("0." + fraction) if fraction else 0.0)


def points_of_series(series: Json, job: Json, now: float) -> List[Point]:
    """The points of a JobSeries; `now` is the time of what its script reports."""
    found: List[Point] = []
    has_loss = _has_engine(job)
    for shown in series.get("points", []):
        step, when = int(shown["step"]), unix_time(shown["time"])
        if step <= 0:
            continue  # Nothing is known before the first step.
        for name in _OF_SERIES:
            value = float(shown.get(name, 0))
            # 0 is "not known" for rates, and a value for a loss.
            if (has_loss if name == "loss" else value > 0):
                found.append(Point(PREFIX + name, step, value, when))
        if float(shown.get("step_s", 0)) > 0:
            for name in _OF_STEPS:
                found.append(Point(PREFIX + name, step, float(shown.get(name, 0)), when))
    for number in series.get("reported", []):
        found.append(Point(_own_name(str(number["name"])), int(number["step"]),
                           float(number["mean"]), now))
    return found


def points_of_job(job: Json, now: float) -> List[Point]:
    """What a Job says besides: of its newest evaluation, and of the first rank that measures."""
    found: List[Point] = []
    evaluation = job.get("evaluation")
    if evaluation:
        step = int(evaluation["step"])
        found.append(Point(PREFIX + "eval_loss", step, float(evaluation["loss"]), now))
        if evaluation.get("accuracy") is not None:
            found.append(Point(PREFIX + "eval_accuracy", step, float(evaluation["accuracy"]), now))
    for rank in job.get("ranks", []):
        figures = rank.get("figures")
        if figures and int(figures.get("step", 0)) > 0:
            found += [Point(PREFIX + name, int(figures["step"]), float(figures[name]), now)
                      for name in _OF_RANK if name in figures and _has_engine(job)]
            break
    return found


def marks_of_history(history: Json, last_step: int = 0) -> Tuple[List[Mark], int]:
    """The events of a JobHistory but for evaluations, which are points.

    An event that has no step, such as a restart, is marked at the step of the event before it;
    `last_step` is that of earlier histories. Returns the last one beside the marks.
    """
    marks: List[Mark] = []
    for event in history.get("events", []):
        last_step = int(event.get("step", 0)) or last_step
        if event["kind"] != "EVALUATION":
            marks.append(Mark(int(event["id"]), last_step, str(event["kind"]).lower(),
                              bool(event.get("warning")), str(event["what"]),
                              unix_time(event["time"])))
    return marks, last_step


def last_event(history: Json, before: int) -> int:
    """The greatest id of a JobHistory, or `before`."""
    return max([before, *(int(event["id"]) for event in history.get("events", []))])


def has_ended(job: Json) -> bool:
    """Whether a Job has come to its end."""
    return job.get("state") in ENDED


def facts_of(job: Json) -> Dict[str, str]:
    """What a tracker shows of the job's file: single values, "optimizer.sgd.momentum"."""
    return {name: value for name, value in _leaves(job.get("spec", {}), "")
            if not name.startswith(("environment.", "tracker.", "code."))}


def _leaves(value: Any, path: str) -> Iterator[Tuple[str, str]]:
    if isinstance(value, Mapping):
        for name, item in cast("Mapping[str, Any]", value).items():
            yield from _leaves(item, f"{path}.{name}" if path else name)
    elif value not in (None, "", "UNSPECIFIED", [], 0, "0"):  # 0 and false: not given.
        yield path, str(value)


def _own_name(name: str) -> str:
    return "reported/" + name[len(PREFIX):] if name.startswith(PREFIX) else name


def _has_engine(job: Json) -> bool:
    """Whether Paceline's engine trains; the loss of a watched script is not known."""
    spec = job.get("spec", {})
    return not spec.get("command") or bool(spec.get("session"))
