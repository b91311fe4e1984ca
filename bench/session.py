"""Time of a step in a session beside the same script with DistributedDataParallel.

The script is bench/peers/ddp_step.py, either way; the session saves a checkpoint every ten steps.
One thread per rank. Models as in step.py. Runs of the two alternate.
"""
import argparse
import itertools
import sys

import paceline_bench
import training


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each kind and case")
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
                ours.append(training.step_ms(runs.session(case, ranks, args.steps, "--fused")))
                ddp.append(training.step_ms(runs.python(case, ranks, args.steps, "--fused")[0]))
            rows.append(paceline_bench.Row(
                case=f"{case.name}, {ranks} rank{'s' if ranks > 1 else ''}", metric="step time",
                unit="ms", ours=ours, peers={"python ddp": ddp}, target=1.005))
    return paceline_bench.report("session", rows)


if __name__ == "__main__":
    sys.exit(main())
