"""The configuration of Prometheus and Alertmanager is sound, and every alert does what it says.

promtool and amtool are those of Debian's packages. That the expressions find series of a real
cluster is tested in tests/monitoring.
"""

import os
import subprocess
import sys
import unittest

import yaml

HERE = "deploy/prometheus"
BOOKS = "docs/runbooks"
TESTS = ("control_plane", "nodes", "jobs")
SECTIONS = ("## What it means", "## How to confirm", "## What to do")


def load(path):
    with open(path, encoding="utf-8") as file:
        return yaml.safe_load(file)


def alerts():
    return {rule["alert"]: rule for group in load(f"{HERE}/alerts.yaml")["groups"]
            for rule in group["rules"]}


class AlertsTest(unittest.TestCase):
    def run_tool(self, *command):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_configuration_is_sound(self):
        self.run_tool("promtool", "check", "config", f"{HERE}/prometheus.yml")
        self.run_tool("promtool", "check", "rules", f"{HERE}/rules.yaml", f"{HERE}/alerts.yaml")
        self.run_tool("amtool", "check-config", f"{HERE}/alertmanager.yml")

    def test_each_alert_fires_when_it_should_and_only_then(self):
        self.run_tool("promtool", "test", "rules", *(f"{HERE}/tests/{name}.yaml" for name in TESTS))

    def test_each_alert_is_tested_before_during_and_after(self):
        expected = {name: [] for name in alerts()}
        for name in TESTS:
            for test in load(f"{HERE}/tests/{name}.yaml")["tests"]:
                (alert,) = {check["alertname"] for check in test["alert_rule_test"]}
                expected[alert].append([bool(check["exp_alerts"])
                                        for check in test["alert_rule_test"]])
        for alert, cases in expected.items():
            self.assertTrue(cases, f"{alert} has no test")
            for fires in cases:
                self.assertFalse(fires[0], alert)
                self.assertIn(True, fires, alert)
                self.assertFalse(fires[-1], alert)

    def test_each_alert_has_its_page(self):
        for name, alert in alerts().items():
            self.assertRegex(name, "^Paceline[A-Z]")
            path = alert["annotations"]["runbook_url"]
            self.assertEqual(path, f"{BOOKS}/{name}.md")
            with open(path, encoding="utf-8") as file:
                page = file.read()
            self.assertTrue(page.startswith(f"# {name}\n\n{alert['annotations']['summary']} "),
                            path)
            places = [page.find(f"\n{section}\n") for section in SECTIONS]
            self.assertNotIn(-1, places, path)
            self.assertEqual(places, sorted(places), path)
        with open(f"{BOOKS}/README.md", encoding="utf-8") as file:
            listing = file.read()
        for name, alert in alerts().items():
            self.assertIn(f"| [{name}]({name}.md) | {alert['labels']['severity']} |", listing)
        pages = {page for page in os.listdir(BOOKS) if page != "README.md"}
        self.assertEqual(pages, {f"{name}.md" for name in alerts()})

    def test_summaries_are_static_and_severities_known(self):
        for name, alert in alerts().items():
            self.assertIn(alert["labels"]["severity"], ("critical", "warning", "info"), name)
            self.assertNotIn("{{", alert["annotations"]["summary"], name)
            self.assertIn("{{", alert["annotations"]["description"], name)

    def test_inhibitions_name_alerts_that_there_are(self):
        for rule in load(f"{HERE}/alertmanager.yml")["inhibit_rules"]:
            for matcher in rule["source_matchers"] + rule["target_matchers"]:
                label, _, names = matcher.partition(" ")
                if label != "alertname" or ".+" in names:
                    continue
                for name in names.lstrip("!=~ ").strip('"').split("|"):
                    self.assertIn(name, alerts())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
