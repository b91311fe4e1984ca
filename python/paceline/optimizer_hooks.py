"""What a session sees of a script's optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Tuple

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from paceline.step import Step

if TYPE_CHECKING:
    from paceline.session import Run


class OptimizerHooks:
    """Shows an open step what the attached optimizer does, and tells what a session cannot take."""

    def __init__(self, run: Run, optimizer: torch.optim.Optimizer, trained: Dict[int, torch.Tensor]
                 ) -> None:
        """trained: the parameters, by id."""
        self._run = run
        self._optimizer = optimizer
        self._trained = trained
        self._given = sum(len(group["params"]) for group in optimizer.param_groups)
        self._handles = [optimizer.register_step_pre_hook(self._before),
                         optimizer.register_step_post_hook(self._after),
                         register_optimizer_step_pre_hook(self._before_any)]

    def remove(self) -> None:
        """Leaves the optimizers alone from now on."""
        for handle in self._handles:
            handle.remove()

    def _before(self, optimizer: torch.optim.Optimizer, args: Tuple[Any, ...],
                kwargs: Dict[str, Any]) -> None:
        if any(closure is not None for closure in (*args[1:], kwargs.get("closure"))):
            raise RuntimeError("optimizer.step(closure) evaluates the loss itself, and a session's "
                               "step has one backward pass for each batch; call "
                               "step.backward(loss) and step.update()")
        given = sum(len(group["params"]) for group in optimizer.param_groups)
        if given != self._given:
            raise RuntimeError(f"the optimizer has {given} parameters, and had {self._given} when "
                               "it was attached; make all of them before run.attach")
        sharded = self._run._sharded
        if sharded is not None and sharded.is_finishing:
            return
        if Step._active is not None:
            Step._active._before_optimizer()
        elif self._run._order is not None:
            raise RuntimeError("optimizer.step() is called outside of a step; call it, or "
                               "step.update(), inside of `with step:`")

    def _before_any(self, optimizer: torch.optim.Optimizer, *_called: Any) -> None:
        if optimizer is self._optimizer or self._run._order is None or self._run._done:
            return
        if any(id(p) in self._trained for group in optimizer.param_groups for p in group["params"]):
            raise RuntimeError(f"a {type(optimizer).__name__} that is not attached steps "
                               "parameters of the attached model; a session has one optimizer: "
                               "attach that one, once it is made")

    def _after(self, *_called: Any) -> None:
        if Step._active is not None:
            Step._active._after_optimizer()
