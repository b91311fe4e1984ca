"""Measures the steps of a PyTorch script without changes to the script (docs/own-script.md).

If PACELINE_RING names a step ring, importing this watches the process from the moment when the
script imports torch: a loader's `__next__`, `torch.autograd.backward`, and torch's hooks around an
optimizer's `step`. A step lasts from the end of one optimizer step to the end of the next. Any
failure in here ends the watching with one line on stderr; the script never notices.
"""

import os
import sys
import weakref
from _thread import get_ident
from collections.abc import Mapping
from functools import wraps
from importlib import import_module
from time import monotonic_ns

from . import after_torch, tell_off
from ._ring import (BACKWARD, DATA_WAIT, EVALUATING, FORWARD, IDLE, OPTIMIZER, Ring, can_write,
                    map_ring)

# After this many steps of another optimizer without one of the leader, that one leads.
PATIENCE = 10


class Watch:
    """The state of watching a training, besides the ring that it is written to."""

    def __init__(self, path):
        self.path = path
        self.ring = Ring()
        self.taken = False  # Whether this process trains and so owns the ring.
        # Only this thread's events count as training. None: nothing is watched any more.
        self.thread = get_ident()
        self.leader = lambda: None  # Weak reference to the optimizer whose steps end a step.
        self.others = {}  # {id: steps} of other optimizers since the leader's last step.
        self.optimizer_steps = 0
        self.stepping = False
        self.after_backward = FORWARD
        self.has_loader = False
        self.counted = None  # The loader whose samples count for the step.

    def take(self):
        """Takes the ring when the process trains, unless another process of the rank has it."""
        self.taken = True
        try:
            memory = map_ring(self.path)
            if memory is None:
                self.thread = None
                return
            self.ring.write_to(memory)
            self.leave_imports()
            if self.thread != get_ident():
                self.thread = get_ident()
                self.ring.phase = EVALUATING
        except Exception as error:
            self.off(error)

    def leave_imports(self):
        """Leaves the imports for a standby interpreter. A failure does not end the watching."""
        imports = getattr(sys.modules.get("_paceline"), "imports", None)
        if imports is None or not os.environ.get("PACELINE_DIR"):
            return
        try:
            imports.write(os.path.join(os.environ["PACELINE_DIR"], "modules"))
        except Exception:
            pass

    def after_step(self, optimizer):
        ring = self.ring
        self.stepping = False
        if self.after_backward == OPTIMIZER and ring.phase == FORWARD:
            ring.phase = OPTIMIZER  # Its closure made no backward pass.
        self.after_backward = FORWARD
        if self.leader() is not optimizer and not self.takes_the_lead(optimizer):
            if ring.phase == OPTIMIZER:
                ring.enter(FORWARD)
            return
        self.counted = None
        if self.others:
            self.others.clear()
        groups = optimizer.param_groups
        rate = groups[0].get("lr") if groups else None
        if not isinstance(rate, (float, int)):
            rate = 0.0  # A tensor may be on a GPU: reading it would wait.
        # Until the next batch, no phase is running; without a loader it is the forward pass.
        ring.end_step(rate, IDLE if self.has_loader else FORWARD)

    def takes_the_lead(self, optimizer):
        steps = self.others[id(optimizer)] = self.others.get(id(optimizer), 0) + 1
        if self.leader() is not None and steps < PATIENCE:
            return False
        self.leader = weakref.ref(optimizer)
        return True

    def count(self, iterator, batch):
        """Counts a batch's samples, if its first dimension is certainly that of the samples."""
        if self.counted is None:
            self.counted = id(iterator)
        elif self.counted != id(iterator):
            return
        while isinstance(batch, (list, tuple)) and batch:
            batch = batch[0]
        shape = getattr(batch, "shape", None)
        if shape is None and isinstance(batch, Mapping) and batch:
            shape = getattr(next(iter(batch.values())), "shape", None)
        most = getattr(iterator._index_sampler, "batch_size", None)
        if isinstance(most, int) and isinstance(shape, tuple) and shape and shape[0] <= most:
            self.ring.samples += shape[0]

    def off(self, error):
        """Ends the watching and reports why."""
        self.forget()
        tell_off(error, "no longer")
        try:
            self.ring.show(IDLE, monotonic_ns())
        except Exception:
            pass  # The ring itself may be broken.

    def forget(self):
        """Stops watching; also called in a forked child, whose work is not the rank's training."""
        self.taken, self.thread, self.ring.phase = True, None, IDLE


def strip(error):
    """Removes the caller's frame from the traceback. Call it before a bare `raise`."""
    error.__traceback__ = error.__traceback__.tb_next


def watch_loaders(watch, iterators, is_grad_enabled):
    ring, fetch = watch.ring, iterators.__next__

    @wraps(fetch)
    def __next__(self):
        if watch.thread != get_ident():
            return fetch(self)
        try:
            if is_grad_enabled():
                watch.has_loader = True
                watch.after_backward = FORWARD
                ring.enter(DATA_WAIT)
            elif ring.phase != EVALUATING:
                ring.enter(EVALUATING)
        except Exception as error:
            watch.off(error)
        try:
            batch = fetch(self)
        except BaseException as error:
            try:
                # An epoch or evaluation has ended: the step is not typical.
                if watch.thread is not None:
                    ring.enter(IDLE)
                    ring.masked = 1
            except Exception as own:
                watch.off(own)
            strip(error)
            raise
        try:
            if ring.phase == DATA_WAIT:
                watch.count(self, batch)
                ring.enter(FORWARD)
        except Exception as error:
            watch.off(error)
        return batch

    iterators.__next__ = __next__
    return __next__


def watch_backward(watch, autograd):
    ring, inner = watch.ring, autograd.backward

    @wraps(inner)
    def backward(*args, **kwargs):
        if not watch.taken:
            watch.take()
        if watch.thread != get_ident() or ring.phase == BACKWARD:
            return inner(*args, **kwargs)
        try:
            ring.enter(BACKWARD)
        except Exception as error:
            watch.off(error)
        try:
            inner(*args, **kwargs)
        except BaseException as error:
            strip(error)
            raise
        finally:
            try:
                if ring.phase == BACKWARD:
                    ring.enter(watch.after_backward)
            except Exception as error:
                watch.off(error)

    autograd.backward = backward
    return backward


def watch_optimizers(watch, optimizers):
    ring = watch.ring

    def before(optimizer, args, kwargs):
        if not watch.taken:
            watch.take()
        # An optimizer that steps inside the backward pass may run on a thread of autograd.
        if watch.thread != get_ident() and ring.phase != BACKWARD:
            return
        try:
            watch.optimizer_steps += 1
            watch.stepping = True
            if len(args) > 1 and args[1] is not None or kwargs.get("closure") is not None:
                # The closure makes the forward and backward passes inside.
                watch.after_backward = OPTIMIZER
                ring.enter(FORWARD)
            else:
                ring.enter(OPTIMIZER)
        except Exception as error:
            watch.off(error)

    def after(optimizer, args, kwargs):
        # If a step calls another optimizer's step or its base's, only the inner one counts.
        if (not watch.stepping
                or watch.thread != get_ident() and ring.phase not in (OPTIMIZER, BACKWARD)):
            return
        try:
            watch.after_step(optimizer)
        except Exception as error:
            watch.off(error)

    optimizers.register_optimizer_step_pre_hook(before)
    optimizers.register_optimizer_step_post_hook(after)
    return before, after


def watch_scaler(watch, scaler):
    """Also counts a step that GradScaler skips because gradients overflow."""
    inner = scaler.step

    @wraps(inner)
    def step(self, optimizer, *args, **kwargs):
        before = watch.optimizer_steps
        try:
            result = inner(self, optimizer, *args, **kwargs)
        except BaseException as error:
            strip(error)
            raise
        if watch.optimizer_steps == before and watch.thread == get_ident():
            try:
                watch.after_step(optimizer)
            except Exception as error:
                watch.off(error)
        return result

    scaler.step = step
    return step


def hide_from_compiler(functions, eval_frame):
    """Makes torch.compile neither trace nor compile these functions."""
    skip = getattr(eval_frame, "skip_code", None)
    if skip is None:  # Since torch 2.7.
        action = eval_frame._FrameAction
        strategy = eval_frame._FrameExecStrategy(action.SKIP, action.DEFAULT)

        def skip(code):
            eval_frame.set_code_exec_strategy(code, strategy)

    for function in functions:
        function._torchdynamo_disable = True
        skip(function.__code__)


def keep_hooks(optim):
    """Before torch 2.4, torch.compile removes the wrapper that calls hooks from each torch.optim
    optimizer, by its step's `__wrapped__`, or prevents it. This keeps the wrapper in place."""
    for kind in vars(optim).values():
        if (isinstance(kind, type) and issubclass(kind, optim.Optimizer) and "step" in vars(kind)
                and kind is not optim.Optimizer):
            if not getattr(kind.step, "hooked", False):
                kind.step = kind.profile_hook_step(kind.step)
                kind.step.hooked = True
            kind.step.__wrapped__ = None


def hook(watch, torch):
    """Starts watching this process, which must have imported torch."""
    if not can_write():
        raise OSError(f"on {os.uname().machine} Python cannot write a step ring")
    optimizers = import_module("torch.optim.optimizer")  # Not an attribute of torch.optim.
    iterators = import_module("torch.utils.data.dataloader")._BaseDataLoaderIter
    scaler = next(kind for kind in torch.cuda.amp.GradScaler.__mro__ if "step" in vars(kind))
    hooks = [*watch_optimizers(watch, optimizers),
             watch_backward(watch, torch.autograd),
             watch_loaders(watch, iterators, torch.is_grad_enabled),
             watch_scaler(watch, scaler)]
    own = [function for kind in (Watch, Ring) for function in vars(kind).values()
           if callable(function)]
    hide_from_compiler([*hooks, *own, map_ring, strip], torch._C._dynamo.eval_frame)
    if [int(part) for part in torch.__version__.split(".")[:2]] < [2, 4]:
        keep_hooks(torch.optim)
    os.register_at_fork(after_in_child=watch.forget)


def start():
    torch = sys.modules["torch"]
    if hasattr(torch, "_paceline_watch"):
        return
    watch = torch._paceline_watch = Watch(os.environ["PACELINE_RING"])
    try:
        hook(watch, torch)
    except Exception as error:
        watch.forget()
        tell_off(error)
    if os.environ.get("PACELINE_DIR"):
        try:
            import_module(__package__ + "._collectives").hook(os.environ["PACELINE_DIR"])
        except Exception:
            pass  # The daemon reports that nobody answers.


if os.environ.get("PACELINE_RING") and os.environ.get("PACELINE_WATCH") != "0":
    after_torch(start)
