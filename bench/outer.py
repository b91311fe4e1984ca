"""What outer steps (DiLoCo) cost in quality, and what they save in bytes, at equal tokens; with
--links, what they save in time over slow links.

Eight ranks train a Llama (dim 64, 2 layers) on bytes of Python's sources, all in the same number of
steps from the same seeds, and thus over the same batches: synchronously, by the ladder {2: 2, 4: 4,
8: 8}, and by means over all ranks every 10, 50 and 100 steps, plain or ending in an outer step,
those also as int8 and as int4, in two fragments that take turns (streaming), taken up later while
training goes on (overlapped), both, and both as int4. Told are the loss at the end, of the mean of
all ranks on text that none has seen, and the bytes that a rank sends per step. The last step is one
after which each of them averages, or begins to. A loss is bounded by 1 % above that of synchronous
training; bytes by a tenth of its.

--links 100mbit,1gbit: fewer ways to train a larger Llama (dim 192, 2 layers, a million parameters),
and how long each takes over links of these rates (links.py). The others make a quarter more steps
than synchronous training: what is compared is the time of a whole run, to the loss that it ends
with. Links change the time of a step, and nothing of what is learnt: so a seed's loss is that of a
run without links, and only some steps are timed over each link, the ways in turn; that these have
the same losses to the bit is checked. Reported are steps per second, and the time of the run. At
100 Mbit/s ways with outer steps are to take at most a tenth of synchronous training's time, to a
loss of at most 1 % above its.
"""
import argparse
import dataclasses
import math
import re
import sys

import links
import training
from paceline_bench import Row, report

RANKS = 8
RATE = 3e-3
MOMENTUM = 0.9
PERIODS = (10, 50, 100)
STEPS = 801
EVALUATED = "held-out.u16"
WARMUP = 1  # Rounds then have as many steps as the period.
LOSS_BOUND = 1.01
BYTES_BOUND = 0.1
# {sizes}, {length} of a sequence, {batch} of a rank, the peak {rate} and {steps} of the schedule.
SPEC = (
    "model {{ llama {{ {sizes} vocab_size: 256 }} }} "
    'data {{ train: "{{data}}" eval: "{{directory}}/' + EVALUATED + '" order: SHUFFLE '
    "sequence_length: {length} token_type: TOKEN_TYPE_UINT16 }} batch_per_rank: {batch} "
    "optimizer {{ adamw {{}} learning_rate: {rate} }} "
    "schedule {{ warmup_steps: 50 cosine {{ steps: {steps} }} }}")
SMALL = {"sizes": "dim: 64 layers: 2 heads: 4 kv_heads: 4 ffn_dim: 192", "length": 64, "batch": 4}

OUTER = "outer { kind: OUTER_NESTEROV learning_rate: {rate} momentum: {momentum} {stream} }"
FRAGMENTS = 2
DELAY = 0.2  # Of the steps from one average to the next.
ALPHA = 0.5

# Over links. Eight ranks share a few cores, so that each step is to be little work for its bytes.
LINKED = {"sizes": "dim: 192 layers: 2 heads: 4 kv_heads: 4 ffn_dim: 512", "length": 32, "batch": 1}
LINKED_PERIODS = (10, 50)
LINKED_STEPS = 3201  # After 801, no other way is near the synchronous loss.
LINKED_TOKENS = 65_536  # Of held-out text.
LINKED_RATE = 1e-3  # With 3e-3 all ways end at a higher loss.
LINKED_MOMENTUM = 0.5  # More does not pay in runs of some hundred outer steps.
LINKED_LONGER = 1.25  # Steps of the others beside synchronous training.
TIMED = 100  # Steps over links, at least.
TIME_BOUND = 0.1
BOUND_RATE = 100_000_000  # Bits per second to which the bound applies.


@dataclasses.dataclass(frozen=True)
class Way:
    """How the ranks keep together: a strategy of the job spec, as text."""

    name: str
    strategy: str

    def is_synchronous(self):
        return self.strategy.startswith("ddp")

    def is_outer(self):
        return self.name.startswith("diloco")


@dataclasses.dataclass
class Run:
    """A run without links."""

    loss: float  # At the end, on held-out text.
    sent: float  # Kilobytes per rank and step.
    losses: list  # Of each rank, of each step of its training.


def one_level(period, options):
    return f"hsgd {{ ladder {{ period: {period} size: {RANKS} {options} }} }}"


def ways(args):
    """The synchronous one first: the others are compared with it."""
    yield Way("synchronous", "ddp {}")
    levels = " ".join(f"ladder {{ period: {size} size: {size} }}" for size in (2, 4, 8))
    yield Way("ladder 2:2,4:4,8:8", f"hsgd {{ {levels} }}")
    outer = OUTER.replace("{rate}", str(args.rate)).replace("{momentum}", str(args.momentum))
    plain = outer.replace("{stream}", "")
    for period in args.periods:
        yield Way(f"mean every {period}", one_level(period, ""))
        yield Way(f"diloco every {period}", one_level(period, plain))
        for name in ("int8", "int4"):
            yield Way(f"diloco every {period}, {name}",
                      one_level(period, f"format: WIRE_FORMAT_{name.upper()} {plain}"))
        for name, stream in streams(period):
            yield Way(f"diloco every {period}, {name}",
                      one_level(period, outer.replace("{stream}", stream)))
        *_, (name, stream) = streams(period)
        both = outer.replace("{stream}", stream)
        yield Way(f"diloco every {period}, {name}, int4",
                  one_level(period, f"format: WIRE_FORMAT_INT4 {both}"))


def streams(period):
    """Names and keys of streamed outer steps."""
    fragments = f"fragments: {FRAGMENTS}"
    later = f"delay: {{}} alpha: {ALPHA}"
    yield "streaming", fragments
    yield "overlapped", later.format(max(1, int(DELAY * period)))
    yield ("streaming and overlapped",
           f"{fragments} {later.format(max(1, int(DELAY * period / FRAGMENTS)))}")


def is_linked(way):
    """Whether a way is timed over links, too."""
    single = (", streaming", ", overlapped")
    return not way.name.startswith("ladder") and not way.name.endswith(single)


def is_chosen(way, args):
    named = way.is_synchronous() or args.ways.search(way.name)
    return named and (not args.links or is_linked(way))


def steps_of(way, args):
    return args.steps if way.is_synchronous() else 1 + round((args.steps - 1) * args.longer)


def case_of(way, args):
    shared = "" if way.is_synchronous() else f" warmup_steps: {WARMUP} gradient_group_size: 1"
    spec = SPEC.format(**(LINKED if args.links else SMALL), steps=steps_of(way, args),
                       rate=args.peak if way.is_synchronous() else args.learning_rate)
    return training.Case("llama", training.LLAMA.data,
                         f"{spec} strategy {{ {way.strategy}{shared} }}", [])


def learn(runs, args, way, seed):
    """A run without links."""
    steps = steps_of(way, args)
    result = runs.run(case_of(way, args), RANKS, steps, seed)
    ranks = result["ranks"]
    sent = sum(rank["wire_bytes"] for rank in ranks) / RANKS / steps / 1000
    run = Run(result["evaluation"]["loss"], sent, [rank["losses"] for rank in ranks])
    print(f"{way.name}, seed {seed}: loss {run.loss:.4f}, {sent:.2f} KB a step", file=sys.stderr,
          flush=True)
    return run


def timed_steps(period):
    """The first step that is timed, and the one that ends the time: whole periods, in which as many
    averages are taken up as begin."""
    first = training.SETTLING_STEPS + int(DELAY * period)
    return first, first + math.ceil(TIMED / period) * period


def time_step(runs, args, way, seed, rate, unlinked):
    """Mean seconds of a step over links."""
    first, end = timed_steps(max(args.periods))
    ranks = runs.run(case_of(way, args), RANKS, end + 1, seed, rate)["ranks"]
    if [rank["losses"] for rank in ranks] != [losses[:end + 1] for losses in unlinked.losses]:
        raise RuntimeError(f"{way.name}, seed {seed}: other losses over links of {rate} than "
                           "without, so that its time to a loss is not known")
    starts = ranks[0]["starts_ns"]
    seconds = (starts[end] - starts[first]) / (end - first) / 1e9
    print(f"{way.name}, seed {seed}, {rate}: {1000 * seconds:.1f} ms a step", file=sys.stderr,
          flush=True)
    return seconds


def measure(runs, args):
    """(runs without links, seconds of a step): by way, and by rate and way; lists by seed."""
    chosen = [way for way in ways(args) if is_chosen(way, args)]
    learnt = {way: [] for way in chosen}
    times = {rate: {way: [] for way in chosen} for rate in args.links}
    seeds = range(1, args.seeds + 1)
    for seed in seeds:
        for way in chosen:
            learnt[way].append(learn(runs, args, way, seed))
    for seed in seeds:
        for rate, seconds in times.items():
            for way in chosen:
                seconds[way].append(time_step(runs, args, way, seed, rate, learnt[way][seed - 1]))
    return learnt, times


def rows_of_runs(learnt):
    (_, synchronous), *_ = learnt.items()
    for way, own in learnt.items():
        for metric, unit, value, bound in (("loss at the end", "nats", "loss", LOSS_BOUND),
                                           ("sent per step", "KB", "sent", BYTES_BOUND)):
            row = Row(case=way.name, metric=metric, unit=unit,
                      ours=[getattr(run, value) for run in own])
            if not way.is_synchronous():
                row.peers = {"synchronous": [getattr(run, value) for run in synchronous]}
                row.target = bound if way.is_outer() else None
            yield row


def rows_of_times(args, rate, times):
    """times: seconds of a step over links of that rate, by way."""
    synchronous = None
    for way, seconds in times.items():
        paces = [1 / value for value in seconds]
        totals = [steps_of(way, args) * value for value in seconds]
        rows = [Row(case=f"{way.name}, {rate}", metric="pace", unit="steps/s", better="higher",
                    ours=paces),
                Row(case=f"{way.name}, {rate}", metric="time of the run", unit="s", ours=totals)]
        if synchronous is None:
            synchronous = paces, totals
        else:
            for row, values in zip(rows, synchronous):
                row.peers = {"synchronous": values}
            if way.is_outer() and links.bits_per_second(rate) == BOUND_RATE:
                rows[1].target = TIME_BOUND
        yield from rows


def rates(text):
    try:
        return [rate for rate in text.split(",") if links.bits_per_second(rate)]
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def pattern(text):
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text} is no regular expression: {error}") from None


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="runs of each way")
    parser.add_argument("--steps", type=int,
                        help=f"steps of a run, one more than a multiple of each period: {STEPS}; "
                        f"with --links {LINKED_STEPS}")
    parser.add_argument("--periods", type=lambda text: [int(part) for part in text.split(",")],
                        help="steps between two means of all ranks: 10,50,100; with --links 10,50")
    parser.add_argument("--rate", type=float, default=0.7, help="of the outer step")
    parser.add_argument("--momentum", type=float,
                        help=f"of the outer step: {MOMENTUM}; with --links {LINKED_MOMENTUM}")
    parser.add_argument("--peak", type=float,
                        help=f"learning rate of synchronous training: {RATE}; with --links "
                        f"{LINKED_RATE}")
    parser.add_argument("--learning-rate", type=float, help="of the others: the same")
    parser.add_argument("--longer", type=float,
                        help="steps of all but synchronous training, as a multiple of its: 1; with "
                        f"--links {LINKED_LONGER}")
    parser.add_argument("--ways", type=pattern, default=re.compile(""), metavar="PATTERN",
                        help="those alone whose names it is found in, beside synchronous training")
    parser.add_argument("--links", type=rates, default=[], metavar="RATE[,RATE...]",
                        help="time the ways over links of these rates, such as 100mbit,1gbit, too")
    args = parser.parse_args()
    defaults = ((LINKED_STEPS, LINKED_PERIODS, LINKED_MOMENTUM, LINKED_RATE, LINKED_LONGER)
                if args.links else (STEPS, PERIODS, MOMENTUM, RATE, 1))
    for name, default in zip(("steps", "periods", "momentum", "peak", "longer"), defaults):
        if getattr(args, name) is None:
            setattr(args, name, default)
    args.learning_rate = args.learning_rate or args.peak
    lengths = [steps_of(way, args) for way in ways(args)]
    if any((steps - 1) % period for period in args.periods for steps in lengths):
        parser.error("--steps, and the steps by --longer, are to be one more than a multiple of "
                     "each period")
    least = timed_steps(max(args.periods))[1] + 1
    if args.links and min(lengths) < least:
        parser.error(f"a run is to have {least} steps or more with --links")
    return args


def main():
    args = arguments()
    try:
        for rate in args.links:
            links.require(rate, RANKS)
    except links.LinkError as error:
        return f"outer: {error}"
    with training.Training() as runs:
        training.write_tokens(runs.directory / EVALUATED, "torch/optim",
                              LINKED_TOKENS if args.links else None)
        learnt, times = measure(runs, args)
    rows = list(rows_of_runs(learnt))
    for rate, seconds in times.items():
        rows += rows_of_times(args, rate, seconds)
    return report("outer", rows)


if __name__ == "__main__":
    sys.exit(main())
