"""How far a Trainer is: attached to its session, each rank's own."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, List

# Of TrainerState: kept as text that grows, kept elsewhere, or set by each process.
_APART = {"log_history", "stateful_callbacks", "is_local_process_zero", "is_world_process_zero",
          "is_hyper_param_search", "trial_name", "trial_params", "max_steps", "logging_steps",
          "eval_steps", "save_steps", "num_train_epochs", "train_batch_size"}


class Progress:
    """The Trainer's state and control, its callbacks that can be saved (ExportableState), and its
    logs. state_dict is called in each step of a job with recovery, so its cost does not grow with
    the logs."""

    def __init__(self, trainer: Any) -> None:
        self.in_epoch = False  # Its beginning was told, and its end not.
        self.epochs = 0        # Of so many the end was told.
        self._trainer = trainer
        self._names = [field.name for field in dataclasses.fields(trainer.state)
                       if field.name not in _APART]
        self._lines = ""   # The logs, one JSON object a line,
        self._written = 0  # and how many.

    def state_dict(self) -> Dict[str, Any]:
        state = self._trainer.state
        history: List[Any] = state.log_history
        if len(history) < self._written:  # Somebody has begun it anew.
            self._lines, self._written = "", 0
        for entry in history[self._written:]:
            self._lines += json.dumps(entry, default=float) + "\n"
        self._written = len(history)
        return {"state": {name: getattr(state, name) for name in self._names},
                "logs": self._lines, "in_epoch": self.in_epoch, "epochs": self.epochs,
                "control": {**vars(self._trainer.control)},
                "callbacks": [one.state()["attributes"] for one in self._exportable()]}

    def load_state_dict(self, loaded: Dict[str, Any]) -> None:
        trainer = self._trainer
        for name, value in loaded["state"].items():
            setattr(trainer.state, name, value)
        if loaded["logs"] != self._lines or self._written != len(trainer.state.log_history):
            self._lines = loaded["logs"]
            trainer.state.log_history = [json.loads(line) for line in self._lines.splitlines()]
            self._written = len(trainer.state.log_history)
        self.in_epoch, self.epochs = loaded["in_epoch"], loaded["epochs"]
        for name, value in loaded["control"].items():
            setattr(trainer.control, name, value)
        for callback, attributes in zip(self._exportable(), loaded["callbacks"]):
            for name, value in attributes.items():
                setattr(callback, name, value)

    def _exportable(self) -> List[Any]:
        return [one for one in self._trainer.callback_handler.callbacks
                if hasattr(one, "state") and hasattr(one, "from_state")]
