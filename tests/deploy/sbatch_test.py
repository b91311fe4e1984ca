"""deploy/slurm/paceline.sbatch with a script of a user's, under a Slurm of one node that is scripts.

    sbatch_test.py PATH/paceline.sbatch PROGRAMS
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

SBATCH, PROGRAMS = map(os.path.abspath, sys.argv[1:3])
LIMIT_S = 120
# The node is this machine.
SCONTROL = "#!/bin/sh\necho localhost\n"
SRUN = """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
exec "$@"
"""
SCRIPT = """
import os, signal, sys, time
print("rank", os.environ["RANK"], "of", os.environ["WORLD_SIZE"], *sys.argv[1:], flush=True)
def save(*_):
    time.sleep(0.1)
    open(f"saved{os.environ['RANK']}", "w").close()
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
open(f"ready{os.environ['RANK']}", "w").close()
while len(sys.argv) < 2:
    time.sleep(0.01)
sys.exit(int(sys.argv[1]))
"""
# Workers that run as root start no scripts, and no user of a cluster is root.
AS_USER = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.geteuid() == 0 else []


class SbatchTest(unittest.TestCase):
    def setUp(self):
        # The user `nobody` cannot enter other users' folders.
        self.folder = tempfile.mkdtemp(dir="/tmp")
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copytree(PROGRAMS, os.path.join(self.folder, "bin"))
        for name, text in [("bin/scontrol", SCONTROL), ("bin/srun", SRUN), ("own.py", SCRIPT)]:
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(os.path.join(self.folder, name), 0o755)
        shutil.copy(SBATCH, self.folder)
        os.chmod(self.folder, 0o777)

    def start(self, *arguments):
        environment = {
            "PATH": "/usr/bin:/bin", "HOME": self.folder, "TMPDIR": self.folder,
            "PACELINE_CONFIG": f"{self.folder}/none", "PACELINE_BIN": f"{self.folder}/bin",
            "PACELINE_STATE": f"{self.folder}/state", "PACELINE_SLOTS": "2", "SLURM_JOB_ID": "17",
            "SLURM_JOB_NODELIST": "localhost", "SLURMD_NODENAME": "localhost",
            "SLURM_CPUS_ON_NODE": "1"}
        process = subprocess.Popen(
            [*AS_USER, "bash", f"{self.folder}/paceline.sbatch", "run", "--all-ranks", "--ranks", "2",
             *arguments], env=environment, cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.terminate()
        process.communicate()

    def test_the_output_and_the_exit_code_are_the_scripts(self):
        process = self.start("own.py", "3")
        output, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 3, output)
        self.assertRegex(output, r"\[rank (\d)\] rank \1 of 2 3\n")
        self.assertIn(f"logs of the ranks: {self.folder}/state/17/worker/trainers on each node", output)

    def test_before_the_limit_the_script_is_asked_to_end_and_has_its_grace(self):
        process = self.start("--stop-grace", "100", "own.py")
        deadline = time.monotonic() + LIMIT_S
        while not all(os.path.exists(f"{self.folder}/ready{rank}") for rank in range(2)):
            self.assertIsNone(process.poll())
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.02)
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=LIMIT_S)
        self.assertEqual(process.returncode, 124, output)
        for rank in range(2):
            self.assertTrue(os.path.exists(f"{self.folder}/saved{rank}"), output)
        self.assertIn("Slurm takes the nodes back: stopping the script", output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
