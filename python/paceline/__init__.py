"""Paceline in a user's own PyTorch script.

`paceline.init()` makes the script a session: its training is recovered, rebalanced and saved by
Paceline (docs/session.md). `import paceline.watch` only measures its steps.

Importing this package is fast and does not import torch.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # Type checkers take it as true; typing would have to be imported.
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, Callable, Optional, Sequence

    from paceline.connect import init as init
    from paceline.errors import Regroup as Regroup, TrainingError as TrainingError
    from paceline.loader import Loader as Loader
    from paceline.session import Run as Run, Score as Score
    from paceline.step import Step as Step

# Imported with torch, when they are first used.
_EXPORTS = {
    "connect": ("init",),
    "errors": ("Regroup", "TrainingError"),
    "loader": ("Loader",),
    "session": ("Run", "Score"),
    "step": ("Step",),
}


class _TorchFinder:
    """Is first in sys.meta_path until torch has been imported; then calls `then`."""

    def __init__(self, then: Callable[[], object]) -> None:
        self._then = then

    def find_spec(self, name: str, path: Optional[Sequence[str]] = None,
                  target: Optional[ModuleType] = None) -> Optional[ModuleSpec]:
        if name != "torch":
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec: Optional[ModuleSpec] = (
                find(name, path, target) if find and finder is not self else None)
            if spec is not None:
                self._call_after(spec.loader)
                return spec
        return None

    def _call_after(self, loader: Any) -> None:
        # A caller may only want the spec: the finder stays until a module is made from one.
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            del loader.exec_module
            sys.meta_path.remove(self)
            load(module)
            self._then()

        try:
            loader.exec_module = exec_module
        except AttributeError:  # The loader accepts no attributes: torch is not watched.
            pass


def tell_off(error: BaseException, since: str = "not") -> None:
    """Reports on stderr, if there is one, that the script is not watched, and why."""
    try:
        sys.stderr.write("paceline: this script is %s watched: %s: %s\n"
                         % (since, type(error).__name__, error))
    except Exception:  # pylint: disable=broad-except
        pass


def after_torch(then: Callable[[], object]) -> None:
    """Calls `then` as soon as other code has imported torch; never imports torch itself."""
    if "torch" in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _TorchFinder(then))


def __getattr__(name: str) -> Any:
    from importlib import import_module  # pylint: disable=import-outside-toplevel

    for module in _EXPORTS:
        if name in _EXPORTS[module]:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
