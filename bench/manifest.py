"""Completing a checkpoint of 512 ranks that have a slice of each of 1,000 tensors: rows or columns."""
import json
import subprocess
import sys

import paceline_bench

NAMES = {"BM_Parse": "parsing the parts", "BM_Merge": "merging them",
         "BM_Format": "text of the manifest"}
# Bound of the merge's processor time.
LIMIT_MS = 1000


def main():
    program = paceline_bench.build("//bench:manifest_benchmark") / "bench/manifest_benchmark"
    output = subprocess.run(
        [program, "--benchmark_repetitions=5", "--benchmark_min_time=0.1", "--benchmark_format=json"],
        check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    times = {}
    for run in json.loads(output)["benchmarks"]:
        if run["run_type"] == "iteration":
            times.setdefault(tuple(run["run_name"].split("/")), []).append(run["cpu_time"])
    return paceline_bench.report("manifest", [
        paceline_bench.Row(case=cut, metric=NAMES[name], unit="ms", ours=runs,
                           limit=LIMIT_MS if name == "BM_Merge" else None)
        for (name, cut), runs in times.items()
    ])


if __name__ == "__main__":
    sys.exit(main())
