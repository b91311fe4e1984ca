"""The example of a user's module trains in the trainer as it does in Python."""

import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import safetensors.torch
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
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


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
