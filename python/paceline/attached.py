"""What a script attaches to its session: checked, and by name."""

from __future__ import annotations

import sys
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional,
                    Sequence, Tuple)

import torch
from torch.amp.grad_scaler import GradScaler

if TYPE_CHECKING:
    from paceline._protocols import Engine
    from paceline.session import Run
    from paceline.sharded import Replica, ShardedModel

Modules = Dict[str, torch.nn.Module]
Named = List[Tuple[str, torch.Tensor]]


def modules_of(model: Any) -> Modules:
    """Those that run.attach is given. Raises TypeError for anything else, ValueError for a
    SyncBatchNorm that does not synchronise."""
    modules: Mapping[str, Any] = {"": model}
    if isinstance(model, Mapping) and not isinstance(model, torch.nn.Module):
        modules = model
    for name, module in modules.items():
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"model {name or 'argument'} is a {type(module).__name__}; attach "
                            "takes a torch.nn.Module, or a dict of them")
        _check_batch_norm(name, module)
    return dict(modules)


def _check_batch_norm(prefix: str, model: torch.nn.Module) -> None:
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        return
    for name, layer in model.named_modules():
        if isinstance(layer, torch.nn.SyncBatchNorm):
            raise ValueError(f"{'.'.join(filter(None, (prefix, name))) or 'the model'} is a "
                             "SyncBatchNorm, which would normalise over this rank's batch alone: "
                             "that needs torch's default process group, which a session does not "
                             "have; leave convert_sync_batchnorm out (docs/session.md)")


def check_stateful(attached: Iterable[Any]) -> None:
    """Raises TypeError for what cannot be saved."""
    for one in attached:
        if not (hasattr(one, "state_dict") and hasattr(one, "load_state_dict")):
            raise TypeError(f"a {type(one).__name__} has no state_dict and load_state_dict, so "
                            "it cannot be saved; leave it out, or add them")


def trained_by(optimizer: Any, modules: Modules) -> Dict[int, torch.Tensor]:
    """The parameters that are trained, by id. Raises TypeError or ValueError unless the optimizer
    is one of these."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise TypeError(f"the optimizer is a {type(optimizer).__name__}; attach takes a "
                        "torch.optim.Optimizer")
    trained: Dict[int, torch.Tensor] = {
        id(p): p for module in modules.values() for p in module.parameters() if p.requires_grad}
    given = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if not given <= set(trained):
        raise ValueError(f"{len(given - set(trained))} of the optimizer's parameters are not "
                         "of the attached model, or do not require gradients")
    return trained


def named(modules: Modules, list_of: Callable[[torch.nn.Module],
                                              Iterable[Tuple[str, torch.Tensor]]]) -> Named:
    """What `list_of` gives of each module, under names of all of them together."""
    return [(f"{prefix}.{name}" if prefix else name, tensor)
            for prefix, module in modules.items() for name, tensor in list_of(module)]


def parameters_of(module: torch.nn.Module) -> Iterator[Tuple[str, torch.Tensor]]:
    """All names of all parameters."""
    return module.named_parameters(remove_duplicate=False)


def tensors_of(modules: Modules, sharded: Optional[ShardedModel]) -> Tuple[Named, Named]:
    """What is trained, and what is kept like a buffer."""
    parameters = named(modules, parameters_of) if sharded is None else sharded.parameters
    kept = [(name, p) for name, p in parameters if not p.requires_grad]
    kept += named(modules, lambda module: module.named_buffers(remove_duplicate=False))
    return [(name, p) for name, p in parameters if p.requires_grad], kept


def load(run: Run) -> None:
    """Gives what is attached to the engine."""
    trained, kept = tensors_of(run._modules, run._sharded)
    no_mean = ""
    if run._shadow is not None:
        no_mean = run._shadow.load(list({id(p): p for _, p in trained}.values()))
    loader = run._loaders[0] if run._loaders else None
    run._engine.load(
        parameters=trained, buffers=kept, state=run._state, shadow=run._shadow,
        sharded=run._sharded, mesh=[] if run._sharded is None else run._sharded.mesh_sizes,
        unused_parameters=run._unused_parameters, no_mean=no_mean,
        no_slipstream=run._no_slipstream, evaluates=run._evaluation is not None,
        samples=0 if loader is None else loader.samples,
        batch=0 if loader is None else loader.batch_size or 0,
        shuffle=loader is not None and loader.shuffle)
    if run._engine.counts_flops:
        from paceline import flops  # pylint: disable=import-outside-toplevel

        run._flops = flops.FlopCount.of(run)


def ranks_per_batch(run: Run) -> int:
    """How many ranks have the same samples, by what init was given. Its sizes are checked when
    run.mesh is made, and scripts may divide their data before."""
    mesh = run._mesh_shape
    return 1 if mesh is None or run._engine.shards == 1 else max(mesh.get("tensor", 1), 1)


def replica_of(engine: Engine, shape: Optional[Mapping[str, int]]) -> Replica:
    """Makes the ranks of run.mesh. Raises RuntimeError as ReplicaMesh, ValueError as Replica."""
    from paceline import sharded  # pylint: disable=import-outside-toplevel

    return sharded.Replica(engine, shape)


def sharded_model(run: Run, others: Sequence[Any]) -> Optional[ShardedModel]:
    """What the engine sees of the run's modules if fully_shard was applied to them; else None.

    Raises ValueError for what cannot be trained with these shards, RuntimeError if the installed
    torch lacks what that needs.
    """
    shards = run._engine.shards
    # Its import takes a while, and who has applied it has imported torch's.
    if "torch.distributed.fsdp" in sys.modules:
        from paceline import fsdp, sharded  # pylint: disable=import-outside-toplevel

        if any(fsdp.is_sharded(module) for module in run._modules.values()):
            if any(isinstance(one, GradScaler) for one in others):
                raise ValueError("a GradScaler does not go with a sharded model, of whose "
                                 "gradients each rank sees a part; train with param_dtype bfloat16 "
                                 "of fully_shard's MixedPrecisionPolicy")
            return sharded.ShardedModel(run, others)
    if shards > 1:
        raise ValueError(f"the job's file says shards: {shards}, and the attached model is not "
                         "sharded: apply fully_shard with mesh=run.mesh to its blocks and to the "
                         "whole, or leave shards out")
    return None
