"""An evaluation of a session, between two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from paceline.errors import is_collective, is_of_a_step, text_of

if TYPE_CHECKING:
    from paceline.session import Run


def evaluate(run: Run) -> None:
    """Calls the function of @run.evaluation, and gives the engine its score."""
    from paceline.session import Score  # pylint: disable=import-outside-toplevel,cyclic-import

    training = {module: module.training for module in run._modules.values()}
    try:
        for module in training:
            module.eval()
        with torch.no_grad():
            score = run._evaluation and run._evaluation(run.data_rank, run.data_world_size)
        if not isinstance(score, Score):
            raise TypeError(f"the function of @run.evaluation has returned a "
                            f"{type(score).__name__}; it must return a paceline.Score")
        if run._sharded is not None:
            run._sharded.end_evaluation()
        run._engine.end_evaluation(score.loss, score.correct, score.count, int(score.count))
    except BaseException as error:
        if not (is_of_a_step(error)
                and run._engine.cut_off(text_of(error), is_collective(error))):
            run._fail(error)
            raise
    finally:
        for module, was_training in training.items():
            module.train(was_training)
