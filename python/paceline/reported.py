"""Numbers that a script reports of its steps (Run.report)."""

from __future__ import annotations

import re
from numbers import Real
from typing import Any, Dict, List, Mapping, Tuple

import torch

MOST_NAMES = 32
_NAME = re.compile(r"[A-Za-z0-9_./-]{1,64}")


class ReportedNumbers:
    """The newest value of each name, of the steps that count."""

    def __init__(self) -> None:
        self._newest: Dict[str, Tuple[float, int]] = {}  # With the steps done by then.

    def add(self, numbers: Mapping[str, Any], of_step: Dict[str, float]) -> None:
        """Adds numbers to those of the step under way. They wait there until it counts.

        Raises what Run.report does; then nothing is added.
        """
        values = {name: _value_of(name, number) for name, number in numbers.items()}
        names = {*self._newest, *of_step, *values}
        if len(names) > MOST_NAMES:
            raise ValueError(f"run.report has got {len(names)} names, and {MOST_NAMES} is the "
                             f"most: {', '.join(sorted(names))}")
        of_step.update(values)

    def keep(self, of_step: Mapping[str, float], steps_done: int) -> List[Tuple[str, float, int]]:
        """Takes the numbers of a step that counts. Returns the newest of all names."""
        self._newest.update((name, (value, steps_done)) for name, value in of_step.items())
        return [(name, value, step) for name, (value, step) in self._newest.items()]

    def clear(self) -> None:
        """Forgets all: the next steps are another rank's."""
        self._newest.clear()


def _value_of(name: str, number: Any) -> float:
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name for run.report; it has 1 to 64 letters, digits, "
                         "'_', '-', '.' and '/'")
    if isinstance(number, torch.Tensor):
        if number.numel() != 1:
            raise ValueError(f"run.report takes one number, and the tensor {name} has shape "
                             f"{tuple(number.shape)}; call .mean()")
        number = number.detach().item()
    if not isinstance(number, Real):
        raise TypeError(f"run.report takes a number, and {name} is a {type(number).__name__}")
    return float(number)
