"""Paceline in a user's own PyTorch script.

`paceline.init()` makes the script a session: its training is recovered, rebalanced and saved by
Paceline (docs/session.md). `import paceline.watch` only measures its steps.

Importing this package is fast and does not import torch.
"""

import sys

# Imported with torch, when they are first used.
_EXPORTS = {
    "errors": ("Regroup", "TrainingError"),
    "loader": ("Loader",),
    "session": ("Run", "Score", "init"),
    "step": ("Step",),
}


class _TorchFinder:
    """Is first in sys.meta_path until torch has been imported; then calls `then`."""

    def __init__(self, then):
        self._then = then

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                self._call_after(spec.loader)
                return spec
        return None

    def _call_after(self, loader):
        # A caller may only want the spec: the finder stays until a module is made from one.
        load = loader.exec_module

        def exec_module(module):
            del loader.exec_module
            sys.meta_path.remove(self)
            load(module)
            self._then()

        try:
            loader.exec_module = exec_module
        except AttributeError:  # The loader accepts no attributes: torch is not watched.
            pass


def tell_off(error, since="not"):
    """Reports on stderr, if there is one, that the script is not watched, and why."""
    try:
        sys.stderr.write("paceline: this script is %s watched: %s: %s\n"
                         % (since, type(error).__name__, error))
    except Exception:  # pylint: disable=broad-except
        pass


def after_torch(then):
    """Calls `then` as soon as other code has imported torch; never imports torch itself."""
    if "torch" in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _TorchFinder(then))


def __getattr__(name):
    from importlib import import_module  # pylint: disable=import-outside-toplevel

    for module in _EXPORTS:
        if name in _EXPORTS[module]:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
