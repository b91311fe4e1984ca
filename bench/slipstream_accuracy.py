"""What Slipstream costs in quality, and what it gains in time, with real computing and stalls at random.

ResNet-18 on the digits (8 ranks, SGD with momentum) and a small Llama on bytes of Python's sources
(4 ranks, AdamW): synchronous data parallelism, hierarchical SGD with PyTorch's ladder, and Slipstream's
modes `drop` and `free`, all by our trainer. At 2 % of its own steps a rank stalls: it sleeps for about 18
steps, the same ones in all strategies; the Llama's steps, which are short, sleep a little at each.

Equal samples: all make as many steps, by the same schedule. Equal wall time: the time that `free` took
is given to the others too, as fewer steps with a schedule of that length. Told are the accuracy on the
test digits and the loss on held-out text, of the averaged model, with the seeds in pairs.

What synchronous steps and the ladder compute does not depend on stalls: their time is measured once,
with the first seed, and the other runs do without.

Learning rates are each strategy's own, as multiples of a common one: --tune tries some with two seeds
that are used for nothing else, and prints which is best.
"""
import argparse
import dataclasses
import statistics
import sys

import paceline_bench
import training
from paceline_bench import Row

TUNING_SEEDS = (100, 101)
MULTIPLES = (0.25, 0.5, 1, 1.5, 2)
STRATEGIES = {
    "synchronous": "ddp {{}}",
    "hsgd": "hsgd {{ {ladder} }} gradient_group_size: 1",
    "drop": "slipstream {{ mode: SLIPSTREAM_DROP }}",
    "free": "slipstream {{ mode: SLIPSTREAM_FREE {window} }}",
}
OURS = ("drop", "free")
PEERS = ("synchronous", "hsgd")


@dataclasses.dataclass
class Case:
    name: str
    ranks: int
    steps: int
    ladder: dict
    window: str     # Bounds in mode `free`.
    compute_s: float  # Sleep of each step.
    stall_s: float
    base_rate: float  # Learning rate,
    multiples: dict   # times this by strategy; found with --tune.
    data: str
    spec: str
    score: dict       # Metric, unit and direction.
    limits: dict      # Of the mean difference to synchronous at equal samples, by strategy.

    def text(self, strategy, steps, multiple, stalls):
        levels = " ".join(f"ladder {{ period: {period} size: {size} }}"
                          for period, size in self.ladder.items())
        chosen = STRATEGIES[strategy].format(ladder=levels, window=self.window)
        sleep = f"rank: -1 kind: SLEEP steps: {10 * steps}"
        compute = f"chaos {{ {sleep} seconds: {self.compute_s} }} " if self.compute_s else ""
        chaos = (f"allow_chaos: true {compute}"
                 f"chaos {{ {sleep} seconds: {self.stall_s} probability: 0.02 }}" if stalls else "")
        return (f"{self.spec} learning_rate: {self.base_rate * multiple:g} }} "
                f"schedule {{ warmup_steps: {steps // 10} cosine {{}} }} strategy {{ {chosen} }} "
                f"{chaos}")


RESNET18 = Case(
    "resnet18, digits", ranks=8, steps=80, ladder={2: 2, 4: 4, 8: 8}, window="", compute_s=0,
    stall_s=6, base_rate=0.02,
    multiples={"synchronous": 0.25, "hsgd": 0.25, "drop": 0.25, "free": 0.5},
    data="digits-train.shard",
    spec='model { resnet18 {} } data { train: "{data}" eval: "{directory}/digits-test.shard" '
         "order: SHUFFLE } batch_per_rank: 8 optimizer { sgd { momentum: 0.9 } weight_decay: 5e-4",
    score={"metric": "accuracy", "unit": "%", "better": "higher"},
    limits={"drop": -0.5, "free": -0.5})
LLAMA = Case(
    "llama, bytes", ranks=4, steps=600, ladder={2: 2, 4: 4}, window="window { max_steps: 2 }",
    compute_s=0.02, stall_s=0.5, base_rate=3e-3, multiples={"hsgd": 1.5, "free": 2}, data="train.u16",
    spec="model { llama { dim: 64 layers: 2 heads: 4 kv_heads: 4 ffn_dim: 192 vocab_size: 256 } } "
         'data { train: "{data}" eval: "{directory}/test.u16" order: SHUFFLE sequence_length: 64 '
         "token_type: TOKEN_TYPE_UINT16 } batch_per_rank: 8 optimizer { adamw {}",
    score={"metric": "loss", "unit": "nats"}, limits={"drop": 0.01})


def run(runs, case, strategy, seed, steps=None, multiple=None, stalls=True):
    """(score, seconds from the first step to the last)."""
    steps = steps or case.steps
    multiple = multiple or case.multiples.get(strategy, 1)
    result = runs.run(training.Case(case.name, case.data, case.text(strategy, steps, multiple, stalls), []),
                      case.ranks, steps, seed)
    begin = min(rank["starts_ns"][0] for rank in result["ranks"])
    end = max(rank["starts_ns"][-1] + rank["totals_ns"][-1] for rank in result["ranks"])
    evaluation = result["evaluation"]
    is_accuracy = case.score["metric"] == "accuracy"
    score = 100 * evaluation["accuracy"] if is_accuracy else evaluation["loss"]
    seconds = (end - begin) / 1e9
    print(f"{case.name}, {strategy}, seed {seed}, {steps} steps, learning rate x {multiple:g}"
          f"{'' if stalls else ', without stalls'}: {score:.4g} {case.score['unit']} in "
          f"{seconds:.1f} s{rounds_of(result)}", file=sys.stderr, flush=True)
    return score, seconds


def rounds_of(result):
    """What Slipstream tells of itself."""
    told = [rank["slipstream"] for rank in result["ranks"]]
    if told[0] is None:
        return ""
    made = sum(rank["steps"] for rank in told)
    dropped = sum(rank["dropped_gradients"] for rank in told)
    return (f" ({told[0]['rounds']} rounds, {dropped / made:.1%} dropped, last window "
            f"{told[0]['window_s']:.3g} s)")


def tune(runs, case, strategies):
    sign = -1 if case.score.get("better") == "higher" else 1
    for strategy in strategies:
        scores = {multiple: statistics.mean(
                      run(runs, case, strategy, seed, multiple=multiple, stalls=strategy in OURS)[0]
                      for seed in TUNING_SEEDS)
                  for multiple in MULTIPLES}
        best = min(scores, key=lambda multiple: sign * scores[multiple])
        print(f"{case.name}, {strategy}: best x {best:g}", file=sys.stderr)


def measure(runs, case, seeds):
    """Scores at equal samples, seconds for them, and scores at equal wall time, by strategy."""
    samples, seconds, wall = ({strategy: [] for strategy in STRATEGIES} for _ in range(3))
    for seed in range(1, seeds + 1):
        for strategy in STRATEGIES:
            stalls = strategy in OURS or seed == 1
            score, took = run(runs, case, strategy, seed, stalls=stalls)
            samples[strategy].append(score)
            if stalls:
                seconds[strategy].append(took)
    for strategy in STRATEGIES:
        share = statistics.mean(seconds["free"]) / statistics.mean(seconds[strategy])
        steps = max(20, int(case.steps * share))
        wall[strategy] = samples[strategy] if share >= 0.95 else [
            run(runs, case, strategy, seed, steps=steps, stalls=strategy in OURS)[0]
            for seed in range(1, seeds + 1)]
    return samples, seconds, wall


def rows_of(runs, case, args):
    samples, seconds, wall = measure(runs, case, args.seeds)
    name = f"{case.name}, {case.ranks} ranks"
    for strategy in OURS:
        for metric, values in (("at equal samples", samples), ("at equal wall time", wall)):
            yield Row(case=name, **dict(case.score, metric=f"{strategy}: {case.score['metric']} {metric}"),
                      ours=values[strategy],
                      peers={peer: values[peer] for peer in PEERS},
                      target=1.0 if values is wall else None)
        differences = [ours - theirs for ours, theirs in zip(samples[strategy], samples["synchronous"])]
        limit = case.limits.get(strategy)
        if limit is not None and case.score["metric"] == "loss":
            limit *= statistics.mean(samples["synchronous"])
        yield Row(case=name, **dict(case.score, metric=f"{strategy}: mean difference to synchronous, "
                                                       f"{args.seeds} seeds"),
                  ours=[statistics.mean(differences)], limit=limit)
        yield Row(case=name, metric=f"{strategy}: time for equal samples", unit="s",
                  ours=seconds[strategy],
                  peers={peer: seconds[peer] for peer in PEERS}, target=1.0)
        if len(differences) > 1:
            print(f"{name}, {strategy}: difference {statistics.mean(differences):+.4g}, standard error "
                  f"{statistics.stdev(differences) / len(differences) ** 0.5:.2g}", file=sys.stderr)


def split_text(directory):
    """The last tenth of the text is held out."""
    data = (directory / training.LLAMA.data).read_bytes()
    cut = len(data) * 9 // 10 // 2 * 2
    (directory / "train.u16").write_bytes(data[:cut])
    (directory / "test.u16").write_bytes(data[cut:])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--model", choices=("resnet18", "llama"), help="only this one")
    parser.add_argument("--steps", type=int, help="of each run")
    parser.add_argument("--tune", nargs="*", metavar="STRATEGY", help="only that, of these or of all")
    args = parser.parse_args()
    cases = [dataclasses.replace(case, steps=args.steps or case.steps) for case in (RESNET18, LLAMA)
             if case.name.startswith(args.model or "")]
    rows = []
    with training.Training() as runs:
        split_text(runs.directory)
        for case in cases:
            if args.tune is not None:
                tune(runs, case, args.tune or STRATEGIES)
            else:
                rows += rows_of(runs, case, args)
    return paceline_bench.report("slipstream_accuracy", rows) if rows else 0


if __name__ == "__main__":
    sys.exit(main())
