"""Divides the bodies of a training loop into what a session makes of them."""

from __future__ import annotations

import ast
import dataclasses
from typing import Iterator, List, Optional, Sequence, Set, Tuple

from paceline.onboard.script import (Loop, Script, calls_method, ends_with, expression, leaves,
                                     stop, text_of)
from paceline.onboard.training_loop import Kinds, TrainingLoop, clip_of

_BY_HAND = "change the loop by hand, as docs/session.md shows"
_OF_BARS = ("update", "set_postfix", "set_postfix_str", "set_description", "close", "refresh")


@dataclasses.dataclass
class Parts:
    """Statements of the loop, in their order in the text."""

    epoch_head: List[ast.stmt]  # In `epochs`, before the batches; and behind them.
    epoch_tail: List[ast.stmt]
    before: List[ast.stmt]   # In `steps`, before the first batch.
    in_pass: List[ast.stmt]  # Of one batch.
    between: List[ast.stmt]  # Behind the passes, before the optimizer's step.
    update: ast.stmt         # Has the optimizer's step.
    behind: List[ast.stmt]
    ends: List[ast.If]       # End the loop after a number of steps.
    dropped: List[ast.stmt]  # Has no meaning in a session.
    bars: List[ast.stmt]     # Calls of a progress bar, which are dropped, too.
    counters: List[ast.AugAssign]     # Count the steps.
    accumulation: Optional[ast.expr]  # Batches of a step; None: one.
    count: Optional[ast.expr]         # Steps or epochs; None: not said.
    counts_epochs: bool
    start: Optional[ast.expr]         # First value of the variable of the outer loop.
    clip: str                         # Greatest norm of the gradients; empty: no clipping.


def divide(script: Script, kinds: Kinds, loop: TrainingLoop) -> Parts:
    """Raises Unclear at a statement that has no place in a session."""
    body = loop.steps.body
    at_backward = _index(script, body, loop.backwards)
    at_update = _index(script, body, loop.updates)
    if at_update < at_backward:
        raise stop(loop.updates[0], "the optimizer's step is before the backward pass", _BY_HAND)
    if loop.micro is not None:
        before, in_pass = body[:at_backward], list(loop.micro.body)
        between, behind = body[at_backward + 1:at_update], body[at_update + 1:]
    else:
        last = max([at_backward] + [i for i in range(at_backward, at_update)
                                    if not kinds.of_block(body[i])])
        at_fetch = body.index(loop.fetch) if loop.fetch in body else -1
        before, in_pass = body[:max(at_fetch, 0)], body[at_fetch + 1:last + 1]
        between, behind = body[last + 1:at_update], body[at_update + 1:]
    epoch_head, epoch_tail = _around(loop)
    parts = Parts(epoch_head=epoch_head, epoch_tail=epoch_tail, before=before, in_pass=in_pass,
                  between=between, update=body[at_update], behind=behind, ends=[], dropped=[],
                  bars=[], counters=[], accumulation=_accumulation(loop, body[at_update]),
                  count=None, counts_epochs=loop.epochs is not None, start=None, clip="")
    _read_count(script, loop, parts)
    _find_counters(script, loop, parts)
    _find_dropped(script, kinds, loop, parts)
    _find_clip(script, kinds, loop, parts)
    _check_exits(loop, parts)
    return parts


def _index(script: Script, body: Sequence[ast.stmt], wanted: List[ast.stmt]) -> int:
    """The one statement of the body that has all of these."""
    found = {i for i, one in enumerate(body) for part in wanted
             if part is one or one in script.source.ancestors(part)}
    if len(found) > 1:
        raise stop(wanted[-1], "made at several places of the loop", _BY_HAND)
    return found.pop()


def _around(loop: TrainingLoop) -> Tuple[List[ast.stmt], List[ast.stmt]]:
    if loop.epochs is None:
        return [], []
    at = loop.epochs.body.index(loop.steps)
    return loop.epochs.body[:at], loop.epochs.body[at + 1:]


def _accumulation(loop: TrainingLoop, update: ast.stmt) -> Optional[ast.expr]:
    """How many batches make a step, by an inner loop or by `if (i + 1) % n == 0`."""
    if isinstance(loop.micro, ast.For):
        call = loop.micro.iter
        return call.args[-1] if isinstance(call, ast.Call) and call.args else None
    if not isinstance(update, ast.If):
        return None
    return next((one.right for one in ast.walk(update.test)
                 if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mod)), None)


def _read_count(script: Script, loop: TrainingLoop, parts: Parts) -> None:
    outer = loop.outer
    if isinstance(outer, ast.While):
        test = outer.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(
                test.ops[0], (ast.Lt, ast.LtE, ast.NotEq)):
            parts.count = test.comparators[0]
        elif not isinstance(test, ast.Constant):
            raise stop(outer, "a while whose end is no number of steps", _BY_HAND)
    elif loop.epochs is not None or loop.batches is None:
        call = outer.iter
        while isinstance(call, ast.Call) and not ends_with(script.called(call), "range", "trange"):
            call = call.args[0] if call.args else ast.Constant(None)
        if isinstance(call, ast.Call) and call.args:
            parts.count = call.args[min(1, len(call.args) - 1)]
            parts.start = call.args[0] if len(call.args) > 1 else None


def _find_counters(script: Script, loop: TrainingLoop, parts: Parts) -> None:
    """`n += 1`, once in each step, where the loop's end or a `%` depends on n."""
    tests = [loop.outer.test] if isinstance(loop.outer, ast.While) else []
    tests += [node for node in ast.walk(loop.outer)
              if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)]
    ends = [node for node in ast.walk(loop.outer) if isinstance(node, ast.If)
            and not node.orelse and [type(one) for one in node.body] == [ast.Break]]
    used = {text_of(one) for test in [*tests, *(end.test for end in ends)]
            for one in ast.walk(test) if isinstance(one, (ast.Name, ast.Attribute))}
    update = parts.update.body if isinstance(parts.update, ast.If) else []
    for one in [*parts.before, *parts.in_pass, *parts.behind, *update]:
        if (isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Add)
                and isinstance(one.value, ast.Constant) and one.value.value == 1
                and text_of(one.target) in used):
            if one in parts.in_pass and parts.accumulation is not None:
                continue  # Counts batches.
            parts.counters.append(one)
    names = {text_of(one.target) for one in parts.counters} | {loop.index}
    if tests and isinstance(tests[0], ast.Compare) and text_of(tests[0].left) in names:
        parts.counts_epochs = False
    if loop.batches is None and isinstance(loop.steps, ast.For):
        names.add(text_of(loop.steps.target))
    for end in ends:
        test = end.test
        if (isinstance(test, ast.Compare) and len(test.ops) == 1
                and isinstance(test.ops[0], (ast.Gt, ast.GtE, ast.Eq))
                and text_of(test.left) in names and script.loops_around(end)[0] in (
                    loop.epochs, loop.steps)):
            if loop.epochs is not None and text_of(test.left) == loop.index:
                raise stop(end, "an epoch ends before all of its batches are used", "shorten the "
                           "data set (torch.utils.data.Subset), or " + _BY_HAND)
            parts.ends.append(end)
            if loop.epochs is None or text_of(test.left) != loop.index:
                parts.count, parts.counts_epochs = test.comparators[0], False


def _find_dropped(script: Script, kinds: Kinds, loop: TrainingLoop, parts: Parts) -> None:
    for one in [*parts.epoch_head, *parts.before, *parts.in_pass, *parts.between, *parts.behind,
                *parts.epoch_tail]:
        found = list(leaves([one]))
        of_block = kinds.of_block(one)
        if of_block and not of_block & {"backward", "step"}:
            parts.dropped.append(one)
        elif all(map(_is_of_samplers, found)) or one in parts.ends:
            parts.dropped.append(one)
        elif all(calls_method(expression(leaf), *_OF_BARS)[0] in loop.progress for leaf in found):
            parts.bars.append(one)
        elif _opens(script, loop, one):
            parts.dropped.append(one)
    parts.dropped += [one for one in loop.fetches
                      if one is not loop.fetch or loop.micro is not None]
    parts.dropped += [one for one in parts.ends if one not in parts.dropped]


def _is_of_samplers(statement: ast.stmt) -> bool:
    """What tells a sampler its epoch, or DDP when to exchange gradients."""
    if calls_method(expression(statement), "set_epoch")[1]:
        return True
    return (isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Attribute)
            and statement.targets[0].attr == "require_backward_grad_sync")


def _opens(script: Script, loop: TrainingLoop, statement: ast.stmt) -> bool:
    """Whether it makes the progress bar around the batches."""
    return (isinstance(statement, ast.Assign) and text_of(statement.targets[0]) in loop.progress
            and isinstance(statement.value, ast.Call) and script.source.parents[statement]
            in (loop.epochs, loop.scope))


def _find_clip(script: Script, kinds: Kinds, loop: TrainingLoop, parts: Parts) -> None:
    body = [*parts.in_pass, *parts.between, parts.update]
    for statement in [leaf for one in body for leaf in leaves([one])]:
        for node in ast.walk(statement):
            if calls_method(node if isinstance(node, ast.Call) else None, "clip_grad_value_")[1]:
                raise stop(node, "gradients are clipped value by value",
                           "step.update(clip=…) clips by their norm; " + _BY_HAND)
        if kinds.of(statement) != "clip":
            continue
        if isinstance(statement, ast.Assign):
            for name in ast.walk(statement.targets[0]):
                if isinstance(name, ast.Name) and script.uses(name.id, loop.outer):
                    raise stop(statement, f"the gradients' norm is used, as {name.id}",
                               "step.update(clip=…) clips, and gives no norm: leave "
                               f"{name.id} out where it is shown, and try again")
            call = statement.value
        else:
            call = expression(statement)  # type: ignore[assignment]
        assert isinstance(call, ast.Call)
        norm = clip_of(call)
        if norm is None:
            raise stop(statement, "clipping without a norm", _BY_HAND)
        parts.clip = _conditional(script, statement, norm)


def _conditional(script: Script, statement: ast.stmt, norm: ast.expr) -> str:
    """The norm, with the `if` that the clipping stands in, unless that is about the norm itself."""
    text = script.source.of(norm)
    above = script.source.parents[statement]
    if not isinstance(above, ast.If) or "%" in text_of(above.test):
        return text
    if {text_of(one) for one in ast.walk(above.test)} & {text_of(norm)}:
        return text
    if statement in above.orelse or isinstance(script.source.parents[above], ast.If):
        raise stop(statement, "clipping that depends on several things", _BY_HAND)
    if any(kind in ast.unparse(above) for kind in (".step(", ".backward(")):
        return text  # Of an update with and without a GradScaler.
    return f"{text} if {script.source.of(above.test)} else 0.0"


def exits(block: Sequence[ast.stmt], kinds_of_exit: Tuple[type, ...]) -> Iterator[ast.stmt]:
    """Statements that leave the loop whose body this is."""
    for statement in block:
        if isinstance(statement, kinds_of_exit):
            yield statement
        elif isinstance(statement, (ast.For, ast.While)):
            yield from exits([*statement.body, *statement.orelse],
                             tuple(one for one in kinds_of_exit if one is ast.Return))
        elif not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for name in ("body", "orelse", "finalbody"):
                yield from exits(getattr(statement, name, []), kinds_of_exit)
            for handler in getattr(statement, "handlers", []):
                yield from exits(handler.body, kinds_of_exit)


def _check_exits(loop: TrainingLoop, parts: Parts) -> None:
    """No batch may be left out: each has its backward pass."""
    kept = [one for one in parts.in_pass if one not in parts.ends]
    for one in exits(kept, (ast.Continue, ast.Break, ast.Return)):
        raise stop(one, "a batch is left out, before its backward pass",
                   "in a session each batch of step.batches has its step.backward: leave such "
                   "samples out in the data set, or " + _BY_HAND)
    for one in exits(parts.before, (ast.Continue,)):
        raise stop(one, "a step is left out", _BY_HAND)


def names_of(loop: Loop) -> Set[str]:
    """Variables that the loop's head sets."""
    if isinstance(loop, ast.While):
        return set()
    return {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
