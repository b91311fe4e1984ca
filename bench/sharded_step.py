"""Time of a step of a session with a sharded model beside the same script with PyTorch's own HSDP.

The script is bench/peers/ddp_step.py, either way: the Llama of step.py, sharded by FSDP2 block by
block, over run.mesh or over a mesh of replicas and shards. One thread per rank. Runs of the two
alternate.
"""
import argparse
import itertools
import sys

import paceline_bench
import training

LAYOUTS = {"1x2": (1, 2), "2x2": (2, 2)}  # Replicas, and shards of each.


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each kind and case")
    parser.add_argument("--steps", type=int, default=25, help="steps of a run")
    parser.add_argument("--layouts", choices=LAYOUTS, nargs="*", default=list(LAYOUTS))
    parser.add_argument("--precisions", choices=("fp32", "bf16"), nargs="*", default=["fp32"],
                        help="bf16: of parameters and compute, with fp32 gradients")
    args = parser.parse_args()
    rows = []
    with training.Training() as runs:
        for layout, precision in itertools.product(args.layouts, args.precisions):
            replicas, shards = LAYOUTS[layout]
            run = (training.LLAMA, replicas * shards, args.steps, "--fused", "--shards",
                   str(shards), "--precision", precision)
            ours, hsdp = [], []
            for _ in range(args.rounds):
                ours.append(training.step_ms(runs.session(*run, spec=f"shards: {shards}")))
                hsdp.append(training.step_ms(runs.python(*run)[0]))
            rows.append(paceline_bench.Row(
                case=f"llama, {replicas} x {shards}, {precision}", metric="step time", unit="ms",
                ours=ours, peers={"native hsdp": hsdp}, target=1.005))
    return paceline_bench.report("sharded_step", rows)


if __name__ == "__main__":
    sys.exit(main())
