"""A user's script with transformers' Trainer as a session: a small GPT-2 with dropout on random
tokens. At the end it writes all that it has trained to OUT.

`AT` has, for each generation from the first on and separated by commas, `event step rank`: the rank
kills itself there. HABITS are words for what the script does besides: save, tokens (samples have
different numbers of labels).
"""

import os
import signal
import sys

import torch
import transformers
from transformers import GPT2Config, GPT2LMHeadModel, TrainerCallback, TrainingArguments

from paceline.hf import Trainer

settings = os.environ
habits = settings.get("HABITS", "").split()
AT = [moment.split() for moment in settings.get("AT", "").split(",")]


def at(event, step):
    run = trainer.run
    moment = AT[run.generation - 1] if 0 < run.generation <= len(AT) else []
    if moment[:3] == [event, str(step), str(run.rank)]:
        os.kill(os.getpid(), signal.SIGKILL)


class Moments(TrainerCallback):
    """The events of a step by which a rank may die. state.global_step counts the steps done."""

    def on_step_begin(self, args, state, control, **_others):
        at("begin", state.global_step)

    def on_pre_optimizer_step(self, args, state, control, **_others):
        at("before_update", state.global_step)

    def on_optimizer_step(self, args, state, control, **_others):
        at("updated", state.global_step)

    def on_step_end(self, args, state, control, **_others):
        if "save" in habits and state.global_step == 8:
            control.should_save = True

    def on_evaluate(self, args, state, control, **_others):
        at("evaluation", 0)


class Dying(Trainer):
    """Passes a moment in each backward pass."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, outputs = super().compute_loss(model, inputs, True, num_items_in_batch)
        if model.training:
            step = self.state.global_step
            outputs.logits.register_hook(lambda _gradient: at("backward", step))
        return (loss, outputs) if return_outputs else loss


transformers.set_seed(1)
torch.set_num_threads(1)
model = GPT2LMHeadModel(GPT2Config(
    vocab_size=40, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0))
generator = torch.Generator().manual_seed(2)
data = [{"input_ids": ids, "labels": ids.clone()}
        for ids in torch.randint(0, 40, (203, 12), generator=generator)]
if "tokens" in habits:
    for number, sample in enumerate(data):
        sample["labels"][:number % 7] = -100
trainer = Dying(
    model=model, train_dataset=data, eval_dataset=data[:20], callbacks=[Moments()],
    args=TrainingArguments(settings["OUT"], logging_steps=4, report_to=[], use_cpu=True, seed=1,
                           learning_rate=1e-2, save_strategy="no", dataloader_pin_memory=False))
trainer.train()
if trainer.run.rank >= 0:
    state = [p.detach() for p in model.parameters()]
    for one in trainer.optimizer.state.values():
        state += [one[name] for name in sorted(one)]
    state += [torch.tensor(trainer.lr_scheduler.get_last_lr()), torch.rand(1),
              torch.tensor([float(trainer.state.global_step), trainer.state.epoch])]
    with open(f"{settings['OUT']}/final.rank{trainer.run.rank}.safetensors", "wb") as file:
        for tensor in state:
            file.write(tensor.double().numpy().tobytes())
print("logged steps", *[entry["step"] for entry in trainer.state.log_history if "loss" in entry])
print("the script has ended", flush=True)
sys.stdout.flush()
