"""`python -m paceline.export`: makes a compiled step of a model (docs/compiled.md)."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import os
import sys
from typing import Any, List

# Exit codes of `paceline` (cli/exit_codes.h).
_OK, _FAILED, _USAGE = 0, 1, 2


def main(arguments: List[str]) -> int:
    """Returns the exit code."""
    flags = _parser().parse_args(arguments)
    if flags.batch < 1:
        return _fail(f"--batch is {flags.batch}; allowed is 1 and more", _USAGE)
    if not flags.out.endswith(".pt2"):
        return _fail(f"--out is {flags.out}; it must end in .pt2", _USAGE)
    file, colon, name = flags.model.rpartition(":")
    if not colon or not file or not name:
        return _fail(f"MODEL is {flags.model}; it must be FILE.py:FUNCTION or MODULE:FUNCTION",
                     _USAGE)
    from paceline.export.state import Problem  # pylint: disable=import-outside-toplevel
    from paceline.export.step import export_step  # pylint: disable=import-outside-toplevel
    try:
        make: Any = getattr(_imported(file), name, None)
        if not callable(make):
            raise Problem(f"{file} has no function {name}")
        made: Any = make(flags.batch)
        try:
            module, inputs, targets = made
        except (TypeError, ValueError) as error:
            raise Problem(f"{name}({flags.batch}) must return the module, the inputs and the "
                          "targets of a batch") from error
        if getattr(inputs, "shape", (None,))[:1] != (flags.batch,):
            raise Problem(f"{name}({flags.batch}) returned a batch that is not of {flags.batch} "
                          "samples")
        done = export_step(module, inputs, targets, flags.out, precision=flags.precision)
    except (Problem, OSError) as error:
        return _fail(str(error), _FAILED)
    size = os.path.getsize(done.package) / 2**20
    print(f"{done.package}: {size:.1f} MiB, for batches of {done.batch}; gradients as in eager "
          f"mode, to {done.worst:.1g} ({done.worst_name})\n{done.weights}: the initial weights")
    return _OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m paceline.export", description=(
        "Compiles the forward and backward pass of a model, for model: {kind: compiled}."))
    parser.add_argument("model", metavar="MODEL", help=(
        "FILE.py:FUNCTION or MODULE:FUNCTION; the function gets the batch's size and returns the "
        "module, whose forward(inputs, targets) is the mean loss, and the inputs and the targets "
        "of a batch"))
    parser.add_argument("--batch", type=int, required=True,
                        help="batch_per_rank of the job; no other one can be trained with")
    parser.add_argument("--out", required=True, metavar="FILE.pt2")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32",
                        help="bf16: by autocast, as precision: bf16 of other models")
    return parser


def _imported(file: str) -> Any:
    if not file.endswith(".py"):
        sys.path.insert(0, os.getcwd())
        return importlib.import_module(file)
    sys.path.insert(0, os.path.dirname(os.path.abspath(file)))  # As of a script.
    spec = importlib.util.spec_from_file_location("paceline_exported_model", file)
    if spec is None or spec.loader is None:
        raise OSError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    loader: Any = spec.loader
    loader.exec_module(module)
    return module


def _fail(text: str, code: int) -> int:
    print(f"error: {text}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
