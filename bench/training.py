"""Runs of our trainer and of its Python peer on the same digits, for step.py and startup.py."""
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import paceline_bench

DIGITS = next(paceline_bench.ROOT.glob(
    ".venv/lib/python3*/site-packages/sklearn/datasets/data/digits.csv.gz"))
PEER = paceline_bench.ROOT / "bench/peers/ddp_step.py"
BATCH = 32
THREADS = 1
# The first steps allocate, and let torch and the Reducer settle.
SETTLING_STEPS = 5

SPEC = """
name: "bench" ranks: {ranks} device: CPU threads_per_rank: {threads}
model {{ resnet18 {{}} }} data {{ train: "{data}" order: SHUFFLE }}
batch_per_rank: {batch} steps: {steps}
optimizer {{ sgd {{ momentum: 0.9 }} learning_rate: 0.05 }} seed: 1
"""


class Training:
    """Builds what is needed and makes the data. Use as a context: works in a temporary folder."""

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.directory = pathlib.Path(stack.enter_context(
                tempfile.TemporaryDirectory(prefix="paceline-bench.", dir="/dev/shm")))
            built = paceline_bench.build("//bench:trainer_run", "//worker/trainer", "//cli:paceline")
            self.runner = built / "bench/trainer_run"
            self.trainer = built / "worker/trainer/trainer"
            self.data = self.directory / "digits-train.shard"
            subprocess.run([built / "cli/paceline", "data", "import-digits", "--csv", DIGITS, "--out",
                            self.directory], check=True, stdout=subprocess.DEVNULL)
            self.runs = 0
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        self.stack.close()

    def ours(self, ranks, steps):
        """(starts of the steps in ns, nanoseconds from process start to the first step's end)."""
        work = self._new_folder()
        spec = work / "spec.textproto"
        spec.write_text(SPEC.format(ranks=ranks, steps=steps, data=self.data, batch=BATCH,
                                    threads=THREADS), encoding="utf-8")
        output = subprocess.run(
            [self.runner, "--trainer", self.trainer, "--spec", spec, "--dir", work,
             "--ranks", str(ranks), "--threads", str(THREADS)],
            check=True, stdout=subprocess.PIPE, text=True).stdout
        result = json.loads(output)
        first = result["ranks"][0]
        return first["starts_ns"], first["starts_ns"][0] + first["totals_ns"][0] - result["spawned_ns"]

    def python(self, ranks, steps, *options):
        """The same of the peer."""
        work = self._new_folder()
        environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS=str(THREADS))
        spawned = time.monotonic_ns()
        processes = [subprocess.Popen(
            [sys.executable, PEER, "--data", self.data, "--store", work / "store",
             "--rank", str(rank), "--world", str(ranks), "--batch", str(BATCH),
             "--steps", str(steps), "--threads", str(THREADS), *options],
            env=environment, stdout=subprocess.PIPE, text=True) for rank in range(ranks)]
        outputs = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            raise RuntimeError("the Python peer failed")
        first = json.loads(outputs[0])
        return first["starts_ns"], first["first_step_end_ns"] - spawned

    def _new_folder(self):
        self.runs += 1
        folder = self.directory / str(self.runs)
        folder.mkdir()
        return folder


def step_ms(starts):
    """Median time from the start of one settled step to the start of the next."""
    settled = starts[SETTLING_STEPS:]
    return statistics.median(b - a for a, b in zip(settled, settled[1:])) / 1e6
