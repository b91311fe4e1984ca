"""From the death of one of the ranks that hold a model together to the next step of all ranks.

Two replicas of a perceptron, each sharded by FSDP2 over --shards ranks; the last rank is killed
with SIGKILL. Ours is a session with a spare that stands by; torchrun starts all ranks again, from a
checkpoint every ten steps in memory; torchft with quick settings goes on with the other replica
until the one that has lost a rank, started again as a whole, is back. The systems take turns.

Processes are those that a system has started STEPS_AFTER steps later; ours is the next spare, which
starts beside the training. Samples are those of steps that ranks have left out or done twice. Of
the step in which the rank died, its own count as used: others may have finished it, with them.
"""
import argparse
import collections
import functools
import statistics
import sys

import failures
import goodput
import paceline_bench

REPLICAS = 2
STEPS_BEFORE = 40
STEPS_AFTER = 30
SAVE_EVERY = 10
METRICS = (("kill to next step of all ranks", "ms"),
           ("kill to next step of a rank that stays", "ms"), ("processes started", "processes"),
           ("samples lost or repeated", "samples"), ("median step", "ms"))


def samples_off(run, begin, end, ranks):
    """Of the steps from begin to end."""
    done = collections.Counter(step for steps in run.steps().values() for step, _ in steps)
    off = [done[step] - ranks for step in range(begin, end + 1)]
    missing = -sum(count for count in off if count < 0)
    return failures.BATCH * (sum(count for count in off if count > 0) + max(0, missing - 1))


def measure(make, ranks):
    """One value for each of METRICS."""
    with failures.running(make) as run:
        begin, _ = run.wait_for_all(ranks, since=0)
        run.wait_for(begin + STEPS_BEFORE)
        pids = run.pids()
        killed = run.kill(ranks - 1)
        _, back = run.wait_for_all(ranks, since=killed)
        end = run.progress()
        run.wait_for(end + STEPS_AFTER, since=killed)
        # One step can still end without the victim. torchft pauses again when the replica is back.
        paused, _ = failures.outage(run, killed, among=2)
        return ((back - killed) * 1e-6, paused * 1e-6,
                len(run.pids() - pids), samples_off(run, begin, end, ranks),
                goodput.step_time(run) * 1e-6)


def rows_of(case, values):
    """values: by system, those of measure() of each round."""
    ours, *peers = [list(zip(*rounds)) for rounds in values.values()]
    limits = [300 + 2 * statistics.median(ours[-1]), None, None, 0, None]
    for i, (metric, unit) in enumerate(METRICS):
        yield paceline_bench.Row(
            case=case, metric=metric, unit=unit, ours=ours[i], limit=limits[i],
            peers={name: peer[i] for name, peer in zip(list(values)[1:], peers)})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each system")
    parser.add_argument("--shards", type=int, nargs="*", default=[2], help="ranks of a replica")
    args = parser.parse_args()
    programs = paceline_bench.build("//:dist") / "dist/bin"
    rows = []
    for shards in args.shards:
        ranks = REPLICAS * shards
        size = {"ranks": ranks, "shards": shards}
        systems = {
            "session, warm": functools.partial(
                failures.Session, programs, recovery="{max_failures: 100, spares: 1}",
                workers=ranks + 1, **size),
            "torchrun": functools.partial(failures.Torchrun, save_every=SAVE_EVERY, **size),
            "torchft, tuned": functools.partial(failures.Torchft, **failures.Torchft.TUNED, **size),
        }
        values = {name: [] for name in systems}
        for _ in range(args.rounds):
            for name, make in systems.items():
                values[name].append(measure(make, ranks))
        rows += rows_of(f"session, warm, {REPLICAS} x {shards}", values)
    return paceline_bench.report("sharded_recovery", rows)


if __name__ == "__main__":
    sys.exit(main())
