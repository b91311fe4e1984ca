"""The job file that goes with a script (docs/job-file.md)."""

from __future__ import annotations

import json
import re
from typing import List, NamedTuple, Optional, Tuple, Union

_PLAIN = re.compile(r"[A-Za-z_/][\w./-]*")
_WORDS = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
_COLUMN = 34  # Of the comments.


class Said(NamedTuple):
    """A number of the job file, and where it comes from."""

    number: int
    origin: str  # "as max_iters says in line 65"; with `guess`, why.
    is_guess: bool


class Job(NamedTuple):
    """What is known of the job of a script."""

    script: str  # Its file name, without folders.
    steps: Said
    batch: Optional[Said] = None
    accumulation: Optional[Said] = None
    is_sharded: bool = False
    has_scaler: bool = False
    names_cuda: bool = False
    venv: str = ""
    required: Tuple[str, ...] = ()  # Arguments without which the script does not start.


def job_name(script: str) -> str:
    """What the job may be called: `train.py` as train."""
    name = re.sub(r"[^a-z0-9]", "-", script.rsplit(".", 1)[0].lower()).strip("-")
    if not name[:1].isalpha():
        name = f"run-{name}".rstrip("-")
    return name[:63].rstrip("-")


def job_file_name(script: str) -> str:
    return script.rsplit(".", 1)[0] + ".yaml"


def ranks_of(is_sharded: bool) -> int:
    """How many ranks are proposed."""
    return 4 if is_sharded else 2


def text_of_job(job: Job) -> str:
    """The YAML, in which a guess is marked as one."""
    lines = [f"# Made by `paceline init {job.script}`; docs/job-file.md has all keys.",
             "# What the script does not say is marked as a guess: look at it before you submit."]
    lines.append(f"name: {job_name(job.script)}")
    ranks = ranks_of(job.is_sharded)
    lines.append(_guess(f"ranks: {ranks}", "as many as you have slots or GPUs for, less a spare"))
    if job.is_sharded:
        lines.append(_guess("shards: 2", "ranks that hold one copy of the model together"))
    if job.names_cuda:
        lines.append(_guess("device: cuda", "the script names it; without GPUs leave it out"))
    lines.append(f"command: [python3, {_quoted(job.script)}]")
    if job.required:
        lines.append(f"# The script does not start without {', '.join(job.required)}: give them "
                     "behind its name.")
    lines.append("session: true")
    if job.venv:
        lines.append(_guess(f"venv: {_quoted(job.venv)}", "the active one, on all nodes"))
    else:
        lines.append("# venv: .venv" + " " * (_COLUMN - 13)
                     + "# Your environment with torch and paceline.")
    lines.append(_said("steps", job.steps))
    if job.batch is not None:
        lines.append(_said("batch_per_rank", job.batch))
    if job.accumulation is not None:
        lines.append(_said("accumulation_steps", job.accumulation))
    if job.has_scaler:
        lines.append(_comment("on_nonfinite: skip", "As a GradScaler needs it."))
    lines.append("strategy: ddp")
    lines += _kept_and_recovered()
    return "\n".join(lines) + "\n"


def _kept_and_recovered() -> List[str]:
    return ["checkpoint:",
            _guess("  directory: checkpoints", "beside this file; all nodes have to see it"),
            _guess("  every_steps: 500", "a few minutes of training"),
            "recovery:",
            _guess("  max_failures: 10", "ranks that may be lost within an hour"),
            _comment("  # spares: 1", "A trainer that stands by, in a slot of its own.")]


def _quoted(text: str) -> str:
    """A text of YAML; JSON's are some."""
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text)


def _said(key: str, said: Said) -> str:
    line = f"{key}: {said.number}"
    return _guess(line, said.origin) if said.is_guess else _comment(line, said.origin)


def _guess(line: str, why: str) -> str:
    return _comment(line, f"A guess: {why}.")


def _comment(line: str, text: str) -> str:
    return f"{line.ljust(_COLUMN - 1)} # {text}"


def whole(number: Union[int, float]) -> Optional[int]:
    """A number of the script as one that the job file takes."""
    return int(number) if number == int(number) and 1 <= number < 2**31 else None
