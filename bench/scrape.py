"""One scrape of a worker with 8 ranks, and of a controller with 10,000 ranks on 1,250 nodes."""
import json
import subprocess
import sys

import paceline_bench


def main():
    program = paceline_bench.build("//bench:scrape_benchmark") / "bench/scrape_benchmark"
    output = subprocess.run(
        [program, "--benchmark_repetitions=5", "--benchmark_min_time=0.2",
         "--benchmark_format=json"],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    times = {}
    sizes = {}
    for run in json.loads(output)["benchmarks"]:
        if run["run_type"] == "iteration":
            # Processor time: neither scrape waits or has threads.
            times.setdefault(run["run_name"], []).append(run["cpu_time"])
            sizes.setdefault(run["run_name"], []).append(run.get("bytes", 0) / 1e6)
    row = paceline_bench.Row
    return paceline_bench.report("scrape", [
        row(case="worker, 8 ranks", metric="time of a scrape", unit="ms", ours=times["BM_Worker"],
            limit=5),
        row(case="worker, 8 ranks", metric="size", unit="MB", ours=sizes["BM_Worker"]),
        row(case="controller, 10,000 ranks", metric="time of a scrape", unit="ms",
            ours=times["BM_Controller"], limit=50),
        row(case="controller, 10,000 ranks", metric="size", unit="MB", ours=sizes["BM_Controller"],
            limit=1),
        row(case="controller, 10,000 ranks", metric="time on the loop, once a second", unit="ms",
            ours=times["BM_Refresh"], limit=10),
    ])


if __name__ == "__main__":
    sys.exit(main())
