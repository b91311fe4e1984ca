"""Time of a training step: our trainer beside a Python DistributedDataParallel loop.

One thread per rank. ResNet-18 on 32x32 digits, batch 32, SGD with momentum; Llama with dim 256,
8 layers, 8 heads, sequences of 256 bytes, batch 8, fused AdamW. Runs of the two alternate, so
that a change of the machine's pace meets both alike.
"""
import argparse
import itertools
import sys

import paceline_bench
import training


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each program and case")
    parser.add_argument("--steps", type=int, default=25, help="steps of a run")
    parser.add_argument("--model", choices=("resnet18", "llama"), help="only this one")
    args = parser.parse_args()
    cases = [case for case in (training.RESNET18, training.LLAMA)
             if args.model in (None, case.name)]

    rows = []
    with training.Training() as runs:
        for case, ranks in itertools.product(cases, (1, 2)):
            ours, ddp = [], []
            for _ in range(args.rounds):
                ours.append(training.step_ms(runs.ours(case, ranks, args.steps)[0]))
                ddp.append(training.step_ms(runs.python(case, ranks, args.steps, "--fused")[0]))
            rows.append(paceline_bench.Row(
                case=f"{case.name}, {ranks} rank{'s' if ranks > 1 else ''}", metric="step time",
                unit="ms", ours=ours, peers={"python ddp": ddp}, target=1.0))
    return paceline_bench.report("step", rows)


if __name__ == "__main__":
    sys.exit(main())
