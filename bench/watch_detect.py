"""How soon a slow rank of somebody's own script is named.

A real job of eight ranks, each on a node of its own: an unmodified script under DistributedDataParallel
whose forward pass sleeps. One rank becomes slower by a fifth of the forward pass, in that or in its
loader; and once nobody does, which names nobody.
"""
import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import failures
import paceline_bench

RANKS = 8
SCRIPT = paceline_bench.ROOT / "bench/peers/sleeping_script.py"
SINCE = 60  # The detector ignores the first steps.
AFTER = 40
SLOW = 5


class Cluster:
    """Eight nodes."""

    def __init__(self, programs, folder):
        self.programs = programs.absolute()
        self.cli = [self.programs / "paceline", "--no-color"]
        self.folder = folder
        self.environment = dict(os.environ, PACELINE_DEV_DIR=str(folder / "dev"),
                                PACELINE_CONFIG=str(folder / "none"))

    def run(self, *arguments):
        return subprocess.run([*self.cli, *map(str, arguments)], env=self.environment, check=True,
                              capture_output=True, text=True).stdout

    def read(self, *arguments):
        return json.loads(self.run(*arguments, "-o", "json"))

    def __enter__(self):
        self.run("dev", "up", "--workers", RANKS, "--slots", 1, "--bin-dir", self.programs)
        return self

    def __exit__(self, *exception):
        self.run("dev", "down", "--purge")

    def verdicts(self, name, *arguments):
        """Runs the script; who was said to be slow, as (rank, step at which that was found)."""
        found = {}
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                [*self.cli, "run", "--ranks", str(RANKS), "--venv", failures.VENV.parent, "--name", name,
                 SCRIPT, *map(str, arguments)], env=self.environment, stdout=log, stderr=log)
            while process.poll() is None:
                with contextlib.suppress(subprocess.CalledProcessError):  # Not submitted yet.
                    advice = self.read("job", "advise", name)
                    for verdict in advice["stragglers"] + advice["recent"]:
                        if verdict["kind"] in ("SUSPECT", "PERSISTENT"):
                            at = (verdict["rank"], int(verdict["since_step"]))
                            found[at] = min(found.get(at, 1 << 60), int(verdict["step"]))
                time.sleep(0.3)
        assert process.returncode == 0, (self.folder / f"{name}.log").read_text()
        return [(rank, step) for (rank, _), step in found.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="of each kind of slowness")
    parser.add_argument("--steps", type=int, default=2000, help="in which nobody is slow")
    parser.add_argument("--forward", type=float, default=0.1, help="seconds of the forward pass")
    parser.add_argument("--programs", type=pathlib.Path, help="folder of ours [built, optimised]")
    args = parser.parse_args()
    programs = args.programs or paceline_bench.build("//:dist") / "dist/bin"
    rows, wrong = [], []
    with tempfile.TemporaryDirectory(prefix="paceline-bench.") as name:
        with Cluster(programs, pathlib.Path(name)) as cluster:
            for slow, limit in (("forward", 10), ("loader", 20)):
                steps = []
                for turn in range(args.rounds):
                    told = cluster.verdicts(
                        f"{slow}-{turn}", "--steps", SINCE + AFTER, "--forward", args.forward, "--slow",
                        slow, "--rank", SLOW, "--since", SINCE)
                    print(f"{slow}: rank {SLOW} is slow from step {SINCE} on; (rank, step): {told}", flush=True)
                    right = [step for rank, step in told if rank == SLOW and step >= SINCE]
                    wrong += [one for one in told if one[0] != SLOW or one[1] < SINCE]
                    # A rank that is not named in time counts with all steps of the run.
                    steps.append(min(right, default=SINCE + AFTER) - SINCE + 1)
                rows.append(paceline_bench.Row(f"20 % in the {slow}", "steps until it is named", "steps",
                                               steps, limit=limit))
            told = cluster.verdicts("nobody", "--steps", args.steps, "--forward", args.forward / 4)
            print(f"nobody is slow; (rank, step): {told}", flush=True)
    rows.append(paceline_bench.Row("nobody is slow", f"verdicts in {args.steps} steps", "1", [len(told)],
                                   limit=0))
    rows.append(paceline_bench.Row("one is slow", "verdicts on others", "1", [len(wrong)], limit=0))
    print(f"load of the machine: {os.getloadavg()[0]:.1f}\n")
    return paceline_bench.report("watch_detect", rows)


if __name__ == "__main__":
    sys.exit(main())
