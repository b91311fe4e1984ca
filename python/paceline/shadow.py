"""The script's optimizer and schedulers in the engine's hands, for Slipstream.

With Slipstream the job's steps are not those of one rank: a schedule goes by the job's, and some
updates are made on the ranks' common model beside the script's steps.
"""

from __future__ import annotations

import collections
import copy
import functools
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Type

import torch
from torch.optim.lr_scheduler import LRScheduler, ReduceLROnPlateau

if TYPE_CHECKING:
    from paceline._protocols import Order
    from paceline.state import Stateful
    from paceline.step import Step


class Shadow:
    """For the engine (python/csrc/python_shadow.h): its threads call it, one at a time."""

    def __init__(self, optimizer: torch.optim.Optimizer, others: Sequence[Stateful]) -> None:
        self._optimizer = optimizer
        self.schedulers: List[Any] = [one for one in others if isinstance(one, LRScheduler)]
        self._first = [steps_made(one) for one in self.schedulers]
        self._calls = [0] * len(self.schedulers)
        self._steps = [self._take_over(place) for place in range(len(self.schedulers))]
        self._rates: Optional[List[float]] = None  # As the schedulers have left them.
        self._due: Optional[int] = None  # The step of the job that follows one whose number is the script's own.
        self._places: Dict[int, int] = {}  # Of the model's parameters, by id.
        self._mean_names: List[Any] = []

    @staticmethod
    def problem(others: Sequence[Stateful]) -> str:
        """Why these schedulers cannot go by the job's steps; empty: they can."""
        for one in others:
            if isinstance(one, ReduceLROnPlateau):
                return ("the schedule of a ReduceLROnPlateau goes by what is measured, which "
                        "differs from rank to rank with Slipstream; take a scheduler that goes by "
                        "the step, or strategy ddp, local_sgd or hsgd")
        return ""

    def load(self, parameters: Sequence[torch.Tensor]) -> str:
        """Tells which parameters the engine trains, in its order. Returns why the mean of several
        ranks' state of the optimizer is none; empty: it is."""
        self._places = {id(p): place for place, p in enumerate(parameters)}
        try:
            scratch = self._after_a_dry_step()
        except Exception as error:  # pylint: disable=broad-except
            return f"the step of {self._name()} without its model fails: {error}"
        states = [(p, scratch.state.get(p, {})) for group in scratch.param_groups
                  for p in group["params"]]
        names = {name for _, state in states for name in state if state[name] is not None}
        for name in sorted(names, key=str):
            if not all(_has_mean(name, state.get(name), p) for p, state in states):
                return (f"the state of {self._name()} has {name!r}, of which ranks cannot take the "
                        "mean; that is needed to change from Slipstream's modes free and pause to "
                        "others, and for optimizer_state: average")
        self._mean_names = sorted(names - {"step"}, key=str) + sorted(names & {"step"})
        return ""

    def schedule(self, step: int) -> float:
        """Steps the schedulers to the job's step. Returns the learning rate."""
        if self._rates not in (None, self._read_rates()):
            raise RuntimeError("the script has changed the optimizer's learning rate by itself; "
                               "with Slipstream and strategy auto only schedulers that are "
                               "attached may: run.attach(model, optimizer, scheduler)")
        # What they would warn of: on ranks whose updates the engine makes, the script makes none.
        setattr(self._optimizer, "_opt_called", True)
        for scheduler, first, plain in zip(self.schedulers, self._first, self._steps):
            for _ in range(first + step - steps_made(scheduler)):
                plain()
        self._rates = self._read_rates()
        if self._due is not None and self._due <= step:
            self._due = None
        return self._rates[0]

    def update(self, parameters: Sequence[torch.Tensor],
               gradients: Sequence[torch.Tensor]) -> None:
        """Makes the optimizer's step on these tensors in the place of the model's parameters."""
        optimizer = self._optimizer
        stand_in = self._stand_in(parameters, lambda state: state)
        originals: Dict[Any, torch.Tensor] = {}
        for group, own in zip(stand_in.param_groups, optimizer.param_groups):
            originals.update(zip(group["params"], own["params"]))
            for parameter, original in zip(group["params"], own["params"]):
                parameter.grad = gradients[self._places[id(original)]]
        stand_in.step()
        for parameter in originals:
            parameter.grad = None
        for key, value in stand_in.state.items():
            optimizer.state[originals[key] if key in originals else key] = value
        for group, own in zip(stand_in.param_groups, optimizer.param_groups):
            own.update((key, value) for key, value in group.items() if key != "params")

    def state(self) -> List[torch.Tensor]:
        """The tensors of the optimizer's state of which ranks take the mean: those of a name for
        each parameter, one name after the other, step counts last. Made if there are none yet."""
        if any(self._optimizer.state.get(p, {}).get(name) is None
               for name in self._mean_names for p in self._parameters()):
            self._make_state()
        return [self._optimizer.state[p][name] for name in self._mean_names
                for p in self._parameters()]

    def step_counts(self) -> List[torch.Tensor]:
        """Those of state() that are whole numbers."""
        if "step" not in self._mean_names:
            return []
        tensors = self.state()
        return tensors[len(tensors) - len(self._parameters()):]

    def reset(self) -> None:
        """The optimizer forgets its state."""
        for state in self._optimizer.state.values():
            state.clear()

    def end_step(self, step: Step, order: Order) -> None:
        """The script has left the step's block, and what follows it."""
        calls, self._calls = self._calls, [0] * len(self.schedulers)
        self._due = None
        if not step.done:
            return
        for scheduler, number in zip(self.schedulers, calls):
            if number != 1:
                raise RuntimeError(
                    f"{type(scheduler).__name__}.step() was called {number} times in step "
                    f"{order.number}; with Slipstream and strategy auto it is called once for each "
                    "step, and goes by the steps of the job")
        if not order.scheduled:
            self._due = order.number + 1

    def settle(self) -> None:
        """Makes up for the schedulers' steps of the last block, before they are saved or sent."""
        if self._due is not None:
            self.schedule(self._due)

    def forget(self) -> None:
        """The state of optimizer and schedulers has been replaced."""
        self._rates = self._due = None

    def _take_over(self, place: int) -> Callable[[], Any]:
        """Makes the script's calls of a scheduler's step mere counts. Returns the real one."""
        scheduler = self.schedulers[place]
        plain: Type[Any] = scheduler.__class__

        def step(_scheduler: Any, *arguments: Any, **named: Any) -> None:
            if arguments or named:
                raise ValueError(f"{plain.__name__}.step takes no argument with Slipstream and "
                                 "strategy auto, where it goes by the steps of the job")
            self._calls[place] += 1

        # Not an attribute of the object: that would be part of its state.
        scheduler.__class__ = type(plain.__name__, (plain,), {
            "step": step, "__module__": plain.__module__, "__qualname__": plain.__qualname__})
        return functools.partial(plain.step, scheduler)

    def _stand_in(self, parameters: Any, state_of: Callable[[Any], Any]) -> Any:
        """An optimizer of the same class and settings for other parameters. `state_of` says what
        its state of a parameter is, given the optimizer's own."""
        optimizer = self._optimizer
        stand_in = object.__new__(type(optimizer))
        stand_in.__dict__.update(optimizer.__dict__)
        stand_in.__dict__.pop("step", None)  # What schedulers have put around the optimizer's own.
        stand_in._optimizer_step_pre_hooks = {}
        stand_in._optimizer_step_post_hooks = {}
        stand_in.state = collections.defaultdict(dict)
        stand_in.param_groups = []
        for group in optimizer.param_groups:
            mine = [parameters[self._places[id(p)]] for p in group["params"]]
            stand_in.param_groups.append({**group, "params": mine})
            for parameter, original in zip(mine, group["params"]):
                stand_in.state[parameter] = state_of(optimizer.state.get(original, {}))
        return stand_in

    def _after_a_dry_step(self) -> Any:
        """A stand-in that has made a step with zeros in the place of parameters and gradients."""
        zeros = {self._places[id(p)]: torch.zeros_like(p.detach()) for p in self._parameters()}
        stand_in = self._stand_in(zeros, copy.deepcopy)
        for zero in zeros.values():
            zero.grad = torch.zeros_like(zero)
        stand_in.step()
        return stand_in

    def _make_state(self) -> None:
        """Gives parameters without a state the one before their first step."""
        scratch = self._after_a_dry_step()
        for group, own in zip(scratch.param_groups, self._optimizer.param_groups):
            for parameter, original in zip(group["params"], own["params"]):
                state = self._optimizer.state[original]
                if all(state.get(name) is not None for name in self._mean_names):
                    continue
                state.update(scratch.state[parameter])
                if "step" in state:
                    state["step"] = torch.zeros_like(state["step"])

    def _parameters(self) -> List[torch.Tensor]:
        return [p for group in self._optimizer.param_groups for p in group["params"]]

    def _read_rates(self) -> List[float]:
        return [float(group["lr"]) for group in self._optimizer.param_groups]

    def _name(self) -> str:
        return type(self._optimizer).__name__


def steps_made(scheduler: Any) -> int:
    """How many steps a scheduler has made, from wherever it began."""
    if hasattr(scheduler, "last_epoch"):
        return int(scheduler.last_epoch)
    return steps_made(scheduler._schedulers[0])  # A ChainedScheduler.


def _has_mean(name: Any, value: Any, parameter: torch.Tensor) -> bool:
    if not (isinstance(value, torch.Tensor) and value.dtype == torch.float32):
        return False
    return value.dim() == 0 if name == "step" else value.shape == parameter.shape
