"""The Trainer of transformers fine-tunes a small Llama, made of a config, on sums of two digits.

Start:      paceline run --ranks 2 --max-restarts 3 examples/transformers_trainer.py --output /tmp/sums
On GPUs:    paceline run --ranks 8 --device cuda examples/transformers_trainer.py --output DIR
Or:         torchrun --nproc-per-node 2 examples/transformers_trainer.py --output /tmp/sums
"""

import argparse
import os

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


def samples():
    """"3+4=07" as tokens, of which only the result is to be learnt. In order: each rank has its own."""
    result = []
    for number in torch.randperm(100, generator=torch.Generator().manual_seed(0)).tolist():
        text = f"{number // 10}+{number % 10}={number // 10 + number % 10:02}"
        ids = [ord(character) for character in text]
        result.append({"input_ids": ids, "labels": [-100] * 4 + ids[4:]})
    return result


parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--output", required=True, help="folder of checkpoints")
parser.add_argument("--epochs", type=int, default=10)
parser.add_argument("--accumulate", type=int, default=2, help="batches of a step")
args = parser.parse_args()

torch.manual_seed(0)
model = LlamaForCausalLM(LlamaConfig(
    vocab_size=128, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
    num_attention_heads=4, max_position_embeddings=16))
arguments = TrainingArguments(
    output_dir=args.output, num_train_epochs=args.epochs, per_device_train_batch_size=4,
    gradient_accumulation_steps=args.accumulate, learning_rate=3e-3, eval_strategy="epoch",
    save_strategy="epoch", save_total_limit=2, logging_strategy="epoch", report_to=[],
    use_cpu=not torch.cuda.is_available())
data = samples()
trainer = Trainer(model=model, args=arguments, train_dataset=data[:80], eval_dataset=data[80:])
# After a restart it goes on from its own checkpoint.
trainer.train(resume_from_checkpoint=os.path.isdir(args.output) and get_last_checkpoint(args.output))
if trainer.is_world_process_zero():
    print(f"done after step {trainer.state.global_step}: "
          f"loss {trainer.state.log_history[-1]['train_loss']:.2f}", flush=True)
# Leaves the group of ranks; torch may abort where it outlives Python.
trainer.accelerator.end_training()
