"""What a session's model costs: counts the floating-point operations of the first step
(docs/flops.md).

The operators are those that torch.utils.flop_counter knows, and the formulas its own, but for those
below. Its FlopCounterMode itself is not used: it makes torch.compile give up, for good, all that is
called while it counts, and it leaves attention on CPUs out.
"""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _python_dispatch, _pytree, flop_counter

if TYPE_CHECKING:
    from paceline.session import Run

_aten: Any = torch.ops.aten
_GIVE_IT = "; flops_per_sample in the job's file gives them"

# What has no formula and multiplies much: whole recurrent networks, and products of three.
_OPAQUE = ("_cudnn_rnn", "miopen_rnn", "mkldnn_rnn_layer", "_trilinear")
# Parts of the names of operators that multiply.
_PRODUCTS = ("mm", "matmul", "linear", "conv", "attention")
# Namespaces of torch's own operators. Others' may do anything.
_TORCHS = {"aten", "prim", "prims", "rngprims", "c10d", "_c10d_functional", "fsdp", "_dtensor",
           "profiler", "inductor", "quantized", "symm_mem"}


class FlopCount:
    """Counts one step, of which only the passes: not the optimizer."""

    @staticmethod
    def of(run: Run) -> Optional[FlopCount]:
        """For the run's next step. None: it cannot be counted."""
        for is_hidden, why in ((_is_compiled, _COMPILED), (_is_replayed, _REPLAYED)):
            if any(is_hidden(one) for module in run._modules.values() for one in module.modules()):
                print(f"the model's FLOPs are not counted: {why}{_GIVE_IT}", flush=True)
                return None
        return FlopCount()

    def __init__(self) -> None:
        self._mode = _Mode(self)
        self._is_on = False      # The mode is on this thread's stack,
        self._counts = False     # and calls count.
        self._backward = False
        self._begin()

    def _begin(self) -> None:
        self._samples = 0  # Of the passes so far.
        self._flops: Dict[str, float] = dict.fromkeys(_KINDS, 0.0)
        self._unknown = ""       # An operator that does much, nobody knows how much.
        self._strange: Set[str] = set()  # Operators without a formula that are not torch's.

    def begin_forward(self, samples: int) -> None:
        """A pass begins."""
        self.leave()
        if not self._is_on:
            self._mode.__enter__()
            self._is_on = True
        self._samples += samples
        self._counts, self._backward = True, False

    def begin_backward(self) -> None:
        self._backward = True

    def leave(self) -> None:
        """A pass ends."""
        self._counts = False
        # The script may have entered a mode of its own, and leave it later.
        if self._is_on and _python_dispatch._get_current_dispatch_mode() is self._mode:
            self._mode.__exit__(None, None, None)
            self._is_on = False

    def end(self, run: Run, done: bool) -> None:
        """The step has ended. If it is done, the engine is told what it has cost, and no other one
        is counted; else the next one counts anew."""
        self.leave()
        if not done or self._is_on:
            self._begin()
            return
        run._flops = None
        problem = self._problem()
        if problem:
            print(f"the model's FLOPs are not counted: {problem}", flush=True)
            return
        per_sample = [self._flops[kind] / self._samples for kind in _KINDS]
        strange = ", without " + ", ".join(sorted(self._strange)) if self._strange else ""
        print(f"counted flops_per_sample={sum(per_sample):.6g} in a step of {self._samples} "
              f"samples{strange}", flush=True)
        run._engine.set_flops(*per_sample)

    def _problem(self) -> str:
        """Why the count is of no use, and what to do; empty: it is."""
        if _graphs_compiled():
            return _COMPILED + _GIVE_IT
        if self._unknown:
            return f"the shapes of {self._unknown} do not say what it does{_GIVE_IT}"
        if not any(self._flops.values()):
            return f"it has no matrix products, convolutions or attention{_GIVE_IT}"
        if not self._samples:  # Of no use with flops_per_sample either.
            return ("its batches do not tell their number of samples; make each a tensor, or a list "
                    "or mapping of tensors")
        return ""

    def call(self, func: Any, types: Sequence[type], args: Tuple[Any, ...],
             kwargs: Dict[str, Any]) -> Any:
        """Calls an operator, and counts it."""
        if not self._counts or FakeTensor in types:  # Of shapes alone, as DTensor asks for.
            return func(*args, **kwargs)
        if any(map(_has_own_operators, types)):
            return NotImplemented  # Then what a sharded tensor calls of its part comes by here.
        if isinstance(func, torch._ops.HigherOrderOperator):
            self._unknown = self._unknown or str(func)
            return func(*args, **kwargs)
        packet = func.overloadpacket
        formula = _formula_of(packet)
        if any(map(_is_irregular, _pytree.arg_tree_leaves(*args, **kwargs))):
            if formula is not None or any(part in packet.__name__ for part in _PRODUCTS):
                self._unknown = self._unknown or str(packet)
            return func(*args, **kwargs)
        if formula is None:
            if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), _COMPOSITE):
                with self._mode:  # In inference mode some come here undivided.
                    return func._op_dk(_COMPOSITE, *args, **kwargs)
            self._note(func)
            return func(*args, **kwargs)
        result = func(*args, **kwargs)
        # A backward pass enables gradients where it makes a part of the forward pass again.
        if not (self._backward and torch.is_grad_enabled()):
            self._add(packet, formula, args, kwargs, result)
        return result

    def _note(self, func: Any) -> None:
        if func.namespace not in _TORCHS:
            self._strange.add(f"{func.namespace}::{func.overloadpacket.__name__}")
        elif func.overloadpacket.__name__.startswith(_OPAQUE):
            self._unknown = self._unknown or str(func.overloadpacket)

    def _add(self, packet: Any, formula: _Formula, args: Tuple[Any, ...], kwargs: Dict[str, Any],
             result: Any) -> None:
        try:
            flops = formula(*args, **kwargs, out_val=result)
            kind = _kind_of(packet, args)
        except Exception:  # pylint: disable=broad-except
            self._unknown = self._unknown or str(packet)  # Of shapes that its formula lacks.
            return
        self._flops[kind] += flops


class _Mode(_python_dispatch.TorchDispatchMode):
    """Is on while a step is counted."""

    supports_higher_order_operators = True  # Else they would raise.

    def __init__(self, count: FlopCount) -> None:
        super().__init__()
        self._count = count

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        # Otherwise what torch.compile is called for first in this step stays uncompiled for good.
        return True

    def __torch_dispatch__(self, func: Any, types: Sequence[type], args: Tuple[Any, ...] = (),
                           kwargs: Optional[Dict[str, Any]] = None) -> Any:
        return self._count.call(func, types, args, kwargs or {})


_Formula = Callable[..., float]

# As the arguments of Engine.set_flops, by what limits them on a device.
_KINDS = ("half", "matrices", "convolutions", "other")

_COMPILED = ("torch.compile makes parts of it, and nobody sees into what it makes (with "
             "TORCH_COMPILE_DISABLE=1 a few steps count them)")
_REPLAYED = "parts of it are CUDA graphs, which are replayed without their operators"

# The kernel of an operator that is made of others.
_COMPOSITE: Any = torch._C.DispatchKey.CompositeImplicitAutograd


def _graphs_compiled() -> int:
    """How many graphs torch.compile has made in this process."""
    utils: Any = sys.modules.get("torch._dynamo.utils")
    return 0 if utils is None else utils.counters["stats"]["unique_graphs"]


def _is_compiled(module: torch.nn.Module) -> bool:
    return (getattr(module, "_compiled_call_impl", None) is not None
            or type(module).__module__.startswith("torch._dynamo"))


def _is_replayed(module: torch.nn.Module) -> bool:
    """Whether torch.cuda.make_graphed_callables has replaced its forward pass."""
    return getattr(module.forward, "__module__", None) == "torch.cuda.graphs"


def _is_irregular(value: object) -> bool:
    """Whether the shape of a tensor does not say how many values it has: it is sparse, or consists
    of several of different shapes."""
    return isinstance(value, torch.Tensor) and (
        value.is_nested or value.layout != torch.strided)


def _has_own_operators(kind: type) -> bool:
    own: Any = getattr(kind, "__torch_dispatch__", None)
    return own is not getattr(torch.Tensor, "__torch_dispatch__")


def _kind_of(packet: Any, args: Tuple[Any, ...]) -> str:
    tensors: List[torch.Tensor] = [one for one in args if isinstance(one, torch.Tensor)]
    dtype = tensors[min(1, len(tensors) - 1)].dtype  # The first may be what is added.
    if dtype in (torch.bfloat16, torch.float16):
        return "half"
    if dtype != torch.float32:
        return "other"
    return "convolutions" if "convolution" in packet.__name__ else "matrices"


def _attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *_more: Any,
               **_others: Any) -> float:
    """Of as many heads as the query has."""
    batch, heads, length, dim = query.shape
    return 2.0 * batch * heads * length * key.shape[-2] * (dim + value.shape[-1])


def _attention_backward(_grad: torch.Tensor, *inputs: Any, **others: Any) -> float:
    """Two gradients of each of the two products. Without the scores, which it computes again."""
    return 2 * _attention(*inputs, **others)


def _varlen_backward(name: str, inputs: int) -> _Formula:
    """Of attention over sequences of different lengths, one behind the other. As many inputs as its
    forward pass has before their ends come first here, too."""
    def flops(_grad: torch.Tensor, *args: Any, out_val: Any, **_others: Any) -> float:
        forward: Any = flop_counter.flop_registry[getattr(_aten, name)]
        return 2.0 * forward(*args[:inputs], *args[5:9], out_val=out_val)
    return flops


def _product(_added: torch.Tensor, a: torch.Tensor, b: torch.Tensor, *_more: Any,
             **_others: Any) -> float:
    return 2.0 * a.numel() * b.shape[-1]


def _convolution_backward(grad: torch.Tensor, x: torch.Tensor, weight: torch.Tensor, _bias: Any,
                          _stride: Any, _padding: Any, _dilation: Any, transposed: bool,
                          _output_padding: Any, _groups: int, mask: Sequence[bool],
                          **_others: Any) -> float:
    """A gradient costs as much as the forward pass. torch counts that of the weights once for each
    group."""
    places = math.prod((x if transposed else grad).shape[2:])
    return 2.0 * x.shape[0] * places * weight.numel() * (mask[0] + mask[1])


def _grouped_product(a: torch.Tensor, b: torch.Tensor, *_more: Any, **_others: Any) -> float:
    """[m, k] by [g, k, n], [g, m, k] by [k, n], [m, k] by [k, n], or [g, m, k] by [g, k, n]: of
    each row, or column, or product, one of the groups."""
    rows = math.prod(a.shape[1:]) if a.dim() == 3 and b.dim() == 2 else a.numel()
    return 2.0 * rows * b.shape[-1]


_OWN: Dict[str, _Formula] = {
    "convolution_backward": _convolution_backward,
    "_grouped_mm": _grouped_product,
    **dict.fromkeys(("addmm_", "baddbmm_", "addbmm", "addbmm_"), _product),
    "_flash_attention_backward": _varlen_backward("_flash_attention_forward", 3),
    "_efficient_attention_backward": _varlen_backward("_efficient_attention_forward", 4),
    **{f"_scaled_dot_product_{kind}{suffix}": formula
       for kind in ("flash_attention", "flash_attention_for_cpu", "efficient_attention",
                    "cudnn_attention", "fused_attention_overrideable")
       for suffix, formula in (("", _attention), ("_backward", _attention_backward))},
}


def _formula_of(packet: Any) -> Optional[_Formula]:
    if packet in _OWN_PACKETS:
        return _OWN_PACKETS[packet]
    return cast("Optional[_Formula]", flop_counter.flop_registry.get(packet))


_OWN_PACKETS: Dict[Any, _Formula] = {
    getattr(_aten, name): formula for name, formula in _OWN.items() if hasattr(_aten, name)}
