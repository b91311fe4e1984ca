"""The Trainer of transformers: two epochs of 6 batches, two of which are one step."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

model = LlamaForCausalLM(LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=16,
                                     num_hidden_layers=1, num_attention_heads=2))
ids = torch.randint(32, (24, 8))
data = [{"input_ids": row, "labels": row} for row in ids]
arguments = TrainingArguments(
    output_dir="trained", num_train_epochs=2, per_device_train_batch_size=4,
    gradient_accumulation_steps=2, eval_strategy="epoch", save_strategy="no", report_to=[],
    use_cpu=True, disable_tqdm=True)
Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=data[:8]).train()
