"""How long a person waits for the build: cold, and after an edit, on an otherwise idle machine.

In a checkout of its own, without Bazel's caches; packages and wheels are there. Core-seconds are
processor time of all that Bazel starts, and its own. An edit is a function more, so that the
machine code changes; one round of each edit beforehand, which builds what is not there yet, is not
counted.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import paceline_bench

ROOT = paceline_bench.ROOT
# Each edit's file, the tests of it, and the bound in seconds.
EDITS = [
    ("a .cc of the controller's core", "controller/core/job/plan.cc",
     ["//controller/core:core_test", "--test_filter=Plan*"], 10),
    ("a verb", "cli/verbs/job/job_changes.cc", ["//cli:cli_test", "--test_filter=Job*"], 10),
    ("a .cc of the trainer", "worker/trainer/loop/optimizer.cc",
     ["//worker/trainer:trainer_test", "--test_filter=Optimizer*"], 30),
    ("controller/core/job/job.h, all tests that depend on it", "controller/core/job/job.h",
     ["//...", "--test_tag_filters=-gpu"], 240),
]


class Checkout:
    """The commit at hand in a folder of its own, with an output base of its own."""

    def __enter__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="paceline-build-"))
        self.root = self.folder / "paceline"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", self.root], cwd=ROOT,
                       check=True)
        (self.root / ".venv").symlink_to(ROOT / ".venv")
        (self.root / "build").mkdir()
        for name in ("etcd-protos", "toolchain.bazelrc"):
            (self.root / "build" / name).symlink_to(ROOT / "build" / name)
        return self

    def __exit__(self, *_):
        self.bazel("shutdown")
        subprocess.run(["git", "worktree", "remove", "--force", self.root], cwd=ROOT, check=True)
        # Bazel's outputs are write-protected.
        subprocess.run(["chmod", "-R", "u+w", self.folder], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def command(self, *arguments, batch=False):
        return ["bazel", f"--output_base={self.folder}/output", *(["--batch"] if batch else []),
                *arguments]

    def bazel(self, *arguments):
        subprocess.run(self.command(*arguments), cwd=self.root, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def cold(self, *targets):
        """(wall seconds, core-seconds) of building the targets from nothing."""
        self.bazel("clean")
        self.bazel("shutdown")
        start = time.monotonic()
        # In batch mode the server is our child, so we get its children's time when it ends.
        process = subprocess.Popen(
            self.command("build", "--disk_cache=", "--noshow_progress", *targets, batch=True),
            cwd=self.root)
        try:
            _, status, usage = os.wait4(process.pid, 0)
        except BaseException:
            process.terminate()
            process.wait()
            raise
        if status:
            sys.exit(f"bazel build {' '.join(targets)} failed")
        return time.monotonic() - start, usage.ru_utime + usage.ru_stime

    def test(self, *arguments):
        """Wall seconds of `bazel test`."""
        start = time.monotonic()
        subprocess.run(self.command("test", "--disk_cache=", "--noshow_progress", *arguments),
                       cwd=self.root, check=True, stdout=subprocess.DEVNULL)
        return time.monotonic() - start

    def edit(self, name, number):
        path = self.root / name
        text = subprocess.run(["git", "show", f"HEAD:{name}"], cwd=self.root, check=True,
                              capture_output=True, text=True).stdout
        more = f"namespace paceline {{ inline int BuildBenchmark() {{ return {number}; }} }}\n"
        if name.endswith(".cc"):
            more = more.replace("inline ", f"int BuildBenchmark(); ")
            text += more
        else:  # Insert it before the end of the include guard.
            head, _, tail = text.rpartition("#endif")
            text = head + more + "#endif" + tail
        path.write_text(text, encoding="utf-8")


def demo_seconds():
    """Wall seconds of the demo itself, its programs built."""
    subprocess.run([ROOT / "tools/build.sh", "demo"], check=True, stdout=subprocess.DEVNULL)
    start = time.monotonic()
    subprocess.run([ROOT / "tools/demo.sh"], check=True, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL)
    return time.monotonic() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=1, help="cold builds of each kind")
    parser.add_argument("--edits", type=int, default=3, help="counted rounds of each edit")
    parser.add_argument("--part", choices=["demo", "tests", "edits"], action="append",
                        help="only this; may be given again")
    args = parser.parse_args()
    parts = args.part or ["demo", "tests", "edits"]

    rows = []

    def told(case, metric, unit, ours, limit=None):
        rows.append(paceline_bench.Row(case=case, metric=metric, unit=unit, ours=ours, limit=limit))

    with Checkout() as checkout:
        if "demo" in parts:
            cold = [checkout.cold("//:demo") for _ in range(args.rounds)]
            run = [demo_seconds() for _ in range(args.rounds)]
            told("demo, cold", "build", "core-s", [core for _, core in cold])
            told("demo, cold", "build", "s", [wall for wall, _ in cold])
            told("demo, cold", "build and training", "s",
                 [wall + more for (wall, _), more in zip(cold, run)], 540)
        if "tests" in parts:
            cold = [checkout.cold("//...") for _ in range(args.rounds)]
            run = [checkout.test("//...", "--nocache_test_results") for _ in range(args.rounds)]
            told("all tests, cold", "build", "core-s", [core for _, core in cold], 2200)
            told("all tests, cold", "build and run", "s",
                 [wall + more for (wall, _), more in zip(cold, run)], 1800)
            told("all tests, warm", "run", "s", run, 540)
        if "edits" in parts:
            for case, name, tests, limit in EDITS:
                seconds = []
                for number in range(1 + args.edits):
                    checkout.edit(name, number)
                    seconds.append(checkout.test(*tests))
                subprocess.run(["git", "checkout", "--quiet", "--", name], cwd=checkout.root,
                               check=True)
                told(f"edit {case}", "until its tests have run", "s", seconds[1:], limit)
    return paceline_bench.report("build", rows)


if __name__ == "__main__":
    sys.exit(main())
