"""What a session raises besides Python's own exceptions."""

from __future__ import annotations


class Regroup(BaseException):
    """Ends a step that was cut off: a rank was lost, or the ranks come together anew.

    `with step:` swallows it. A BaseException, so that `except Exception` in a script lets it pass.
    """


class TrainingError(RuntimeError):
    """The training has ended by an error that concerns the whole job. The job tells it too."""


def is_collective(error: BaseException) -> bool:
    """Whether the exception's type says that it comes from a collective."""
    import torch  # pylint: disable=import-outside-toplevel

    return isinstance(error, (Regroup, torch.distributed.DistError))


def is_of_a_step(error: BaseException) -> bool:
    """Whether it may follow from a lost rank: not of what ends the script, as sys.exit does."""
    return isinstance(error, (Exception, Regroup))


def text_of(error: BaseException) -> str:
    """Type and text, as the job's reason."""
    if isinstance(error, SystemExit):
        return f"the script has called sys.exit({error.code!r}) before its training was done"
    name = type(error).__name__
    return f"{name}: {error}" if str(error) else name
