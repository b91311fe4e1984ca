#!/usr/bin/env python3
"""Writes the dashboards of sources/ to dashboards/ as JSON, or with --check tells what differs.

    deploy/grafana/generate.py
"""

import importlib
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ("fleet", "job", "stragglers", "node", "checkpoints", "controller")
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True


def rendered():
    """The text of each file, by its path."""
    files = {}
    for source in SOURCES:
        dashboard = importlib.import_module(f"sources.{source}").DASHBOARD
        path = os.path.join(HERE, "dashboards", f"{dashboard['uid']}.json")
        files[path] = json.dumps(dashboard, indent=1, ensure_ascii=False) + "\n"
    return files


def contents(path):
    if not os.path.exists(path):
        return None
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    stale = [path for path, text in rendered().items() if contents(path) != text]
    if sys.argv[1:] == ["--check"]:
        for path in stale:
            print(f"{os.path.relpath(path)} is not what its source says: run {__file__}")
        return 1 if stale else 0
    os.makedirs(os.path.join(HERE, "dashboards"), exist_ok=True)
    for path in stale:
        with open(path, "w", encoding="utf-8") as file:
            file.write(rendered()[path])
        print(os.path.relpath(path))
    return 0


if __name__ == "__main__":
    sys.exit(main())
