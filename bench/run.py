"""From the command line to the end of a script that says one word, beside torchrun.

`paceline run` brings a cluster up on this machine, and takes it down again. The script does not
import torch. The two take turns; one run of each beforehand warms the page cache.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import failures
import paceline_bench


def seconds(command, environment):
    begin = time.monotonic()
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    assert done.stdout == "hello\n", done
    return time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="runs of each program")
    parser.add_argument("--programs", type=pathlib.Path, help="folder of ours [built, optimised]")
    args = parser.parse_args()
    programs = args.programs or paceline_bench.build("//:dist") / "dist/bin"
    times = {"paceline": [], "torchrun": []}
    with tempfile.TemporaryDirectory(prefix="paceline-bench.") as folder:
        script = pathlib.Path(folder) / "hello.py"
        script.write_text("print('hello')\n", encoding="utf-8")
        environment = dict(os.environ, PACELINE_DEV_DIR=f"{folder}/none", TMPDIR=folder)
        commands = {"paceline": [programs / "paceline", "run", script],
                    "torchrun": [failures.VENV / "torchrun", "--standalone", script]}
        for _ in range(1 + args.rounds):
            for name, command in commands.items():
                times[name].append(seconds(command, environment))
    return paceline_bench.report("run", [
        paceline_bench.Row(case="1 rank, no torch", metric="command to its end", unit="s",
                           ours=times["paceline"][1:], peers={"torchrun": times["torchrun"][1:]},
                           target=1.0)])


if __name__ == "__main__":
    sys.exit(main())
