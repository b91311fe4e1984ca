"""What watching costs a script: its steps, and its start.

What it adds to a step does not depend on the model: it times the loader, the backward pass and the
optimizer, once each. So it is measured where steps are short, on a layer of 8 by 8 under DDP and a tiny
Llama under FSDP2, in groups of three processes with the same unmodified loop, one of them watched, that
take turns every few steps. What the two that are not watched differ by is how far the figure can be
trusted. The ratio is worked out for steps of ResNet-18 on images of 32x32, and of a small Llama.
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

SETTLING_STEPS = 60
STEPS = 40  # Per turn.
LONG_STEPS = 10  # Per turn, for loops with long steps.
CASES = (("ddp", "DDP, ResNet-18"), ("fsdp2", "FSDP2, Llama"))


def environment(ring=None):
    result = dict(os.environ, OMP_NUM_THREADS="1", PYTHONDONTWRITEBYTECODE="1")
    result.pop("PYTHONPATH", None)
    if ring:
        result.update(PACELINE_RING=str(ring), PYTHONPATH=str(PYTHON / "paceline/site"))
    return result


class Loop:
    def __init__(self, kind, store, ring=None):
        self.process = subprocess.Popen([sys.executable, PEER, kind, "--store", store],
                                        env=environment(ring), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def steps(self, count):
        """Microseconds of a step, on the processor."""
        self.process.stdin.write(f"{count}\n")
        self.process.stdin.flush()
        return 1e6 * float(self.process.stdout.readline().split()[1]) / count

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def added_us(kind, folder, turns):
    """What watching adds to a step, and what two that are not watched differ by: medians of the turns."""
    ring = make_ring(folder / "ring")
    loops = [Loop(kind, folder / "store.0"), Loop(kind, folder / "store.1"),
             Loop(kind, folder / "store.2", ring)]
    for loop in loops:
        loop.steps(SETTLING_STEPS)
    added, apart = [], []
    for turn in range(turns):
        order = [(turn + i) % 3 for i in range(3)]
        took = {i: loops[i].steps(STEPS) for i in order}
        added.append(took[2] - (took[0] + took[1]) / 2)
        apart.append(took[1] - took[0])
    for loop in loops:
        loop.end()
    _, step = read_live(ring)
    assert step == SETTLING_STEPS + turns * STEPS, f"{step} steps were seen"
    return statistics.median(added), statistics.median(apart)


def step_us(kind, folder):
    loop = Loop(kind, folder / "store")
    loop.steps(LONG_STEPS)
    took = loop.steps(LONG_STEPS)
    loop.end()
    return took


def import_ms(ring=None):
    """By the clock, and on the processor."""
    begin = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-c", "import torch"], env=environment(ring))
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0
    return 1e3 * (time.perf_counter() - begin), 1e3 * (usage.ru_utime + usage.ru_stime)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=8, help="of three processes, for each case")
    parser.add_argument("--turns", type=int, default=30, help="of each process")
    parser.add_argument("--starts", type=int, default=15, help="of each kind")
    args = parser.parse_args()
    rows = []

    def row(case, metric, unit, values, limit=None):
        rows.append(paceline_bench.Row(case, metric, unit, list(values), limit=limit))

    def folders(count):
        for _ in range(count):
            with tempfile.TemporaryDirectory(prefix="paceline-bench.", dir="/dev/shm") as name:
                yield pathlib.Path(name)

    for kind, case in CASES:
        groups = [added_us(f"small_{kind}", folder, args.turns) for folder in folders(args.groups)]
        took = statistics.median(step_us(kind, folder) for folder in folders(3))
        row(case, "what watching adds to a step", "us", (added for added, _ in groups))
        row(case, "what two differ by that are not watched", "us", (apart for _, apart in groups))
        row(case, "step", "ms", [took / 1e3])
        row(case, "step, watched / not", "1", (1 + added / took for added, _ in groups), limit=1.005)
    for folder in folders(1):
        ring = make_ring(folder / "ring")
        import_ms()
        starts = [(import_ms(ring), import_ms()) for _ in range(args.starts)]
    row("import torch", "what watching adds", "ms", (watched[0] - plain[0] for watched, plain in starts),
        limit=50)
    row("import torch", "the same, of the processor's time", "ms",
        (watched[1] - plain[1] for watched, plain in starts), limit=50)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; "
          f"{statistics.median(plain[0] for _, plain in starts):.0f} ms to import torch\n")
    return paceline_bench.report("watch", rows)


if __name__ == "__main__":
    sys.exit(main())
