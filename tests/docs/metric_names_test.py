"""The metrics that the documents name are there, and the labels of all metrics are explained."""

import re
import sys
import unittest

METRICS, *PAGES = sys.argv[1:]

NAME = re.compile(r"(?<![\w/.:-])(?:paceline|grpc_server|process)_[a-z_]*[a-z](?![\w.])")
ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram) \| [^|]+ \| ([^|]*) \|", re.MULTILINE)
CODE = re.compile(r"`(\w+)`")
# A key of checkpoints' manifests, an argument of torch's SyncBatchNorm.
OTHERS = {"paceline_version", "process_group"}


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def known_names():
    names = set(OTHERS)
    for name, kind, _ in ROW.findall(read(METRICS)):
        names.add(name)
        if kind == "histogram":
            names.update(name + end for end in ("_bucket", "_count", "_sum"))
    return names


class MetricNamesTest(unittest.TestCase):
    def test_named_metrics_are_there(self):
        known = known_names()
        self.assertIn("paceline_job_step", known)
        for page in PAGES:
            self.assertEqual(set(NAME.findall(read(page))) - known, set(), page)

    def test_labels_are_explained_and_used(self):
        text = read(METRICS)
        section = text[text.index("\n## Labels\n"):text.index("\n## All metrics\n")]
        explained = {label for cell in re.findall(r"^\| (`[^|]*) \|", section, re.MULTILINE)
                     for label in CODE.findall(cell)}
        used = {label for _, _, labels in ROW.findall(text) for label in CODE.findall(labels)}
        self.assertEqual(explained, used)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
