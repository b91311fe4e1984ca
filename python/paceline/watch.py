"""Measures the steps of a PyTorch script that knows nothing of it (docs/own-script.md).

Importing this watches the process, if PACELINE_RING names a step ring, from the moment at which
the script imports torch. What is seen of a step: a loader's `__next__`, `torch.autograd.backward`,
and torch's hooks around each optimizer's `step`. A step lasts from the end of one optimizer step to
the end of the next. Whatever fails in here ends the watching with one line on stderr; the script
never sees it.
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

# So many steps of another optimizer without one of the leader's: it leads.
PATIENCE = 10


class Watch:
    """What is known of the training beside the ring that it is written to."""

    def __init__(self, path):
        self.path = path
        self.ring = Ring()
        self.taken = False  # Whether the process trains, so that the ring is its own.
        # The events of another thread are not the training's. None: nothing is watched any more.
        self.thread = get_ident()
        self.leader = lambda: None  # Weak reference to the optimizer whose steps end a step.
        self.others = {}  # {id: steps} of the other optimizers since.
        self.optimizer_steps = 0
        self.stepping = False
        self.after_backward = FORWARD
        self.has_loader = False
        self.counted = None  # The loader whose samples are those of the step.

    def take(self):
        """The process trains: it writes the ring, unless another one of the rank does."""
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
        """For an interpreter that will stand by. It is not worth the watching if that fails."""
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
            ring.phase = OPTIMIZER  # Its closure made no pass.
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
            rate = 0.0  # A tensor may be on a GPU: to read it would wait.
        # What comes before the next batch is in no phase. Without a loader it is the forward pass.
        ring.end_step(rate, IDLE if self.has_loader else FORWARD)

    def takes_the_lead(self, optimizer):
        steps = self.others[id(optimizer)] = self.others.get(id(optimizer), 0) + 1
        if self.leader() is not None and steps < PATIENCE:
            return False
        self.leader = weakref.ref(optimizer)
        return True

    def count(self, iterator, batch):
        """Adds the samples of a batch, if its first dimension is surely theirs."""
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
        """Ends the watching, and says why."""
        self.forget()
        tell_off(error, "no longer")
        try:
            self.ring.show(IDLE, monotonic_ns())
        except Exception:
            pass  # The ring may be what is broken.

    def forget(self):
        """Also in a forked child: what it does is not the rank's training."""
        self.taken, self.thread, self.ring.phase = True, None, IDLE


def strip(error):
    """Takes the caller's own frame out of a traceback, before the caller's bare `raise`."""
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
                # The end of an epoch or of an evaluation: the step is not a typical one.
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
        # One that steps inside the backward pass may be called by a thread of autograd's.
        if watch.thread != get_ident() and ring.phase != BACKWARD:
            return
        try:
            watch.optimizer_steps += 1
            watch.stepping = True
            if len(args) > 1 and args[1] is not None or kwargs.get("closure") is not None:
                # The forward and the backward pass are made inside.
                watch.after_backward = OPTIMIZER
                ring.enter(FORWARD)
            else:
                ring.enter(OPTIMIZER)
        except Exception as error:
            watch.off(error)

    def after(optimizer, args, kwargs):
        # One whose step calls another's, or its base's, is told of after that.
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
    """A step that GradScaler leaves out, for its gradients overflow, is one nevertheless."""
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
    """torch.compile neither looks into these functions nor compiles them."""
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
    """Before torch 2.4, torch.compile takes off from each optimizer of torch.optim what calls hooks,
    by the `__wrapped__` of its step; or hinders that it is put on."""
    for kind in vars(optim).values():
        if (isinstance(kind, type) and issubclass(kind, optim.Optimizer) and "step" in vars(kind)
                and kind is not optim.Optimizer):
            if not getattr(kind.step, "hooked", False):
                kind.step = kind.profile_hook_step(kind.step)
                kind.step.hooked = True
            kind.step.__wrapped__ = None


def hook(watch, torch):
    """Watches this process, which has imported torch."""
    if not can_write():
        raise OSError(f"on {os.uname().machine} Python cannot write a step ring")
    optimizers = import_module("torch.optim.optimizer")  # torch.optim does not keep its name.
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
            pass  # The daemon says that nobody answers.


if os.environ.get("PACELINE_RING") and os.environ.get("PACELINE_WATCH") != "0":
    after_torch(start)
