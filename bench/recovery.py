"""From the death of one of four ranks to the next committed step of the others.

A rank is killed with SIGKILL in the middle of its training. Ours with a spare that stands by (warm),
with a free slot on which a new trainer starts (cold), and without either (shrinking to three);
torchrun, which starts all ranks again from a checkpoint of each step in memory; torchft, whose
survivors go on without the lost one, with the settings of its examples and with quick ones. The
script of these two as a session of ours, warm and cold; a cold one imports torch first. The systems
take turns.
"""
import argparse
import functools
import os
import statistics
import subprocess
import sys
import time

import failures
import paceline_bench
import training

STEPS_BEFORE = 40
STEPS_AFTER = 30
VICTIM = 2


def measure(make):
    """(milliseconds from the kill to the next step, steps done twice or never)."""
    with failures.running(make) as run:
        run.wait_for(STEPS_BEFORE)
        killed = run.kill(VICTIM)
        run.wait_for(run.progress() + STEPS_AFTER, since=killed)
        elapsed, lost = failures.outage(run, killed)
        return elapsed * 1e-6, lost


def import_ms():
    """What a process takes to import what a session needs, in milliseconds."""
    began = time.monotonic_ns()
    subprocess.run([sys.executable, "-c", "import torch, paceline.session"], check=True,
                   env=dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=str(training.package())))
    return (time.monotonic_ns() - began) * 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="runs of each system")
    args = parser.parse_args()
    programs = paceline_bench.build("//:dist") / "dist/bin"
    budget = "max_failures: 100"
    systems = {
        "warm": functools.partial(failures.Ours, programs, recovery=f"{{{budget}, spares: 1}}"),
        "cold": functools.partial(failures.Ours, programs, recovery=f"{{{budget}}}"),
        "shrink": functools.partial(failures.Ours, programs, workers=4,
                                    recovery=f"{{{budget}, min_ranks: 3, batch: keep_rank_batch}}"),
        "session, warm": functools.partial(failures.Session, programs,
                                           recovery=f"{{{budget}, spares: 1}}"),
        "session, cold": functools.partial(failures.Session, programs, recovery=f"{{{budget}}}"),
        "torchrun": failures.Torchrun,
        "torchft, README": functools.partial(failures.Torchft, **failures.Torchft.README),
        "torchft, tuned": functools.partial(failures.Torchft, **failures.Torchft.TUNED),
    }
    times = {name: [] for name in systems}
    lost = {name: [] for name in systems}
    imports = []
    for _ in range(args.rounds):
        for name, make in systems.items():
            elapsed, steps_lost = measure(make)
            times[name].append(elapsed)
            lost[name].append(steps_lost)
        imports.append(import_ms())
    limits = {"warm": 200, "cold": 800, "shrink": None, "session, warm": 200,
              "session, cold": round(statistics.median(imports)) + 500}
    peers = {name: times[name] for name in systems if name not in limits}
    rows = []
    for name, limit in limits.items():
        for peer, target in (("torchrun", 0.1), ("torchft, tuned", 0.5)):
            if name == "session, cold":  # A peer that lives on imports nothing.
                target = None
            rows.append(paceline_bench.Row(
                case=name, metric="kill to next step", unit="ms", ours=times[name],
                peers={peer: peers[peer]}, limit=limit, target=target))
        rows.append(paceline_bench.Row(
            case=name, metric="kill to next step, all peers", unit="ms", ours=times[name],
            peers=peers))
        rows.append(paceline_bench.Row(
            case=name, metric="steps lost or repeated", unit="steps", ours=lost[name], limit=0,
            peers={peer: lost[peer] for peer in peers}))
    return paceline_bench.report("recovery", rows)


if __name__ == "__main__":
    sys.exit(main())
