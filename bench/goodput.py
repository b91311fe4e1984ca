"""The share of time that goes into useful steps while ranks keep failing.

One of four ranks, each in turn, is killed every so many seconds for five minutes. Useful is the
number of committed steps times what a step takes without a failure: the median over the same
minutes, so that a machine that gets slower or faster meanwhile changes nothing. Ours with a spare;
torchrun with a checkpoint of each step in memory; torchft with quick settings, whose lost replica
is started again by the benchmark after a second; the script of these two as a session of ours, with
a spare.
"""
import argparse
import functools
import statistics
import sys
import time

import failures
import paceline_bench

STEPS_BEFORE = 60
SETTLED = 20
# By the time between two failures.
LIMITS = {"ours": {60: 0.97, 15: 0.9}, "session": {15: 0.9}}


def step_time(run):
    return statistics.median(after - before
                             for steps in run.steps().values()
                             for (step, before), (following, after) in zip(steps[SETTLED:],
                                                                           steps[SETTLED + 1:])
                             if following == step + 1)


def measure(make, every, seconds):
    """The share of the time."""
    with failures.running(make) as run:
        run.wait_for(STEPS_BEFORE)
        begin_step, begin = run.progress(), time.monotonic_ns()
        victim = 0
        while (passed := (time.monotonic_ns() - begin) * 1e-9) < seconds:
            due = (passed // every + 1) * every
            wait = min(due, seconds) - passed
            time.sleep(wait)
            if due < seconds:
                run.kill_and_replace(victim % failures.RANKS)
                victim += 1
        done, passed = run.progress() - begin_step, time.monotonic_ns() - begin
        return done * step_time(run) / passed


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="of each run")
    parser.add_argument("--every", type=float, nargs="*", default=[60, 15], help="seconds")
    args = parser.parse_args()
    programs = paceline_bench.build("//:dist") / "dist/bin"
    systems = {
        "ours": functools.partial(failures.Ours, programs, workers=6,
                                  recovery="{max_failures: 1000, spares: 1}"),
        "session": functools.partial(failures.Session, programs, workers=6,
                                     recovery="{max_failures: 1000, spares: 1}"),
        "torchrun": failures.Torchrun,
        "torchft, tuned": functools.partial(failures.Torchft, **failures.Torchft.TUNED),
    }
    rows = []
    for every in args.every:
        shares = {name: [measure(make, every, args.seconds)] for name, make in systems.items()}
        peers = {name: share for name, share in shares.items() if name not in LIMITS}
        for name, limits in LIMITS.items():
            rows.append(paceline_bench.Row(
                case=f"{name}, a failure every {every:g} s", metric="useful time", unit="share",
                better="higher", ours=shares[name], peers=peers, limit=limits.get(every)))
    return paceline_bench.report("goodput", rows)


if __name__ == "__main__":
    sys.exit(main())
