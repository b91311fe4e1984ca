"""A real Prometheus watches a real cluster, to which all happens that the dashboards show.

One job has stalls, a slow rank that is replaced, a rank that is killed, checkpoints and
evaluations; another has rounds and is started anew; a node is checked, one is drained, a worker
dies and comes back. The GPUs of one node are those of a fake library. Then every family, and every
expression of the dashboards, rules and alerts, has to have data.
"""

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, os.path.abspath("tests/monitoring"))
import expressions  # noqa: E402
import families  # noqa: E402
from dev_cluster import DevCluster  # noqa: E402
from prometheus_server import PrometheusServer  # noqa: E402

PACELINE = next(os.path.abspath(path) for path in sys.argv[1:] if path.endswith("/paceline"))
WORKERS = 7  # Four ranks, a spare, one for the spare after it, one that dies.
SLOW, DRAINED, CHECKED, MORTAL = "w2", "w3", "w5", "w6"

# A fake of NVIDIA's library that gives w0 two GPUs: one has errors and is throttled, the other has
# no known values. No job uses them.
FAKE_NVML = "worker/nvml/libfake_nvml.so"

# Prefixes of families that have no data here: trainers on CPUs have no allocator of GPU memory, the
# fake library, like old ones, does not report remapped rows, a development cluster has no
# certificates, an evaluation is over before the next scrape, no script reports numbers, and no data
# is in object stores.
NOT_HERE = ("paceline_gpu_row_remap_failed", "paceline_certificate_expiry_timestamp_seconds",
            "paceline_trainer_alloc_retries_total",
            "paceline_trainer_evaluated_ratio",
            "paceline_trainer_object_",
            "paceline_trainer_ooms_total",
            "paceline_trainer_reported",
            *(f"paceline_trainer_memory_{part}"
              for part in ("active", "reserved", "small_pool", "large_pool", "capacity")))

# Operands of alerts that may have no value, and why.
WITHOUT_VALUE = {
    'absent(up{job="paceline-controller"})': "is there when no controller is",
    "max by (cluster, node, gpu) (paceline_gpu_row_remap_failed) == 1": "see NOT_HERE",
    'paceline_certificate_expiry_timestamp_seconds{job="paceline-controller"} - time() < 1209600':
        "see NOT_HERE",
    'paceline_certificate_expiry_timestamp_seconds{job="paceline-worker"} - time() < 14400':
        "see NOT_HERE",
}

# Until it is cancelled.
CHAOS = """
ranks: 4
threads_per_rank: 1
model: {kind: mlp, hidden: [16]}
data: {train: FOLDER/digits-train.shard, eval: FOLDER/digits-test.shard}
batch_per_rank: 4
steps: 100000
log_every: 10
optimizer: {kind: sgd, learning_rate: 0.01, momentum: 0.9}
strategy:
  kind: hsgd
  ladder: [{period: 2, size: 2}, {period: 4, size: 4}]
recovery: {max_failures: 5, spares: 1}
stragglers: {mode: auto}
checkpoint: {directory: FOLDER/checkpoints, every_steps: 200}
evaluation: {every: 300}
allow_chaos: true
chaos:
  - {rank: -1, steps: 100000, kind: sleep, seconds: 0.03}
  - {rank: 0, steps: 100000, kind: sleep, seconds: 0.1, probability: 0.02}
  - {rank: -1, node: SLOW, step: 60, steps: 99940, kind: sleep, seconds: 0.055}
""".replace("SLOW", SLOW)

ROUNDS = """
ranks: 2
threads_per_rank: 1
model: {kind: llama, dim: 16, layers: 1, heads: 2, kv_heads: 2, ffn_dim: 32, vocab_size: 256}
data: {train: FOLDER/text.tokens, sequence_length: 16}
batch_per_rank: 2
steps: 400
log_every: 10
peak_flops: 1e12
optimizer: {kind: sgd, learning_rate: 0.01}
strategy: {kind: slipstream, mode: free}
checkpoint: {directory: FOLDER/checkpoints, every_steps: 40}
max_restarts: 2
allow_chaos: true
chaos:
  - {rank: -1, steps: 400, kind: sleep, seconds: 0.05}
  - {rank: 1, step: 100, kind: exit, generation: 1}
"""


def make_data(cluster, folder):
    """Images and text, about nothing."""
    with open(f"{folder}/digits.csv", "w", encoding="utf-8") as csv:
        for i in range(100):
            pixels = [str((7 * i + p) % 17) for p in range(64)]
            csv.write(",".join(pixels + [str(i % 10)]) + "\n")
    cluster.run("data", "import-digits", "--csv", f"{folder}/digits.csv", "--out", folder,
                "--size", "8")
    os.mkdir(f"{folder}/text")
    with open(f"{folder}/text/text.txt", "w", encoding="utf-8") as text:
        text.write("What it means, how to confirm, what to do. " * 200)
    cluster.run("data", "tokenize", "--bytes", f"{folder}/text", "--out", f"{folder}/text.tokens")


def make_trouble(cluster, prometheus, folder):
    """All that the dashboards are there to show."""
    cluster.run("node", "check", CHECKED)
    # The slow rank stays until its alert has fired: it may be replaced within one scrape.
    cluster.run("automation", "pause", "--reason", "an alert is awaited")
    cluster.submit(folder, "chaos", CHAOS.replace("FOLDER", folder))
    prometheus.wait_for('paceline_job_state{state="running"} == 1')
    # Its rank trains on, so that the drain lasts.
    cluster.run("node", "drain", DRAINED, "--reason", "a test", "--mode", "finish", "--detach")
    prometheus.wait_for(f'paceline_node_state{{node="{DRAINED}",state="draining"}} == 1')
    cluster.run("node", "resume", DRAINED)
    prometheus.wait_for(f'ALERTS{{alertname="PacelineStragglerUncured",node="{SLOW}"}}')
    cluster.run("automation", "resume")
    prometheus.wait_for('paceline_remedies_total{outcome="helped"} > 0')
    cluster.kill_rank("chaos", 1)
    prometheus.wait_for('paceline_job_recovery_duration_seconds_count{cause="failure"} > 0')

    cluster.kill_daemon(MORTAL)
    prometheus.wait_for(f'ALERTS{{alertname="PacelineWorkerDown",node="{MORTAL}"}}')
    prometheus.wait_for(f'ALERTS{{alertname="PacelineNodeUnreachable",node="{MORTAL}"}}')
    cluster.up()
    prometheus.wait_for("paceline_checkpoints_committed_total > 1")
    prometheus.wait_for("paceline_job_evaluation_accuracy_ratio")
    # An alert's subquery looks at whole minutes only: some job has to run at one.
    prometheus.wait_for('sum_over_time(paceline_job_state{state="running"}[65m:1m]) > 0')
    cluster.run("job", "cancel", "chaos")

    cluster.submit(folder, "rounds", ROUNDS.replace("FOLDER", folder))
    cluster.run("job", "wait", "rounds", "--for", "120")
    for state in ("cancelled", "succeeded"):
        prometheus.wait_for(f'paceline_jobs_finished_total{{state="{state}"}} > 0')


class MonitoringTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = cls.enterClassContext(
            tempfile.TemporaryDirectory(dir=os.environ.get("TEST_TMPDIR")))
        os.mkdir(f"{temporary}/lib")
        os.symlink(os.path.abspath(FAKE_NVML), f"{temporary}/lib/libnvidia-ml.so.1")
        cls.cluster = cls.enterClassContext(
            DevCluster(PACELINE, f"{temporary}/cluster", WORKERS, f"{temporary}/lib"))
        controller = cls.cluster.daemon("controller")["http"]
        cls.prometheus = cls.enterClassContext(
            PrometheusServer(f"{temporary}/prometheus", controller))
        make_data(cls.cluster, temporary)
        cls.start = time.time()
        make_trouble(cls.cluster, cls.prometheus, temporary)
        cls.end = time.time()
        print(f"trouble took {cls.end - cls.start:.0f} s")

    def setUp(self):
        self.maxDiff = None

    def test_discovery_finds_the_controller_and_all_workers(self):
        found = [(target["labels"]["job"], target["labels"].get("node"), target["health"])
                 for target in self.prometheus.targets()]
        self.assertEqual(sorted(found, key=str), sorted(
            [("paceline-controller", None, "up"),
             *(("paceline-worker", f"w{i}", "up") for i in range(WORKERS))], key=str))
        for target in self.prometheus.targets():
            self.assertEqual(target["labels"]["cluster"], "main")

    def missing(self, expression):
        """What is wrong with its values; empty if nothing is."""
        series = self.prometheus.query_range(expression, self.start, self.end)
        if not series:
            return "no data"
        finite = [labels for labels, values in series if any(map(math.isfinite, values))]
        if any(map(math.isinf, (value for _, values in series for value in values))):
            return "infinite"
        # A quantile without observations is NaN, for example of a method that nobody has called.
        if not finite or (len(finite) < len(series) and "histogram_quantile" not in expression):
            return "NaN"
        return ""

    def test_every_family_has_data(self):
        without = []
        for family in families.families():
            series = f'{family.series[0]}{{job="{family.job}"}}'
            if not series.startswith(NOT_HERE) and not self.prometheus.series(
                    series, self.start, self.end):
                without.append(series)
        self.assertEqual(without, [])

    def test_every_expression_of_dashboards_and_documents_has_data(self):
        wrong = []
        for where, expression in expressions.of_dashboards() + families.questions():
            names = [name for name, _ in expressions.selectors(expression)]
            if all(name.startswith(NOT_HERE) for name in names):
                continue
            problem = self.missing(expression)
            if problem:
                wrong.append(f"{problem}: {where}\n    {expression}")
        self.assertEqual(wrong, [])

    def test_every_recording_rule_has_data(self):
        for rule in expressions.rules("rules.yaml"):
            self.assertEqual(self.missing(rule["record"]), "", rule["record"])

    def test_every_series_that_an_alert_looks_at_is_there(self):
        wrong = []
        for rule in expressions.rules("alerts.yaml"):
            self.prometheus.query(rule["expr"])  # It parses, and its matches are unique.
            for name, selector in expressions.selectors(rule["expr"]):
                if not name.startswith(NOT_HERE) and not self.prometheus.series(
                        selector, self.start, self.end):
                    wrong.append(f"{rule['alert']}: {selector}")
        self.assertEqual(wrong, [])

    def test_what_every_alert_compares_has_values(self):
        wrong, without = [], set(WITHOUT_VALUE)
        for rule in expressions.rules("alerts.yaml"):
            for operand in expressions.operands(rule["expr"]):
                if operand in WITHOUT_VALUE:
                    without.discard(operand)
                    continue
                value = expressions.left_side(operand)
                problem = self.missing(value) if value else "compares nothing"
                if problem:
                    wrong.append(f"{problem}: {rule['alert']}\n    {value or operand}")
        self.assertEqual((wrong, without), ([], set()))

    def test_alerts_have_fired_and_gone(self):
        fired = {labels["alertname"] for labels, _ in self.prometheus.query_range(
            'ALERTS{alertstate="firing"}', self.start, self.end)}
        self.assertLessEqual({"PacelineWorkerDown", "PacelineNodeUnreachable",
                              "PacelineStragglerUncured", "PacelineGpuFaulty",
                              "PacelineGpuThrottled"}, fired)
        self.prometheus.wait_for(
            f'up{{job="paceline-worker",node="{MORTAL}"}} == 1 unless on (node) '
            'ALERTS{alertname=~"PacelineWorkerDown|PacelineNodeUnreachable"}')

    def test_the_slow_rank_is_dark_in_the_heat_map(self):
        relative = {labels["node"]: statistics.mean(filter(math.isfinite, values))
                    for labels, values in self.prometheus.query_range(
                        "max by (node) (job_rank:paceline_trainer_own_step:relative1m"
                        f'{{job_id="{self.cluster.job("chaos")["id"]}"}})', self.start, self.end)}
        self.assertEqual(max(relative, key=relative.get), SLOW, relative)
        self.assertGreater(relative[SLOW], 1.5)

    def test_promtool_finds_nothing_wrong_with_the_metrics(self):
        for daemon in ("controller", "w0"):
            address = self.cluster.daemon(daemon)["http"]
            with urllib.request.urlopen(f"http://{address}/metrics", timeout=30) as response:
                text = response.read()
            done = subprocess.run(["promtool", "check", "metrics"], input=text, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual((done.returncode, done.stdout.decode()), (0, ""), daemon)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
