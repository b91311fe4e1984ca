"""Trainings of several ranks that are made to fail, ours and the peers': recovery.py, goodput.py,
sharded_recovery.py, copies.py, hotswap.py.

Ours are built in, or the peers' script as a session. All train a perceptron of the same width on
one thread each; with shards, FSDP2 divides it among the ranks of a replica. A run yields the
committed steps of every rank as (step, end in ns of CLOCK_MONOTONIC, process id).
"""
import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import typing

import paceline_bench
import training

RANKS = 4
HIDDEN = [1024, 1024]
BATCH = 64
PEER = paceline_bench.ROOT / "bench/peers/recovery.py"
SHARDED_PEER = PEER.with_name("sharded_recovery.py")
VENV = paceline_bench.ROOT / ".venv/bin"

JOB = """
name: bench
ranks: {ranks}
threads_per_rank: 1
model: {{kind: mlp, hidden: {hidden}}}
data: {{train: {train}}}
batch_per_rank: {batch}
steps: 1000000
optimizer: {{kind: sgd, learning_rate: 0.01, momentum: 0.9}}
collective_timeout_s: 10
recovery: {recovery}
"""

SESSION = """
name: bench
ranks: {ranks}
shards: {shards}
threads_per_rank: 1
command: {command}
working_directory: {{folder}}
venv: {venv}
session: true
batch_per_rank: {batch}
steps: 1000000
collective_timeout_s: 10
recovery: {recovery}
"""

# worker/ring/ring_layout.h, step_ring.h
RING_HEADER = struct.Struct("<8sIIII8x32xQ")
SLOT_OFFSET = 256
SLOT = struct.Struct("<QQQQ8Q")
OPTIMIZER = 5


class Record(typing.NamedTuple):
    """A step of a rank, in ns of CLOCK_MONOTONIC."""

    step: int  # Steps done with it.
    start: int
    end: int
    phases: tuple  # Time in each.


def read_records(path):
    """What the ring still holds, oldest first."""
    data = pathlib.Path(path).read_bytes()
    magic, _, slot_bytes, capacity, _, written = RING_HEADER.unpack_from(data)
    assert magic == b"PCLRING1", path
    records = []
    for record in range(max(0, written - capacity + 1), written):
        at = SLOT_OFFSET + record % capacity * slot_bytes
        sequence, step, start, total, *phases = SLOT.unpack_from(data, at)
        if sequence == 2 * record + 2:
            records.append(Record(step + 1, start, start + total, tuple(phases)))
    return records


def read_ring(path):
    """The (step, end) that the ring still holds, oldest first."""
    return [(one.step, one.end) for one in read_records(path)]


class Run:
    """A training under way. `steps()`: of each process, or of each rank whatever processes it had."""

    def progress(self, since=0):
        """The greatest step that was committed after `since`; 0: none."""
        return max((step for steps in self.steps().values() for step, end in steps if end > since),
                   default=0)

    def wait_for(self, step, since=0, timeout=180, look_every=0.05):
        deadline = time.monotonic() + timeout
        while self.progress(since) < step:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{type(self).__name__}: step {step} not reached in {timeout} s")
            time.sleep(look_every)

    def wait_for_all(self, ranks, since, timeout=180):
        """Waits until all ranks have finished the same step after `since`; returns (the first such
        step, when the last one has finished it, in ns)."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            # Of a step that a rank has done twice, the second time.
            after = [{step: end for step, end in steps if end > since}
                     for steps in self.steps().values()]
            for step in sorted(set().union(*after)):
                ends = [steps[step] for steps in after if step in steps]
                if len(ends) == ranks:
                    return step, max(ends)
            time.sleep(0.05)
        raise RuntimeError(f"{type(self).__name__}: not all ranks are back in {timeout} s")

    def kill(self, rank):
        """Kills the rank's process; returns when, in ns."""
        pid = self.pid(rank)
        self.steps()  # What the process takes with it.
        now = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)
        return now

    def kill_and_replace(self, rank):
        """Kills the rank's process; starts a new one if the system does not do so by itself."""
        self.kill(rank)


class Ours(Run):
    """A controller and workers; the job has the recovery that is given, or is `text` with the folder
    of the digits for {folder}."""

    def __init__(self, programs, folder, recovery="", workers=5, slots=1, text=None):
        self.cli = [programs / "paceline", "--no-color"]
        self.folder = folder
        self.environment = dict(os.environ, PACELINE_DEV_DIR=str(folder / "dev"))
        self.run("dev", "up", "--workers", workers, "--slots", slots, "--bin-dir", programs)
        self.run("data", "import-digits", "--csv", training.DIGITS, "--out", folder)
        job = folder / "job.yaml"
        if text is None:
            text = JOB.format(ranks=RANKS, hidden=HIDDEN, batch=BATCH, recovery=recovery,
                              train=folder / "digits-train.shard")
        job.write_text(text.replace("{folder}", str(folder)), encoding="utf-8")
        self.job = json.loads(self.run("submit", job, "-o", "json"))["id"]
        self.seen = {}  # Steps by ring, because a ring disappears with its trainer.

    def run(self, *arguments):
        done = subprocess.run([*self.cli, *map(str, arguments)], env=self.environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode:
            raise RuntimeError(f"paceline {arguments[0]} {arguments[1]}: {done.stderr}")
        return done.stdout

    def describe(self):
        return json.loads(self.run("job", "describe", self.job, "-o", "json"))

    def pid(self, rank):
        ranks = self.describe()["ranks"]
        return int(next(one for one in ranks if one.get("rank", 0) == rank)["pid"])

    def pids(self):
        """Of all processes that train or stand by."""
        job = self.describe()
        return {int(one["pid"]) for one in job["ranks"] + job.get("spares", []) if "pid" in one}

    def rings(self):
        """Of the trainers that are there now."""
        return pathlib.Path("/dev/shm").glob(f"paceline-*/*/{self.job}.*.ring")

    def steps(self):
        """By trainer: each is one process."""
        for ring in self.rings():
            with contextlib.suppress(FileNotFoundError):
                known = self.seen.setdefault(ring.name, [])
                last = known[-1][1] if known else 0
                known += [one for one in read_ring(ring) if one[1] > last]
        return self.seen

    def wait_for_spare(self, deadline):
        """It starts when the ranks do, and may be ready later: one of a session imports torch."""
        while [one["state"] for one in self.describe().get("spares", [])] != ["READY"]:
            if time.monotonic() > deadline:
                raise RuntimeError("no spare is ready")
            time.sleep(0.2)

    def stop(self):
        with contextlib.suppress(RuntimeError):
            self.run("job", "cancel", self.job)
        self.run("dev", "down", "--purge")


class Session(Ours):
    """The script of Torchrun and Torchft as a session."""

    def __init__(self, programs, folder, recovery, workers=5, ranks=RANKS, shards=1):
        self.has_spare = "spares" in recovery
        script = SHARDED_PEER if shards > 1 else PEER
        command = ["python", script, "session", "--hidden", *HIDDEN, "--batch", BATCH,
                   "--ranks", ranks, "--shards", shards]
        super().__init__(programs, folder, workers=workers, text=SESSION.format(
            ranks=ranks, shards=shards, command=json.dumps([str(word) for word in command]),
            venv=VENV.parent, batch=BATCH, recovery=recovery))

    def wait_for(self, step, since=0, timeout=180, look_every=0.05):
        super().wait_for(step, since, timeout, look_every)
        if self.has_spare and since == 0:  # Before a fault.
            self.wait_for_spare(time.monotonic() + timeout)


class Peer(Run):
    """Ranks that write their steps to files."""

    def __init__(self, folder, ranks=RANKS, shards=1):
        self.folder = folder
        self.ranks, self.shards = ranks, shards
        self.script = SHARDED_PEER if shards > 1 else PEER
        self.processes = []
        self.options = ["--hidden", *map(str, HIDDEN), "--batch", str(BATCH), "--ranks", str(ranks),
                        "--shards", str(shards), "--steps", folder / "steps.{rank}",
                        "--checkpoint", folder / "checkpoint"]
        self.environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")

    def spawn(self, *command):
        with open(self.folder / f"log.{len(self.processes)}", "wb") as log:
            self.processes.append(subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=log, start_new_session=True))

    def spawn_torchrun(self, processes, *command):
        """It starts all of them again when one ends."""
        self.spawn(VENV / "torchrun", "--nnodes=1", f"--nproc_per_node={processes}",
                   "--max_restarts=1000", "--monitor_interval=0.1", "--rdzv_backend=c10d",
                   "--rdzv_endpoint=localhost:0", self.script, *command)

    def steps(self):
        result = {}
        for rank in range(self.ranks):
            path = self.folder / f"steps.{rank}"
            lines = path.read_text().splitlines(keepends=True) if path.exists() else []
            result[rank] = [tuple(map(int, line.split()[:2])) for line in lines if line[-1] == "\n"]
        return result

    def pid(self, rank):
        return int((self.folder / f"steps.{rank}").read_text().split()[-1])

    def pids(self):
        """Of all processes that train."""
        return {self.pid(rank) for rank in range(self.ranks)}

    def terminate(self):
        """Ends launchers, which end their workers, which are in sessions of their own."""
        for process in self.processes:
            process.terminate()
            process.wait()

    def stop(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


class Torchrun(Peer):
    def __init__(self, folder, save_every=1, **size):
        super().__init__(folder, **size)
        self.spawn_torchrun(self.ranks, "torchrun", *self.options, "--save-every", str(save_every))

    def stop(self):
        self.terminate()


class OwnScript(Peer):
    """The script of Torchrun, by `paceline run` on a cluster of its own."""

    def __init__(self, folder, programs, standby):
        super().__init__(folder)
        self.environment["TMPDIR"] = str(folder)
        self.standby = standby
        # A script that is not watched has no standby interpreters.
        watched = [] if standby else ["--no-watch"]
        self.spawn(programs / "paceline", "run", "--ranks", str(RANKS), "--max-restarts", "1000",
                   *watched, "--venv", VENV.parent, PEER, "torchrun", *self.options)

    def wait_for(self, step, since=0, timeout=180, look_every=0.05):
        super().wait_for(step, since, timeout, look_every)
        if self.standby and since == 0:  # Before a fault.
            self.wait_for_standbys(time.monotonic() + timeout)

    def wait_for_standbys(self, deadline):
        while True:
            logs = self.folder.glob("paceline-run-*/logs/*.log")
            if sum(log.read_text().count('is="ready"') for log in logs) == RANKS:
                return
            if time.monotonic() > deadline:
                raise RuntimeError("no interpreters stand by")
            time.sleep(0.2)

    def stop(self):
        """Ctrl-C, twice: it takes its cluster down."""
        for process in self.processes:
            for _ in range(2):
                process.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=2)
            process.wait()


class Torchft(Peer):
    """README: the settings of its examples. Tuned: as quick as its defaults' meaning allows.

    With shards, a replica is a group of processes under a torchrun of their own, which starts them
    all again when one is lost."""

    README = {"tick": 100, "join": 10000, "dead": 5000, "heartbeat": 0.1}
    TUNED = {"tick": 10, "join": 500, "dead": 400, "heartbeat": 0.05}

    def __init__(self, folder, tick, join, dead, heartbeat, **size):
        super().__init__(folder, **size)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.spawn(VENV / "torchft_lighthouse", "--bind", f"127.0.0.1:{port}", "--min_replicas", "1",
                   "--quorum_tick_ms", str(tick), "--join_timeout_ms", str(join),
                   "--heartbeat_timeout_ms", str(dead))
        self.replica = ["--lighthouse", f"http://127.0.0.1:{port}", "--timeout", "5", "--heartbeat",
                        str(heartbeat)]
        for replica in range(self.ranks // self.shards):
            self.start(replica)

    def start(self, replica):
        options = [*self.options, "--replica", str(replica), *self.replica]
        if self.shards == 1:
            self.spawn(sys.executable, self.script, "torchft", *options)
        else:
            self.spawn_torchrun(self.shards, "torchft", *options)

    def kill_and_replace(self, rank):
        super().kill_and_replace(rank)
        if self.shards == 1:
            time.sleep(1)
            self.start(rank)

    def stop(self):
        if self.shards > 1:
            self.terminate()
        else:
            super().stop()


@contextlib.contextmanager
def running(make):
    """A run in a folder in memory, ended at the end; with the tail of its logs when it fails."""
    with tempfile.TemporaryDirectory(prefix="paceline-bench.", dir="/dev/shm") as folder:
        run = make(pathlib.Path(folder))
        try:
            yield run
        except BaseException:
            for log in sorted(pathlib.Path(folder).rglob("log*")):
                if log.is_file():
                    tail = log.read_bytes()[-600:].decode(errors="replace")
                    print(f"{log}:\n{re.sub('^', '    ', tail, flags=re.M)}", file=sys.stderr)
            raise
        finally:
            run.stop()


def outage(run, killed, among=None):
    """Seen by one that has steps on both sides of the kill: (nanoseconds from the kill to the end of
    the first step behind the longest pause, steps that were left out or done twice). The pause is
    one of the first `among` behind the kill; None: of all."""
    survivor = next(steps for steps in run.steps().values()
                    if steps and steps[0][1] < killed < steps[-1][1] - 1_000_000_000)
    around = [step for step in survivor if step[1] > killed - 1_000_000_000]
    pairs = list(zip(around, around[1:]))
    pauses = [(after[1] - before[1], after[1]) for before, after in pairs if after[1] > killed]
    wrong = sum(abs(after[0] - before[0] - 1) for before, after in pairs)
    return max(pauses[:among])[1] - killed, wrong
