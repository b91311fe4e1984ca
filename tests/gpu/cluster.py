"""Jobs of a whole cluster on one GPU: a controller and worker daemons, each of which takes the GPU
for its own, and NCCL between them over sockets, since each says that it is another host.

  train    a Llama in bfloat16 on one node learns; its figures reach the job and the metrics
  lose     of two ranks one is killed: a spare takes its place inside the running job, which goes on
  session  the same of a script (session.py), whose ranks end alike; one rank goes on from its
           checkpoint
  slow     of four ranks one becomes slow: it is found, a spare takes its place, and that has
           helped. The ranks share the GPU through MPS: in slices of its time none would be like
           another

cluster.py --programs DIR [NAME...]; --device cpu tries the script itself. The last line is
{"passed": [...], "failed": [...], "skipped": [...], "figures": {...}}; exit code 1: one has failed.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

SCRIPT = pathlib.Path(__file__).resolve().with_name("session.py")
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")

TRAIN = """
name: train
device: {device}
precision: bf16
model: {model}
data: {{train: {tokens}, sequence_length: {length}}}
batch_per_rank: {batch}
steps: {steps}
optimizer: {{kind: adamw, learning_rate: 3e-4}}
checkpoint: {{directory: {work}/out, every_steps: {every}}}
peak_flops: {peak}
seed: 1
"""

LOSE = """
name: lose
device: {device}
ranks: 2
threads_per_rank: 1
model: {{kind: llama, preset: debug, vocab_size: 256, dim: 64, heads: 4, kv_heads: 4, ffn_dim: 128}}
data: {{train: {tokens}, sequence_length: 128}}
batch_per_rank: 2
steps: 1500
optimizer: {{kind: adamw, learning_rate: 3e-4}}
recovery: {{max_failures: 3, spares: 1}}
seed: 1
allow_chaos: true
chaos:
  - {{rank: -1, steps: 1500, kind: sleep, seconds: 0.01}}
"""

SESSION = """
name: session
device: {device}
ranks: {ranks}
threads_per_rank: 1
command: {command}
session: true
batch_per_rank: 32
steps: {steps}
checkpoint: {{directory: {work}/out, every_steps: 500}}
recovery: {{max_failures: 3, spares: {spares}}}
{more}
seed: 1
allow_chaos: true
chaos:
  - {{rank: -1, steps: {steps}, kind: sleep, seconds: 0.01}}
"""

# A slow rank needs three others to be compared with, and 120 steps and ten seconds.
SLOW = """
name: slow
device: {device}
ranks: 4
threads_per_rank: 1
model: {{kind: llama, preset: debug, vocab_size: 256, dim: {dim}, heads: 4, kv_heads: 4, ffn_dim: {ffn}}}
data: {{train: {tokens}, sequence_length: 128}}
batch_per_rank: 4
steps: 100000
optimizer: {{kind: adamw, learning_rate: 3e-4}}
recovery: {{max_failures: 3, spares: 1}}
stragglers: {{mode: auto}}
seed: 1
allow_chaos: true
chaos:
  - {{rank: -1, steps: 100000, kind: sleep, seconds: {every}}}
  - {{rank: -1, node: n2, step: 300, steps: 99700, kind: sleep, seconds: 0.03}}
"""


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def check(holds, what):
    if not holds:
        raise Failed(what)


@contextlib.contextmanager
def mps():
    """Environment for processes that share the GPU at the same time (CUDA's Multi-Process Service)."""
    with tempfile.TemporaryDirectory(prefix="paceline-mps.") as folder:
        environment = {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}

        def control(words, said=""):
            return subprocess.run(["nvidia-cuda-mps-control", *words], input=said, text=True,
                                  env=dict(os.environ, **environment), capture_output=True,
                                  check=False)

        try:
            begun = control(["-d"])
        except FileNotFoundError as error:
            raise Skipped("nvidia-cuda-mps-control, which comes with the driver, is not here"
                          ) from error
        if begun.returncode:
            raise Skipped(f"MPS does not begin: {begun.stderr or begun.stdout}")
        try:
            yield environment
        finally:
            control([], "quit\n")


class Cluster:
    """A controller and workers in a temporary folder. Use as a context."""

    def __init__(self, programs, nodes, environment=None):
        """`environment` is added to that of the workers."""
        self.programs, self.nodes, self.environment = programs, nodes, environment or {}

    def __enter__(self):
        with contextlib.ExitStack() as after:
            self.begin(after)
            self.after = after.pop_all()
        return self

    def begin(self, after):
        """`after` undoes it."""
        self.work = pathlib.Path(after.enter_context(
            tempfile.TemporaryDirectory(prefix="paceline-gpu.")))
        memory = after.enter_context(
            tempfile.TemporaryDirectory(prefix="paceline-gpu.", dir="/dev/shm"))
        self.after = after
        self.controller = self.start("paceline-controller", "controller",
                                     ["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"], {})
        self.workers = {}
        for number in range(self.nodes):
            name = f"n{number}"
            as_own_host = {"NCCL_HOSTID": f"paceline-{name}", "NCCL_P2P_DISABLE": "1",
                           "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1", **self.environment}
            self.workers[name] = self.start(
                "paceline-worker", name,
                ["--controller", self.controller["grpc"], "--name", name, "--slots", "1",
                 "--commands", "on", "--listen", "127.0.0.1:0",
                 "--runtime-dir", f"{memory}/{name}"], as_own_host)
        after.callback(self.cancel_jobs)

    def __exit__(self, *exception):
        self.after.close()

    def cancel_jobs(self):
        """Trainers outlive their daemons."""
        for job in self.ask("job", "list").get("jobs", []):
            if job["state"] not in ENDED:
                self.ask("job", "cancel", job["id"], "--grace", "0")
                self.wait_until(job["id"], lambda now: now["state"] in ENDED, "does not end", 30)

    def start(self, program, name, words, environment):
        """Its addresses."""
        addresses = self.work / f"{name}.json"
        with open(self.work / f"{name}.log", "w", encoding="utf-8") as log:
            daemon = subprocess.Popen(
                [self.programs / program, "--plaintext", "--state-dir", self.work / name,
                 "--address-file", addresses, *words],
                stdout=log, stderr=subprocess.STDOUT, env=dict(os.environ, **environment))
        self.after.callback(daemon.wait)
        self.after.callback(daemon.terminate)
        for _ in range(600):
            if addresses.exists() and addresses.read_text(encoding="utf-8"):
                return json.loads(addresses.read_text(encoding="utf-8"))
            check(daemon.poll() is None, f"{name} ended: {self.log(name)}")
            time.sleep(0.1)
        raise Failed(f"{name} does not serve: {self.log(name)}")

    def log(self, name):
        return (self.work / f"{name}.log").read_text(encoding="utf-8")[-2000:]

    def words(self):
        return [self.programs / "paceline", "--plaintext", "--server", self.controller["grpc"],
                "-o", "json"]

    def ask(self, *words):
        output = subprocess.run([*self.words(), *words], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, check=False)
        check(output.returncode == 0, f"paceline {' '.join(words)}: {output.stderr}")
        return json.loads(output.stdout)

    def submit(self, text):
        path = self.work / "job.yaml"
        path.write_text(text, encoding="utf-8")
        return self.ask("submit", str(path))["id"]

    def job(self, job):
        return self.ask("job", "describe", job)

    def metrics(self, node):
        """By name and labels, as they are written."""
        with urllib.request.urlopen(f"http://{self.workers[node]['http']}/metrics") as page:
            lines = page.read().decode().splitlines()
        return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))

    def wait_until(self, job, holds, what, timeout_s):
        """The job, once `holds` is true for it. A job that ends before that is a failure."""
        deadline = time.monotonic() + timeout_s
        while True:
            now = self.job(job)
            if holds(now):
                return now
            late = time.monotonic() > deadline
            if now["state"] in ENDED or late:
                logs = subprocess.run([*self.words()[:4], "job", "logs", job, "--tail", "20"],
                                      stdout=subprocess.PIPE, text=True, check=False).stdout
                raise Failed(f"{what}: {'too late, ' if late else ''}{now['state']}, "
                             f"{now.get('reason')}\n{logs}")
            time.sleep(0.2)


def step_of(job):
    return int(job.get("progress", {}).get("step", 0))


def succeeded(job):
    return job["state"] == "SUCCEEDED"


def series(metrics, name):
    return [float(value) for key, value in metrics.items() if key.split("{")[0] == name]


class Tests:
    def __init__(self, args, tokens):
        self.args, self.tokens = args, tokens
        self.cuda = args.device == "cuda"
        self.figures = {}

    def train(self):
        with Cluster(self.args.programs, 1) as cluster:
            if self.cuda:
                node = cluster.ask("node", "list")["nodes"][0]
                check(node["hardware"]["gpus"], f"the node has no GPU: {node}")
            model, length, batch, steps, peak = (
                ("{kind: llama, preset: 160m}", 1024, 32, 150, 0) if self.cuda else
                ("{kind: llama, preset: debug, vocab_size: 256}", 64, 4, 40, "1e12"))
            job = cluster.submit(TRAIN.format(
                device=self.args.device, model=model, length=length, batch=batch, steps=steps,
                every=steps // 2, tokens=self.tokens, work=cluster.work, peak=peak))
            first = cluster.wait_until(job, lambda now: step_of(now) > 0, "does not begin", 180)
            seen = {}

            def succeeded_meanwhile(now):
                seen.update(cluster.metrics("n0"))
                return succeeded(now)

            last = cluster.wait_until(job, succeeded_meanwhile, "does not succeed", 240)
            progress = last["progress"]
            check(progress["loss"] < 0.8 * first["progress"]["loss"],
                  f"the loss fell from {first['progress']['loss']} to {progress['loss']} only")
            check(progress.get("mfu", 0) > 0, "no MFU is told")
            for name in ("paceline_trainer_mfu_ratio", "paceline_trainer_data_wait_ratio",
                         *(("paceline_gpu_memory_used_bytes", "paceline_gpu_utilization_ratio",
                            "paceline_trainer_memory_active_bytes") if self.cuda else ())):
                check(series(seen, name), f"no metric {name}")
            checkpoints = cluster.ask("checkpoint", "list", job)["checkpoints"]
            check(len(checkpoints) >= 2, f"checkpoints: {checkpoints}")
            self.figures["train"] = {
                "loss": [first["progress"]["loss"], progress["loss"]], "mfu": progress["mfu"],
                "tokens_per_s": progress.get("tokens_per_s"), "steps": step_of(last),
                "training_s": progress["training_s"],
                "checkpoints": last["checkpoints"],
                **{name: max(series(seen, name)) for name in (
                    "paceline_gpu_memory_used_bytes", "paceline_gpu_utilization_ratio",
                    "paceline_gpu_temperature_celsius", "paceline_trainer_memory_active_peak_bytes",
                    "paceline_trainer_data_wait_ratio") if series(seen, name)}}

    def lose(self):
        with Cluster(self.args.programs, 3) as cluster:
            job = cluster.submit(LOSE.format(device=self.args.device, tokens=self.tokens))
            self.figures["lose"] = self.replace_a_rank(cluster, job)

    def session(self):
        self.check_engine()
        with Cluster(self.args.programs, 3) as cluster:
            job = {"device": self.args.device, "work": cluster.work,
                   "command": json.dumps([sys.executable, str(SCRIPT), str(cluster.work)])}
            first = cluster.submit(SESSION.format(ranks=2, spares=1, steps=1500, more="", **job))
            self.figures["session"] = self.replace_a_rank(cluster, first)
            ends = [(cluster.work / rank).read_text(encoding="utf-8") for rank in "01"]
            check(ends[0] == ends[1], "the ranks have ended differently")
            again = cluster.submit(SESSION.format(ranks=1, spares=0, steps=1600,
                                                  more=f"resume_from: {first}", **job))
            last = cluster.wait_until(again, succeeded, "does not go on", 120)
            check(step_of(last) == 1600, f"it ended after step {step_of(last)}")

    def check_engine(self):
        """The engine for scripts is for one version of Python."""
        name = "paceline._engine_cuda" if self.cuda else "paceline._engine"
        loaded = subprocess.run(
            [sys.executable, "-c", f"import torch, {name}"], text=True, capture_output=True,
            env=dict(os.environ, PYTHONPATH=str(self.args.programs / "python")), check=False)
        if "Python version mismatch" in loaded.stderr:
            raise Skipped(loaded.stderr.strip().splitlines()[-1])
        check(loaded.returncode == 0, loaded.stderr)

    @staticmethod
    def replace_a_rank(cluster, job):
        """Kills one of the job's two ranks, and waits for the job's end. Its figures."""
        before = cluster.wait_until(
            job, lambda now: step_of(now) > 100 and now.get("spares") and
            now["spares"][0]["state"] == "READY", "does not train with a spare", 120)
        victim = before["ranks"][1]
        os.kill(int(victim["pid"]), signal.SIGKILL)
        killed = time.monotonic()
        cluster.wait_until(job, lambda now: now["state"] == "RUNNING" and any(
            "end_time" in change for change in now.get("membership_changes", [])),
            "does not recover", 60)
        recovered_s = time.monotonic() - killed
        last = cluster.wait_until(job, succeeded, "does not succeed", 180)
        check(last.get("restarts", 0) == 0, f"it started again: {last.get('restart_reason')}")
        nodes = [rank["node"] for rank in last["ranks"]]
        check(victim["node"] not in nodes, f"no rank has moved: {nodes}")
        return {"recovered_s": recovered_s, "step_killed": step_of(before),
                "changes": last["membership_changes"]}

    def slow(self):
        with contextlib.ExitStack() as after:
            shared = after.enter_context(mps()) if self.cuda else {}
            cluster = after.enter_context(Cluster(self.args.programs, 5, shared))
            # Two processors that four ranks share are not even enough without a pause for all.
            dim, ffn, every = (256, 704, 0.001) if self.cuda else (32, 64, 0.04)
            job = cluster.submit(SLOW.format(device=self.args.device, tokens=self.tokens, dim=dim,
                                             ffn=ffn, every=every))
            before = cluster.wait_until(job, lambda now: step_of(now) > 20, "does not train", 120)
            check(before["ranks"][2]["node"] == "n2", f"rank 2 is not on n2: {before['ranks']}")
            known = []

            def proven(_):
                known[:] = cluster.ask("job", "decisions", job).get("decisions", [])
                return any(decision["state"] == "HELPED" for decision in known)

            try:
                cluster.wait_until(job, proven, "nothing has helped", 100)
            except Failed as failure:
                told = [{name: verdict[name] for name in ("kind", "rank", "step", "slowdown")}
                        for verdict in cluster.ask("job", "advise", job)["recent"]]
                raise Failed(f"{failure}\n{json.dumps(known)}\n{json.dumps(told)}") from failure
            helped = next(decision for decision in known if decision["state"] == "HELPED")
            check(helped["kind"] == "HOT_SWAP" and helped["node"] == "n2", f"{helped}")
            self.figures["slow"] = {name: helped[name] for name in (
                "summary", "step", "before_s", "predicted_s", "measured_s", "cost_s", "verdict")}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=pathlib.Path, required=True,
                        help="folder of paceline and the daemons")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the tests; default all")
    args = parser.parse_args()
    args.programs = args.programs.resolve()

    result = {"passed": [], "failed": [], "skipped": []}
    with tempfile.TemporaryDirectory(prefix="paceline-gpu.") as folder:
        tokens = pathlib.Path(folder) / "python.tokens"
        subprocess.run([args.programs / "paceline", "--quiet", "data", "tokenize", "--bytes",
                        pathlib.Path(json.__file__).parent.parent / "asyncio", "--out", tokens],
                       check=True)
        tests = Tests(args, tokens)
        for name in args.names or ("train", "lose", "session", "slow"):
            begin = time.monotonic()
            try:
                getattr(tests, name)()
                result["passed"].append(name)
                what = "passed"
            except Skipped as why:
                result["skipped"].append(name)
                what = f"skipped: {why}"
            except Failed as failure:
                result["failed"].append(name)
                what = f"failed: {failure}"
            print(f"cluster {name}: {time.monotonic() - begin:.1f} s: {what}", flush=True)
    print(json.dumps({**result, "figures": tests.figures}))
    return 1 if result["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
