"""What every benchmark shares: one table for people and one line of JSON (bench/README.md)."""
import dataclasses
import json
import os
import pathlib
import platform
import statistics
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclasses.dataclass
class Row:
    """One figure of ours beside its peers'. Each list holds one value per run."""

    case: str
    metric: str
    unit: str
    ours: list
    better: str = "lower"
    peers: dict = dataclasses.field(default_factory=dict)
    limit: float = None  # Bound of our figure, in `unit`.
    target: float = None  # Bound of our figure divided by the best peer's.

    def as_json(self):
        ours = statistics.median(self.ours)
        peers = {name: statistics.median(values) for name, values in self.peers.items()}
        best = (min if self.better == "lower" else max)(peers.values(), default=None)
        bounds = [(ours, self.limit)] if self.limit is not None else []
        if self.target is not None:
            bounds.append((ours / best, self.target))
        holds = [value <= bound if self.better == "lower" else value >= bound
                 for value, bound in bounds]
        return {
            "case": self.case, "metric": self.metric, "unit": self.unit, "better": self.better,
            "ours": round_to(ours), "min": round_to(min(self.ours)), "max": round_to(max(self.ours)),
            "peers": {name: round_to(value) for name, value in peers.items()},
            "limit": self.limit, "target": self.target, "met": all(holds) if holds else None,
        }


def round_to(value, digits=4):
    """Rounds to that many significant digits."""
    return float(f"{value:.{digits}g}")


def versions():
    """What the figures depend on besides our code."""
    packed = ROOT / "COMMIT"  # In a bundle (tools/pack-gpu.sh).
    commit = (packed.read_text(encoding="utf-8") if packed.exists() else subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, check=True, capture_output=True,
        text=True).stdout).strip()
    with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
        models = {line.split(":")[1].strip() for line in cpuinfo if line.startswith("model name")}
    found = {"paceline": commit, "kernel": platform.release(),
             "cpu": " / ".join(sorted(models)) or platform.machine(), "cores": os.cpu_count()}
    requirements = (ROOT / "tools/requirements.txt").read_text(encoding="utf-8")
    for line in requirements.splitlines():
        name, _, version = line.partition("==")
        if name in ("torch", "numpy"):
            found[name] = version
    return found


def report(bench, rows, more_versions=None):
    """Prints the table, then the result as the last line. Returns the process's exit code:
    0 although a target is missed, since a figure is to be told in either case."""
    result = {"bench": bench, "versions": {**versions(), **(more_versions or {})},
              "rows": [row.as_json() for row in rows]}
    lines = [["case", "metric", "unit", "ours", "min", "max", "peers", "bound", "met"]]
    for row in result["rows"]:
        bounds = [f"{row['limit']:g} {row['unit']}"] if row["limit"] is not None else []
        if row["target"] is not None:
            bounds.append(f"{row['target']:g} x best peer")
        peers = ", ".join(f"{name} {value:g}" for name, value in row["peers"].items())
        lines.append([row["case"], row["metric"], row["unit"], f"{row['ours']:g}",
                      f"{row['min']:g}", f"{row['max']:g}", peers or "-", ", ".join(bounds) or "-",
                      {True: "yes", False: "NO", None: "-"}[row["met"]]])
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip())
    print(json.dumps(result))
    return 0


def forget(folder):
    """Takes a folder's files out of the page cache."""
    for file in folder.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def build(*labels):
    """Builds the targets optimised; returns the folder that holds their programs."""
    subprocess.run(["bazel", "build", "--config=opt", "--noshow_progress", *labels], cwd=ROOT,
                   check=True)
    info = subprocess.run(["bazel", "info", "--config=opt", "bazel-bin"], cwd=ROOT, check=True,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return pathlib.Path(info.stdout.strip())
