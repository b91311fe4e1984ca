"""A Prometheus server of a test: Debian's, on a free port, with our configuration."""

import json
import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

import yaml

sys.path.insert(0, os.path.abspath("tools"))
import prometheus_config  # noqa: E402

INTERVAL_S = 2  # Of scrapes, evaluations and discovery.
PATIENCE_S = 120


def eventually(condition, patience=PATIENCE_S):
    """Evaluates the condition repeatedly until it is true; returns its value."""
    end = time.monotonic() + patience
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.1)


def get(address, path, **parameters):
    """What a Prometheus answers. The test fails when it refuses."""
    query = urllib.parse.urlencode(parameters, doseq=True)
    try:
        with urllib.request.urlopen(f"http://{address}/api/v1/{path}?{query}",
                                    timeout=30) as response:
            return json.load(response)["data"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{parameters}: {json.load(error)['error']}") from error


class PrometheusServer:
    """Scrapes the cluster of a controller into a folder; `with` ends it.

    Alerts fire at once: nobody waits for their `for` here (promtool tests that).
    """

    def __init__(self, folder, controller):
        os.makedirs(f"{folder}/rules")
        for name in ("rules.yaml", "alerts.yaml"):
            with open(f"deploy/prometheus/{name}", encoding="utf-8") as file:
                text = re.sub(r"(\n +)for: \w+", r"\1for: 0s", file.read())
            with open(f"{folder}/rules/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        with open(f"{folder}/prometheus.yml", "w", encoding="utf-8") as file:
            yaml.safe_dump(prometheus_config.configuration(
                controller, INTERVAL_S, f"{folder}/rules"), file)
        self._log = f"{folder}/prometheus.log"
        with open(self._log, "w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                ["prometheus", f"--config.file={folder}/prometheus.yml",
                 f"--storage.tsdb.path={folder}/data", "--web.listen-address=127.0.0.1:0"],
                stdout=log, stderr=subprocess.STDOUT)
        self.address = eventually(self._listening)
        if not self.address or not eventually(self._ready):
            self.__exit__()
            raise AssertionError(self.log())

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._process.terminate()
        self._process.wait()

    def log(self):
        with open(self._log, encoding="utf-8") as file:
            return file.read()

    def _listening(self):
        found = re.search(r'Listening on" address=([0-9.:]+)', self.log())
        return found and found[1]

    def _ready(self):
        try:
            with urllib.request.urlopen(f"http://{self.address}/-/ready", timeout=5):
                return True
        except (urllib.error.URLError, ConnectionError):
            return False

    def query(self, expression):
        """Its series now: (labels, value) pairs."""
        return [(series["metric"], float(series["value"][1]))
                for series in get(self.address, "query", query=expression)["result"]]

    def query_range(self, expression, start, end):
        """Its series from time to time (Unix): (labels, values) pairs."""
        data = get(self.address, "query_range", query=expression, start=start, end=end,
                   step=INTERVAL_S)
        return [(series["metric"], [float(value) for _, value in series["values"]])
                for series in data["result"]]

    def series(self, selector, start, end):
        return get(self.address, "series", **{"match[]": selector, "start": start, "end": end})

    def targets(self):
        return get(self.address, "targets", state="active")["activeTargets"]

    def wait_for(self, expression, patience=PATIENCE_S):
        """Waits until the expression has a value."""
        found = eventually(lambda: self.query(expression), patience)
        assert found, f"nothing for {patience} s: {expression}"
        return found
