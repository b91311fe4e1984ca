"""The dashboards are what their sources say, and what Grafana can load.

These are the rules of Grafana's dashboard-linter, which has no releases to be pinned, as far as
they fit, and more. What the expressions give is tested with a real Prometheus (tests/monitoring).
"""

import glob
import json
import os
import re
import sys
import unittest

import yaml

sys.path.insert(0, os.path.abspath("deploy/grafana"))
import generate  # noqa: E402
import panels  # noqa: E402

# Panel types of Grafana itself that are used here.
KINDS = {"row", "text", "timeseries", "stat", "table", "heatmap", "state-timeline"}
# Grafana's value formats that are used here.
UNITS = {"short", "none", "s", "percentunit", "bytes", "Bps", "ops", "flops", "celsius", "watt",
         "hertz"}
LEGEND_LABEL = re.compile(r"\{\{\s*(\w+)\s*\}\}")
VARIABLE = re.compile(r"\$\{?(\w+)")
# Grafana's own, which need no definition.
GIVEN = {"__all", "__data", "__field", "__range", "__rate_interval", "__url_time_range"}


def dashboards():
    found = []
    for path in sorted(glob.glob("deploy/grafana/dashboards/*.json")):
        with open(path, encoding="utf-8") as file:
            found.append(json.load(file))
    return found


def data_panels():
    """Those with expressions, and where each is, for messages."""
    return [(panel, f"{dashboard['title']}: {panel['title']}") for dashboard in dashboards()
            for panel in dashboard["panels"] if panel["type"] not in ("row", "text")]


class DashboardsTest(unittest.TestCase):
    def setUp(self):
        self.maxDiff = None

    def test_files_are_what_the_sources_say(self):
        for path, text in generate.rendered().items():
            self.assertEqual(generate.contents(path), text, f"run {generate.__file__}")
        self.assertEqual(len(dashboards()), len(generate.SOURCES))

    def test_ids_are_unique(self):
        uids = [dashboard["uid"] for dashboard in dashboards()]
        self.assertEqual(len(set(uids)), 6)
        for dashboard in dashboards():
            ids = [panel["id"] for panel in dashboard["panels"]]
            self.assertEqual(len(set(ids)), len(ids))

    def test_frame(self):
        for dashboard in dashboards():
            self.assertEqual(dashboard["schemaVersion"], panels.SCHEMA_VERSION)
            self.assertIs(dashboard["editable"], False)
            self.assertEqual(dashboard["tags"], ["paceline"])
            self.assertTrue(dashboard["links"][0]["includeVars"])
            (advice,) = [panel for panel in dashboard["panels"] if panel["type"] == "text"]
            self.assertEqual(advice["title"], "What to do")
            self.assertEqual([v["name"] for v in dashboard["templating"]["list"]][:2],
                             ["datasource", "cluster"])

    def test_panels_say_what_they_show(self):
        for panel, where in data_panels():
            self.assertIn(panel["type"], KINDS, where)
            self.assertTrue(panel["title"], where)
            self.assertTrue(panel["description"].endswith("."), where)
            self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS, where)
            self.assertEqual(panel["datasource"]["uid"], "${datasource}", where)
            self.assertTrue(panel["targets"], where)
            refs = [target["refId"] for target in panel["targets"]]
            self.assertEqual(len(set(refs)), len(refs), where)
            for target in panel["targets"]:
                self.assertEqual(target["datasource"], panel["datasource"], where)

    def test_thresholds_rise_from_none(self):
        for panel, where in data_panels():
            values = [step["value"] for step in
                      panel["fieldConfig"]["defaults"]["thresholds"]["steps"]]
            self.assertIsNone(values[0], where)
            self.assertEqual(values[1:], sorted(values[1:]), where)

    def test_panels_lie_in_the_grid_and_not_on_each_other(self):
        for dashboard in dashboards():
            taken = set()
            for panel in dashboard["panels"]:
                place = panel["gridPos"]
                self.assertLessEqual(place["x"] + place["w"], panels.COLUMNS)
                cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                         for y in range(place["y"], place["y"] + place["h"])}
                self.assertFalse(cells & taken, panel["title"])
                taken |= cells

    def test_variables_are_defined(self):
        for dashboard in dashboards():
            defined = {variable["name"] for variable in dashboard["templating"]["list"]}
            used = set(VARIABLE.findall(json.dumps(dashboard)))
            self.assertLessEqual(used - GIVEN, defined)

    def test_links_lead_to_dashboards_with_that_variable(self):
        variables = {dashboard["uid"]: {v["name"] for v in dashboard["templating"]["list"]}
                     for dashboard in dashboards()}
        links = re.findall(r"/d/([\w-]+)\?var-(\w+)=", json.dumps(dashboards()))
        self.assertTrue(links)
        for uid, name in links:
            self.assertIn(name, variables[uid])

    def test_the_choice_of_clusters_is_added_to_each_series(self):
        self.assertEqual(panels.of_cluster("up + sum(paceline_a:b{x='y'})"),
                         """up{cluster=~"$cluster"} + """
                         """sum(paceline_a:b{cluster=~"$cluster",x='y'})""")

    def test_every_series_is_of_the_chosen_clusters(self):
        for panel, where in data_panels():
            for target in panel["targets"]:
                selectors = re.findall(r"\{([^{}]*)\}", target["expr"])
                self.assertTrue(selectors, where)
                for selector in selectors:
                    self.assertTrue(selector.startswith('cluster=~"$cluster"'), where)
                self.assertNotRegex(target["expr"], r"paceline_\w+[\[) ]", where)

    def test_counters_are_only_looked_at_as_rates(self):
        for panel, where in data_panels():
            for target in panel["targets"]:
                for family in re.finditer(r"\b\w+_(?:total|sum|count|bucket)\{", target["expr"]):
                    before = target["expr"][:family.start()]
                    after = target["expr"][family.start():]
                    self.assertRegex(before, r"(rate|increase)\($", where)
                    self.assertRegex(after, r"^\w+\{[^}]*\}\[\$__(rate_interval|range)\]", where)

    def test_counts_of_events_are_whole_numbers(self):
        counts = 0
        for panel, where in data_panels():
            for target in panel["targets"]:
                for count in re.finditer(r"increase\(", target["expr"]):
                    self.assertTrue(target["expr"][:count.start()].endswith("round("), where)
                    counts += 1
        self.assertGreater(counts, 20)

    def test_variables_follow_the_time_that_is_shown(self):
        for dashboard in dashboards():
            for variable in dashboard["templating"]["list"]:
                if variable["type"] == "query":
                    self.assertEqual(variable["refresh"], 2, variable["name"])

    def test_legends_name_labels_that_the_expression_keeps(self):
        for panel, where in data_panels():
            for target in panel["targets"]:
                kept = re.findall(r"\bby \(([^)]*)\)", target["expr"])
                if not kept or panel["type"] == "table":
                    continue
                known = {label.strip() for group in kept for label in group.split(",")}
                self.assertLessEqual(
                    set(LEGEND_LABEL.findall(target["legendFormat"])), known, where)

    def test_provisioning_is_well_formed(self):
        for path in glob.glob("deploy/grafana/provisioning/*/*.yaml"):
            with open(path, encoding="utf-8") as file:
                self.assertEqual(yaml.safe_load(file)["apiVersion"], 1, path)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
