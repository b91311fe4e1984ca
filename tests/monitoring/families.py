"""The families of both daemons, as docs/metrics.md lists them: made of the code (tests/docs)."""

import re

JOBS = {"### Of the controller": "paceline-controller", "### Of a worker": "paceline-worker"}
_ROW = re.compile(r"\| `(\w+)` \| (\w+) \| [^|]* \| ([^|]*)\|")
_PARTS = {"histogram": ("_bucket", "_sum", "_count")}


class Family:
    def __init__(self, job, name, kind, labels):
        self.job = job  # Prometheus' name for the daemons that have it.
        # Names of its series, and their labels with those of the target.
        self.series = [name + part for part in _PARTS.get(kind, ("",))]
        self.labels = {*labels, "cluster", "job", "instance"}
        if job == "paceline-worker":
            self.labels.add("node")
        if kind == "histogram":
            self.labels.add("le")


def _page():
    with open("docs/metrics.md", encoding="utf-8") as file:
        return file.read()


def families():
    job, found = None, []
    for line in _page().split("\n"):
        job = JOBS.get(line, job)
        row = _ROW.match(line)
        if job and row:
            name, kind, labels = row.groups()
            found.append(Family(job, name, kind, re.findall(r"`(\w+)`", labels)))
    return found


def questions():
    """(where, expression) pairs of the examples that the page gives."""
    part = _page().split("\n## Questions\n")[1].split("\n## ")[0]
    return [(f"docs/metrics.md: {question}", expression) for question, expression in
            re.findall(r"^\| ([^|]+) \| `(.+)` \|$", part, re.MULTILINE)]
