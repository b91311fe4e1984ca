"""A session computes, bit for bit, what the same script computes by torch's own means: by
DistributedDataParallel, and by the averagers of models. And what our trainer computes with the same
model as a TorchScript module.

The order of the sums over ranks is the same, so that nothing may differ: parameters, statistics,
the optimizer's state, each rank's losses. Between the model and its TorchScript copy, torch's
compiler may reorder sums.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import unittest

import safetensors.torch
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import reference  # noqa: E402
import session_train  # noqa: E402

RUN_JOB, SESSION_RANK, TRAINER = (os.path.abspath(path) for path in sys.argv[1:4])
BATCH = 8
STEPS = 30
# Of a parameter's error, relative to its tensor's largest element, after 30 steps in which sums are
# reordered.
LIMIT = 1e-4
# The same where outer steps round otherwise: torch.optim.SGD rounds once where it adds a product.
OUTER_LIMIT = 1e-5
SGD = ["SGD", {"lr": 0.05, "momentum": 0.9}]
NESTEROV = {"kind": "nesterov", "learning_rate": 0.7, "momentum": 0.9}
# Momentum, with roundings as in the trainer's optimizer.
FUSED_SGD = ["SGD", {"lr": 0.05, "momentum": 0.9, "fused": True}]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Parity(unittest.TestCase):
    def setUp(self):
        self.out = self.enterContext(tempfile.TemporaryDirectory())
        torch.set_num_threads(1)  # A process that is forked would lack the threads.

    def settings(self, optimizer, **others):
        return {"optimizer": optimizer, "passes": 1, "out": self.out, "averager": None,
                "dropout": 0.1, "decays": True, "module": "", **others}

    def run_job(self, program, name, spec, **environment):
        """Returns the folder of what the job leaves."""
        directory = f"{self.out}/{name}"
        os.mkdir(directory)
        with open(f"{directory}/spec", "w", encoding="utf-8") as file:
            file.write(f"name: 'parity' batch_per_rank: {BATCH} steps: {STEPS} seed: 3 "
                       f"log_every: 1 {spec}")
        subprocess.run([RUN_JOB, "--trainer", program, "--spec", f"{directory}/spec",
                        "--dir", directory], env={**os.environ, **environment}, check=True)
        return directory

    def run_session(self, settings, ranks, spec=""):
        """Returns what the ranks have saved."""
        self.run_job(SESSION_RANK, "session",
                     f"ranks: {ranks} command: 'train.py' session: true working_directory: '/' "
                     f"accumulation_steps: {settings['passes']} {spec}",
                     SCRIPT=session_train.__file__, SETTINGS=json.dumps(settings))
        return [torch.load(f"{self.out}/{rank}.pt") for rank in range(ranks)]

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


class TorchParityTest(Parity):
    def compare(self, settings, ranks=2, spec="", exact=True):
        ours = self.run_session(settings, ranks, spec)
        port = free_port()
        context = torch.multiprocessing.get_context("fork")
        processes = [context.Process(target=session_train.train_with_torch,
                                     args=(rank, ranks, port, settings, ours[rank]["used"]))
                     for rank in range(ranks)]
        for one in processes:
            one.start()
        for one in processes:
            one.join()
        self.assertEqual([one.exitcode for one in processes], [0] * ranks)
        for rank, own in enumerate(ours):
            theirs = torch.load(f"{self.out}/torch{rank}.pt")
            if not exact:
                self.assert_near(own, theirs)
                continue
            self.assertEqual(own["losses"], theirs["losses"])
            self.assert_equal(own["model"], theirs["model"])
            self.assert_equal(own["optimizer"], theirs["optimizer"])
        epoch = session_train.SAMPLES // (BATCH * ranks)  # In batches.
        used = [n for own in ours for numbers in own["used"][:epoch] for n in numbers]
        self.assertEqual(len(used), BATCH * ranks * epoch)
        self.assertEqual(len(set(used)), len(used), "each sample once")
        return ours

    def assert_near(self, own, theirs):
        self.assertEqual(len(own["losses"]), len(theirs["losses"]))
        for step, (loss, other) in enumerate(zip(own["losses"], theirs["losses"])):
            self.assertLess(abs(loss / other - 1), OUTER_LIMIT, step)
        self.assertEqual(own["model"].keys(), theirs["model"].keys())
        for name, value in own["model"].items():
            error = (value - theirs["model"][name]).abs().max() / value.abs().max()
            self.assertLess(error.item(), OUTER_LIMIT, name)

    def compare_outer(self, period, outer, exact, **averager):
        """Of two ranks that exchange nothing else."""
        ours = self.compare(
            self.settings(SGD, averager={"period": period, "outer": outer, **averager}),
            spec=f"strategy {{ hsgd {{ ladder {{ period: {period} size: 2 "
                 f"{reference.outer_text(outer)} }} }} gradient_group_size: 1 }}", exact=exact)
        # The mean of all at the end.
        self.assertTrue(torch.equal(*(own["model"]["net.0.weight"] for own in ours)))

    def test_adamw(self):
        self.compare(self.settings(["AdamW", {"lr": 0.01}]))

    def test_accumulated_sgd(self):
        self.compare(self.settings(["SGD", {"lr": 0.1, "momentum": 0.9}], passes=2))

    def test_local_sgd(self):
        ours = self.compare(self.settings(["AdamW", {"lr": 0.01}], averager=4),
                            spec="strategy { local_sgd { period: 4 } gradient_group_size: 1 }")
        self.assertTrue(torch.equal(*(own["model"]["net.0.weight"] for own in ours)))

    def test_hierarchical_sgd(self):
        settings = self.settings(["SGD", {"lr": 0.05, "momentum": 0.9}],
                                 averager=[[2, 2], [4, 4]])
        parameters = sum(p.numel() for p in session_train.make_model(0.0).parameters())
        # Gloo divides a sum among four ranks in eight segments. Three numbers of ours ride along
        # behind the parameters (hsgd_parity_test.py), and must not move their boundaries.
        self.assertEqual(-(parameters // -8), -((parameters + 3) // -8))
        self.compare(settings, ranks=4,
                     spec="strategy { hsgd { ladder { period: 2 size: 2 } ladder { period: 4 size: "
                          "4 } } gradient_group_size: 1 }")

    def test_slowmo(self):
        # A rate of 1 and half of the momentum round nothing.
        self.compare_outer(4, {"kind": "slowmo", "learning_rate": 1.0, "momentum": 0.5}, exact=True)

    def test_diloco(self):
        self.compare_outer(4, NESTEROV, exact=False)

    def test_streaming_diloco(self):
        # Of the 13,738 values of ten parameters, the first six have 4,832, the next alone 8,192.
        self.compare_outer(8, {**NESTEROV, "fragments": 2, "delay": 2, "alpha": 0.5}, exact=False,
                           cut=[list(range(6)), list(range(6, 10))])


class TrainerParityTest(Parity):
    RANKS = 2

    def compare(self, check, scripted):
        """check(name, ours, the trainer's) for each tensor. scripted: the session trains the
        TorchScript module, too."""
        module = f"{self.out}/module.pt"
        torch.jit.script(session_train.make_model(0.0)).save(module)
        images, targets = session_train.images_and_targets()
        reference.write_shard(f"{self.out}/train.shard", images.numpy(), targets.numpy(), 10)
        directory = self.run_job(
            TRAINER, "trainer",
            f"ranks: {self.RANKS} model {{ torchscript {{ file: '{module}' }} }} "
            f"data {{ train: '{self.out}/train.shard' order: SHUFFLE }} "
            "optimizer { sgd { momentum: 0.9 } learning_rate: 0.05 } "
            f"export_final: '{self.out}/final.safetensors'")
        ours = self.run_session(
            self.settings(FUSED_SGD, dropout=0.0, decays=False, module=module if scripted else ""),
            self.RANKS)
        for rank, own in enumerate(ours):
            theirs = safetensors.torch.load_file(f"{self.out}/final.rank{rank}.safetensors")
            self.assertEqual(set(own["model"]), set(theirs))
            for name, value in own["model"].items():
                check(name, value, theirs[name])
            self.assertEqual(len(self.losses(directory, rank)), STEPS)
            if scripted:
                self.assertEqual(self.losses(f"{self.out}/session", rank),
                                 self.losses(directory, rank))

    @staticmethod
    def losses(directory, rank):
        with open(f"{directory}/log.{rank}", encoding="utf-8") as log:
            return re.findall(r" step=(\d+) loss=(\S+) ", log.read())

    def test_the_same_module(self):
        self.compare(lambda name, one, other: self.assertTrue(torch.equal(one, other), name),
                     scripted=True)

    def test_its_model_in_python(self):
        def check(name, one, other):
            error = (one - other).abs().max() / other.abs().max()
            self.assertLess(error.item(), LIMIT, name)

        self.compare(check, scripted=False)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
