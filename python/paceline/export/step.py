"""Exports a model as a compiled step: traces, compiles, compares with eager mode, and writes."""

from __future__ import annotations

import math
import os
import tempfile
from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple

import torch
from torch import nn
from torch._inductor.package import package_aoti

from paceline._checkpoint_manifest import DTYPE_NAMES
from paceline.export.graph import Entry, Loaded, compile_entry, trace
from paceline.export.state import Passes, Problem, State, mode, run, same_bits, state_of
from paceline.flops import _KINDS, FlopCount

FORMAT = "1"  # Of the description; the trainer knows it (worker/trainer/model/compiled_package.h).

# Largest norm of an error, as a share of that of the tensor, and of all gradients together.
_TOLERANCE = {"fp32": 1e-3, "bf16": 5e-2}
_TOLERANCE_OF_ALL = {"fp32": 1e-5, "bf16": 1e-2}

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
    if precision not in _TOLERANCE:
        raise Problem(f"precision is {precision}; allowed is fp32, bf16")
    if not path.endswith(".pt2"):
        raise Problem(f"{path} must end in .pt2")
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
        worst, name = _compare(module, state, entries, new_package, inputs, targets, precision)
        _write_weights(new_weights, state, entries)
        # In this order, so that there never is a package beside the weights of another one.
        if os.path.exists(package):
            os.remove(package)
        os.replace(new_weights, weights)
        os.replace(new_package, package)
    return Exported(package, weights, len(inputs), worst, name)


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
        "paceline_inputs": _form(inputs),
        "paceline_targets": _form(targets),
        "paceline_state": lines([(one.kind, _form(one.tensor), one.name) for one in state.named]),
        "paceline_tied": lines(state.tied),
        "paceline_constants": lines([(name, _form(one)) for entry in entries
                                     for name, one in _named_constants(entry)]),
        "paceline_flops": flops,
    }


def _form(tensor: torch.Tensor) -> str:
    """For example "F32 4x3"; of a scalar, "F32 -"."""
    return f"{DTYPE_NAMES[tensor.dtype]} {'x'.join(map(str, tensor.shape)) or '-'}"


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
    try:
        import safetensors.torch  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise Problem("safetensors is not installed: pip install safetensors") from error

    tensors = {one.name: one.tensor for one in state.named}
    for entry in entries:
        tensors.update(_named_constants(entry))
    safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})


def _compare(module: nn.Module, state: State, entries: Sequence[Entry], path: str,
             inputs: torch.Tensor, targets: torch.Tensor, precision: str) -> Tuple[float, str]:
    """Compares each entry with eager mode on the batch, and then with other weights, buffers and
    targets, so that nothing of what changes is built in. Returns the worst error of a gradient."""
    worst = (0.0, "")
    loaded = {entry.name: Loaded(path, entry) for entry in entries}
    other = [_other_value(one.tensor) for one in state.named]
    for values, labels in ((state.values(), targets), (other, targets.roll(1, 0))):
        for entry in entries:
            x, y = inputs[:entry.batch], labels[:entry.batch]
            before = [one.clone() for one in values]
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(1)
                expected = run(module, state, values, x, y, entry.name == "train", precision)
                torch.manual_seed(1)
                got = loaded[entry.name].run(values, x, y)
            for one, was, value in zip(state.named, before, values):
                if not same_bits(was, value):
                    raise Problem(f"forward changes {one.name} in some passes only, or in "
                                  "evaluation; change it in each pass in training, and in no other")
            worst = max(worst, _errors(state, entry, expected, got, precision))
    return worst


def _other_value(tensor: torch.Tensor) -> torch.Tensor:
    """Near the given one, so that a model works with it."""
    if not tensor.is_floating_point():
        return tensor.clone()
    scatter = torch.rand(tensor.shape, generator=torch.Generator().manual_seed(2))
    return tensor * (1 + 0.1 * scatter.to(tensor.dtype))


def _errors(state: State, entry: Entry, expected: Passes, got: Sequence[torch.Tensor],
            precision: str) -> Tuple[float, str]:
    """The worst error of a gradient. Raises Problem where one is too large."""
    names = ["the loss", *(f"the gradient of {name}" for name in state.trained),
             *(f"the buffer {name}" for name in state.changed)]
    wanted = [expected.loss, *expected.gradients, *expected.changed]
    if entry.name != "train":
        names = names[:1]
    if len(got) != len(names):
        raise Problem(f"the compiled {entry.name} entry returns {len(got)} tensors, not the "
                      f"{len(names)} of eager mode: please report this model")
    if not expected.loss.isfinite():
        raise Problem(f"the loss of the given batch is {expected.loss.item()}: nothing can be "
                      "compared; give a batch of values as in training")
    all_norm = math.hypot(*(one.double().norm().item() for one in expected.gradients), 0.0)
    worst = (0.0, "")
    for i, (name, one, want) in enumerate(zip(names, got, wanted)):
        if one.dtype != want.dtype or one.shape != want.shape:
            raise Problem(f"{name} is {_form(one)} compiled and {_form(want)} in eager mode")
        error = (one.double() - want.double()).norm().item()
        norm = want.double().norm().item()
        gradient = 0 < i <= len(expected.gradients)
        allowed = _TOLERANCE[precision] * norm + (
            _TOLERANCE_OF_ALL[precision] * all_norm if gradient else 1e-12)
        if not error <= allowed:
            raise Problem(f"{name} of the compiled {entry.name} entry is not what eager mode "
                          f"computes: the error has the norm {error:.3g}, the value {norm:.3g}. "
                          "Nothing was written")
        if gradient:
            worst = max(worst, (error / max(norm, all_norm / 100, 1e-300), name))
    return worst
