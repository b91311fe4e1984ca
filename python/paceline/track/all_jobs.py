"""Follows every job whose file has the key `tracker`, each in a process of its own."""

from __future__ import annotations

import subprocess
import threading
import time
from typing import Any, Dict, List, Mapping, Set, Tuple

from paceline.track import figures
from paceline.track.controller import Away, Controller, Gone, Refused
from paceline.track.tracker import Say

POLL_S = 15.0
_RETRY_S = 60.0  # After a follower has failed.
_RECENT_S = 600.0  # A job that ended before that is over and done with.


class AllJobs:
    """Starts `command + [JOB_ID]` for each job. A tracker that blocks, or a job that cannot be
    followed, holds up no other job."""

    def __init__(self, controller: Controller, command: List[str], say: Say) -> None:
        self._controller, self._command, self._say = controller, command, say
        self._running: Dict[str, subprocess.Popen[bytes]] = {}
        self._not_before: Dict[str, float] = {}
        self._done: Set[Tuple[str, str]] = set()  # Id and time of the end.
        self._ends: Dict[str, str] = {}  # When jobs had ended whose followers were started then.
        self._failing: Set[str] = set()  # Jobs of which it was said.

    def run(self, stop: threading.Event) -> None:
        """Until `stop` is set; then ends the followers.

        Raises Refused or Gone if the controller has given nothing else yet. Later, followers go on.
        """
        told, has_answered = False, False
        try:
            while not stop.is_set():
                try:
                    self.look(self._controller.jobs(), time.time())
                    told, has_answered = False, True
                except (Away, Refused, Gone) as error:
                    if not has_answered and not isinstance(error, Away):
                        raise
                    if not told:
                        self._say("the controller does not list the jobs, and is asked again; "
                                  f"those that are followed go on: {error}")
                    told = True
                stop.wait(POLL_S)
        finally:
            for process in self._running.values():
                process.terminate()
            for process in self._running.values():
                process.wait()

    def look(self, jobs: List[Mapping[str, Any]], now: float) -> None:
        """Takes in who has ended, and starts who is missing."""
        for job_id in [one for one, process in self._running.items()
                       if process.poll() is not None]:
            code = self._running.pop(job_id).returncode
            if code != 0:
                self._failed(job_id, f"its follower has ended with exit code {code}", now)
                continue
            self._failing.discard(job_id)
            if job_id in self._ends:
                self._done.add((job_id, self._ends[job_id]))
        for job in jobs:
            job_id = str(job["id"])
            if job_id in self._running or not self.is_due(job, now):
                continue
            self._ends.pop(job_id, None)
            if figures.has_ended(job):
                self._ends[job_id] = str(job["end_time"])
            try:
                self._running[job_id] = subprocess.Popen([*self._command, job_id],
                                                         stdin=subprocess.DEVNULL)
            except OSError as error:
                self._failed(job_id, f"its follower cannot be started ({error.strerror})", now)

    def _failed(self, job_id: str, what: str, now: float) -> None:
        self._not_before[job_id] = now + _RETRY_S
        if job_id not in self._failing:
            self._say(f"job {job_id}: {what}, and is started again every {_RETRY_S:.0f} s; the "
                      "other jobs are followed")
        self._failing.add(job_id)

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
