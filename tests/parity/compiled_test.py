"""A compiled model trains in the trainer as the module does in Python."""

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
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.abspath("python"))
import reference  # noqa: E402
from paceline.export import export_step  # noqa: E402

TRAINER, RUN_JOB = (os.path.abspath(path) for path in sys.argv[1:3])
BATCH, RATE, MOMENTUM, SEED = 4, 0.02, 0.9, 5

# Relative to the largest element of each tensor: kernels are others, so that sums are rounded
# otherwise, and steps multiply the difference.
LIMIT = 1e-4


class Net(nn.Module):
    """With batch normalisation, dropout, a tied weight and a frozen one."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1, bias=False),
                                      nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.drop = nn.Dropout(0.2)
        self.mix = nn.Linear(16, 16)
        self.again = nn.Linear(16, 16)
        self.again.weight = self.mix.weight
        self.classify = nn.Linear(16, 3)
        self.scale = nn.Parameter(torch.tensor(0.5), requires_grad=False)

    def forward(self, inputs, targets):
        x = self.drop(self.features(inputs))
        x = torch.tanh(self.again(torch.tanh(self.mix(x)))) * self.scale
        return nn.functional.cross_entropy(self.classify(x), targets)


class CompiledTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.name = folder.name
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = f"{cls.name}/cache"
        generator = np.random.default_rng(1)
        images = generator.integers(0, 256, (240, 1, 4, 4)).astype(np.uint8)
        cls.labels = torch.from_numpy(generator.integers(0, 3, len(images)))
        cls.inputs = (torch.from_numpy(images).float() / 255 - 0.5) / 0.5
        reference.write_shard(f"{cls.name}/train", images, cls.labels.numpy(), 3)
        torch.set_num_threads(1)
        torch.manual_seed(4)
        cls.module = Net()
        export_step(cls.module, cls.inputs[:BATCH], cls.labels[:BATCH], f"{cls.name}/step.pt2")

    def run_job(self, ranks, steps, *flags, batch=BATCH):
        with open(f"{self.name}/spec", "w") as spec:
            spec.write(f"""
              name: "user" ranks: {ranks} batch_per_rank: {batch} steps: {steps} seed: {SEED}
              model {{ compiled {{ file: "{self.name}/step.pt2" }} }}
              data {{ train: "{self.name}/train" order: SEQUENTIAL }}
              optimizer {{ sgd {{ momentum: {MOMENTUM} }} learning_rate: {RATE} }}
              checkpoint {{ directory: "{self.name}/out" at_end: true }}
              export_final: "{self.name}/final.safetensors"
            """)
        return subprocess.run([RUN_JOB, "--trainer", TRAINER, "--spec", f"{self.name}/spec",
                               "--dir", self.name, *flags], stderr=subprocess.PIPE, text=True)

    def test_one_rank_trains_as_in_python(self):
        steps = 12
        ran = self.run_job(1, steps)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        shutil.rmtree(f"{self.name}/out")
        final = safetensors.torch.load_file(f"{self.name}/final.rank0.safetensors")
        model = Net()
        model.load_state_dict(self.module.state_dict())
        trained = [one for one in model.parameters() if one.requires_grad]
        optimizer = torch.optim.SGD(trained, lr=RATE, momentum=MOMENTUM)
        torch.manual_seed(SEED)
        for step in range(steps):
            chosen = slice(step * BATCH, (step + 1) * BATCH)
            optimizer.zero_grad()
            model(self.inputs[chosen], self.labels[chosen]).backward()
            optimizer.step()
        expected = model.state_dict()
        self.assertEqual(set(final), set(expected))
        self.assertEqual(final["features.1.num_batches_tracked"].item(), steps)
        errors = {name: (final[name] - value).abs().max().item() / value.abs().max().item()
                  for name, value in expected.items()}
        print(f"{self.id()}: largest {max(errors.values()):.2g}")
        self.assertLess(max(errors.values()), LIMIT, errors)

    def test_to_the_last_bit_as_if_it_had_never_stopped(self):
        states = []
        for steps, flags in ((30, []), (20, []), (30, ["--restore", self.checkpoint(20)])):
            ran = self.run_job(2, steps, *flags)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            states.append(self.state(steps))
            if steps == 30:
                shutil.rmtree(self.checkpoint(30))
        shutil.rmtree(f"{self.name}/out")
        self.assertEqual(set(states[0]), set(states[2]))
        for name, value in states[0].items():
            self.assertTrue(value.equal(states[2][name]), name)
        self.assertFalse(all(value.equal(states[1][name]) for name, value in states[0].items()))

    def test_another_batch_is_refused(self):
        ran = self.run_job(1, 4, batch=2)
        self.assertEqual(ran.returncode, 1)
        self.assertIn("batch_per_rank: is 2", ran.stderr)
        self.assertIn("export the model with --batch 2", ran.stderr)

    def checkpoint(self, step):
        return f"{self.name}/out/job-0123456789ab/step-{step:012}.g1"

    def state(self, step):
        """All rows of a checkpoint's tensors, by shard and name."""
        state = {}
        for shard in sorted(glob.glob(f"{self.checkpoint(step)}/shard-*.safetensors")):
            for name, value in safetensors.torch.load_file(shard).items():
                state[name] = torch.cat([state[name], value]) if name in state else value
        return state


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
