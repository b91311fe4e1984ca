"""Runs of our trainer and of its Python peer on the same data: step.py, session.py, hf.py,
sharded_step.py, startup.py, formats.py, outer.py."""
import argparse
import contextlib
import dataclasses
import functools
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import links
import paceline_bench

SITE_PACKAGES = next(paceline_bench.ROOT.glob(".venv/lib/python3*/site-packages"))
DIGITS = SITE_PACKAGES / "sklearn/datasets/data/digits.csv.gz"
PEER = paceline_bench.ROOT / "bench/peers/ddp_step.py"
# The trainer of trainer_run for a session: a script, with session_environment().
SESSION_RANK = paceline_bench.ROOT / "python/tests/session_rank.sh"
THREADS = 1
# The first steps allocate, and let torch and the Reducer settle.
SETTLING_STEPS = 5

SPEC = """
name: "bench" ranks: {ranks} device: CPU threads_per_rank: {threads}
{training} steps: {steps} seed: {seed}
"""


@dataclasses.dataclass
class Case:
    """One training. In `spec` and `options` {data} is the path of the data."""

    name: str
    data: str  # Name of the file in the training's folder.
    spec: str  # Model, data, batch and optimizer of the job spec, as text.
    options: list  # The peer's options, which mean the same.


RESNET18 = Case(
    "resnet18", "digits-train.shard",
    'model { resnet18 {} } data { train: "{data}" order: SHUFFLE } batch_per_rank: 32 '
    "optimizer { sgd { momentum: 0.9 } learning_rate: 0.05 }",
    ["--model", "resnet18", "--batch", "32", "--data", "{data}"])

_SIZES = {"dim": 256, "layers": 8, "heads": 8, "kv_heads": 8, "ffn_dim": 768, "vocab_size": 2048,
          "rope_theta": 10000.0}
LLAMA = Case(
    "llama", "text.u16",
    "model { llama { " + " ".join(f"{key}: {value}" for key, value in _SIZES.items()) +
    ' tie_embeddings: false } } data { train: "{data}" order: SHUFFLE sequence_length: 256 '
    "token_type: TOKEN_TYPE_UINT16 } batch_per_rank: 8 "
    "optimizer { adamw {} learning_rate: 3e-4 weight_decay: 0.1 }",
    ["--model", "llama", "--batch", "8", "--length", "256", "--data", "{data}",
     "--sizes", json.dumps(_SIZES, separators=(",", ":"))])


class Training:
    """Builds what is needed and makes the data. Use as a context: works in a temporary folder."""

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            self.directory = pathlib.Path(stack.enter_context(
                tempfile.TemporaryDirectory(prefix="paceline-bench.", dir="/dev/shm")))
            built = paceline_bench.build("//bench:trainer_run", "//worker/trainer", "//cli:paceline")
            self.runner = built / "bench/trainer_run"
            self.trainer = built / "worker/trainer/trainer"
            subprocess.run([built / "cli/paceline", "data", "import-digits", "--csv", DIGITS, "--out",
                            self.directory], check=True, stdout=subprocess.DEVNULL)
            write_tokens(self.directory / LLAMA.data)
            self.runs = 0
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *exception):
        self.stack.close()

    def ours(self, case, ranks, steps):
        """(starts of the steps in ns, nanoseconds from process start to the first step's end)."""
        result = self.run(case, ranks, steps)
        first = result["ranks"][0]
        return first["starts_ns"], first["starts_ns"][0] + first["totals_ns"][0] - result["spawned_ns"]

    def run(self, case, ranks, steps, seed=1, rate=None):
        """What trainer_run prints of one run of our trainer; over links of that rate, if any."""
        work = self._new_folder()
        spec = work / "spec.textproto"
        training = case.spec.replace("{data}", str(self.directory / case.data))
        training = training.replace("{directory}", str(self.directory))
        spec.write_text(SPEC.format(ranks=ranks, steps=steps, seed=seed, threads=THREADS,
                                    training=training), encoding="utf-8")
        command = [self.runner, "--spec", spec, "--dir", work, "--ranks", str(ranks), "--threads",
                   str(THREADS)]
        command = ([*command, "--trainer", self.trainer] if rate is None
                   else links.over(rate, ranks, self.trainer, command))
        output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        return json.loads(output)

    def python(self, case, ranks, steps, *options, peer=PEER):
        """The same of the peer, a script."""
        work = self._new_folder()
        environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS=str(THREADS))
        training = [option.replace("{data}", str(self.directory / case.data))
                    for option in case.options]
        spawned = time.monotonic_ns()
        processes = [subprocess.Popen(
            [sys.executable, peer, *training, "--store", work / "store", "--rank", str(rank),
             "--world", str(ranks), "--steps", str(steps), "--threads", str(THREADS), *options],
            env=environment, stdout=subprocess.PIPE, text=True) for rank in range(ranks)]
        outputs = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            raise RuntimeError("the Python peer failed")
        first = json.loads(outputs[0])
        return first["starts_ns"], first["first_step_end_ns"] - spawned

    def session(self, case, ranks, steps, *options,
                spec='checkpoint { directory: "{work}/checkpoints" every_steps: 10 }', peer=PEER,
                batch=32):
        """Starts of the steps, in ns, of the peer's training as a session.

        spec: more of the job spec, as text; {work} is a folder of the run. batch: of a rank."""
        work = self._new_folder()
        training = [option.replace("{data}", str(self.directory / case.data))
                    for option in case.options]
        path = work / "spec.textproto"
        path.write_text(
            f'name: "bench" ranks: {ranks} threads_per_rank: {THREADS} steps: {steps} '
            f'command: "ddp_step.py" session: true working_directory: "/" batch_per_rank: {batch} '
            f'startup_timeout_s: 900 '  # To compile.
            + spec.replace("{work}", str(work)), encoding="utf-8")
        output = subprocess.run(
            [self.runner, "--trainer", SESSION_RANK, "--spec", path, "--dir", work, "--ranks",
             str(ranks), "--threads", str(THREADS)],
            check=True, stdout=subprocess.PIPE, text=True,
            env=session_environment(peer, ["--session", *training, *options])).stdout
        return json.loads(output)["ranks"][0]["starts_ns"]

    def _new_folder(self):
        self.runs += 1
        folder = self.directory / str(self.runs)
        folder.mkdir()
        return folder


@functools.lru_cache(maxsize=None)
def package():
    """The folder of the package for scripts."""
    return paceline_bench.build("//:engine", "//:watching") / "dist/bin/python"


def session_environment(script, arguments):
    """For SESSION_RANK: which script to start as a rank, and its arguments, without spaces."""
    return dict(os.environ, PYTHON=sys.executable, PACKAGE=str(package()), SCRIPT=str(script),
                ARGUMENTS=" ".join(map(str, arguments)))


def write_tokens(path, folder="torch/nn/modules", most=None):
    """A megabyte of Python's sources, or so many bytes; each byte a token of 16 bits."""
    text = b""
    for source in sorted((SITE_PACKAGES / folder).glob("*.py")):
        text += source.read_bytes()
    path.write_bytes(b"".join(bytes((byte, 0)) for byte in text[:most]))


def step_ms(starts):
    """Median time from the start of one settled step to the start of the next."""
    settled = starts[SETTLING_STEPS:]
    return statistics.median(b - a for a, b in zip(settled, settled[1:])) / 1e6


def compare_steps(bench, doc, ways, target, of=(RESNET18, LLAMA)):
    """Compares the steps of kinds of runs, which take turns. Returns the process's exit code.

    ways(runs): {what is added to the case: (ours, {peer: its runs})}; each is called with a case,
    the number of ranks and of steps, and returns the starts of the steps. `doc`: of the benchmark.
    `of`: the cases.
    """
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each kind and case")
    parser.add_argument("--steps", type=int, default=25, help="steps of a run")
    parser.add_argument("--model", choices=[case.name for case in of], help="only this one")
    args = parser.parse_args()
    cases = [case for case in of if args.model in (None, case.name)]

    rows = []
    with Training() as runs:
        for (added, sides), case, ranks in itertools.product(ways(runs).items(), cases, (1, 2)):
            ours, peers = sides
            times = [[] for _ in range(1 + len(peers))]
            for _ in range(args.rounds):
                for values, side in zip(times, (ours, *peers.values())):
                    values.append(step_ms(side(case, ranks, args.steps)))
            rows.append(paceline_bench.Row(
                case=f"{case.name}, {ranks} rank{'s' if ranks > 1 else ''}{added}",
                metric="step time", unit="ms", ours=times[0], peers=dict(zip(peers, times[1:])),
                target=target))
    return paceline_bench.report(bench, rows)
