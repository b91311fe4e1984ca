"""The Trainer of transformers on a small GPT-2, by itself or with --session as one of Paceline's.

Reads 16-bit tokens. Prints, as ddp_step.py, one JSON object: {"starts_ns": [...],
"first_step_end_ns": N, "loss": last}, CLOCK_MONOTONIC nanoseconds.
"""
import argparse
import json
import os
import tempfile
import time

import numpy
import torch
import transformers

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", required=True, help="tokens")
parser.add_argument("--length", type=int, default=256, help="of a sequence")
parser.add_argument("--batch", type=int, default=8, help="samples per rank and step")
parser.add_argument("--width", type=int, default=256)
parser.add_argument("--layers", type=int, default=8)
parser.add_argument("--store", help="file where the ranks meet")
parser.add_argument("--rank", type=int, default=0)
parser.add_argument("--world", type=int, default=1)
parser.add_argument("--steps", type=int, default=30)
parser.add_argument("--threads", type=int, default=1)
parser.add_argument("--session", action="store_true", help="as a session of Paceline's")
args = parser.parse_args()


class Tokens(torch.utils.data.Dataset):
    """Sequences that follow each other."""

    def __init__(self, path, length):
        tokens = numpy.fromfile(path, dtype=numpy.uint16)
        self._tokens = torch.from_numpy(tokens.astype(numpy.int64))
        self._length = length

    def __len__(self):
        return len(self._tokens) // self._length

    def __getitem__(self, index):
        ids = self._tokens[index * self._length:(index + 1) * self._length]
        return {"input_ids": ids, "labels": ids}


class Starts(transformers.TrainerCallback):
    """Notes when steps begin, and the end of the first."""

    def __init__(self):
        self.starts, self.first_end = [], 0

    def on_step_begin(self, *_state, **_others):
        self.starts.append(time.monotonic_ns())

    def on_step_end(self, *_state, **_others):
        self.first_end = self.first_end or time.monotonic_ns()


def meet():
    """The ranks of the Trainer itself, as torchrun starts them."""
    os.environ.update(RANK=str(args.rank), LOCAL_RANK=str(args.rank), WORLD_SIZE=str(args.world),
                      LOCAL_WORLD_SIZE=str(args.world))
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{os.path.abspath(args.store)}", rank=args.rank,
        world_size=args.world)


def main():
    torch.set_num_threads(args.threads)
    if args.session:
        from paceline.hf import Trainer  # pylint: disable=import-outside-toplevel
    else:
        Trainer = transformers.Trainer
        if args.world > 1:
            meet()
    transformers.set_seed(1)
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(
        vocab_size=2048, n_positions=args.length, n_embd=args.width, n_layer=args.layers, n_head=8,
        bos_token_id=0, eos_token_id=0))
    starts = Starts()
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=model, train_dataset=Tokens(args.data, args.length), callbacks=[starts],
            args=transformers.TrainingArguments(
                folder, use_cpu=True, max_steps=-1 if args.session else args.steps,
                per_device_train_batch_size=args.batch, logging_steps=10, save_strategy="no",
                report_to=[], disable_tqdm=True, dataloader_pin_memory=False))
        trainer.remove_callback(transformers.PrinterCallback)  # Standard output is for the result.
        ended = trainer.train()
    print(json.dumps({"starts_ns": starts.starts, "first_step_end_ns": starts.first_end,
                      "loss": ended.training_loss}), flush=True)


if __name__ == "__main__":
    main()
