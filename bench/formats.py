"""What shorter number formats cost in accuracy, and what they save in bytes.

Two small trainings from several seeds: an MLP on the digits, told by the accuracy of the last
evaluation, and a Llama (dim 64, 2 layers) on bytes of Python's sources, told by the mean loss of
all ranks in the last steps. Gradients of two ranks travel as fp32, fp16, bf16, int8 or fp8;
parameters of four ranks with the ladder {2: 2, 4: 4} travel between the halves in these formats,
too. Two ranks train with weights and state in bfloat16 (precision bf16_full); there the peer is
bf16, whose weights are fp32. Each format runs from the same seeds, and thus over the same batches,
as its peer. Its bound is the noise: the median of the peer, worsened by what lies between the peer's best and worst seed.
"""
import argparse
import dataclasses
import statistics
import sys

import training
from paceline_bench import Row, report

LAST_STEPS = 20  # A single batch says little.
DIGITS = training.Case(
    "digits", "digits-train.shard",
    'model { mlp { hidden: 64 } } data { train: "{data}" eval: "{directory}/digits-test.shard" '
    "order: SHUFFLE } batch_per_rank: 16 "
    "optimizer { sgd { momentum: 0.9 } learning_rate: 0.02 } schedule { cosine {} }", [])
LLAMA = training.Case(
    "llama", training.LLAMA.data,
    "model { llama { dim: 64 layers: 2 heads: 4 kv_heads: 4 ffn_dim: 192 vocab_size: 256 } } "
    'data { train: "{data}" order: SHUFFLE sequence_length: 64 token_type: TOKEN_TYPE_UINT16 } '
    "batch_per_rank: 8 optimizer { adamw {} learning_rate: 3e-3 } schedule { warmup_steps: 20 }", [])
# The default beta2 is too near to 1 for a second moment in bfloat16.
LLAMA_BF16 = dataclasses.replace(
    LLAMA, spec=LLAMA.spec.replace("adamw {}", "adamw { beta2: 0.95 }"))


@dataclasses.dataclass
class Exchange:
    """What travels, and how the job file says so; {format} is the number format."""

    name: str
    ranks: int
    spec: str
    formats: tuple
    peer: str = "FP32"  # The format that they are compared with.


FORMATS = ("FP16", "BF16", "INT8", "FP8")
GRADIENTS = Exchange("gradients", 2, "gradient_format: WIRE_FORMAT_{format}", FORMATS)
PARAMETERS = Exchange(
    "parameters", 4,
    "strategy { hsgd { ladder { period: 2 size: 2 } "
    "ladder { period: 4 size: 4 format: WIRE_FORMAT_{format} } } gradient_group_size: 1 }",
    FORMATS)
TRAINING = Exchange("training", 2, "precision: {format}", ("BF16_FULL",), peer="BF16")


def measure(runs, args, model, exchange, number_format):
    """(scores, kilobytes sent per rank and step), a value per seed."""
    case = dataclasses.replace(
        model, spec=model.spec + " " + exchange.spec.replace("{format}", number_format))
    scores, sent = [], []
    for seed in range(1, args.seeds + 1):
        result = runs.run(case, exchange.ranks, args.steps, seed)
        ranks = result["ranks"]
        if model is DIGITS:
            scores.append(100 * result["evaluation"]["accuracy"])
        else:
            scores.append(statistics.fmean(
                loss for rank in ranks for loss in rank["losses"][-LAST_STEPS:]))
        sent.append(sum(rank["wire_bytes"] for rank in ranks) / len(ranks) / args.steps / 1000)
    return scores, sent


def rows_of(runs, args, model, exchange):
    if model is DIGITS:
        score = {"metric": "accuracy", "unit": "%", "better": "higher"}
        sign = -1
    else:
        score = {"metric": "final loss", "unit": "nats"}
        sign = 1
    if model is LLAMA and exchange is TRAINING:
        model = LLAMA_BF16
    name = f"{model.name}, {exchange.name} as "
    peer = exchange.peer.lower()
    plain, plain_sent = measure(runs, args, model, exchange, exchange.peer)
    bound = statistics.median(plain) + sign * (max(plain) - min(plain))
    rows = [Row(case=name + peer, ours=plain, **score)]
    for number_format in exchange.formats:
        values, sent = measure(runs, args, model, exchange, number_format)
        case = name + number_format.lower()
        rows.append(Row(case=case, ours=values, peers={peer: plain}, limit=bound, **score))
        rows.append(Row(case=case, metric="sent per step", unit="KB", ours=sent,
                        peers={peer: plain_sent}, target=1.0))
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each format")
    parser.add_argument("--steps", type=int, default=240, help="steps of a run")
    parser.add_argument("--model", choices=("digits", "llama"), help="only this one")
    args = parser.parse_args()
    models = [model for model in (DIGITS, LLAMA) if args.model in (None, model.name)]
    with training.Training() as runs:
        rows = [row for model in models for exchange in (GRADIENTS, PARAMETERS, TRAINING)
                for row in rows_of(runs, args, model, exchange)]
    return report("formats", rows)


if __name__ == "__main__":
    sys.exit(main())
