"""A development cluster under everything that happens to one, for an hour or more: jobs come all the
time, some fail, are cancelled, resumed, lose ranks; nodes are drained and resumed; daemons are killed and
come back. tools/soak.sh runs it; tests/soak/judge.py has what it asserts.

In the first half daemons are killed and restarted, too. In the second half they run through, while all
else goes on: of these their memory and descriptors are judged, and that counters agree with the store.
Ends with a table and one line of JSON; the exit code is 1 if anything was found.
"""

import argparse
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.abspath("tests/monitoring"))
sys.path.insert(0, os.path.abspath("tests/soak"))
import judge  # noqa: E402
from dev_cluster import DevCluster  # noqa: E402

WORKERS = 6  # Of one slot each.
MAX_LIVE = 5  # Jobs.
SAMPLE_S = 5
LOOK_S = 60  # At all jobs, for what is lost or orphaned.
ORPHAN_S = 30  # A trainer may outlive its job by so long: its daemon may be away.
QUIET_S = 120  # For all jobs to end at last.
STATES = ",".join(state.lower() for state in sorted(judge.LIVE))
EVERYTHING = "1000000"

BODY = """
ranks: {ranks}
threads_per_rank: 1
model: {{kind: mlp, hidden: [16]}}
data: {{train: {folder}/digits-train.shard}}
batch_per_rank: 4
steps: {steps}
log_every: 10
optimizer: {{kind: sgd, learning_rate: 0.01}}
allow_chaos: true
"""
SLEEP = "  - {{rank: -1, steps: {steps}, kind: sleep, seconds: 0.02}}\n"
CRASH = "  - {rank: 1, step: 50, kind: exit, generation: 1}\n"

# By name: ranks, steps, and what else its job file says. Those in MAY_FAIL are to.
KINDS = {
    "plain": (2, 200, "", ""),
    "fails": (2, 200, "", CRASH),
    "restarts": (2, 200, "max_restarts: 2\n", CRASH),
    "recovers": (2, 200, "recovery: {max_failures: 5}\n", CRASH),
    "saves": (1, 200, "checkpoint: {{directory: {folder}/checkpoints, every_steps: 50}}\n", ""),
    "long": (1, 1000000, "", ""),  # Until it is cancelled.
}
MAY_FAIL = {"fails"}


class Soak:
    def __init__(self, cluster, folder, minutes, seed):
        self.cluster = cluster
        self.folder = folder
        self.random = random.Random(seed)
        self.begin = time.monotonic()
        self.seconds = minutes * 60
        self.submitted = []
        self.resumed = set()
        self.counts = {}  # What was done.
        self.drained = {}  # Node: when it is resumed.
        self.failures = []
        self.samples = {}  # Daemon: [(seconds, MB, descriptors)] since the half.
        self.suspects = {}  # Process: when it was seen as an orphan first.
        self.middle = None  # (samples, jobs) at the half.

    def now(self):
        return time.monotonic() - self.begin

    def note(self, what):
        self.counts[what] = self.counts.get(what, 0) + 1

    def find(self, lines):
        for line in lines:
            if line not in self.failures:
                self.failures.append(line)
                print(f"{self.now():6.0f} s  {line}", file=sys.stderr, flush=True)

    # ---- What is seen.

    def jobs(self, *filters):
        return self.cluster.read("job", "list", "--limit", EVERYTHING, *filters).get("jobs", [])

    def live(self):
        return self.jobs("--state", STATES)

    def nodes(self):
        return self.cluster.read("node", "list").get("nodes", [])

    def metrics(self):
        http = self.cluster.daemon("controller")["http"]
        with urllib.request.urlopen(f"http://{http}/metrics", timeout=30) as response:
            return judge.parse(response.read().decode())

    def look(self, check):
        """What `check` finds in metrics, jobs and nodes of one moment: asked again while things
        change; the last of what it finds."""
        found = []
        for _ in range(20):
            jobs, nodes = self.jobs(), self.nodes()
            samples = self.metrics()
            same = judge.states(self.jobs()) == judge.states(jobs)
            found = check(samples, jobs, nodes)
            if same and not found:
                return []
            time.sleep(1.1)  # What is shown once a second.
        return found

    def trainers(self):
        """Command lines by process, of the trainers and shims of this cluster."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # It has ended.
            if f"{self.folder}/cluster/" in command and judge.JOB.search(command):
                found[int(entry.name)] = command
        return found

    def look_for_orphans(self, jobs):
        orphans = judge.orphans(self.trainers(), jobs)
        now = self.now()
        self.suspects = {pid: self.suspects.get(pid, now) for pid in orphans}
        self.find(f"process {pid} of {orphans[pid]}, which has ended, runs on"
                  for pid, since in self.suspects.items() if now - since > ORPHAN_S)

    def look_at_jobs(self):
        jobs = self.jobs()
        self.find(judge.lost(self.submitted, jobs))
        self.find(judge.unexpected(jobs, MAY_FAIL))
        self.look_for_orphans(jobs)

    def sample(self):
        for daemon in self.cluster.daemons():
            pid = daemon["pid"]
            try:
                pages = int(pathlib.Path(f"/proc/{pid}/statm").read_text(encoding="utf-8").split()[1])
                files = len(os.listdir(f"/proc/{pid}/fd"))
            except OSError:
                self.find([f"{daemon['name']} has ended by itself"])
                continue
            megabytes = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
            self.samples.setdefault(daemon["name"], []).append((self.now(), megabytes, files))

    # ---- What happens.

    def submit(self):
        name = self.random.choice(sorted(KINDS))
        ranks, steps, more, chaos = KINDS[name]
        text = BODY.format(ranks=ranks, steps=steps, folder=self.folder)
        text += more.format(folder=self.folder) if "{folder}" in more else more
        text += "chaos:\n" + SLEEP.format(steps=steps) + chaos
        path = f"{self.folder}/{name}.yaml"
        pathlib.Path(path).write_text(f"name: {name}\n{text}", encoding="utf-8")
        self.submitted.append(self.cluster.read("submit", path)["id"])
        self.note("submitted")

    def cancel(self):
        long = [job for job in self.live() if job["spec"]["name"] == "long"]
        if long:
            self.cluster.run("job", "cancel", long[0]["id"], "--reason", "soak")
            self.note("cancelled")

    def resume_job(self):
        ended = [job for job in self.jobs("--state", "succeeded")
                 if job["spec"]["name"] == "saves" and job["id"] not in self.resumed]
        if ended:
            self.resumed.add(ended[0]["id"])
            self.cluster.run("job", "resume", ended[0]["id"], "--steps", "300")
            self.note("resumed")

    def drain(self):
        free = sorted({node["name"] for node in self.nodes()} - set(self.drained))
        if len(self.drained) >= 2 or not free:
            return
        node = self.random.choice(free)
        mode = self.random.choice(["swap", "checkpoint", "finish", "now"])
        self.cluster.run("node", "drain", node, "--reason", "soak", "--mode", mode, "--detach")
        self.drained[node] = self.now() + self.random.uniform(5, 20)
        self.note("drained")

    def resume_nodes(self, all_of_them=False):
        for node, due in list(self.drained.items()):
            if all_of_them or self.now() > due:
                self.cluster.run("node", "resume", node)
                del self.drained[node]

    def kill_rank(self):
        """Of a job that recovers, and is far from its end."""
        for job in self.live():
            ranks = [rank for rank in job["ranks"] if int(rank["pid"]) > 0]
            may_lose_one = job["spec"]["name"] == "recovers" and job["state"] == "RUNNING" and \
                int(job["generation"]) == 2 and int(job["progress"]["step"]) < 120
            if not ranks or not may_lose_one:
                continue
            try:
                os.kill(int(self.random.choice(ranks)["pid"]), signal.SIGKILL)
                self.note("ranks killed")
            except ProcessLookupError:
                pass  # It has ended just now.
            return

    def restart(self):
        daemons = [daemon["name"] for daemon in self.cluster.daemons()]
        chosen = self.random.sample(daemons, self.random.choice([1, 1, 2]))
        for name in chosen:
            if self.random.random() < 0.5:
                self.cluster.kill_daemon(name)
                self.note(f"{'controller' if name == 'controller' else 'workers'} killed")
            else:
                self.cluster.end_daemon(name)
                self.note(f"{'controller' if name == 'controller' else 'workers'} ended")
        time.sleep(self.random.uniform(0, 3))
        self.cluster.up()

    def turn(self, quiet_daemons):
        """One second or so."""
        if len(self.live()) < MAX_LIVE:
            self.submit()
        chance = self.random.random()
        if chance < 0.08:
            self.cancel()
        elif chance < 0.11:
            self.drain()
        elif chance < 0.14:
            self.kill_rank()
        elif chance < 0.17 and not quiet_daemons:
            self.restart()
        elif chance < 0.20 and not quiet_daemons:
            self.resume_job()  # Else an end would be counted that the store has once.
        self.resume_nodes()

    def run(self):
        next_sample = next_look = 0
        while self.now() < self.seconds:
            second_half = self.now() > self.seconds / 2
            if second_half and self.middle is None:
                self.middle = self.moment()
            self.turn(second_half)
            if second_half and self.now() >= next_sample:
                next_sample = self.now() + SAMPLE_S
                self.sample()
            if self.now() >= next_look:
                next_look = self.now() + LOOK_S
                self.look_at_jobs()
            time.sleep(1)

    def moment(self):
        """(metrics, jobs) that belong together."""
        while True:
            jobs = self.jobs()
            samples = self.metrics()
            if judge.states(self.jobs()) == judge.states(jobs) and not judge.queues(samples, jobs):
                return samples, jobs
            time.sleep(0.5)

    # ---- The end.

    def finish(self):
        self.resume_nodes(all_of_them=True)
        for job in self.live():
            if job["spec"]["name"] == "long":
                self.cluster.run("job", "cancel", job["id"], "--reason", "soak")
        deadline = time.monotonic() + QUIET_S
        while self.live() and time.monotonic() < deadline:
            time.sleep(1)
        self.find(f"{job['id']} ({job['spec']['name']}) is still {job['state']}: {job['reason']}"
                  for job in self.live())
        while self.trainers() and time.monotonic() < deadline:
            time.sleep(1)
        self.find(f"process {pid} is left: {command}" for pid, command in self.trainers().items())
        self.look_at_jobs()
        self.find(self.look(lambda samples, jobs, nodes:
                            judge.queues(samples, jobs) + judge.nodes(samples, nodes) +
                            judge.finished(self.middle, (samples, jobs))))
        for job in self.jobs():
            if job["state"] in judge.ENDED:
                events = self.cluster.read("job", "events", job["id"]).get("events", [])
                self.find(judge.history(job, events))
        ended = sum(judge.states(self.jobs(), judge.ENDED).values()) - \
            sum(judge.states(self.middle[1], judge.ENDED).values())
        for name, points in self.samples.items():
            self.find(judge.memory(name, [(at, mb) for at, mb, _ in points], ended))
            self.find(judge.descriptors(name, [(at, files) for at, _, files in points]))
        told = self.jobs()
        self.cluster.kill_daemon("controller")
        self.cluster.up()
        self.find(judge.stored(told, self.jobs()))

    def report(self):
        print(f"{'daemon':12} {'MB at the half':>15} {'MB at the end':>14} {'grown':>7} {'descriptors':>12}")
        daemons = {}
        for name, points in sorted(self.samples.items()):
            grown = judge.growth([(at, mb) for at, mb, _ in points])
            daemons[name] = {"begin_mb": round(points[0][1], 1), "end_mb": round(points[-1][1], 1),
                             "grown_mb": round(grown, 2), "descriptors": points[-1][2]}
            print(f"{name:12} {points[0][1]:15.1f} {points[-1][1]:14.1f} {grown:7.2f} {points[-1][2]:12}")
        for what, count in sorted(self.counts.items()):
            print(f"{what:20} {count}")
        for line in self.failures:
            print(f"FOUND  {line}")
        jobs = judge.states(self.jobs())
        print(json.dumps({"soak": {"minutes": round(self.seconds / 60, 2), "done": self.counts,
                                   "jobs": jobs, "daemons": daemons},
                          "failures": self.failures, "ok": not self.failures}))
        return 1 if self.failures else 0


def write_data(cluster, folder):
    """Images of nothing."""
    with open(f"{folder}/digits.csv", "w", encoding="utf-8") as csv:
        for i in range(100):
            pixels = [str((7 * i + p) % 17) for p in range(64)]
            csv.write(",".join(pixels + [str(i % 10)]) + "\n")
    cluster.run("data", "import-digits", "--csv", f"{folder}/digits.csv", "--out", folder,
                "--size", "8")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1, help="of what happens when")
    parser.add_argument("programs", nargs="+", help="the programs, among them paceline")
    args = parser.parse_args()
    paceline = next(os.path.abspath(path) for path in args.programs if path.endswith("/paceline"))
    with tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")) as folder:
        with DevCluster(paceline, f"{folder}/cluster", WORKERS) as cluster:
            write_data(cluster, folder)
            soak = Soak(cluster, folder, args.minutes, args.seed)
            soak.run()
            soak.finish()
            return soak.report()


if __name__ == "__main__":
    sys.exit(main())
