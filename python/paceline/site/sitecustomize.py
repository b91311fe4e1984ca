"""Python runs this before a command: the daemon puts this folder first in PYTHONPATH.

Arranges for a watched script to be watched once it imports torch, and for a session to find the
package; then runs the sitecustomize that Python would otherwise have run.
"""

import os
import sys
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader

_HERE = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(_HERE)


def _spec_of(name):
    path = os.path.join(_PACKAGE, "__init__.py")
    spec = ModuleSpec(name, SourceFileLoader(name, path), origin=path, is_package=True)
    spec.submodule_search_locations.append(_PACKAGE)
    spec.has_location = True
    return spec


class _LastFinder:
    """Is last in sys.meta_path of a session: finds `paceline` here if it is not installed."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        return _spec_of(name) if name == "paceline" else None


def _watch():
    # Load the package under another name: the script may have a `paceline` of its own.
    spec = _spec_of("_paceline")
    module = type(sys)(spec.name)
    module.__spec__, module.__path__, module.__file__ = spec, [_PACKAGE], spec.origin
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)

    def start():
        try:
            from _paceline import watch  # pylint: disable=import-error,unused-import
        except Exception as error:  # pylint: disable=broad-except
            module.tell_off(error)

    if "PACELINE_STANDBY" in os.environ:
        module.start = start  # Called when it becomes the script.
    else:
        module.after_torch(start)
    return module


def _run_next():
    sys.path[:] = [entry for entry in sys.path if entry != _HERE]
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = type(sys)(spec.name)
    module.__spec__, module.__loader__ = spec, spec.loader
    module.__file__, module.__cached__ = spec.origin, spec.cached
    module.__package__ = ""
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_package = None
if os.environ.get("PACELINE_SESSION"):
    sys.meta_path.append(_LastFinder)  # The session itself writes the ring.
elif os.environ.get("PACELINE_RING") and os.environ.get("PACELINE_WATCH") != "0":
    try:
        _package = _watch()
    except Exception:  # pylint: disable=broad-except
        pass  # Without the package's files, it cannot be reported.
_run_next()
if _package is not None and "PACELINE_STANDBY" not in os.environ:
    try:
        _package.imports = import_module("_paceline._imports").Imports()
    except Exception:  # pylint: disable=broad-except
        pass
