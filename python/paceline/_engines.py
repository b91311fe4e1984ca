"""Finds the engine that fits this process: its Python, its torch, the device of the job.

A wheel has engines for one CPython and several minor versions of torch, in packages _torch_2_9,
_torch_2_10 and so on, and tells of them in _built_for.py (deploy/wheel/build.py). A build of the
sources has one engine, in this package itself.
"""

from __future__ import annotations

import platform
import sys
import sysconfig
from importlib import import_module
from typing import TYPE_CHECKING, Mapping, Optional, Sequence, Tuple, Type

import torch

if TYPE_CHECKING:
    from paceline._engine import Engine as JobEngine

_MODULES = {"cpu": "_engine", "cuda": "_engine_cuda"}


def load(device: str) -> Type[JobEngine]:
    """That of jobs with this device, cpu or cuda. Raises ImportError if none fits."""
    package, remedy = "paceline", "install paceline's wheel in this environment"
    try:
        built = import_module("paceline._built_for")
    except ImportError:
        pass  # Built here, from the sources.
    else:
        _check_python(built.PYTHON, built.PYTHONS)
        package = _package(built.ENGINES, device)
        remedy = "install paceline's wheel and torch anew in this environment"
    if device == "cuda":
        remedy += ("; device: cuda needs a torch for CUDA 13, and the engine for GPUs, which is in "
                   "a wheel of `make wheel`, and is built by `make build CUDA=1`")
    try:
        engine: Type[JobEngine] = import_module(f"{package}.{_MODULES[device]}").Engine
    except ImportError as error:
        raise ImportError(f"the engine of paceline cannot be loaded into {_python()} with torch "
                          f"{torch.__version__} ({error}): {remedy}") from error
    return engine


def _python() -> str:
    """This Python as wheels name it: CPython 3.12; CPython 3.13t, which has no GIL; PyPy 3.11."""
    threads = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return "{} {}.{}{}".format(platform.python_implementation(), *sys.version_info[:2], threads)


def _check_python(python: Optional[str], pythons: Sequence[str]) -> None:
    """python: that of this wheel, None: it has no engine; pythons: those of all wheels."""
    here = _python()
    if here == f"CPython {python}":
        return
    if here in [f"CPython {one}" for one in pythons]:
        what = f"is for CPython {python}" if python else "has no engine for any Python"
        raise ImportError(f"the paceline that was found {what}, and here is {here}: install its "
                          "wheel with this environment's pip")
    raise ImportError(f"no paceline has an engine for {here}: sessions need CPython "
                      f"{_listed(pythons, 'or')}")


def _package(engines: Mapping[str, Sequence[str]], device: str) -> str:
    """engines: devices by minor versions of torch."""
    fitting = [version for version, devices in engines.items() if device in devices]
    here = ".".join(torch.__version__.split(".")[:2])
    if here in fitting:
        return f"paceline._torch_{here.replace('.', '_')}"
    kind = "engine for `device: cuda`" if device == "cuda" else "engine"
    if not fitting:
        raise ImportError(f"this wheel of paceline has no {kind}: take one of `make wheel`")
    cuda = " for CUDA 13" if device == "cuda" else ""
    raise ImportError(f"this paceline's {kind} is for torch {_listed(fitting, 'or')}{cuda}, and "
                      f"here is torch {torch.__version__}: pip install "
                      f"'torch=={max(fitting, key=_numbers)}.*'")


def _numbers(version: str) -> Tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def _listed(words: Sequence[str], last: str) -> str:
    ordered = sorted(words, key=_numbers)
    if len(ordered) < 2:
        return "".join(ordered)
    return f"{', '.join(ordered[:-1])} {last} {ordered[-1]}"
