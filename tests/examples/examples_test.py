"""Each script of examples/ as people start it: `paceline run` with two ranks on a cluster of two slots.

Usage: examples_test.py EXAMPLE... PROGRAMS

PROGRAMS is the folder of the built programs.
"""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from elastic_cases import ElasticCases  # noqa: E402

EXAMPLES = pathlib.Path(sys.argv[1]).resolve().parent
PROGRAMS = pathlib.Path(sys.argv[-1]).absolute()
VENV = pathlib.Path(sys.prefix)
LIMIT_S = 300
# Is killed while two processes load for it, and looks for them when it is started again.
LOADS = """
import os, pathlib, signal
from torch.utils.data import DataLoader, Dataset

class Samples(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return os.getpid()

def lives(pid):
    try:
        os.kill(pid, 0)
        return True
    except ProcessLookupError:
        return False

pids = pathlib.Path("loaders")
first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
if not first:
    print("outlived:", [pid for pid in map(int, pids.read_text().split()) if lives(pid)], flush=True)
seen = set()
for batch in DataLoader(Samples(), 1, num_workers=2, persistent_workers=True):
    if len(seen) < 2 and int(batch) not in seen:
        seen.add(int(batch))
        print("loads in", int(batch), flush=True)
        pids.write_text(" ".join(map(str, seen)))
    if first and len(seen) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
"""
# Trains until it is started again, and then for three steps.
TRAINS_ON = """
import os, sys, time
print("torch is there:", "torch" in sys.modules, flush=True)
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
steps = 0
while os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" or steps < 3:
    model(torch.ones(2, 2)).sum().backward()
    optimizer.step()
    steps += 1
    time.sleep(0.01)
"""
# Trains until it is stopped.
WRAPPED = """
import signal, sys, time
if sys.argv[1] == "fails":
    raise ValueError("shard 7 is short")
def save(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
import torch
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while True:
    model(torch.ones(2, 2)).sum().backward()
    optimizer.step()
    time.sleep(0.01)
"""
# The second wrapper passes no signal on.
WRAPPERS = {
    "uv": ["uv", "run", "--no-project"],
    "accelerate": ["accelerate", "launch", "--cpu", "--num_processes", "1", "--num_machines", "1",
                   "--mixed_precision", "no", "--dynamo_backend", "no"],
}

# Until told, rank 1 does not enter the third collective, or enters a different one.
STANDS = """
import datetime, os, sys, time, torch, torch.distributed as dist
how, told = sys.argv[1:]
dist.init_process_group("gloo")
for _ in range(2):
    dist.all_reduce(torch.ones(4))
if how == "fails":
    dist.distributed_c10d._set_pg_timeout(datetime.timedelta(seconds=20), dist.group.WORLD)
if dist.get_rank() == 1:
    if how == "differs":
        dist.broadcast(torch.ones(2), 0)
    while not os.path.exists(told):
        time.sleep(0.1)
dist.all_reduce(torch.ones(7, 3))
dist.destroy_process_group()
"""


class ExamplesTest(ElasticCases, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.bin = cls.folder / "bin"
        shutil.copytree(PROGRAMS, cls.bin, ignore=shutil.ignore_patterns("*-cuda"))
        cls.environment = {
            "PATH": f"{cls.bin}:{VENV}/bin:{os.environ['PATH']}", "HOME": folder.name, "USER": "ann",
            "PACELINE_DEV_DIR": f"{folder.name}/dev", "PACELINE_CONFIG": f"{folder.name}/none",
            "VIRTUAL_ENV": str(VENV), "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1",
            "UV_OFFLINE": "1", "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}
        cls.addClassCleanup(cls.paceline, "dev", "down", "--purge")
        cls.paceline("dev", "up", "--workers", "1", "--slots", "2", "--bin-dir", cls.bin)

    @classmethod
    def paceline(cls, *arguments):
        done = subprocess.run([cls.bin / "paceline", *map(str, arguments)], env=cls.environment,
                              cwd=cls.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{arguments}: {done.stdout}{done.stderr}"
        return done.stdout

    def start(self, *command, ranks=2):
        """With restarts, as a process of torch may abort at its end: where a group outlives Python, a
        thread of gloo's ends that frees a tensor (pytorch/pytorch#179291).
        """
        log = open(self.folder / "log", "w+", encoding="utf-8")
        self.addCleanup(log.close)
        restarts = [] if "--max-restarts" in command else ["--max-restarts", "3"]
        process = subprocess.Popen(
            [self.bin / "paceline", "run", "--ranks", str(ranks), *restarts, *map(str, command)],
            env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        return process, log

    def finish(self, process, log, name):
        """The output of rank 0, and the job after its end."""
        process.wait(LIMIT_S)
        log.seek(0)
        output = log.read()
        job = self.job(name)
        self.assertEqual(process.returncode, 0, output)
        self.assertEqual(job["state"], "SUCCEEDED", output)
        self.assertNotIn("no longer watched", output)
        self.assertNotIn("not watched", output)
        return output, job

    def run_example(self, script, *arguments, options=()):
        name = re.sub("[^a-z0-9]", "-", pathlib.Path(script).stem)
        return self.finish(*self.start(*options, EXAMPLES / script, *arguments), name)

    def job_when(self, process, name, holds):
        """The job, once `holds` is true for it."""
        deadline = time.monotonic() + LIMIT_S
        job = {}
        while True:
            jobs = json.loads(self.paceline("job", "list", "-o", "json")).get("jobs", [])
            if any(one["spec"]["name"] == name for one in jobs):
                job = self.job(name)
                if holds(job):
                    return job
            self.assertIsNone(process.poll(), job)
            self.assertLess(time.monotonic(), deadline, job)
            time.sleep(0.05)

    def job(self, name):
        return json.loads(self.paceline("job", "describe", name, "-o", "json"))

    def expect_steps(self, job, steps):
        events = self.paceline("job", "events", job["spec"]["name"])
        if "ended by signal 6 (SIGABRT)" in events:
            return  # Restarted, as `start` says: the last start made another number of steps.
        self.assertEqual([int(rank["progress"]["step"]) for rank in job["ranks"]], [steps, steps], events)

    def test_ddp(self):
        output, job = self.run_example("ddp.py", "--epochs", 2, "--width", 4, "--lr", 0.1)
        self.assertRegex(output, r"epoch 1: loss \d.\d+, accuracy [3-9]\d\.\d %")
        self.expect_steps(job, 2 * 23)  # 1,438 images, 32 for each rank in a step.

    def test_fsdp2_goes_on_from_its_checkpoint_when_a_rank_is_killed(self):
        process, log = self.start(
            EXAMPLES / "fsdp2.py", "--checkpoints", self.folder / "fsdp2", "--dim",
            32, "--layers", 1, "--length", 16, "--every", 10, "--steps", 300)
        deadline = time.monotonic() + LIMIT_S
        while not (self.folder / "fsdp2/step-20/.metadata").exists():
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)
        os.kill(int(self.job("fsdp2")["ranks"][1]["pid"]), signal.SIGKILL)
        output, job = self.finish(process, log, "fsdp2")
        begins = [int(step) for step in re.findall("begins at step (\\d+)", output)]
        self.assertEqual((len(begins), begins[0]), (1 + job["restarts"], 0), output)
        self.assertGreaterEqual(begins[1], 20)
        self.assertRegex(output, r"step 300: loss \d.\d+, saved")
        self.assertGreaterEqual(job["restarts"], 1)
        # set_state_dict makes one optimizer step, which creates the state that it then replaces.
        self.expect_steps(job, 1 + 300 - begins[-1])

    def test_a_rank_of_a_session_is_replaced(self):
        (self.folder / "session.json").write_text(json.dumps({
            "name": "session", "ranks": 2, "command": ["python3", str(EXAMPLES / "session.py")],
            "session": True, "venv": str(VENV), "steps": 300, "batch_per_rank": 32,
            "evaluation": {"every": 100}, "recovery": {"max_failures": 5}, "allow_chaos": True,
            "chaos": [{"rank": -1, "steps": 300, "kind": "sleep", "seconds": 0.02}]}))
        self.paceline("submit", "session.json")
        step = lambda job: int(job.get("progress", {}).get("step", 0))
        job = self.wait_for("session", lambda job: step(job) >= 50)
        killed = int(job["ranks"][1]["pid"])
        os.kill(killed, signal.SIGKILL)
        job = self.wait_for("session", lambda job: job["state"] in ("SUCCEEDED", "FAILED"))
        events = self.paceline("job", "events", "session")
        self.assertEqual((job["state"], step(job)), ("SUCCEEDED", 300), events)
        self.assertEqual(int(job.get("restarts", 0)), 0, events)
        self.assertNotEqual(int(job["ranks"][1]["pid"]), killed, events)
        self.assertGreater(job["evaluation"]["accuracy"], 0.9, events)

    def test_a_session_that_starts_again_is_one_run_in_its_trackers(self):
        (self.folder / "tracked.json").write_text(json.dumps({
            "name": "tracked", "ranks": 2, "command": ["python3", str(EXAMPLES / "session.py")],
            "session": True, "venv": str(VENV), "steps": 200, "batch_per_rank": 32,
            "log_every": 1, "max_restarts": 1, "allow_chaos": True,
            "checkpoint": {"directory": str(self.folder / "checkpoints"), "every_steps": 20},
            "chaos": [{"rank": -1, "steps": 200, "kind": "sleep", "seconds": 0.05},
                      {"rank": 1, "step": 90, "kind": "exit", "generation": 1}],
            "tracker": {"tensorboard": {"directory": str(self.folder / "tb")},
                        "mlflow": {"uri": f"file://{self.folder}/mlruns"},
                        "wandb": {"project": "digits", "offline": True}}}))
        self.paceline("submit", "tracked.json")
        done = subprocess.run(
            [VENV / "bin/python", "-m", "paceline.track", "tracked", "--poll", "0.5", "--positions",
             self.folder / "positions", "--paceline", self.bin / "paceline"],
            env={**self.environment, "PYTHONPATH": str(self.bin / "python"),
                 "MLFLOW_DISABLE_TELEMETRY": "true", "WANDB_ERROR_REPORTING": "false"},
            cwd=self.folder, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        job = self.job("tracked")
        events = self.paceline("job", "events", "tracked")
        self.assertEqual((job["state"], job["restarts"]), ("SUCCEEDED", 1), events)
        from tensorboard.backend.event_processing import event_accumulator
        read = event_accumulator.EventAccumulator(
            str(self.folder / "tb" / job["id"]), {"scalars": 0, "tensors": 0})
        read.Reload()
        for name in ("paceline/loss", "paceline/learning_rate", "paceline/step_s"):
            steps = [event.step for event in read.Scalars(name)]
            self.assertEqual(steps, sorted(set(steps)), name)
            self.assertLessEqual(steps[-1], 200, name)
        self.assertEqual(read.Scalars("paceline/eval_accuracy")[-1].step, 200)
        marks = [event.tensor_proto.string_val[0] for event in read.Tensors("paceline/events")]
        self.assertEqual(len([text for text in marks if text.startswith(b"**restart**")]), 1, marks)
        self.assertEqual(len(list((self.folder / "positions/wandb").glob("offline-run-*"))), 1)

    def test_a_session_trains_a_model_in_shards(self):
        (self.folder / "sharded.json").write_text(json.dumps({
            "name": "sharded", "ranks": 2, "shards": 2,
            "command": ["python3", str(EXAMPLES / "fsdp2_session.py")],
            "session": True, "venv": str(VENV), "steps": 20, "batch_per_rank": 8}))
        self.paceline("submit", "sharded.json")
        job = self.wait_for("sharded", lambda job: job["state"] in ("SUCCEEDED", "FAILED"))
        self.assertEqual((job["state"], int(job["progress"]["step"])), ("SUCCEEDED", 20), job)

    def test_an_interpreter_stands_by_for_the_next_start(self):
        script = self.folder / "trains_on.py"
        script.write_text(TRAINS_ON)
        process, log = self.start("--max-restarts", 1, script)
        job = self.job_when(process, "trains-on", lambda job: [
            rank.get("standby") for rank in job.get("ranks", [])] == ["ready", "ready"])
        self.assertRegex(self.paceline("job", "describe", "trains-on"), r"Standby: +2 ready\n")
        os.kill(int(job["ranks"][1]["pid"]), signal.SIGKILL)
        output, job = self.finish(process, log, "trains-on")
        self.assertEqual(re.findall("torch is there: (.*)", output), ["False", "True"], output)
        self.expect_steps(job, 3)
        # No restart is left.
        self.assertFalse(any(rank.get("standby") for rank in job["ranks"]), job["ranks"])

    def test_loader_workers_do_not_outlive_a_killed_rank(self):
        script = self.folder / "loads.py"
        script.write_text(LOADS)
        process, log = self.start("--max-restarts", 1, script, ranks=1)
        output, job = self.finish(process, log, "loads")
        self.assertEqual(job["restarts"], 1, output)
        workers = [int(pid) for pid in re.findall("loads in (\\d+)", output)]
        self.assertEqual(len(set(workers)), 4, output)  # Two of each start.
        # The second start found none of the first.
        self.assertRegex(output, r"outlived: \[\]")

    def test_a_program_under_a_wrapper_is_watched_and_has_its_grace(self):
        script = self.folder / "wrapped.py"
        script.write_text(WRAPPED)
        for name, wrapper in WRAPPERS.items():
            with self.subTest(name):
                process, log = self.start("--name", name, "--stop-grace", "10m", *wrapper, script, "trains", ranks=1)
                self.job_when(process, name, lambda job: int(
                    job.get("ranks", [{}])[0].get("progress", {}).get("step", 0)) >= 3)
                process.send_signal(signal.SIGINT)
                self.assertEqual(process.wait(LIMIT_S), 130)
                log.seek(0)
                self.assertIn("saved\n", log.read())

    def test_a_program_under_a_wrapper_fails_for_its_own_reason(self):
        script = self.folder / "wrapped.py"
        script.write_text(WRAPPED)
        for name, wrapper in WRAPPERS.items():
            with self.subTest(name):
                process, _ = self.start("--name", f"{name}-fails", "--max-restarts", 0, *wrapper, script,
                                        "fails", ranks=1)
                self.assertEqual(process.wait(LIMIT_S), 1)
                self.assertIn("ValueError: shard 7 is short", self.job(f"{name}-fails")["reason"])

    def submit_that_stands(self, how):
        name = "stands-" + how
        (self.folder / "stands.py").write_text(STANDS)
        (self.folder / f"{name}.yaml").write_text(json.dumps({
            "name": name, "ranks": 2, "command": ["python3", "stands.py", how, name],
            "venv": str(VENV), "stall_warning_s": 1}))
        self.paceline("submit", f"{name}.yaml")
        return name

    def wait_for(self, name, holds):
        deadline = time.monotonic() + LIMIT_S
        while True:
            job = self.job(name)
            if holds(job):
                return job
            self.assertLess(time.monotonic(), deadline, job)
            time.sleep(0.2)

    def wait_for_finding(self, name):
        return self.wait_for(name, lambda job: job.get("collectives", {}).get("findings"))

    def test_rank_that_does_not_enter_a_collective_is_named(self):
        name = self.submit_that_stands("late")
        finding = ("all_reduce #3 of group default_pg (float32 [7, 3]): rank 0 is in it, rank 1 has "
                   "not entered it; its last was all_reduce #2")
        job = self.wait_for_finding(name)
        self.assertEqual(job["collectives"]["findings"], [finding])
        self.assertRegex(job["reason"], "has been quiet for")
        self.assertIn(finding, job["reason"])
        page = self.paceline("job", "describe", name)
        self.assertRegex(page, r"Collective: as of .* ago\)\n  all_reduce #3 of group default_pg")
        self.assertIn(finding, self.paceline("job", "events", name))
        (self.folder / name).touch()
        job = self.wait_for(name, lambda job: job["state"] == "SUCCEEDED")
        self.assertNotIn("collectives", job)

    def test_ranks_that_enter_different_collectives_are_named(self):
        name = self.submit_that_stands("differs")
        job = self.wait_for_finding(name)
        self.assertEqual(job["collectives"]["findings"], [
            "collective #3 of group default_pg is not the same on all ranks: rank 0 called all_reduce "
            "(float32 [7, 3]), rank 1 called broadcast (float32 [2])"])
        self.paceline("job", "cancel", name)

    def test_collective_that_fails_is_explained(self):
        name = self.submit_that_stands("fails")
        job = self.wait_for(name, lambda job: job["state"] == "FAILED")
        self.assertIn("all_reduce #3 of group default_pg (float32 [7, 3]): rank 0 is in it, rank 1 has "
                      "not entered it", job["reason"])

    def test_transformers(self):
        output, job = self.run_example("transformers_trainer.py", "--output", self.folder / "sums",
                                       "--epochs", 2)
        self.expect_steps(job, 2 * 5)
        output, job = self.run_example("transformers_trainer.py", "--output", self.folder / "sums",
                                       "--epochs", 3)
        self.assertIn("done after step 15:", output)
        self.expect_steps(job, 5)

    def test_lightning(self):
        output, job = self.run_example("lightning_fit.py")
        self.assertRegex(output, r"done: accuracy [89]\d\.\d %")
        self.expect_steps(job, 3 * 23)

    def test_accelerate(self):
        output, job = self.run_example("accelerated.py", "--epochs", 2)
        self.assertRegex(output, r"epoch 1: loss \d.\d+")
        self.expect_steps(job, 2 * 29)  # 57 batches of a rank, two of which are a step.

    def test_bash_does_each_file_once(self):
        for number in range(5):
            (self.folder / f"file.{number}").write_text(str(number))
        output, _ = self.run_example("checksums.sh", self.folder, self.folder / "sums-of-files")
        self.assertRegex(output, r"rank 0: \d+ checksums")
        found = [line.split()[1] for path in (self.folder / "sums-of-files").iterdir()
                 for line in path.read_text().splitlines()]
        self.assertEqual(len(found), len(set(found)))
        for number in range(5):
            self.assertIn(f"{self.folder}/file.{number}", found)

    def test_cpp(self):
        program = self.folder / "all_reduce"
        subprocess.run([EXAMPLES / "build.sh", program], env=self.environment, check=True)
        output, _ = self.finish(*self.start(program), "all-reduce")
        # The sum over steps 1 to 100 of (0 + step) + (1 + step).
        self.assertIn("rank 0 of 2: sum 10200\n", output)
        done = subprocess.run(
            [VENV / "bin/torchrun", "--standalone", "--no-python", "--nproc-per-node", "2", program],
            env=self.environment, capture_output=True, text=True, check=False)
        self.assertIn("rank 1 of 2: sum 10200\n", done.stdout, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
