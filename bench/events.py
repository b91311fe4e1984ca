"""What one event costs the controller's decisions, with 10,000 ranks and with 100,000.

What is about one node or rank is not to cost more in a larger cluster: the second is beside the first.
"""
import json
import subprocess
import sys

import paceline_bench

NAMES = {"BM_Report": "report of a node", "BM_ReportWhileNodesAreHeld": "report, 5 nodes held",
         "BM_Step": "step of a rank", "BM_Reconnect": "node gone and back"}
RANKS = {"1250": "10,000 ranks", "12500": "100,000 ranks"}
# Bound of the time's growth with ten times the ranks; caches are missed more often.
GROWTH = 2


def main():
    program = paceline_bench.build("//bench:events_benchmark") / "bench/events_benchmark"
    output = subprocess.run(
        # The sizes take turns, so a slow minute affects both.
        [program, "--benchmark_repetitions=5", "--benchmark_min_time=0.2",
         "--benchmark_enable_random_interleaving=true",
         "--benchmark_format=json"],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    times = {}
    for run in json.loads(output)["benchmarks"]:
        if run["run_type"] == "iteration":
            times.setdefault(tuple(run["run_name"].split("/")), []).append(run["cpu_time"])
    rows = []
    for (name, nodes), runs in times.items():
        small = times[name, "1250"]
        larger = {} if nodes == "1250" else {"peers": {"10,000 ranks": small}, "target": GROWTH}
        rows.append(paceline_bench.Row(case=RANKS[nodes], metric=NAMES[name], unit="us", ours=runs,
                                       **larger))
    return paceline_bench.report("events", rows)


if __name__ == "__main__":
    sys.exit(main())
