#!/usr/bin/env python3
"""Writes the dashboards of sources/ to dashboards/ as JSON.

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
    for path, text in rendered().items():
        if contents(path) != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            print(os.path.relpath(path))


if __name__ == "__main__":
    main()
