"""What a session does to FSDP2, fully_shard of torch.distributed.fsdp, that torch has no call for.

FSDP2 keeps in private fields how far a step has come, and a step that is cut off leaves them so.
Each private field of FSDP2 that Paceline touches is named in _FIELDS, which check() compares with
the installed torch.
"""

from __future__ import annotations

import functools
import inspect
from importlib import import_module
from types import FunctionType
from typing import Any, Callable, Dict, List, Set, Tuple

import torch
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

KNOWN_VERSIONS = ("2.11",)

_INTERNALS = "torch.distributed.fsdp._fully_shard."

# By module and class of torch.
_FIELDS: Dict[Tuple[str, str], Tuple[str, ...]] = {
    ("_fully_shard", "FSDPModule"): ("_get_fsdp_state", "reshard", "set_all_reduce_hook"),
    ("_fsdp_state", "FSDPState"): (
        "_fsdp_param_group", "_state_ctx", "_comm_ctx", "_training_state",
        "_modules_to_run_forward"),
    ("_fsdp_state", "FSDPStateContext"): (
        "iter_forward_root", "post_backward_final_callback_queued", "post_optim_event"),
    ("_fsdp_param_group", "FSDPCommContext"): (
        "all_gather_state", "reduce_scatter_state", "post_forward_order"),
    ("_fsdp_param_group", "FSDPParamGroup"): (
        "fsdp_params", "modules", "mesh_info", "device", "_module_fqn", "_training_state",
        "_sharded_state", "_all_gather_result", "_post_reduce_event",
        "_reshard_after_forward_event", "_all_reduce_state", "_partial_reduce_output",
        "_post_forward_indices", "_all_reduce_hook", "_use_post_forward_mesh"),
    ("_fsdp_param", "FSDPParam"): (
        "sharded_param", "sharded_state", "sharded_size", "contiguous_sharded_stride",
        "sharded_post_forward_size", "contiguous_sharded_post_forward_stride",
        "padded_sharded_param_size", "fsdp_placement", "post_forward_mesh_info", "is_dtensor",
        "grad_offload_event", "all_gather_outputs", "unsharded_accumulated_grad", "_orig_size",
        "_sharded_param_data", "_unsharded_param", "_unsharded_inner_tensors",
        "_sharded_post_forward_param", "_sharded_post_forward_param_data", "_extensions_data",
        "_tp_spec", "_setattr_on_modules", "reset_sharded_param"),
    ("_fsdp_common", "FSDPMeshInfo"): ("shard_mesh_rank", "shard_process_group"),
}

# What wrappers of torch put into the names of parameters.
_WRAPPERS = ("_orig_mod.", "_checkpoint_wrapped_module.")


def check(module: torch.nn.Module) -> None:
    """Raises RuntimeError if the installed torch lacks a field that this file knows, and ValueError
    if the module is sharded in a way that a session cannot restore."""
    missing = _missing_fields()
    if missing:
        raise RuntimeError(
            f"torch {torch.__version__} has changed fully_shard: {', '.join(missing)} missing, "
            "which a step that is cut off needs. Sessions with a sharded model are known to work "
            f"with torch {', '.join(KNOWN_VERSIONS)}")
    for group in _groups(module):
        name = _name_of(group)
        if type(group.mesh_info).__name__ != "FSDPMeshInfo":
            raise ValueError(f"{name} is replicated by torch; give fully_shard a mesh of one "
                             "dimension: the replicas are the job's")
        if group._use_post_forward_mesh:
            raise ValueError(f"{name} has reshard_after_forward=<a number>, for which there is no "
                             "mesh in a session; give True or False")
        if group._all_reduce_hook is not None:
            raise ValueError(f"{name} has an all-reduce hook; in a session it is Paceline's, which "
                             "takes the mean over the replicas")


def is_sharded(module: torch.nn.Module) -> bool:
    """Whether fully_shard was applied to a part of it."""
    return any(isinstance(one, FSDPModule) for one in module.modules())


def local(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a DTensor, in the same memory; another tensor itself."""
    part: torch.Tensor = getattr(tensor, "_local_tensor") if isinstance(tensor, DTensor) else tensor
    return part


def local_parameters(module: torch.nn.Module) -> List[Tuple[str, torch.Tensor]]:
    """This rank's parts of the parameters, without padding, in the memory that FSDP2 keeps for them
    from run.attach on, and their names as without wrappers. A part may be empty.

    Requires: no step is under way.
    """
    show_shards(module)
    return [(functools.reduce(lambda name, part: name.replace(part, ""), _WRAPPERS, name), local(p))
            for name, p in module.named_parameters(remove_duplicate=False)]


def show_shards(module: torch.nn.Module) -> None:
    """Ends what an evaluation leaves: the root's parameters whole. Takes up, as FSDP2 itself does
    at the first forward pass alone, memory that a script has put into the place of FSDP2's.

    Requires: no step is under way.
    """
    for part, _ in _parts(module):
        part.reshard()
    with torch.no_grad():
        for group in _groups(module):
            for one in group.fsdp_params:
                one.reset_sharded_param()


def reset(module: torch.nn.Module, *, keep_gradients: bool = False) -> None:
    """Makes the module as before the step that was cut off, wherever that was: in the forward pass,
    the backward pass, or behind it. Parameters stay.

    keep_gradients: of a prepared rank, whose sharded gradients are whole, and which may yet make
      its update with them.

    Requires: the collectives under way were aborted, so that all of them end.
    """
    states = _states(module)
    for device in {group.device for group in _groups(module)}:
        if device.type != "cpu":
            torch.accelerator.synchronize(device)  # It may still read what is let go of here.
    for state in states:
        _reset_phases(state)
        _reset_flags(state)
        _reset_buffers(state)
        group = state._fsdp_param_group
        if group is not None:
            _reset_collectives(group)
            _reset_unsharded(group)
            _drop_unsharded_gradients(group)
    if not keep_gradients:
        _drop_gradients(module)


# In another phase, a forward pass takes itself for a recomputation within a backward pass.
def _reset_phases(state: Any) -> None:
    idle = _internal("_fsdp_common", "TrainingState").IDLE
    state._training_state = idle
    state._modules_to_run_forward.clear()
    if state._fsdp_param_group is not None:
        state._fsdp_param_group._training_state = idle


# What happens once in a pass would be taken as done: the end of the backward pass, above all.
def _reset_flags(state: Any) -> None:
    once = state._state_ctx
    once.iter_forward_root = None
    once.post_backward_final_callback_queued = False
    once.post_optim_event = None


# Memory and events on a GPU, and the order of the cut step's forward pass.
def _reset_buffers(state: Any) -> None:
    streams = state._comm_ctx
    if hasattr(streams, "post_forward_order"):  # From the first forward pass on.
        streams.all_gather_state = None
        streams.reduce_scatter_state = None
        streams.post_forward_order.clear()


# An all-gather that was begun would be taken as that of the next step, which would make one less
# than the other ranks.
def _reset_collectives(group: Any) -> None:
    gathered = group._all_gather_result
    if gathered is not None and gathered.all_gather_work is not None:
        try:
            gathered.all_gather_work.wait()
        except RuntimeError:
            pass  # It was cut off.
    group._all_gather_result = None
    group._post_reduce_event = None
    group._reshard_after_forward_event = None
    group._all_reduce_state = None
    group._partial_reduce_output = None
    group._post_forward_indices.clear()


# The module shows the shards again. Not by FSDPParamGroup.reshard(), which believes a flag of the
# group that its parameters need not agree with.
def _reset_unsharded(group: Any) -> None:
    sharded = _internal("_fsdp_param", "ShardedState").SHARDED
    for one in group.fsdp_params:
        one._setattr_on_modules(one.sharded_param)
        one.sharded_state = sharded
        one._sharded_post_forward_param = None
        one._sharded_post_forward_param_data = None
        for tensor in (*one.all_gather_outputs, *one._unsharded_inner_tensors):
            tensor.untyped_storage().resize_(0)
        if hasattr(one, "_extensions_data"):
            one._extensions_data.clear()
    group._sharded_state = sharded


# They would be added to those of the repeated step, on all ranks alike.
def _drop_unsharded_gradients(group: Any) -> None:
    for one in group.fsdp_params:
        one.unsharded_accumulated_grad = None
        if hasattr(one, "_unsharded_param"):  # From the first all-gather on.
            one._unsharded_param.grad = None
        if one.grad_offload_event is not None:
            one.grad_offload_event.synchronize()
            one.grad_offload_event = None


# Those of parameters that fully_shard has left out, too.
def _drop_gradients(module: torch.nn.Module) -> None:
    for parameter in module.parameters():
        parameter.grad = None


def move(module: torch.nn.Module) -> None:
    """Gives the shards the sizes of the position that their mesh has been moved to
    (ReplicaMesh.move). What is in them has no meaning then. The parameters stay the same objects,
    so an optimizer finds them; a state that it has had of them does not fit.

    Requires: no step is under way. Raises RuntimeError if a parameter has another size there.
    """
    show_shards(module)
    for group in _groups(module):
        info = group.mesh_info
        info.shard_mesh_rank = info.shard_process_group.rank()
        for one in group.fsdp_params:
            if one.is_dtensor:
                _check_size(one)
            _move_shard(one, info.shard_mesh_rank)


def _move_shard(one: Any, position: int) -> None:
    dimension = one.fsdp_placement.dim
    padded, whole = one.padded_sharded_param_size, one._orig_size
    rows = max(0, min(padded[dimension], whole[dimension] - position * padded[dimension]))
    size = torch.Size((*whole[:dimension], rows, *whole[dimension + 1:]))
    stride = _strides_of(size)
    one.sharded_size, one.contiguous_sharded_stride = size, stride
    if one.post_forward_mesh_info is not None:
        one.sharded_post_forward_size = size
        one.contiguous_sharded_post_forward_stride = stride
    with torch.no_grad():
        memory = one._sharded_param_data.view(padded)
        memory.narrow(dimension, rows, padded[dimension] - rows).zero_()
        one.sharded_param._local_tensor = memory.narrow(dimension, 0, rows)
    one.sharded_param.grad = None


def _check_size(one: Any) -> None:
    """Of a parameter that was parallelized besides: other dimensions of the mesh have to divide it
    evenly."""
    spec = one._tp_spec
    sizes: Any = import_module("torch.distributed.tensor._utils")
    here = sizes.compute_local_shape_and_global_offset(spec.shape, spec.mesh, spec.placements)[0]
    if tuple(here) != tuple(one._orig_size):
        raise RuntimeError(f"a parameter of size {tuple(spec.shape)} has {tuple(one._orig_size)} "
                           f"at one position of run.mesh, and {tuple(here)} at another; with "
                           "spares, dimensions other than fully_shard's must divide it evenly")


def _strides_of(size: torch.Size) -> Tuple[int, ...]:
    """As torch has them for a contiguous tensor, also where it is empty."""
    strides: Any = import_module("torch._prims_common")
    return tuple(strides.make_contiguous_strides_for(size))


class ReplicaMean:
    """Makes gradients the mean over the replicas, beside the backward pass: an all-reduce hook of
    each part of the module that fully_shard was applied to.

    A step with several passes adds up its gradients first, and takes the mean in the last one.
    """

    def __init__(self, module: torch.nn.Module, mean: Callable[[torch.Tensor], None]) -> None:
        """mean: replaces a flat tensor by its mean over the ranks that hold the same shard and
        share gradients. Called in the same order on all of them, on FSDP2's stream."""
        self._mean = mean
        self._is_last = True
        self._groups: List[Any] = []
        self._sums: Dict[int, torch.Tensor] = {}    # Of passes so far, by the group's number.
        self._counts: Dict[int, int] = {}           # Parameters that had gradients in them.
        for part, state in _parts(module):
            group = state._fsdp_param_group
            if group is not None:
                part.set_all_reduce_hook(functools.partial(self._take, len(self._groups)))
                self._groups.append(group)

    def remove(self) -> None:
        """Leaves the module's gradients alone from now on."""
        for group in self._groups:
            group._all_reduce_hook = None

    def begin_pass(self, is_last: bool) -> None:
        """Before each backward pass of a step."""
        self._is_last = is_last

    def end_passes(self) -> None:
        """Behind a step's last backward pass. Raises RuntimeError if passes have used different
        parameters: sums of gradients are then those of other parameters, or not yet means."""
        counts, left = self._counts, set(self._sums)
        self.reset()
        for number, group in enumerate(self._groups):
            if number in left or counts.get(number, 0) not in (0, _with_gradients(group)):
                raise self._differs(number)

    def reset(self) -> None:
        """After a step that was cut off."""
        self._is_last = True
        self._sums, self._counts = {}, {}

    def _take(self, number: int, gradients: torch.Tensor) -> None:
        so_far = self._sums.pop(number, None)
        if so_far is not None:
            if so_far.numel() != gradients.numel():
                raise self._differs(number)
            # Of the first pass: FSDP2 has filed its part of the sum, as zeros.
            self._counts.setdefault(number, _with_gradients(self._groups[number]))
            gradients += so_far
        if self._is_last:
            self._mean(gradients)
            return
        self._sums[number] = gradients.clone()
        gradients.zero_()

    def _differs(self, number: int) -> RuntimeError:
        return RuntimeError(f"the passes of a step have used different parameters of "
                            f"{_name_of(self._groups[number])}; each pass must use the same, or "
                            "call set_requires_gradient_sync(False) in all passes but the last")


def _with_gradients(group: Any) -> int:
    return sum(one.sharded_param.grad is not None for one in group.fsdp_params)


def _name_of(group: Any) -> str:
    """The part of the module, for people."""
    if group._module_fqn:
        return str(group._module_fqn)
    return f"a {type(group.modules[0]).__name__}"


def _parts(module: torch.nn.Module) -> List[Tuple[Any, Any]]:
    """Each part that fully_shard was applied to, and what FSDP2 keeps of it. Modules that it was
    applied to together are one part."""
    parts: Dict[int, Tuple[Any, Any]] = {}
    for one in module.modules():
        if isinstance(one, FSDPModule):
            state: Any = one._get_fsdp_state()
            parts.setdefault(id(state), (one, state))
    return list(parts.values())


def _states(module: torch.nn.Module) -> List[Any]:
    return [state for _, state in _parts(module)]


def _groups(module: torch.nn.Module) -> List[Any]:
    groups = [state._fsdp_param_group for state in _states(module)]
    return [group for group in groups if group is not None]


def _internal(module: str, name: str) -> Any:
    return getattr(import_module(_INTERNALS + module), name)


def _missing_fields() -> List[str]:
    missing: List[str] = []
    for (module, name), fields in _FIELDS.items():
        try:
            has = _names_in(_internal(module, name))
        except (ImportError, AttributeError):
            missing.append(name)
            continue
        missing += [f"{name}.{field}" for field in fields if field not in has]
    return missing


def _names_in(kind: type) -> Set[str]:
    """What a class declares or defines, and the attributes that its own methods use."""
    names: Set[str] = {*vars(kind), *vars(kind).get("__annotations__", {})}
    for one in vars(kind).values():
        if isinstance(one, FunctionType):
            names.update(inspect.unwrap(one).__code__.co_names)
    return names
