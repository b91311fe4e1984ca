"""What a tracker adds to a step: TensorBoard, MLflow (file store) and Weights & Biases (offline).

Ours: a running session of one rank reports three numbers in each step (log_every: 1), and a
follower, `python3 -m paceline.track`, writes them to one tracker. The peer: the same training in
plain PyTorch hands the same numbers to the tracker's own client in each step, as people do today.
All files are in memory. Steps take some milliseconds, so that microseconds show.

Windows of some seconds take turns within the same two processes: without a tracker, with one,
without, with the next one. What a window with a tracker has more than the mean of its two
neighbours, per step, is what the tracker adds. A window without has no run.report either, so of
ours the figure has all that a step pays: run.report, what the controller and `paceline` do for the
follower, and the follower's share of the processor. The bound is that of the mean; the median is
what a step has that nobody disturbs. How far both can be trusted is told by what the neighbours,
neither of which has a tracker, differ by. run.report by itself is measured where every second step
reports, as the difference between steps that follow each other.

Windows begin when a tracker is settled: the follower's start, which imports the client, and
wandb.init are no part of them. In a window the follower looks at the controller every 5 s (--poll),
as by default.

Nothing is pinned: the rank with its threads, its worker daemon, the controller, the follower with
the `paceline` programs that it starts and the wandb-core of Weights & Biases share the machine's
cores, as does the wandb-core of the peer. With two cores there is one for the training, and one for
all others; the follower's use of it is told. Of the two trainings one is paused while the other one
is measured.
"""
import argparse
import contextlib
import functools
import importlib.metadata
import json
import mmap
import os
import pathlib
import subprocess
import sys
import time
import typing

import numpy
import psutil

import failures
import paceline_bench

PEERS = paceline_bench.ROOT / "bench/peers"
LOOP = PEERS / "tracked_loop.py"
sys.path.insert(0, str(PEERS))
from tracked_loop import (  # pylint: disable=wrong-import-position
    BATCH, CONTROL, REACHED, RECORD, STEPS, WANTED, Mode)

LIMIT_US = 20
PATIENCE_S = 180
LEAST_STEPS = 20  # Of a window.
UNKNOWN = 255  # The loop is in no mode yet.

# Paused ranks are neither slow nor hung.
JOB = """
name: bench
ranks: 1
threads_per_rank: 1
command: {command}
working_directory: {{folder}}
venv: {venv}
session: true
batch_per_rank: {batch}
steps: 1000000000
log_every: 1
collective_timeout_s: 30000
"""


class Tracker(typing.NamedTuple):
    name: str
    package: str
    mode: Mode  # Of the peer.
    call: str  # Of the peer, in each step.
    options: typing.Callable  # Of the follower, by its folder.


TRACKERS = (
    Tracker("TensorBoard", "tensorboard", Mode.TENSORBOARD, "3 add_scalar",
            lambda folder: ["--tensorboard", folder / "tensorboard"]),
    Tracker("MLflow", "mlflow-skinny", Mode.MLFLOW, "mlflow.log_metrics",
            lambda folder: ["--mlflow", f"file://{folder}/mlruns", "--experiment", "bench"]),
    Tracker("Weights & Biases", "wandb", Mode.WANDB, "wandb.log",
            lambda folder: ["--wandb", "bench", "--offline"]),
)


class Window(typing.NamedTuple):
    """Steps of one mode, in us."""

    steps: numpy.ndarray  # From start to start.
    calls: numpy.ndarray  # Of the same steps: the call that takes the numbers; 0: none.
    share: float  # Of a core, of what was metered.

    @property
    def mean(self):
        return float(self.steps.mean())

    @property
    def median(self):
        return float(numpy.median(self.steps))

    def call(self):
        return float(numpy.median(self.calls))

    def report(self):
        """What reporting adds, where every second step does."""
        reports = self.calls > 0
        first = numpy.flatnonzero(reports[:-1] & ~reports[1:])
        return float(numpy.median(self.steps[first] - self.steps[first + 1]))


class Loop:
    """A training (peers/tracked_loop.py) with its folder, which starts paused."""

    def __init__(self, folder, is_alive=lambda: True):
        folder.mkdir()
        self.folder, self.is_alive = folder, is_alive
        (folder / CONTROL).write_bytes(bytes((Mode.PAUSED, UNKNOWN)))
        with open(folder / CONTROL, "r+b") as file:
            self.control = mmap.mmap(file.fileno(), 2)

    def switch(self, mode):
        """Returns once the loop is in the mode."""
        self.control[WANTED] = mode
        await_that(lambda: self.control[REACHED] == mode,
                   f"{self.folder.name} is not {mode.name}", self.is_alive)

    def measure(self, mode, settle, seconds, meter=lambda: 0.0):
        """A Window. meter: the processor's time of others, in seconds."""
        self.switch(mode)
        time.sleep(settle)
        used, begin = meter(), time.monotonic_ns()
        time.sleep(seconds)
        end, used = time.monotonic_ns(), meter() - used
        data = (self.folder / STEPS).read_bytes()
        whole = len(data) // RECORD.size * RECORD.size
        starts, modes, calls = numpy.frombuffer(data[:whole], "<i8").reshape(-1, 3).T
        inside = (starts >= begin) & (starts < end)
        if inside.sum() < LEAST_STEPS or (modes[inside] != mode).any():
            raise RuntimeError(f"{self.folder.name}: {inside.sum()} steps in {seconds:g} s of "
                               f"{mode.name}; give more --seconds")
        return Window(numpy.diff(starts[inside]) / 1e3, calls[inside][:-1] / 1e3,
                      used / ((end - begin) * 1e-9))


class Session(failures.Ours):
    """A cluster of one worker with the session."""

    def __init__(self, programs, folder):
        self.loop = Loop(folder / "session")
        command = ["python", LOOP, "session", "--folder", self.loop.folder]
        super().__init__(programs, folder, workers=1, text=JOB.format(
            command=json.dumps([str(word) for word in command]), venv=failures.VENV.parent,
            batch=BATCH))
        self.program = programs / "paceline"

    def stop(self):
        self.loop.control[WANTED] = Mode.BARE  # A paused rank does not see that its job is stopped.
        super().stop()


@contextlib.contextmanager
def plain_loop(folder):
    """The peer's Loop, ended at the end."""
    processes = []
    loop = Loop(folder / "plain", lambda: not processes or processes[0].poll() is None)
    with open(folder / "log.plain", "wb") as log:
        processes.append(subprocess.Popen([sys.executable, LOOP, "plain", "--folder", loop.folder],
                                          env=environment(folder), stdout=log, stderr=log))
    try:
        yield loop
        loop.switch(Mode.ENDED)
        processes[0].wait(PATIENCE_S)
    finally:
        processes[0].kill()
        processes[0].wait()


@contextlib.contextmanager
def following(session, tracker, poll):
    """A follower of the session: yields what measures its processor's time, in seconds."""
    folder = session.folder / f"followed.{tracker.package}"
    log = session.folder / f"log.{tracker.package}"
    with open(log, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "paceline.track", session.job, "--paceline", session.program,
             "--positions", folder, "--poll", str(poll), *tracker.options(folder)],
            env={**session.environment, **environment(session.folder),
                 "PYTHONPATH": str(paceline_bench.ROOT / "python")}, stdout=file, stderr=file)
    try:
        await_that(lambda: b" follows " in log.read_bytes(),
                   f"the follower for {tracker.name} does not start",
                   lambda: process.poll() is None)
        yield functools.partial(processor_s, process.pid)
        if process.poll() is not None:
            raise RuntimeError(f"the follower for {tracker.name} has ended")
        process.terminate()
        if process.wait(PATIENCE_S):
            raise RuntimeError(f"{tracker.name} has not got all that was reported")
    finally:
        process.kill()
        process.wait()


def environment(folder):
    """Of processes with a tracker's client: files in the folder, nothing sent."""
    result = dict(os.environ, OMP_NUM_THREADS="1", WANDB_CONFIG_DIR=str(folder),
                  WANDB_CACHE_DIR=str(folder), WANDB_DATA_DIR=str(folder), WANDB_SILENT="true",
                  WANDB_ERROR_REPORTING="false", MLFLOW_DISABLE_TELEMETRY="true",
                  MLFLOW_ALLOW_FILE_STORE="true")
    result.pop("PYTHONPATH", None)
    return result


def await_that(holds, complaint, is_alive):
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        if not is_alive() or time.monotonic() > deadline:
            raise RuntimeError(complaint)
        time.sleep(0.02)


def processor_s(pid):
    """Of a process, its children, and those that it had."""
    root = psutil.Process(pid)
    total = 0.0
    for process in [root, *root.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


class Figures:
    """One value of each round and window, in us, by tracker."""

    def __init__(self):
        self.added = {tracker: {"mean": [], "median": []} for tracker in TRACKERS}
        self.calls = {tracker: [] for tracker in TRACKERS}
        self.shares = {tracker: [] for tracker in TRACKERS}
        self.apart = {"mean": [], "median": []}  # Neighbours without a tracker.
        self.bare = []

    def take(self, loop, with_tracker, args):
        """One round. with_tracker(tracker): the window with it."""
        before = loop.measure(Mode.BARE, args.settle, args.seconds)
        for tracker in TRACKERS:
            tracked = with_tracker(tracker)
            after = loop.measure(Mode.BARE, args.settle, args.seconds)
            for kind, added in self.added[tracker].items():
                left, middle, right = (getattr(w, kind) for w in (before, tracked, after))
                added.append(middle - (left + right) / 2)
                self.apart[kind].append(abs(right - left))
            self.calls[tracker].append(tracked.call())
            self.shares[tracker].append(tracked.share)
            self.bare.append(after.median)
            before = after
        loop.switch(Mode.PAUSED)


def measure(programs, args):
    """(figures of ours, of the peer, what run.report adds by itself)."""
    ours, peer, reports = Figures(), Figures(), []
    with failures.running(functools.partial(Session, programs)) as session, \
            plain_loop(session.folder) as plain:

        def followed(tracker):
            with following(session, tracker, args.poll) as meter:
                return session.loop.measure(Mode.REPORTS, args.follower_settle, args.seconds, meter)

        for _ in range(args.rounds):
            reports.append(
                session.loop.measure(Mode.ALTERNATES, args.settle, args.seconds).report())
            ours.take(session.loop, followed, args)
            peer.take(plain, lambda tracker: plain.measure(tracker.mode, args.settle, args.seconds),
                      args)
    return ours, peer, reports


def rows_of(ours, peer, reports):
    rows = []

    def row(case, metric, unit, values, limit=None, peers=None):
        rows.append(paceline_bench.Row(case=case, metric=metric, unit=unit, ours=values,
                                       limit=limit, peers=peers or {}))

    for tracker in TRACKERS:
        for kind, limit in (("mean", LIMIT_US), ("median", None)):
            row(tracker.name, f"added to a step, {kind}", "us", ours.added[tracker][kind], limit,
                peers={tracker.call: peer.added[tracker][kind]})
        row(tracker.name, "the follower's processor", "cores", ours.shares[tracker])
    row("run.report of 3 numbers", "one call", "us",
        [call for calls in ours.calls.values() for call in calls],
        peers={tracker.call: peer.calls[tracker] for tracker in TRACKERS})
    row("run.report of 3 numbers", "added to a step", "us", reports, LIMIT_US)
    for kind in ("mean", "median"):
        row("without a tracker", f"neighbours differ by, {kind}", "us", ours.apart[kind],
            peers={"plain": peer.apart[kind]})
    row("without a tracker", "step, median", "ms", [us / 1e3 for us in ours.bare],
        peers={"plain": [us / 1e3 for us in peer.bare]})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10, help="of a window")
    parser.add_argument("--settle", type=float, default=1, help="seconds before a window")
    parser.add_argument("--follower-settle", type=float, default=5,
                        help="the same behind a follower's start: it first writes what is kept")
    parser.add_argument("--poll", type=float, default=5, help="the follower's, in seconds")
    parser.add_argument("--programs", type=pathlib.Path, help="folder of ours [built, optimised]")
    args = parser.parse_args()
    programs = args.programs or paceline_bench.build("//:dist") / "dist/bin"
    figures = measure(programs.resolve(), args)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}\n")
    return paceline_bench.report("trackers", rows_of(*figures), {
        tracker.package: importlib.metadata.version(tracker.package) for tracker in TRACKERS})


if __name__ == "__main__":
    sys.exit(main())
