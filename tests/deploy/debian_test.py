"""The Debian packages, as an administrator uses them: built, checked by lintian, installed on a
machine with systemd (machine.py), upgraded under a job that trains, removed, purged.

    debian_test.py BUILD.SH PROGRAMS

PROGRAMS is the folder of the built programs. Without root no machine is made.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import yaml

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from machine import Machine, enter_own_mounts  # pylint: disable=wrong-import-position

BUILD, PROGRAMS = map(os.path.abspath, sys.argv[1:3])
DIGITS = os.path.join(sysconfig.get_path("purelib"), "sklearn/datasets/data/digits.csv.gz")
# Limits of the exposure (0 to 10) that `systemd-analyze security` finds. Measured: 1.2 and 5.8.
MOST_EXPOSED = {"paceline-controller": 1.5, "paceline-worker": 6.0}
JOB = """
name: digits
ranks: 2
model: {kind: mlp, hidden: [64]}
data: {train: /srv/digits/digits-train.shard}
batch_per_rank: 16
steps: 1000000
optimizer: {kind: sgd, learning_rate: 0.01}
threads_per_rank: 1
log_every: 10
"""
SECOND = """controller=127.0.0.1:7450
name=second
slots=1
ca=/etc/paceline/ca.pem
join-token-file=/etc/second.token
state-dir=/var/lib/paceline/second
"""
SCRIPT = """
import os, pwd, sys
print(pwd.getpwuid(os.getuid()).pw_name + ":",
      "watched" if any(name.startswith("_paceline.") for name in sys.modules) else "not watched",
      "and reads the node's key" if os.access("/var/lib/paceline/worker/tls/key.pem", os.R_OK) else "only")
open(os.environ["PACELINE_DIR"] + "/own", "w").close()
"""
PKI = "/etc/paceline/pki"
ADMIN = ["paceline", "--tls-dir", f"{PKI}/admin"]


def output(*argv):
    return subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout


class DebianTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(dir=os.environ["TEST_TMPDIR"])
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        subprocess.run([BUILD, PROGRAMS, cls.folder, "1.0"], check=True)
        cls.packages = {name: os.path.join(cls.folder, f"{name}_1.0_amd64.deb")
                        for name in ("paceline", "paceline-controller", "paceline-worker")}

    def without_libtorch(self):
        """The worker's package with empty libraries for those of LibTorch: lintian takes a minute
        for them, and what it finds in them is not ours to mend."""
        tree = os.path.join(self.folder, "worker")
        subprocess.run(["dpkg-deb", "--raw-extract", self.packages["paceline-worker"], tree],
                       check=True)
        libraries = os.path.join(tree, "usr/lib/paceline/torch")
        for name in os.listdir(libraries):
            library = os.path.join(libraries, name)
            mode = os.stat(library).st_mode
            subprocess.run(["gcc", "-shared", f"-Wl,--no-as-needed,-soname,{name}", "-x", "c",
                            "/dev/null", "-o", library], check=True)
            os.chmod(library, mode)
        with open(os.path.join(tree, "DEBIAN/md5sums"), "r+", encoding="utf-8") as sums:
            files = [line.split(maxsplit=1)[1].strip() for line in sums]
            sums.seek(0)
            sums.truncate()
            subprocess.run(["md5sum", *files], check=True, cwd=tree, stdout=sums)
        package = os.path.join(self.folder, "lintian", os.path.basename(
            self.packages["paceline-worker"]))
        os.mkdir(os.path.dirname(package))
        subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "--build", tree, package],
                       check=True, stdout=subprocess.DEVNULL)
        return package

    def test_lintian_finds_nothing(self):
        packages = {**self.packages, "paceline-worker": self.without_libtorch()}
        found = subprocess.run(["lintian", "--allow-root", "--fail-on=error,warning",
                                "--tag-display-limit=0", *packages.values()],
                               check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True)
        self.assertEqual(found.returncode, 0, found.stdout)

    def test_dependencies_are_packages_of_debian(self):
        for name, path in self.packages.items():
            depends = output("dpkg-deb", "--field", path, "Depends")
            self.assertIn("libc6 (>=", depends, name)
            self.assertNotRegex(depends, "torch|cuda|python")

    def test_units_are_sound_and_hardened(self):
        units = os.path.join(self.folder, "units")
        for name, most in MOST_EXPOSED.items():
            subprocess.run(["dpkg-deb", "--extract", self.packages[name], units], check=True)
            unit = os.path.join(units, f"lib/systemd/system/{name}.service")
            shown = subprocess.run(["systemd-analyze", "security", "--offline=true",
                                    f"--threshold={round(most * 10)}", "--no-pager", unit],
                                   check=False, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
            self.assertEqual(shown.returncode, 0, shown.stdout)

    def test_alerts_and_dashboards_are_where_they_refer_to(self):
        tree = os.path.join(self.folder, "client")
        subprocess.run(["dpkg-deb", "--extract", self.packages["paceline"], tree], check=True)
        share = os.path.join(tree, "usr/share/paceline")
        subprocess.run(["promtool", "check", "config", f"{share}/prometheus/prometheus.yml"],
                       check=True, stdout=subprocess.DEVNULL)
        with open(f"{share}/grafana/provisioning/dashboards/paceline.yaml",
                  encoding="utf-8") as file:
            dashboards = yaml.safe_load(file)["providers"][0]["options"]["path"]
        self.assertIn("paceline-fleet.json", os.listdir(tree + dashboards))
        examples = os.path.join(tree, "usr/share/doc/paceline/examples")
        self.assertTrue(os.access(f"{examples}/slurm/paceline-slurm-drains", os.X_OK))
        self.assertIn("kustomization.yaml", os.listdir(f"{examples}/kubernetes"))

    @unittest.skipUnless(os.geteuid() == 0, "needs root")
    def test_life_of_an_installation(self):
        # The folder of the LibTorch that the trainers were linked to; the packages must contain it.
        # Resolved, because a link in the path would lead out of the machine.
        site = os.path.realpath(re.search(r"=> (/\S+/site-packages)/torch/", output(
            "ldd", os.path.join(PROGRAMS, "paceline-trainer"))).group(1))
        with Machine(hidden=[site]) as machine:
            self.install(machine)
            self.controller_serves(machine)
            self.worker_joins(machine)
            self.services_serve(machine)
            job = self.train(machine)
            self.trains_through_restarts(machine, job)
            self.trains_through_an_upgrade(machine, job)
            machine.run(*ADMIN, "job", "cancel", job, "--grace", "1")
            self.runs_scripts(machine)
            self.watchdog_starts_a_stuck_controller_again(machine)
            self.remove(machine)

    def install(self, machine):
        for path in self.packages.values():
            shutil.copy(path, machine.path("/tmp"))
        machine.run("sh", "-c", "dpkg --install /tmp/*.deb")
        self.assertNotIn("not found", machine.run("ldd", "/usr/lib/paceline/paceline-trainer"))
        for path, mode in [("/var/lib/paceline/controller", "paceline-controller 700"),
                           ("/var/lib/paceline/worker", "paceline 711"),
                           ("/etc/paceline/controller.conf", "root 644"),
                           ("/etc/paceline/ca.pem", "root 644"),
                           (f"{PKI}/ca", "paceline-controller 700"),
                           (f"{PKI}/ca/ca.key", "paceline-controller 600"),
                           (f"{PKI}/controller/key.pem", "paceline-controller 600"),
                           (f"{PKI}/admin", "root 700"),
                           (f"{PKI}/admin/key.pem", "root 600")]:
            self.assertEqual(machine.run("stat", "--format=%U %a", path).strip(), mode)
        for path in ["/usr/share/bash-completion/completions/paceline",
                     "/usr/share/zsh/vendor-completions/_paceline",
                     "/usr/share/man/man1/paceline.1.gz",
                     "/usr/share/man/man8/paceline-worker.8.gz"]:
            self.assertTrue(os.path.getsize(machine.path(path)), path)

    def controller_serves(self, machine):
        """Over TLS, to root and to nobody without a certificate; its authority stays the same."""
        self.assertIn("paceline://admin/root", machine.run(*ADMIN, "whoami"))
        plain = machine.run("paceline", "--plaintext", "whoami", check=False)
        self.assertIn("speaks TLS, and was asked for plain text", plain.stdout)
        shown = machine.run("paceline", "pki", "show", f"{PKI}/controller")
        self.assertRegex(shown, r"Hosts: +machine, .*localhost, 127\.0\.0\.1")
        authority = machine.run("sha256sum", f"{PKI}/ca/ca.pem")
        machine.run("systemctl", "restart", "paceline-controller")
        self.assertEqual(machine.run("sha256sum", f"{PKI}/ca/ca.pem"), authority)

    def worker_joins(self, machine):
        """It asks for a token, and comes by itself when there is one."""
        def said():
            return machine.run("journalctl", "--no-pager", "--unit=paceline-worker")
        machine.eventually(lambda: "`paceline pki token machine`" in said(), "the worker asks")
        with open(machine.path("/etc/paceline/worker.conf"), "a", encoding="utf-8") as file:
            file.write("slots=1\nname=first\n")
        self.token(machine, "first", "/etc/paceline/join-token")
        machine.eventually(lambda: machine.run("systemctl", "is-active", "paceline-worker",
                                               check=False).stdout.strip() == "active",
                           "the worker serves")

    def token(self, machine, node, path):
        machine.run(*ADMIN, "pki", "token", node, "--out", path + ".new")
        machine.run("chown", "root:paceline", path + ".new")
        machine.run("chmod", "640", path + ".new")
        machine.run("mv", path + ".new", path)

    def services_serve(self, machine):
        for name in MOST_EXPOSED:
            self.assertEqual(machine.run("systemctl", "is-active", name).strip(), "active")
            self.assertEqual(machine.run("systemctl", "is-enabled", name).strip(), "enabled")
        users = machine.run("ps", "-o", "user:32=,comm=", "-C", "paceline-contro,paceline-worker")
        self.assertEqual({tuple(line.split()) for line in users.splitlines()},
                         {("paceline-controller", "paceline-contro"),
                          ("paceline", "paceline-worker")})

    def train(self, machine):
        """A job with one rank on each of two workers, by a user without rights; its id."""
        self.token(machine, "second", "/etc/second.token")
        with open(machine.path("/etc/second.conf"), "w", encoding="utf-8") as file:
            file.write(SECOND)
        machine.run("systemd-run", "--unit=second", "--uid=paceline", "--gid=paceline",
                    "--property=KillMode=process", "--property=StateDirectory=paceline/second",
                    "/usr/bin/paceline-worker", "--config=/etc/second.conf")
        shutil.copy(DIGITS, machine.path("/srv/digits.csv.gz"))
        machine.run("paceline", "data", "import-digits", "--csv", "/srv/digits.csv.gz",
                    "--size", "8", "--out", "/srv/digits")
        with open(machine.path("/srv/job.yaml"), "w", encoding="utf-8") as file:
            file.write(JOB)
        machine.run("paceline", "pki", "issue", "submitter", "ann", "--ca-dir", f"{PKI}/ca",
                    "--out", "/srv/ann")
        machine.run("chown", "-R", "nobody:nogroup", "/srv/ann")
        job = machine.run("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
                          "env", "HOME=/nonexistent", "paceline", "--tls-dir", "/srv/ann", "submit",
                          "/srv/job.yaml", "--parsable").strip()
        machine.eventually(lambda: self.step(machine, job) > 20, "the job trains")
        self.assertEqual(len({rank["node"] for rank in self.job(machine, job)["ranks"]}), 2)
        # The first worker has the flags of the package, the second only those of SECOND.
        users = machine.run("ps", "-o", "user:32=", "-C", "paceline-traine")
        self.assertEqual(set(users.split()), {"paceline-job", "paceline"})
        return job

    def job(self, machine, job):
        return json.loads(machine.run(*ADMIN, "--output", "json", "job", "describe", job))

    def step(self, machine, job):
        described = self.job(machine, job)
        self.assertNotIn(described["state"], ("FAILED", "CANCELLED"), described)
        return int(described.get("progress", {}).get("step", 0))

    def trains_on(self, machine, job, trainers):
        """The same processes make more steps."""
        before = self.step(machine, job)
        machine.eventually(lambda: self.step(machine, job) > before + 20, "the job trains on")
        self.assertEqual(self.trainers(machine), trainers)

    def trainers(self, machine):
        return set(machine.run("pgrep", "--full", "^/usr/lib/paceline/paceline-trainer").split())

    def trains_through_restarts(self, machine, job):
        trainers = self.trainers(machine)
        self.assertEqual(len(trainers), 2)
        machine.run("systemctl", "restart", "paceline-worker")
        machine.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", "paceline-worker")
        machine.run("systemctl", "restart", "paceline-controller")
        self.trains_on(machine, job, trainers)

    def trains_through_an_upgrade(self, machine, job):
        """New packages with another version and another default of a file that was changed."""
        trainers = self.trainers(machine)
        for name in MOST_EXPOSED:
            tree = os.path.join(self.folder, "newer", name)
            os.makedirs(os.path.dirname(tree), exist_ok=True)
            subprocess.run(["dpkg-deb", "--raw-extract", self.packages[name], tree], check=True)
            for path, old, new in [("DEBIAN/control", "Version: 1.0\n", "Version: 1.1\n"),
                                   (f"etc/paceline/{name[9:]}.conf", "# Flags", "# The flags")]:
                with open(os.path.join(tree, path), encoding="utf-8") as file:
                    text = file.read()
                self.assertIn(old, text)
                with open(os.path.join(tree, path), "w", encoding="utf-8") as file:
                    file.write(text.replace(old, new))
            subprocess.run(["dpkg-deb", "-Zzstd", "-z1", "--build", "--root-owner-group", tree,
                            machine.path(f"/tmp/{name}-newer.deb")], check=True,
                           stdout=subprocess.DEVNULL)
            shutil.rmtree(tree)
        machine.run("sh", "-c", "dpkg --force-confdef --force-confold --install /tmp/*-newer.deb")
        self.trains_on(machine, job, trainers)
        with open(machine.path("/etc/paceline/worker.conf"), encoding="utf-8") as file:
            self.assertIn("slots=1\nname=first\n", file.read(), "a changed file is kept")
        with open(machine.path("/etc/paceline/controller.conf"), encoding="utf-8") as file:
            self.assertTrue(file.read().startswith("# The flags"), "an unchanged one is renewed")

    def runs_scripts(self, machine):
        """A rank on each worker, as its trainers' user. That of the package sees nothing of the node's."""
        with open(machine.path("/srv/own.py"), "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        said = machine.run("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups",
                           "env", "--chdir=/srv", "HOME=/nonexistent", "paceline", "--tls-dir",
                           "/srv/ann", "--server", "127.0.0.1:7450", "run", "--all-ranks", "--ranks", "2",
                           "own.py")
        self.assertRegex(said, r"\[rank \d\] paceline-job: watched only\n")
        # The second worker runs its trainers as its own user, so they can read its node's key.
        self.assertRegex(said, r"\[rank \d\] paceline: watched and reads the node's key\n")

    def watchdog_starts_a_stuck_controller_again(self, machine):
        folder = machine.path("/run/systemd/system/paceline-controller.service.d")
        os.makedirs(folder)
        with open(os.path.join(folder, "test.conf"), "w", encoding="utf-8") as file:
            file.write("[Service]\nWatchdogSec=1\n")
        machine.run("systemctl", "daemon-reload")
        machine.run("systemctl", "restart", "paceline-controller")

        def restarts():
            return machine.run("systemctl", "show", "--property=NRestarts", "--value",
                               "paceline-controller").strip()
        self.assertEqual(restarts(), "0")
        machine.run("systemctl", "kill", "--kill-whom=main", "--signal=STOP",
                    "paceline-controller")
        machine.eventually(lambda: restarts() != "0", "the watchdog acts")
        machine.eventually(lambda: machine.run("systemctl", "is-active", "paceline-controller",
                                               check=False).stdout.strip() == "active",
                           "the controller is back")

    def remove(self, machine):
        machine.run("systemctl", "stop", "second")
        machine.run("dpkg", "--remove", *self.packages)
        self.assertEqual(machine.run("pgrep", "--full", "/usr/bin/paceline", check=False).stdout,
                         "")
        for path in ["/usr/bin/paceline-worker", "/usr/lib/paceline"]:
            self.assertFalse(os.path.lexists(machine.path(path)), path)
        for path in ["/etc/paceline/worker.conf", "/var/lib/paceline/controller/state.db"]:
            self.assertTrue(os.path.exists(machine.path(path)), f"{path} stays without purge")
        # A folder that a person has made is kept.
        machine.run("rm", "-rf", "/var/lib/paceline/second")
        machine.run("dpkg", "--purge", *self.packages)
        left = machine.run("find", "/etc", "/usr", "/var/lib", "-xdev", "-name", "*paceline*",
                           "-not", "-path", "*/apt/lists/*")
        self.assertEqual(left, "")


if __name__ == "__main__":
    enter_own_mounts()
    unittest.main(argv=sys.argv[:1], verbosity=2)
