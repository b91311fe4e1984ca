"""Runs the GPU tests and then the GPU benchmark out of a bundle (tools/pack-gpu.sh).

Needs a Python with torch 2.11 for CUDA 13 and the driver, nothing else: our programs use that
torch's libraries and, for the rest, those of the bundle. Without a GPU every test is skipped and
the benchmark left out. The last line is {"tests": {"passed": N, ..., "figures": {...}}, "bench":
{...} or null}.
Exit code: 1 when a test failed.
"""
import argparse
import glob
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

try:
    import torch
except ImportError:
    sys.exit(f"{sys.executable} has no torch: name a Python that has (PYTHON=... run.sh)")

BUNDLE = pathlib.Path(__file__).resolve().parent
CLUSTER_TIMEOUT_S = 660
BENCH_TIMEOUT_S = 3600


def library_path():
    """Where our programs find their libraries: torch's, CUDA's beside it, then the bundle's."""
    site = pathlib.Path(torch.__file__).parent.parent
    return ":".join([str(site / "torch/lib"), *sorted(glob.glob(str(site / "nvidia/*/lib"))),
                     str(BUNDLE / "lib")])


def run_test(program, environment, options, timeout_s):
    """(passed, skipped, failed) of one program. One that does not come to its end has failed."""
    with tempfile.TemporaryDirectory(prefix="paceline-gpu.") as work:
        report = pathlib.Path(work) / "report.json"
        try:
            code = subprocess.run(
                [program, f"--gtest_output=json:{report}", "--gtest_brief=0", *options],
                cwd=BUNDLE / "programs", env=dict(environment, TEST_TMPDIR=work),
                timeout=timeout_s, check=False).returncode
        except subprocess.TimeoutExpired:
            code = f"none within {timeout_s} s"
        if not report.exists():
            print(f"{program.name}: ended without a report, exit code {code}")
            return 0, 0, 1
        cases = [case for suite in json.loads(report.read_text())["testsuites"]
                 for case in suite["testsuite"] if case["status"] == "RUN"]
    failed = sum("failures" in case for case in cases)
    skipped = sum(case["result"] == "SKIPPED" for case in cases)
    return len(cases) - failed - skipped, skipped, failed


def run_printing(words, environment, timeout_s):
    """Prints what a script does. Its last line, and its exit code. It undoes what it has begun also
    when its time is over."""
    last = ""
    with subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, text=True) as process:
        timer = threading.Timer(timeout_s, process.send_signal, [signal.SIGINT])
        timer.start()
        for last in process.stdout:
            print(last, end="", flush=True)
        timer.cancel()
    return last, process.returncode


def run_cluster(environment):
    """(passed, skipped, failed) of whole jobs (cluster.py), and their figures."""
    if not torch.cuda.is_available():
        return (0, 1, 0), {}
    last, _ = run_printing(
        [sys.executable, BUNDLE / "cluster.py", "--programs", BUNDLE / "programs/bin"],
        environment, CLUSTER_TIMEOUT_S)
    try:
        result = json.loads(last)
    except ValueError:
        print("cluster: ended without a report")
        return (0, 0, 1), {}
    return (tuple(len(result[name]) for name in ("passed", "skipped", "failed")),
            result["figures"])


def run_tests(environment, args):
    passed, skipped, failed, figures = 0, 0, 0, {}
    for program in sorted((BUNDLE / "programs/tests/gpu").iterdir()):
        if args.tests and program.name not in args.tests:
            continue
        print(f"== {program.name}", flush=True)
        counts = run_test(program, environment, args.gtest, args.timeout)
        passed, skipped, failed = passed + counts[0], skipped + counts[1], failed + counts[2]
    if not args.tests or "cluster" in args.tests:
        print("== cluster", flush=True)
        counts, figures = run_cluster(environment)
        passed, skipped, failed = passed + counts[0], skipped + counts[1], failed + counts[2]
    print(f"gpu tests: {passed} passed, {failed} failed, {skipped} skipped", flush=True)
    return {"passed": passed, "failed": failed, "skipped": skipped, "figures": figures}


def run_bench(options):
    last, code = run_printing(
        [sys.executable, BUNDLE / "bench/gpu.py", "--programs", BUNDLE / "programs", *options],
        dict(os.environ, PYTHONPATH=str(BUNDLE / "bench"), PYTHONDONTWRITEBYTECODE="1",
             PACELINE_LIBRARY_PATH=library_path()), BENCH_TIMEOUT_S)
    return json.loads(last) if code == 0 else {"error": code}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tests", nargs="*", metavar="NAME", help="only these; default all")
    parser.add_argument("--gtest", nargs="*", default=[], help="options for the test programs")
    parser.add_argument("--timeout", type=int, default=280, metavar="S", help="of one test program")
    parser.add_argument("--no-tests", action="store_true")
    parser.add_argument("--no-bench", action="store_true")
    parser.add_argument("--bench", nargs=argparse.REMAINDER, default=[],
                        help="the rest: options for bench/gpu.py")
    args = parser.parse_args()
    if not (torch.__version__.startswith("2.11.") and str(torch.version.cuda).startswith("13.")):
        parser.error(f"needs torch 2.11 for CUDA 13, but {sys.executable} has {torch.__version__}")

    gpu = torch.cuda.is_available()
    print(f"torch {torch.__version__}, GPU: {torch.cuda.get_device_name() if gpu else 'none'}",
          flush=True)
    result = {"tests": None, "bench": None}
    if not args.no_tests:
        environment = dict(os.environ, LD_LIBRARY_PATH=library_path())
        result["tests"] = run_tests(environment, args)
    if not args.no_bench:
        if gpu:
            result["bench"] = run_bench(args.bench)
        else:
            print("no GPU: benchmark left out")
    print(json.dumps(result))
    failed = result["tests"] is not None and result["tests"]["failed"] > 0
    return 1 if failed or "error" in (result["bench"] or {}) else 0


if __name__ == "__main__":
    sys.exit(main())
