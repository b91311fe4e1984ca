"""Finds the one loop of a script that trains: its optimizer, its batches, its update."""

from __future__ import annotations

import ast
import dataclasses
from typing import List, Optional, Set, Tuple

from paceline.onboard.script import (Loop, Scope, Script, calls_method, ends_with, expression,
                                     keyword, leaves, stop, target_names, text_of)
from paceline.onboard.source import Unclear

_BY_HAND = "change the loop by hand, as docs/session.md shows"
_PROGRESS = ("tqdm", "auto.tqdm", "track")
_WORDS_OF_DRAWING = ("batch", "sample")


@dataclasses.dataclass
class TrainingLoop:
    """A loop that makes the optimizer's steps, in the parts that a session tells apart."""

    scope: Scope
    optimizer: str
    scaler: str  # Empty: none.
    epochs: Optional[Loop]  # Around `steps`.
    steps: Loop             # Whose body has the update.
    micro: Optional[Loop]   # In `steps`: its body has the backward pass, of several batches.
    backwards: List[ast.stmt]
    updates: List[ast.stmt]  # The optimizer's steps: several in branches of one `if`.
    batches: Optional[ast.expr] = None  # What `steps` goes over; None: it counts.
    target: Optional[ast.expr] = None   # The variables of a batch.
    index: str = ""                     # Variable that counts the batches of an epoch.
    progress: List[str] = dataclasses.field(default_factory=list)  # Bars around the batches.
    fetch: Optional[ast.Assign] = None  # Where a loop that counts gets its batch.
    fetches: List[ast.Assign] = dataclasses.field(default_factory=list)  # The same, elsewhere.

    @property
    def outer(self) -> Loop:
        return self.epochs or self.steps

    @property
    def inner(self) -> Loop:
        return self.micro or self.steps


class Kinds:
    """What a statement of a loop is for."""

    def __init__(self, script: Script) -> None:
        self.scalers = _made_by(script, "GradScaler")
        self.maybe_none = {one.target for one in script.assignments if one.target in self.scalers
                           and (
                               isinstance(one.value, ast.IfExp) or _is_none(one.value))}
        self.optimizers = {one.target for one in script.assignments
                           if _makes_optimizer(script.called(one.value))}
        stepped: Set[str] = set()
        zeroed: Set[str] = set()
        for node in ast.walk(script.tree):
            call = node if isinstance(node, ast.Call) else None
            name, method = calls_method(call, "step", "zero_grad")
            if method == "step" and name in self.scalers and call and call.args:
                self.optimizers.add(text_of(call.args[0]))
            elif method == "step":
                stepped.add(name)
            elif method:
                zeroed.add(name)
        self.optimizers |= stepped & zeroed
        self.schedulers = {one.target for one in script.assignments
                           if _makes_scheduler(script.called(one.value))} - self.optimizers

    def of(self, statement: ast.stmt) -> str:
        """backward, step, zero, clip, unscale, scale: parts of an update; else empty."""
        call = expression(statement)
        if call is None and isinstance(statement, ast.Assign):
            call = statement.value if isinstance(statement.value, ast.Call) else None
            is_clip = calls_method(call, "clip_grad_norm_")[1]
            return "clip" if is_clip else ""
        name, method = calls_method(call, "backward", "step", "zero_grad", "clip_grad_norm_",
                                    "unscale_", "update")
        if method == "step":
            return "step" if name in self.optimizers | self.scalers else ""
        if method in ("unscale_", "update"):
            kind = "unscale" if method == "unscale_" else "scale"
            return kind if name in self.scalers else ""
        if not method and call is not None and isinstance(call.func, ast.Name):
            return "clip" if call.func.id == "clip_grad_norm_" else ""
        return {"backward": "backward", "zero_grad": "zero", "clip_grad_norm_": "clip"}.get(
            method, "")

    def of_block(self, statement: ast.stmt) -> Set[str]:
        """The kinds in a statement that has nothing else; empty if there is anything else."""
        kinds = {self.of(one) for one in leaves([statement]) if not isinstance(one, ast.Pass)}
        return set() if "" in kinds else kinds


def find_loop(script: Script, kinds: Kinds) -> TrainingLoop:
    """Raises Unclear where there is none, or one that it does not understand."""
    backwards = [node for node in ast.walk(script.tree)
                 if isinstance(node, ast.stmt) and kinds.of(node) == "backward"]
    backwards.sort(key=lambda one: one.lineno)
    if not backwards:
        raise Unclear(1, "no training loop was found: there is no loss.backward() in it",
                      "name the file that has the loop, or " + _BY_HAND)
    first = backwards[0]
    _check_place(script, first)
    for other in backwards[1:]:
        if script.loops_around(other)[:1] != script.loops_around(first)[:1]:
            raise stop(other, f"a second backward pass, besides that of line {first.lineno}",
                       "a session has one loop, with one optimizer; " + _BY_HAND)
    for one in backwards:
        call = expression(one)
        assert call is not None
        if call.args or call.keywords:
            raise stop(one, "a backward pass with arguments",
                       "step.backward takes the loss alone; " + _BY_HAND)
    updates = _updates(script, kinds, first)
    loop = _shape(script, kinds, backwards, updates)
    for head in (loop.epochs, loop.steps, loop.micro):
        if head is not None:
            _check_head(script, head)
    if loop.batches is None:
        _find_fetch(script, loop)
    return loop


def _check_place(script: Script, backward: ast.stmt) -> None:
    scope = script.scope(backward)
    if not script.loops_around(backward):
        where = f"the function {scope.name}" if not isinstance(scope, ast.Module) else "the script"
        raise stop(backward, f"the backward pass is in no loop of {where}",
                   "bring the loops over epochs and batches, the backward pass and the "
                   "optimizer's step into one function, and try again, or " + _BY_HAND)
    owner = script.source.parents.get(scope)
    if isinstance(owner, ast.ClassDef):
        raise stop(backward, f"the loop is in a method of the class {owner.name}",
                   "what it uses is made elsewhere; " + _BY_HAND)
    for one in script.source.ancestors(backward):
        if one is script.loops_around(backward)[0]:
            break
        if not isinstance(one, (ast.If, ast.With)):
            raise stop(backward, f"the backward pass is inside of a {type(one).__name__.lower()}",
                       _BY_HAND)


def _updates(script: Script, kinds: Kinds, backward: ast.stmt) -> List[ast.stmt]:
    scope = script.scope(backward)
    updates = [node for node in ast.walk(scope)
               if isinstance(node, ast.stmt) and kinds.of(node) == "step"
               and script.scope(node) is scope and script.loops_around(node)]
    updates.sort(key=lambda one: one.lineno)
    if not updates:
        raise stop(backward, "no step of an optimizer was found in the loop of this backward pass; "
                   "looked for X.step(), where X is made by torch.optim or has X.zero_grad() too",
                   "bring it into this loop, or " + _BY_HAND)
    names = {_stepped(kinds, one) for one in updates}
    if len(names) > 1:
        raise stop(updates[1], f"steps of several optimizers: {', '.join(sorted(names))}",
                   "one optimizer, one step is all that a session has (rule 5 in docs/session.md); "
                   "paceline run takes the script as it is")
    return updates


def _stepped(kinds: Kinds, statement: ast.stmt) -> str:
    call = expression(statement)
    assert call is not None
    name = calls_method(call, "step")[0]
    return text_of(call.args[0]) if name in kinds.scalers and call.args else name


def _shape(script: Script, kinds: Kinds, backwards: List[ast.stmt],
           updates: List[ast.stmt]) -> TrainingLoop:
    around = script.loops_around(updates[0])
    steps = around[0]
    inner = script.loops_around(backwards[0])
    if steps not in inner or any(script.loops_around(one)[0] is not steps for one in updates):
        raise stop(updates[0], "the optimizer's step is in another loop than the backward pass",
                   _BY_HAND)
    scalers = {calls_method(expression(one), "step")[0] for one in updates} & kinds.scalers
    loop = TrainingLoop(scope=script.scope(steps), optimizer=_stepped(kinds, updates[0]),
                        scaler=scalers.pop() if scalers else "", epochs=None, steps=steps,
                        micro=None, backwards=backwards, updates=updates)
    if inner[0] is not steps:
        loop.micro = inner[0]
        if inner[1] is not steps or loop.micro not in steps.body or not _counts(script, loop.micro):
            raise stop(loop.micro, "loops between the backward pass and the optimizer's step that "
                       "are not one `for … in range(…)`", _BY_HAND)
    elif isinstance(steps, ast.For) and not _counts(script, steps):
        _read_batches(script, loop, steps)
    outer = around[1:]
    if loop.batches is not None and outer:
        loop.epochs = outer.pop(0)
        if steps not in loop.epochs.body:
            raise stop(steps, "between the loops over epochs and over batches is something else",
                       _BY_HAND)
    if outer:
        raise stop(outer[0], "the loop that makes the steps is inside of another one", _BY_HAND)
    return loop


def _counts(script: Script, loop: Loop) -> bool:
    return isinstance(loop, ast.While) or ends_with(
        script.called(_bare(script, loop.iter)[0]), "range", "trange", "count")


def _bare(script: Script, node: ast.expr) -> Tuple[ast.expr, List[str]]:
    """What a progress bar is around, and the variables that hold bars."""
    bars: List[str] = []
    while True:
        if isinstance(node, ast.Name):
            values = {id(one.value): one.value for one in script.assigned(node.id)}
            value = next(iter(values.values())) if len(values) == 1 else None
            if node.id in bars or not ends_with(script.called(value), *_PROGRESS):
                return node, bars
            bars.append(node.id)
            assert value is not None
            node = value
        elif (isinstance(node, ast.Call) and node.args
              and ends_with(script.called(node), *_PROGRESS)):
            node = node.args[0]
        elif _is_endless(script, node):
            assert isinstance(node, ast.Call)
            node = node.args[0]
        else:
            return node, bars


def _is_endless(script: Script, node: ast.expr) -> bool:
    """Whether it is a function of the script that goes through a loader again and again."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1):
        return False
    function = script.functions.get(node.func.id)
    return function is not None and any(
        isinstance(loop, ast.While) and any(isinstance(one, (ast.Yield, ast.YieldFrom))
                                            for one in ast.walk(loop))
        for loop in function.body)


def _read_batches(script: Script, loop: TrainingLoop, steps: ast.For) -> None:
    batches, bars = _bare(script, steps.iter)
    target: ast.expr = steps.target
    if isinstance(batches, ast.Call) and script.called(batches) == "enumerate":
        if not (isinstance(target, ast.Tuple) and len(target.elts) == 2
                and isinstance(target.elts[0], ast.Name)):
            raise stop(steps, "an enumerate whose number has no name of its own", _BY_HAND)
        loop.index, target = target.elts[0].id, target.elts[1]
        batches, more = _bare(script, batches.args[0])
        bars += more
    if isinstance(batches, ast.Call) and script.called(batches) == "zip":
        raise stop(steps, "a zip of several loaders", "make one data set of them, or " + _BY_HAND)
    loop.batches, loop.target, loop.progress = batches, target, bars


def _check_head(script: Script, loop: Loop) -> None:
    if loop.orelse:
        raise stop(loop.orelse[0], "an else of a loop", _BY_HAND)
    if isinstance(loop, ast.For) and loop.type_comment:
        raise stop(loop, "a comment with types", _BY_HAND)
    colon = script.source.line_at(script.source.header_end(loop))
    if loop.body[0].lineno == colon:
        raise stop(loop, "a loop with its body on the line of its head",
                   "write the body on lines of its own, and try again")


def _find_fetch(script: Script, loop: TrainingLoop) -> None:
    """Where a loop that counts gets its batches."""
    blocks = [loop.steps.body] + ([loop.micro.body] if loop.micro else [])
    for statement in [one for block in blocks for one in block]:
        if isinstance(statement, ast.Assign) and _draws(script, statement.value):
            loop.fetch = loop.fetch or statement
            if (_key(statement) != _key(loop.fetch)):
                raise stop(statement, f"a second kind of batch, besides that of line "
                           f"{loop.fetch.lineno}", _BY_HAND)
            loop.fetches.append(statement)
        elif isinstance(statement, ast.Try) and "StopIteration" in target_names(statement):
            raise stop(statement, "a loader that is begun again where it ends",
                       "step.batches(loader) does that by itself; " + _BY_HAND)
    if loop.fetch is None:
        return
    loop.fetches += [one.statement for one in script.assignments
                     if isinstance(one.statement, ast.Assign) and one.statement not in loop.fetches
                     and script.scope(one.statement) is loop.scope
                     and not script.loops_around(one.statement)
                     and _key(one.statement) == _key(loop.fetch)]
    loop.target = loop.fetch.targets[0]


def _key(statement: ast.Assign) -> Tuple[str, str]:
    return text_of(statement.targets[0]), text_of(statement.value)


def _draws(script: Script, value: ast.expr) -> bool:
    name = script.called(value).rsplit(".", 1)[-1]
    if name == "next":
        return True
    is_ours = name in script.functions or (
        isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute))
    return is_ours and any(word in name for word in _WORDS_OF_DRAWING)


def _made_by(script: Script, *names: str) -> Set[str]:
    """Targets of assignments of such a call, also in the branches of an `… if … else …`."""
    return {one.target for one in script.assignments for value in (
        [one.value.body, one.value.orelse] if isinstance(one.value, ast.IfExp) else [one.value])
            if ends_with(script.called(value), *names)}


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _makes_optimizer(name: str) -> bool:
    if "lr_scheduler" in name:
        return False
    last = name.rsplit(".", 1)[-1]
    return (name.startswith("torch.optim.") or ends_with(name, "configure_optimizers")
            or last in ("AdamW", "Adam", "SGD", "Adafactor", "Lion", "Muon", "LBFGS"))


def _makes_scheduler(name: str) -> bool:
    last = name.rsplit(".", 1)[-1]
    return "lr_scheduler" in name or last.startswith("get_") and "schedule" in last


def clip_of(call: ast.Call) -> Optional[ast.expr]:
    """The greatest norm that a clip_grad_norm_ allows."""
    return call.args[1] if len(call.args) > 1 else keyword(call, "max_norm")
