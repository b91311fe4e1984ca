"""Users' modules train in the trainer as they do in Python."""

import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import safetensors.torch
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import modules  # noqa: E402
import reference  # noqa: E402

EXPORT, TRAINER, RUN_JOB = (os.path.abspath(path) for path in sys.argv[1:4])

# Relative to the largest element of each tensor. Both run the same operations of the same
# module; only the optimizers round differently: 3e-8 was seen.
LIMIT = 1e-6


class TorchScriptTest(unittest.TestCase):
    def test_the_example_trains_as_in_python(self):
        steps, batch, rate, momentum = 8, 10, 0.02, 0.9
        generator = np.random.default_rng(1)
        labels = generator.integers(0, 10, steps * batch)
        images = generator.integers(0, 256, (len(labels), 1, 32, 32)).astype(np.uint8)
        with tempfile.TemporaryDirectory() as directory:
            module_file, shard = f"{directory}/cnn.pt", f"{directory}/train.shard"
            subprocess.run([sys.executable, EXPORT, module_file], check=True)
            reference.write_shard(shard, images, labels, 10)
            with open(f"{directory}/spec", "w") as spec:
                spec.write(f"""
                  name: "user" ranks: 1 batch_per_rank: {batch} steps: {steps}
                  model {{ torchscript {{ file: "{module_file}" }} }}
                  data {{ train: "{shard}" eval: "{shard}" order: SEQUENTIAL }}
                  optimizer {{ sgd {{ momentum: {momentum} }} learning_rate: {rate} }}
                  export_final: "{directory}/final.safetensors"
                """)
            subprocess.run([RUN_JOB, "--trainer", TRAINER, "--spec", f"{directory}/spec",
                            "--dir", directory], check=True)
            final = safetensors.torch.load_file(f"{directory}/final.rank0.safetensors")
            model = torch.jit.load(module_file)

        torch.set_num_threads(1)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
        inputs = (torch.from_numpy(images).float() / 255 - 0.5) / 0.5
        for step in range(steps):
            chosen = slice(step * batch, (step + 1) * batch)
            optimizer.zero_grad()
            model(inputs[chosen], torch.from_numpy(labels[chosen])).backward()
            optimizer.step()
        expected = model.state_dict()
        self.assertEqual(set(final), set(expected))
        self.assertEqual(final["features.1.num_batches_tracked"].item(), steps)
        errors = {name: (final[name] - value).abs().max().item() / value.abs().max().item()
                  for name, value in expected.items()}
        print(f"{self.id()}: largest {max(errors.values()):.2g}")
        self.assertLess(max(errors.values()), LIMIT, errors)


SGD = ("sgd { momentum: 0.9 }", lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9))
ADAMW = ("adamw {}", lambda p: torch.optim.AdamW(p, lr=0.05, weight_decay=0))


class AwkwardModulesTest(unittest.TestCase):
    """Modules of tests/parity/modules.py, by the mean of all ranks' gradients."""

    def data(self, tokens, count):
        generator = np.random.default_rng(2)
        if tokens:
            ids = generator.integers(0, 50, count * 7 + 1)
            ids.astype("<u2").tofile(f"{self.name}/train")
            rows = torch.from_numpy(ids[:count * 7].reshape(count, 7))
            return rows, torch.from_numpy(ids[1:].reshape(count, 7))
        images = generator.integers(0, 256, (count, 1, 4, 4)).astype(np.uint8)
        labels = generator.integers(0, 3, count)
        reference.write_shard(f"{self.name}/train", images, labels, 3)
        return (torch.from_numpy(images).float() / 255 - 0.5) / 0.5, torch.from_numpy(labels)

    def train(self, model, optimizer, inputs, targets, ranks, steps, batch):
        """Like DistributedDataParallel with find_unused_parameters."""
        for step in range(steps):
            gradients = []
            for rank in range(ranks):
                mine = slice(step * batch * ranks + rank, (step + 1) * batch * ranks, ranks)
                optimizer.zero_grad()
                model(inputs[mine], targets[mine]).backward()
                gradients.append([p.grad for p in model.parameters()])
            for p, of_ranks in zip(model.parameters(), zip(*gradients)):
                used = [g for g in of_ranks if g is not None]
                p.grad = sum(used) / ranks if used else None
            optimizer.step()

    def run_job(self, module_file, ranks, steps, batch, optimizer, more, *flags):
        with open(f"{self.name}/spec", "w") as spec:
            spec.write(f"""
              name: "user" ranks: {ranks} batch_per_rank: {batch} steps: {steps}
              model {{ torchscript {{ file: "{module_file}" {more} }} }}
              data {{ train: "{self.name}/train" order: SEQUENTIAL sequence_length: 7
                      {"token_type: TOKEN_TYPE_UINT16" if self.tokens else ""} }}
              optimizer {{ {optimizer} learning_rate: 0.05 }}
              checkpoint {{ directory: "{self.name}/out" at_end: true }}
              export_final: "{self.name}/final.safetensors"
            """)
        return subprocess.run([RUN_JOB, "--trainer", TRAINER, "--spec", f"{self.name}/spec",
                               "--dir", self.name, *flags], stderr=subprocess.PIPE, text=True)

    def check(self, module, ranks, kind, limit, more="", steps=12):
        batch = 2
        self.tokens = module is modules.Tied
        torch.manual_seed(4)
        torch.set_num_threads(1)
        with tempfile.TemporaryDirectory() as self.name:
            inputs, targets = self.data(self.tokens, steps * batch * ranks)
            module_file = f"{self.name}/module.pt"
            torch.jit.script(module()).save(module_file)
            ran = self.run_job(module_file, ranks, steps, batch, kind[0], more)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            finals = [safetensors.torch.load_file(f"{self.name}/final.rank{rank}.safetensors")
                      for rank in range(ranks)]
            model = torch.jit.load(module_file)
        self.train(model, kind[1](model.parameters()), inputs, targets, ranks, steps, batch)
        expected = model.state_dict()
        for final in finals:
            self.assertEqual(set(final), set(expected))
            for name, value in expected.items():
                self.assertEqual(final[name].dtype, value.dtype, name)
                error = (final[name] - value).abs().max() / value.abs().max()
                self.assertLess(error.item(), limit, name)
        return finals[0]

    def test_tied_weights_are_trained_once_and_have_both_names(self):
        for ranks in (1, 2):
            for kind in (SGD, ADAMW):
                final = self.check(modules.Tied, ranks, kind, 1e-5)
                self.assertTrue(final["head.weight"].equal(final["embedding.weight"]))

    def test_each_type_is_trained_as_it_is(self):
        for ranks in (1, 2):
            self.check(modules.Mixed, ranks, ADAMW, 2e-2)  # Steps of bf16 are 2^-8 of a value.

    def test_to_the_last_bit_as_if_it_had_never_stopped(self):
        for module, more in ((modules.Mixed, ""), (modules.Branched, "unused_parameters: true")):
            self.tokens = False
            with tempfile.TemporaryDirectory() as self.name:
                self.data(False, 600)
                module_file = f"{self.name}/module.pt"
                torch.jit.script(module()).save(module_file)
                states = []
                for steps, flags in ((300, []), (270, []),
                                     (300, ["--restore", self.checkpoint(270)])):
                    ran = self.run_job(module_file, 2, steps, 1, ADAMW[0], more, *flags)
                    self.assertEqual(ran.returncode, 0, ran.stderr)
                    states.append(self.state(steps))
                    if steps == 300:
                        shutil.rmtree(self.checkpoint(300))
            self.assertEqual(set(states[0]), set(states[2]))
            for name, value in states[0].items():  # In bf16 it would stay at 256.
                if name == "optimizer/step":
                    self.assertEqual(value.item(), 300)
            for name, value in states[0].items():
                self.assertTrue(value.equal(states[2][name]), name)

    def checkpoint(self, step):
        return f"{self.name}/out/job-0123456789ab/step-{step:012}.g1"

    def state(self, step):
        """All rows of a checkpoint's tensors, by shard and name."""
        state = {}
        for shard in sorted(glob.glob(f"{self.checkpoint(step)}/shard-*.safetensors")):
            for name, value in safetensors.torch.load_file(shard).items():
                state[name] = torch.cat([state[name], value]) if name in state else value
        return state

    def test_unused_parameters_stay_as_they_are(self):
        for ranks in (1, 2):
            for kind in (SGD, ADAMW):
                self.check(modules.Branched, ranks, kind, 1e-5, "unused_parameters: true")

    def test_unused_parameters_are_named_where_none_may_be(self):
        self.tokens = False
        for ranks in (1, 2):
            with tempfile.TemporaryDirectory() as self.name:
                self.data(False, 48)
                module_file = f"{self.name}/module.pt"
                torch.jit.script(modules.Branched()).save(module_file)
                ran = self.run_job(module_file, ranks, 12, 2, SGD[0], "")
            self.assertEqual(ran.returncode, 1)
            self.assertIn("the loss does not depend on", ran.stderr)
            self.assertIn("model.unused_parameters: true", ran.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
