"""What outer steps (DiLoCo) cost in quality, and what they save in bytes, at equal tokens.

Eight ranks train a Llama (dim 64, 2 layers) on bytes of Python's sources, all in the same number of
steps from the same seeds, and thus over the same batches: synchronously, by the ladder {2: 2, 4: 4,
8: 8}, and by means over all ranks every 10, 50 and 100 steps, plain or ending in an outer step,
those also as int8, in two fragments that take turns (streaming), taken up later while training
goes on (overlapped), and both. Told are the loss at the end, of the mean of all ranks on text that
none has seen, and the bytes that a rank sends per step. The last step is one after which each of
them averages, or begins to. A loss is bounded by 1 % above that of synchronous training; bytes by
a tenth of its.
"""
import argparse
import dataclasses
import sys

import training
from paceline_bench import Row, report

RANKS = 8
PERIODS = (10, 50, 100)
EVALUATED = "held-out.u16"
WARMUP = 1  # Rounds then have as many steps as the period.
LOSS_BOUND = 1.01
BYTES_BOUND = 0.1
LLAMA = training.Case(
    "llama", training.LLAMA.data,
    "model { llama { dim: 64 layers: 2 heads: 4 kv_heads: 4 ffn_dim: 192 vocab_size: 256 } } "
    'data { train: "{data}" eval: "{directory}/' + EVALUATED + '" order: SHUFFLE '
    "sequence_length: 64 token_type: TOKEN_TYPE_UINT16 } batch_per_rank: 4 "
    "optimizer { adamw {} learning_rate: 3e-3 } schedule { warmup_steps: 50 cosine {} }", [])

OUTER = "outer { kind: OUTER_NESTEROV learning_rate: {rate} momentum: {momentum} {stream} }"
FRAGMENTS = 2
DELAY = 0.2  # Of the steps from one average to the next.
ALPHA = 0.5


@dataclasses.dataclass
class Way:
    """How the ranks keep together: a strategy of the job spec, as text."""

    name: str
    strategy: str


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
        yield Way(f"diloco every {period}, int8",
                  one_level(period, f"format: WIRE_FORMAT_INT8 {plain}"))
        for name, stream in streams(period):
            yield Way(f"diloco every {period}, {name}",
                      one_level(period, outer.replace("{stream}", stream)))


def streams(period):
    """Names and keys of streamed outer steps."""
    fragments = f"fragments: {FRAGMENTS}"
    later = f"delay: {{}} alpha: {ALPHA}"
    yield "streaming", fragments
    yield "overlapped", later.format(max(1, int(DELAY * period)))
    yield ("streaming and overlapped",
           f"{fragments} {later.format(max(1, int(DELAY * period / FRAGMENTS)))}")


def spec_of(way):
    shared = ("" if way.strategy.startswith("ddp")
              else f" warmup_steps: {WARMUP} gradient_group_size: 1")
    return f"strategy {{ {way.strategy}{shared} }}"


def measure(runs, args, way):
    """(losses, kilobytes sent per rank and step), a value per seed."""
    case = dataclasses.replace(LLAMA, spec=LLAMA.spec + " " + spec_of(way))
    losses, sent = [], []
    for seed in range(1, args.seeds + 1):
        result = runs.run(case, RANKS, args.steps, seed)
        losses.append(result["evaluation"]["loss"])
        sent.append(sum(rank["wire_bytes"] for rank in result["ranks"]) / RANKS / args.steps / 1000)
        print(f"{way.name}, seed {seed}: loss {losses[-1]:.4f}, {sent[-1]:.2f} KB a step",
              file=sys.stderr, flush=True)
    return losses, sent


def rows_of(runs, args):
    synchronous = None
    for way in ways(args):
        losses, sent = measure(runs, args, way)
        if synchronous is None:
            synchronous = losses, sent
            yield Row(case=way.name, metric="loss at the end", unit="nats", ours=losses)
            yield Row(case=way.name, metric="sent per step", unit="KB", ours=sent)
            continue
        has_outer = way.name.startswith("diloco")
        yield Row(case=way.name, metric="loss at the end", unit="nats", ours=losses,
                  peers={"synchronous": synchronous[0]}, target=LOSS_BOUND if has_outer else None)
        yield Row(case=way.name, metric="sent per step", unit="KB", ours=sent,
                  peers={"synchronous": synchronous[1]}, target=BYTES_BOUND if has_outer else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="runs of each way")
    parser.add_argument("--steps", type=int, default=801,
                        help="steps of a run: one more than a multiple of each period")
    parser.add_argument("--periods", type=lambda text: [int(part) for part in text.split(",")],
                        default=list(PERIODS), help="steps between two means of all ranks")
    parser.add_argument("--rate", type=float, default=0.7, help="of the outer step")
    parser.add_argument("--momentum", type=float, default=0.9, help="of the outer step")
    args = parser.parse_args()
    if any((args.steps - 1) % period for period in args.periods):
        parser.error("--steps is to be one more than a multiple of each period")
    with training.Training() as runs:
        training.write_tokens(runs.directory / EVALUATED, "torch/optim")
        rows = list(rows_of(runs, args))
    return report("outer", rows)


if __name__ == "__main__":
    sys.exit(main())
