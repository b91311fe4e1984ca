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

from __future__ import annotations

import dataclasses
import json
import os
import sys
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence,
                    Tuple, Union)

import torch
from torch.amp.grad_scaler import GradScaler

from paceline.alone import group_of_one
from paceline.artifacts import Artifacts
from paceline.attached import (check_stateful, load, modules_of, ranks_per_batch, replica_of,
                               sharded_model, trained_by)
from paceline.errors import text_of
from paceline.evaluation import evaluate
from paceline.loader import Iterable, Loader, OwnLoader
from paceline.optimizer_hooks import OptimizerHooks
from paceline.rehearsal import Rehearsal
from paceline.reported import ReportedNumbers
from paceline.shadow import Shadow
from paceline.state import State, Stateful
from paceline.step import Step, route_backward
from paceline.streams import Streams

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh

    from paceline._protocols import Engine, Order
    from paceline.flops import FlopCount
    from paceline.sharded import Replica, ShardedModel


@dataclasses.dataclass
class Score:
    """A rank's share of an evaluation, as sums over what it has evaluated."""

    loss: float
    """Sum of the losses."""
    correct: float = -1.0
    """Number of right predictions; -1: there are none to count."""
    count: float = 1.0
    """Number of predictions (images, tokens) that both sums are of."""


Evaluation = Callable[[int, int], Score]


class Run:
    """One rank's part of the training, as long as the process lives. Made by init()."""

    _optimizer: torch.optim.Optimizer  # This and the three below: once attached.
    _state: State
    _trained: Dict[int, torch.Tensor]  # Parameters, by id.
    _hooks: OptimizerHooks

    def __init__(self, engine: Engine, mesh: Optional[Mapping[str, int]] = None) -> None:
        self._engine, self._mesh_shape = engine, mesh
        self._streams = Streams(engine.device)
        self._pid = os.getpid()
        self._order: Optional[Order] = None  # The newest.
        self._newest: Optional[Tuple[Step, Order]] = None  # The step that is not closed.
        self._modules: Dict[str, torch.nn.Module] = {}
        self._scaler: Optional[GradScaler] = None
        self._replica: Optional[Replica] = None  # Of run.mesh.
        self._sharded: Optional[ShardedModel] = None
        self._shadow: Optional[Shadow] = None  # Where the job may train with Slipstream.
        self._no_slipstream = ""               # Why it cannot.
        self._unused_parameters = False
        self._evaluation: Optional[Evaluation] = None
        self._numbers = ReportedNumbers()
        self._artifacts = Artifacts()
        self._loaders: List[Loader] = []
        # By the loader's id: the loader, and its batches.
        self._iterables: Dict[int, Tuple[Any, Iterable]] = {}
        self._own_loaders: Dict[int, OwnLoader] = {}  # By the attached loader's id.
        self._group_of_one: Optional[torch.distributed.ProcessGroup] = None
        self._attached = self._loaded = self._rehearsed = False
        self._flops: Optional[FlopCount] = None  # Of the next step, if it is to be counted.
        self._made = self._closed_at = 0  # Steps that this rank has made; done at the last close.
        self._slots_known = self._done = self._failed = self._finished = False

    @property
    def rank(self) -> int:
        """This rank in the present generation, which may change from one step to the next; -1: it
        stands by."""
        return self._engine.rank if self._order is None else self._order.rank

    @property
    def world_size(self) -> int:
        """Number of ranks in the present generation; changes like rank."""
        return self._engine.world_size if self._order is None else self._order.world_size

    @property
    def data_rank(self) -> int:
        """Whose samples these are, of data_world_size: ranks that differ in the mesh's dimension
        "tensor" alone have the same ones. Without it, it is rank."""
        return self.rank // ranks_per_batch(self)

    @property
    def data_world_size(self) -> int:
        """Number of ranks with samples of their own; changes like rank."""
        return self.world_size // ranks_per_batch(self)

    @property
    def generation(self) -> int:
        """How often the ranks have come together anew; 0 before the first step."""
        return 0 if self._order is None else self._order.generation

    @property
    def device(self) -> torch.device:
        """The torch.device that this rank trains on."""
        return self._engine.device

    @property
    def total_steps(self) -> int:
        """Steps of the job."""
        return self._engine.steps

    @property
    def batch_per_rank(self) -> int:
        """Samples of a pass in the present generation."""
        return self._engine.batch if self._order is None else self._order.batch

    @property
    def seed(self) -> int:
        """The job's seed, equal on all ranks."""
        return self._engine.seed

    @property
    def spec(self) -> Mapping[str, Any]:
        """The job's file with its defaults, as a dict; empty without a daemon."""
        spec: Mapping[str, Any] = json.loads(self._engine.spec)
        return spec

    @property
    def process_group(self) -> torch.distributed.ProcessGroup:
        """All present ranks, for collectives of the script's own, as a metric's all_reduce. Takes
        tensors on run.device.

        Use it inside of a step's block or an evaluation, on all ranks alike: when a rank is lost,
        its collectives end with an error, which the block swallows. It changes with the generation,
        so read it anew in each step; the first time in a generation, it waits for all ranks. It is
        in no default group: give torch.distributed `group=`, and `group_src` in the place of `src`.

        Raises RuntimeError outside of run.steps(), ValueError unless the job's strategy is ddp, as
        ranks may be at different steps then.
        """
        if self._order is None or self._done:
            raise RuntimeError("run.process_group is read outside of the training; read it inside "
                               "of a step's block, anew in each step")
        group = self._engine.process_group()
        if group is None:
            if self._group_of_one is None:
                self._group_of_one = group_of_one(self.device)
            group = self._group_of_one
        return group

    @property
    def mesh(self) -> DeviceMesh:
        """The ranks that together hold one copy of a sharded model, for fully_shard: a DeviceMesh
        on run.device of the dimensions that init was given. Without a daemon all have size 1.

        It stays the same object while ranks change. torch's default process group is of these ranks
        from then on: torch.distributed.get_rank() is the position, in [0, shards). Collectives are
        for a step's block and an evaluation.

        Raises RuntimeError if torch has a default process group of other ranks, ValueError if the
        dimensions do not make `shards`.
        """
        if self._replica is None:
            self._replica = replica_of(self._engine, self._mesh_shape)
        return self._replica.mesh

    def attach(self, model: Union[torch.nn.Module, Mapping[str, torch.nn.Module]],
               optimizer: torch.optim.Optimizer, *others: Stateful, own: Sequence[Stateful] = (),
               unused_parameters: bool = False) -> None:
        """Says what is trained. All of it is saved, restored, and sent to ranks that join.

        model: a Module, or {"name": Module}. Parameters that require gradients are trained; they
          keep their storage from now on: no .to(), .half() or p.data = ... (checked at each pass).
          Of a sharded one, fully_shard was applied to all parts with run.mesh.
        optimizer: the one of these parameters, a torch.optim.Optimizer.
        others: what ranks that share gradients have alike, with state_dict and load_state_dict:
          schedulers (of a sharded model, for one step in each step), a GradScaler, an average of
          the weights.
        own: the same, of each rank for itself: a loader of the script's that tells its position,
          as torchdata's StatefulDataLoader, is then given to step.batches, and goes on there.
          torch's, Python's and NumPy's random numbers always are.
        unused_parameters: a step may leave some out, as find_unused_parameters of
          DistributedDataParallel.

        Raises TypeError or ValueError for what cannot be trained or saved, RuntimeError the second
        time. Later, no other optimizer may step these parameters, and this one may get no more.
        """
        if self._attached:
            raise RuntimeError("run.attach was called before; call it once, with all there is")
        self._modules, self._optimizer = modules_of(model), optimizer
        self._trained = trained_by(optimizer, self._modules)
        check_stateful((*others, *own))
        self._sharded = sharded_model(self, others)
        self._attached = True
        self._scaler = next((one for one in others if isinstance(one, GradScaler)), None)
        self._unused_parameters = unused_parameters
        if self._engine.may_slip:
            self._no_slipstream = Shadow.problem(others)
            if not self._no_slipstream:
                self._shadow = Shadow(optimizer, others)
        self._own_loaders = {id(one): OwnLoader(one, self._engine.recovers) for one in own
                             if hasattr(one, "__iter__") and not isinstance(one, torch.nn.Module)}
        self._state = State(self, optimizer, others,
                            [self._own_loaders.get(id(one), one) for one in own], self._shadow,
                            list(self._own_loaders.values()), self._sharded)
        self._hooks = OptimizerHooks(self, optimizer, self._trained)
        route_backward()

    def loader(self, dataset: Any, *, batch_size: Optional[int] = None, shuffle: bool = True,
               **of_dataloader: Any) -> Loader:
        """A DataLoader over a map-style dataset whose position is two numbers.

        It goes on exactly after a restart, with another number of ranks too, and gives the batches
        of a step that was cut off once more.

        batch_size: samples of a batch of this rank; None: batch_per_rank of the job's file.
        of_dataloader: other arguments of torch.utils.data.DataLoader.

        Raises TypeError for a dataset without a length, ValueError for arguments that say which
        samples a rank gets, RuntimeError the second time, or after run.steps() has begun.
        """
        if self._loaded:
            raise RuntimeError("run.loader is called after run.steps() has begun; call it before")
        if self._loaders:
            raise RuntimeError("run.loader was called before; a run has one loader")
        loader = Loader(self, dataset, batch_size, shuffle, of_dataloader)
        self._loaders.append(loader)
        return loader

    def evaluation(self, function: Evaluation) -> Evaluation:
        """Registers, as a decorator, how a rank evaluates its share: function(data_rank,
        data_world_size) returns a Score. Called without gradients and with the models in eval mode,
        between two steps, when evaluation.every of the job's file says so and at the end.

        Raises RuntimeError after run.steps() has begun.
        """
        if self._loaded:
            raise RuntimeError("@run.evaluation comes after run.steps() has begun; register it "
                               "before")
        self._evaluation = function
        return function

    def save(self) -> None:
        """Asks, inside of a step's block, for a checkpoint once this step is done. It is made as
        one of checkpoint.every_steps: beside the training, after the first step from then on that
        leaves all ranks equal. All ranks must ask in the same step: a checkpoint of some of them
        has failed after a minute. Without a daemon it does nothing.

        Raises RuntimeError outside of a block, ValueError if the job has no checkpoint.directory,
        or the strategy slipstream, whose ranks make no step together.
        """
        if Step._active is None:
            raise RuntimeError("run.save() is called outside of a step; call it inside of "
                               "`with step:`")
        self._engine.save()

    def report(self, **numbers: Union[float, torch.Tensor]) -> None:
        """Reports, inside of a step's block, numbers of this step, as a loss or an accuracy:
        `run.report(accuracy=0.93, **{"train/loss": loss})`. `paceline job metrics` shows each
        name's newest value, as the mean, least and most over the ranks that report it.

        Values count once the step does; of a name that is given twice, the last one. They are sent
        on with the figures of each log_every steps. NaN and infinities are taken as they are. A
        tensor of one element is read at once, which waits for its device: there, report only in
        some steps. Without a daemon, a step's numbers are printed about once in ten steps.

        Raises RuntimeError outside of a block, TypeError for what is no number, ValueError for a
        tensor of several, a name with other than 1 to 64 letters, digits, "_", "-", "." and "/",
        and more than 32 names in all.
        """
        if Step._active is None:
            raise RuntimeError("run.report() is called outside of a step; call it inside of "
                               "`with step:`")
        self._numbers.add(numbers, Step._active._reported)

    def artifact(self, path: Union[str, os.PathLike[str]], name: Optional[str] = None) -> None:
        """Reports a file or directory that the script has made, complete by now.
        `paceline job describe` shows it with the steps done, its size, and its SHA-256, which a
        thread beside the training makes; the process waits for it at its end, a minute at most.

        name: unique in the job; None: the path's last part. Of what is reported again the last
          one counts, of several ranks too: let one report. Nothing is copied or removed.

        Raises OSError if there is no such path, ValueError for a name that report would not take, a
        path of more than 1024 bytes, and more than 32 names in all.
        """
        self._artifacts.add(path, name, self._steps_done, self._engine.artifact)

    def steps(self, *, rehearse: bool = False) -> Iterator[Step]:
        """Yields one Step after another until the job's steps are done or a stop is asked for.

        Between two steps, in here, the rank meets the others, gets or sends state, saves, and
        evaluates. The first call restores the checkpoint that the job goes on from. A loop that is
        left by `break`, or in a notebook by an interrupt, may be entered again. Left behind the
        last step, the rank evaluates and saves what is due when the process exits.

        rehearse: a spare first makes one step by itself, step.rehearsal, so that what torch.compile
          makes is there when the spare is needed. It counts nowhere. Of a sharded model a spare
          has a part, and makes none.

        Raises RuntimeError when nothing is attached, inside of a step's block, and after a step
        without `with step:`; TrainingError when the training ends by an error.
        """
        if not self._attached:
            raise RuntimeError("nothing is attached; call run.attach(model, optimizer) before "
                               "run.steps()")
        newest = self._newest
        if newest is not None and newest[0] is not Step._active and not newest[0]._left:
            yield newest[0]  # The loop was left before its block.
        while not self._done:
            if Step._active is not None:
                raise RuntimeError("run.steps() goes on inside of the block of step "
                                   f"{Step._active.number}; leave `with step:` first")
            self._close_step()
            if not self._loaded:
                if (rehearse and not self._rehearsed and self._engine.rank < 0
                        and self._sharded is None):
                    self._rehearsed = True
                    self._newest = Rehearsal(self).begin()
                    yield self._newest[0]
                    continue
                load(self)
                self._loaded = True
            self._streams.follow()
            order = self._engine.next(float(self._optimizer.param_groups[0]["lr"]))
            if order.kind == "done":
                if self._shadow is not None:
                    self._shadow.settle()
                self._done = True
                return
            if order.rank != self.rank:  # What was reported is the former rank's.
                self._numbers.clear()
                self._engine.report([])
            self._order = order
            if order.kind == "evaluate":
                evaluate(self)
                continue
            if self._sharded is not None:
                self._sharded.begin_step()
            self._newest = Step(self, order), order
            yield self._newest[0]

    def finish(self) -> int:
        """Reports that this rank has ended, and how. Called when the process exits, else.

        Returns the exit code: 0 if the training is done. Does nothing the second time, or in a
        child of the script.
        """
        if self._finished or os.getpid() != self._pid:
            return 0
        self._finished = True
        if self._made_last and not self._failed:
            next(self.steps(), None)  # The script has left the loop behind its last step.
        if not (self._done or self._failed):
            self._engine.fail("the script ended before its training did")
        self._artifacts.close(60 if self._steps_done >= self.total_steps else 2)
        code = self._engine.finish()
        if self._engine.is_broken:
            # Threads may hang in a group that lost ranks: nobody waits for them.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        return code

    @property
    def _steps_done(self) -> int:
        """Steps of the job that are done, as far as this rank knows."""
        if self._newest is None:
            return self._closed_at
        step = self._newest[0]
        return step.number + (step.done and not step.rehearsal)

    @property
    def _made_last(self) -> bool:
        """Whether the newest step is done, and is the job's last."""
        return self._newest is not None and self._steps_done == self.total_steps

    def _close_step(self) -> None:
        """What follows a step once the script has left its block, if it has made one."""
        if self._newest is None:
            return
        step, order = self._newest
        step._check_left()  # pylint: disable=protected-access
        self._closed_at = self._steps_done
        self._newest = None
        if step.done:
            # A script may make an iterable for each step.
            self._iterables = {key: source for key, source in self._iterables.items()
                               if source[1].serves((step.number, self._made))}
        self._made += step.done
        if self._shadow is not None:
            self._shadow.end_step(step, order)
        if self._sharded is not None:
            self._sharded.end_step(step)
        if isinstance(self._engine, Rehearsal):
            self._engine.end()

    def _fail(self, error: BaseException) -> None:
        self._failed = True
        self._engine.fail(text_of(error))
        # A notebook may go on, but its iterators may be broken, and their workers gone.
        self._iterables.clear()
        for loader in self._loaders:
            loader._drop()
        for own in self._own_loaders.values():
            own.drop()

    def _source_of(self, loader: Any) -> Union[Loader, Iterable]:
        if isinstance(loader, Loader):
            return loader
        if id(loader) in self._own_loaders:
            return self._own_loaders[id(loader)]
        if id(loader) not in self._iterables:
            self._iterables[id(loader)] = (loader, Iterable(loader, self._engine.recovers))
        return self._iterables[id(loader)][1]

    def _updated(self) -> None:
        """The optimizer has made its step, or the engine will in its place."""
        self._engine.updated()
        assert self._order is not None
        if self._order.updates and not self._slots_known:
            self._engine.set_optimizer_slots(self._state.slots())
            self._slots_known = True
