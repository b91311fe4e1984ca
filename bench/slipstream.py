"""Slipstream against random stalls, beside synchronous data parallelism and hierarchical SGD.

Real processes over Gloo, an MLP of 16 KB to 45 MB. Computing is emulated by a sleep of 55 ms, so that
many ranks fit on few cores, and a stall by one of 1 s on a share of the rank-steps: each rank stalls at
the same ones of its own steps in all programs. Programs take turns.

Told is what the ranks do in one window of time, which begins when all have made their first steps and
lasts as long in all programs, in rank-steps per second; of `drop` those whose gradient was used. The
ideal is what the ranks would do if each paid for its own sleeps only: the share of it is (sleeps of the
steps in the window) / (ranks * window), times the share of the steps that were used. What else a rank
computes, and the machine's own load, are not in it; the row "with its own computing" counts them in, by
the times of its phases: everything but waiting for others.

"session free" is a script's session (bench/peers/hsgd.py) with 8 and 16 ranks.

A program without Slipstream makes a fixed number of steps on each rank; Slipstream ends when the ranks
have made so many together. The numbers are such that the window fits. --simulated plays 64 to 4,096
ranks, each with the trainers' own state machine, and the planner's predictions for them.

--overhead compares step times without any stall, of real models, with those of `ddp`.
"""
import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy

import hsgd
import paceline_bench
import training
from paceline_bench import Row

COMPUTE_S = 0.055
STALL_S = 1.0
BATCH = 2
SEED = 7
SETTLING_STEPS = 10
HIDDEN = {16: 54, 256: 874, 8192: 27963, 45000: 153599}  # Width for so many KB.
LADDERS = hsgd.LADDERS
PROGRAMS = ("python ddp", "python averager", "ours hsgd", "ours drop", "ours free", "session free")
SESSION_RANKS = (8, 16)
# With 2 % stalls, by ranks: least rank-steps/s as a multiple of synchronous, and of the averager's.
OVER_DDP = {8: 2.6, 16: 4.2, 32: 6.5, 64: 9.5}
OVER_LADDER = {"ours free": {8: 2.3, 16: 3, 32: 4, 64: 5}, "ours drop": {8: 2, 16: 2.7, 32: 3.5, 64: 4.5},
               "session free": {}}
SHARE = {"ours free": {8: 97, 16: 97, 32: 97, 64: 95}, "ours drop": {8: 85, 16: 85, 32: 85, 64: 85},
         "session free": {8: 96, 16: 96}}
TARGETED_STALLS = 0.02

SPEC = """
name: "bench" ranks: {ranks} device: CPU threads_per_rank: 1 seed: {seed}
batch_per_rank: {batch} steps: {steps} log_every: {steps}
strategy {{ {strategy} }} allow_chaos: true
chaos {{ rank: -1 kind: SLEEP steps: {chaos_steps} seconds: {compute} }}
"""
BUILT_IN = """
model {{ mlp {{ hidden: {hidden} }} }}
data {{ train: "{data}" order: SEQUENTIAL prefetch_threads: 0 }}
optimizer {{ sgd {{ momentum: 0.9 }} learning_rate: 0.01 }}
"""
SESSION = 'command: "hsgd.py" session: true working_directory: "/" startup_timeout_s: 900\n'
STALLS = "chaos {{ rank: -1 kind: SLEEP steps: {chaos_steps} seconds: {stall} probability: {share} }}\n"
STRATEGIES = {"ddp": "ddp {}", "sync": "slipstream { mode: SLIPSTREAM_SYNC }",
              "drop": "slipstream { mode: SLIPSTREAM_DROP }",
              "free": "slipstream { mode: SLIPSTREAM_FREE }"}


def mix(x):
    """As in worker/trainer/loop/fault.cc; of an array of uint64."""
    x = x + numpy.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
    return x ^ (x >> numpy.uint64(31))


def own_times(args, ranks, steps, share):
    """Seconds that each rank sleeps, [step, rank]."""
    rank = mix(mix(numpy.full(ranks, SEED, numpy.uint64)) ^ numpy.arange(ranks, dtype=numpy.uint64))
    draws = mix(rank ^ numpy.arange(steps, dtype=numpy.uint64)[:, None]) / 2.0**64
    return args.scale * (COMPUTE_S + STALL_S * (draws < share))


def ends_of(program, own):
    """When the job's steps end at the soonest, in seconds: what the sleeps alone come to."""
    steps, ranks = own.shape
    if program.endswith("ddp"):
        return own.max(axis=1).cumsum()
    if program.endswith(("averager", "hsgd")):
        now, ends = numpy.zeros(ranks), []
        for step in range(steps):
            now += own[step]
            size = max([size for period, size in LADDERS[ranks].items() if step % period == 0],
                       default=1)
            now = now.reshape(-1, size).max(axis=1).repeat(size)
            ends.append(now.max())
        return numpy.array(ends)
    return own.mean(axis=1).cumsum()


def is_session(program):
    return program.startswith("session")


def words_of(options):
    return [f"--{name}={value}" for name, value in options.items()]


def steps_for(args, program, ranks, share):
    """Number of steps that fill the window and the time around it."""
    seconds = args.seconds + args.scale * (SETTLING_STEPS * 4 * COMPUTE_S + 2 * STALL_S * (share > 0))
    own = own_times(args, ranks, int(seconds / args.scale / COMPUTE_S) + SETTLING_STEPS + 1, share)
    return int(numpy.searchsorted(ends_of(program, own), seconds)) + SETTLING_STEPS


def strategy_of(program, ranks):
    strategy = STRATEGIES.get(program.split()[1])
    if strategy is not None:
        return strategy
    levels = " ".join(f"ladder {{ period: {period} size: {size} }}"
                      for period, size in LADDERS[ranks].items())
    return f"hsgd {{ {levels} }} gradient_group_size: 1"


def command(args, work, program, ranks, kilobytes, share):
    """A run's words and its environment."""
    steps = steps_for(args, program, ranks, share)
    options = {"data": args.directory / "noise.shard", "store": work / "store", "ranks": ranks,
               "hidden": HIDDEN[kilobytes], "batch": BATCH, "steps": steps, "seed": SEED,
               "compute": args.scale * COMPUTE_S, "stall": args.scale * STALL_S,
               "stall-share": share}
    surroundings = {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    if program.startswith("python"):
        if program == "python averager":
            options["ladder"] = ",".join(f"{period}:{size}"
                                         for period, size in LADDERS[ranks].items())
        return [sys.executable, hsgd.PEER, *words_of(options)], dict(os.environ, **surroundings)
    if is_session(program):
        trainer, spec = training.SESSION_RANK, SPEC + SESSION
        environment = training.session_environment(hsgd.PEER, ["--session", *words_of(options)])
    else:
        trainer, spec = args.built / "worker/trainer/trainer", SPEC + BUILT_IN
        environment = dict(os.environ)
    path = work / "spec.textproto"
    path.write_text((spec + STALLS * (share > 0)).format(
        chaos_steps=10 * steps, share=share, strategy=strategy_of(program, ranks), **options),
        encoding="utf-8")
    return [args.built / "bench/trainer_run", "--trainer", trainer, "--spec", path, "--dir", work,
            "--ranks", str(ranks), "--threads", "1"], environment | surroundings


class Run:
    """What the ranks of one run did within the window."""

    def __init__(self, args, ranks, share):
        self.starts = [numpy.array(rank["starts_ns"]) / 1e9 for rank in ranks]
        self.ends = [start + numpy.array(rank["totals_ns"]) / 1e9
                     for start, rank in zip(self.starts, ranks)]
        self.begin = max(ends[SETTLING_STEPS - 1] for ends in self.ends)
        last = min(ends[-1] for ends in self.ends)
        if last - self.begin < 0.8 * args.seconds:
            raise RuntimeError(f"the window has only {last - self.begin:.1f} of {args.seconds} s")
        self.end = min(last, self.begin + args.seconds)
        self.length = self.end - self.begin
        own = own_times(args, len(ranks), max(map(len, self.ends)), share)
        slept = sum(self.within(rank, own[:, rank]) for rank in range(len(ranks)))
        steps = sum(self.within(rank, numpy.ones(len(own))) for rank in range(len(ranks)))
        figures = [rank["slipstream"] for rank in ranks if rank.get("slipstream")]
        made = sum(one["used_gradients"] + one["dropped_gradients"] for one in figures)
        self.used = sum(one["used_gradients"] for one in figures) / made if made else 1
        self.rate = self.used * steps / self.length
        self.share = 100 * self.used * slept / self.length / len(ranks)
        self.busy = None
        if "waits_ns" in ranks[0]:
            busy = [(numpy.array(rank["totals_ns"]) - numpy.array(rank["waits_ns"])) / 1e9
                    for rank in ranks]
            own_s = sum(self.within(rank, busy[rank]) for rank in range(len(ranks)))
            self.busy = 100 * self.used * own_s / self.length / len(ranks)
        self.figures = figures
        self.trained_s = last - min(starts[0] for starts in self.starts)

    def within(self, rank, per_step):
        """Sum over a rank's steps of what they count, each by the share of it in the window."""
        starts, ends = self.starts[rank], self.ends[rank]
        inside = numpy.minimum(ends, self.end) - numpy.maximum(starts, self.begin)
        return float((numpy.clip(inside, 0, None) / (ends - starts) * per_step[:len(ends)]).sum())

    def rounds_per_s(self):
        return max(one["rounds"] for one in self.figures) / self.trained_s

    def staleness(self):
        """Rounds between the model that a contribution was made on and the one it went into."""
        return (sum(one["stale_rounds"] for one in self.figures) /
                max(1, sum(one["contributions"] for one in self.figures)))


def run(args, program, ranks, kilobytes, share):
    with tempfile.TemporaryDirectory(dir=args.directory) as folder:
        words, environment = command(args, pathlib.Path(folder), program, ranks, kilobytes, share)
        done = subprocess.run(
            words, check=False, stdout=subprocess.PIPE, text=True, env=environment,
            stderr=None if args.verbose else subprocess.DEVNULL)
        if done.returncode:
            logs = "".join(f"\n{log}:\n{log.read_text()[-2000:]}"
                           for log in sorted(pathlib.Path(folder).glob("*/log/0"))[:2])
            raise RuntimeError(f"{program} with {ranks} ranks failed{logs}")
    result = Run(args, json.loads(done.stdout)["ranks"], share)
    busy = f", {result.busy:.1f} % with its computing" if result.busy else ""
    busy += f", {result.used:.1%} of the gradients used" if result.used < 1 else ""
    print(f"{ranks} ranks, {kilobytes} KB, stalls {share:.1%}, {program}: {result.rate:.1f} "
          f"rank-steps/s, {result.share:.1f} % of the ideal{busy}, window {result.length:.0f} s",
          file=sys.stderr, flush=True)
    return result


def rows_of(case, ranks, share, runs):
    """`runs`: by program, in the order in which they were made."""
    values = {program: [one.rate for one in made] for program, made in runs.items()}
    shares = {program: [one.share for one in made] for program, made in runs.items()}
    peers = [program for program in runs if program not in OVER_LADDER]
    targeted = share == TARGETED_STALLS

    def bound(table, key):
        return table.get(key) if targeted else None

    for program in [program for program in OVER_LADDER if program in runs]:
        mode = program.removeprefix("ours ")
        yield Row(case=case, metric=f"{mode}: throughput", unit="rank-steps/s", better="higher",
                  ours=values[program], peers={peer: values[peer] for peer in peers})
        for peer, table in (("python ddp", OVER_DDP if mode == "free" else {}),
                            ("python averager", OVER_LADDER[program])):
            if peer in runs:
                yield Row(case=case, metric=f"{mode}: over {peer}", unit="x", better="higher",
                          limit=bound(table, ranks),
                          ours=[a / b for a, b in zip(values[program], values[peer])])
        yield Row(case=case, metric=f"{mode}: share of the ideal", unit="%", better="higher",
                  ours=shares[program], peers={peer: shares[peer] for peer in peers})
        yield Row(case=case, metric=f"{mode}: the same with its own computing", unit="%",
                  better="higher", limit=bound(SHARE[program], ranks),
                  ours=[one.busy for one in runs[program]])
        yield Row(case=case, metric=f"{mode}: rounds", unit="1/s",
                  ours=[one.rounds_per_s() for one in runs[program]])
        yield Row(case=case, metric=f"{mode}: staleness", unit="rounds",
                  ours=[one.staleness() for one in runs[program]])


def live(args):
    if any(not program.startswith("python") for program in args.programs):
        args.built = paceline_bench.build("//bench:trainer_run", "//worker/trainer")
    with tempfile.TemporaryDirectory(prefix="paceline-bench.", dir="/dev/shm") as directory:
        args.directory = pathlib.Path(directory)
        hsgd.write_data(args.directory / "noise.shard")
        for kilobytes in args.kilobytes:
            for ranks in args.ranks:
                for share in args.stalls:
                    runs = {program: [] for program in args.programs
                            if ranks in SESSION_RANKS or not is_session(program)}
                    for _ in range(args.rounds):
                        for program, made in runs.items():
                            made.append(run(args, program, ranks, kilobytes, share))
                    case = f"{ranks} ranks, {kilobytes} KB, stalls {share:.1%}" + (
                        f", sleeps x {args.scale:g}" if args.scale != 1 else "")
                    yield from rows_of(case, ranks, share, runs)


def overhead(args):
    """Steps of real models without stalls: `ddp`, and the modes in its place."""
    with training.Training() as trainings:
        for case in (training.RESNET18, training.LLAMA):
            times = {name: [] for name in STRATEGIES}
            for _ in range(args.rounds):
                for name, strategy in STRATEGIES.items():
                    chosen = dataclasses.replace(case, spec=f"{case.spec} strategy {{ {strategy} }}")
                    times[name].append(training.step_ms(trainings.ours(chosen, 2, 24)[0]))
                    print(case.name, name, times[name], file=sys.stderr, flush=True)
            for name in [name for name in STRATEGIES if name != "ddp"]:
                yield Row(case=f"{case.name}, 2 ranks, no stalls", metric=f"step, {name}", unit="ms",
                          ours=times[name], peers={"ours ddp": times["ddp"]}, target=1.03)


def simulated(args):
    program = paceline_bench.build("//bench:slipstream_gains") / "bench/slipstream_gains"
    output = subprocess.run([program, "--ranks", ",".join(map(str, args.simulated_ranks))], check=True,
                            stdout=subprocess.PIPE, text=True).stdout
    for case in json.loads(output)["cases"]:
        name = (f"simulated, {case['ranks']} ranks, stalls {case['stall_share']:.1%}" +
                (f", {case['freezing_share']:.0%} freezing" if case["freezing_share"] else ""))
        for mode, figures in case["modes"].items():
            yield Row(case=name, metric=f"{mode}: over synchronous", unit="x", better="higher",
                      ours=[case["ddp_s"] / figures["step_s"]],
                      peers={"the planner's ladder": [case["ddp_s"] / case["ladder_s"]]})
            yield Row(case=name, metric=f"{mode}: share of the ideal", unit="%", better="higher",
                      ours=[100 * case["ideal_s"] / figures["step_s"]])
            yield Row(case=name, metric=f"{mode}: prediction off by", unit="%", limit=10,
                      ours=[100 * abs(figures["predicted_s"] / figures["step_s"] - 1)])


def main():
    def listed(kind):
        return lambda text: [kind(part) for part in text.split(",")]

    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=listed(int), default=[8, 16, 32], help=f"of {list(LADDERS)}")
    parser.add_argument("--kilobytes", type=listed(int), default=[256], help=f"of {list(HIDDEN)}")
    parser.add_argument("--stalls", type=listed(float), default=[TARGETED_STALLS],
                        help="shares of the rank-steps")
    parser.add_argument("--programs", type=listed(str), default=list(PROGRAMS),
                        help="of " + ",".join(PROGRAMS))
    parser.add_argument("--seconds", type=float, default=60, help="the window")
    parser.add_argument("--scale", type=float, default=1,
                        help="of both sleeps: with more of them the machine itself weighs less")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each program")
    parser.add_argument("--simulated", action="store_true", help="only that")
    parser.add_argument("--simulated-ranks", type=listed(int), default=[64, 256, 1024, 4096])
    parser.add_argument("--overhead", action="store_true", help="only that")
    parser.add_argument("--verbose", action="store_true", help="show what the programs log")
    args = parser.parse_args()
    rows = simulated(args) if args.simulated else overhead(args) if args.overhead else live(args)
    return paceline_bench.report("slipstream", list(rows))


if __name__ == "__main__":
    sys.exit(main())
