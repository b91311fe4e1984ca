"""The trainer computes what Python's DistributedDataParallel computes.

Both train the same model from the same initial weights on the same data in the same order;
every rank's loss at every step and the final weights must agree.

Tolerances. Both sides call the same kernels in the same order, except for the optimizer: ours
is fused, Python's default goes operation by operation and rounds differently in the last
bit. Errors of up to 2.3e-7 were observed with it, and none beyond the digits of the log with
Python's fused one. The limit is ten times that; a wrong weight decay, momentum, schedule or
sample shows up at 1e-3 or more. ResNet-18 with AdamW needs Python's fused optimizer: AdamW
divides by the root of the squared gradient, so that a gradient that is zero but for
rounding moves its weight by the whole learning rate in a direction that rounding decides.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import safetensors.torch
import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import reference  # noqa: E402

# Relative for losses; for weights, relative to the largest of each tensor.
LIMIT = 3e-6

TRAINER, RUN_JOB = (os.path.abspath(path) for path in sys.argv[1:3])

DEFAULTS = {
    "classes": 10, "hidden": [48, 32], "schedule": "constant", "warmup": 0, "final_ratio": 0.0,
    "momentum": 0.0, "nesterov": False, "weight_decay": 0.0, "shuffle": True, "seed": 5,
    "world": 2, "init_as": "safetensors", "bf16": False, "batch": 8, "samples": 100, "fused": None,
}


def spec_of(task):
    model = "resnet18 {}" if task["model"] == "resnet18" else "mlp { %s }" % " ".join(
        f"hidden: {width}" for width in task["hidden"])
    if task["optimizer"] == "adamw":
        rule = "adamw {}"
    else:
        rule = "sgd { momentum: %r nesterov: %s }" % (
            task["momentum"], str(task["nesterov"]).lower())
    schedule = f"warmup_steps: {task['warmup']}"
    if task["schedule"] == "cosine":
        schedule += " cosine { final_ratio: %r }" % task["final_ratio"]
    return f"""
      name: "parity" ranks: {task["world"]} model {{ {model} }}
      data {{ train: "{task["train"]}" order: {"SHUFFLE" if task["shuffle"] else "SEQUENTIAL"} }}
      batch_per_rank: {task["batch"]} steps: {task["steps"]}
      optimizer {{ {rule} learning_rate: {task["lr"]!r} weight_decay: {task["weight_decay"]!r} }}
      schedule {{ {schedule} }} seed: {task["seed"]}
      precision: {"BF16" if task["bf16"] else "FP32"}
      checkpoint {{ directory: "{task["directory"]}/out" }} init_from: "{task["initial"]}"
      log_every: 1
    """


class DdpParityTest(unittest.TestCase):
    def prepare(self, **changes):
        task = {**DEFAULTS, **changes}
        directory = self.enterContext(tempfile.TemporaryDirectory())
        task["directory"] = directory
        generator = np.random.default_rng(3)
        labels = generator.integers(0, task["classes"], task["samples"])
        centres = generator.integers(0, 256, (task["classes"], *task["shape"]))
        noise = generator.normal(0, 50, (task["samples"], *task["shape"]))
        images = np.clip(centres[labels] + noise, 0, 255).astype(np.uint8)
        task["train"] = f"{directory}/train.shard"
        reference.write_shard(task["train"], images, labels, task["classes"])
        torch.manual_seed(17)
        state = reference.make_model(task).state_dict()
        task["init"] = f"{directory}/initial.pt"
        torch.save(state, task["init"])
        task["initial"] = task["init"]
        if task["init_as"] == "safetensors":
            task["initial"] = f"{directory}/initial.safetensors"
            safetensors.torch.save_file(state, task["initial"])
        return task

    def run_python(self, task):
        path = f"{task['directory']}/task.json"
        with open(path, "w") as out:
            json.dump(task, out)
        command = [sys.executable, f"{HERE}/reference.py"]
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
        ranks = [
            subprocess.Popen([*command, str(rank), str(task["world"]),
                              f"{task['directory']}/store", path], env=environment)
            for rank in range(task["world"])
        ]
        self.assertEqual([rank.wait() for rank in ranks], [0] * task["world"])
        losses = []
        for rank in range(task["world"]):
            with open(f"{task['directory']}/losses.{rank}.json") as file:
                losses.append(json.load(file))
        return np.array(losses), torch.load(f"{task['directory']}/final.pt")

    def run_trainer(self, task):
        spec = f"{task['directory']}/spec"
        with open(spec, "w") as out:
            out.write(spec_of(task))
        subprocess.run([RUN_JOB, "--trainer", TRAINER, "--spec", spec, "--dir", task["directory"]],
                       check=True)
        losses, means = [], []
        for rank in range(task["world"]):
            with open(f"{task['directory']}/log.{rank}") as file:
                log = file.read()
            lines = re.findall(r"step=(\d+) loss=(\S+) mean_loss=(\S+) ", log)
            self.assertEqual([int(line[0]) for line in lines], list(range(1, task["steps"] + 1)))
            losses.append([float(line[1]) for line in lines])
            means.append([float(line[2]) for line in lines])
        # Every rank logs the same mean, and it is the mean of what the ranks log.
        np.testing.assert_array_equal(means, np.broadcast_to(means[0], np.shape(means)))
        np.testing.assert_allclose(np.mean(losses, axis=0), means[0], rtol=1e-6)
        path = f"{task['directory']}/out/job-0123456789ab/final.safetensors"
        return np.array(losses), safetensors.torch.load_file(path)

    def compare(self, **changes):
        task = self.prepare(**changes)
        losses, weights = self.run_trainer(task)
        expected_losses, expected_weights = self.run_python(task)
        self.assertGreater(expected_losses[:, 0].mean(), expected_losses[:, -1].mean())
        loss_error = np.max(np.abs(losses / expected_losses - 1))
        self.assertEqual(set(weights), set(expected_weights))
        weight_error = 0
        for name, expected in expected_weights.items():
            self.assertEqual(weights[name].dtype, expected.dtype, name)
            self.assertEqual(weights[name].shape, expected.shape, name)
            scale = max(expected.abs().max().item(), 1e-3)
            error = (weights[name] - expected).abs().max().item() / scale
            weight_error = max(weight_error, error)
        print(f"{self.id()}: relative error of losses {loss_error:.2g}, weights {weight_error:.2g}")
        self.assertLess(loss_error, LIMIT)
        self.assertLess(weight_error, LIMIT)

    def test_mlp_sgd_nesterov_sequential_from_pt(self):
        self.compare(model="mlp", shape=[1, 8, 8], optimizer="sgd", lr=0.05,
                     momentum=0.9, nesterov=True, weight_decay=1e-3, schedule="cosine", warmup=4,
                     steps=40, shuffle=False, init_as="pt", final_ratio=0.1)

    def test_mlp_adamw_shuffled_on_three_ranks(self):
        self.compare(model="mlp", shape=[1, 8, 8], optimizer="adamw", lr=2e-3,
                     weight_decay=0.05, schedule="cosine", warmup=4, steps=40, world=3)

    def test_resnet18_sgd_momentum_shuffled(self):
        self.compare(model="resnet18", shape=[3, 32, 32], optimizer="sgd", lr=0.02,
                     momentum=0.9, weight_decay=5e-4, schedule="cosine", warmup=3, steps=10)

    def test_resnet18_adamw_sequential_from_pt(self):
        self.compare(model="resnet18", shape=[3, 32, 32], optimizer="adamw", lr=5e-4,
                     weight_decay=0.05, steps=8, shuffle=False, init_as="pt", fused=True)

    def test_mlp_bf16(self):
        self.compare(model="mlp", shape=[1, 8, 8], optimizer="sgd", lr=0.05,
                     momentum=0.9, steps=20, bf16=True)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
