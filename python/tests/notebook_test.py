"""A session without a daemon in the kernel of a notebook: cells are interrupted and run again, and
the kernel stays what it was."""

import os
import shutil
import sys
import tempfile
import unittest

FOLDER = tempfile.mkdtemp(dir="/tmp")  # Sockets lie here, whose paths are short.
# jupyter_client reads these too, when it is imported.
os.environ.update({name: FOLDER for name in (
    "HOME", "IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR")})

from jupyter_client.manager import KernelManager  # noqa: E402

WAIT_S = 300  # For what surely comes.

FIRST_CELL = """
import os, signal, sys, time
import torch
import paceline

def what_is_the_kernels():
    return ({number: signal.getsignal(number) for number in signal.valid_signals()},
            sys.stdout, sys.stderr, sys.excepthook, os.readlink("/proc/self/fd/1"), os.getpid())

at_first = what_is_the_kernels()
waits = None  # Where a cell waits to be interrupted, and in which step.

def pause(where):
    if (where, step.number) == waits:
        print("waits")
        time.sleep(600)
"""

MODEL_CELL = """
run = paceline.init(steps=4, batch_per_rank=2)
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run.attach(model, optimizer)
loader = run.loader(torch.arange(32.0).view(8, 4))

@run.evaluation
def evaluate(rank, world_size):
    return paceline.Score(loss=0.25)
"""

LOOP_CELL = """
for step in run.steps():
    pause("before")
    with step:
        for x in step.batches(loader):
            step.backward(model(x).square().mean())
        pause("inside")
        step.update()
    print("step", step.number, x[:, 0].tolist())
    pause("behind")
print("sum", sum(p.sum().item() for p in model.parameters()))
"""


def setUpModule():
    unittest.addModuleCleanup(shutil.rmtree, FOLDER, ignore_errors=True)


class NotebookTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.manager = KernelManager(kernel_name="python3", transport="ipc",
                                    connection_file=os.path.join(FOLDER, "kernel.json"))
        cls.manager.start_kernel(env={**os.environ, "PYTHONPATH": os.path.abspath("python"),
                                      "OMP_NUM_THREADS": "1"})
        cls.addClassCleanup(cls.manager.shutdown_kernel, now=True)
        cls.client = cls.manager.client()
        cls.client.start_channels()
        cls.addClassCleanup(cls.client.stop_channels)
        cls.client.wait_for_ready(timeout=WAIT_S)
        ended, told = cls.run_cell(FIRST_CELL)
        assert ended["status"] == "ok", (ended, told)

    @classmethod
    def run_cell(cls, code, interrupted=False):
        """The cell's reply, and its standard output. `interrupted`: once it waits."""
        cell = cls.client.execute(code, allow_stdin=False, stop_on_error=False)
        told = ""
        while True:
            message = cls.client.get_iopub_msg(timeout=WAIT_S)
            if message["parent_header"].get("msg_id") != cell:
                continue
            content = message["content"]
            if message["msg_type"] == "stream" and content["name"] == "stdout":
                told += content["text"]
                if interrupted and "waits\n" in told:
                    interrupted = False
                    cls.manager.interrupt_kernel()
            elif content.get("execution_state") == "idle":
                break
        while True:
            message = cls.client.get_shell_msg(timeout=WAIT_S)
            if message["parent_header"].get("msg_id") == cell:
                return message["content"], told

    def run_well(self, code):
        ended, told = self.run_cell(code)
        self.assertEqual(ended["status"], "ok", (ended, told))
        return told

    def interrupt(self, code, where, number):
        """Interrupts the cell there. Returns what it has written before."""
        self.run_well(f"waits = ({where!r}, {number})")
        ended, told = self.run_cell(code, interrupted=True)
        self.assertEqual(ended.get("ename"), "KeyboardInterrupt", (ended, told))
        self.run_well("waits = None")
        return told.replace("waits\n", "")

    def setUp(self):
        self.run_well("waits = None" + MODEL_CELL)

    def test_a_cell_trains_and_its_output_is_shown(self):
        told = self.run_well(LOOP_CELL)
        for number in range(4):
            self.assertIn(f"step {number} [", told)
        self.assertIn("evaluation loss=0.25\nsum ", told)

    def test_an_interrupted_loop_is_run_again_and_goes_on(self):
        undisturbed = self.run_well(LOOP_CELL)
        for where in ("before", "inside", "behind"):
            with self.subTest(where):
                self.run_well(MODEL_CELL)
                before = self.interrupt(LOOP_CELL, where, 2)
                self.assertEqual(before + self.run_well(LOOP_CELL), undisturbed)

    def test_all_cells_are_run_again(self):
        undisturbed = self.run_well(LOOP_CELL)
        self.assertEqual(self.run_well(MODEL_CELL + LOOP_CELL), undisturbed)
        self.interrupt(MODEL_CELL + LOOP_CELL, "inside", 1)
        self.assertEqual(self.run_well(MODEL_CELL + LOOP_CELL), undisturbed)

    def test_a_mistake_is_mended(self):
        ended, _ = self.run_cell(LOOP_CELL.replace("square", "squares"))
        self.assertEqual(ended.get("ename"), "AttributeError")
        self.assertIn("step 0 [", self.run_well(LOOP_CELL))

    def test_the_kernel_stays_as_it_was(self):
        self.interrupt(LOOP_CELL, "inside", 2)
        self.run_well(LOOP_CELL)
        self.run_well("assert what_is_the_kernels() == at_first, (what_is_the_kernels(), at_first)")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
