"""What copies in host memory cost a job, and what a lost rank costs with them (docs/recovery.md).

A built-in llama whose parameters and both moments of AdamW, 1 GiB together, are divided between two
ranks: one replica, on a node and with a thread each.

Training held up: the same job with a copy every --interval seconds and without copies, in turn. By
the ranks' step rings it is what lies behind a step whose state is copied, and what the next update
takes, beyond what they take usually; of the two ranks, the longer. Copying also shares processors
and memory with the steps, so these are told beside those of the job without copies.

Rolled back: one of the ranks is killed with SIGKILL while a spare stands by, and both go back to
their copies, the newcomer to the one that its buddy has. Beside it the same job without copies,
which starts again from a checkpoint in memory, as often made.
"""
import argparse
import functools
import math
import statistics
import sys
import time

import checkpoint
import failures
import paceline_bench
import training

RANKS = 2
VICTIM = 1
# The first steps allocate.
SETTLING_STEPS = 5

JOB = """
name: bench
ranks: {ranks}
shards: {ranks}
threads_per_rank: 1
model:
  kind: llama
  dim: {dim}
  layers: {layers}
  heads: 12
  kv_heads: 12
  ffn_dim: {ffn_dim}
  vocab_size: {vocab}
data: {{train: "{{folder}}/text.u16", token_type: uint16, sequence_length: 64}}
batch_per_rank: 1
steps: 1000000
optimizer: {{kind: adamw, learning_rate: 1e-4}}
{more}
"""
PLAIN = "recovery: {max_failures: 100}"
COPYING = "recovery: {{max_failures: 100, copy_every_steps: {every}}}"
COPYING_WITH_SPARE = "recovery: {{max_failures: 100, spares: 1, copy_every_steps: {every}}}"
SAVING = """recovery: {{max_failures: 100, spares: 1}}
checkpoint: {{directory: "{{folder}}/checkpoints", every_steps: {every}, keep_latest: 1}}"""


class Jobs:
    """Runs of the job with what differs in its file."""

    def __init__(self, args):
        self.programs = paceline_bench.build("//:dist") / "dist/bin"
        self.sizes = {"dim": args.dim, "ffn_dim": args.ffn_dim, "layers": args.layers,
                      "vocab": args.vocab}
        state = sum(4 * math.prod(shape) for _, shape in checkpoint.llama_tensors(**self.sizes))
        self.case = f"llama, {state / 2**30:.2f} GiB, 1 x {RANKS}"

    def running(self, more, workers=RANKS):
        """As failures.running."""
        def make(folder):
            training.write_tokens(folder / "text.u16")
            return failures.Ours(self.programs, folder, workers=workers, text=JOB.format(
                ranks=RANKS, more=more, **self.sizes))
        return failures.running(make)

    def step_seconds(self):
        """A usual step of the job without copies."""
        with self.running(PLAIN) as run:
            run.wait_for(SETTLING_STEPS + 20, timeout=600)
            ends = [end for _, end in max(run.steps().values(), key=len)][SETTLING_STEPS:]
        return statistics.median(b - a for a, b in zip(ends, ends[1:])) * 1e-9

    def train(self, first, last, every=None):
        """By rank, its records by step; of a job with copies, if `every` is given."""
        with self.running(COPYING.format(every=every) if every else PLAIN) as run:
            run.wait_for(last + 2, timeout=3600, look_every=0.5)
            ranks = [{one.step: one for one in failures.read_records(ring)}
                     for ring in run.rings()]
            newest = protected_step(run.describe())
        if every and newest < last // every * every:
            raise RuntimeError(f"copies were left out: those of step {newest} are the newest")
        assert len(ranks) == RANKS and all(first in one and last in one for one in ranks)
        return ranks

    def lose_a_rank(self, more, every):
        """(seconds from the kill until all ranks train, until they have finished a step; steps that
        were lost)."""
        with self.running(more.format(every=every), workers=RANKS + 1) as run:
            run.wait_for(2 * every + every // 2, timeout=900, look_every=0.2)
            deadline = time.monotonic() + 300
            run.wait_for_spare(deadline)
            while protected_step(run.describe()) < 2 * every:
                if time.monotonic() > deadline:
                    raise RuntimeError("there are no copies to go back to")
                time.sleep(0.2)
            killed = run.kill(VICTIM)
            step, ended = run.wait_for_all(RANKS, since=killed, timeout=600)
            begun = max(one.start for ring in run.rings() for one in failures.read_records(ring)
                        if one.step == step and one.end > killed)
            reached = max(done for steps in run.steps().values() for done, end in steps
                          if end <= killed)
            if more == COPYING_WITH_SPARE:
                change = run.describe()["membership_changes"][-1]
                if int(change["restored_step"]) != step - 1:
                    raise RuntimeError(f"the job did not go back to copies: {change['reason']}")
        return (begun - killed) * 1e-9, (ended - killed) * 1e-9, reached - (step - 1)


def protected_step(job):
    """The step of the newest complete copies, or of the newest checkpoint."""
    return max(int(job.get("copies", {}).get("step", 0)),
               int(job.get("checkpoints", {}).get("newest_step", 0)))


def share_held_up(ranks, first, last, every):
    """Of the time from the end of step `first` to that of `last`."""
    held = []
    for records in ranks:
        spent = {step: records[step + 1].start - records[step].end +
                 records[step + 1].phases[failures.OPTIMIZER] for step in range(first, last)}
        usual = statistics.median(spent.values())
        held.append([max(0, spent[step] - usual) for step in spent if step % every == 0])
    return sum(map(max, zip(*held))) / (ranks[0][last].end - ranks[0][first].end)


def step_ms(ranks, first, last):
    """The mean, as copies make a few steps longer."""
    return (ranks[0][last].end - ranks[0][first].end) / (last - first) * 1e-6


def costs(jobs, args):
    every = max(2, round(args.interval / jobs.step_seconds()))
    # The copies of the first step and of step `every` allocate.
    first = every + every // 2
    last = first + args.copies * every
    shares, times, without = [], [], []
    for _ in range(args.rounds):
        without.append(step_ms(jobs.train(first, last), first, last))
        ranks = jobs.train(first, last, every)
        shares.append(share_held_up(ranks, first, last, every))
        times.append(step_ms(ranks, first, last))
    case = f"{jobs.case}, a copy every {every} steps"
    row = functools.partial(paceline_bench.Row, case=case)
    return [row(metric="training held up", unit="share", ours=shares, limit=0.01),
            row(metric="mean step", unit="ms", ours=times, peers={"without copies": without},
                target=1.01)]


def losses(jobs, args):
    ours, restarts = [], []
    for _ in range(args.rounds):
        ours.append(jobs.lose_a_rank(COPYING_WITH_SPARE, args.every))
        restarts.append(jobs.lose_a_rank(SAVING, args.every))
    metrics = [("kill until all ranks train", "s", 2),
               ("kill to next step of all ranks", "s", None), ("steps lost", "steps", None)]
    return [
        paceline_bench.Row(
            case=f"{jobs.case}, a rank is lost", metric=metric, unit=unit, limit=limit,
            ours=[one[i] for one in ours],
            peers={"restart from a checkpoint": [one[i] for one in restarts]})
        for i, (metric, unit, limit) in enumerate(metrics)]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each kind")
    parser.add_argument("--part", choices=("costs", "losses"), help="only this one")
    parser.add_argument("--interval", type=float, default=30, help="seconds from copy to copy")
    parser.add_argument("--copies", type=int, default=2, help="measured in each run")
    parser.add_argument("--every", type=int, default=10,
                        help="steps from copy to copy where a rank is lost")
    parser.add_argument("--dim", type=int, default=768, help="a multiple of 24")
    parser.add_argument("--ffn-dim", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=32000)
    args = parser.parse_args()
    jobs = Jobs(args)
    rows = []
    for name, part in (("costs", costs), ("losses", losses)):
        if args.part in (None, name):
            rows += part(jobs, args)
    return paceline_bench.report("copies", rows)


if __name__ == "__main__":
    sys.exit(main())
