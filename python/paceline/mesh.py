"""The ranks that together hold one copy of a sharded model, as torch's DeviceMesh.

torch's world is then the replica: its default process group and those of the mesh's dimensions have
the ranks of one replica, by their positions. They are switching groups (csrc/switching_group.h),
which are made without communication, so that a spare can build its model alone. Each generation
connects them, and severs them when it is over. A spare builds its model at position 0 and moves
once it knows better.
"""

from __future__ import annotations

import gc
import math
from importlib import import_module
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Sequence, Tuple

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

if TYPE_CHECKING:
    from paceline._engine import SwitchingGroup

BACKEND = "paceline"

Make = Callable[[str, List[int]], dist.ProcessGroup]

# Private parts of torch, whose types are partial.
_c10d: Any = import_module("torch.distributed.distributed_c10d")
_random: Any = import_module("torch.distributed.tensor._random")
_redistribute: Any = import_module("torch.distributed.tensor._redistribute")


class ReplicaMesh:
    """Makes torch's default process group and the mesh, both not connected.

    One thread calls it. There is one for the life of the process.
    """

    device_mesh: DeviceMesh
    """Of all positions, with a name for each dimension."""

    def __init__(self, shape: Mapping[str, int], position: int, device: torch.device,
                 make_group: Callable[[int, int], SwitchingGroup]) -> None:
        """shape: the size of each dimension, by name; the last one's positions are neighbours.
        make_group: SwitchingGroup of the engine that this process has loaded.

        Raises RuntimeError if there is a default process group, or torch is older than 2.11.
        """
        if [int(part) for part in torch.__version__.split(".")[:2]] < [2, 11]:
            raise RuntimeError("sessions with shards need torch 2.11, since earlier ones make "
                               f"meshes in another way, and here is torch {torch.__version__}: "
                               "pip install 'torch==2.11.*'")
        try:
            self._debug: Any = import_module("torch.distributed.tensor.debug")
        except ModuleNotFoundError as error:  # torch does not install what it imports there.
            raise ModuleNotFoundError(
                f"sessions with shards need {error.name}: pip install {error.name}",
                name=error.name) from error
        if dist.is_initialized():
            raise RuntimeError("torch has a default process group, and run.mesh makes its own: "
                               "leave out init_process_group, and read run.mesh before "
                               "init_device_mesh, fully_shard without `mesh`, and the like")
        self._make_group = make_group
        self._groups: List[SwitchingGroup] = []  # In the order in which torch has asked for them.
        self._sealed = False
        backends: Any = dist.Backend
        backends.register_backend(BACKEND, self._create, extended_api=True, devices=["cpu", "cuda"])
        dist.init_process_group(BACKEND, store=HashStore(), rank=position,
                                world_size=math.prod(shape.values()))
        self.device_mesh = init_device_mesh(device.type, tuple(shape.values()),
                                            mesh_dim_names=tuple(shape))
        if device.type != "cpu":
            # Else the first random DTensor would ask rank 0 for its random numbers. All that this
            # takes from a mesh is the number of the device: by the position, which a spare changes.
            _random._rng_tracker = _random.OffsetBasedRNGTracker(
                SimpleNamespace(device_type=device.type,
                                get_rank=torch.accelerator.current_device_index),
                run_state_sync=False)
        self.move(position)  # What torch's version lacks of the private parts shows now.

    @property
    def position(self) -> int:
        """This process's, from 0."""
        return self._groups[0].rank()

    def connect(self, make: Make) -> None:
        """Connects all groups, for a generation. From the first time on, no group may be added, as
        a newcomer would not have it.

        make(use, positions): a connected group of these positions of this replica, in their order.
          All of them call it for the same groups in the same order; `use` tells groups of the same
          positions apart.
        """
        self._sealed = True
        made: Dict[Tuple[str, Tuple[int, ...]], int] = {}
        for group in self._groups:
            positions = dist.get_process_group_ranks(group)
            key = group.group_desc, tuple(positions)
            made[key] = made.get(key, 0) + 1
            group.connect(make(f"{group.group_desc}/{made[key]}", positions))

    def sever(self) -> None:
        """Collectives raise torch.distributed.DistBackendError from now on."""
        for group in self._groups:
            group.sever()

    def move(self, position: int) -> None:
        """Gives this process another position. The meshes and groups stay the same objects. Shards
        of a model follow by fsdp.move(), which comes next.

        Requires: not connected. Raises RuntimeError if a group's members at that position are not
        known, as it is none of a mesh's dimension.
        """
        meshes = [one for one in gc.get_objects() if type(one) is DeviceMesh and self._has(one)]
        members: Dict[str, List[int]] = {}
        for mesh in meshes:
            for dimension, name in enumerate(_private(mesh)._dim_group_names):
                members[name] = _members(mesh, dimension, position)
        world, *others = self._groups
        for group in others:
            if position not in members.get(group.group_name, ()):
                raise RuntimeError(
                    f"the process group of ranks {dist.get_process_group_ranks(group)} is of no "
                    "dimension of run.mesh, so a spare that takes another position cannot have it; "
                    "make no groups with new_group")
        world.move(position)
        _c10d._update_default_pg(world)  # Whose rank torch's own log lines tell.
        for group in others:
            positions = members[group.group_name]
            group.move(positions.index(position))
            _c10d._world.pg_group_ranks[group] = {one: rank for rank, one in enumerate(positions)}
        for mesh in meshes:
            private = _private(mesh)
            private._rank = position
            private._coordinate_on_dim = private._compute_coordinate_on_dim()
        # DTensor keeps sizes of shards that it has computed, whatever the position was.
        _redistribute._gen_transform_infos.cache_clear()
        self._debug._clear_sharding_prop_cache()

    def _has(self, mesh: DeviceMesh) -> bool:
        """Whether its groups are of this. DTensor makes some that have none."""
        registry = _private(mesh)._get_root_mesh()._pg_registry
        return any(registry.get(name) is group for group in self._groups
                   for name in getattr(mesh, "_dim_group_names", ()))

    def _create(self, options: Any, _backend_options: Any) -> SwitchingGroup:
        if self._sealed:
            raise RuntimeError("a process group, or a dimension of a mesh, is made inside of the "
                               "training; make it before run.steps(), on spares too")
        group = self._make_group(options.group_rank, options.group_size)
        self._groups.append(group)
        return group


def mesh_of_one(device: torch.device, names: Sequence[str] = ("shard",)) -> DeviceMesh:
    """For a script that runs alone: one rank, which holds the whole model. Makes torch's default
    process group, of this process, if there is none.

    Raises RuntimeError in a script of several processes.
    """
    if not dist.is_initialized():
        dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    if dist.get_world_size() != 1:
        raise RuntimeError("run.mesh of a script that runs alone has one rank, and torch's default "
                           f"process group has {dist.get_world_size()}: submit the script as a "
                           "job, or make the mesh with init_device_mesh")
    return init_device_mesh(device.type, (1,) * len(names), mesh_dim_names=tuple(names))


def _private(mesh: DeviceMesh) -> Any:
    return mesh


def _members(mesh: DeviceMesh, dimension: int, position: int) -> List[int]:
    """Positions that differ from this one in that dimension only; empty: it is not in the mesh."""
    layout = _private(mesh)._layout[dimension]
    rows: List[List[int]] = layout.nest().remap_to_tensor(_private(mesh)._rank_map).tolist()
    nothing: List[int] = []
    return next((row for row in rows if position in row), nothing)
