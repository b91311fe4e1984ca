"""Sessions: the engine of Paceline inside of a script's own training loop (docs/session.md).

    run = paceline.init()
    model = Net().to(run.device)
    optimizer = torch.optim.AdamW(model.parameters())
    run.attach(model, optimizer)
    loader = run.loader(dataset)

    for step in run.steps():
        with step:
            for inputs, targets in step.batches(loader):
                step.backward(loss_of(model(inputs), targets))
            step.update()

One thread makes the steps: that of the loop. Nothing here may be called from another one.
"""

import atexit
import dataclasses
import json
import os
import sys

import torch

from paceline.alone import AloneEngine
from paceline.errors import is_collective
from paceline.loader import Iterable, Loader
from paceline.state import State
from paceline.step import Step, route_backward

_ORPHAN_TIMEOUT_S = 600.0


@dataclasses.dataclass
class Score:
    """A rank's share of an evaluation, as sums over what it has evaluated.

    loss: sum of the losses; correct: number of right predictions, or -1 if there are none to count;
    count: number of predictions (images, tokens) that both sums are of.
    """

    loss: float
    correct: float = -1.0
    count: float = 1.0


def init(*, steps=100, batch_per_rank=32, seed=0):
    """Connects this process, a rank of a job with `session: true`, with its worker daemon.

    Call it once, before the model is made. Waits until the daemon has sent the job's file.

    Without a daemon (`python train.py`), the run has one rank, no telemetry and no checkpoints, so
    that a script can be tried by itself; only then `steps`, `batch_per_rank` and `seed` hold.

    Returns: a Run. Raises RuntimeError when the job is no session's, ImportError when this package
    does not fit the installed torch.
    """
    if "PACELINE_SOCKET" not in os.environ:
        return Run(AloneEngine(steps=steps, batch=batch_per_rank, seed=seed))
    if "PACELINE_SESSION" not in os.environ:
        raise RuntimeError("this job runs a command that is no session: add `session: true` to its "
                           "file, or do not call paceline.init()")
    run = Run(_load_engine().start(
        directory=os.environ["PACELINE_DIR"], socket=os.environ["PACELINE_SOCKET"],
        ring=os.environ["PACELINE_RING"],
        orphan_timeout_s=float(os.environ.get("PACELINE_ORPHAN_TIMEOUT_S", _ORPHAN_TIMEOUT_S))))
    run._report_the_end()  # pylint: disable=protected-access
    return run


def _load_engine():
    # pylint: disable=import-outside-toplevel
    try:
        from paceline._built_for import TORCH
    except ImportError:
        TORCH = torch.__version__  # Built here, from the sources.
    if not f"{torch.__version__}.".startswith(f"{TORCH}."):
        raise ImportError(f"this paceline is built for torch {TORCH}, and here is "
                          f"{torch.__version__}: pip install 'torch=={TORCH}.*'")
    try:
        from paceline._engine import Engine
    except ImportError as error:
        raise ImportError(f"the engine of paceline cannot be loaded into Python "
                          f"{sys.version.split()[0]} with torch {torch.__version__} ({error}): "
                          "install paceline's wheel in this environment") from error
    return Engine


class Run:
    """One rank's part of the training, as long as the process lives. Made by init()."""

    def __init__(self, engine):
        self._engine = engine
        self._order = None  # The newest.
        self._modules = {}
        self._optimizer = None
        self._scaler = None
        self._state = None
        self._unused_parameters = False
        self._evaluation = None
        self._loaders = []
        self._iterables = {}  # By the loader's id: the loader, and its batches.
        self._loaded = False
        self._slots_known = False
        self._done = False
        self._failed = False

    @property
    def rank(self):
        """This rank in the present generation, which may change from one step to the next; -1: it
        stands by."""
        return self._engine.rank if self._order is None else self._order.rank

    @property
    def world_size(self):
        """Number of ranks in the present generation; changes like rank."""
        return self._engine.world_size if self._order is None else self._order.world_size

    @property
    def generation(self):
        """How often the ranks have come together anew; 0 before the first step."""
        return 0 if self._order is None else self._order.generation

    @property
    def device(self):
        """The torch.device that this rank trains on."""
        return self._engine.device

    @property
    def total_steps(self):
        """Steps of the job."""
        return self._engine.steps

    @property
    def batch_per_rank(self):
        """Samples of a pass in the present generation."""
        return self._engine.batch if self._order is None else self._order.batch

    @property
    def seed(self):
        """The job's seed, equal on all ranks."""
        return self._engine.seed

    @property
    def spec(self):
        """The job's file with its defaults, as a dict."""
        return json.loads(self._engine.spec)

    def attach(self, model, optimizer, *others, own=(), unused_parameters=False):
        """Says what is trained. All of it is saved, restored, and sent to ranks that join.

        model: a Module, or {"name": Module}. Parameters that require gradients are trained; they
          keep their storage from now on: no .to(), .half() or p.data = ... (checked at each pass).
        optimizer: the one of these parameters, a torch.optim.Optimizer.
        others: what ranks that share gradients have alike, with state_dict and load_state_dict:
          schedulers, a GradScaler, an average of the weights.
        own: the same, of each rank for itself. torch's, Python's and NumPy's random numbers always
          are.
        unused_parameters: a step may leave some out, as find_unused_parameters of
          DistributedDataParallel.
        """
        if self._state is not None:
            raise RuntimeError("run.attach was called before; call it once, with all there is")
        modules = model if isinstance(model, dict) else {"": model}
        for name, module in modules.items():
            if not isinstance(module, torch.nn.Module):
                raise TypeError(f"model {name or 'argument'} is a {type(module).__name__}; attach "
                                "takes a torch.nn.Module, or a dict of them")
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(f"the optimizer is a {type(optimizer).__name__}; attach takes a "
                            "torch.optim.Optimizer")
        for one in (*others, *own):
            if not (hasattr(one, "state_dict") and hasattr(one, "load_state_dict")):
                raise TypeError(f"a {type(one).__name__} has no state_dict and load_state_dict, so "
                                "it cannot be saved; leave it out, or add them")
        trained = {id(p) for module in modules.values() for p in module.parameters()
                   if p.requires_grad}
        given = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if not given <= trained:
            raise ValueError(f"{len(given - trained)} of the optimizer's parameters are not of the "
                             "attached model, or do not require gradients")
        self._modules = modules
        self._optimizer = optimizer
        self._scaler = next((one for one in others if isinstance(one, torch.amp.GradScaler)), None)
        self._unused_parameters = unused_parameters
        self._state = State(self, optimizer, others, own)
        optimizer.register_step_pre_hook(self._before_optimizer)
        optimizer.register_step_post_hook(self._after_optimizer)
        route_backward()

    def loader(self, dataset, *, batch_size=None, shuffle=True, **of_dataloader):
        """A DataLoader over a map-style dataset whose position is two numbers.

        It goes on exactly after a restart, with another number of ranks too, and gives the batches
        of a step that was cut off once more. `batch_size`: that of the job's file if None. The
        other arguments are those of torch.utils.data.DataLoader.
        """
        if self._loaders:
            raise RuntimeError("run.loader was called before; a run has one loader")
        loader = Loader(self, dataset, batch_size, shuffle, of_dataloader)
        self._loaders.append(loader)
        return loader

    def evaluation(self, function):
        """Registers, as a decorator, how a rank evaluates its share: function(rank, world_size)
        returns a Score. Called without gradients and with the models in eval mode, between two
        steps, when evaluation.every of the job's file says so and at the end."""
        self._evaluation = function
        return function

    def steps(self):
        """Yields a Step after the other until the job's steps are done or a stop is asked for.

        Between two steps, in here, the rank meets the others, gets or sends state, saves, and
        evaluates. The first call restores the checkpoint that the job goes on from.
        """
        if self._state is None:
            raise RuntimeError("nothing is attached; call run.attach(model, optimizer) before "
                               "run.steps()")
        if not self._loaded:
            self._load()
        while True:
            order = self._engine.next(float(self._optimizer.param_groups[0]["lr"]))
            if order.kind == "done":
                self._done = True
                return
            self._order = order
            if order.kind == "evaluate":
                self._evaluate(order)
                continue
            step = Step(self, order)
            yield step
            step._check_left()  # pylint: disable=protected-access

    def finish(self):
        """Reports that this rank has ended, and how. Called when the process exits, else."""
        if self._engine is None:
            return 0
        if not (self._done or self._failed):
            self._engine.fail("the script ended before its training did")
        engine, self._engine = self._engine, None
        code = engine.finish()
        if engine.is_broken:
            # Threads may hang in a group that lost ranks: nobody waits for them.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        return code

    def _fail(self, error):
        self._failed = True
        self._engine.fail(f"{type(error).__name__}: {error}")

    def _report_the_end(self):
        former = sys.excepthook

        def tell(kind, error, traceback):
            former(kind, error, traceback)
            if self._engine is not None and not self._failed:
                self._fail(error)

        sys.excepthook = tell
        atexit.register(self.finish)

    def _before_optimizer(self, *_called):
        if Step._active is not None:
            Step._active._before_optimizer()
        elif self._order is not None:
            raise RuntimeError("optimizer.step() is called outside of a step; call it, or "
                               "step.update(), inside of `with step:`")

    def _after_optimizer(self, *_called):
        if Step._active is not None:
            Step._active._after_optimizer()

    def _source_of(self, loader):
        if isinstance(loader, Loader):
            return loader
        if id(loader) not in self._iterables:
            self._iterables[id(loader)] = (loader, Iterable(loader))
        return self._iterables[id(loader)][1]

    def _load(self):
        def named(list_of):
            return [(f"{prefix}.{name}" if prefix else name, tensor)
                    for prefix, module in self._modules.items()
                    for name, tensor in list_of(module)]

        parameters = named(lambda module: module.named_parameters(remove_duplicate=False))
        self._engine.load(
            parameters=[(name, p) for name, p in parameters if p.requires_grad],
            # What is not trained is kept like a buffer.
            buffers=[(name, p) for name, p in parameters if not p.requires_grad]
            + named(lambda module: module.named_buffers(remove_duplicate=False)),
            unused_parameters=self._unused_parameters, state=self._state,
            samples=self._loaders[0].samples if self._loaders else 0,
            evaluates=self._evaluation is not None)
        self._loaded = True

    def _updated(self):
        """The optimizer has made its step."""
        self._engine.updated()
        if not self._slots_known:
            self._engine.set_optimizer_slots(self._state.slots())
            self._slots_known = True

    def _evaluate(self, order):
        training = {module: module.training for module in self._modules.values()}
        try:
            for module in training:
                module.eval()
            with torch.no_grad():
                score = self._evaluation(order.rank, order.world_size)
            self._engine.end_evaluation(score.loss, score.correct, score.count, int(score.count))
        except BaseException as error:
            if not self._engine.cut_off(f"{type(error).__name__}: {error}", is_collective(error)):
                self._fail(error)
                raise
        finally:
            for module, was_training in training.items():
                module.train(was_training)
