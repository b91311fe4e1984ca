"""One pass of the scheduler over 10,000 nodes and 1,000 jobs that wait, in clusters of several shapes."""
import json
import subprocess
import sys

import paceline_bench

# Bound of processor time: a pass neither waits nor has threads, so other programs matter less.
LIMIT_MS = 50


def main():
    program = paceline_bench.build("//bench:schedule_benchmark") / "bench/schedule_benchmark"
    output = subprocess.run(
        [program, "--benchmark_repetitions=5", "--benchmark_min_time=0.1", "--benchmark_format=json"],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    times = {}
    for run in json.loads(output)["benchmarks"]:
        if run["run_type"] == "iteration":
            times.setdefault(run["run_name"].split("/")[1], []).append(run["cpu_time"])
    return paceline_bench.report("schedule", [
        paceline_bench.Row(case=shape.replace("_", " "), metric="time of a pass", unit="ms", ours=runs,
                           limit=None if shape.endswith("first_pass") else LIMIT_MS)
        for shape, runs in times.items()
    ])


if __name__ == "__main__":
    sys.exit(main())
