"""Loss curves of deploy/examples/llama-hsgd.yaml beside the same job with plain data parallelism.

Both jobs run on a development cluster, eight ranks on four workers, from the same seed on the
same data; then both again with random stalls (each rank, at 2 % of its steps, sleeps one
second). Draws the losses against steps and, with the stalls, against time into
docs/images/llama-hsgd.svg, and reports the losses after the last step and the times.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import matplotlib
import paceline_bench

EXAMPLE = paceline_bench.ROOT / "deploy/examples/llama-hsgd.yaml"
PICTURE = paceline_bench.ROOT / "docs/images/llama-hsgd.svg"
TEXT = next(paceline_bench.ROOT.glob(".venv/lib/python3*/site-packages/torch"))
STALLS = "allow_chaos: true\nchaos: [{{rank: -1, kind: sleep, seconds: 1, probability: 0.02, steps: {steps}}}]\n"
LINE = re.compile(r"^(\S+) \w+ step=(\d+) loss=\S+ mean_loss=(\S+)", re.MULTILINE)
NAMES = {"ddp": "data parallel", "hsgd": "hierarchical"}
COLOURS = {"ddp": "#1f77b4", "hsgd": "#d62728"}


class Cluster:
    """A development cluster in a folder of its own."""

    def __init__(self, directory, programs):
        self.directory = pathlib.Path(directory)
        self.environment = dict(os.environ, PACELINE_DEV_DIR=str(self.directory / "dev"))
        self.program = programs / "paceline"

    def __enter__(self):
        self.run("dev", "up", "--workers", "4", "--slots", "2")
        return self

    def __exit__(self, *exception):
        self.run("dev", "down", "--purge")

    def run(self, *arguments):
        return subprocess.run([self.program, *map(str, arguments)], env=self.environment, check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def train(self, job):
        """[(step, seconds since the first line, mean loss)] of a job."""
        path = self.directory / "job.yaml"
        path.write_text(job, encoding="utf-8")
        identifier = json.loads(self.run("submit", path, "--output", "json"))["id"]
        self.run("job", "wait", identifier)
        log = self.run("job", "logs", identifier, "--rank", "0")
        points = [(int(step), moment(time), float(loss)) for time, step, loss in LINE.findall(log)]
        begin = points[0][1]
        return [(step, (time - begin).total_seconds(), loss) for step, time, loss in points]


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def replace(job, key, value):
    """The job file with another value of a key, which must be there."""
    changed, count = re.subn(rf"^( *{key}:).*$", rf"\1 {value}", job, flags=re.MULTILINE)
    if count != 1:
        raise ValueError(f"{EXAMPLE} has {count} keys {key}")
    return changed


def jobs(steps, data, stalls):
    """{name: job file} of the two strategies."""
    hsgd = replace(EXAMPLE.read_text(encoding="utf-8"), "train", data)
    hsgd = replace(hsgd, "log_every", 8)  # Period of the ladder's top level, which is shown.
    hsgd = replace(hsgd, "steps", steps)
    if stalls:
        hsgd += STALLS.format(steps=steps)
    ddp = re.sub(r"^strategy:\n( .*\n)+", "", hsgd, flags=re.MULTILINE)
    return {"ddp": replace(ddp, "name", "llama-ddp"), "hsgd": hsgd}


def draw(quiet, stalled):
    matplotlib.use("svg")
    from matplotlib import pyplot  # After the choice of the backend.

    pyplot.rcParams["svg.hashsalt"] = "paceline"
    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.6), sharey=True, layout="constrained")
    for name, label in NAMES.items():
        style = {"label": label, "color": COLOURS[name], "linewidth": 1.4}
        axes[0].plot([p[0] for p in quiet[name]], [p[2] for p in quiet[name]], **style)
        axes[1].plot([p[1] for p in stalled[name]], [p[2] for p in stalled[name]], **style)
    axes[0].set(xlabel="optimizer steps", ylabel="mean loss over the ranks", title="no stalls")
    axes[1].set(xlabel="seconds", title="each rank stalls for 1 s at 2 % of its steps")
    for one in axes:
        one.grid(alpha=0.3)
        one.legend()
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, metadata={"Date": None})


def final(points):
    """Mean of the last lines: a single batch says little."""
    last = [loss for _, _, loss in points[-5:]]
    return sum(last) / len(last)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=400, help="of each job")
    parser.add_argument("--draw", action="store_true", help="replace the picture in docs/")
    args = parser.parse_args()

    subprocess.run(["tools/build.sh"], cwd=paceline_bench.ROOT, check=True,
                   env=dict(os.environ, CONFIG="opt"), stdout=subprocess.DEVNULL)
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="paceline-curves."))
        cluster = stack.enter_context(Cluster(directory, paceline_bench.ROOT / "build/bin"))
        data = pathlib.Path(directory) / "python.tokens"
        cluster.run("data", "tokenize", "--bytes", TEXT, "--include", "*.py", "--out", data)
        quiet, stalled = (
            {name: cluster.train(job) for name, job in jobs(args.steps, data, stalls).items()}
            for stalls in (False, True))
    if args.draw:
        draw(quiet, stalled)
    rows = []
    for case, runs in (("no stalls", quiet), ("stalls", stalled)):
        rows.append(paceline_bench.Row(
            case=case, metric="loss at the end", unit="nat", ours=[final(runs["hsgd"])],
            peers={"ddp": [final(runs["ddp"])]}))
        rows.append(paceline_bench.Row(
            case=case, metric="time of the job", unit="s", ours=[runs["hsgd"][-1][1]],
            peers={"ddp": [runs["ddp"][-1][1]]}))
    return paceline_bench.report("curves", rows)


if __name__ == "__main__":
    sys.exit(main())
