"""Whether a compiled step computes what eager mode does."""

from __future__ import annotations

import functools
import math
from typing import Callable, List, Sequence, Tuple

import torch
from torch import nn

from paceline.export.graph import Entry, Loaded
from paceline.export.state import Passes, Problem, State, form, run, same_bits

# Largest norm of an error, as a share of that of the tensor, and of all gradients together.
TOLERANCE = {"fp32": 1e-3, "bf16": 5e-2}
_TOLERANCE_OF_ALL = {"fp32": 1e-5, "bf16": 1e-2}

# What rounding explains. A value near a kink, as that of a ReLU at 0, may be on the one side compiled
# and on the other in eager mode; its part of a gradient is then there or not. Weights are changed by
# up to this share, so many times, and an error may be so many times as large as the largest change
# of its tensor.
_NOISE = {"fp32": 1e-4, "bf16": 4e-3}
_DRAWS = 8
_SPREAD = 2

_DROPOUT = ("Dropout of a tensor that is not contiguous, as between the layers of "
            "nn.TransformerEncoder, leaves out other values than in eager mode: make the tensor "
            "contiguous before it, or give such a dropout p=0. ")


def compare(module: nn.Module, state: State, entries: Sequence[Entry], path: str,
            inputs: torch.Tensor, targets: torch.Tensor, precision: str) -> Tuple[float, str]:
    """Compares each entry with eager mode on the batch, and then with other weights, buffers and
    targets, so that nothing of what changes is built in. Returns the worst error of a gradient, as
    a share of its norm or of a hundredth of all, and its name. Raises Problem."""
    worst = (0.0, "")
    loaded = {entry.name: Loaded(path, entry) for entry in entries}
    generator = torch.Generator().manual_seed(2)
    other = [_near(one.tensor, 0.1, generator) for one in state.named]
    for values, labels in ((state.values(), targets), (other, targets.roll(1, 0))):
        for entry in entries:
            x, y = inputs[:entry.batch], labels[:entry.batch]

            def eager(values: List[torch.Tensor]) -> Tuple[Passes, bool]:
                """The pass, and whether it draws random numbers."""
                with torch.random.fork_rng(devices=[]):
                    torch.manual_seed(1)
                    began = torch.get_rng_state()
                    # pylint: disable-next=cell-var-from-loop  # Called in this round alone.
                    passes = run(module, state, values, x, y, entry.name == "train", precision)
                    return passes, not torch.equal(began, torch.get_rng_state())

            before = [one.clone() for one in values]
            expected, draws = eager(values)
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(1)
                got = loaded[entry.name].run(values, x, y)
            for one, was, value in zip(state.named, before, values):
                if not same_bits(was, value):
                    raise Problem(f"forward changes {one.name} in some passes only, or in "
                                  "evaluation; change it in each pass in training, and in no other")

            @functools.lru_cache(maxsize=None)  # Many tensors may ask for it.
            def rounding() -> List[float]:
                # pylint: disable-next=cell-var-from-loop  # Called in this round alone.
                return changes(lambda near: eager(near)[0], values, precision)

            worst = max(worst, errors(state, entry, expected, got, precision, draws, rounding))
    return worst


def _near(tensor: torch.Tensor, share: float, generator: torch.Generator) -> torch.Tensor:
    """Differs by up to that share, so that a model works with it."""
    if not tensor.is_floating_point():
        return tensor.clone()
    scatter = torch.rand(tensor.shape, generator=generator)
    return tensor * (1 + share * scatter.to(tensor.dtype))


def changes(eager: Callable[[List[torch.Tensor]], Passes], values: List[torch.Tensor],
            precision: str) -> List[float]:
    """How far each tensor of a pass moves, at most, when the weights move by little."""
    generator = torch.Generator().manual_seed(3)
    at = _tensors(eager(values))
    most = [0.0] * len(at)
    for _ in range(_DRAWS):
        near = eager([_near(one, _NOISE[precision], generator) for one in values])
        for i, (one, was) in enumerate(zip(_tensors(near), at)):
            most[i] = max(most[i], _distance(one, was))
    return most


def _tensors(passes: Passes) -> List[torch.Tensor]:
    return [passes.loss, *passes.gradients, *passes.changed]


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return (one.double() - other.double()).norm().item()


def errors(state: State, entry: Entry, expected: Passes, got: Sequence[torch.Tensor],
           precision: str, draws: bool, rounding: Callable[[], List[float]]) -> Tuple[float, str]:
    """The worst error of a gradient. Raises Problem where one is too large.

    draws: whether the pass draws random numbers.
    rounding: of each tensor of the pass, how far rounding may move it; called where that matters.
    """
    names = ["the loss", *(f"the gradient of {name}" for name in state.trained),
             *(f"the buffer {name}" for name in state.changed)]
    wanted = _tensors(expected)
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
            raise Problem(f"{name} is {form(one)} compiled and {form(want)} in eager mode")
        error = _distance(one, want)
        norm = want.double().norm().item()
        gradient = 0 < i <= len(expected.gradients)
        allowed = TOLERANCE[precision] * norm + (
            _TOLERANCE_OF_ALL[precision] * all_norm if gradient else 1e-12)
        if not (error <= allowed or error <= _SPREAD * rounding()[i]):
            raise Problem(f"{name} of the compiled {entry.name} entry is not what eager mode "
                          f"computes: the error has the norm {error:.3g}, the value {norm:.3g}, and "
                          f"weights that move by {_NOISE[precision]:.2%} move it by "
                          f"{rounding()[i]:.3g}. {_DROPOUT if draws else ''}Nothing was written")
        if gradient:
            worst = max(worst, (error / max(norm, all_norm / 100, 1e-300), name))
    return worst
