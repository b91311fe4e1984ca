"""What a session has attached, as tensors and a text that says what they are.

The text is a pickle in which each tensor is a number. It is read without running any code: only
plain values of Python, torch and NumPy are in it.
"""

from __future__ import annotations

import copy
import io
import pickle
import random
import sys
from typing import (TYPE_CHECKING, Any, Dict, Iterable, List, Optional, Protocol, Sequence, Set,
                    Tuple)

import torch

if TYPE_CHECKING:
    from paceline.loader import OwnLoader
    from paceline.session import Run
    from paceline.shadow import Shadow
    from paceline.sharded import Placement, ShardedModel, Slice


class Stateful(Protocol):
    """What can be attached."""

    def state_dict(self) -> Any: ...
    def load_state_dict(self, state: Any, /) -> Any: ...


_PLAIN: Dict[str, Set[str]] = {
    "builtins": {"set", "frozenset", "complex", "slice", "range", "bytearray"},
    "collections": {"OrderedDict", "defaultdict", "Counter", "deque"},
    "torch": {"Size", "device"},
    "numpy": {"ndarray", "dtype"},
    "numpy.core.multiarray": {"_reconstruct", "scalar"},
    "numpy.core.numeric": {"_frombuffer"},
    "numpy._core.multiarray": {"_reconstruct", "scalar"},
    "numpy._core.numeric": {"_frombuffer"},
}


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=5)
        self.tensors: List[torch.Tensor] = []
        self._places: Dict[int, int] = {}

    def persistent_id(self, obj: Any) -> Any:
        if not isinstance(obj, torch.Tensor):
            return None
        if id(obj) not in self._places:
            self._places[id(obj)] = len(self.tensors)
            self.tensors.append(obj)
        return self._places[id(obj)]


class _Place(int):
    """Of a tensor in the schema's order, in its stead."""


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, tensors: Sequence[Any]) -> None:
        super().__init__(file)
        self._tensors = tensors

    def persistent_load(self, pid: Any) -> Any:
        return self._tensors[int(pid)]

    def find_class(self, module: str, name: str) -> Any:
        if name in _PLAIN.get(module, ()):
            return super().find_class(module, name)
        found = getattr(torch, name, None) if module == "torch" else None
        if isinstance(found, torch.dtype):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value, and is not loaded: what "
                                     "is attached has it in its state_dict")


def _split(value: Any) -> Tuple[bytes, List[torch.Tensor]]:
    """A text and the tensors of a value: of DTensors, this rank's parts."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(value)
    kinds = pickle.dumps(([_kind(t) for t in pickler.tensors], file.getvalue()), protocol=5)
    return kinds, [_local(t) for t in pickler.tensors]


def _kind(tensor: torch.Tensor) -> Tuple[Any, ...]:
    kind = str(tensor.dtype), tuple(tensor.shape), tensor.device.type
    if not hasattr(tensor, "_local_tensor"):
        return kind
    from paceline.sharded import placement_of  # pylint: disable=import-outside-toplevel

    return (*kind, placement_of(tensor))


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """As fsdp.local, without its imports."""
    part: torch.Tensor = getattr(tensor, "_local_tensor", tensor)
    return part


def _kinds(schema: bytes) -> Any:
    return _Unpickler(io.BytesIO(schema), []).load()[0]


def _join(schema: bytes, tensors: Sequence[Any]) -> Any:
    blob = _Unpickler(io.BytesIO(schema), []).load()[1]
    return _Unpickler(io.BytesIO(blob), tensors).load()


def _has_tensors(value: Any) -> bool:
    pickler = _Pickler(io.BytesIO())
    pickler.dump(value)
    return bool(pickler.tensors)


class _Random:
    """The random numbers of Python and NumPy; torch's are the engine's."""

    def state_dict(self) -> Dict[str, Any]:
        numpy = sys.modules.get("numpy")
        return {"python": random.getstate(),
                "numpy": numpy.random.get_state() if numpy else None}

    def load_state_dict(self, state: Dict[str, Any]) -> None:
        random.setstate(state["python"])
        numpy = sys.modules.get("numpy")
        if numpy and state["numpy"] is not None:
            numpy.random.set_state(state["numpy"])


def random_numbers() -> Tuple[torch.Tensor, Optional[torch.Tensor], Any]:
    """Where torch's (of the CPU and the current GPU), Python's and NumPy's random numbers are."""
    has_gpu = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    gpu = torch.cuda.get_rng_state() if has_gpu else None
    return torch.get_rng_state(), gpu, _Random().state_dict()


def restore_random_numbers(numbers: Tuple[torch.Tensor, Optional[torch.Tensor], Any]) -> None:
    """The next random numbers are those that followed then."""
    cpu, gpu, others = numbers
    torch.set_rng_state(cpu)
    if gpu is not None:
        torch.cuda.set_rng_state(gpu)
    _Random().load_state_dict(others)


class State:
    """For the engine (python/csrc/python_attachments.h), whose training thread calls it."""

    def __init__(self, run: Run, optimizer: torch.optim.Optimizer, others: Iterable[Stateful],
                 own: Iterable[Stateful], shadow: Optional[Shadow] = None,
                 loaders: Sequence[OwnLoader] = (), sharded: Optional[ShardedModel] = None
                 ) -> None:
        self._run = run
        self._sharded = sharded  # None: the optimizer has no DTensors.
        self._loaders = loaders  # Of own; they go back to a step's beginning in their own way.
        self._shadow = shadow  # None: the script calls optimizer and schedulers by itself.
        self._optimizer = optimizer
        self._others = list(others)
        self._own: List[Stateful] = [_Random(), *own]
        # Of others and own: what a step may change before its update, and copies of that.
        self._changing: List[Stateful] = []
        self._kept: List[Any] = []
        self._knows_changing = False

    def names(self) -> str:
        """The classes of what is attached."""
        return " ".join(f"{type(one).__module__}.{type(one).__qualname__}"
                        for one in (self._optimizer, *self._others, *self._own))

    def slots(self) -> List[Tuple[str, List[torch.Tensor]]]:
        """What has a tensor of the parameter's shape for each parameter in the optimizer's state:
        (name, tensors). Empty unless all parameters have the same."""
        parameters = [p for group in self._optimizer.param_groups for p in group["params"]]
        states = [self._optimizer.state.get(p, {}) for p in parameters]
        if not states or any(set(state) != set(states[0]) for state in states):
            return []

        def is_slot(name: Any) -> bool:
            return all(isinstance(state[name], torch.Tensor) and state[name].shape == p.shape
                       and state[name].dim() > 0 for p, state in zip(parameters, states))

        return [(name, [_local(state[name]) for state in states])
                for name in sorted(states[0], key=str) if is_slot(name)]

    def take(self, shared: bool) -> Tuple[bytes, List[torch.Tensor]]:
        """The present state: its schema and its tensors."""
        if shared and self._shadow is not None:
            self._shadow.settle()
        return _split([one.state_dict() for one in self._of(shared)])

    def allocate(self, shared: bool, schema: bytes) -> List[torch.Tensor]:
        """Tensors into which those of the schema fit."""
        sharded = self._sharded
        return [torch.empty(shape if sharded is None else sharded.sizes_of(shape, placement),
                            dtype=getattr(torch, dtype.removeprefix("torch.")),
                            device="cpu" if device == "cpu" else self._run.device)
                for (dtype, shape, device, *_), placement in zip(
                    _kinds(schema), self._placements(shared, schema))]

    def slices(self, shared: bool, schema: bytes) -> List[Optional[Slice]]:
        """Which slice of a sharded tensor each of the schema's is on this rank."""
        sharded = self._sharded
        if sharded is None:
            return []
        return [sharded.slice_of(kind[1], placement) for kind, placement in zip(
            _kinds(schema), self._placements(shared, schema))]

    def put(self, shared: bool, schema: bytes, tensors: Sequence[torch.Tensor]) -> None:
        """Replaces the state."""
        sharded = self._sharded
        if sharded is not None:
            tensors = [sharded.whole(tensor, kind[1], placement) for tensor, kind, placement in zip(
                tensors, _kinds(schema), self._placements(shared, schema))]
        states = _join(schema, tensors)
        attached = self._of(shared)
        if len(states) != len(attached):
            raise ValueError(f"{len(attached)} objects are attached, and the state is of "
                             f"{len(states)}: the script has changed")
        for one, state in zip(attached, states):
            one.load_state_dict(state)
        if shared:
            self._run._slots_known = False
            if self._shadow is not None:
                self._shadow.forget()

    def keep(self) -> None:
        """Copies what a step may change before its update is done."""
        for loader in self._loaders:
            loader.keep()
        if not self._knows_changing:
            self._knows_changing = True
            # A step changes tensors, as of an average of the weights, only when it is done. What
            # the shadow has taken over, the script does not change at all.
            taken: List[Stateful] = [*self._loaders]
            if self._shadow is not None:
                taken += self._shadow.schedulers
            self._changing = [one for one in (*self._others, *self._own)
                              if not any(one is other for other in taken)
                              and not _has_tensors(one.state_dict())]
        self._kept = [copy.deepcopy(one.state_dict()) for one in self._changing]

    def undo(self) -> None:
        """Restores that copy."""
        for loader in self._loaders:
            loader.undo()
        for one, state in zip(self._changing, self._kept):
            one.load_state_dict(copy.deepcopy(state))

    def _placements(self, shared: bool, schema: bytes) -> List[Optional[Placement]]:
        """How the tensors of the schema are sharded here: as they were, or, what the optimizer has
        in a parameter's shape, as the parameter is."""
        kinds = _kinds(schema)
        found: List[Optional[Placement]] = [kind[3] if len(kind) > 3 else None for kind in kinds]
        if self._sharded is None or not shared:
            return found
        states = _join(schema, [_Place(place) for place in range(len(kinds))])
        for place, shape, placement in self._sharded.slots_in(states[0]):
            if isinstance(place, _Place) and kinds[place][1] == shape:
                found[place] = placement
        return found

    def _of(self, shared: bool) -> List[Stateful]:
        return [self._optimizer, *self._others] if shared else self._own
