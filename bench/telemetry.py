"""What measuring costs a training step of 50 ms.

First row: the time of the measuring alone (marks, record, figures of an interval every ten
steps) as a share of the step, which resolves less than a microsecond. Second row: bare and
measured steps in turn, as a check that nothing else is added; its spread is that of the machine.
"""
import argparse
import json
import statistics
import subprocess
import sys

import paceline_bench

STEP_MS = 50


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="runs of the program")
    parser.add_argument("--pairs", type=int, default=100, help="bare and measured steps of a run")
    args = parser.parse_args()

    program = paceline_bench.build("//bench:telemetry_benchmark") / "bench/telemetry_benchmark"
    share, bare, measured = [], [], []
    for _ in range(args.rounds):
        output = subprocess.run([program, "--pairs", str(args.pairs), "--step-ms", str(STEP_MS)],
                                check=True, stdout=subprocess.PIPE, text=True).stdout
        result = json.loads(output)
        share.append(100 * result["step_ns"] / (STEP_MS * 1e6))
        bare.append(statistics.median(result["bare_ms"]))
        measured.append(statistics.median(result["measured_ms"]))
    return paceline_bench.report("telemetry", [
        paceline_bench.Row(case=f"step of {STEP_MS} ms", metric="share of the step", unit="%",
                           ours=share, limit=0.1),
        paceline_bench.Row(case="bare and measured in turn", metric="step time", unit="ms",
                           ours=measured, peers={"bare": bare})])


if __name__ == "__main__":
    sys.exit(main())
