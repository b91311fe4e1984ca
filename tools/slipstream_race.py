"""Follows two jobs that do the same by different strategies, and prints how far each has come and how fast.

Fails unless the second is more than twice as fast as the first and not more than two percentage points
less accurate: twice the standard error, of 359 images.
"""
import json
import subprocess
import sys
import time

EVERY_S = 1.0
LINE_EVERY_S = 5.0
SPAN_S = 10.0  # Time over which a throughput is measured.
BAR = 30
TWICE = 2.0
WITHIN = 0.02
ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


class Job:
    def __init__(self, paceline, name):
        self.paceline, self.name = paceline, name
        self.points = []  # (seconds, steps), from the first step on.
        self.ended = False
        self.described = {}

    def look(self):
        if self.ended:
            return
        self.described = json.loads(subprocess.run(
            [self.paceline, "-o", "json", "job", "describe", self.name], check=True,
            stdout=subprocess.PIPE, text=True).stdout)
        step = int(self.described.get("progress", {}).get("step", 0))
        if step:
            self.points.append((time.monotonic(), step))
        self.ended = self.described["state"] in ENDED

    def pace(self, since=0.0):
        """Steps per second."""
        points = [point for point in self.points if point[0] >= since]
        if len(points) < 2 or points[-1][1] == points[0][1]:
            return 0.0
        # Up to the first sample in which the last step was done.
        end = next(point for point in points if point[1] == points[-1][1])
        return (end[1] - points[0][1]) / (end[0] - points[0][0])

    def text(self):
        steps = int(self.described["spec"]["steps"])
        step = self.points[-1][1] if self.points else 0
        bar = ("#" * (BAR * step // steps)).ljust(BAR, ".")
        pace = "done   " if self.ended else f"{self.pace(time.monotonic() - SPAN_S):5.1f}/s"
        return f"{self.name} {bar} {step:5} {pace}"


def main(paceline, *names):
    begin = time.monotonic()
    jobs = [Job(paceline, name) for name in names]
    printed = 0.0
    while not all(job.ended for job in jobs):
        for job in jobs:
            job.look()
        if time.monotonic() - printed >= LINE_EVERY_S:
            printed = time.monotonic()
            print(f"{printed - begin:6.1f} s  " + "   ".join(job.text() for job in jobs), flush=True)
        time.sleep(EVERY_S)
    for job in jobs:
        if job.described["state"] != "SUCCEEDED":
            sys.exit(f"demo: {job.name} is {job.described['state']}: {job.described.get('reason')}")
    slow, fast = jobs
    accuracies = [job.described["evaluation"]["accuracy"] for job in jobs]
    gain = fast.pace() / slow.pace()
    print()
    for job, accuracy in zip(jobs, accuracies):
        print(f"{job.name}: {job.pace():.1f} steps/s, test accuracy {accuracy:.2%}")
    print(f"{fast.name} has {gain:.1f} times the throughput")
    if gain < TWICE:
        sys.exit(f"demo: less than {TWICE:g} times")
    if accuracies[1] < accuracies[0] - WITHIN:
        sys.exit(f"demo: more than {WITHIN:.0%} less accurate")


if __name__ == "__main__":
    main(*sys.argv[1:])
