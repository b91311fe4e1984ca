"""The manifests of deploy/kubernetes: each fits the schema of its kind and version, as the API
server of Kubernetes would check it (wheel kubernetes-validate), what one names another has, and the
flags in them are those of our programs, with which a script runs.

    kubernetes_test.py FOLDER PROMETHEUS.YML PROGRAMS
"""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import kubernetes_validate
import yaml

FOLDER, PROMETHEUS, PROGRAMS = sys.argv[1:4]
CONTROLLER, WORKER = (f"{PROGRAMS}/paceline-{name}" for name in ("controller", "worker"))
VERSION = "1.33"  # Of the API; the manifests use no newer or deprecated field.
# Not part of Kubernetes: a kind of the Prometheus operator.
FOREIGN = {"ServiceMonitor"}


def load(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return [part for part in yaml.safe_load_all(file) if part is not None]


def kustomization():
    return load("kustomization.yaml")[0]


def all_objects():
    names = kustomization()["resources"] + ["servicemonitor.yaml"]
    return [part for name in names for part in load(name)]


def of_kind(*kinds):
    return [part for part in all_objects() if part["kind"] in kinds]


def workloads():
    return of_kind("StatefulSet", "DaemonSet")


def pod(workload):
    return workload["spec"]["template"]


def containers(workload):
    spec = pod(workload)["spec"]
    return spec.get("initContainers", []) + spec["containers"]


def ports(workload):
    return {port["name"] for c in containers(workload) for port in c.get("ports", [])}


def selected(selector, labels):
    return all(labels.get(key) == value for key, value in selector.items())


class KubernetesTest(unittest.TestCase):
    def test_every_object_fits_its_schema(self):
        for part in all_objects():
            if part["kind"] in FOREIGN:
                continue
            with self.subTest(kind=part["kind"], name=part["metadata"]["name"]):
                kubernetes_validate.validate(part, VERSION, strict=True)

    def test_a_wrong_field_would_be_noticed(self):
        for path, value in [(("spec", "replica"), 1), (("spec", "replicas"), "one")]:
            wrong = copy.deepcopy(of_kind("StatefulSet")[0])
            wrong[path[0]][path[1]] = value
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(wrong, VERSION, strict=True)

    def test_the_folder_holds_what_the_kustomization_names_and_nothing_else(self):
        files = {name for name in os.listdir(FOLDER) if name.endswith(".yaml")}
        named = set(kustomization()["resources"])
        self.assertEqual(files - named, {"kustomization.yaml", "servicemonitor.yaml"})
        self.assertLessEqual(named, files)
        images = {c["image"] for w in workloads() for c in containers(w)}
        self.assertEqual(images, {image["name"] for image in kustomization()["images"]})

    def test_selectors_find_their_pods_and_ports(self):
        for workload in workloads():
            labels = pod(workload)["metadata"]["labels"]
            self.assertTrue(selected(workload["spec"]["selector"]["matchLabels"], labels))
        for part in of_kind("Service"):
            found = [w for w in workloads()
                     if selected(part["spec"]["selector"], pod(w)["metadata"]["labels"])]
            self.assertEqual(len(found), 1, part["metadata"]["name"])
            for port in part["spec"]["ports"]:
                self.assertIn(port["targetPort"], ports(found[0]))
        for part in of_kind("PodDisruptionBudget", "NetworkPolicy"):
            selector = part["spec"].get("selector") or part["spec"]["podSelector"]
            found = [w for w in workloads()
                     if selected(selector["matchLabels"], pod(w)["metadata"]["labels"])]
            self.assertEqual(len(found), 1, part["metadata"]["name"])
            for rule in part["spec"].get("ingress", []):
                for port in rule.get("ports", []):
                    self.assertIn(port["port"], ports(found[0]))
        for monitor in of_kind("ServiceMonitor"):
            found = [s for s in of_kind("Service")
                     if selected(monitor["spec"]["selector"]["matchLabels"],
                                 s["metadata"]["labels"])]
            self.assertEqual(len(found), 1)
            job = found[0]["metadata"]["labels"][monitor["spec"]["jobLabel"]]
            self.assertEqual(job, monitor["metadata"]["name"])
            names = {port["name"] for port in found[0]["spec"]["ports"]}
            self.assertLessEqual({e["port"] for e in monitor["spec"]["endpoints"]}, names)

    def test_monitors_label_as_prometheus_is_configured_to(self):
        with open(PROMETHEUS, encoding="utf-8") as file:
            jobs = {job["job_name"] for job in yaml.safe_load(file)["scrape_configs"]}
        monitors = {m["metadata"]["name"]: m for m in of_kind("ServiceMonitor")}
        self.assertEqual(set(monitors), jobs)
        for name, others in [("paceline-controller", set()), ("paceline-worker", {"node"})]:
            for endpoint in monitors[name]["spec"]["endpoints"]:
                self.assertEqual({r["targetLabel"] for r in endpoint["relabelings"]},
                                 {"cluster"} | others)

    def test_prometheus_knows_the_controller_by_the_name_that_workers_do(self):
        (host,) = {match[1] for workload in of_kind("DaemonSet") for one in containers(workload)
                   for match in re.finditer(r"--controller=(\S+):\d", str(one.get("args")))}
        monitor = next(m for m in of_kind("ServiceMonitor")
                       if m["metadata"]["name"] == "paceline-controller")
        self.assertEqual({e["tlsConfig"]["serverName"] for e in monitor["spec"]["endpoints"]},
                         {host.replace("$(NAMESPACE)", kustomization()["namespace"])})

    def test_probes_volumes_and_accounts_exist(self):
        accounts = {part["metadata"]["name"] for part in of_kind("ServiceAccount")}
        claims = {part["metadata"]["name"] for part in of_kind("PersistentVolumeClaim")}
        for workload in workloads():
            spec = pod(workload)["spec"]
            self.assertIn(spec["serviceAccountName"], accounts)
            volumes = {v["name"] for v in spec.get("volumes", [])}
            volumes |= {v["metadata"]["name"]
                        for v in workload["spec"].get("volumeClaimTemplates", [])}
            for volume in spec.get("volumes", []):
                if "persistentVolumeClaim" in volume:
                    self.assertIn(volume["persistentVolumeClaim"]["claimName"], claims)
            for container in containers(workload):
                self.assertLessEqual({m["name"] for m in container["volumeMounts"]}, volumes)
            main = spec["containers"][0]
            probes = {name: main[name]["httpGet"] for name in main if name.endswith("Probe")}
            self.assertEqual(probes["livenessProbe"]["path"], "/healthz")
            self.assertEqual(probes["readinessProbe"]["path"], "/readyz")
            self.assertLessEqual({p["port"] for p in probes.values()}, ports(workload))

    def test_rights_are_the_least(self):
        self.assertEqual(of_kind("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding"), [])
        for part in of_kind("ServiceAccount"):
            self.assertIs(part["automountServiceAccountToken"], False)
        for workload in workloads():
            spec = pod(workload)["spec"]
            self.assertIs(spec["automountServiceAccountToken"], False)
            self.assertIs(spec["securityContext"]["runAsNonRoot"], True)
            self.assertNotIn("hostNetwork", spec)
            for container in containers(workload):
                context = container["securityContext"]
                self.assertIs(context["allowPrivilegeEscalation"], False)
                self.assertIs(context["readOnlyRootFilesystem"], True)
                self.assertEqual(context["capabilities"]["drop"], ["ALL"])

    def test_flags_are_those_of_the_programs(self):
        for workload, program in zip(workloads(), [CONTROLLER, WORKER]):
            main = pod(workload)["spec"]["containers"][0]
            text = subprocess.run([program, "--help"], check=True, capture_output=True,
                                  text=True).stdout
            known = set(re.findall(r"--[a-z-]+", text))
            given = {argument.split("=")[0] for argument in main["args"]}
            self.assertLessEqual(given, known)
            environment = {entry["name"] for entry in main.get("env", [])}
            used = set(re.findall(r"\$\((\w+)\)", " ".join(main["args"])))
            self.assertEqual(used, environment)
            # Ports that flags open are those that the pod declares.
            declared = {str(port["containerPort"]) for port in main["ports"]}
            opened = {re.search(r"(\d+)$", a).group(1) for a in main["args"]
                      if re.match(r"--(listen|http|probe-port)=", a)}
            self.assertEqual(opened, declared)

    def test_a_script_runs_with_the_flags_of_a_worker(self):
        """As the pod's user, without a privilege: such a worker takes commands."""
        folder = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, folder)
        os.chmod(folder, 0o777)
        shared = os.path.join(folder, "shared")
        os.mkdir(shared)
        programs = shutil.copytree(PROGRAMS, os.path.join(folder, "bin"))
        worker = workloads()[1]
        user = str(pod(worker)["spec"]["securityContext"]["runAsUser"])
        as_user = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs",
                   "--bounding-set=-all"] if os.geteuid() == 0 else []
        environment = {"PATH": "/usr/bin:/bin", "HOME": folder, "PACELINE_CONFIG": f"{folder}/none"}
        address = os.path.join(folder, "address")

        def start(program, *arguments):
            process = subprocess.Popen([*as_user, f"{programs}/{program}", "--plaintext", *arguments],
                                       env=environment, cwd=folder, stderr=subprocess.DEVNULL)
            self.addCleanup(process.wait)
            self.addCleanup(process.terminate)

        start("paceline-controller", "--listen=127.0.0.1:0", "--http=127.0.0.1:0", f"--state-dir={folder}/c",
              f"--address-file={address}")
        while not os.path.exists(address):
            time.sleep(0.01)
        with open(address, encoding="utf-8") as file:
            server = json.load(file)["grpc"]
        # Only addresses and names; another test covers certificates.
        ours = {"controller": server, "name": "node", "address": "127.0.0.1", "interface": "127.0.0.1",
                "listen": "127.0.0.1:0", "probe-port": "0", "state-dir": f"{folder}/state",
                "allowed-root": shared}
        flags = dict(re.match(r"--([a-z-]+)=(.*)", flag).groups()
                     for flag in pod(worker)["spec"]["containers"][0]["args"])
        for secret in ("ca", "join-token-file"):
            del flags[secret]
        start("paceline-worker", "--slots=2", *(f"--{flag}={value}" for flag, value in (flags | ours).items()))

        def paceline(*arguments, where=folder):
            return subprocess.run([*as_user, f"{programs}/paceline", "--plaintext", "--server", server, *arguments],
                                  env=environment, cwd=where, capture_output=True, text=True, check=False,
                                  timeout=120)

        def run(where):
            return paceline("run", "--all-ranks", "--ranks", "2", "bash", "-c",
                            "echo $(id -u) has rank $RANK > out$RANK && cat out$RANK", where=where)

        os.chmod(shared, 0o777)
        while " READY " not in paceline("node", "list").stdout:
            time.sleep(0.05)
        done = run(shared)
        self.assertEqual(done.returncode, 0, done.stderr)
        for rank in range(2):
            self.assertIn(f"{user if as_user else os.getuid()} has rank {rank}\n", done.stdout)
        done = run(folder)
        self.assertIn(f"jobs may name paths in {shared} on this node", done.stderr)
        self.assertNotEqual(done.returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
