"""The controller under the load of a large cluster: by default 10,000 ranks on 1,250 nodes with 10 steps
a second each, in 200 jobs, 100 watchers, one scrape a second, 50 calls of users a second, and connections
that are cut now and then. Afterwards it is killed and started again: how long until all nodes are back.

Nodes and users are simulated by one other process (bench/load/load_driver.cc), each node over a
connection of its own; the controller is the real one, on a disk. Its processor time is what the kernel
accounts to its process (/proc/PID/stat), so that of the driver on the same machine does not count, but
both want a core: with fewer than two free ones the latencies say little (row "driver", "late by").

The peers are gRPC's own: a server that does nothing but answer, on the same machine during the same
load, pinged ten times a second with a unary call and with a node's report on a stream.

With --tls all of them, peers too, speak mutual TLS as a cluster does by default, with an authority made
by `paceline pki init`: each node with a certificate of its own name, users as an operator, watchers as a
viewer.
"""
import argparse
import json
import math
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import paceline_bench
from paceline_bench import Row

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PARSE_EVERY_S = 60
PATIENCE_S = 600

# Bounds: docs/scale.md.
HEARTBEAT_P99_MS = 10
CALL_P99_MS = 20
CORES = 1
RSS_MB = 1024
# Bound of the growth of resident memory in half an hour, measured in the second half of the run,
# without what is kept of each ended job so that people can ask about it (docs/limits.md says for how
# many jobs): sizeof(RankState) is 1.0 kB, and its texts take the rest.
# A shorter run sees the memory fill: the series of a job stay for ten minutes after its end.
GROWTH_MB = 20
GROWTH_S = 20 * 60
ENDED_RANK_KB = 1.3
BACK_S = 5
# Largest share of all nodes that may dial a restarted controller within the same 100 ms.
HERD = 0.5

# Queues in the controller, by what their tasks wait for: the largest length in each second.
QUEUES = {"the loop": "paceline_controller_loop_queue_tasks",
          "commits": "paceline_state_commit_queue_batches"}

SAMPLE = re.compile(r'^(\w+)(?:\{([^}]*)\})? (\S+)$')


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def cpu_seconds(pid):
    """User and system time of the process so far."""
    text = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def rss_mb(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1]) * PAGE / 1e6


def slope(points):
    """Slope of the (x, y) points, by least squares; 0 for fewer than two."""
    if len(points) < 2:
        return 0
    mean_x = statistics.fmean(x for x, _ in points)
    mean_y = statistics.fmean(y for _, y in points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0


def parse(text):
    """{name: {labels: value}}."""
    families = {}
    for line in text.splitlines():
        sample = SAMPLE.match(line)
        if sample:
            families.setdefault(sample[1], {})[sample[2] or ""] = float(sample[3])
    return families


def gauge(text, name):
    """Of a family without labels."""
    return float(re.search(rf"^{name} (\S+)$", text, re.MULTILINE)[1])


def total(families, name):
    return sum(families.get(name, {}).values())


def quantile(before, after, name, share):
    """Of a histogram's observations between two scrapes, within its bucket by interpolation."""
    counts = {}
    for families, sign in ((before, -1), (after, 1)):
        for labels, value in families.get(f"{name}_bucket", {}).items():
            bound = float(re.search(r'le="([^"]*)"', labels)[1])
            counts[bound] = counts.get(bound, 0) + sign * value
    wanted = share * counts.get(math.inf, 0)
    low, below = 0, 0
    for bound, count in sorted(counts.items()):
        if count >= wanted > 0:
            inside = (wanted - below) / (count - below) if count > below else 1
            return low if bound == math.inf else low + (bound - low) * inside
        low, below = bound, count
    return 0


def make_authority(program, folder):
    """Its folder, with the certificates of the controller, as the product makes them."""
    pki = folder / "pki"
    subprocess.run([program, "--quiet", "pki", "init", pki, "--host", "127.0.0.1", "--admin", "load"],
                   check=True, stdout=subprocess.DEVNULL)
    return pki


class Controller:
    def __init__(self, program, folder, pki=None):
        self.program = program
        self.folder = folder
        self.flags = ["--tls-dir", pki / "controller", "--ca-dir", pki / "ca"] if pki else ["--plaintext"]
        self.listen = f"127.0.0.1:{free_port()}"
        self.http = None
        self.process = None

    def start(self):
        """Returns once it serves, and when (monotonic)."""
        address = self.folder / "address.json"
        address.unlink(missing_ok=True)
        with open(self.folder / "controller.log", "ab") as log:
            self.process = subprocess.Popen(
                [self.program, "--listen", self.listen, "--http", "127.0.0.1:0", "--state-dir",
                 self.folder / "state", "--address-file", address, *self.flags], stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE_S
        while not address.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the controller does not serve: {self.folder}/controller.log")
            time.sleep(0.005)
        now = time.monotonic()
        self.http = json.loads(address.read_text(encoding="utf-8"))["http"]
        return now

    def kill(self):
        self.process.kill()
        self.process.wait()

    def metrics(self):
        with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=30) as response:
            return response.read().decode()


class Driver:
    """The other process, which takes commands and answers with lines."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(part) for part in command], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def say(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()

    def read(self, event=None):
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.process.args[0]} has ended")
        answer = json.loads(line)
        if event and answer.get("event") != event:
            raise RuntimeError(f"{event} was to come, not {line}")
        return answer

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Scrapes:
    """Scrapes once a second like Prometheus, and records the controller's memory."""

    def __init__(self, controller):
        self.controller = controller
        self.seconds = []
        self.bytes = 0
        self.rss = []  # (seconds, MB)
        self.queues = {what: [] for what in QUEUES}
        self.records = {}  # Taken, by job: a job's series disappear some minutes after its end.
        self.stopping = threading.Event()
        self.failure = None
        self.first = self.last = self.end = self.read()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def read(self):
        families = parse(self.controller.metrics())
        self.records.update(families.get("paceline_job_step_duration_seconds_count", {}))
        return families

    def run(self):
        begin = parsed = time.monotonic()
        due = begin
        try:
            while not self.stopping.is_set():
                start = time.monotonic()
                text = self.controller.metrics()
                self.seconds.append(time.monotonic() - start)
                self.bytes = len(text)
                for what, name in QUEUES.items():
                    self.queues[what].append(gauge(text, name))
                self.rss.append((start - begin, rss_mb(self.controller.process.pid)))
                if start - parsed > PARSE_EVERY_S:
                    parsed = start
                    self.read()
                due += 1
                self.stopping.wait(max(0, due - time.monotonic()))
        except Exception as error:  # The main thread reports it.
            self.failure = error

    def stop(self):
        self.stopping.set()
        self.thread.join()
        if self.failure:
            raise self.failure


def measure(args, controller, driver, echo):
    driver.read("running")
    time.sleep(args.settle)
    driver.say("measure")
    driver.read("measuring")
    scrapes = Scrapes(controller)
    processes = {"controller": controller.process.pid, "driver": driver.process.pid,
                 "ping-pong": echo.process.pid}
    before = {name: cpu_seconds(pid) for name, pid in processes.items()}
    begin = time.monotonic()
    time.sleep(args.minutes * 60)
    seconds = time.monotonic() - begin
    cpu = {name: (cpu_seconds(pid) - before[name]) / seconds for name, pid in processes.items()}
    scrapes.stop()
    scrapes.last = scrapes.read()
    driver.say("stop")
    result = driver.read("result")
    time.sleep(2)  # By then confirmed records are counted, and those lost with the last cut connection.
    scrapes.end = scrapes.read()
    return result, scrapes, cpu, seconds


def case_of(args, what):
    """Both kinds of connections have rows of their own."""
    return f"{what}, TLS" if args.tls else what


def storms(args, controller, driver):
    """Rows of the restarts. Of one from which not all nodes came back, too: the load's stay."""
    case = case_of(args, f"{args.nodes:,} nodes, restart")
    found = []  # (seconds from serving until all nodes are back, most dials in 100 ms from then on)
    failed = 0
    try:
        play_storms(args, controller, driver, found)
    except RuntimeError as error:
        print(f"load: {error}", file=sys.stderr)
        failed = 1
    rows = [Row(case=case, metric="restarts that failed", unit="restarts", ours=[failed], limit=0)]
    if found:
        rows += [Row(case=case, metric="until all are back", unit="s",
                     ours=[back for back, _ in found], limit=BACK_S),
                 Row(case=case, metric="most dials in 100 ms", unit="dials",
                     ours=[dials for _, dials in found], limit=HERD * args.nodes)]
    return rows


def play_storms(args, controller, driver, found):
    for _ in range(args.storms):
        driver.say("storm")
        driver.read("waiting")
        controller.kill()
        time.sleep(args.outage)
        serving = controller.start()
        back = driver.read("back")
        dials = [count for begin, count in back["dials"] if begin >= serving]
        found.append((back["back"] - serving, max(dials, default=0)))
        time.sleep(5)


def rows_of(args, result, scrapes, cpu, seconds):
    case = case_of(args, f"{args.nodes * args.ranks:,} ranks")
    rows = []

    def row(metric, unit, value, **bounds):
        rows.append(Row(case=case, metric=metric, unit=unit, ours=[value], **bounds))

    streaming, unary = result["streaming"], result["unary"]
    for share, limit in (("p50", None), ("p99", HEARTBEAT_P99_MS), ("max", None)):
        row(f"heartbeat, {share}", "ms", result["heartbeats"][share], limit=limit,
            peers={"streaming ping-pong": [streaming[share]]})
    for share, limit in (("p50", None), ("p99", CALL_P99_MS), ("max", None)):
        row(f"API call, {share}", "ms", result["calls"]["all"][share], limit=limit,
            peers={"unary ping-pong": [unary[share]]})
    for kind, summary in sorted(result["calls"]["kinds"].items()):
        if summary["count"]:
            row(f"{kind}, p99", "ms", summary["p99"])
    row("API calls that failed", "calls", result["calls"]["errors"], limit=0)

    steps = args.nodes * args.ranks * args.steps_per_second
    row("controller, processor", "cores", cpu["controller"], limit=CORES)
    row("controller, processor per rank-step", "us", cpu["controller"] / steps * 1e6)
    row("driver, processor", "cores", cpu["driver"])
    row("driver, late by, p99", "ms", result["late"].get("p99", 0))
    half = [point for point in scrapes.rss if point[0] >= seconds / 2]
    row("controller, RSS at most", "MB", max(mb for _, mb in scrapes.rss), limit=RSS_MB)
    finished = "paceline_jobs_finished_total"
    ended = total(scrapes.last, finished) - total(scrapes.first, finished)
    kept = ended * args.nodes * args.ranks / args.jobs * ENDED_RANK_KB / 1000
    row("controller, RSS growth in 30 min", "MB", slope(half) * 1800)
    row("the same without jobs that ended", "MB", (slope(half) - kept / seconds) * 1800,
        limit=GROWTH_MB if seconds >= GROWTH_S else None)

    times = sorted(scrapes.seconds)
    row("scrape, p99", "ms", times[int(0.99 * (len(times) - 1))] * 1e3)
    row("scrape, size", "MB", scrapes.bytes / 1e6)
    for name, what in (("controller_loop_delay", "loop late by"),
                       ("controller_event_duration", "event"),
                       ("state_commit_duration", "commit")):
        row(f"{what}, p99", "ms",
            quantile(scrapes.first, scrapes.last, f"paceline_{name}_seconds", 0.99) * 1e3)
    for what, depths in scrapes.queues.items():
        depths = sorted(depths)
        row(f"queue for {what}, p99", "entries", depths[int(0.99 * (len(depths) - 1))])
        row(f"queue for {what}, max", "entries", depths[-1])
    commits = "paceline_state_commit_duration_seconds_count"
    row("commits", "1/s", (total(scrapes.last, commits) - total(scrapes.first, commits)) / seconds)
    row("watchers, events", "1/s", result["watch_events"] / seconds)
    row("watchers, data", "MB/s", result["watch_bytes"] / seconds / 1e6)
    row("watchers that were too slow", "streams", total(scrapes.last, "paceline_watch_resyncs_total"))

    # Records whose connection was cut may or may not have arrived: they count as dropped.
    records = result["records"]
    taken = sum(scrapes.records.values())
    dropped = total(scrapes.end, "paceline_telemetry_dropped_total")
    row("step records sent", "records", records["sent"])
    row("step records lost unseen", "records", max(0, records["sent"] - records["cut"] - taken), limit=0)
    row("step records in cut connections", "records", records["cut"])
    row("step records dropped unseen", "records",
        max(0, records["cut"] + records["dropped"] - dropped), limit=0)
    row("step records dropped and counted", "records", dropped)
    row("connections cut", "connections", result["losses"])
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1250)
    parser.add_argument("--ranks", type=int, default=8, help="of a node")
    parser.add_argument("--steps-per-second", type=float, default=10, help="of each rank")
    parser.add_argument("--minutes", type=float, default=5, help="of measuring; 30 for the growth")
    parser.add_argument("--settle", type=float, default=30,
                        help="seconds before measuring: all jobs and watchers begin at once")
    parser.add_argument("--watchers", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=200, help="that share all ranks")
    parser.add_argument("--waiting", type=int, default=0, help="jobs for which there is no room")
    parser.add_argument("--short", type=float, default=60,
                        help="every tenth job ends after so many seconds, and another comes; 0: none")
    parser.add_argument("--calls-per-second", type=float, default=50)
    parser.add_argument("--reconnects", type=int, default=12, help="connections cut per minute")
    parser.add_argument("--storms", type=int, default=3, help="times that the controller is killed")
    parser.add_argument("--outage", type=float, default=1, help="seconds between kill and start")
    parser.add_argument("--tls", action="store_true", help="mutual TLS, as clusters have by default")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    programs = paceline_bench.build("//controller:paceline-controller", "//bench/load:load_driver",
                                    "//cli:paceline")
    program = programs / "bench/load/load_driver"
    with tempfile.TemporaryDirectory(prefix="paceline-load.") as temporary:
        folder = pathlib.Path(temporary)
        pki = make_authority(programs / "cli/paceline", folder) if args.tls else None
        identity = ["--pki", pki] if pki else []
        controller = Controller(programs / "controller/paceline-controller", folder, pki)
        echo = driver = None
        try:
            controller.start()
            echo = Driver(program, "--serve-echo", *identity)
            driver = Driver(
                program, "--controller", controller.listen, "--echo", echo.read()["echo"], *identity,
                *[part for name in ("nodes", "ranks", "steps_per_second", "watchers", "jobs",
                                    "waiting", "short", "calls_per_second", "reconnects", "seed")
                  for part in (f"--{name.replace('_', '-')}", getattr(args, name))])
            result, scrapes, cpu, seconds = measure(args, controller, driver, echo)
            rows = rows_of(args, result, scrapes, cpu, seconds)
            if args.storms:
                rows += storms(args, controller, driver)
            if driver.process.poll() is None:
                driver.say("quit")
        finally:
            for process in (driver, echo):
                if process:
                    process.end()
            if controller.process:
                controller.process.send_signal(signal.SIGTERM)
                controller.process.wait(30)
    return paceline_bench.report("load", rows)


if __name__ == "__main__":
    sys.exit(main())
