"""What paceline.hf uses of transformers: all of it is named here, and typed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

import torch

TESTED = "5.23"

try:
    transformers: Any = import_module("transformers")
    accelerate: Any = import_module("accelerate")
    import_module("transformers.trainer")
except ImportError as error:
    raise ImportError(f"paceline.hf needs transformers and accelerate, and {error}: "
                      f"pip install 'transformers=={TESTED}.*' accelerate (tested with these)"
                      ) from error

if TYPE_CHECKING:
    class BaseTrainer:
        """Of transformers.Trainer: its documented attributes, and the methods that are called or
        replaced."""

        args: Any
        model: Any
        accelerator: Any
        optimizer: Any
        lr_scheduler: Any
        callback_handler: Any
        state: Any
        control: Any
        train_dataset: Any
        eval_dataset: Any
        compute_metrics: Any
        current_flos: float
        current_gradient_accumulation_steps: int

        def __init__(self, model: Any = None, args: Any = None, *others: Any,
                     **keywords: Any) -> None: ...
        def train(self, resume_from_checkpoint: Any = None, *others: Any,
                  **keywords: Any) -> Any: ...
        def create_optimizer(self) -> Any: ...
        def create_scheduler(self, num_training_steps: int) -> Any: ...
        def get_train_dataloader(self) -> Any: ...
        def get_eval_dataloader(self, eval_dataset: Any = None) -> Any: ...
        def get_batch_samples(self, epoch_iterator: Any, num_batches: int,
                              device: torch.device) -> Tuple[List[Any], Any]: ...
        def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None
                          ) -> torch.Tensor: ...
        def floating_point_ops(self, inputs: Any) -> float: ...
        def store_flos(self) -> None: ...
        def evaluation_loop(self, dataloader: Any, description: str,
                            prediction_loss_only: Optional[bool] = None,
                            ignore_keys: Optional[List[str]] = None) -> Any: ...
        def log(self, logs: Dict[str, float], start_time: Optional[float] = None) -> None: ...
        def save_model(self, output_dir: Optional[str] = None, _internal_call: bool = False
                       ) -> None: ...
        def add_callback(self, callback: Any) -> None: ...
        def remove_callback(self, callback: Any) -> None: ...
        def __getattr__(self, name: str) -> Any: ...
else:
    BaseTrainer = transformers.Trainer
