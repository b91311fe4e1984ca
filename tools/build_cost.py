"""Prints what the tree costs whoever builds it, and fails where that is past its bound.

Counted are translation units, test programs, and the headers whose text the compiler reads most
often: the lines that a header brings, with all that it includes, times the units that see it.
Comments and empty lines do not count; neither does who has read them in advance
(bazel/pch.bzl). The bounds are in build_bounds.json: raise one there when a change is worth it.

Usage: build_cost.py, from the root, after tools/setup.sh.
"""
import collections
import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import tidy

CI_TIMES = pathlib.Path.home() / ".cache/paceline/ci-times"  # Of the last run of .ci/run here.
BOUNDS = pathlib.Path("tools/build_bounds.json")
CACHE = pathlib.Path.home() / ".cache/paceline/build_cost"
HEADERS = 10
LINE_MARKER = re.compile(r'^# \d+ "([^"]+)"')


def lines_by_file(text):
    """{file: lines} of what the preprocessor gave out."""
    lines, current = collections.Counter(), ""
    for line in text.splitlines():
        marker = LINE_MARKER.match(line)
        if marker:
            current = marker.group(1)
        elif line.strip():
            lines[current] += 1
    lines.pop("<stdin>", None)
    return dict(lines)


def toolchain():
    """What the headers of others depend on: the key that tools/setup.sh writes."""
    return pathlib.Path("build/toolchain.bazelrc").read_text(encoding="utf-8")


@functools.lru_cache(maxsize=None)
def foreign_lines(name):
    """{file: lines} of a header that is not ours, by the name that it is included by."""
    torch = tidy.TORCH.match(name)
    flags = [*tidy.FLAGS, *(tidy.TORCH_FLAGS if torch else [])]
    generated = tidy.GENERATED / name
    salt = generated.read_text(encoding="utf-8") if generated.is_file() else ""
    kept = CACHE / hashlib.sha256("\0".join([toolchain(), name, salt, *flags]).encode()).hexdigest()
    if kept.is_file():
        return json.loads(kept.read_text(encoding="utf-8"))
    found = subprocess.run([tidy.CLANG, *flags, "-E", "-x", "c++", "-"], input=f"#include <{name}>\n",
                           capture_output=True, text=True, check=False)
    lines = lines_by_file(found.stdout)  # A header that does not compile alone: what we got.
    kept.parent.mkdir(parents=True, exist_ok=True)
    unfinished = kept.with_suffix(f".{os.getpid()}-{abs(hash(name))}")
    unfinished.write_text(json.dumps(lines), encoding="utf-8")
    unfinished.rename(kept)
    return lines


@functools.lru_cache(maxsize=None)
def own_lines(path):
    """Lines of one of our files without comments."""
    return sum(1 for line in tidy.text(path).splitlines()
               if line.strip() and not line.strip().startswith("//"))


def header_costs(units):
    """[(lines × units, lines, units, header)], the heaviest first."""
    seen_by = collections.Counter()
    for unit in units:
        own, foreign = tidy.closure(unit)
        seen_by.update((own | foreign) - {unit})
    names = [name for name in seen_by if not os.path.isfile(name)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(foreign_lines, names))
    costs = []
    for name, count in seen_by.items():
        own, foreign = tidy.closure(name) if os.path.isfile(name) else (set(), {name})
        files = {}
        for header in foreign:
            files.update(foreign_lines(header))
        lines = sum(files.values()) + sum(own_lines(path) for path in own)
        costs.append((lines * count, lines, count, name))
    return sorted(costs, reverse=True)


def test_programs():
    listed = subprocess.run(["bazel", "query", "--noshow_progress", "kind('.*_test rule', //...)"],
                            check=True, capture_output=True, text=True)
    return len(listed.stdout.split())


def main():
    bounds = json.loads(BOUNDS.read_text(encoding="utf-8"))
    tidy.generate_protos()
    units = tidy.our_files("*.cc")
    # Only headers of others: a header of ours costs through what it includes.
    ours = [cost for cost in header_costs(units) if os.path.isfile(cost[3])]
    heaviest = ours[:HEADERS]
    found = {
        "translation_units": len(units),
        "test_programs": test_programs(),
        "heaviest_headers_mlines": round(sum(cost[0] for cost in heaviest) / 1e6, 1),
    }
    print(f"{'Mlines':>7} {'lines':>8} {'units':>6}  the heaviest headers of ours")
    for total, lines, count, name in heaviest:
        print(f"{total / 1e6:7.1f} {lines:8,} {count:6}  {name}")
    failed = False
    for name, value in found.items():
        over = value > bounds[name]
        failed |= over
        print(f"{name}: {value}, at most {bounds[name]}" + (": TOO MANY" if over else ""))
    if CI_TIMES.is_file():
        for line in CI_TIMES.read_text(encoding="utf-8").splitlines():
            part, seconds = line.split()
            bound = bounds["ci_seconds"][part]
            failed |= int(seconds) > bound
            print(f"CI here, {part}: {seconds} s, at most {bound}" +
                  (": TOO LONG" if int(seconds) > bound else ""))
    if failed:
        print(f"what a build costs has grown past {BOUNDS}: merge files, lighten a header, or raise the bound there")
    return failed


if __name__ == "__main__":
    sys.exit(main())
