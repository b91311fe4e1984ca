"""Traces passes of a module to a graph whose state is its input, and compiles that."""

from __future__ import annotations

import contextlib
import ctypes
import os
import warnings
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Sequence, Tuple

import torch
import torch._inductor.lowering  # Decompositions look up names in it.
from torch import nn
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental.proxy_tensor import make_fx

from paceline.export.state import Problem, State, run


@dataclass(frozen=True)
class Entry:
    """A graph: state, inputs, targets and constants to loss, gradients and changed buffers."""

    name: str
    graph: torch.fx.GraphModule
    batch: int
    constants: List[torch.Tensor]  # That the code itself contains.


def trace(name: str, module: nn.Module, state: State, inputs: torch.Tensor, targets: torch.Tensor,
          precision: str) -> Entry:
    """The pass in training for the name "train", else one in evaluation. Raises Problem."""
    training = name == "train"

    def call(*flat: torch.Tensor) -> List[torch.Tensor]:
        passes = run(module, state, flat[:-2], flat[-2], flat[-1], training, precision)
        return [passes.loss, *passes.gradients, *passes.changed]

    try:
        # With fake tensors, what depends on values is an error instead of a constant.
        graph = make_fx(call, decomposition_table=select_decomp_table(), tracing_mode="fake")(
            *state.values(), inputs, targets)
    except Problem:
        raise
    except Exception as error:
        raise Problem("forward or backward cannot be traced (branches on values of tensors, "
                      ".item(), and tensors of the module that are neither parameters nor buffers "
                      f"cannot be compiled): {first_line(error)}") from error
    return Entry(name, graph, len(inputs), _constants_to_inputs(graph))


def first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else 'no reason given'}"


def _constants_to_inputs(graph: torch.fx.GraphModule) -> List[torch.Tensor]:
    """Makes tensors that the code contains inputs, behind the others: the compiler would build the
    values of small ones in."""
    constants: Dict[str, torch.Tensor] = {}
    places: Dict[str, torch.fx.Node] = {}
    first = next(node for node in graph.graph.nodes if node.op != "placeholder")
    for node in list(graph.graph.nodes):
        if node.op != "get_attr":
            continue
        value = getattr(graph, node.target)
        if not isinstance(value, torch.Tensor) or isinstance(value, torch._subclasses.FakeTensor):
            raise Problem(f"the traced pass contains {node.target}, a {type(value).__name__}, "
                          "which cannot be compiled")
        if node.target not in places:
            with graph.graph.inserting_before(first):
                places[node.target] = graph.graph.placeholder(node.target)
            places[node.target].meta = dict(node.meta)
            constants[node.target] = value.detach().clone(memory_format=torch.contiguous_format)
        node.replace_all_uses_with(places[node.target])
        graph.graph.erase_node(node)
    graph.recompile()
    return list(constants.values())


def compile_entry(entry: Entry, state: State, inputs: torch.Tensor, targets: torch.Tensor,
                  description: Dict[str, str]) -> Any:
    """The files of the compiled entry, for package_aoti."""
    options: Dict[str, Any] = {
        "aot_inductor.package": True,
        "aot_inductor.metadata": description,
        # The process that runs it has torch already, and not always libtorch.so, which needs CUDA's
        # libraries where torch has them.
        "aot_inductor.link_libtorch": False,
        # Draws as eager mode does, from the default generator, whose state checkpoints have.
        "fallback_random": True,
        # As many threads as the process has that runs it.
        "cpp.dynamic_threads": True,
    }
    arguments: Tuple[torch.Tensor, ...] = (*state.values(), inputs, targets, *entry.constants)
    try:
        with _deterministic(), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # Torch's own, of its pytrees.
            return torch._inductor.aot_compile(entry.graph, arguments, options=options)
    except Exception as error:
        raise Problem(f"the {entry.name} graph cannot be compiled: {first_line(error)}") from error


@contextlib.contextmanager
def _deterministic() -> Iterator[None]:
    """What is compiled within adds in one order, with several threads too: a job that goes on from
    a checkpoint computes the same bits."""
    before = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    fills = torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    try:
        yield
    finally:
        torch.utils.deterministic.fill_uninitialized_memory = fills
        torch.use_deterministic_algorithms(before, warn_only=warn_only)


class Loaded:
    """An entry of a package, loaded as the trainer does."""

    def __init__(self, path: str, entry: Entry) -> None:
        # Python keeps the names of its modules' libraries to itself.
        ctypes.CDLL(os.path.join(torch.__path__[0], "lib", "libtorch_cpu.so"), ctypes.RTLD_GLOBAL)
        self._loader = torch._C._aoti.AOTIModelPackageLoader(path, entry.name, False, 1, -1)
        self._constants = entry.constants

    def run(self, values: Sequence[torch.Tensor], inputs: torch.Tensor,
            targets: torch.Tensor) -> List[torch.Tensor]:
        flat = [one.detach() for one in (*values, inputs, targets, *self._constants)]
        return list(self._loader.boxed_run(flat))
