"""Hierarchical SGD against random stalls: ours beside PyTorch's averager, both beside plain data
parallelism; with a given ladder, and with the one that Paceline finds by itself while the job trains.

Real processes over Gloo, an MLP of 16 or 256 KB. Computing is emulated by a sleep of 55 ms, so that
many ranks fit on few cores, and a stall by one of 1 s on a share of the rank-steps, by the same
draws in all programs. The time of a step is that of the whole job, over the same steps in all: from
when the last rank ends the step before to when the last rank ends the last one. They begin where the
job that begins without a ladder can have found one.

Without stalls a step costs the sleep and the floor, which is what the collectives cost on this
machine. Speed-ups of a ladder are told with it, and without that of each program.

--simulated plays the cases that PyTorch's authors have published, and larger ones, through the planner's
model instead (ladder_gains.cc).
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import threading

import numpy

import failures
import paceline_bench
from paceline_bench import Row

PEER = paceline_bench.ROOT / "bench/peers/hsgd.py"
LADDERS = {8: {2: 2, 4: 4, 8: 8}, 16: {2: 4, 4: 8, 8: 16}, 32: {2: 8, 4: 16, 8: 32},
           64: {2: 8, 4: 32, 8: 64}}
HIDDEN = {16: 54, 256: 874}  # Width for so many KB.
COMPUTE_S = 0.055
STALL_S = 1.0
BATCH = 2
SEED = 7
RANKS_PER_NODE = 8
SETTLING_STEPS = 2
# Without stalls a step is like the others.
STEPS_WITHOUT_STALLS = 64
# Time to find a ladder: steps to measure and to agree, and seconds between two plans.
FINDING_STEPS = 176
FINDING_S = 30
PROGRAMS = ("ours ddp", "ours hsgd", "python ddp", "python hsgd")
# With stalls all synchronous programs have equally long steps, so one is enough.
PROGRAMS_WITH_STALLS = ("ours hsgd", "python ddp", "python hsgd")
# Speed-ups over synchronous SGD, "Straggler Mitigation on PyTorch DDP by Hierarchical SGD".
PUBLISHED = {64: (2.08, 2.45), 128: (2.57, 2.68), 256: (2.63, 3.25)}

AUTO = """
name: bench
ranks: {ranks}
threads_per_rank: 1
seed: {seed}
model: {{kind: mlp, hidden: [{hidden}]}}
data: {{train: "{data}", order: sequential, prefetch_threads: 0}}
batch_per_rank: {batch}
steps: {steps}
optimizer: {{kind: sgd, learning_rate: 0.01, momentum: 0.9}}
strategy: {{kind: hsgd, gradient_group_size: 1}}
stragglers: {{mode: auto}}
allow_chaos: true
chaos:
  - {{rank: -1, steps: {steps}, kind: sleep, seconds: {compute}}}
  - {{rank: -1, steps: {steps}, kind: sleep, seconds: {stall}, probability: {share}}}
"""


def write_data(path):
    """8x8 images of noise; docs/image-shards.md."""
    count = 1024
    head = struct.pack("<8sIIQIIIIQQQ", b"PCLIMAGE", 1, 1, count, 1, 8, 8, 10, 64, 64 + 4 * count, 0)
    generator = numpy.random.default_rng(1)
    labels = generator.integers(0, 10, count).astype("<u4")
    path.write_bytes(head + labels.tobytes() + generator.bytes(64 * count))


def measured_steps(args, ranks, share):
    """(steps done when measuring begins, and when it ends)."""
    if not share:
        return SETTLING_STEPS, SETTLING_STEPS + STEPS_WITHOUT_STALLS
    synchronous_s = COMPUTE_S + (1 - (1 - share) ** ranks) * STALL_S
    begin = FINDING_STEPS + round(FINDING_S / synchronous_s)
    # The same number of stalls in each case, but at least 96 steps.
    return begin, begin + (args.steps or max(96, 3072 // ranks))


def spec(args, ranks, kilobytes, share, hierarchical, steps):
    if hierarchical:
        levels = " ".join(f"ladder {{ period: {period} size: {size} }}"
                          for period, size in LADDERS[ranks].items())
        strategy = f"hsgd {{ {levels} }} gradient_group_size: 1"
    else:
        strategy = "ddp {}"
    fault = f"rank: -1 kind: SLEEP steps: {steps}"
    stalls = f"chaos {{ {fault} seconds: {STALL_S} probability: {share} }}" if share else ""
    return f"""
        name: "bench" ranks: {ranks} device: CPU threads_per_rank: 1 seed: {SEED}
        model {{ mlp {{ hidden: {HIDDEN[kilobytes]} }} }}
        data {{ train: "{args.directory}/noise.shard" order: SEQUENTIAL prefetch_threads: 0 }}
        batch_per_rank: {BATCH} steps: {steps} log_every: {steps}
        optimizer {{ sgd {{ momentum: 0.9 }} learning_rate: 0.01 }}
        strategy {{ {strategy} }} allow_chaos: true chaos {{ {fault} seconds: {COMPUTE_S} }} {stalls}
    """


def command(args, work, program, ranks, kilobytes, share, steps):
    hierarchical = program.endswith("hsgd")
    if program.startswith("ours"):
        path = work / "spec.textproto"
        path.write_text(spec(args, ranks, kilobytes, share, hierarchical, steps), encoding="utf-8")
        return [args.built / "bench/trainer_run", "--trainer", args.built / "worker/trainer/trainer",
                "--spec", path, "--dir", work, "--ranks", str(ranks), "--threads", "1"]
    ladder = ",".join(f"{period}:{size}" for period, size in LADDERS[ranks].items())
    options = {"data": args.directory / "noise.shard", "store": work / "store", "ranks": ranks,
               "hidden": HIDDEN[kilobytes], "batch": BATCH, "steps": steps, "seed": SEED,
               "compute": COMPUTE_S, "stall": STALL_S, "stall-share": share}
    if hierarchical:
        options["ladder"] = ladder
    return [sys.executable, PEER] + [f"--{name}={value}" for name, value in options.items()]


def shared_out_bytes(parent):
    """Memory of a process's children: of a page that n processes share, each has an nth."""
    total = 0
    children = pathlib.Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii")
    for child in children.split():
        try:
            rollup = pathlib.Path(f"/proc/{child}/smaps_rollup").read_text(encoding="ascii")
        except OSError:  # It has ended.
            continue
        total += sum(1024 * int(line.split()[1]) for line in rollup.splitlines()
                     if line.startswith("Pss:"))
    return total


def mean_step_ms(ends_ns, begin, end):
    """Of the job; `ends_ns` holds, of each rank, by steps done, when it had done them."""
    first = max(ends[begin] for ends in ends_ns)
    last = max(ends[end] for ends in ends_ns)
    return (last - first) / 1e6 / (end - begin)


def run(args, program, ranks, kilobytes, share):
    """(ms per step, bytes of all ranks)."""
    begin, end = measured_steps(args, ranks, share)
    with tempfile.TemporaryDirectory(dir=args.directory) as folder:
        process = subprocess.Popen(
            command(args, pathlib.Path(folder), program, ranks, kilobytes, share, end),
            stdout=subprocess.PIPE, stderr=None if args.verbose else subprocess.DEVNULL, text=True,
            env=dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1"))
        memory, ended = [0], threading.Event()

        def watch():
            # Look at least twice.
            while not ended.wait(min(3, end * COMPUTE_S / 2)):
                memory.append(shared_out_bytes(process.pid))

        watcher = threading.Thread(target=watch)
        if not share:  # Only here, because looking costs time.
            watcher.start()
        output = process.communicate()[0]
        ended.set()
        if not share:
            watcher.join()
        if process.returncode:
            raise RuntimeError(f"{program} with {ranks} ranks failed")
    ends_ns = [dict(enumerate(map(sum, zip(record["starts_ns"], record["totals_ns"])), start=1))
               for record in json.loads(output)["ranks"]]
    return mean_step_ms(ends_ns, begin, end), max(memory)


def run_auto(args, ranks, kilobytes, share):
    """(ms per step, the decision for a ladder or None)."""
    begin, end = measured_steps(args, ranks, share)
    text = AUTO.format(ranks=ranks, seed=SEED, hidden=HIDDEN[kilobytes], batch=BATCH, share=share,
                       data=args.directory / "noise.shard", steps=end + 500, compute=COMPUTE_S,
                       stall=STALL_S)
    make = lambda folder: failures.Ours(
        args.built / "dist/bin", folder, workers=max(1, ranks // RANKS_PER_NODE),
        slots=min(ranks, RANKS_PER_NODE), text=text)
    with failures.running(make) as job:
        # Ranks of a ladder are up to a period apart.
        job.wait_for(end + 16, timeout=end * (COMPUTE_S + STALL_S) + 300, look_every=5)
        ends_ns = [dict(steps) for steps in job.steps().values()]
        decisions = json.loads(job.run("job", "decisions", job.job, "-o", "json"))
    for decision in decisions.get("decisions", []):
        print(f"auto, {ranks} ranks: step {decision.get('step')}, {decision['summary']}, "
              f"{decision['state']}, {decision.get('outcome', '')}", file=sys.stderr, flush=True)
    taken = [decision for decision in decisions.get("decisions", [])
             if decision["kind"] == "LADDER" and "done_plan_version" in decision]
    return mean_step_ms(ends_ns, begin, end), taken[0] if taken else None


def rows_of(case, times, floors):
    """Rows of one number of ranks, size and share of stalls; times and floors in ms by program."""
    rows = []
    if "ours ddp" in times:
        rows.append(Row(case=case, metric="step, all gradients", unit="ms", ours=[times["ours ddp"]],
                        peers={"python ddp": [times["python ddp"]]}))
    rows += [
        Row(case=case, metric="step, ladder", unit="ms", ours=[times["ours hsgd"]],
            peers={"python averager": [times["python hsgd"]]}),
    ]
    # Both are compared with the same: the time that the ranks need in plain Python.
    for metric, less in (("speed-up over python ddp", dict.fromkeys(PROGRAMS, 0)),
                         ("the same without the floors", floors)):
        if less is None:
            continue
        baseline = times["python ddp"] - less["python ddp"]
        speed_up = {who: baseline / (times[f"{who} hsgd"] - less[f"{who} hsgd"])
                    for who in ("ours", "python")}
        rows.append(Row(case=case, metric=metric, unit="x", better="higher",
                        ours=[speed_up["ours"]], peers={"python averager": [speed_up["python"]]},
                        target=1.0 if less is not floors else None))
    return rows


def auto_rows(case, auto_ms, decision, times):
    yield Row(case=case, metric="step, auto", unit="ms", ours=[auto_ms], target=1.0,
              peers={"python ddp": [times["python ddp"]],
                     "python averager": [times["python hsgd"]]})
    if decision is None:
        return
    yield Row(case=case, metric="auto: step at which its ladder was decided", unit="steps",
              ours=[int(decision["step"])])
    yield Row(case=case, metric="auto: prediction off by", unit="%", limit=15,
              ours=[100 * abs(1e3 * decision["predicted_s"] / auto_ms - 1)])


def simulated():
    """Rows of what the model says of the published cases."""
    program = paceline_bench.build("//bench:ladder_gains") / "bench/ladder_gains"
    cases = json.loads(subprocess.run([program], check=True, stdout=subprocess.PIPE).stdout)["cases"]
    for case in cases:
        published = PUBLISHED.get(case["ranks"])
        peers = {f"simulated {ladder}": speedups for ladder, speedups in case["published"].items()}
        if published:
            peers["blog, least"], peers["blog, greatest"] = [published[0]], [published[1]]
        yield Row(case=f"simulated, {case['ranks']} ranks, stalls {case['stall_share']:.1%}, "
                       f"auto {case['ladder']}",
                  metric="speed-up over synchronous steps", unit="x", better="higher",
                  ours=case["ours"], peers=peers, target=1.0 if peers else None)


def main():
    def listed(kind):
        return lambda text: [kind(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=listed(int), default=[8, 16], help=f"of {list(LADDERS)}")
    parser.add_argument("--kilobytes", type=listed(int), default=[16], help=f"of {list(HIDDEN)}")
    parser.add_argument("--stalls", type=listed(float), default=[0.02],
                        help="shares of the rank-steps; a run without is always made")
    parser.add_argument("--steps", type=int, help="measured ones, with stalls")
    parser.add_argument("--simulated", action="store_true", help="only that")
    parser.add_argument("--verbose", action="store_true", help="show what the programs log")
    args = parser.parse_args()

    rows = list(simulated())
    if args.simulated:
        return paceline_bench.report("hsgd", rows)
    args.built = paceline_bench.build("//bench:trainer_run", "//worker/trainer", "//:dist")
    with tempfile.TemporaryDirectory(prefix="paceline-bench.", dir="/dev/shm") as directory:
        args.directory = pathlib.Path(directory)
        write_data(args.directory / "noise.shard")
        for kilobytes in args.kilobytes:
            for ranks in args.ranks:
                floors = {}
                for share in [0.0] + [share for share in args.stalls if share]:
                    results = {program: run(args, program, ranks, kilobytes, share)
                               for program in (PROGRAMS_WITH_STALLS if share else PROGRAMS)}
                    times = {program: result[0] for program, result in results.items()}
                    case = f"{ranks} ranks, {kilobytes} KB, stalls {share:.1%}"
                    rows += rows_of(case, times, floors or None)
                    print(case, {name: round(value, 1) for name, value in times.items()},
                          file=sys.stderr, flush=True)
                    if share:
                        auto_ms, decision = run_auto(args, ranks, kilobytes, share)
                        print(case, f"auto: {auto_ms:.1f}", file=sys.stderr, flush=True)
                        rows += auto_rows(case, auto_ms, decision, times)
                        continue
                    floors = {name: value - 1e3 * COMPUTE_S for name, value in times.items()}
                    memory = {name: result[1] / 2**20 for name, result in results.items()}
                    rows.append(Row(
                        case=case, metric="memory of all ranks (PSS)", unit="MiB",
                        ours=[memory["ours hsgd"]], peers={"python": [memory["python hsgd"]]}))
    return paceline_bench.report("hsgd", rows)


if __name__ == "__main__":
    sys.exit(main())
