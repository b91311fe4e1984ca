"""Time of a llama's parts between its matrix products, and of its loss: our loops beside torch's
operations.

Forward and backward pass on the CPU, of 2,048 tokens (of the loss 1,024, in four chunks, and
by torch's operations at once), in fp32 and bf16. The two take turns in one process.
"""
import argparse
import json
import subprocess
import sys

import paceline_bench


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="measurements of each part and way")
    parser.add_argument("--passes", type=int, default=20,
                        help="of a measurement; of the loss a tenth")
    parser.add_argument("--threads", type=int, default=1, help="of torch")
    args = parser.parse_args()

    program = paceline_bench.build("//bench:parts_benchmark") / "bench/parts_benchmark"
    output = subprocess.run(
        [program, "--rounds", str(args.rounds), "--passes", str(args.passes), "--threads",
         str(args.threads)], check=True, stdout=subprocess.PIPE, text=True).stdout
    return paceline_bench.report("parts", [
        paceline_bench.Row(case=result["case"], metric="forward and backward pass", unit="ms",
                           ours=result["ours_ms"], peers={"torch's operations": result["torch_ms"]},
                           target=1.0)
        for result in json.loads(output)])


if __name__ == "__main__":
    sys.exit(main())
