"""Exports a model as a compiled step: traces, compiles, compares with eager mode, and writes."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple

import torch
from torch import nn
from torch._inductor.package import package_aoti

from paceline.export.compare import TOLERANCE, compare
from paceline.export.graph import Entry, compile_entry, trace
from paceline.export.state import Problem, State, form, mode, run, state_of
from paceline.flops import _KINDS, FlopCount

FORMAT = "1"  # Of the description; the trainer knows it (worker/trainer/model/compiled_package.h).

# Beginnings of the names of CPU features that a compiler may use with -march=native.
_INSTRUCTIONS = (
    "3dnow", "abm", "adx", "aes", "amx", "avx", "bmi", "cldemote", "clflushopt", "clwb", "cx16",
    "f16c", "fma", "fsgsbase", "gfni", "lahf_lm", "movbe", "movdir", "pclmulqdq", "pni", "popcnt",
    "rdpid", "rdrand", "rdseed", "serialize", "sha", "sm3", "sm4", "sse", "ssse", "tbm", "vaes",
    "vpclmulqdq", "waitpkg", "xop", "xsave")


@dataclass(frozen=True)
class Exported:
    """What was written."""

    package: str
    weights: str
    batch: int
    worst: float        # Error of a gradient, as a share of its norm or of a hundredth of all.
    worst_name: str


def export_step(module: nn.Module, inputs: torch.Tensor, targets: torch.Tensor, path: str, *,
                precision: str = "fp32") -> Exported:
    """Compiles the module's passes for batches of this size, and writes `path`, which ends in
    .pt2, and the initial weights beside it, as .safetensors.

    module: its forward(inputs, targets) returns the mean loss of the batch, as for TorchScript
        (docs/own-model.md). Is as before afterwards.
    inputs, targets: a batch as the trainer reads them, of values as in training.
    precision: "fp32", or "bf16", by autocast.

    Raises Problem, which says what to change; nothing is written then.
    """
    if precision not in TOLERANCE:
        raise Problem(f"precision is {precision}; allowed is fp32, bf16")
    if not path.endswith(".pt2"):
        raise Problem(f"{path} must end in .pt2")
    _check_output(path)
    inputs, targets = _batch_of(inputs, targets)
    state = state_of(module, inputs, targets, precision)
    flops = _flops(module, state, inputs, targets, precision)
    # The loader finds an entry by its name's beginning, so that none may begin with another's.
    entries = [trace("train", module, state, inputs, targets, precision),
               trace("evaluate", module, state, inputs, targets, precision)]
    if len(inputs) > 1:  # For what is left over at the end of the evaluation data.
        entries.append(trace("single", module, state, inputs[:1], targets[:1], precision))
    description = _description(state, entries, inputs, targets, precision, flops)
    files = {one.name: compile_entry(one, state, inputs[:one.batch], targets[:one.batch],
                                     description) for one in entries}
    package, weights = path, path[:-len(".pt2")] + ".safetensors"
    with tempfile.TemporaryDirectory(dir=os.path.dirname(os.path.abspath(path))) as folder:
        new_package, new_weights = (os.path.join(folder, os.path.basename(one))
                                    for one in (package, weights))
        package_aoti(new_package, files)
        worst, name = compare(module, state, entries, new_package, inputs, targets, precision)
        _write_weights(new_weights, state, entries)
        # In this order, so that there never is a package beside the weights of another one.
        if os.path.exists(package):
            os.remove(package)
        os.replace(new_weights, weights)
        os.replace(new_package, package)
    return Exported(package, weights, len(inputs), worst, name)


def _check_output(path: str) -> None:
    """What would only fail when all is compiled, which takes minutes."""
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK | os.X_OK):
        raise Problem(f"{folder} is no folder that can be written: make it, or give the package "
                      "another place")
    if os.path.isdir(path):
        raise Problem(f"{path} is a folder: give the package another name")
    if importlib.util.find_spec("safetensors") is None:
        raise Problem("safetensors is not installed: pip install safetensors")


def _batch_of(inputs: torch.Tensor, targets: torch.Tensor) -> Tuple[torch.Tensor, torch.Tensor]:
    """The batch, if the trainer's data may have its form."""
    for name, one in (("inputs", inputs), ("targets", targets)):
        if not isinstance(one, torch.Tensor) or one.dim() == 0 or one.device.type != "cpu":
            raise Problem(f"{name} must be a tensor of a batch, on the CPU")
    images = (inputs.dtype == torch.float32 and inputs.dim() == 4 and targets.dim() == 1)
    tokens = (inputs.dtype == torch.int64 and inputs.dim() == 2 and targets.dim() == 2)
    if targets.dtype != torch.int64 or not (images or tokens) or len(inputs) != len(targets) or (
            len(inputs) == 0):
        raise Problem(
            f"a batch has inputs {list(inputs.shape)} of {inputs.dtype} and targets "
            f"{list(targets.shape)} of {targets.dtype}; the trainer's data have float32 [samples, "
            "channels, height, width] and int64 [samples] for images, and int64 [samples, length] "
            "twice for tokens")
    return inputs.detach().contiguous(), targets.detach().contiguous()


def _flops(module: nn.Module, state: State, inputs: torch.Tensor, targets: torch.Tensor,
           precision: str) -> str:
    """Operations of a sample by what limits them, as Engine.set_flops; empty: not known."""
    count = FlopCount()
    with mode(module, True), torch.random.fork_rng(devices=[]):
        count.begin_forward(len(inputs))
        try:
            run(module, state, state.values(), inputs, targets, True, precision)
        finally:
            count.leave()
    if count._problem():
        return ""
    return " ".join(repr(count._flops[kind] / len(inputs)) for kind in _KINDS)


def _description(state: State, entries: Sequence[Entry], inputs: torch.Tensor,
                 targets: torch.Tensor, precision: str, flops: str) -> Dict[str, str]:
    """What the trainer has to know, for the package's metadata: texts of lines of words."""

    def lines(rows: Sequence[Sequence[str]]) -> str:
        return "\n".join(" ".join(row) for row in rows)

    return {
        "paceline_format": FORMAT,
        "paceline_torch": torch.__version__.split("+")[0],
        "paceline_instructions": " ".join(_instructions()),
        "paceline_precision": precision,
        "paceline_inputs": form(inputs),
        "paceline_targets": form(targets),
        "paceline_state": lines([(one.kind, form(one.tensor), one.name) for one in state.named]),
        "paceline_tied": lines(state.tied),
        "paceline_constants": lines([(name, form(one)) for entry in entries
                                     for name, one in _named_constants(entry)]),
        "paceline_flops": flops,
    }


def _named_constants(entry: Entry) -> List[Tuple[str, torch.Tensor]]:
    return [(f"constant.{entry.name}.{i}", one) for i, one in enumerate(entry.constants)]


def _instructions() -> List[str]:
    """Features of this CPU that the code may use: the compiler is told to use all it knows."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            name, _, flags = line.partition(":")
            if name.strip() == "flags":
                return sorted(one for one in flags.split() if one.startswith(_INSTRUCTIONS))
            if name.strip() == "Features":  # Of Arm, which has no others.
                return sorted(flags.split())
    raise Problem("/proc/cpuinfo does not say what this machine's CPU can do")


def _write_weights(path: str, state: State, entries: Sequence[Entry]) -> None:
    import safetensors.torch  # pylint: disable=import-outside-toplevel

    tensors = {one.name: one.tensor for one in state.named}
    for entry in entries:
        tensors.update(_named_constants(entry))
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})
