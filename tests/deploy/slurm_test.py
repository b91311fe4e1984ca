"""deploy/slurm under a real Slurm of one node, on a machine of its own (machine.py).

    slurm_test.py PROGRAMS SLURM_FOLDER

PROGRAMS: folder of the built programs. SLURM_FOLDER: deploy/slurm. Needs root, and the packages
slurmctld, slurmd, slurm-client and munge installed.
"""

import json
import os
import re
import shutil
import sys
import sysconfig
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from machine import Machine, enter_own_mounts  # pylint: disable=wrong-import-position

PROGRAMS, SCRIPTS = map(os.path.abspath, sys.argv[1:3])
SITE = sysconfig.get_path("purelib")
DIGITS = os.path.join(SITE, "sklearn/datasets/data/digits.csv.gz")
SLURM_CONF = """
ClusterName=test
SlurmctldHost=machine
SlurmUser=slurm
AuthType=auth/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=machine CPUs=2 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES State=UP
"""
JOB = """
name: digits
ranks: 2
model: {{kind: mlp, hidden: [64]}}
data: {{train: /srv/digits/digits-train.shard}}
batch_per_rank: 16
steps: {steps}
optimizer: {{kind: sgd, learning_rate: 0.01}}
threads_per_rank: 1
checkpoint: {{directory: /srv/checkpoints, every_steps: 1000000}}
"""
# Ranks connect to each other as under torchrun: at a port that rank 0 opens.
SCRIPT = """
import os, signal, socket, sys, time
def save(*_):
    print("saved", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    with socket.create_server(place) as server:
        peer = server.accept()[0]
else:
    while True:
        try:
            peer = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
print("all", os.environ["WORLD_SIZE"], "ranks have met", flush=True)
while "on" in sys.argv:
    time.sleep(0.01)
peer.sendall(b"x")
peer.recv(1)
sys.exit(3)
"""


class SlurmTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        machine = cls.machine = cls.enterClassContext(Machine())
        shutil.copytree(PROGRAMS, machine.path("/opt/paceline"))
        for name in os.listdir(SCRIPTS):
            if name.startswith("paceline"):
                shutil.copy(os.path.join(SCRIPTS, name), machine.path("/opt/paceline"))
        shutil.copy(DIGITS, machine.path("/srv/digits.csv.gz"))
        cls.write("/etc/slurm/slurm.conf", SLURM_CONF)
        cls.write("/etc/slurm/cgroup.conf", "CgroupPlugin=cgroup/v1\n")
        # Slurm resolves names only on a machine that has another address than 127.0.0.1.
        machine.run("ip", "address", "add", "10.111.0.1/32", "dev", "lo")
        machine.run("sh", "-c", "echo 127.0.0.1 machine >>/etc/hosts; mkdir -p /run/munge; "
                    "chown munge /run/munge; mkdir -p /var/lib/slurm/slurmd /srv/checkpoints /srv/root; "
                    "install --directory --owner=nobody --mode=700 /srv/nobody; "
                    "[ -s /etc/munge/munge.key ] || mungekey --create; "
                    "chown munge /etc/munge/munge.key")
        machine.run("systemctl", "start", "munge", "slurmctld", "slurmd")
        machine.run("/opt/paceline/paceline", "data", "import-digits", "--csv",
                    "/srv/digits.csv.gz", "--size", "8", "--out", "/srv/digits")
        machine.eventually(lambda: "idle" in cls.node_state(), "Slurm has an idle node")

    @classmethod
    def write(cls, path, text):
        os.makedirs(os.path.dirname(cls.machine.path(path)), exist_ok=True)
        with open(cls.machine.path(path), "w", encoding="utf-8") as file:
            file.write(text)

    @classmethod
    def node_state(cls):
        return cls.machine.run("sinfo", "--noheader", "--format=%T %E", check=False).stdout

    def read(self, path):
        """What is in the file; nothing if there is none yet."""
        try:
            with open(self.machine.path(path), encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def submit(self, *arguments, user="root", **environment):
        """An allocation; its number."""
        variables = [f"{name}={value}" for name, value in environment.items()]
        said = self.machine.run(
            "setpriv", f"--reuid={user}", "--clear-groups", "env", "--chdir=/srv",
            "PACELINE_BIN=/opt/paceline", f"PACELINE_STATE=/srv/{user}", *variables, "sbatch",
            "--nodes=1", f"--output=/srv/{user}/%j.log", "/opt/paceline/paceline.sbatch", *arguments)
        return re.search(r"batch job (\d+)", said).group(1)

    def end_of(self, number):
        """State and exit code of an allocation that has ended."""
        def shown():
            text = self.machine.run("scontrol", "--oneliner", "show", "job", number)
            return dict(re.findall(r"(\w+)=(\S+)", text))
        ended = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT"}
        self.machine.eventually(lambda: shown()["JobState"] in ended, f"allocation {number} ends")
        return shown()["JobState"], shown()["ExitCode"]

    def checkpoints(self):
        return [name for _, _, names in os.walk(self.machine.path("/srv/checkpoints"))
                for name in names if name == "manifest.json"]

    def test_an_allocation_runs_a_job_and_ends_with_it(self):
        self.write("/srv/short.yaml", JOB.format(steps=30))
        number = self.submit("/srv/short.yaml")
        self.assertEqual(self.end_of(number), ("COMPLETED", "0:0"), self.read(f"/srv/root/{number}.log"))

    def test_a_script_runs_in_an_allocation_and_ends_it_with_its_exit_code(self):
        self.write("/srv/own.py", SCRIPT)
        number = self.submit("run", "--all-ranks", "--ranks", "2", "own.py", user="nobody")
        log = f"/srv/nobody/{number}.log"
        self.assertEqual(self.end_of(number), ("FAILED", "3:0"), self.read(log))
        self.assertRegex(self.read(log), r"\[rank \d\] all 2 ranks have met\n")

    def test_before_the_limit_a_script_is_asked_to_end(self):
        self.write("/srv/own.py", SCRIPT)
        number = self.submit("run", "--all-ranks", "--ranks", "2", "own.py", "on", user="nobody")
        log = f"/srv/nobody/{number}.log"
        self.machine.eventually(lambda: self.read(log).count("have met") == 2, "the script runs")
        self.machine.run("scancel", "--batch", "--signal=TERM", number)
        self.assertEqual(self.end_of(number), ("FAILED", "124:0"), self.read(log))
        self.assertEqual(self.read(log).count("] saved\n"), 2, self.read(log))

    def test_a_folder_that_somebody_else_made_is_not_used(self):
        self.machine.run("install", "--directory", "--owner=nobody", "/srv/theirs/pki")
        self.machine.run("chown", "nobody", "/srv/theirs")
        self.write("/srv/short.yaml", JOB.format(steps=30))
        number = self.submit("/srv/short.yaml", PACELINE_STATE="/srv/theirs")
        self.assertEqual(self.end_of(number), ("FAILED", "1:0"))
        self.assertIn("/srv/theirs on machine is not a folder of yours", self.read(f"/srv/root/{number}.log"))
        self.assertEqual(self.machine.run("ls", "/srv/theirs").split(), ["pki"])

    def test_before_the_limit_jobs_are_saved(self):
        self.write("/srv/long.yaml", JOB.format(steps=100000000))
        before = len(self.checkpoints())
        number = self.submit("/srv/long.yaml")
        log = f"/srv/root/{number}.log"
        self.machine.eventually(lambda: "digits RUNNING step " in self.read(log), "the job trains")
        # As Slurm does --signal=B:TERM@300 before the limit.
        self.machine.run("scancel", "--batch", "--signal=TERM", number)
        self.assertEqual(self.end_of(number), ("FAILED", "124:0"), self.read(log))
        self.assertEqual(len(self.checkpoints()), before + 1, self.read(log))
        left = self.machine.run("pgrep", "--list-full", "paceline", check=False).stdout
        self.assertEqual(left, "")

    def test_workers_come_back_to_a_controller_and_its_drains_reach_slurm(self):
        self.machine.run("mkdir", "-p", "/srv/controller")
        self.machine.run("systemd-run", "--unit=controller",
                         "/opt/paceline/paceline-controller", "--plaintext",
                         "--listen=127.0.0.1:7450",
                         "--state-dir=/srv/controller", "--node-lease=1")
        self.machine.run("systemd-run", "--unit=drains", "--setenv=PATH=/opt/paceline:/usr/bin",
                         "--setenv=PACELINE_PLAINTEXT=1",
                         "/opt/paceline/paceline-slurm-drains")
        for _ in range(2):
            number = self.submit(PACELINE_CONTROLLER="127.0.0.1:7450",
                                 PACELINE_PLAINTEXT="1")
            self.machine.eventually(lambda: self.paceline_node().get("state") == "READY",
                                    "the node is ready")
            self.machine.run("scancel", "--batch", "--signal=TERM", number)
            self.assertEqual(self.end_of(number)[1], "124:0", self.read(f"/srv/root/{number}.log"))
            self.assertEqual(self.paceline_node()["holds"][0]["owner"], "slurm")
        self.assertIn("none", self.node_state())
        self.machine.run("/opt/paceline/paceline", "--plaintext", "node", "drain", "machine",
                         "--detach", "--owner", "ann", "--reason", "its fan is loud")
        self.machine.eventually(
            lambda: self.node_state() == "drained paceline: ann: its fan is loud\n",
            "Slurm drains the node")
        self.machine.run("/opt/paceline/paceline", "--plaintext", "node", "resume", "machine",
                         "--owner", "ann")
        self.machine.eventually(lambda: self.node_state() == "idle none\n", "Slurm has it back")

    def paceline_node(self):
        shown = self.machine.run("sh", "-c", "exec /opt/paceline/paceline --plaintext --output json "
                                 "node describe machine 2>/dev/null", check=False)
        return json.loads(shown.stdout) if shown.returncode == 0 else {}


if __name__ == "__main__":
    enter_own_mounts()
    unittest.main(argv=sys.argv[:1], verbosity=2)
