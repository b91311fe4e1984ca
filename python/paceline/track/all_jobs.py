"""Follows every job whose file has the key `tracker`, each in a process of its own."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import Any, Dict, List, Mapping, Set, Tuple

from paceline.track import figures
from paceline.track.controller import Away, Controller
from paceline.track.tracker import Say

POLL_S = 15.0
_RETRY_S = 60.0  # After a follower has failed.
_RECENT_S = 600.0  # A job that ended before that is over and done with.


class AllJobs:
    """Starts `command + [JOB_ID]` for each job. A tracker that blocks holds up only its own job."""

    def __init__(self, controller: Controller, command: List[str], say: Say) -> None:
        self._controller, self._command, self._say = controller, command, say
        self._running: Dict[str, subprocess.Popen[bytes]] = {}
        self._not_before: Dict[str, float] = {}
        self._done: Set[Tuple[str, str]] = set()  # Id and time of the end.
        self._ends: Dict[str, str] = {}  # When jobs had ended whose followers were started then.

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; then ends the followers."""
        told_away = False
        while not stop.is_set():
            try:
                self.look(self._controller.jobs(), time.time())
                told_away = False
            except Away as error:
                if not told_away:
                    self._say(f"the controller does not answer, and is asked again: {error}")
                told_away = True
            stop.wait(POLL_S)
        for process in self._running.values():
            process.terminate()
        for process in self._running.values():
            process.wait()

    def look(self, jobs: List[Mapping[str, Any]], now: float) -> None:
        """Takes in who has ended, and starts who is missing."""
        for job_id in [one for one, process in self._running.items()
                       if process.poll() is not None]:
            if self._running.pop(job_id).returncode != 0:
                self._not_before[job_id] = now + _RETRY_S
            elif job_id in self._ends:
                self._done.add((job_id, self._ends[job_id]))
        for job in jobs:
            job_id = str(job["id"])
            if job_id in self._running or not self.is_due(job, now):
                continue
            self._ends.pop(job_id, None)
            if figures.has_ended(job):
                self._ends[job_id] = str(job["end_time"])
            self._running[job_id] = subprocess.Popen([*self._command, job_id],
                                                     stdin=subprocess.DEVNULL)

    def is_due(self, job: Mapping[str, Any], now: float) -> bool:
        """Whether a job is to be followed from now on."""
        job_id = str(job["id"])
        if not job.get("spec", {}).get("tracker") or now < self._not_before.get(job_id, 0):
            return False
        if not figures.has_ended(job):
            return True
        end = str(job.get("end_time", ""))
        return (bool(end) and (job_id, end) not in self._done
                and now - figures.unix_time(end) < _RECENT_S)
