"""`python3 -m paceline.track`: see docs/trackers.md."""

from __future__ import annotations

import argparse
import fcntl
import os
import signal
import sys
import threading
import urllib.parse
from pathlib import Path
from types import FrameType
from typing import Any, Dict, List, Mapping, Optional, TextIO

from paceline.track.all_jobs import AllJobs
from paceline.track.controller import Away, Controller, Gone, Refused, find_program
from paceline.track.delivery import Delivery
from paceline.track.follow import GRACE_S, POLL_S, Poller, follow, trackers_of
from paceline.track.tracker import TrackerUnusable

DONE, MISSING, USAGE, NOT_FOUND = 0, 1, 2, 3


def main(arguments: Optional[List[str]] = None) -> int:
    """Returns the exit code."""
    flags = _parser().parse_args(arguments)
    if flags.all == bool(flags.job):
        say("give a JOB, or --all")
        return USAGE
    stop = threading.Event()

    def on_signal(number: int, frame: Optional[FrameType]) -> None:
        del number, frame
        stop.set()

    for wanted in (signal.SIGINT, signal.SIGTERM):
        signal.signal(wanted, on_signal)
    controller = Controller(find_program(flags.paceline))
    try:
        if flags.all:
            AllJobs(controller, _own_command(flags), say).run(stop)
            return DONE
        return _follow_one(controller, flags, stop)
    except (TrackerUnusable, Refused) as error:
        say(str(error))
        return USAGE
    except Gone as error:
        say(str(error))
        return NOT_FOUND


def say(text: str) -> None:
    """Tells people, on one line."""
    print(f"paceline.track: {text}", file=sys.stderr, flush=True)


def _follow_one(controller: Controller, flags: argparse.Namespace, stop: threading.Event) -> int:
    try:
        job = controller.job(flags.job)
    except Away as error:
        say(f"the controller does not answer: {error}")
        return MISSING
    positions = Path(flags.positions)
    positions.mkdir(parents=True, exist_ok=True)
    lock = _lock(positions / f"{job['id']}.lock")
    if lock is None:
        say(f"job {job['id']} is followed by another process of this folder: {positions}")
        return MISSING
    # Clients that would ask for a key at a terminal find none.
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    with lock:
        trackers = trackers_of(_wanted(flags, job), job, positions, say)
        names = ", ".join(tracker.name for tracker in trackers)
        say(f"follows {job['spec']['name']} ({job['id']}) for {names}")
        deliveries = [Delivery(tracker, say) for tracker in trackers]
        all_of_it = follow(Poller(controller, job), deliveries, say, stop, flags.poll,
                           GRACE_S if flags.grace is None else flags.grace)
    if not all_of_it:
        # A client that blocks would keep the process.
        sys.stderr.flush()
        os._exit(MISSING)
    return DONE


def _wanted(flags: argparse.Namespace, job: Mapping[str, Any]) -> Dict[str, Any]:
    """The trackers of the job file, and those of the command line in the place of the same ones."""
    wanted: Dict[str, Any] = dict(job["spec"].get("tracker") or {})
    if flags.tensorboard:
        wanted["tensorboard"] = {"directory": os.path.abspath(flags.tensorboard)}
    if flags.mlflow:
        uri: str = flags.mlflow
        if "@" in urllib.parse.urlsplit(uri).netloc:
            raise TrackerUnusable("--mlflow has a user or a password in it, which messages would "
                                  "show; set MLFLOW_TRACKING_USERNAME and "
                                  "MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN")
        wanted["mlflow"] = {"uri": flags.mlflow, "experiment": flags.experiment}
    if flags.wandb:
        wanted["wandb"] = {"project": flags.wandb, "offline": flags.offline}
    return wanted


def _lock(path: Path) -> Optional[TextIO]:
    """Held while the file is open. None: another process holds it."""
    file = open(path, "w", encoding="utf-8")  # pylint: disable=consider-using-with
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    return file


def _own_command(flags: argparse.Namespace) -> List[str]:
    command = [sys.executable, "-m", "paceline.track", "--positions", flags.positions,
               "--poll", str(flags.poll)]
    return command + (["--paceline", flags.paceline] if flags.paceline else [])


def _parser() -> argparse.ArgumentParser:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    parser = argparse.ArgumentParser(
        prog="python3 -m paceline.track", allow_abbrev=False,
        description="Writes a job's curves and events to the trackers of its file (key tracker).")
    parser.add_argument("job", nargs="?", metavar="JOB", help="id, beginning of an id, or name")
    parser.add_argument("--all", action="store_true",
                        help="follow each job that you may see and whose file has the key")
    parser.add_argument("--tensorboard", metavar="DIR", help="instead of what the file says")
    parser.add_argument("--mlflow", metavar="URI", help="instead of what the file says")
    parser.add_argument("--experiment", metavar="NAME", default="", help="with --mlflow")
    parser.add_argument("--wandb", metavar="PROJECT", help="instead of what the file says")
    parser.add_argument("--offline", action="store_true", help="with --wandb: write files only")
    parser.add_argument("--poll", metavar="SECONDS", type=_seconds, default=POLL_S,
                        help="time between two looks at the controller (default %(default)s)")
    parser.add_argument("--grace", metavar="SECONDS", type=_seconds,
                        help=f"time that trackers have at the end (default {GRACE_S:.0f})")
    parser.add_argument("--positions", metavar="DIR", default=os.path.join(state, "paceline/track"),
                        help="folder of locks and positions (default %(default)s)")
    parser.add_argument("--paceline", metavar="PROGRAM", help="the paceline program")
    return parser


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e6:
        raise argparse.ArgumentTypeError(f"{text} is not more than 0")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
