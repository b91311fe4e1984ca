"""Lightning's Trainer as a session (docs/adapters.md).

    run = paceline.init()
    trainer = Trainer(strategy=paceline.lightning.Strategy(run), accelerator="cpu")
    trainer.fit(module, train_dataloaders=loader)

Lightning's loop makes each step, inside of a session's block; the session says which step comes
next, and with which samples.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Optional

import torch

from paceline._adapters import check_environment, loader_like
from paceline._lightning import (BaseEpochLoop, BaseOptimization, BaseStrategy, call, is_overridden,
                                 rank_zero_only)
from paceline.reported import MOST_NAMES

if TYPE_CHECKING:
    from paceline.loader import Loader
    from paceline.session import Run
    from paceline.step import Step


class Strategy(BaseStrategy):
    """Makes trainer.fit() a session's training.

    run: what paceline.init() has returned.
    find_unused_parameters: a step may leave some out.

    fit() raises ValueError or RuntimeError for what does not go with a session, and says what to
    do.
    """

    def __init__(self, run: Run, *, find_unused_parameters: bool = False) -> None:
        check_environment()
        super().__init__(device=run.device)
        self._run = run
        self._find_unused_parameters = find_unused_parameters
        self._session_loader: Optional[Loader] = None
        self._take_rank()

    @property
    def is_global_zero(self) -> bool:
        """Whether this is rank 0 at present, which alone writes Lightning's own checkpoints."""
        return self._run.rank == 0

    def setup_environment(self) -> None:
        super().setup_environment()
        self._take_rank()

    def setup(self, trainer: Any) -> None:
        """Makes the session's loop that of the Trainer, and attaches what is trained."""
        if trainer.state.fn != "fit":
            super().setup(trainer)
            return
        _check_trainer(trainer, self._run, self.lightning_module)
        # SIGTERM is the session's, which stops between two steps. Lightning would take it away.
        trainer._signal_connector.register_signal_handlers = lambda: None
        former = trainer.fit_loop.epoch_loop
        trainer.fit_loop.max_epochs = -1  # The job's steps end it. Schedules ask for their number.
        former.max_steps = self._run.total_steps
        super().setup(trainer)
        _check_training(self)
        loop = _EpochLoop(trainer, self, former)
        trainer.fit_loop.epoch_loop = loop
        progress = _Progress(trainer.fit_loop)
        self._run.attach(self.lightning_module, self.optimizers[0],
                         *(config.scheduler for config in self.lr_scheduler_configs),
                         own=[progress], unused_parameters=self._find_unused_parameters)

    def process_dataloader(self, dataloader: Any) -> Any:
        """Takes the samples of the training. The batches come from the session."""
        trainer = self.lightning_module.trainer
        if not trainer.training:
            return dataloader
        if self._session_loader is not None or not isinstance(
                dataloader, torch.utils.data.DataLoader):
            raise ValueError("a session has one DataLoader of training samples, which is not "
                             "reloaded; give fit() one, and no reload_dataloaders_every_n_epochs")
        if dataloader.batch_size not in (None, 1, self._run.batch_per_rank):
            raise ValueError(f"batch_size={dataloader.batch_size} of the DataLoader is not "
                             f"batch_per_rank of the session, {self._run.batch_per_rank}; give "
                             "both the same")
        self._session_loader = loader_like(self._run, dataloader)
        return _NoBatches()

    def optimizer_step(self, optimizer: Any, closure: Callable[[], Any], model: Any = None,
                       **kwargs: Any) -> Any:
        """Forward and backward pass, and the update."""
        result = closure()
        trainer = self.lightning_module.trainer
        call._call_callback_hooks(trainer, "on_before_optimizer_step", optimizer)
        call._call_lightning_module_hook(trainer, "on_before_optimizer_step", optimizer)
        loop: _EpochLoop = trainer.fit_loop.epoch_loop
        loop.step.update(clip=float(trainer.gradient_clip_val or 0))
        return result

    def on_train_end(self) -> None:
        """Raises RuntimeError if the job has steps left."""
        loop: _EpochLoop = self.lightning_module.trainer.fit_loop.epoch_loop
        if not loop.is_at_the_end:
            raise RuntimeError(f"a callback has ended fit() behind step {loop.step.number + 1}, "
                               f"and a session makes all {self._run.total_steps} steps of its job; "
                               "leave the callback (EarlyStopping, max_time) out, and end the job "
                               "by `paceline job cancel`")

    def _take_rank(self) -> None:
        self.global_rank = self._run.rank
        rank_zero_only.rank = self._run.rank


class _EpochLoop(BaseEpochLoop):
    """Lightning's loop over the batches of an epoch, in which each advance is a session's step."""

    step: Step  # Under way.

    def __init__(self, trainer: Any, strategy: Strategy, former: Any) -> None:
        super().__init__(trainer, former.min_steps, -1)
        self.val_loop = former.val_loop
        self.automatic_optimization = _Optimization(trainer)
        self._strategy = strategy
        self._session = strategy._run
        self._steps: Optional[Iterator[Step]] = None
        self._following: List[Step] = []  # Of _steps: what has been asked for ahead, at most one.
        self._untold = 0  # Epochs that have ended in the newest step, but for the first.
        self.is_at_the_end = False  # The job has no more steps for this rank.
        self._is_last_pass = True
        self._said = False

    def advance(self, data_fetcher: Any) -> None:
        if self._untold:
            self._tell_of_epoch()
            raise StopIteration
        if self._steps is None:
            self._steps = self._session.steps()
        while True:
            step = self._following.pop() if self._following else next(self._steps, None)
            if step is None:
                self._end()
                raise StopIteration
            self._strategy._take_rank()
            with step:
                self._make(step)
            if step.done:
                break
            self.trainer.lightning_module._current_fx_name = None  # Of the hook that was cut off.
        if step.number + 1 >= self._session.total_steps:
            self._ask_for_the_end()

    def _make(self, step: Step) -> None:
        loader = self._strategy._session_loader
        assert loader is not None
        self.step = step
        told: int = self.trainer.fit_loop.epoch_progress.current.processed
        batches = _Batches(step, loader, self._session, told)
        for number in range(step.passes):
            self._is_last_pass = number + 1 == step.passes
            try:
                super().advance(batches)
            except StopIteration as error:
                raise RuntimeError("on_train_batch_start has returned -1 to leave the epoch, and a "
                                   "session makes all steps of its job") from error
        self._untold = max(0, batches.ended - 1)
        if (step.number + 1) % self.trainer.log_every_n_steps == 0:
            self._report()

    def _ask_for_the_end(self) -> None:
        """Evaluates and saves what is due behind the last step, before Lightning says that it is at
        the end of the training."""
        assert self._steps is not None
        step = next(self._steps, None)
        if step is None:
            self._end()
        else:
            self._following.append(step)

    def _tell_of_epoch(self) -> None:
        """Ends an epoch whose batches were all in the newest step, which was the former epoch's."""
        self._untold -= 1
        self.batch_progress.is_last_batch = True
        self.update_lr_schedulers("epoch", update_plateau_schedulers=False)
        if self.is_at_the_end:
            self._end()

    def _should_check_val_epoch(self) -> bool:
        """Whether to validate behind this epoch, or behind another one that has ended with it."""
        every = self.trainer.check_val_every_n_epoch
        if every is None or not self._untold:
            return bool(super()._should_check_val_epoch())
        first = self.trainer.current_epoch + 1
        return self.trainer.enable_validation and any(
            number % every == 0 for number in range(first, first + self._untold + 1))

    def _end(self) -> None:
        self.is_at_the_end = True
        if not self._untold:
            self.max_steps = self.global_step  # Which ends Lightning's loops.

    def _report(self) -> None:
        numbers = {name: value for name, value in sorted(self.trainer.callback_metrics.items())
                   if re.fullmatch(r"[A-Za-z0-9_./-]{1,64}", name)}
        if len(numbers) > MOST_NAMES and not self._said:
            self._said = True
            print(f"paceline.lightning: the module logs {len(numbers)} names, and the first "
                  f"{MOST_NAMES} are reported", flush=True)
        self._session.report(**dict(list(numbers.items())[:MOST_NAMES]))

    def _should_accumulate(self) -> bool:
        return not self._is_last_pass


class _Optimization(BaseOptimization):
    """A session drops the gradients at the end of a step, and no batch of it does."""

    def _make_zero_grad_fn(self, batch_idx: int, optimizer: Any) -> None:
        return None


class _Batches:
    """The batches of a step, as Lightning's data fetchers give them.

    An epoch that ends in the middle of the step ends for Lightning behind its last batch: what
    Lightning does then, as to validate, cannot be done within a step.

    told: epochs of which Lightning knows that they have ended.
    """

    def __init__(self, step: Step, loader: Loader, run: Run, told: int) -> None:
        self._batches = step.batches(loader)
        self._loader, self._run = loader, run
        self._left = step.passes
        self._told = told
        self.ended = 0  # Epochs that have ended behind the newest batch, without those told.

    @property
    def done(self) -> bool:
        """Whether the newest batch is the last one of Lightning's epoch."""
        return self.ended > 0 and not self._left

    def __next__(self) -> Any:
        batch = next(self._batches)
        self._left -= 1
        epoch, taken = self._loader._position
        left = self._loader.samples - taken
        is_at_its_end = left < self._loader.batch * self._run.data_world_size
        self.ended = epoch + int(is_at_its_end) - self._told
        return batch, 0, 0


class _NoBatches:
    """In the place of a DataLoader of which Lightning may take none."""

    def __iter__(self) -> Iterator[Any]:
        return iter(())


class _Progress:
    """Where Lightning's loops are. Attached, each rank's own."""

    def __init__(self, fit_loop: Any) -> None:
        self._fit_loop = fit_loop

    def state_dict(self) -> Dict[str, Any]:
        state: Dict[str, Any] = self._fit_loop.state_dict()
        return state

    def load_state_dict(self, loaded: Dict[str, Any]) -> None:
        loop = self._fit_loop
        epochs = loop.epoch_loop
        loop.load_state_dict(loaded)
        # It goes on in the middle of a run, and is no start of Lightning's own.
        for one in (loop, epochs, epochs.val_loop, epochs.automatic_optimization,
                    epochs.manual_optimization):
            one.on_iteration_done()


def _check_trainer(trainer: Any, run: Run, module: Any) -> None:
    """Raises ValueError for settings that do not go with a session."""
    given = {
        "accumulate_grad_batches": (trainer.accumulate_grad_batches == 1,
                                    "the job's file has accumulation_steps"),
        "limit_train_batches": (trainer.limit_train_batches == 1.0, "the job's file has steps"),
        "overfit_batches": (not trainer.overfit_batches, "give fit() the few samples"),
        "fast_dev_run": (not trainer.fast_dev_run, "run the script alone with few steps"),
        "max_steps": (trainer.max_steps in (-1, run.total_steps),
                      f"the job has {run.total_steps} steps"),
        "ckpt_path": (getattr(trainer, "ckpt_path", None) is None,
                      "a session goes on from its own checkpoints (checkpoint.directory of the "
                      "job's file, and `paceline job resume`)"),
        "gradient_clip_algorithm": (
            getattr(trainer.gradient_clip_algorithm, "value", None) in (None, "norm"),
            "a session clips by the norm of all gradients"),
        "configure_gradient_clipping": (
            not is_overridden("configure_gradient_clipping", module),
            "give gradient_clip_val; a session clips by the norm of all gradients"),
    }
    for name, (fits, remedy) in given.items():
        if not fits:
            raise ValueError(f"{name} does not go with a session: {remedy}; leave it out")
    if not module.automatic_optimization:
        raise ValueError("automatic_optimization = False does not go with a session under "
                         "Lightning, whose block is one step; write the loop yourself "
                         "(docs/session.md)")


def _check_training(strategy: Strategy) -> None:
    """Raises ValueError for optimizers and precisions that do not go with a session."""
    if len(strategy.optimizers) != 1:
        raise ValueError(f"configure_optimizers gives {len(strategy.optimizers)} optimizers, and a "
                         "session has one optimizer and one step")
    if any(config.reduce_on_plateau for config in strategy.lr_scheduler_configs):
        raise ValueError("ReduceLROnPlateau follows an evaluation, and a session's schedules go by "
                         "steps; choose another one")
    if getattr(strategy.precision_plugin, "scaler", None) is not None:
        raise ValueError("precision 16-mixed scales the loss by Lightning's own means, which does "
                         "not go with a session; use bf16-mixed")
