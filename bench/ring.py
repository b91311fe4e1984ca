"""Cost of telemetry for one training step: its five phases and its end written to the ring."""
import json
import subprocess
import sys

import paceline_bench


def main():
    program = paceline_bench.build("//bench:ring_benchmark") / "bench/ring_benchmark"
    output = subprocess.run(
        [program, "--benchmark_repetitions=5", "--benchmark_format=json"], check=True,
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    times = {}
    for run in json.loads(output)["benchmarks"]:
        if run["run_type"] == "iteration":
            times.setdefault(run["run_name"], []).append(run["real_time"])
    return paceline_bench.report("ring", [
        paceline_bench.Row(case="whole step", metric="time", unit="ns", ours=times["BM_WholeStep"],
                           peers={"seven clock reads alone": times["BM_SevenClockReads"]}, limit=1000),
    ])


if __name__ == "__main__":
    sys.exit(main())
