"""Every family and label that an expression names is one that the daemons have.

That the expressions have data is tested by monitoring_test.py, with a cluster.
"""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.abspath("tests/monitoring"))
import expressions  # noqa: E402
import families  # noqa: E402

_MATCHER = re.compile(r'(\w+) *(?:=~|!~|!=|=) *"')
_GROUPING = re.compile(r"\b(?:by|on|ignoring|group_left)\s*\(([^)]*)\)")
_BY = re.compile(r"\bby\s*\(([^)]*)\)")
# Labels of every target, including those that Prometheus adds.
_OF_TARGETS = {"cluster", "job", "instance", "node"}
_OWN = ("up", "scrape_duration_seconds", "scrape_samples_scraped")


def listed(pattern, expression):
    return {label.strip() for labels in pattern.findall(expression) for label in labels.split(",")}


def known_labels():
    """Those of each series, by its name."""
    known = {name: set(_OF_TARGETS) for name in _OWN}
    for family in families.families():
        for name in family.series:
            known.setdefault(name, set()).update(family.labels)
    for rule in expressions.rules("rules.yaml"):
        known[rule["record"]] = listed(_BY, rule["expr"]).union(
            *(known[name] for name, _ in expressions.selectors(rule["expr"]) if ":" in name))
    known["ALERTS"] = {"alertname", "alertstate", "severity"}.union(*known.values())
    return known


def wrong_names(expression, known):
    found = []
    kept = set()
    for name, selector in expressions.selectors(expression):
        if name not in known:
            found.append(f"no family {name}")
            continue
        kept |= known[name]
        found += [f"{name} has no label {label}"
                  for label in set(_MATCHER.findall(selector)) - known[name]]
    return found + [f"no label {label}" for label in listed(_GROUPING, expression) - kept - {""}]


class NamesTest(unittest.TestCase):
    def setUp(self):
        self.maxDiff = None
        self.known = known_labels()

    def test_wrong_names_are_found(self):
        for expression, wrong in (
                ("paceline_job_step", []),
                ('sum by (job_id) (paceline_job_step_duration_seconds_bucket{le="1"})', []),
                ("paceline_job_steps", ["no family paceline_job_steps"]),
                ("paceline_job_step_duration_seconds",
                 ["no family paceline_job_step_duration_seconds"]),
                ('paceline_job_step{rank="1"}', ["paceline_job_step has no label rank"]),
                ("sum by (rank) (paceline_job_step)", ["no label rank"])):
            self.assertEqual(wrong_names(expression, self.known), wrong)

    def test_sides_of_comparisons_are_found(self):
        for expression, sides in (
                ("a > 1", ["a"]),
                ("a / b >= -1", ["a / b"]),
                ("absent(a)", [None]),
                ("count(a > 1)", [None]),
                ('a{b="(c > 1 or",d!="e"} < 1', ['a{b="(c > 1 or",d!="e"}']),
                ("a:or:b == 1\n or\n abs(a) == Inf", ["a:or:b", "abs(a)"]),
                ("(time() - max by (b) (a) > 60)\nand on (b, c)\n  ((d) + (e) == 1 unless f)",
                 ["time() - max by (b) (a)", "(d) + (e)", None])):
            found = [expressions.left_side(part) for part in expressions.operands(expression)]
            self.assertEqual(found, sides)

    def test_every_name_is_known(self):
        asked = expressions.of_dashboards() + families.questions()
        for name in ("rules.yaml", "alerts.yaml"):
            asked += [(rule.get("record") or rule["alert"], rule["expr"])
                      for rule in expressions.rules(name)]
        wrong = {}
        for where, expression in asked:
            self.assertTrue(expressions.selectors(expression), where)
            found = wrong_names(expression, self.known)
            if found:
                wrong[where] = found
        self.assertEqual(wrong, {})


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
