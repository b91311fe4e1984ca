"""The Trainer of transformers as a session (docs/adapters.md).

    from paceline.hf import Trainer      # in the place of transformers'

    trainer = Trainer(model=model, args=args, train_dataset=dataset)
    trainer.train()

The loop over steps is a session's; what makes a step is transformers': training_step, compute_loss,
the optimizer and its schedule, callbacks and logs.
"""

from __future__ import annotations

import copy
import math
import os
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Optional

import torch

import paceline
from paceline._adapters import check_environment, loader_like
from paceline._hf_checks import (accumulation_of, check_arguments, check_job, check_overrides,
                                 steps_alone)
from paceline._hf_progress import Progress
from paceline._transformers import BaseTrainer, accelerate, transformers
from paceline.state import random_numbers, restore_random_numbers

if TYPE_CHECKING:
    from paceline.loader import Loader
    from paceline.session import Run
    from paceline.step import Step


class Session(BaseTrainer):
    """Makes a session of a Trainer that is derived from transformers': `class Mine(Session,
    TheirTrainer)`. Its arguments are those of the Trainer, and:

    run: what paceline.init() has returned; None: it is called here.

    Raises ValueError or RuntimeError for what does not go with a session, and says what to do.
    """

    run: Run
    _loader: Loader
    _step: Step
    _progress: Progress

    def __init__(self, model: Any = None, args: Any = None, *others: Any,
                 run: Optional[Run] = None, **keywords: Any) -> None:
        check_environment()
        check_overrides(type(self))
        args = transformers.TrainingArguments("tmp_trainer") if args is None else copy.copy(args)
        check_arguments(args)
        is_job = "PACELINE_SOCKET" in os.environ
        if is_job:
            run = run or paceline.init()
            _take_device(run.device, args)
        if run is not None:
            check_job(run, args)
        args._n_gpu = min(args.n_gpu, 1)  # A process is one rank: no nn.DataParallel.
        super().__init__(model, args, *others, **keywords)
        if self.eval_dataset is not None and (isinstance(self.eval_dataset, dict)
                                              or not hasattr(self.eval_dataset, "__len__")):
            raise TypeError("a session divides the samples of an evaluation among its ranks; give "
                            "one eval_dataset that has a length, no dict and no IterableDataset")
        self.run = run or paceline.init(
            steps=steps_alone(args, self.train_dataset), accumulation_steps=accumulation_of(args),
            batch_per_rank=args.per_device_train_batch_size, seed=args.seed)
        args.max_steps = self.run.total_steps
        if is_job:  # Any rank may become the one that is shown, and a bar has a beginning.
            self.remove_callback(transformers.ProgressCallback)
            self.remove_callback(transformers.PrinterCallback)
            self.add_callback(transformers.PrinterCallback)
        self.current_gradient_accumulation_steps = 1
        self._said: List[str] = []
        self._ignored_keys: Any = None  # Of the model's outputs, for evaluations.
        self._backwards = 0  # Calls of accelerator.backward.
        self._sum: Any = 0.0  # Of the losses since the newest log,
        self._summed = 0      # and of how many steps.
        self._total, self._made = 0.0, 0
        strategy: Mapping[str, Any] = self.run.spec.get("strategy") or {}
        self._shares_gradients = set(strategy) <= {"ddp"}
        checkpoint: Mapping[str, Any] = self.run.spec.get("checkpoint") or {}
        self._no_saves = ""  # Why save_strategy makes none.
        if not checkpoint.get("directory"):
            self._no_saves = "the job's file has no checkpoint.directory"
        elif "slipstream" in strategy:
            self._no_saves = ("with strategy slipstream only checkpoint.every_steps of the job's "
                              "file does")

    def is_world_process_zero(self) -> bool:
        """Whether this is rank 0 at present."""
        return self.run.rank == 0 if "run" in self.__dict__ else False

    is_local_process_zero = is_world_process_zero

    def save_model(self, output_dir: Optional[str] = None, _internal_call: bool = False) -> None:
        """As transformers', on rank 0 alone."""
        if self.is_world_process_zero():
            super().save_model(output_dir, _internal_call)

    def train(self, resume_from_checkpoint: Any = None, *others: Any, **keywords: Any) -> Any:
        """As transformers'. Makes the steps that this rank has to make until the job has all.

        Raises ValueError with resume_from_checkpoint: a session goes on by itself.
        """
        if resume_from_checkpoint:
            raise ValueError("resume_from_checkpoint does not go with a session, which goes on "
                             "from its own checkpoints (checkpoint.directory of the job's file, "
                             "and `paceline job resume`); leave it out")
        if any(others) or keywords.get("trial") is not None:
            raise ValueError("a session makes one training: hyperparameter_search (trial) and "
                             "further arguments of train() do not go with it")
        if "_progress" in self.__dict__:
            raise RuntimeError("train() was called before; a session trains once, so make another "
                               "Trainer (in a job, another job)")
        return super().train(**keywords)

    def _inner_training_loop(self, *_arguments: Any, ignore_keys_for_eval: Any = None,
                             **_keywords: Any) -> Any:
        """The session's, in the place of transformers'."""
        self._ignored_keys = ignore_keys_for_eval
        self._loader = loader_like(self.run, self.get_train_dataloader())
        self._attach()
        started = time.time()
        if self.eval_dataset is not None:
            self.run.evaluation(self._evaluate_share)
        self._notify("on_train_begin")
        for step in self.run.steps(rehearse=bool(self.args.torch_compile)):
            with step:
                self._make_step(step)
        return self._finish_training(started)

    def _attach(self) -> None:
        """Makes optimizer and schedule, as transformers does, and attaches them."""
        args, run = self.args, self.run
        if not any(p.requires_grad for p in self.model.parameters()):
            raise ValueError("no parameter of the model requires gradients")
        self.create_optimizer()
        # Autocast and torch.compile. Of the optimizer, accelerate would make one of its own.
        self.model_wrapped = self.accelerator.prepare(self.model)
        self.create_scheduler(num_training_steps=run.total_steps)
        self.accelerator.backward = self._backward
        self.state = transformers.TrainerState()
        self.state.train_batch_size = run.batch_per_rank
        self.state.max_steps = run.total_steps
        steps_of_epoch = max(len(self._loader) // accumulation_of(args), 1)
        self.state.num_train_epochs = math.ceil(run.total_steps / steps_of_epoch)
        self._take_rank()
        self.state.compute_steps(args, run.total_steps)
        self._progress = Progress(self)
        self._initial_num_input_tokens_seen = 0
        find_unused = args.ddp_find_unused_parameters
        if find_unused is None:  # Transformers' rule.
            find_unused = not (args.gradient_checkpointing
                               or getattr(self.model, "is_activation_checkpointing", False))
        scaler = self.accelerator.scaler
        run.attach(self.model, self.optimizer, self.lr_scheduler,
                   *([] if scaler is None else [scaler]), own=[self._progress],
                   unused_parameters=find_unused)
        handler = self.callback_handler
        handler.model, handler.train_dataloader = self.model, self._loader
        handler.optimizer, handler.lr_scheduler = self.optimizer, self.lr_scheduler

    def _make_step(self, step: Step) -> None:
        is_told = not step.rehearsal
        self._step = step
        self.state.global_step = step.number
        self._take_rank()
        self.current_gradient_accumulation_steps = step.passes
        if is_told:
            if not self._progress.in_epoch:
                self._progress.in_epoch = True
                self._notify("on_epoch_begin")
            self._notify("on_step_begin")
        loss = self._make_passes(step)
        grad_norm = self._grad_norm() if is_told and self._will_log(step) else None
        if is_told:
            self._notify("on_pre_optimizer_step")
        updated = step.update(clip=float(self.args.max_grad_norm or 0))
        if is_told:
            self._notify("on_optimizer_step")
        learning_rate = _number(self.lr_scheduler.get_last_lr()[0])
        if updated:
            self.lr_scheduler.step()
        if is_told:
            self._end_step(step, loss, {"grad_norm": grad_norm, "learning_rate": learning_rate})

    def _make_passes(self, step: Step) -> Any:
        """Returns the loss of the step, a tensor: the sum of what training_step has returned."""
        count: Any = None
        loss: Any = 0.0
        flos = 0.0
        for number, inputs in enumerate(step.batches(self._loader)):
            if number == 0:
                count = self._items_in([inputs, *self._loader._ahead(step.passes - 1)])
            elif not step.rehearsal:
                self._notify("on_substep_end")
            before = self._backwards
            loss = loss + self.training_step(self.model_wrapped, inputs, count)
            if self._backwards != before + 1:
                raise RuntimeError(f"training_step of {type(self).__name__} has called "
                                   f"self.accelerator.backward {self._backwards - before} times; "
                                   "in a session it makes one pass: one call for each batch, and "
                                   "no loop and no optimizer of its own")
            if not step.rehearsal:
                flos += float(self.floating_point_ops(inputs))
                self._track_num_input_tokens(inputs)
        self.current_flos += flos
        return loss

    def _items_in(self, batches: List[Any]) -> Any:
        """What the step's losses are divided by, as transformers counts it; None: they are means.
        The mean over all ranks with average_tokens_across_devices."""
        _, count = self.get_batch_samples(iter(batches), len(batches), self.args.device)
        if (count is None or self.run.world_size == 1 or not self._shares_gradients
                or not self.args.average_tokens_across_devices):
            return count
        total = torch.as_tensor(count, dtype=torch.float64, device=self.run.device).clone()
        self._sum_over_ranks(total)
        return (total / self.run.world_size).to(torch.float32)

    def _backward(self, loss: torch.Tensor, **others: Any) -> None:
        """In the place of accelerator.backward. The loss is divided by the passes already, and
        step.backward does so again."""
        if others:
            raise TypeError(f"accelerator.backward({', '.join(others)}=...) is not known to a "
                            "session; optimizers that step in the backward pass (LOMO) do not go "
                            "with it")
        self._backwards += 1
        self._step.backward(loss if self._step.passes == 1 else loss * self._step.passes)

    def _grad_norm(self) -> float:
        """Before clipping, over what this rank's update is made of."""
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = _number(torch.nn.utils.get_total_norm(grads))
        scaler = self.accelerator.scaler
        return norm if scaler is None else norm / float(scaler.get_scale())

    def _will_log(self, step: Step) -> bool:
        """As DefaultFlowCallback will say of it."""
        strategy = str(getattr(self.args.logging_strategy, "value", self.args.logging_strategy))
        return (strategy == "steps" and (step.number + 1) % self.state.logging_steps == 0
                or step.number == 0 and bool(self.args.logging_first_step)
                or strategy == "epoch" and self._epochs_done() > self._progress.epochs)

    def _epochs_done(self) -> int:
        """Of how many epochs all batches were taken."""
        epoch, offset = self._loader._position
        of_all = self._loader.batch * self.run.data_world_size
        return epoch + int(self._loader.samples - offset < of_all)

    def _take_rank(self) -> None:
        self.state.is_local_process_zero = self.state.is_world_process_zero = self.run.rank == 0

    def _end_step(self, step: Step, loss: Any, numbers: Dict[str, Optional[float]]) -> None:
        """What transformers does behind an update, as far as it is a session's."""
        state = self.state
        loss = loss.detach()
        if self.args.logging_nan_inf_filter and not bool(torch.isfinite(loss)):
            loss = self._sum / max(self._summed, 1)
        self._sum = self._sum + loss
        self._summed += 1
        self._made += 1
        state.global_step = step.number + 1
        epochs, (epoch, offset) = self._epochs_done(), self._loader._position
        state.epoch = float(epochs) if epochs > epoch else epoch + offset / self._loader.samples
        self._notify("on_step_end")
        self._obey(numbers)
        if epochs > self._progress.epochs:
            self._progress.epochs = epochs
            self._progress.in_epoch = False
            self._notify("on_epoch_end")
            self._obey(numbers)

    def _obey(self, numbers: Dict[str, Optional[float]]) -> None:
        """Does what callbacks have asked for behind a step."""
        control, done, steps = self.control, self.state.global_step, self.run.total_steps
        if control.should_log and self._summed > 0:
            self._log_step(numbers)
        if control.should_save:
            self._ask_for_save()
        if control.should_evaluate:
            self._say_once("a callback asks for an evaluation, which a session makes when "
                           "evaluation.every of the job's file says so")
        if control.should_epoch_stop or control.should_training_stop and done < steps:
            raise RuntimeError(f"a callback asks to stop behind step {done}, and a session makes "
                               f"all {steps} steps of its job; leave the callback out, and end the "
                               "job by `paceline job cancel`")

    def _log_step(self, numbers: Dict[str, Optional[float]]) -> None:
        total = _number(self._sum)
        logs = {"loss": total / self._summed,
                **{name: value for name, value in numbers.items() if value is not None}}
        self._total += total
        self._sum, self._summed = self._sum * 0, 0
        self.store_flos()
        self.run.report(**logs)
        self.log(logs)

    def _ask_for_save(self) -> None:
        if not self._no_saves:
            self.run.save()
            self._notify("on_save")
        elif "PACELINE_SOCKET" in os.environ:
            self._say_once(f"save_strategy asks for a checkpoint, and {self._no_saves}: nothing is "
                           "saved. The Trainer's own checkpoints are off in a session; "
                           "trainer.save_model() writes the model at the end")

    def _evaluate_share(self, rank: int, world_size: int) -> paceline.Score:
        """Evaluates every world_size-th sample. Logs means over all ranks."""
        dataset = self.eval_dataset
        if len(dataset) < world_size:
            raise ValueError(f"eval_dataset has {len(dataset)} samples, fewer than the "
                             f"{world_size} ranks, which share them")
        share = torch.utils.data.Subset(dataset, range(rank, len(dataset), world_size))
        self.__dict__.pop("_eval_dataloaders", None)  # transformers keeps that of another share.
        numbers = random_numbers()  # An evaluation may be made again, and must change nothing.
        output = self.evaluation_loop(
            self.get_eval_dataloader(share), description="Evaluation",
            prediction_loss_only=True if self.compute_metrics is None else None,
            ignore_keys=self._ignored_keys)
        restore_random_numbers(numbers)
        if "eval_loss" not in output.metrics:
            raise ValueError("the evaluation gives no loss; a session's evaluation needs labels in "
                             "eval_dataset")
        count = float(len(share))
        metrics = {name: float(value) for name, value in sorted(output.metrics.items())
                   if isinstance(value, (int, float))}
        score = paceline.Score(loss=metrics["eval_loss"] * count, count=count)
        if "eval_accuracy" in metrics:
            score.correct = metrics["eval_accuracy"] * count
        if world_size > 1 and self._shares_gradients:
            sums = torch.tensor([*metrics.values(), 1.0], dtype=torch.float64) * count
            sums = self._sum_over_ranks(sums.to(self.run.device)).cpu()
            metrics = {name: float(one / sums[-1]) for name, one in zip(metrics, sums)}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control,
                                                         metrics)
        return score

    def _sum_over_ranks(self, tensor: torch.Tensor) -> torch.Tensor:
        """In place. Inside of a step's block or an evaluation, on all ranks alike."""
        # Whose own types are partial.
        all_reduce: Callable[..., Any] = getattr(torch.distributed, "all_reduce")
        all_reduce(tensor, group=self.run.process_group)
        return tensor

    def _finish_training(self, started: float) -> Any:
        self._total += _number(self._sum)
        self.store_flos()
        samples = self._made * self.run.batch_per_rank * self.current_gradient_accumulation_steps
        metrics = transformers.trainer_utils.speed_metrics(
            "train", started, num_samples=samples, num_steps=self._made)
        metrics["total_flos"] = self.state.total_flos
        metrics["train_loss"] = self._total / max(self._made, 1)
        if self.run.rank >= 0:
            self.log(metrics)
        self._notify("on_train_end")
        hook = self.__dict__.get("neftune_hook_handle")
        if hook is not None:
            hook.remove()
        self.is_in_train = False
        return transformers.trainer_utils.TrainOutput(
            self.state.global_step, metrics["train_loss"], metrics)

    def _notify(self, event: str) -> Any:
        self.control = getattr(self.callback_handler, event)(self.args, self.state, self.control)
        return self.control

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.append(text)
            print(f"paceline.hf: {text}", flush=True)


class Trainer(Session):
    """transformers.Trainer as a session, with its arguments, and `run` as of Session."""


def _take_device(device: torch.device, args: Any) -> None:
    """The Trainer's device becomes the rank's: TrainingArguments take the node's first GPU."""
    if args.device.type != device.type:
        raise ValueError(f"the job trains on {device.type}, and TrainingArguments have chosen "
                         f"{args.device}; give use_cpu={device.type == 'cpu'} there, or another "
                         "`device` in the job's file")
    if device.type == "cuda":
        args.__dict__["_setup_devices"] = device  # Which is cached there.
        torch.cuda.set_device(device)
        accelerate.PartialState().device = device


def _number(value: Any) -> float:
    return float(value.item()) if isinstance(value, torch.Tensor) else float(value)
