"""Paceline beside somebody's own PyTorch script. `import paceline.watch` measures its steps.

Importing this imports neither torch nor anything that takes time.
"""

import sys


class _TorchFinder:
    """Stands first in sys.meta_path until torch is imported; then calls `then` after that import."""

    def __init__(self, then):
        self._then = then

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                break
        else:
            return None
        loader = spec.loader
        load = loader.exec_module

        def exec_module(module):
            del loader.exec_module
            load(module)
            self._then()

        try:
            loader.exec_module = exec_module
        except AttributeError:  # A loader that takes no attributes: torch is not watched.
            pass
        return spec


def after_torch(then):
    """Calls `then` as soon as torch has been imported by somebody else: never imports it itself."""
    if "torch" in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _TorchFinder(then))
