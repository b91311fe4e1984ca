"""Time to accuracy under random stalls: the digits, trained by eight ranks synchronously, by the ladder that
PyTorch's authors publish, and by the one that Paceline finds while the job trains.

Our trainer in all three, whose averages are PyTorch's own to the bit (tests/parity), so that nothing but
the ladder differs. A step computes for 40 ms, by a sleep, and at 2 % of its steps a rank sleeps for 0.4 s
more, by the same draws. Told is when the test accuracy reaches 95 % for the first time, and what it is
at the end.
"""
import argparse
import datetime
import json
import re
import sys

import failures
import paceline_bench
from paceline_bench import Row

RANKS = 8
ACCURACY = 0.95
STRATEGIES = {
    "synchronous": ("{kind: ddp}", '"off"'),
    "published ladder": ("{kind: hsgd, gradient_group_size: 1, ladder: [{period: 2, size: 2}, {period: 4, size: 4}, "
                         "{period: 8, level: all}]}", '"off"'),
    "auto": ("{kind: hsgd, gradient_group_size: 1}", "auto"),
}
JOB = """
name: bench
ranks: %(ranks)s
threads_per_rank: 1
seed: %(seed)s
model: {kind: mlp, hidden: [128]}
data: {train: "{folder}/digits-train.shard", eval: "{folder}/digits-test.shard"}
batch_per_rank: 4
steps: %(steps)s
optimizer: {kind: sgd, learning_rate: 0.01, momentum: 0.9}
strategy: %(strategy)s
stragglers: {mode: %(mode)s}
evaluation: {every: 40}
log_every: 1
allow_chaos: true
chaos:
  - {rank: -1, steps: %(steps)s, kind: sleep, seconds: 0.04}
  - {rank: -1, steps: %(steps)s, kind: sleep, seconds: 0.4, probability: 0.02}
"""
FIRST = re.compile(r"^(\S+) \w+ step=1 ", re.MULTILINE)
EVALUATION = re.compile(r"^(\S+) \w+ .*step=\d+ .*accuracy=(\S+)", re.MULTILINE)


def run(args, programs, name, seed):
    """(seconds from the first step to the accuracy, accuracy at the end, ladder decided or None)."""
    strategy, mode = STRATEGIES[name]
    text = JOB % {"ranks": RANKS, "seed": seed, "steps": args.steps, "strategy": strategy, "mode": mode}
    with failures.running(lambda folder: failures.Ours(programs, folder, workers=1, slots=RANKS,
                                                       text=text)) as job:
        job.run("job", "wait", job.job)
        log = job.run("job", "logs", job.job, "--rank", 0)
        decisions = json.loads(job.run("job", "decisions", job.job, "-o", "json"))
    begin = moment(FIRST.search(log)[1])
    points = [(moment(time), float(accuracy)) for time, accuracy in EVALUATION.findall(log)]
    reached = next((time for time, accuracy in points if accuracy >= ACCURACY), None)
    if reached is None:
        raise RuntimeError(f"{name}: {ACCURACY:.0%} not reached in {args.steps} steps")
    ladders = [f"{one['summary']} at step {one['step']}" for one in decisions.get("decisions", [])]
    print(f"{name}, seed {seed}: {(reached - begin).total_seconds():.1f} s, {points[-1][1]:.2%}", *ladders,
          file=sys.stderr, flush=True)
    return (reached - begin).total_seconds(), points[-1][1]


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1200, help="of each job")
    parser.add_argument("--seeds", type=int, default=2)
    args = parser.parse_args()
    programs = paceline_bench.build("//:dist") / "dist/bin"
    results = {name: [] for name in STRATEGIES}
    for seed in range(1, args.seeds + 1):
        for name, result in results.items():
            result.append(run(args, programs, name, seed))
    case = f"{RANKS} ranks, stalls 2%, digits, {args.steps} steps"
    seconds, final = ({name: [one[i] for one in result] for name, result in results.items()}
                      for i in (0, 1))
    return paceline_bench.report("accuracy", [
        Row(case=case, metric=f"time to {ACCURACY:.0%} test accuracy", unit="s",
            ours=seconds.pop("auto"), peers=seconds, target=1.0),
        Row(case=case, metric="test accuracy at the end", unit="%", better="higher",
            ours=[100 * one for one in final.pop("auto")],
            peers={name: [100 * one for one in values] for name, values in final.items()})])


if __name__ == "__main__":
    sys.exit(main())
