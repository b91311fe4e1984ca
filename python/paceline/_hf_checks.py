"""What does not go with a session of transformers' Trainer: each is told, with what to do."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paceline.session import Run

# Of the Trainer's loop, which a session replaces.
_REPLACED = ("_inner_training_loop", "_run_epoch", "_maybe_log_save_evaluate", "_clip_grad_norm",
             "_get_grad_norm", "_prepare_for_training", "_wrap_model")


def check_overrides(trainer: type) -> None:
    """Raises TypeError if a class changes what a session makes in another way."""
    for kind in trainer.__mro__:
        if kind.__module__.split(".")[0] in ("transformers", "paceline"):
            continue
        for name in _REPLACED:
            if name in vars(kind):
                raise TypeError(f"{kind.__name__}.{name} changes the Trainer's own loop, which a "
                                "session does not use; override training_step, compute_loss, "
                                "create_optimizer, create_scheduler or log, or write a callback")


def check_arguments(args: Any) -> None:
    """Raises ValueError for TrainingArguments that do not go with a session."""
    remedies = {
        "deepspeed": "a session shares gradients by itself",
        "fsdp": "shard with run.mesh in a loop of your own (docs/session.md)",
        "parallelism_config": "shard with run.mesh in a loop of your own (docs/session.md)",
        "auto_find_batch_size": "the job's file has batch_per_rank",
        "load_best_model_at_end": "`paceline checkpoint export` takes any checkpoint",
        "push_to_hub": "call trainer.push_to_hub() behind trainer.train()",
        "enable_jit_checkpoint": "a job that is stopped saves by itself",
        "eval_on_start": "the job's file has evaluation: {every: N}",
    }
    for name, remedy in remedies.items():
        if getattr(args, name, None):
            raise ValueError(f"{name} of TrainingArguments does not go with a session: {remedy}")
    if _text(args.save_strategy) == "best":
        raise ValueError("save_strategy 'best' does not go with a session; give 'steps', 'epoch' "
                         "or 'no', or checkpoint.every_steps in the job's file")
    schedule = _text(args.lr_scheduler_type)
    if schedule in ("reduce_lr_on_plateau", "greedy"):
        raise ValueError(f"lr_scheduler_type '{schedule}' follows an evaluation, and a session's "
                         "schedules go by steps; choose another one")
    if _text(args.eval_strategy) != "no":
        raise ValueError(f"eval_strategy is '{_text(args.eval_strategy)}', and a session evaluates "
                         "when evaluation.every of the job's file says so, and at its end; leave "
                         "it out")


def check_job(run: Run, args: Any) -> None:
    """Raises ValueError where the job's file and TrainingArguments say different things, and takes
    over the file's. Those that are as by default say nothing."""
    of_job = {"max_steps": (run.total_steps, "steps"),
              "per_device_train_batch_size": (run.batch_per_rank, "batch_per_rank"),
              "gradient_accumulation_steps": (int(run.spec.get("accumulation_steps") or 1),
                                              "accumulation_steps")}
    defaults = {field.name: field.default for field in dataclasses.fields(args)}
    for name, (value, key) in of_job.items():
        given = getattr(args, name)
        if given not in (value, defaults[name]):
            raise ValueError(f"{name}={given} of TrainingArguments and {key}: {value} of the job's "
                             "file (alone: of paceline.init) differ; give it in one place")
        setattr(args, name, value)
    clip = float(run.spec.get("clip_grad_norm") or 0)
    if clip and clip != args.max_grad_norm:
        raise ValueError(f"max_grad_norm={args.max_grad_norm} of TrainingArguments and "
                         f"clip_grad_norm: {clip} of the job's file differ; make them equal")


def accumulation_of(args: Any) -> int:
    """Batches of a step of a script that runs alone."""
    return int(args.gradient_accumulation_steps)


def steps_alone(args: Any, dataset: Any) -> int:
    """Steps of a script that runs alone."""
    if args.max_steps > 0:
        return int(args.max_steps)
    if not hasattr(dataset, "__len__"):
        raise ValueError("train_dataset has no length, so give max_steps in TrainingArguments")
    a_step = args.per_device_train_batch_size * accumulation_of(args)
    epochs = float(args.num_train_epochs)
    return math.ceil(epochs * max(len(dataset) // int(a_step), 1))


def _text(value: Any) -> str:
    """Of one of transformers' enumerations, or of its name."""
    return str(getattr(value, "value", value))
