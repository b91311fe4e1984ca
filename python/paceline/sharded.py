"""A sharded model in a session: run.mesh, what the engine sees of the model, and what becomes of it
as ranks come and go.

To the engine the parameters are plain tensors, which share the memory of this rank's shards. Their
gradients share that of FSDP2's, once these are whole.
"""

from __future__ import annotations

import math
from importlib import import_module
from typing import (TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple,
                    Union)

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

from paceline import fsdp
from paceline.alone import group_of_one
from paceline.attached import named, parameters_of
from paceline.mesh import ReplicaMesh, mesh_of_one
from paceline.shadow import steps_made

if TYPE_CHECKING:
    from paceline._protocols import Engine
    from paceline.session import Run
    from paceline.step import Step

# For each dimension of the mesh, the tensor's dimension that is sharded over it; None: all have it.
# (dimension, n): it is sharded by further dimensions of the mesh into n first.
Placement = Tuple[Union[None, int, Tuple[int, int]], ...]
# Of a tensor on this rank: shape of the whole one; offsets; sizes; number of the copy.
Slice = Tuple[List[int], List[int], List[int], int]

_utils: Any = import_module("torch.distributed.tensor._utils")
_StridedShard: Any = import_module("torch.distributed.tensor.placement_types")._StridedShard

_DIMENSIONS = ("shard", "tensor")


class Replica:
    """The ranks that together hold one copy of the model, of which this is one."""

    mesh: DeviceMesh
    """Of "shard", and perhaps "tensor"."""
    groups: Optional[ReplicaMesh]
    """What changes beneath the mesh. None: it has one rank."""

    def __init__(self, engine: Engine, shape: Optional[Mapping[str, int]]) -> None:
        """shape: of the mesh; None: of "shard" alone. Raises ValueError if it is not one of so many
        ranks."""
        self.groups = None
        self.size = engine.shards
        sizes = _checked_shape(shape, self.size)
        self._device = engine.device
        if self.size == 1:
            self.mesh = mesh_of_one(engine.device, tuple(sizes))
            return
        # A spare does not know its position yet.
        position = max(engine.rank, 0) % self.size
        self.groups = ReplicaMesh(sizes, position, engine.device, engine.switching_group)
        self.mesh = self.groups.device_mesh

    def connect(self, groups: Sequence[Optional[dist.ProcessGroup]]) -> None:
        """groups: of all its ranks; and of those of each dimension, if there are several."""
        assert self.groups is not None
        connected = {tuple(range(self.size)): groups[0]}
        for dimension, group in enumerate(groups[1:]):
            of_dimension = dist.get_process_group_ranks(self.mesh.get_group(dimension))
            connected.setdefault(tuple(of_dimension), group)

        def make(_use: str, positions: List[int]) -> dist.ProcessGroup:
            if len(positions) == 1:
                return group_of_one(self._device)
            group = connected.get(tuple(positions))
            if group is None:
                raise RuntimeError(f"there is a process group of the positions {positions} of "
                                   "run.mesh; in a session, groups are of all its ranks, or of a "
                                   "dimension")
            return group

        self.groups.connect(make)


class ShardedModel:
    """For the engine (python/csrc/python_sharded_model.h), and for the steps of the run. The thread
    that makes the steps calls it."""

    is_finishing = False
    """Whether the optimizer makes the step that finish_update asks for."""

    def __init__(self, run: Run, others: Sequence[Any]) -> None:
        """Requires: the run's modules and optimizer are attached. Raises ValueError or RuntimeError
        as attached.sharded_model."""
        self._run = run
        self._modules = list(run._modules.values())
        self._optimizer = run._optimizer
        self._replica = _checked_replica(run, self._modules)
        if any(isinstance(one, ReduceLROnPlateau) for one in others):
            raise ValueError("a ReduceLROnPlateau does not go with a sharded model, as the step of "
                             "an update that others have completed has no loss; take a scheduler "
                             "that goes by the step")
        if run._engine.may_slip:
            raise ValueError("Slipstream and strategy auto do not go with a sharded model; take "
                             "strategy ddp, local_sgd or hsgd")
        self._schedulers = [one for one in others if isinstance(one, LRScheduler)]
        self._counts: List[int] = []  # Of the schedulers' steps, at the beginning of this step.
        self._parts = self._show_parts()
        # By number of dimensions: the replica's, or its first dimension alone. As the parameters
        # have them, perhaps by other names: tensors go together only if they have the same.
        self._meshes: Dict[int, DeviceMesh] = {
            parameter.device_mesh.ndim: parameter.device_mesh
            for _, (parameter, _) in reversed(self._parts) if isinstance(parameter, DTensor)}
        engine = run._engine
        self._means = [fsdp.ReplicaMean(module, engine.take_mean) for module in self._modules]
        self._is_whole = False  # The gradients are the step's.

    @property
    def parameters(self) -> List[Tuple[str, torch.Tensor]]:
        """As the engine has them, by all their names."""
        return [(name, part) for name, (_, part) in self._parts]

    @property
    def mesh_sizes(self) -> List[int]:
        """Of the dimensions, if there are several."""
        mesh = self._replica.mesh
        return [] if mesh.ndim == 1 or mesh.size() == 1 else list(mesh.shape)

    def remove(self) -> None:
        """Leaves the model alone from now on."""
        for mean in self._means:
            mean.remove()

    # For a step.

    def begin_step(self) -> None:
        """Drops what gradients are left."""
        self._drop_gradients()
        for mean in self._means:
            mean.reset()
        self._counts = [steps_made(one) for one in self._schedulers]

    def begin_batch(self) -> None:
        """Raises ValueError if a parameter has other memory than when it was attached."""
        for name, (parameter, part) in self._parts:
            if fsdp.local(parameter).data_ptr() != part.data_ptr():
                raise ValueError(f"{name} has another storage than when it was attached; "
                                 "model.to(), .half() and load_state_dict(assign=True) are only "
                                 "possible before run.attach(model)")

    def begin_backward(self, is_last: bool) -> None:
        """Of a batch; is_last: the step's last one."""
        for mean in self._means:
            mean.begin_pass(is_last)

    def end_backward(self) -> None:
        """Behind the step's last backward pass: shows the engine the gradients. Raises RuntimeError
        as fsdp.ReplicaMean.end_passes."""
        for mean in self._means:
            mean.end_passes()
        for _, (parameter, part) in self._parts:
            gradient = parameter.grad
            part.grad = None if gradient is None else fsdp.local(gradient)
        self._is_whole = True

    def end_step(self, step: Step) -> None:
        """The script has left the step's block, and what follows it. Raises RuntimeError unless
        each scheduler has made one step, as one in the place of a rank that was cut off does."""
        if not step.done:
            return
        for scheduler, count in zip(self._schedulers, self._counts):
            made = steps_made(scheduler) - count
            if made == 0 and step._is_cut_off:
                scheduler.step()  # The script came no further than the update.
            elif made != 1:
                raise RuntimeError(f"{type(scheduler).__name__} has made {made} steps in step "
                                   f"{step.number}; with a sharded model it makes one in each, "
                                   "behind step.update()")

    def end_evaluation(self) -> None:
        """The next forward pass gathers all parameters anew."""
        for module in self._modules:
            fsdp.show_shards(module)

    # For the engine, between steps.

    def join(self, joined: Sequence[Optional[dist.ProcessGroup]]) -> bool:
        """A generation begins: connects run.mesh by these groups, as for Replica.connect. Returns
        whether the position has stayed. Else the shards have other sizes now, and neither they nor
        the optimizer, which forgets its state, have a meaning yet."""
        groups = self._replica.groups
        assert groups is not None and joined[0] is not None
        position = joined[0].rank()
        stays = groups.position == position
        if not stays:
            self._drop_gradients()
            groups.move(position)
            for module in self._modules:
                fsdp.move(module)
            self._optimizer.state.clear()
            for _, (parameter, part) in self._parts:
                part.data = fsdp.local(parameter)
        self._replica.connect(joined)
        return stays

    def slices(self) -> List[Tuple[str, Slice]]:
        """What this rank has of the parameters, each by its first name."""
        first: Dict[int, Tuple[str, Slice]] = {}
        for name, (parameter, part) in self._parts:
            slice_here = self.slice_of(list(parameter.shape), placement_of(parameter))
            if slice_here is not None:
                first.setdefault(id(part), (name, slice_here))
        return list(first.values())

    def leave(self) -> None:
        """The generation is over, perhaps in the middle of a step."""
        if self._replica.groups is not None:
            self._replica.groups.sever()
        for module in self._modules:
            fsdp.reset(module, keep_gradients=self._is_whole)
        for mean in self._means:
            mean.reset()

    def finish_update(self, skip: bool) -> None:
        """Others have made the update of the step that was cut off here: makes it too."""
        if not skip:
            self.is_finishing = True
            try:
                self._optimizer.step()
            finally:
                self.is_finishing = False
        for scheduler, count in zip(self._schedulers, self._counts):
            if steps_made(scheduler) == count:
                scheduler.step()
        self._drop_gradients()
        self._run._engine.set_optimizer_slots(self._run._state.slots())

    # Of tensors that are attached.

    def slice_of(self, shape: Sequence[int], placement: Optional[Placement]) -> Optional[Slice]:
        """What this rank has of a tensor of this shape. None: it is a tensor of its own, or the
        whole one."""
        if placement is None or self._replica.size == 1:
            return None
        sizes, offsets = self._sizes_and_offsets(shape, placement)
        return list(shape), offsets, sizes, self._copy(placement)

    def sizes_of(self, shape: Sequence[int], placement: Optional[Placement]) -> List[int]:
        """Of that on this rank."""
        return list(shape) if placement is None else self._sizes_and_offsets(shape, placement)[0]

    def whole(self, part: torch.Tensor, shape: Sequence[int], placement: Optional[Placement]
              ) -> torch.Tensor:
        """The DTensor of this shape whose part on this rank is `part`."""
        if placement is None:
            return part
        strides = torch.empty(tuple(shape), device="meta").stride()
        return DTensor.from_local(part, self._mesh_of(placement), _placements(placement),
                                  run_check=False, shape=torch.Size(shape), stride=strides)

    def slots_in(self, state_dict: Dict[str, Any]
                 ) -> Iterator[Tuple[Any, Tuple[int, ...], Optional[Placement]]]:
        """What an optimizer's state_dict has of parameters that are not scalars: (value, the
        parameter's shape and placement)."""
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        for number, values in state_dict.get("state", {}).items():
            shape, placement = tuple(parameters[number].shape), placement_of(parameters[number])
            for value in values.values() if shape else ():
                yield value, shape, placement

    def _sizes_and_offsets(self, shape: Sequence[int], placement: Placement
                           ) -> Tuple[List[int], List[int]]:
        sizes, offsets = _utils.compute_local_shape_and_global_offset(
            torch.Size(shape), self._mesh_of(placement), _placements(placement))
        return list(sizes), list(offsets)

    def _mesh_of(self, placement: Placement) -> DeviceMesh:
        mesh = self._meshes.get(len(placement))
        if mesh is None:
            raise ValueError(f"what is attached has a DTensor on a mesh of {len(placement)} "
                             "dimensions, and no parameter is on one: give paceline.init the mesh "
                             "with which it was saved")
        return mesh

    def _copy(self, placement: Placement) -> int:
        """The number of this position among those that have the same slice."""
        mesh, number = self._replica.mesh, 0
        index = mesh.get_coordinate()
        assert index is not None
        for dimension in range(mesh.ndim):
            if dimension >= len(placement) or placement[dimension] is None:
                number = number * mesh.size(dimension) + index[dimension]
        return number

    def _show_parts(self) -> List[Tuple[str, Tuple[Any, torch.Tensor]]]:
        """By name: the parameter, and as the engine has it. Tied ones are one."""
        parts: Dict[int, torch.Tensor] = {}
        shown: List[Tuple[str, Tuple[Any, torch.Tensor]]] = []
        for (name, _), (_, parameter) in zip(named(self._run._modules, fsdp.local_parameters),
                                             named(self._run._modules, parameters_of)):
            if id(parameter) not in parts:
                part = fsdp.local(parameter).detach()
                parts[id(parameter)] = part.requires_grad_(parameter.requires_grad)
            shown.append((name, (parameter, parts[id(parameter)])))
        return shown

    def _drop_gradients(self) -> None:
        self._is_whole = False
        for _, (parameter, part) in self._parts:
            parameter.grad = part.grad = None


def placement_of(tensor: Any) -> Optional[Placement]:
    """Of a DTensor. None: it is another one. Raises ValueError for a part of a sum."""
    if not isinstance(tensor, DTensor):
        return None
    if any(one.is_partial() for one in tensor.placements):
        raise ValueError("a DTensor that is attached is a part of a sum; call "
                         ".redistribute(placements=[Replicate()]) first")
    return tuple(_cut_of(one) for one in tensor.placements)


def _cut_of(placement: Any) -> Union[None, int, Tuple[int, int]]:
    if isinstance(placement, _StridedShard):
        return placement.dim, placement.split_factor
    return placement.dim if isinstance(placement, Shard) else None


def _placements(placement: Placement) -> List[Any]:
    return [Replicate() if one is None else
            _StridedShard(one[0], split_factor=one[1]) if isinstance(one, tuple) else Shard(one)
            for one in placement]


def _checked_shape(shape: Optional[Mapping[str, int]], shards: int) -> Dict[str, int]:
    """The sizes of the dimensions; of one rank, all are 1."""
    if shape is None:
        return {"shard": shards}
    if tuple(shape) not in (_DIMENSIONS[:1], _DIMENSIONS):
        raise ValueError(f"mesh of paceline.init has the dimensions {', '.join(shape) or 'none'}; "
                         'known are "shard" and, behind it, "tensor": the replicas are the '
                         "job's, and other kinds of parallelism are for jobs without a session")
    if shards == 1:
        return {name: 1 for name in shape}
    if min(shape.values()) < 1 or math.prod(shape.values()) != shards:
        sizes = " x ".join(map(str, shape.values()))
        raise ValueError(f"mesh of paceline.init has the sizes {sizes}, and the job's file says "
                         f"shards: {shards}; give sizes of 1 and more whose product that is")
    return dict(shape)


def _checked_replica(run: Run, modules: Sequence[torch.nn.Module]) -> Replica:
    """The run's, of which the modules are."""
    for module in modules:
        fsdp.check(module)
    shards = run._engine.shards
    for name, parameter in named(run._modules, parameters_of):
        if not isinstance(parameter, DTensor):
            if parameter.requires_grad:
                raise ValueError(f"{name} is of no part that fully_shard was applied to; apply it "
                                 "to the whole model, too, last")
            continue
        if not _is_of(run._replica, shards, parameter.device_mesh):
            raise ValueError(f"{name} is sharded over {parameter.device_mesh.size()} ranks, by a "
                             f"mesh of the script's, and the job's file says shards: {shards}; "
                             "give fully_shard mesh=run.mesh, of several dimensions "
                             'mesh=run.mesh["shard"]')
        _check_even(name, parameter)
    if run._replica is None:
        run._replica = Replica(run._engine, run._mesh_shape)
    return run._replica


def _is_of(replica: Optional[Replica], shards: int, mesh: DeviceMesh) -> bool:
    if shards == 1 or replica is None:
        return shards == mesh.size() == 1
    if replica.mesh.ndim == 1:
        return mesh.size() == shards
    names = mesh.mesh_dim_names or ()
    return (names in (_DIMENSIONS[:1], _DIMENSIONS)
            and tuple(mesh.shape) == tuple(replica.mesh.shape)[:mesh.ndim])


def _check_even(name: str, parameter: DTensor) -> None:
    """Else a part of it would not be one slice, or have another size at another position."""
    for size, placement in list(zip(parameter.device_mesh.shape, parameter.placements))[1:]:
        cut = _cut_of(placement)
        if isinstance(cut, int) and parameter.shape[cut] % size:
            raise ValueError(f"{name} of size {tuple(parameter.shape)} is parallelized in "
                             f"dimension {cut} over {size} ranks, which must divide it evenly")
