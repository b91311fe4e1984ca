"""From the death of one of four ranks of somebody's own script to its first step after the restart.

A perceptron under DistributedDataParallel that saves each step in memory, unchanged, under
`paceline run --max-restarts` and under torchrun; a rank is killed with SIGKILL. They take turns: with
interpreters that stand by, which a script has that is watched, without, and torchrun.
"""
import argparse
import functools
import pathlib
import sys

import failures
import paceline_bench
import recovery


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each system")
    parser.add_argument("--programs", type=pathlib.Path, help="folder of ours [built, optimised]")
    args = parser.parse_args()
    programs = args.programs or paceline_bench.build("//:dist") / "dist/bin"
    systems = {"standby": functools.partial(failures.OwnScript, programs=programs, standby=True),
               "none": functools.partial(failures.OwnScript, programs=programs, standby=False),
               "torchrun": failures.Torchrun}
    times = {name: [] for name in systems}
    for _ in range(args.rounds):
        for name, make in systems.items():
            times[name].append(recovery.measure(make)[0])
    return paceline_bench.report("restart", [
        paceline_bench.Row(case=case, metric="kill to first step of the restart", unit="ms",
                           ours=times[name], peers={"torchrun": times["torchrun"]}, target=target)
        for case, name, target in (("interpreters stand by", "standby", 1 / 3),
                                   ("nothing stands by", "none", 0.8))])


if __name__ == "__main__":
    sys.exit(main())
