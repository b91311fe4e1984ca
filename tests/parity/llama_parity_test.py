"""The trainer's Llama computes what a plain one in PyTorch computes: logits, loss, gradients,
and the weights after some steps of training on two ranks.

The reference computes in double precision, so what is measured is the rounding of ours: up
to 3e-6 of the largest value of each tensor was seen. The limit is 1e-5; a wrong pairing of
the rotation, head order, mask or scale shows up at 1e-2 or more, and
test_the_limit_tells_small_mistakes says how small a mistake is still seen.
"""

import os
import subprocess
import sys
import tempfile
import unittest

import safetensors.torch
import torch
from torch.nn import functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import llama_reference  # noqa: E402

LIMIT = 1e-5

LLAMA_OUTPUTS, TRAINER, RUN_JOB = (os.path.abspath(path) for path in sys.argv[1:4])

DEFAULTS = {
    "dim": 64, "layers": 2, "heads": 4, "kv_heads": 4, "ffn_dim": 96, "vocab_size": 100,
    "theta": 1e4, "epsilon": 1e-5, "tied": False,
}


def expected_outputs(size, state, batch):
    model = llama_reference.Llama(size).double()
    model.load_state_dict(state)
    logits = model(batch["inputs"])
    loss = F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten())
    loss.backward()
    outputs = {"grad." + name: p.grad for name, p in model.named_parameters()}
    return {**outputs, "logits": logits.detach(), "loss": loss.detach()}


def errors(actual, expected):
    """The largest error of each tensor, relative to its largest element."""
    return {name: ((actual[name].double() - value).abs().max() / value.abs().max()).item()
            for name, value in expected.items()}


class LlamaParityTest(unittest.TestCase):
    def run_ours(self, size, state, batch, *flags):
        with tempfile.TemporaryDirectory() as directory:
            paths = {name: f"{directory}/{name}.safetensors"
                     for name in ["weights", "batch", "out"]}
            safetensors.torch.save_file(state, paths["weights"])
            safetensors.torch.save_file(batch, paths["batch"])
            command = [LLAMA_OUTPUTS, *flags, *(["--tied"] if size["tied"] else [])]
            for name, value in size.items():
                if name != "tied":
                    command += ["--" + name.replace("_", "-"), repr(value)]
            for name, path in paths.items():
                command += ["--" + name, path]
            subprocess.run(command, check=True)
            return safetensors.torch.load_file(paths["out"])

    def make(self, length=17, samples=3, **changes):
        size = {**DEFAULTS, **changes}
        torch.manual_seed(5)
        state = llama_reference.Llama(size).state_dict()
        # Use norms that are not one, and weights large enough to make attention uneven.
        for name, tensor in state.items():
            tensor.normal_(1 if "norm" in name else 0, 0.2)
        tokens = torch.randint(0, size["vocab_size"], (samples, length + 1))
        batch = {"inputs": tokens[:, :-1].clone(), "targets": tokens[:, 1:].clone()}
        return size, state, batch

    def compare(self, *flags, **changes):
        size, state, batch = self.make(**changes)
        actual = self.run_ours(size, state, batch, *flags)
        expected = expected_outputs(size, state, batch)
        self.assertEqual(set(actual), set(expected))
        found = errors(actual, expected)
        print(f"{self.id()}: logits {found['logits']:.2g}, largest {max(found.values()):.2g}")
        self.assertLess(max(found.values()), LIMIT, found)

    def test_multi_head(self):
        self.compare()

    def test_grouped_queries(self):
        self.compare(heads=8, kv_heads=2, theta=5e5)

    def test_one_key_value_head_and_tied_embedding(self):
        self.compare(heads=4, kv_heads=1, tied=True)

    def test_odd_sizes(self):
        self.compare(dim=42, heads=7, kv_heads=7, ffn_dim=53, vocab_size=67, layers=3, length=13)

    def test_two_tokens(self):
        self.compare(length=2, samples=4)

    def test_epsilon_that_matters(self):
        self.compare(epsilon=0.5)

    def test_recomputed_blocks_with_grouped_queries_and_tied_embedding(self):
        self.compare("--checkpoint", heads=4, kv_heads=2, tied=True)

    def test_a_long_sequence(self):
        self.compare(length=300, samples=2, layers=1)

    def test_training_on_two_ranks(self):
        ranks, per_rank, steps, rate, momentum = 2, 2, 6, 0.1, 0.9
        size, state, _ = self.make(kv_heads=2, vocab_size=90)
        length, samples = 11, ranks * per_rank * steps
        tokens = torch.randint(0, 90, (samples * length + 1,))
        with tempfile.TemporaryDirectory() as directory:
            tokens.numpy().astype("<u2").tofile(f"{directory}/tokens.bin")
            safetensors.torch.save_file(state, f"{directory}/initial.safetensors")
            with open(f"{directory}/spec", "w") as spec:
                spec.write(f"""
                  name: "parity" ranks: {ranks} batch_per_rank: {per_rank} steps: {steps}
                  model {{ llama {{ dim: 64 layers: 2 heads: 4 kv_heads: 2 ffn_dim: 96
                    vocab_size: 90 rope_theta: 1e4 norm_epsilon: 1e-5 }} }}
                  data {{ train: "{directory}/tokens.bin" order: SEQUENTIAL
                    token_type: TOKEN_TYPE_UINT16 sequence_length: {length} }}
                  optimizer {{ sgd {{ momentum: {momentum} }} learning_rate: {rate} }}
                  init_from: "{directory}/initial.safetensors"
                  export_final: "{directory}/final.safetensors"
                """)
            subprocess.run([RUN_JOB, "--trainer", TRAINER, "--spec", f"{directory}/spec",
                            "--dir", directory], check=True)
            finals = [safetensors.torch.load_file(f"{directory}/final.rank{rank}.safetensors")
                      for rank in range(ranks)]

        # One process with the batches of all ranks: the mean of means of as many tokens.
        model = llama_reference.Llama(size).double()
        model.load_state_dict(state)
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum)
        inputs = tokens[:-1].view(steps, ranks * per_rank, length)
        targets = tokens[1:].view(steps, ranks * per_rank, length)
        for step in range(steps):
            optimizer.zero_grad()
            logits = model(inputs[step]).flatten(0, 1)
            F.cross_entropy(logits, targets[step].flatten()).backward()
            optimizer.step()
        expected = {name: value.detach() for name, value in model.named_parameters()}
        moved = (expected["lm_head.weight"] - state["lm_head.weight"]).abs().max().item()
        self.assertGreater(moved, 1e-2)
        for final in finals:
            self.assertEqual(set(final), set(expected))
            found = errors(final, expected)
            print(f"{self.id()}: largest {max(found.values()):.2g}, moved {moved:.2g}")
            self.assertLess(max(found.values()), LIMIT, found)

    def test_the_limit_tells_small_mistakes(self):
        size, state, batch = self.make()
        expected = expected_outputs(size, state, batch)
        wrong = expected_outputs({**size, "epsilon": 2e-5}, state, batch)
        self.assertGreater(errors(wrong, expected)["logits"], LIMIT / 10)
        wrong = expected_outputs({**size, "theta": 1.01e4}, state, batch)
        self.assertGreater(errors(wrong, expected)["logits"], 10 * LIMIT)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
