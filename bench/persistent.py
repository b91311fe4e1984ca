"""What a rank that becomes slow for good costs a job: without help, with PyTorch's hierarchical SGD,
and with Paceline, which finds it and swaps it for a spare while the job trains.

Eight ranks, an MLP of 16 KB, real processes over Gloo. Computing is emulated by a sleep of 55 ms; from
step 200 on one rank sleeps half as long again. A run lasts from the first step to the 2,000th, with
all that it takes to find the rank and to replace it. The throughput is told as a share of the same
program's without a slow rank.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import failures
import hsgd
import paceline_bench
from paceline_bench import Row

RANKS = 8
HIDDEN = hsgd.HIDDEN[16]
COMPUTE_S = hsgd.COMPUTE_S
SLOW_FROM = 200
FACTOR = 1.5
SLOW_NODE = "w3"
SLOW_RANK = 3

JOB = """
name: bench
ranks: {ranks}
threads_per_rank: 1
model: {{kind: mlp, hidden: [{hidden}]}}
data: {{train: "{{folder}}/digits-train.shard", order: sequential, prefetch_threads: 0}}
batch_per_rank: {batch}
steps: {steps}
optimizer: {{kind: sgd, learning_rate: 0.01, momentum: 0.9}}
recovery: {{max_failures: 3, spares: 1}}
stragglers: {{mode: "{mode}"}}
allow_chaos: true
chaos:
  - {{rank: -1, steps: {steps}, kind: sleep, seconds: {compute}}}
  - {{rank: -1, node: {node}, step: {begin}, steps: {steps}, kind: sleep, seconds: {more}}}
"""


def run_ours(args, mode, slow):
    """(steps a second, what was decided)."""
    text = JOB.format(ranks=RANKS, hidden=HIDDEN, batch=hsgd.BATCH, steps=args.steps + 500, mode=mode,
                      compute=COMPUTE_S, more=(args.factor - 1) * COMPUTE_S if slow else 0,
                      node=SLOW_NODE, begin=args.slow_from)
    make = lambda folder: failures.Ours(args.programs, folder, workers=RANKS + 1, text=text)
    with failures.running(make) as run:
        run.wait_for(args.steps + 5, timeout=args.steps * COMPUTE_S * 2 * args.factor + 60)
        steps = max(run.steps().values(), key=len)  # The steps of a rank that was there all the time.
        ends = dict(steps)
        decisions = json.loads(run.run("job", "decisions", run.job, "-o", "json"))
        seconds = (ends[args.steps] - ends[1]) * 1e-9
        return (args.steps - 1) / seconds, decisions.get("decisions", [])


def run_python(args, ladder, slow):
    """Steps a second."""
    with tempfile.TemporaryDirectory(dir=args.directory) as folder:
        options = {"data": args.directory / "noise.shard", "store": pathlib.Path(folder) / "store",
                   "ranks": RANKS, "hidden": HIDDEN, "batch": hsgd.BATCH, "steps": args.steps,
                   "seed": hsgd.SEED, "compute": COMPUTE_S, "stall": 0, "stall-share": 0}
        if ladder:
            options["ladder"] = ",".join(f"{p}:{s}" for p, s in hsgd.LADDERS[RANKS].items())
        if slow:
            options.update({"slow-rank": SLOW_RANK, "slow-from": args.slow_from,
                            "slow-by": (args.factor - 1) * COMPUTE_S})
        output = subprocess.run(
            [sys.executable, hsgd.PEER] + [f"--{name}={value}" for name, value in options.items()],
            check=True, stdout=subprocess.PIPE, text=True,
            env=dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")).stdout
    records = json.loads(output)["ranks"]
    begin = max(record["starts_ns"][1] for record in records)
    end = max(record["starts_ns"][-1] + record["totals_ns"][-1] for record in records)
    return (args.steps - 1) / ((end - begin) * 1e-9)


def story(decisions):
    """Of the swap: (step at which it was decided, seconds it has cost, predicted over measured)."""
    swaps = [one for one in decisions if one["kind"] == "HOT_SWAP"]
    if not swaps:
        return None
    swap = swaps[0]
    measured = swap.get("measured_s", 0)
    return (int(swap["step"]), swap.get("paid_s", 0),
            swap["predicted_s"] / measured if measured else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--slow-from", type=int, default=SLOW_FROM)
    parser.add_argument("--factor", type=float, default=FACTOR, help="of the slow rank's time")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    args.programs = paceline_bench.build("//:dist") / "dist/bin"

    ours = {"auto": [], "off": []}
    peers = {"ddp": [], "averager": []}
    swaps = []
    with tempfile.TemporaryDirectory(prefix="paceline-bench.", dir="/dev/shm") as directory:
        args.directory = pathlib.Path(directory)
        hsgd.write_data(args.directory / "noise.shard")
        for _ in range(args.rounds):
            healthy, _ = run_ours(args, "off", slow=False)
            for mode, shares in ours.items():
                begin = time.monotonic()
                speed, decisions = run_ours(args, mode, slow=True)
                shares.append(speed / healthy)
                swaps += [story(decisions)] if story(decisions) else []
                print(f"ours {mode}: {speed:.2f} steps/s of {healthy:.2f}, "
                      f"{time.monotonic() - begin:.0f} s", file=sys.stderr, flush=True)
            for name, shares in peers.items():
                ladder = name == "averager"
                healthy_peer = run_python(args, ladder, slow=False)
                speed = run_python(args, ladder, slow=True)
                shares.append(speed / healthy_peer)
                print(f"python {name}: {speed:.2f} steps/s of {healthy_peer:.2f}", file=sys.stderr,
                      flush=True)
    case = f"{RANKS} ranks, one {args.factor:g} x slower from step {args.slow_from} of {args.steps}"
    rows = [Row(case=case, metric="throughput, of the healthy one", unit="share", better="higher",
                ours=ours["auto"], limit=0.95,
                peers={"ours without help": ours["off"], "python ddp": peers["ddp"],
                       "python averager": peers["averager"]})]
    if swaps:
        rows.append(Row(case=case, metric="slow steps until the swap was decided", unit="steps",
                        ours=[step - args.slow_from for step, _, _ in swaps]))
        rows.append(Row(case=case, metric="cost of the swap", unit="s",
                        ours=[cost for _, cost, _ in swaps]))
        ratios = [ratio for _, _, ratio in swaps if ratio]
        if ratios:
            rows.append(Row(case=case, metric="predicted step over measured", unit="x", ours=ratios))
    return paceline_bench.report("persistent", rows)


if __name__ == "__main__":
    sys.exit(main())
