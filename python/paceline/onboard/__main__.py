"""`python -m paceline.onboard SCRIPT`: what `paceline init` runs."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
import tempfile
import tokenize
from typing import Dict, List, NamedTuple, Optional

from paceline.onboard.job_file import job_file_name
from paceline.onboard.proposal import Proposal, diff, propose

# Exit codes of `paceline` (cli/exit_codes.h).
_OK, _FAILED, _USAGE, _NOT_FOUND = 0, 1, 2, 3
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class _File(NamedTuple):
    path: str
    text: str
    encoding: str


def main(arguments: List[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="paceline init", description=(
        "Proposes how a PyTorch script becomes a session, and its job file."))
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("--write", action="store_true", help="write what is proposed")
    parser.add_argument("--output", choices=("table", "json"), default="table")
    flags = parser.parse_args(arguments)
    try:
        file = _read(flags.script)
    except FileNotFoundError:
        return _fail(f"there is no {flags.script}", _NOT_FOUND)
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        return _fail(f"{flags.script} cannot be read: {error}", _FAILED)
    name = os.path.basename(file.path)
    venv = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX") or ""
    proposal = propose(file.text, name, venv)
    job_path = os.path.join(os.path.dirname(file.path), job_file_name(name))
    has_job = os.path.lexists(job_path)
    if has_job:
        proposal = proposal._replace(job=None)
    if flags.output == "table":
        _show(file, proposal, job_path, has_job)
    changes = proposal.edited is not None or proposal.job is not None
    write = changes and (flags.write or flags.output == "table" and _agrees())
    if write:
        problem = _write(file, proposal, job_path)
        if problem:
            return _fail(problem, _FAILED)
    if flags.output == "json":
        print(json.dumps(_as_json(file, proposal, job_path, write), indent=2))
    elif write:
        written = [file.path] * (proposal.edited is not None) + [job_path] * (
            proposal.job is not None)
        _tell(f"Written: {', '.join(written)}.")
    elif changes:
        _tell(f"Nothing was written; `paceline init --write {flags.script}` writes it.")
    return _OK if proposal.outcome in ("proposed", "session") else _FAILED


def _read(path: str) -> _File:
    real = os.path.realpath(path)
    with open(real, "rb") as file:
        encoding, _ = tokenize.detect_encoding(file.readline)
        file.seek(0)
        return _File(real, file.read().decode(encoding), encoding)


def _diffs(file: _File, proposal: Proposal, job_path: str) -> str:
    parts: List[str] = []
    if proposal.edited is not None:
        parts.append(diff(file.text, proposal.edited, file.path, file.path))
    if proposal.job is not None:
        parts.append(diff("", proposal.job, "/dev/null", job_path))
    return "".join(parts)


def _show(file: _File, proposal: Proposal, job_path: str, has_job: bool) -> None:
    """What is proposed on the standard output, all else on that of errors."""
    name = proposal.script
    for what, where in proposal.found.items():
        _tell(f"{name}: {what}: {where}")
    if proposal.outcome == "session":
        _tell(f"{name} is a session already; it stays as it is.")
    elif proposal.outcome == "adapter":
        _tell(f"{name}:{proposal.line}: {proposal.stopped} makes the loop: {proposal.remedy}. "
              "As it is, the script runs by `paceline run`.")
    elif proposal.outcome == "unclear":
        _tell(f"{name}:{proposal.line}: stopped here: {proposal.stopped}.\n"
              f"What to do: {proposal.remedy}.\n"
              "Nothing is proposed. As it is, the script runs by `paceline run`.")
    sys.stdout.write(_CONTROL.sub(_escaped, _diffs(file, proposal, job_path)))
    sys.stdout.flush()
    for must, title in ((True, "Before it runs, do by hand:"), (False, "Worth a look:")):
        notes = [one for one in proposal.notes if one.must == must]
        if notes:
            _tell(title)
        for one in notes:
            _tell(f"  {name}:{one.line}: {one.text}.")
    if has_job and proposal.outcome in ("proposed", "session"):
        _tell(f"{job_path} is there already, and stays as it is.")


def _escaped(match: "re.Match[str]") -> str:
    return f"\\x{ord(match.group()):02x}"


def _agrees() -> bool:
    """Asks, if both ends are a terminal."""
    if not (sys.stdin and sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    try:
        return input("Write this? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _write(file: _File, proposal: Proposal, job_path: str) -> str:
    """Returns what went wrong; empty: nothing. Files are written whole or not at all."""
    try:
        if proposal.edited is not None:
            if _read(file.path).text != file.text:
                return f"{file.path} has changed meanwhile; nothing was written"
            _replace(file.path, proposal.edited.encode(file.encoding))
        if proposal.job is not None:
            with open(job_path, "x", encoding="utf-8") as job:
                job.write(proposal.job)
    except (OSError, SyntaxError, UnicodeError) as error:
        return f"cannot write: {error}"
    return ""


def _replace(path: str, content: bytes) -> None:
    """Puts the content in the place of the file's, with its mode."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".paceline-init-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        shutil.copymode(path, temporary)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _as_json(file: _File, proposal: Proposal, job_path: str, written: bool) -> Dict[str, object]:
    return {"script": file.path, "outcome": proposal.outcome, "found": proposal.found,
            "line": proposal.line, "stopped": proposal.stopped, "remedy": proposal.remedy,
            "notes": [one._asdict() for one in proposal.notes],
            "diff": _diffs(file, proposal, job_path),
            "job_file": {"path": job_path, "text": proposal.job or ""}, "written": written}


def _tell(text: str) -> None:
    print(_CONTROL.sub(_escaped, text), file=sys.stderr, flush=True)


def _fail(text: str, code: int) -> int:
    _tell(f"error: {text}")
    return code


def run(arguments: Optional[List[str]] = None) -> int:
    """As main; an interrupt ends it as `paceline`'s other verbs."""
    if sys.version_info < (3, 9):
        return _fail("paceline init needs Python 3.9 or newer, and this is "
                     f"{sys.version.split()[0]}; activate an environment with one", _FAILED)
    try:
        return main(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # Nobody reads on.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _FAILED


if __name__ == "__main__":
    sys.exit(run())
