"""Models go to Hugging Face's transformers and come from there, through files alone.

A Llama that two ranks of our trainer saved is exported and loaded by LlamaForCausalLM, which
computes the logits of the plain reference of tests/parity with the same weights; one that
transformers wrote is trained by our trainer as PyTorch would train it. Checkpoints go to
torch.distributed.checkpoint and come from there.
"""

import os
import subprocess
import sys
import tempfile
import unittest

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np  # noqa: E402
import safetensors.torch  # noqa: E402
import torch  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import transformers  # noqa: E402
from torch.nn import functional as F  # noqa: E402

sys.path[:0] = [os.path.abspath("tests/parity"), os.path.abspath("python")]
import llama_reference  # noqa: E402
import reference  # noqa: E402
from paceline.dcp import PacelineReader, PacelineWriter  # noqa: E402

# Of the largest element. Logits are computed in double precision with angles in fp32; our trainer
# computes in fp32. 1e-7 was seen.
LIMIT = 1e-6

PACELINE, TRAINER, RUN_JOB = (os.path.abspath(path) for path in sys.argv[1:4])

SIZE = {
    "dim": 64, "layers": 2, "heads": 4, "kv_heads": 2, "ffn_dim": 96, "vocab_size": 90,
    "theta": 5e4, "epsilon": 1e-4, "tied": False,
}
LENGTH = 11


def run(*command):
    subprocess.run(command, check=True)


def error(actual, expected):
    return ((actual.double() - expected.double()).abs().max() / expected.abs().max()).item()


class Job:
    """A directory for a job and what it leaves."""

    def __enter__(self):
        self.directory = tempfile.TemporaryDirectory()
        self.name = self.directory.name
        return self

    def __exit__(self, *error):
        self.directory.cleanup()

    def train(self, spec, *flags):
        with open(f"{self.name}/spec", "w") as out:
            out.write(spec)
        run(RUN_JOB, "--trainer", TRAINER, "--spec", f"{self.name}/spec", "--dir", self.name,
            *flags)

    def train_llama(self, size, tokens, steps, more, *flags):
        tokens.numpy().astype("<u2").tofile(f"{self.name}/tokens.bin")
        tied = "true" if size["tied"] else "false"
        self.train(f"""
          name: "story" ranks: 2 batch_per_rank: 2 steps: {steps}
          model {{ llama {{ dim: 64 layers: 2 heads: 4 kv_heads: 2 ffn_dim: 96 vocab_size: 90
            rope_theta: {size["theta"]} norm_epsilon: {size["epsilon"]} tie_embeddings: {tied} }} }}
          data {{ train: "{self.name}/tokens.bin" order: SEQUENTIAL
            token_type: TOKEN_TYPE_UINT16 sequence_length: {LENGTH} }}
          optimizer {{ sgd {{}} learning_rate: 0.1 }} {more} """, *flags)

    def checkpoint(self, step):
        return f"{self.name}/out/job-0123456789ab/step-{step:012}.g1"

    def export(self, step, to, *flags):
        run(PACELINE, "checkpoint", "verify", self.checkpoint(step))
        run(PACELINE, "checkpoint", "export", self.checkpoint(step), "--to", f"{self.name}/{to}",
            *flags)
        return f"{self.name}/{to}"


def tokens_for(steps):
    torch.manual_seed(3)
    return torch.randint(0, 90, (steps * 4 * LENGTH + 1,))


class ExportTest(unittest.TestCase):
    def compare_with_reference(self, directory, size, limit, **loading):
        loaded, about = transformers.LlamaForCausalLM.from_pretrained(
            directory, output_loading_info=True, **loading)
        self.assertFalse(any(about.values()), about)
        self.assertEqual(loaded.config.max_position_embeddings, LENGTH)
        inputs = tokens_for(1)[:2 * LENGTH].view(2, LENGTH)
        mine = llama_reference.Llama(size).double()
        state = {name: value.double() for name, value in loaded.state_dict().items()}
        mine.load_state_dict({name: state[name] for name in mine.state_dict()})
        with torch.no_grad():
            found = error(loaded.double()(inputs).logits, mine(inputs))
        print(f"{self.id()}: {found:.2g}")
        self.assertLess(found, limit)
        return loaded

    def check(self, size, *flags):
        with Job() as job:
            job.train_llama(size, tokens_for(4), 4, f"""
              checkpoint {{ directory: "{job.name}/out" every_steps: 4 }}
              export_final: "{job.name}/final.safetensors" """)
            exported = job.export(4, "hf", *flags)
            loaded = self.compare_with_reference(exported, size, LIMIT, dtype=torch.float32)
            final = safetensors.torch.load_file(f"{job.name}/final.rank0.safetensors")
            files = sorted(os.listdir(exported))
        return loaded, final, files

    def test_llama_is_loaded_by_transformers(self):
        loaded, final, files = self.check(SIZE)
        self.assertEqual(files, ["config.json", "model.safetensors"])
        state = loaded.state_dict()
        self.assertEqual(set(state), set(final))
        for name, value in final.items():
            self.assertTrue(torch.equal(state[name].float(), value), name)

    def test_tied_llama_in_several_files(self):
        loaded, final, files = self.check({**SIZE, "tied": True}, "--max-shard-size", "40KB")
        self.assertIn("model.safetensors.index.json", files)
        self.assertGreater(len(files), 4)
        self.assertNotIn("lm_head.weight", final)
        self.assertIs(loaded.lm_head.weight, loaded.model.embed_tokens.weight)

    def test_halves_are_rounded_as_torch_rounds_them(self):
        for flag, dtype in [("bf16", torch.bfloat16), ("fp16", torch.float16)]:
            with self.subTest(flag):
                loaded, final, _ = self.check(SIZE, "--dtype", flag)
                for name, value in final.items():
                    ours = loaded.state_dict()[name].to(dtype)
                    self.assertTrue(torch.equal(ours, value.to(dtype)), name)

    def test_resnet18_has_the_names_of_torchvision(self):
        with Job() as job:
            generator = np.random.default_rng(1)
            images = generator.integers(0, 256, (16, 3, 32, 32)).astype(np.uint8)
            labels = generator.integers(0, 10, 16)
            reference.write_shard(f"{job.name}/train.shard", images, labels, 10)
            job.train(f"""
              name: "digits" ranks: 2 batch_per_rank: 4 steps: 2 model {{ resnet18 {{}} }}
              data {{ train: "{job.name}/train.shard" }}
              optimizer {{ sgd {{ momentum: 0.9 }} learning_rate: 0.01 }}
              checkpoint {{ directory: "{job.name}/out" every_steps: 2 }}
              export_final: "{job.name}/final.safetensors" """)
            state = safetensors.torch.load_file(job.export(2, "resnet18.safetensors"))
            final = safetensors.torch.load_file(f"{job.name}/final.rank0.safetensors")
            torch.save(state, f"{job.name}/resnet18.pt")
            again = torch.load(f"{job.name}/resnet18.pt")
        model = reference.ResNet18(3, 10)
        self.assertEqual(set(state), set(model.state_dict()))
        model.load_state_dict(again)
        self.assertEqual(state["bn1.num_batches_tracked"].item(), 2)
        for parameter, _ in model.named_parameters():
            self.assertTrue(torch.equal(state[parameter], final[parameter]), parameter)


class ImportTest(unittest.TestCase):
    def hugging_face_model(self, tied):
        torch.manual_seed(7)
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(
            hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            intermediate_size=96, vocab_size=90, rms_norm_eps=SIZE["epsilon"],
            rope_theta=SIZE["theta"], rope_parameters={
                "rope_type": "default", "rope_theta": SIZE["theta"]},
            max_position_embeddings=LENGTH, tie_word_embeddings=tied))

    def check(self, tied, dtype, **saving):
        model = self.hugging_face_model(tied).to(dtype)
        tokens = tokens_for(1)
        with Job() as job:
            model.save_pretrained(f"{job.name}/hf", **saving)
            files = os.listdir(f"{job.name}/hf")
            job.train_llama({**SIZE, "tied": tied}, tokens, 1, f"""
              init_from: "{job.name}/hf" export_final: "{job.name}/final.safetensors" """)
            final = safetensors.torch.load_file(f"{job.name}/final.rank0.safetensors")
            model = transformers.LlamaForCausalLM.from_pretrained(
                f"{job.name}/hf", dtype=torch.float32).double()

        # The same step in transformers.
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        inputs, targets = tokens[:-1].view(4, LENGTH), tokens[1:].view(4, LENGTH)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        F.cross_entropy(model(inputs).logits.flatten(0, 1), targets.flatten()).backward()
        optimizer.step()
        expected = {name: value for name, value in model.state_dict().items() if name in final}
        self.assertEqual(set(final), {name for name, _ in model.named_parameters()})
        moved = max(error(before[name], value) for name, value in expected.items())
        found = max(error(final[name], value) for name, value in expected.items())
        print(f"{self.id()}: {found:.2g}, moved {moved:.2g}")
        self.assertGreater(moved, 1e-3)
        self.assertLess(found, LIMIT)
        return files

    def test_one_file(self):
        self.assertIn("model.safetensors", self.check(False, torch.float32))

    def test_several_files_in_bf16_with_a_tied_embedding(self):
        files = self.check(True, torch.bfloat16, max_shard_size="20KB")
        self.assertIn("model.safetensors.index.json", files)


class DistributedCheckpointTest(unittest.TestCase):
    def test_a_jobs_checkpoint_is_loaded(self):
        with Job() as job:
            job.train_llama(SIZE, tokens_for(2), 2, f"""
              checkpoint {{ directory: "{job.name}/out" every_steps: 2 }}
              export_final: "{job.name}/final.safetensors" """)
            state = {"model": llama_reference.Llama(SIZE).state_dict()}
            dcp.load(state, storage_reader=PacelineReader(job.checkpoint(2)))
            final = safetensors.torch.load_file(f"{job.name}/final.rank0.safetensors")
        self.assertLessEqual(set(final), set(state["model"]))
        for name, value in final.items():
            self.assertTrue(torch.equal(state["model"][name], value), name)

    def test_a_job_continues_from_what_was_saved(self):
        torch.manual_seed(2)
        state = {"model": llama_reference.Llama(SIZE).state_dict(),
                 "rng/cpu": torch.get_rng_state()}
        final = {}
        for given in ("init_from", "--restore"):
            with Job() as job:
                saved = f"{job.name}/in/step-000000000003.g1"
                dcp.save(state, storage_writer=PacelineWriter(saved))
                run(PACELINE, "checkpoint", "verify", saved)
                run(PACELINE, "checkpoint", "export", saved, "--to", f"{job.name}/in.safetensors")
                exported = safetensors.torch.load_file(f"{job.name}/in.safetensors")
                self.assertEqual(set(exported), set(state["model"]))
                for name, value in exported.items():
                    self.assertTrue(torch.equal(state["model"][name], value), name)
                # Both make two steps with the first batches.
                restored = given == "--restore"
                job.train_llama(
                    SIZE, tokens_for(5), 5 if restored else 2,
                    f'export_final: "{job.name}/final.safetensors" '
                    + ("" if restored else f'init_from: "{saved}"'),
                    *(["--restore", saved] if restored else []))
                final[given] = safetensors.torch.load_file(f"{job.name}/final.rank0.safetensors")
        for name, value in final["init_from"].items():
            self.assertGreater(error(value, state["model"][name]), 1e-6, name)
            self.assertLess(error(final["--restore"][name], value), LIMIT, name)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
