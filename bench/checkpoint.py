"""What a checkpoint costs: our saving and restoring beside torch's, safetensors' and the bare disk.

The state is a Llama's parameters and both moments of AdamW as fp32, 1 GiB together, of which each
of two ranks saves one half. In a step they multiply matrices with one thread each, meet in an
all-reduce and change that half. Measured at each save: how long the training thread is held up, how
much longer the steps around it are than the others, and when the checkpoint is durable on both
ranks. Then two processes that hold all of the state already read all of the last checkpoint, as
ranks of data parallelism do, out of the disk and out of the page cache. The programs take turns.

Then the same of a script that trains by torch.optim.AdamW (bench/peers/adamw.py): as a session, whose
job tells when its checkpoints are complete, and with torch's async_save.
"""
import argparse
import contextlib
import functools
import json
import math
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import failures
import paceline_bench

PEER = paceline_bench.ROOT / "bench/peers/checkpoint.py"
RANKS = 2
PAGE = 4096
OURS = "ours"
ASYNC = {"dcp-async-thread": "async_save, thread", "dcp-async-process": "async_save, process"}
PEERS = {"dcp-save": "dcp save", **ASYNC, "dcp-staging-thread": "async_save, staging thread",
         "safetensors": "safetensors"}
READERS = ("dcp-save", "safetensors")
WRITES = ("write-buffered", "write-direct")
COLD_READS = ("read-buffered", "read-direct", "read-mapped")
WARM_READS = ("read-buffered", "read-mapped")

SCRIPT = paceline_bench.ROOT / "bench/peers/adamw.py"
SCRIPT_EVERY = 8  # Steps from save to save.
SESSION = """
name: bench
ranks: {ranks}
threads_per_rank: 1
command: {command}
working_directory: {{folder}}
venv: {venv}
session: true
batch_per_rank: 8
steps: {steps}
{state}
"""
SAVING = "checkpoint: {{directory: {directory}, every_steps: {every}, at_end: false, when_busy: wait}}"


def llama_tensors(dim, ffn_dim, layers, vocab):
    """(name, shape) of all parameters and their moments."""
    parameters = [("tok_embeddings.weight", (vocab, dim))]
    for layer in range(layers):
        parameters += [(f"layers.{layer}.{name}.weight", shape) for name, shape in (
            ("attention.wq", (dim, dim)), ("attention.wk", (dim, dim)), ("attention.wv", (dim, dim)),
            ("attention.wo", (dim, dim)), ("feed_forward.w1", (ffn_dim, dim)),
            ("feed_forward.w2", (dim, ffn_dim)), ("feed_forward.w3", (ffn_dim, dim)),
            ("attention_norm", (dim,)), ("ffn_norm", (dim,)))]
    parameters += [("norm.weight", (dim,)), ("output.weight", (vocab, dim))]
    return [(prefix + name, shape) for prefix in ("model/", "optimizer/exp_avg/",
                                                  "optimizer/exp_avg_sq/")
            for name, shape in parameters]


def row_bytes(shape):
    return 4 * math.prod(shape[1:])


def bytes_of(part):
    return sum(one["shape"][0] * row_bytes(one["shape"]) for one in part)


def parts_of_ranks(tensors):
    """Cut by bytes into one part for each rank; a cut within a tensor makes two of it."""
    total = bytes_of([{"shape": shape} for _, shape in tensors])
    parts, done = [[] for _ in range(RANKS)], 0
    for name, shape in tensors:
        rows, row = shape[0], row_bytes(shape)
        while rows > 0:
            rank = done * RANKS // total
            room = (rank + 1) * total // RANKS - done
            taken = min(rows, math.ceil(room / row))
            name_of_part = name if taken == shape[0] else f"{name}/{rank}"
            parts[rank].append({"name": name_of_part, "shape": [taken, *shape[1:]]})
            rows, done = rows - taken, done + taken * row
    return parts


def run_ranks(command_of, folder):
    """Runs a program for each rank; returns what they print, and leaves nothing running."""
    environment = dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1",
                       MASTER_ADDR="127.0.0.1", TORCH_FR_BUFFER_SIZE="0")
    with contextlib.ExitStack() as stack:
        outputs = [stack.enter_context(open(folder / f"output-{rank}", "w+", encoding="utf-8"))
                   for rank in range(RANKS)]
        processes = [subprocess.Popen(
            [str(word) for word in command_of(rank)], env=environment, stdout=outputs[rank],
            start_new_session=True) for rank in range(RANKS)]
        codes = [process.wait() for process in processes]
        for process in processes:  # End processes that async_save has started with their rank.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if any(codes):
            raise RuntimeError(f"a rank failed: {' '.join(map(str, command_of(0)))}")
        for output in outputs:
            output.seek(0)
        return [json.loads(output.read()) for output in outputs]


def remember(folder):
    """Reads a folder's files into the page cache."""
    for file in folder.rglob("*"):
        if file.is_file():
            file.read_bytes()


def stretch(steps, begin, durable):
    """How much longer than others the steps of a rank were between two times, all together, from
    the start of each to the start of the next; seconds."""
    around, others = [], []
    for (start, _), (following, _) in zip(steps, steps[1:]):
        touched = start <= durable and following > begin
        (around if touched else others).append((following - start) * 1e-9)
    return sum(around) - len(around) * statistics.median(others)


class Measurement:
    """Runs of all programs, and their results: {(metric, program): values}."""

    def __init__(self, args, programs, folder):
        self.args, self.programs, self.folder = args, programs, folder
        self.parts = parts_of_ranks(llama_tensors(args.dim, args.ffn_dim, args.layers, args.vocab))
        self.saved, self.read = folder / "saved.json", folder / "read.json"
        self.saved.write_text(json.dumps(self.parts), encoding="utf-8")
        self.read.write_text(json.dumps([sum(self.parts, [])] * RANKS), encoding="utf-8")
        self.total = sum(map(bytes_of, self.parts))
        self.values = {}
        self.disk_runs = 0

    def add(self, metric, program, value):
        self.values.setdefault((metric, program), []).append(value)

    def of(self, metric, *programs):
        return {program: self.values[metric, program] for program in programs}

    def round(self):
        for way in (OURS, *PEERS):
            with tempfile.TemporaryDirectory(prefix="run.", dir=self.folder) as run:
                self.measure(way, pathlib.Path(run))
        with tempfile.TemporaryDirectory(prefix="run.", dir=self.folder) as run:
            self.measure_disk(pathlib.Path(run))

    def command(self, way, run, state, directory):
        program = ([self.programs / "checkpoint_benchmark"] if way == OURS else
                   [sys.executable, PEER, "--way", way])
        return lambda rank: [*program, "--state", state, "--store", run / f"store-{state.stem}",
                             "--directory", directory, "--rank", rank, "--ranks", RANKS]

    def measure(self, way, run):
        job = run / "job"
        job.mkdir()
        command = self.command(way, run, self.saved, job)
        saving = ["--saves", self.args.saves, "--quiet-steps", self.args.quiet_steps, "--products",
                  self.args.products]
        ranks = run_ranks(lambda rank: [*command(rank), *saving], run)
        for number in range(1, self.args.saves + 1):  # The first makes buffers for the others.
            saves = [rank["saves"][number] for rank in ranks]
            begin = min(save["begin"] for save in saves)
            durable = max(save["durable"] for save in saves)
            self.add("blocked", way, max(save["blocked"] for save in saves) * 1e-9)
            self.add("durable", way, (durable - begin) * 1e-9)
            # The ranks wait for each other in each step.
            self.add("stretch", way, stretch(own_steps(ranks[0], number), begin, durable))
        if way in (OURS, *READERS):
            last = sorted(job.iterdir())[-1]
            for old in sorted(job.iterdir())[:-1]:
                shutil.rmtree(old)
            for temperature, prepare in (("cold", paceline_bench.forget), ("warm", remember)):
                prepare(last)
                (run / f"store-{self.read.stem}").unlink(missing_ok=True)
                ranks = run_ranks(self.command(way, run, self.read, last), run)
                self.add(temperature, way, max(rank["seconds"] for rank in ranks))

    def measure_disk(self, run):
        for way in WRITES:
            self.add("durable", way, self.disk(way, run))
        for way in COLD_READS:
            paceline_bench.forget(run)
            self.add("cold", way, self.disk(way, run))
        for way in WARM_READS:
            self.disk("read-buffered", run)
            self.add("warm", way, self.disk(way, run))

    def disk(self, way, run):
        """Each rank writes its part, or reads all of them."""
        self.disk_runs += 1
        meeting = run / f"meeting-{self.disk_runs}-"
        size = max(-(-bytes_of(part) // PAGE) * PAGE for part in self.parts)
        files = [run / f"raw-{rank}" for rank in range(RANKS)]
        ranks = run_ranks(lambda rank: [
            self.programs / "disk_benchmark", way, "--bytes", size, "--rank", rank, "--ranks", RANKS,
            "--meet", meeting, "--file", *([files[rank]] if way in WRITES else files)], run)
        return (max(rank["end"] for rank in ranks) - min(rank["begin"] for rank in ranks)) * 1e-9


class ScriptMeasurement:
    """Runs of a script, and their results: {(metric, way): values}."""

    def __init__(self, args, folder):
        self.folder, self.values = folder, {}
        self.programs = paceline_bench.build("//:dist") / "dist/bin"
        # The first save makes buffers for the others.
        self.steps = SCRIPT_EVERY * (args.saves + 1) + SCRIPT_EVERY // 2

    def add(self, way, **values):
        for metric, value in values.items():
            self.values.setdefault((metric, way), []).append(value * 1e3)

    def round(self):
        for measure in (self.session, *(functools.partial(self.dcp, way) for way in ASYNC)):
            with tempfile.TemporaryDirectory(prefix="run.", dir=self.folder) as run:
                measure(pathlib.Path(run))

    def dcp(self, way, run):
        ranks = self.script(way, run)
        for metric in ("blocked", "durable"):
            for values in zip(*(rank[metric][1:] for rank in ranks)):
                self.add(ASYNC[way], **{metric: max(values)})
        for step in run.glob("step-*"):
            paceline_bench.forget(step)
        ranks = self.script("restore", run)
        self.add(ASYNC[way], restored=max(rank["restored"] for rank in ranks))

    def script(self, way, run):
        """What the script tells, by rank."""
        return run_ranks(lambda rank: [
            sys.executable, SCRIPT, "--way", way, "--every", SCRIPT_EVERY, "--steps", self.steps,
            "--directory", run, "--store", run / f"store-{way}", "--rank", rank, "--ranks", RANKS],
            run)

    def session(self, run):
        saving = SAVING.format(directory=run, every=SCRIPT_EVERY)
        durable, _ = self.session_job(saving, self.steps, "--out", run / "out.{rank}")
        ranks = [json.loads((run / f"out.{rank}").read_text(encoding="utf-8"))["blocked"]
                 for rank in range(RANKS)]
        for values in list(zip(*ranks))[1:]:
            self.add(OURS, blocked=max(values))
        for step in sorted(durable)[1:]:
            self.add(OURS, durable=durable[step])
        last = sorted(run.glob("*/step-*"))[-1]
        paceline_bench.forget(last)
        _, log = self.session_job(f"resume_from: {last}", self.steps + 1)
        self.add(OURS, restored=max(map(float, re.findall(r"restored step=.* seconds=([\d.e+-]+)",
                                                          log))))

    def session_job(self, state, steps, *options):
        """Seconds until each checkpoint was complete, by step, and the job's log."""
        command = ["python", SCRIPT, "--way", "session", "--every", SCRIPT_EVERY, *options]
        text = SESSION.format(
            ranks=RANKS, command=json.dumps([str(word) for word in command]), steps=steps,
            venv=failures.VENV.parent, state=state)
        make = functools.partial(failures.Ours, self.programs, workers=RANKS, text=text)
        durable = {}
        with failures.running(make) as cluster:
            while (job := cluster.describe())["state"] != "SUCCEEDED":
                if job["state"] in ("FAILED", "CANCELLED"):
                    raise RuntimeError(f"the session: {job.get('reason')}")
                told = job.get("checkpoints", {})
                if told.get("durable_s"):
                    durable[int(told["newest_step"])] = told["durable_s"]
                time.sleep(0.1)
            return durable, cluster.run("job", "logs", cluster.job)

    def rows(self):
        for metric, text, target in (("blocked", "training held up", 0.1),
                                     ("durable", "durable after", 1),
                                     ("restored", "restored, cold", 1)):
            yield paceline_bench.Row(
                case=f"session with AdamW, {RANKS} ranks", metric=text, unit="ms", target=target,
                ours=self.values[metric, OURS],
                peers={name: self.values[metric, name] for name in ASYNC.values()})


def own_steps(rank, number):
    """The steps from the save before until the save after."""
    saves = rank["saves"]
    first = saves[number - 1]["durable"]
    last = saves[number + 1]["begin"] if number + 1 < len(saves) else rank["steps"][-1][1]
    return [step for step in rank["steps"] if first < step[0] < last]


def as_rates(times, total):
    """A row for a rate of bytes, in GB/s; higher is better."""
    return {name: [total / value * 1e-9 for value in values] for name, values in times.items()}


def milliseconds(times):
    return {PEERS.get(name, name): [value * 1e3 for value in values]
            for name, values in times.items()}


def make_rows(results, case):
    def row(metric, measured, peers, **options):
        ours = results.of(measured, OURS)
        return paceline_bench.Row(case=case, metric=metric, unit="ms",
                                  ours=milliseconds(ours)[OURS],
                                  peers=milliseconds(results.of(measured, *peers)), **options)

    def rate(metric, measured, limits):
        ours = as_rates(results.of(measured, OURS), results.total)[OURS]
        return paceline_bench.Row(case=case, metric=metric, unit="GB/s", better="higher", ours=ours,
                                  peers=as_rates(results.of(measured, *limits), results.total),
                                  target=0.9)

    return [
        row("training held up", "blocked", ASYNC, target=0.25),
        row("training held up, all peers", "blocked", PEERS),
        row("steps around the save longer by", "stretch", PEERS),
        row("durable after", "durable", PEERS),
        rate("written", "durable", WRITES),
        row("restored, cold", "cold", ["dcp-save"], target=0.5),
        row("restored, warm", "warm", ["dcp-save"], target=0.5),
        row("restored, cold", "cold", ["safetensors"]),
        row("restored, warm", "warm", ["safetensors"]),
        rate("read, cold", "cold", COLD_READS),
        rate("read, warm", "warm", WARM_READS),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each program")
    parser.add_argument("--saves", type=int, default=2, help="measured in each run")
    parser.add_argument("--quiet-steps", type=int, default=4, help="steps between two saves")
    parser.add_argument("--products", type=int, default=150, help="of matrices in a step")
    parser.add_argument("--dim", type=int, default=768)
    parser.add_argument("--ffn-dim", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--directory", type=pathlib.Path, default=paceline_bench.ROOT / "build",
                        help="on the disk that is to be measured")
    args = parser.parse_args()
    programs = paceline_bench.build("//bench:checkpoint_benchmark", "//bench:disk_benchmark") / "bench"
    with tempfile.TemporaryDirectory(prefix="paceline-bench.", dir=args.directory) as folder:
        results = Measurement(args, programs, pathlib.Path(folder))
        scripts = ScriptMeasurement(args, pathlib.Path(folder))
        for _ in range(args.rounds):
            results.round()
            scripts.round()
    case = f"{results.total / 2**30:.2f} GiB, {RANKS} ranks"
    return paceline_bench.report("checkpoint", [*make_rows(results, case), *scripts.rows()])


if __name__ == "__main__":
    sys.exit(main())
