"""From the start of the process to the end of its first training step, beside Python.

One rank, ResNet-18 on 32x32 digits. One run of each beforehand warms the page cache.
"""
import argparse
import sys

import paceline_bench
import training


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="runs of each program")
    args = parser.parse_args()

    ours, ddp = [], []
    with training.Training() as runs:
        for _ in range(1 + args.rounds):
            ours.append(runs.ours(training.RESNET18, 1, 1)[1] / 1e6)
            ddp.append(runs.python(training.RESNET18, 1, 1, "--fused")[1] / 1e6)
    return paceline_bench.report("startup", [
        paceline_bench.Row(case="resnet18, 1 rank", metric="process start to first step", unit="ms",
                           ours=ours[1:], peers={"python ddp": ddp[1:]}, target=1.0)])


if __name__ == "__main__":
    sys.exit(main())
