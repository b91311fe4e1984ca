"""How well and how fast stragglers are found, beside other systems' rules, and what a report costs."""
import json
import subprocess
import sys

import paceline_bench

LIMIT_NS = 1000
CLAIM = "10 % and more"


def run(program, *arguments):
    """Shows what the program prints but for its last line; returns that."""
    lines = subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE,
                           text=True).stdout.splitlines()
    print("\n".join(lines[:-1]) + "\n")
    return json.loads(lines[-1])


def share(figures, name):
    return 100 * figures[name]["share"]


def peers(rules, value):
    return {name: [value(figures)] for name, figures in rules.items() if name != "Paceline"}


def rows_of(totals):
    """Our figures with the targets that they are held to."""
    ten, five, every = totals[CLAIM], totals["5 %"]["Paceline"], totals["all"]["Paceline"]
    ours = ten["Paceline"]
    row = paceline_bench.Row
    for name in ("recall", "precision"):
        yield row(CLAIM, name, "%", [share(ours, name)], "higher",
                  peers(ten, lambda figures, name=name: share(figures, name)), limit=99)
        yield row(CLAIM, f"{name}, lower bound", "%", [100 * ours[name]["low"]], "higher", limit=99)
    for name, limit in (("median", 5), ("p99", 10)):
        yield row(CLAIM, f"steps to SUSPECT, {name}", "steps", [ours["steps_to_suspect"][name]],
                  peers={peer: values for peer, values in peers(
                      ten, lambda figures, name=name: (figures["steps_to_suspect"] or {}).get(name)
                  ).items() if values != [None]}, limit=limit)
    yield row("5 %", "recall", "%", [share(five, "recall")], "higher",
              peers(totals["5 %"], lambda figures: share(figures, "recall")), limit=95)
    yield row("all", "wrong SUSPECT per million rank-steps", "1", [every["wrong_suspects"]["per_million"]],
              peers=peers(totals["all"], lambda figures: figures["wrong_suspects"]["per_million"]), limit=0.1)
    yield row("all", "the same, upper bound", "1", [every["wrong_suspects"]["per_million_upper"]])
    yield row("all", "wrong drains", "1", [every["wrong_drains"]["count"]],
              peers=peers(totals["all"], lambda figures: figures["wrong_drains"]["count"]), limit=0)
    yield row("all", "million rank-steps", "1", [every["rank_steps"] / 1e6], "higher", limit=100)
    yield row("all", "transient or persistent, right", "%", [share(every, "class_right")], "higher",
              peers(totals["all"], lambda figures: share(figures, "class_right")), limit=98)
    yield row("all", "truth within the 95 % interval of PERSISTENT", "%", [share(every, "interval_right")],
              "higher", limit=95)


def costs(program):
    output = subprocess.run(
        [program, "--benchmark_repetitions=3", "--benchmark_min_time=0.5", "--benchmark_format=json"],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    times = {}
    for one in json.loads(output)["benchmarks"]:
        if one["run_type"] == "iteration":
            _, case, ranks = one["run_name"].split("/")
            times.setdefault(f"{ranks} ranks, {case.replace('_', ' ')}", []).append(one["cpu_time"])
    return [paceline_bench.Row(case, "time of a report", "ns", runs, limit=LIMIT_NS)
            for case, runs in times.items()]


def main():
    programs = paceline_bench.build("//bench:detect", "//bench:detect_benchmark") / "bench"
    evaluation = run(programs / "detect", "--evaluate", *sys.argv[1:])["evaluation"]
    return paceline_bench.report("detect", [*rows_of(evaluation["totals"]),
                                            *costs(programs / "detect_benchmark")],
                                 {"seeds": evaluation["seeds"]})


if __name__ == "__main__":
    sys.exit(main())
