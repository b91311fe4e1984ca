"""The wheel's commands: each becomes its program, so that no Python stays behind."""

import os
import sys


def _become(name):
    # If no environment is active, the one that contains this command: its python3 runs the scripts of
    # `paceline run`, as with torchrun.
    if (sys.prefix != sys.base_prefix and not os.environ.get("VIRTUAL_ENV")
            and not os.environ.get("CONDA_PREFIX")
            and os.path.dirname(os.path.abspath(sys.argv[0])) == os.path.join(sys.prefix, "bin")):
        os.environ["VIRTUAL_ENV"] = sys.prefix
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", name)
    os.execv(program, [name] + sys.argv[1:])


def paceline():
    _become("paceline")


def paceline_controller():
    _become("paceline-controller")


def paceline_worker():
    _become("paceline-worker")
