"""How long a job stands still when a node with one of its ranks is drained.

Four ranks on a node each, and a fifth node that is free. One of the four is drained: a trainer starts
on the free node, receives the state and takes the rank over between two steps. Told in steps: the
longest pause between two steps of a rank that stays, divided by the median step before the drain.
"""
import argparse
import statistics
import sys
import time

import failures
import paceline_bench

STEPS_BEFORE = 80
SETTLED = 30
STEPS_AFTER = 30
DRAINED = 2


def measure(programs):
    """(pause in steps, pause in ms, from the drain to the swap in ms)."""
    make = lambda folder: failures.Ours(programs, folder, recovery="{max_failures: 10}")
    with failures.running(make) as run:
        run.wait_for(STEPS_BEFORE)
        job = run.describe()
        node = next(one for one in job["ranks"] if int(one.get("rank", 0)) == DRAINED)["node"]
        begin = time.monotonic_ns()
        run.run("node", "drain", node, "--owner", "bench", "--reason", "benchmark")
        swapped = time.monotonic_ns()
        run.wait_for(run.progress() + STEPS_AFTER, since=swapped)
        steps = next(steps for steps in run.steps().values()
                     if steps[0][1] < begin and steps[-1][1] > swapped)
        ends = [end for _, end in steps]
        alone = statistics.median(after - before for before, after in
                                  zip(ends[SETTLED:], ends[SETTLED + 1:]) if after < begin)
        pause, at = max((after - before, after) for before, after in zip(ends, ends[1:])
                        if after > begin)
        return pause / alone, (pause - alone) * 1e-6, (at - begin) * 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    programs = paceline_bench.build("//:dist") / "dist/bin"
    runs = [measure(programs) for _ in range(args.rounds)]
    rows = [("longest pause", "steps", 2), ("longer than a step by", "ms", None),
            ("drain to swap", "ms", None)]
    return paceline_bench.report("hotswap", [
        paceline_bench.Row(case="4 ranks", metric=metric, unit=unit, limit=limit,
                           ours=[run[i] for run in runs])
        for i, (metric, unit, limit) in enumerate(rows)])


if __name__ == "__main__":
    sys.exit(main())
