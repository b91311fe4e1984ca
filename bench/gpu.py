"""Llama on one GPU: tokens per second and MFU of our trainer beside an eager Python loop.

bfloat16 autocast, the fused AdamW, random tokens; ours step by step and, as a case of its own,
replayed as a CUDA graph. Runs of ours and of the peer alternate. The MFU is by the formula of
docs/models.md against the peak of dense bfloat16; for a GPU that the table lacks, and on a CPU
(--device cpu, to try the benchmark itself), there is none.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy

import paceline_bench

sys.path.insert(0, str(paceline_bench.ROOT / "bench/peers"))
import llama  # noqa: E402

PEER = paceline_bench.ROOT / "bench/peers/llama_gpu.py"
# FLOP/s of dense bfloat16; the first key that occurs in the device's name counts. docs/models.md.
PEAKS = {"GB200": 2.5e15, "B200": 2.25e15, "H200": 989e12, "H100 NVL": 835e12,
         "H100 PCIe": 756e12, "H100": 989e12, "A100": 312e12}
TOKENS = 1 << 22


@dataclasses.dataclass
class Case:
    preset: str
    length: int
    batch: int

    @property
    def tokens_per_step(self):
        return self.length * self.batch


CUDA_CASES = [Case("160m", 1024, 32), Case("1b", 2048, 8)]
CPU_CASES = [Case("debug", 64, 4)]

SPEC = """
name: "bench" ranks: 1 device: {device} precision: BF16 steps: {steps} seed: 1
model {{ llama {{ preset: LLAMA_PRESET_{preset} }} }}
data {{ train: "{data}" order: SHUFFLE sequence_length: {length} token_type: TOKEN_TYPE_UINT32 }}
batch_per_rank: {batch} optimizer {{ adamw {{}} learning_rate: 3e-4 weight_decay: 0.1 }}
cuda_graph: {graph}
"""


class Runs:
    """Runs of both sides in a temporary folder. Use as a context."""

    def __init__(self, args):
        self.args = args
        self.cuda = args.device == "cuda"
        self.runs = 0
        self.device = None  # Reported by the peer.
        self.torch = None

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(prefix="paceline-bench.")
        self.directory = pathlib.Path(self.folder.name)
        trainer = "trainer_cuda" if self.cuda else "trainer"
        built = self.args.programs or paceline_bench.build(
            "//bench:trainer_run", f"//worker/trainer:{trainer}")
        self.runner = built / "bench/trainer_run"
        self.trainer = built / "worker/trainer" / trainer
        # Only for our programs: the peer's Python finds its libraries itself.
        self.environment = dict(os.environ)
        if "PACELINE_LIBRARY_PATH" in os.environ:
            self.environment["LD_LIBRARY_PATH"] = os.environ["PACELINE_LIBRARY_PATH"]
        return self

    def __exit__(self, *exception):
        self.folder.cleanup()

    def data(self, case):
        """Random tokens of the case's vocabulary."""
        path = self.directory / f"{case.preset}.u32"
        if not path.exists():
            tokens = numpy.random.default_rng(1).integers(
                llama.PRESETS[case.preset].vocab_size, size=TOKENS, dtype=numpy.uint32)
            tokens.tofile(path)
        return path

    def ours(self, case, graph):
        """Starts of the steps in nanoseconds, and the last one's end."""
        self.runs += 1
        work = self.directory / str(self.runs)
        work.mkdir()
        spec = work / "spec.textproto"
        spec.write_text(SPEC.format(
            device="CUDA" if self.cuda else "CPU", steps=self.args.steps, data=self.data(case),
            preset=case.preset.upper(), length=case.length, batch=case.batch,
            graph="true" if graph else "false"), encoding="utf-8")
        output = subprocess.run(
            [self.runner, "--trainer", self.trainer, "--spec", spec, "--dir", work,
             "--threads", str(self.args.threads)],
            check=True, stdout=subprocess.PIPE, text=True, env=self.environment).stdout
        rank = json.loads(output)["ranks"][0]
        starts = rank["starts_ns"]
        return starts + [starts[-1] + rank["totals_ns"][-1]]

    def python(self, case):
        """The same of the peer, and what it tells of the model."""
        output = subprocess.run(
            [sys.executable, PEER, "--data", self.data(case), "--preset", case.preset,
             "--device", self.args.device, "--length", str(case.length), "--batch",
             str(case.batch), "--steps", str(self.args.steps)],
            check=True, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, OMP_NUM_THREADS=str(self.args.threads))).stdout
        result = json.loads(output)
        self.device, self.torch = result["device"], result["torch"]
        return result["starts_ns"], result

    def peak(self):
        return next((flops for name, flops in PEAKS.items() if name in self.device), None)


def tokens_per_s(starts, case, settling):
    settled = starts[settling:]
    return case.tokens_per_step * (len(settled) - 1) / ((settled[-1] - settled[0]) * 1e-9)


def flops_per_token(case, peer):
    """Forward and backward. Of tied embeddings nothing is subtracted."""
    sizes = llama.PRESETS[case.preset]
    embedding = 0 if sizes.tie_embeddings else peer["embedding_parameters"]
    return 6 * (peer["parameters"] - embedding) + 12 * sizes.layers * sizes.dim * case.length


def measure(runs, case, args):
    graphs = [False, True] if runs.cuda else [False]
    ours, eager, peer = {graph: [] for graph in graphs}, [], None
    for _ in range(args.rounds):
        for graph in random.sample(graphs, len(graphs)):
            ours[graph].append(tokens_per_s(runs.ours(case, graph), case, args.settling))
        starts, peer = runs.python(case)
        eager.append(tokens_per_s(starts, case, args.settling))
    rows = []
    for graph in graphs:
        name = f"llama {case.preset}, {case.batch} x {case.length}" + (", graph" if graph else "")
        rows.append(paceline_bench.Row(
            case=name, metric="tokens/s", unit="1/s", better="higher", ours=ours[graph],
            peers={"python eager": eager}, target=1.0))
        if runs.peak():
            percent = 100 * flops_per_token(case, peer) / runs.peak()
            rows.append(paceline_bench.Row(
                case=name, metric="MFU", unit="%", better="higher",
                ours=[rate * percent for rate in ours[graph]],
                peers={"python eager": [rate * percent for rate in eager]}))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=pathlib.Path,
                        help="folder with bench/trainer_run and worker/trainer/trainer_cuda; "
                        "default: built first")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--presets", nargs="*", help="of the cases; default all")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each program and case")
    parser.add_argument("--steps", type=int, default=40, help="steps of a run")
    parser.add_argument("--settling", type=int, default=10, help="steps that do not count")
    parser.add_argument("--threads", type=int, default=4, help="of each program on the CPU")
    args = parser.parse_args()

    rows = []
    with Runs(args) as runs:
        for case in CUDA_CASES if runs.cuda else CPU_CASES:
            if not args.presets or case.preset in args.presets:
                rows += measure(runs, case, args)
        more = {"device": runs.device, "peer's torch": runs.torch}
    return paceline_bench.report("gpu", rows, more)


if __name__ == "__main__":
    sys.exit(main())
