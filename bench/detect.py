"""How well and how fast stragglers are found, beside other systems' rules, and what a report costs."""
import json
import subprocess
import sys

import paceline_bench

LIMIT_NS = 1000
OURS = "Paceline"


def run(program, *arguments):
    """Shows what the program prints but for its last line; returns that."""
    lines = subprocess.run([program, *arguments], check=True, stdout=subprocess.PIPE,
                           text=True).stdout.splitlines()
    print("\n".join(lines[:-1]) + "\n")
    return json.loads(lines[-1])


def share(figures, name):
    """In percent; None: nothing to count."""
    value = figures[name]["share"]
    return None if value is None else 100 * value


def quantile(name):
    return lambda figures: (figures["steps_to_suspect"] or {}).get(name)


def figure(totals, case, metric, unit, value, better="lower", limit=None, with_peers=True):
    """A row of a total, if that was played and has such a figure."""
    rules = {name: value(figures) for name, figures in totals.get(case, {}).items()}
    if rules.get(OURS) is None:
        return []
    peers = {name: [told] for name, told in rules.items()
             if with_peers and name != OURS and told is not None}
    return [paceline_bench.Row(case, metric, unit, [rules[OURS]], better, peers, limit=limit)]


def found(totals, case, limits):
    """How many slowdowns were found, how surely and when."""
    for name in ("recall", "precision"):
        yield from figure(totals, case, name, "%", lambda figures, name=name: share(figures, name),
                          "higher", limits.get(name))
        yield from figure(totals, case, f"{name}, lower bound", "%",
                          lambda figures, name=name: 100 * figures[name]["low"], "higher",
                          limits.get(name), with_peers=False)
    for name in ("median", "p99"):
        yield from figure(totals, case, f"steps to SUSPECT, {name}", "steps", quantile(name),
                          limit=limits.get(name))


def rows_of(totals):
    """The figures with the targets that they are held to."""
    yield from found(totals, "10 % and more", {"recall": 99, "precision": 99, "median": 5, "p99": 10})
    yield from found(totals, "10 % and more, all rows", {})
    yield from figure(totals, "5 %", "recall", "%", lambda figures: share(figures, "recall"), "higher", 95)
    yield from figure(totals, "all", "wrong SUSPECT per million rank-steps", "1",
                      lambda figures: figures["wrong_suspects"]["per_million"], limit=0.1)
    yield from figure(totals, "all", "the same, upper bound", "1",
                      lambda figures: figures["wrong_suspects"]["per_million_upper"], with_peers=False)
    yield from figure(totals, "all", "wrong drains", "1",
                      lambda figures: figures["wrong_drains"]["count"], limit=0)
    yield from figure(totals, "all", "million rank-steps", "1",
                      lambda figures: figures["rank_steps"] / 1e6, "higher", 100, with_peers=False)
    yield from figure(totals, "all", "transient or persistent, right", "%",
                      lambda figures: share(figures, "class_right"), "higher", 98)
    yield from figure(totals, "all", "truth within the 95 % interval of PERSISTENT", "%",
                      lambda figures: share(figures, "interval_right"), "higher", 95, with_peers=False)


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
