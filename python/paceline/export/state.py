"""The tensors of a module, as a compiled step takes them, and the module's passes in eager mode."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import torch
from torch import nn
from torch.func import functional_call

from paceline._checkpoint_manifest import DTYPE_NAMES


class Problem(Exception):
    """The model cannot be exported. Says what to change."""


@dataclass(frozen=True)
class Named:
    """A parameter or buffer, under its first name."""

    name: str
    tensor: torch.Tensor  # A contiguous copy of the initial value.
    trained: bool
    changed: bool = False  # By a forward pass in training.

    @property
    def kind(self) -> str:
        """As the package's description has it."""
        if self.trained:
            return "parameter"
        return "changed" if self.changed else "kept"


@dataclass(frozen=True)
class State:
    """All tensors of a module: parameters, then buffers, in the module's order."""

    named: List[Named]
    tied: List[Tuple[str, str]]  # Further names, each with the first one.

    @property
    def trained(self) -> List[str]:
        return [one.name for one in self.named if one.trained]

    @property
    def changed(self) -> List[str]:
        return [one.name for one in self.named if one.changed]

    def values(self) -> List[torch.Tensor]:
        return [one.tensor for one in self.named]


@dataclass(frozen=True)
class Passes:
    """What a pass returns: the loss, and in training gradients and changed buffers, in the order of
    the state."""

    loss: torch.Tensor
    gradients: List[torch.Tensor]
    changed: List[torch.Tensor]


@contextlib.contextmanager
def mode(module: nn.Module, training: bool) -> Iterator[None]:
    """The module trains, or is evaluated, within."""
    before = {one: one.training for one in module.modules()}
    module.train(training)
    try:
        yield
    finally:
        for one, was in before.items():
            one.training = was


def autocast(precision: str) -> Any:
    """For forward passes in this precision."""
    return torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16", cache_enabled=False)


def state_of(module: nn.Module, inputs: torch.Tensor, targets: torch.Tensor,
             precision: str) -> State:
    """Raises Problem where tensors cannot be taken, or a pass changes what nobody would restore."""
    for path, one in module.named_modules():
        if isinstance(one, nn.SyncBatchNorm):
            raise Problem(f"{path or 'the module'} is a SyncBatchNorm, which would normalise over "
                          "the batch of its own rank alone: make it a BatchNorm, or train it in a "
                          "session")
    named: List[Tuple[str, torch.Tensor, bool]] = []
    tied: List[Tuple[str, str]] = []
    first: Dict[int, str] = {}
    for group in (module.named_parameters(remove_duplicate=False),
                  module.named_buffers(remove_duplicate=False)):
        for name, tensor in group:
            if id(tensor) in first:
                tied.append((name, first[id(tensor)]))
                continue
            _check_tensor(name, tensor)
            first[id(tensor)] = name
            named.append((name, tensor, isinstance(tensor, nn.Parameter) and tensor.requires_grad))
    if not any(trained for _, _, trained in named):
        raise Problem("the module has no parameter that requires gradients")
    _check_memory([(name, tensor) for name, tensor, _ in named])
    changed = _changed_buffers(module, inputs, targets, precision)
    return State([Named(name, tensor.detach().clone(memory_format=torch.contiguous_format), trained,
                        name in changed) for name, tensor, trained in named], tied)


def _check_tensor(name: str, tensor: torch.Tensor) -> None:
    if type(tensor) not in (torch.Tensor, nn.Parameter, nn.Buffer):
        raise Problem(f"{name} is a {type(tensor).__name__}: only plain tensors can be exported")
    if tensor.layout != torch.strided or tensor.dtype not in DTYPE_NAMES:
        raise Problem(f"{name} is {tensor.layout} of {tensor.dtype}: only dense tensors of "
                      f"{', '.join(sorted(DTYPE_NAMES.values()))} can be exported")
    if tensor.device.type != "cpu":
        raise Problem(f"{name} is on {tensor.device}: compiled steps run on CPUs so far; make the "
                      "model there, or train it in a session")
    if tensor._backward_hooks or getattr(tensor, "_post_accumulate_grad_hooks", None):
        raise Problem(f"{name} has hooks for its gradient, which a compiled step would not call: "
                      "remove them, or train it in a session")
    if any(one.isspace() for one in name):
        raise Problem(f"the name {name!r} has white space: rename the module")


def _check_memory(named: Sequence[Tuple[str, torch.Tensor]]) -> None:
    """Two tensors of one memory would each be changed by itself."""
    spans: List[Tuple[int, int, str]] = []
    for name, tensor in named:
        if tensor.numel() > 0:
            last = sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride()))
            begin = tensor.data_ptr()
            spans.append((begin, begin + (last + 1) * tensor.element_size(), name))
    spans.sort()
    for (_, end, one), (begin, _, other) in zip(spans, spans[1:]):
        if begin < end:
            raise Problem(f"{one} and {other} are different tensors in the same memory; tie them "
                          "by assigning the one to both names, or copy one of them")


def _plain_attributes(module: nn.Module) -> Dict[str, object]:
    """What a pass must not change: numbers, texts, and tensors that are no buffers."""
    found: Dict[str, object] = {}
    for path, one in module.named_modules():
        for name, value in vars(one).items():
            at = f"{path}.{name}" if path else name
            if isinstance(value, torch.Tensor):
                found[at] = (id(value), value._version)
            elif value is None or isinstance(value, (bool, int, float, str)):
                found[at] = value
    return found


def _changed_buffers(module: nn.Module, inputs: torch.Tensor, targets: torch.Tensor,
                     precision: str) -> List[str]:
    """Names of the buffers that a pass in training changes, all names of tied ones."""
    buffers = dict(module.named_buffers(remove_duplicate=False))
    tensors = {**dict(module.named_parameters(remove_duplicate=False)), **buffers}
    copies = {name: tensor.detach().clone() for name, tensor in tensors.items()}
    with mode(module, True), torch.random.fork_rng(devices=[]):
        versions = {name: tensor._version for name, tensor in tensors.items()}
        plain = _plain_attributes(module)
        with torch.no_grad(), autocast(precision):
            check_loss(module(inputs, targets), requires_grad=False)
        for name, tensor in module.named_buffers(remove_duplicate=False):
            if buffers.get(name) is not tensor:
                raise Problem(f"forward assigns the buffer {name}, which would be lost; change it "
                              "in place, as self.buffer.copy_(...) does")
        for name, value in _plain_attributes(module).items():
            if name not in plain or plain[name] != value:
                raise Problem(f"forward changes the attribute {name}, which a compiled step could "
                              "not; make it a buffer, and change that in place")
    # Batch normalisation does not tell autograd.
    changed = [name for name, tensor in tensors.items()
               if tensor._version != versions[name] or not same_bits(tensor, copies[name])]
    with torch.no_grad():
        for name in changed:
            tensors[name].copy_(copies[name])
    for name in changed:
        if name not in buffers:
            raise Problem(f"forward changes the parameter {name} itself; only the optimizer may")
    return changed


def form(tensor: torch.Tensor) -> str:
    """For example "F32 4x3"; of a scalar, "F32 -"."""
    return f"{DTYPE_NAMES[tensor.dtype]} {'x'.join(map(str, tensor.shape)) or '-'}"


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    a, b = (tensor.detach().contiguous().flatten().view(torch.uint8) for tensor in (one, other))
    return torch.equal(a, b)


def check_loss(loss: object, requires_grad: bool = True) -> torch.Tensor:
    if isinstance(loss, torch.Tensor) and loss.dim() == 0 and loss.is_floating_point() and (
            loss.requires_grad or not requires_grad):
        return loss
    what = (f"a tensor {list(loss.shape)} of {loss.dtype}" if isinstance(loss, torch.Tensor)
            else f"a {type(loss).__name__}")
    raise Problem(f"forward(inputs, targets) returned {what}; it must return the mean loss of the "
                  "batch: a scalar floating-point tensor that requires gradients")


def run(module: nn.Module, state: State, values: Sequence[torch.Tensor], inputs: torch.Tensor,
        targets: torch.Tensor, training: bool, precision: str) -> Passes:
    """A pass with these values of the state, which stay as they are. Can be traced."""
    leaves: Dict[str, torch.Tensor] = {}
    for one, value in zip(state.named, values):
        leaf = value.detach()
        if one.trained and training:
            leaf = leaf.requires_grad_()
        elif one.changed and training:
            leaf = leaf.clone()
        leaves[one.name] = leaf
    with mode(module, training), torch.set_grad_enabled(training):
        with autocast(precision):
            loss = check_loss(functional_call(module, leaves, (inputs, targets)), training)
        if not training:
            return Passes(loss.detach(), [], [])
        trained = [leaves[name] for name in state.trained]
        gradients = torch.autograd.grad(loss, trained, allow_unused=True)
    unused = [name for name, one in zip(state.trained, gradients) if one is None]
    if unused:
        raise Problem(f"the loss does not depend on {', '.join(unused)}: freeze what is not "
                      "trained (requires_grad_(False)), or take it out of the module")
    return Passes(loss.detach(), [one for one in gradients if one is not None],
                  [leaves[name].detach() for name in state.changed])
