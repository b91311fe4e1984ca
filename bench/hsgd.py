"""Hierarchical SGD against random stalls: ours beside PyTorch's averager, both beside plain data
parallelism.

Real processes over Gloo, an MLP of 16 or 256 KB. Computing is emulated by a sleep of 55 ms, so that
many ranks fit on few cores, and a stall by one of 1 s on a share of the rank-steps, by the same
draws in all programs. The time of a step is that of the whole job: from when the last rank starts
the first settled step to when the last rank ends the last step, by the number of steps.

Without stalls a step costs the sleep and the floor, which is what the collectives cost on this
machine. Speed-ups of a ladder are told with it, and without that of each program.
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
SETTLING_STEPS = 2
PROGRAMS = ("ours ddp", "ours hsgd", "python ddp", "python hsgd")


def write_data(path):
    """8x8 images of noise; docs/image-shards.md."""
    count = 1024
    head = struct.pack("<8sIIQIIIIQQQ", b"PCLIMAGE", 1, 1, count, 1, 8, 8, 10, 64, 64 + 4 * count, 0)
    generator = numpy.random.default_rng(1)
    labels = generator.integers(0, 10, count).astype("<u4")
    path.write_bytes(head + labels.tobytes() + generator.bytes(64 * count))


def spec(args, ranks, kilobytes, share, hierarchical):
    if hierarchical:
        levels = " ".join(f"ladder {{ period: {period} size: {size} }}"
                          for period, size in LADDERS[ranks].items())
        strategy = f"hsgd {{ {levels} }} gradient_group_size: 1"
    else:
        strategy = "ddp {}"
    fault = f"rank: -1 kind: SLEEP steps: {args.steps}"
    stalls = f"chaos {{ {fault} seconds: {STALL_S} probability: {share} }}" if share else ""
    return f"""
        name: "bench" ranks: {ranks} device: CPU threads_per_rank: 1 seed: {SEED}
        model {{ mlp {{ hidden: {HIDDEN[kilobytes]} }} }}
        data {{ train: "{args.directory}/noise.shard" order: SEQUENTIAL prefetch_threads: 0 }}
        batch_per_rank: {BATCH} steps: {args.steps} log_every: {args.steps}
        optimizer {{ sgd {{ momentum: 0.9 }} learning_rate: 0.01 }}
        strategy {{ {strategy} }} allow_chaos: true chaos {{ {fault} seconds: {COMPUTE_S} }} {stalls}
    """


def command(args, work, program, ranks, kilobytes, share):
    hierarchical = program.endswith("hsgd")
    if program.startswith("ours"):
        path = work / "spec.textproto"
        path.write_text(spec(args, ranks, kilobytes, share, hierarchical), encoding="utf-8")
        return [args.built / "bench/trainer_run", "--trainer", args.built / "worker/trainer/trainer",
                "--spec", path, "--dir", work, "--ranks", str(ranks), "--threads", "1"]
    ladder = ",".join(f"{period}:{size}" for period, size in LADDERS[ranks].items())
    options = {"data": args.directory / "noise.shard", "store": work / "store", "ranks": ranks,
               "hidden": HIDDEN[kilobytes], "batch": BATCH, "steps": args.steps, "seed": SEED,
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


def run(args, program, ranks, kilobytes, share):
    """(ms per step, bytes of all ranks)."""
    with tempfile.TemporaryDirectory(dir=args.directory) as folder:
        process = subprocess.Popen(
            command(args, pathlib.Path(folder), program, ranks, kilobytes, share),
            stdout=subprocess.PIPE, stderr=None if args.verbose else subprocess.DEVNULL, text=True,
            env=dict(os.environ, GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1"))
        memory, ended = [0], threading.Event()

        def watch():
            # Twice at least, also in a run of few steps.
            while not ended.wait(min(3, args.steps * COMPUTE_S / 2)):
                memory.append(shared_out_bytes(process.pid))

        watcher = threading.Thread(target=watch)
        if not share:  # Looking costs time: where nothing else is to be seen.
            watcher.start()
        output = process.communicate()[0]
        ended.set()
        if not share:
            watcher.join()
        if process.returncode:
            raise RuntimeError(f"{program} with {ranks} ranks failed")
    records = json.loads(output)["ranks"]
    begin = max(record["starts_ns"][SETTLING_STEPS] for record in records)
    end = max(record["starts_ns"][-1] + record["totals_ns"][-1] for record in records)
    return (end - begin) / 1e6 / (args.steps - SETTLING_STEPS), max(memory)


def rows_of(case, times, floors):
    """Of one number of ranks, size and share of stalls; times and floors in ms by program."""
    rows = [
        Row(case=case, metric="step, all gradients", unit="ms", ours=[times["ours ddp"]],
            peers={"python ddp": [times["python ddp"]]}),
        Row(case=case, metric="step, ladder", unit="ms", ours=[times["ours hsgd"]],
            peers={"python averager": [times["python hsgd"]]}),
    ]
    # Both against the same: what the ranks would need in plain Python.
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


def main():
    def listed(kind):
        return lambda text: [kind(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=listed(int), default=[8, 16], help=f"of {list(LADDERS)}")
    parser.add_argument("--kilobytes", type=listed(int), default=[16], help=f"of {list(HIDDEN)}")
    parser.add_argument("--stalls", type=listed(float), default=[0.02],
                        help="shares of the rank-steps; a run without is always made")
    parser.add_argument("--steps", type=int, default=66, help="of a run")
    parser.add_argument("--verbose", action="store_true", help="show what the programs log")
    args = parser.parse_args()

    args.built = paceline_bench.build("//bench:trainer_run", "//worker/trainer")
    rows = []
    with tempfile.TemporaryDirectory(prefix="paceline-bench.", dir="/dev/shm") as directory:
        args.directory = pathlib.Path(directory)
        write_data(args.directory / "noise.shard")
        for kilobytes in args.kilobytes:
            for ranks in args.ranks:
                floors = {}
                for share in [0.0] + [share for share in args.stalls if share]:
                    results = {program: run(args, program, ranks, kilobytes, share)
                               for program in PROGRAMS}
                    times = {program: result[0] for program, result in results.items()}
                    case = f"{ranks} ranks, {kilobytes} KB, stalls {share:.1%}"
                    rows += rows_of(case, times, floors or None)
                    print(case, {name: round(value, 1) for name, value in times.items()},
                          file=sys.stderr, flush=True)
                    if share:
                        continue
                    floors = {name: value - 1e3 * COMPUTE_S for name, value in times.items()}
                    memory = {name: result[1] / 2**20 for name, result in results.items()}
                    rows.append(Row(
                        case=case, metric="memory of all ranks (PSS)", unit="MiB",
                        ours=[memory["ours hsgd"]], peers={"python": [memory["python hsgd"]]}))
    return paceline_bench.report("hsgd", rows)


if __name__ == "__main__":
    sys.exit(main())
