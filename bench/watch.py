"""What watching costs a script: its steps, and its start.

Two processes with the same unmodified loop, one of them watched, take turns every few steps: what
disturbs the machine meets both. DDP with ResNet-18 on images of 32x32, FSDP2 with a small Llama.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import paceline_bench

PYTHON = paceline_bench.ROOT / "python"
PEER = paceline_bench.ROOT / "bench/peers/watched_loop.py"
sys.path.insert(0, str(PYTHON / "tests"))
from ring import make_ring, read_live  # pylint: disable=wrong-import-position

SETTLING_STEPS = 6
STEPS = 3  # In a turn.


def environment(ring=None):
    result = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    result.pop("PYTHONPATH", None)
    if ring:
        result.update(PACELINE_RING=str(ring), PYTHONPATH=str(PYTHON / "paceline/site"))
    return result


class Loop:
    def __init__(self, kind, folder, ring=None):
        self.process = subprocess.Popen(
            [sys.executable, PEER, kind, "--store", folder / f"store.{kind}.{bool(ring)}"],
            env=environment(ring), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.steps(SETTLING_STEPS)

    def steps(self, count=STEPS):
        """Seconds by the clock, and on the processor."""
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def ratios(kind, folder, turns):
    """Watched / not, turn by turn: by the clock, and on the processor."""
    ring = make_ring(folder / f"ring.{kind}")
    plain, watched = Loop(kind, folder), Loop(kind, folder, ring)
    found = []
    for turn in range(turns):
        first, second = (plain, watched) if turn % 2 else (watched, plain)
        times = {first: first.steps(), second: second.steps()}
        found.append([ours / peer for ours, peer in zip(times[watched], times[plain])])
    for loop in (plain, watched):
        loop.end()
    _, step = read_live(ring)
    assert step == SETTLING_STEPS + turns * STEPS, f"{step} steps were seen"
    return zip(*found)


def import_ms(ring=None):
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], env=environment(ring), check=True)
    return 1e3 * (time.perf_counter() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=200, help="of each of the two")
    parser.add_argument("--starts", type=int, default=15, help="of each kind")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="paceline-bench.", dir="/dev/shm") as name:
        folder = pathlib.Path(name)
        for kind, case in (("ddp", "DDP, ResNet-18"), ("fsdp2", "FSDP2, Llama")):
            wall, processor = ratios(kind, folder, args.turns)
            rows.append(paceline_bench.Row(case, "step, watched / not", "1", list(wall), limit=1.005))
            rows.append(paceline_bench.Row(case, "the same, of the processor's time", "1",
                                           list(processor), limit=1.005))
        ring = make_ring(folder / "ring")
        import_ms()
        starts = [(import_ms(ring), import_ms()) for _ in range(args.starts)]
        rows.append(paceline_bench.Row("import torch", "what watching adds", "ms",
                                       [watched - plain for watched, plain in starts], limit=50))
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; {statistics.median(p for _, p in starts):.0f}"
          " ms to import torch\n")
    return paceline_bench.report("watch", rows)


if __name__ == "__main__":
    sys.exit(main())
