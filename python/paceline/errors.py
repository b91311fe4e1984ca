"""What a session raises besides Python's own exceptions."""


class Regroup(BaseException):
    """Ends a step that was cut off: a rank was lost, or the ranks come together anew.

    `with step:` swallows it. A BaseException, so that `except Exception` in a script lets it pass.
    """


class TrainingError(RuntimeError):
    """The training has ended by an error that concerns the whole job. The job tells it too."""


def is_collective(error):
    """Whether the exception's type says that it comes from a collective."""
    import torch  # pylint: disable=import-outside-toplevel

    return isinstance(error, (Regroup, torch.distributed.DistError))
