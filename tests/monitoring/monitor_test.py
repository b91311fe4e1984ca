"""tools/monitor.sh: what `make monitor` starts, tells and ends.

Grafana is a stand-in, as Debian does not have it: what it is given is looked at.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.abspath("tests/monitoring"))
from dev_cluster import DevCluster  # noqa: E402
from prometheus_server import eventually, get  # noqa: E402

PACELINE = next(os.path.abspath(path) for path in sys.argv[1:] if path.endswith("/paceline"))

GRAFANA = """#!/bin/sh
cat "$GF_PATHS_PROVISIONING"/*/*.yaml > "$GIVEN"
echo "logger=http.server msg=\\"HTTP Server Listen\\" address=127.0.0.1:$GF_SERVER_HTTP_PORT"
exec sleep 1000
"""


def default_interrupt():
    """A test runs in the background, where Ctrl-C may be ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class MonitorTest(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(
            tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")))
        self.environment = {
            **os.environ, "PACELINE": PACELINE, "PYTHON": sys.executable, "PROMETHEUS_PORT": "0",
            "GRAFANA_PORT": "3999", "PACELINE_DEV_DIR": f"{self.folder}/cluster",
            "TMPDIR": self.folder, "GIVEN": f"{self.folder}/given"}

    def add_program(self, name, text):
        os.makedirs(f"{self.folder}/bin", exist_ok=True)
        with open(f"{self.folder}/bin/{name}", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(f"{self.folder}/bin/{name}", 0o755)
        self.environment["PATH"] = f"{self.folder}/bin:{os.environ['PATH']}"

    def start(self):
        monitor = self.enterContext(subprocess.Popen(
            ["bash", "tools/monitor.sh"], env=self.environment, text=True, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, preexec_fn=default_interrupt))
        self.addCleanup(monitor.terminate)
        return monitor

    def read_addresses(self, monitor):
        """Its output once everything is up."""
        told = ""
        while "Ctrl-C" not in told:
            line = monitor.stdout.readline()
            self.assertTrue(line, told if line else told + monitor.stderr.read())
            told += line
        return told

    def take_port(self):
        listener = self.enterContext(socket.create_server(("127.0.0.1", 0)))
        return str(listener.getsockname()[1])

    def expect_nothing_left(self):
        self.assertEqual([name for name in os.listdir(self.folder) if "monitor" in name], [])

    def expect_refusal(self, *words):
        monitor = self.start()
        out, err = monitor.communicate(timeout=60)
        self.assertEqual((monitor.returncode, out), (1, ""), err)
        for word in words:
            self.assertIn(word, err)
        self.expect_nothing_left()

    def test_without_prometheus_it_says_how_to_get_it(self):
        # All that the script needs before it looks for Prometheus.
        for tool in ("bash", "dirname", "mktemp", "rm"):
            self.add_program(tool, f'#!/bin/sh\nexec /usr/bin/{tool} "$@"\n')
        self.environment["PATH"] = f"{self.folder}/bin"
        self.expect_refusal("there is no Prometheus", "apt-get install prometheus")

    def test_without_a_cluster_it_says_how_to_start_one(self):
        self.expect_refusal("no development cluster is up", "dev up")

    def test_shows_the_cluster_until_it_is_interrupted(self):
        self.add_program("grafana-server", GRAFANA)
        cluster = self.enterContext(DevCluster(PACELINE, f"{self.folder}/cluster", 1))
        monitor = self.start()
        told = self.read_addresses(monitor)
        self.assertIn(f"the controller at {cluster.daemon('controller')['http']}", told)
        self.assertIn("http://127.0.0.1:3999/d/paceline-fleet", told)
        prometheus = re.search(r"http://(127\.0\.0\.1:\d+)/graph", told)[1]

        def targets_that_are_up():
            found = get(prometheus, "targets", state="active")["activeTargets"]
            return {target["labels"]["job"] for target in found if target["health"] == "up"}

        self.assertTrue(eventually(
            lambda: targets_that_are_up() == {"paceline-controller", "paceline-worker"}))
        self.assertTrue(get(prometheus, "rules", type="alert")["groups"])
        with open(f"{self.folder}/given", encoding="utf-8") as file:
            given = file.read()
        self.assertIn(f"url: http://{prometheus}\n", given)
        self.assertTrue(os.path.samefile(re.search(r"path: (.+)", given)[1],
                                         "deploy/grafana/dashboards"))

        monitor.send_signal(signal.SIGINT)
        self.assertEqual(monitor.wait(timeout=60), 0)
        with self.assertRaises(OSError):
            get(prometheus, "targets")
        self.expect_nothing_left()

    def test_takes_free_ports_where_these_are_taken(self):
        self.add_program("grafana-server", GRAFANA)
        self.enterContext(DevCluster(PACELINE, f"{self.folder}/cluster", 1))
        taken = {name: self.take_port() for name in ("PROMETHEUS_PORT", "GRAFANA_PORT")}
        self.environment.update(taken)
        monitor = self.start()
        told = self.read_addresses(monitor)
        prometheus = re.search(r"http://127\.0\.0\.1:(\d+)/graph", told)[1]
        grafana = re.search(r"http://127\.0\.0\.1:(\d+)/d/paceline-fleet", told)[1]
        self.assertEqual(len({prometheus, grafana, *taken.values()}), 4)
        socket.create_connection(("127.0.0.1", int(prometheus))).close()
        monitor.send_signal(signal.SIGINT)
        self.assertEqual(monitor.wait(timeout=60), 0)
        said = monitor.stderr.read()
        for name, port in taken.items():
            self.assertRegex(said, rf"port {port} is taken: .*; {name}=PORT chooses another")
        self.expect_nothing_left()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
