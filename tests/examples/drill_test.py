"""`paceline drill` with real programs: a sound script passes, and three mistakes are found.

Usage: drill_test.py PROGRAMS

PROGRAMS is the folder of the built programs.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROGRAMS = pathlib.Path(sys.argv[-1]).absolute()
VENV = pathlib.Path(sys.prefix)
LIMIT_S = 1500

# A session on a few numbers. The mistakes below replace one of its lines.
SOUND = """
import time

import paceline
import torch
from torch.utils.data import DataLoader, TensorDataset

run = paceline.init()
torch.manual_seed(1)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, run.total_steps)
run.attach(model, optimizer, scheduler)
inputs = torch.randn(400, 4, generator=torch.Generator().manual_seed(2))
dataset = TensorDataset(inputs, inputs.sum(1, keepdim=True))
done = 0
to_compile = [6]  # Seconds, in the first step of a process, where it is used.


class InOrder:
    def __iter__(self):
        return iter(range(run.rank, len(dataset), run.world_size))


loader = run.loader(dataset)
for step in run.steps():
    with step:
        for x, y in step.batches(loader):
            loss = torch.nn.functional.mse_loss(model(x), y)
            step.backward(loss)
        step.update()
        scheduler.step()
        done += 1
"""


def script(line="", instead=""):
    """The sound script, or with another line."""
    assert line in SOUND, line
    return SOUND.replace(line, instead) if line else SOUND


class DrillTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.bin = self.folder / "bin"
        shutil.copytree(PROGRAMS, self.bin, ignore=shutil.ignore_patterns("*-cuda"))
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.environment = {
            "PATH": f"{self.bin}:{VENV}/bin:{os.environ['PATH']}", "HOME": folder.name, "USER": "ann",
            "PACELINE_DEV_DIR": f"{folder.name}/dev", "PACELINE_CONFIG": f"{folder.name}/none",
            "TMPDIR": str(self.temporary), "VIRTUAL_ENV": str(VENV), "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1", "NO_COLOR": "1"}

    def write(self, text, **keys):
        (self.folder / "train.py").write_text(text)
        (self.folder / "job.json").write_text(json.dumps({
            "name": "net", "ranks": 2, "threads_per_rank": 1, "command": ["python3", "train.py"],
            "session": True, "venv": str(VENV), "steps": 5000, "batch_per_rank": 8,
            "recovery": {"max_failures": 10}, **keys}))

    def drill(self, text, *arguments, before=(), **keys):
        """The exit code, the card, and what was written to the error stream."""
        self.write(text, **keys)
        done = subprocess.run(
            [*before, self.bin / "paceline", "drill", "job.json", "-o", "json", "--html", "card.html",
             *arguments],
            env=self.environment, cwd=self.folder, capture_output=True, text=True, check=False,
            timeout=LIMIT_S)
        self.assertEqual(list(self.temporary.glob("*drill*")), [], "it left something behind")
        self.assertTrue(done.stdout, done.stderr)
        result = "Passed" if done.returncode == 0 else "To mend: "
        self.assertIn(f">{result}", (self.folder / "card.html").read_text())
        return done.returncode, json.loads(done.stdout), done.stderr

    def check(self, card, name):
        return next(check for check in card["checks"] if check["check"] == name)

    def expect_passed(self, card, *names):
        for name in names:
            self.assertEqual(self.check(card, name)["verdict"], "passed", card)

    def test_a_sound_script_passes_all_of_it(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mount = f"mount -t tmpfs -o size=2m tmpfs {disk} && exec \"$@\""
        code, card, told = self.drill(
            script(), "--full-disk", str(disk),
            before=["/usr/bin/unshare", "--mount", "/bin/sh", "-c", mount, "sh"])
        self.assertEqual((code, card["passed"]), (0, True), f"{card}\n{told}")
        self.expect_passed(card, "reference", "repeat", "kill", "stop", "slow", "drain", "full-disk",
                           "controller")
        for check in card["checks"][1:]:
            if check["check"] != "full-disk":  # Its ledger finds no room either.
                self.assertIn("the same losses; the same samples", check["found"])
        self.assertFalse(any(line["too_short"] for line in card["timeouts"]), card)

    def test_state_outside_of_attach_is_found(self):
        code, card, told = self.drill(
            script("step.backward(loss)", "step.backward(loss * (1 + done / 10))"), "--only", "kill")
        self.assertEqual((code, card["passed"]), (1, False), f"{card}\n{told}")
        self.expect_passed(card, "reference", "repeat")
        kill = self.check(card, "kill")
        self.assertEqual((kill["verdict"], kill["first_difference"]), ("failed", 8), card)
        self.assertIn("run.attach", kill["mend"])

    def test_a_sampler_that_ignores_the_position_is_found(self):
        code, card, told = self.drill(
            script("loader = run.loader(dataset)",
                   "loader = DataLoader(dataset, batch_size=8, sampler=InOrder())"), "--only", "kill")
        self.assertEqual((code, card["passed"]), (1, False), f"{card}\n{told}")
        self.expect_passed(card, "reference", "repeat")
        kill = self.check(card, "kill")
        self.assertEqual((kill["verdict"], kill["first_difference"]), ("failed", 8), card)
        self.assertIn("the batches do not come from run.loader", kill["mend"])

    def test_a_timeout_that_is_too_short_is_found(self):
        code, card, told = self.drill(
            script("            step.backward(loss)",
                   "            time.sleep(to_compile.pop() if to_compile else 0)\n"
                   "            step.backward(loss)"),
            "--only", "kill", collective_timeout_s=4)
        self.assertEqual((code, card["passed"]), (1, False), f"{card}\n{told}")
        self.expect_passed(card, "reference", "repeat")
        short = [line["key"] for line in card["timeouts"] if line["too_short"]]
        self.assertIn("collective_timeout_s", self.check(card, "kill")["mend"] + str(short), card)

    def processes(self):
        """Those whose program or folder is one of the test's."""
        found = []
        for one in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if any(os.readlink(one / link).startswith(f"{self.folder}/")
                       or os.readlink(one / link) == str(self.folder) for link in ("exe", "cwd")):
                    found.append((one / "cmdline").read_text().replace("\0", " "))
            except OSError:
                pass  # It has ended, or is somebody else's.
        return found

    def test_an_interrupt_ends_all_of_it(self):
        begun = self.folder / "begun"
        self.write(script("        done += 1", f"        open('{begun}', 'w').close()\n"
                          "        time.sleep(0.5)"))
        # As a terminal does, the whole group is told.
        with subprocess.Popen(
                [self.bin / "paceline", "drill", "job.json"], env=self.environment, cwd=self.folder,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                start_new_session=True) as drill:
            until = time.monotonic() + LIMIT_S
            while not begun.exists():
                self.assertIsNone(drill.poll(), "it ended before its job trained")
                self.assertLess(time.monotonic(), until)
                time.sleep(0.05)
            self.assertGreater(len(self.processes()), 4)  # Controller, workers, ranks, and itself.
            os.killpg(drill.pid, signal.SIGINT)
            card, told = drill.communicate(timeout=LIMIT_S)
        self.assertEqual((drill.returncode, card), (130, ""), told)
        self.assertEqual(list(self.temporary.glob("*drill*")), [], "it left something behind")
        until = time.monotonic() + 60  # Those that were killed may be seen for a moment.
        while self.processes() and time.monotonic() < until:
            time.sleep(0.05)
        self.assertEqual(self.processes(), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
