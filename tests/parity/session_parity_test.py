"""A session computes, bit for bit, what the same script computes by DistributedDataParallel.

Both train the same model on the same batches. The order of the sums over ranks is the same, so that
nothing may differ: parameters, statistics, the optimizer's state, each rank's losses.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import unittest

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import session_train  # noqa: E402

RUN_JOB, SESSION_RANK = (os.path.abspath(path) for path in sys.argv[1:3])
RANKS = 2
BATCH = 8


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class SessionParityTest(unittest.TestCase):
    def compare(self, optimizer, passes=1):
        with tempfile.TemporaryDirectory() as out:
            settings = {"optimizer": optimizer, "passes": passes, "out": out}
            with open(f"{out}/spec", "w", encoding="utf-8") as spec:
                spec.write(f"name: 'parity' ranks: {RANKS} command: 'train.py' session: true "
                           f"working_directory: '/' batch_per_rank: {BATCH} steps: 30 seed: 3 "
                           f"accumulation_steps: {passes}")
            os.mkdir(f"{out}/job")
            subprocess.run(
                [RUN_JOB, "--trainer", SESSION_RANK, "--spec", f"{out}/spec", "--dir", f"{out}/job"],
                env={**os.environ, "SCRIPT": session_train.__file__, "SETTINGS": json.dumps(settings)},
                check=True)
            ours = [torch.load(f"{out}/{rank}.pt") for rank in range(RANKS)]
            port = free_port()
            context = torch.multiprocessing.get_context("spawn")
            ranks = [context.Process(target=session_train.train_with_ddp,
                                     args=(rank, RANKS, port, settings, ours[rank]["used"]))
                     for rank in range(RANKS)]
            for one in ranks:
                one.start()
            for one in ranks:
                one.join()
            self.assertEqual([one.exitcode for one in ranks], [0] * RANKS)
            for rank, own in enumerate(ours):
                theirs = torch.load(f"{out}/ddp{rank}.pt")
                self.assertEqual(own["losses"], theirs["losses"])
                self.assert_equal(own["model"], theirs["model"])
                self.assert_equal(own["optimizer"], theirs["optimizer"])
        epoch = session_train.SAMPLES // (BATCH * RANKS)  # In batches.
        used = [n for own in ours for numbers in own["used"][:epoch] for n in numbers]
        self.assertEqual(len(used), BATCH * RANKS * epoch)
        self.assertEqual(len(set(used)), len(used), "each sample once")

    def assert_equal(self, one, other, where=""):
        self.assertEqual(type(one), type(other), where)
        if isinstance(one, torch.Tensor):
            self.assertTrue(torch.equal(one, other), where)
        elif isinstance(one, dict):
            self.assertEqual(one.keys(), other.keys(), where)
            for key in one:
                self.assert_equal(one[key], other[key], f"{where}/{key}")
        elif isinstance(one, (list, tuple)):
            self.assertEqual(len(one), len(other), where)
            for i, value in enumerate(one):
                self.assert_equal(value, other[i], f"{where}/{i}")
        else:
            self.assertEqual(one, other, where)

    def test_adamw(self):
        self.compare(["AdamW", {"lr": 0.01}])

    def test_accumulated_sgd(self):
        self.compare(["SGD", {"lr": 0.1, "momentum": 0.9}], passes=2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
