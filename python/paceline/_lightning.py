"""What paceline.lightning uses of Lightning: all of it is named here, and typed."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

import torch

TESTED = "2.6"

try:
    lightning: Any = import_module("lightning.pytorch")
    call: Any = import_module("lightning.pytorch.trainer.call")
    rank_zero_only: Any = import_module("lightning.pytorch.utilities.rank_zero").rank_zero_only
    is_overridden: Any = import_module(
        "lightning.pytorch.utilities.model_helpers").is_overridden
    _strategies: Any = import_module("lightning.pytorch.strategies")
    _epochs: Any = import_module("lightning.pytorch.loops.training_epoch_loop")
    _automatic: Any = import_module("lightning.pytorch.loops.optimization.automatic")
except ImportError as error:
    raise ImportError(f"paceline.lightning needs lightning, and {error}: pip install "
                      f"'lightning=={TESTED}.*' (tested with this)") from error

if TYPE_CHECKING:
    class BaseStrategy:
        """Of SingleDeviceStrategy."""

        lightning_module: Any
        precision_plugin: Any
        lr_scheduler_configs: List[Any]
        optimizers: List[torch.optim.Optimizer]
        global_rank: int

        def __init__(self, device: torch.device, **options: Any) -> None: ...
        def setup_environment(self) -> None: ...
        def setup(self, trainer: Any) -> None: ...
        def process_dataloader(self, dataloader: Any) -> Any: ...
        def optimizer_step(self, optimizer: Any, closure: Callable[[], Any], model: Any = None,
                           **kwargs: Any) -> Any: ...

    class BaseEpochLoop:
        """Of _TrainingEpochLoop."""

        trainer: Any
        global_step: int
        max_steps: int
        min_steps: Optional[int]
        automatic_optimization: Any
        val_loop: Any
        batch_progress: Any

        def __init__(self, trainer: Any, min_steps: Optional[int], max_steps: int) -> None: ...
        def advance(self, data_fetcher: Any) -> None: ...
        def update_lr_schedulers(self, interval: str, update_plateau_schedulers: bool) -> None: ...
        def _should_check_val_epoch(self) -> bool: ...
        def state_dict(self) -> Dict[str, Any]: ...

    class BaseOptimization:
        """Of _AutomaticOptimization."""

        def __init__(self, trainer: Any) -> None: ...
else:
    BaseStrategy = _strategies.SingleDeviceStrategy
    BaseEpochLoop = _epochs._TrainingEpochLoop
    BaseOptimization = _automatic._AutomaticOptimization
