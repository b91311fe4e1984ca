"""What the controller knows, asked by the `paceline` program.

The program finds the controller, its standbys, and who the caller is, as it does for people.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, List, Mapping, Optional

CALL_S = 60.0  # Longest time of a call of the program, which itself gives up after 30 s.
_NOT_FOUND, _NO_ANSWER, _LATE = 3, 6, 7  # Its exit codes (docs/cli.md).


class Away(Exception):
    """The controller does not answer; it may later."""


class Gone(Exception):
    """There is no such job."""


class Refused(Exception):
    """The program or the controller cannot do what is asked."""


class Controller:
    """Calls `program`, such as "paceline"."""

    def __init__(self, program: str) -> None:
        self._program = program

    def job(self, job: str) -> Mapping[str, Any]:
        """A Job, by id, prefix or name."""
        return self._ask("job", "describe", job)

    def jobs(self) -> List[Mapping[str, Any]]:
        """The newest jobs."""
        listed: List[Mapping[str, Any]] = self._ask("job", "list", "--limit", "1000")["jobs"]
        return listed

    def series(self, job_id: str, minutes: float) -> Mapping[str, Any]:
        """The JobSeries of the last minutes; 0: of all that are kept."""
        return self._ask("job", "metrics", job_id, "--minutes", f"{minutes:.2f}")

    def history(self, job_id: str, after_id: int) -> Mapping[str, Any]:
        """The JobHistory after an event."""
        return self._ask("job", "events", job_id, "--after", str(after_id))

    def _ask(self, *arguments: str) -> Mapping[str, Any]:
        try:
            ran = subprocess.run([self._program, *arguments, "--output", "json"], check=False,
                                 stdin=subprocess.DEVNULL, capture_output=True, timeout=CALL_S)
        except subprocess.TimeoutExpired:
            raise Away(f"`paceline {arguments[0]} {arguments[1]}` has not ended within "
                       f"{CALL_S:.0f} s") from None
        except OSError as error:
            raise Refused(f"cannot start {self._program}: {error.strerror}") from error
        said = " ".join(ran.stderr.decode("utf-8", "replace").split())
        if ran.returncode in (_NO_ANSWER, _LATE):
            raise Away(said)
        if ran.returncode == _NOT_FOUND:
            raise Gone(said)
        if ran.returncode != 0:
            raise Refused(said or f"paceline ended with exit code {ran.returncode}")
        answer: Mapping[str, Any] = json.loads(ran.stdout)
        return answer


def find_program(given: Optional[str]) -> str:
    """The program: as given, else the one that came with this package, else that of PATH."""
    beside = Path(__file__).parents[1] / "bin" / "paceline"
    if given:
        return given
    if os.access(beside, os.X_OK):
        return str(beside)
    return shutil.which("paceline") or "paceline"
