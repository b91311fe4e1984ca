"""Writes a training loop as that of a session."""

from __future__ import annotations

import ast
from typing import Dict, List, NamedTuple, Optional, Set, Tuple

from paceline.onboard.loop_parts import Parts, exits, names_of
from paceline.onboard.script import (Loop, Script, calls_method, ends_with, expression, stop,
                                     text_of)
from paceline.onboard.source import Edits, lines_of
from paceline.onboard.training_loop import Kinds, TrainingLoop

_RANDOM = ("torch.randint", "torch.randperm", "torch.rand", "torch.randn")
_SHOWS = ("print", "debug", "info", "warning", "write")
_BY_HAND = "change the loop by hand, as docs/session.md shows"


class Note(NamedTuple):
    """What a person should know of a line; or, `must`, do there before the script runs."""

    line: int
    text: str
    must: bool = False


class Names(NamedTuple):
    """Variables that the script gets."""

    run: str
    step: str


class LoopEdits:
    """Edits of one loop. Raises Unclear for what they cannot keep."""

    def __init__(self, script: Script, kinds: Kinds, loop: TrainingLoop, parts: Parts,
                 names: Names, edits: Edits) -> None:
        self._script, self._kinds, self._loop, self._parts = script, kinds, loop, parts
        self._run, self._step = names
        self._edits = edits
        self._source = script.source
        self.notes: List[Note] = []
        self._is_divided = False  # The loss of a pass, by the number of them, and no more.
        self.hoisted: List[str] = []  # Lines for before the loop.
        self._heads: List[ast.stmt] = []  # Done once an epoch, at its beginning.
        outer = loop.outer
        self._indent = self._source.indent(outer.lineno)
        self._unit = self._source.indent(outer.body[0].lineno)[len(self._indent):]

    def make(self, batches: str, counted_by: str, tells_epoch: bool) -> None:
        """batches: what step.batches goes over. counted_by: a loader with a length; empty: there is
        none. tells_epoch: whether it is of run.loader, and knows its epoch."""
        for one in self._parts.dropped + self._parts.bars:
            self._edits.drop(one)
        if self._parts.bars or self._loop.progress:
            self._note(self._loop.steps, "the progress bar is gone; `paceline top` shows the steps")
        self._write_heads(batches, counted_by)
        if self._loop.epochs is not None:
            self._write_epochs(counted_by, tells_epoch)
        self._write_counters()
        self._write_passes()
        self._write_update()
        self._move()
        self._tell_exits()

    def _at(self, depth: int) -> str:
        return self._indent + depth * self._unit

    def _note(self, node: ast.AST, text: str) -> None:
        self.notes.append(Note(getattr(node, "lineno", 1), text))

    def _colon_line(self, statement: ast.stmt) -> int:
        return self._source.line_at(self._source.header_end(statement))

    def _write_heads(self, batches: str, counted_by: str) -> None:
        """`for … in run.steps():`, `with step:` and `for … in step.batches(…):`."""
        loop, source = self._loop, self._source
        target = "_" if loop.target is None else source.of(loop.target)
        if isinstance(loop.target, ast.Tuple) and target.startswith("("):
            target = target[1:-1]
        inner = f"for {target} in {self._step}.batches({batches})"
        steps = f"for {self._step} in {self._run}.steps()"
        self._edits.replace(source.begin(loop.outer), source.header_end(loop.outer), steps)
        first = self._colon_line(loop.outer) + 1
        self._edits.insert(first, f"{self._at(1)}with {self._step}:")
        for line in self._first_lines(counted_by):
            self._edits.insert(first, self._at(2) + line)
        is_random = self._is_random()
        if loop.epochs is not None or loop.micro is not None:
            head = loop.inner
            self._edits.replace(source.begin(head), source.header_end(head), inner)
            if is_random:
                self._edits.insert(head.lineno, self._at(2) + self._seed())
            return
        if is_random:
            where = loop.fetch.lineno if loop.fetch is not None else first
            self._edits.insert(where, self._at(2) + self._seed())
        if loop.fetch is not None:
            self._edits.replace_node(loop.fetch, inner + ":")
        else:
            self._edits.insert(first, f"{self._at(2)}{inner}:")

    def _seed(self) -> str:
        run, step = self._run, self._step
        return f"torch.manual_seed({run}.seed + {step}.number * {run}.world_size + {run}.rank)"

    def _is_random(self) -> bool:
        """Whether batches are drawn at random, so that their seed has to follow from the step."""
        loop = self._loop
        if loop.batches is not None:
            return False
        if loop.fetch is not None:
            return self._script.called(loop.fetch.value) != "next"
        is_random = any(self._script.called(node) in _RANDOM for one in self._parts.in_pass
                        for node in ast.walk(one))
        if not is_random:
            self._note(loop.steps, "no batch was found in the loop: all ranks train on the same "
                       f"data, unless you divide it by {self._run}.rank")
        return is_random

    def _first_lines(self, counted_by: str) -> List[str]:
        """What the variables of the loops' heads are in a session."""
        loop = self._loop
        lines: List[str] = []
        if loop.batches is None and isinstance(loop.steps, ast.For):
            name = text_of(loop.steps.target)
            if name != "_" and self._is_read(name):
                lines.append(f"{name} = {self._step}.number{self._offset()}")
        elif loop.index and self._is_read(loop.index):
            lines.append(f"{loop.index} = {self._number_of_batch(counted_by)}")
        for counter in self._parts.counters:
            name = text_of(counter.target)
            if self._is_read(name, before=counter.lineno):
                lines.append(f"{name} = {self._step}.number")
        if loop.micro is not None:
            for name in sorted(names_of(loop.micro)):
                if name != "_" and self._is_read(name):
                    raise stop(loop.micro, f"{name}, the number of a batch in its step, is used",
                               _BY_HAND)
        return lines

    def _number_of_batch(self, counted_by: str) -> str:
        """What the number of a batch in its epoch is in a session."""
        loop, step = self._loop, self._step
        has_one_pass = self._parts.accumulation is None
        exact = [one for one in self._reads(loop.index) if self._is_exact(one)]
        if exact and has_one_pass and loop.epochs is not None and counted_by:
            self._note(loop.steps, f"{loop.index} is the number of the step's first batch in its "
                       "epoch: exact as long as the number of ranks stays the same")
            return f"{step}.number * {step}.passes % len({counted_by})"
        self._note(loop.steps, f"{loop.index} counts the steps of the job now, not the batches "
                   "of an epoch")
        if not has_one_pass or loop.epochs is not None:
            self.notes += [Note(one.lineno, f"{loop.index} is used here as the number of a batch, "
                                "and is that of the job's step now: write what is meant, by "
                                f"{step}.number and {step}.passes", must=True) for one in exact]
        return f"{step}.number"

    def _is_exact(self, read: ast.expr) -> bool:
        """Whether the number of a batch is for more than to do something now and then (`i % 100`),
        or to be shown."""
        divisor = self._parts.accumulation
        for node in self._source.ancestors(read):
            if (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)
                    and read not in ast.walk(node.right)):
                return divisor is not None and text_of(node.right) == text_of(divisor)
            if isinstance(node, ast.JoinedStr) or ends_with(self._script.called(node), *_SHOWS):
                return False
        return True

    def _offset(self, more: int = 0) -> str:
        """What is added to a number from 0 for the variable of the outer loop, and more."""
        start = self._parts.start
        if isinstance(start, ast.Constant) and isinstance(start.value, int):
            more += start.value
        elif start is not None:
            self._note(self._loop.outer, f"the loop begins at {text_of(start)}; a session knows "
                       "its step by itself, and begins at 0")
        return f" {'+' if more > 0 else '-'} {abs(more)}" if more else ""

    def _is_read(self, name: str, before: Optional[int] = None) -> bool:
        """Whether a variable is read in what is left of the loop."""
        return any(before is None or node.lineno < before for node in self._reads(name))

    def _reads(self, name: str) -> List[ast.expr]:
        """Where a variable is read in what is left of the loop."""
        heads = [loop.test for loop in [self._loop.outer] if isinstance(loop, ast.While)]
        heads += [one.test for one in [self._parts.update] if isinstance(one, ast.If)]
        ignored = {id(node) for head in heads for node in ast.walk(head)}
        nodes = [node for node in ast.walk(self._loop.outer)
                 if isinstance(node, (ast.Name, ast.Attribute)) and text_of(node) == name]
        return [node for node in nodes if isinstance(node.ctx, ast.Load)
                and id(node) not in ignored and not self._edits.is_dropped(node)]

    def _write_counters(self) -> None:
        for counter in self._parts.counters:
            name = text_of(counter.target)
            if self._script.uses(name) or "." in name:
                self._edits.replace_node(counter, f"{name} = {self._step}.number + 1")

    def _write_epochs(self, counted_by: str, tells_epoch: bool) -> None:
        loop, parts = self._loop, self._parts
        assert loop.epochs is not None
        resets = [one for one in parts.epoch_head if self._is_reset(one)]
        heads = [one for one in parts.epoch_head
                 if one not in resets and not self._edits.is_dropped(one)
                 and not calls_method(expression(one), "train", "eval")[1]]
        tail = [one for one in parts.epoch_tail if not self._edits.is_dropped(one)]
        if (heads or tail or resets) and not counted_by:
            raise stop((heads + tail + resets)[0], "something is done once an epoch, and the "
                       "length of an epoch is not known without run.loader", _BY_HAND)
        # Batches of the job before the step, and with it: it may begin and end within epochs.
        step, length = self._step, f"len({counted_by})"
        before, behind = f"{step}.number * {step}.passes", f"({step}.number + 1) * {step}.passes"
        if heads:
            self._check_heads(heads)
            where = self._region(heads[0], loop.epochs)[0]
            self._edits.insert(where, f"{self._at(2)}if -{before} % {length} < {step}.passes:"
                               "  # An epoch begins.")
            self._set_epoch(where, heads, f"({behind} - 1) // {length}{self._offset()}")
        for one in resets:
            self.hoisted.append(self._edits.of(one))
            self._edits.drop(one)
        if tail or resets:
            where = self._region(tail[0], loop.epochs)[0] if tail else self._last_line() + 1
            self._edits.insert(where, f"{self._at(2)}if {behind} % {length} < {step}.passes:"
                               "  # An epoch ends.")
            self._set_epoch(where, tail, f"{behind} // {length}{self._offset(-1)}")
            last = self._last_line() + 1
            for one in resets:
                self._edits.insert(last, self._at(3) + self._edits.of(one))
        told = {id(node) for one in [*heads, *tail] for node in ast.walk(one)}
        for name in sorted(names_of(loop.epochs)):
            if any(id(read) not in told for read in self._reads(name)):
                value = f"{counted_by}.epoch" if tells_epoch else f"{before} // {length}"
                if not counted_by:
                    raise stop(loop.epochs, f"{name} is used, and epochs are not known without "
                               "run.loader", _BY_HAND)
                self._edits.insert(self._colon_line(loop.steps) + 1,
                                   f"{self._at(3)}{name} = {value}{self._offset()}")

    def _set_epoch(self, where: int, statements: List[ast.stmt], value: str) -> None:
        """Sets the variables of the loop over epochs for what is done once an epoch."""
        assert self._loop.epochs is not None
        for name in sorted(names_of(self._loop.epochs)):
            if any(self._script.uses(name, one) for one in statements):
                self._edits.insert(where, f"{self._at(3)}{name} = {value}")

    def _is_reset(self, statement: ast.stmt) -> bool:
        """Whether it gives variables their first values, which do not depend on the epoch."""
        if not isinstance(statement, ast.Assign) or self._edits.is_dropped(statement):
            return False
        names = {one.id for one in ast.walk(statement.value) if isinstance(one, ast.Name)}
        epochs = self._loop.epochs
        assert epochs is not None
        return not names & names_of(epochs) and all(
            isinstance(part, ast.Name) for target in statement.targets
            for part in (target.elts if isinstance(target, ast.Tuple) else [target])) and (
                "\n" not in self._source.of(statement) and "\r" not in self._source.of(statement))

    def _check_heads(self, heads: List[ast.stmt]) -> None:
        """They must be neighbours, and set nothing."""
        assert self._loop.epochs is not None
        for one in heads:
            if not isinstance(one, ast.Expr):
                raise stop(one, "done where an epoch begins, and a job may go on in the middle of "
                           "one", "put it behind the batches of an epoch, or " + _BY_HAND)
        body = self._loop.epochs.body
        first, last = body.index(heads[0]), body.index(heads[-1])
        for one in body[first:last + 1]:
            if one not in heads and not self._edits.is_dropped(one) and not self._is_reset(one):
                raise stop(one, "stands between statements of an epoch's beginning", _BY_HAND)
        self._heads = heads

    def _last_line(self) -> int:
        outer = self._loop.outer
        return lines_of(outer.body, self._source, self._colon_line(outer))[-1][1]

    def _region(self, statement: ast.stmt, loop: Loop) -> Tuple[int, int]:
        regions = lines_of(loop.body, self._source, self._colon_line(loop))
        return regions[loop.body.index(statement)]

    def _write_passes(self) -> None:
        """step.backward in the place of loss.backward, without dividing by the accumulation."""
        accumulation = self._parts.accumulation
        divisor = "" if accumulation is None else text_of(accumulation)
        for backward in self._loop.backwards:
            call = expression(backward)
            assert call is not None
            loss = self._loss_of(call)
            if not self._edits.is_dropped(backward):
                self._edits.keep_part(call, loss, f"{self._step}.backward(", ")")
        if accumulation is not None:
            if not self._undo_division(divisor) and not self._is_divided:
                self.notes.append(Note(
                    self._loop.backwards[0].lineno, f"{self._step}.backward divides by the batches "
                    f"of a step, and no `/ {divisor}` of the loss was found: take out a division of "
                    f"another form; if there is none, multiply the loss by {divisor}", must=True))
            self._note(accumulation, "how many batches a step has is said by accumulation_steps in "
                       f"the job's file; {divisor} no longer says it")

    def _loss_of(self, call: ast.Call) -> ast.expr:
        assert isinstance(call.func, ast.Attribute)
        loss = call.func.value
        name, is_scaled = calls_method(loss, "scale")
        if not is_scaled:
            return self._whole(loss)
        if name not in self._kinds.scalers:
            raise stop(call, f"{name}.scale(…), and where {name} is made was not found",
                       "make the GradScaler in the function of the loop, and try again")
        assert isinstance(loss, ast.Call)
        return self._whole(loss.args[0])

    def _whole(self, loss: ast.expr) -> ast.expr:
        """The loss without its division by the number of batches."""
        divisor = self._parts.accumulation
        if (isinstance(loss, ast.BinOp) and isinstance(loss.op, ast.Div) and divisor is not None
                and text_of(loss.right) == text_of(divisor)):
            self._is_divided = True
            return loss.left
        return loss

    def _undo_division(self, divisor: str) -> bool:
        """A session's step.backward divides by the number of passes. Whether the script did."""
        undone: Dict[str, int] = {}  # Lines of divisions that are gone, by what they divided.
        for node in [n for one in self._parts.in_pass for n in ast.walk(one)]:
            value = getattr(node, "value", None)
            if not (isinstance(node, (ast.Assign, ast.AugAssign)) and isinstance(value, (
                    ast.BinOp, ast.Name, ast.Attribute))):
                continue
            if (isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div)
                    and text_of(value) == divisor):
                self._edits.drop(node)
                undone[text_of(node.target)] = node.lineno
            elif (isinstance(node, ast.Assign) and isinstance(value, ast.BinOp)
                  and isinstance(value.op, ast.Div) and text_of(value.right) == divisor):
                undone[text_of(node.targets[0])] = node.lineno
                if text_of(node.targets[0]) == text_of(value.left):
                    self._edits.drop(node)
                else:
                    self._edits.keep_part(value, value.left)
        restored: Set[int] = set()
        for node in ast.walk(self._loop.outer):
            if (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
                    and text_of(node.right) == divisor and undone.keys() & {
                        text_of(one) for one in ast.walk(node.left)}):
                self._edits.keep_part(node, node.left)
                restored.update(map(id, ast.walk(node)))
        for node in ast.walk(self._loop.outer):
            if (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
                    and node.lineno > undone.get(node.id, node.lineno) and id(node) not in restored
                    and self._source.statement(node) not in self._loop.backwards):
                self._note(node, f"{node.id} is no longer divided by {divisor}: divide it here")
        return bool(undone)

    def _write_update(self) -> None:
        update, parts = self._parts.update, self._parts
        clip = f"clip={parts.clip}" if parts.clip else ""
        text = f"{self._step}.update({clip})"
        if isinstance(update, ast.Expr):
            self._edits.replace_node(update, text)
            return
        kinds = self._kinds.of_block(update)
        if not isinstance(update, ast.If) or (not kinds and parts.accumulation is None):
            raise stop(update, "the optimizer's step is inside of another statement that is no "
                       "`if … % … == 0`", _BY_HAND)
        if kinds:
            self._edits.drop(update)
            if "backward" in kinds:
                call = expression(self._loop.backwards[0])
                assert call is not None
                loss = self._loss_of(call)
                self._edits.insert(update.lineno,
                                   f"{self._at(3)}{self._step}.backward({self._edits.of(loss)})")
            self._edits.insert(update.lineno, self._at(2) + text)
            return
        if update.orelse or self._loop.updates[0] not in update.body or len(
                self._loop.updates) > 1:
            raise stop(update, "the optimizer's step has two ways", _BY_HAND)
        self._edits.drop_lines(update.lineno, self._colon_line(update))
        for one in update.body:
            if one in self._loop.updates:
                self._edits.replace_node(one, text)
            elif self._kinds.of_block(one):
                self._edits.drop(one)

    def _move(self) -> None:
        """Each statement gets the indentation of its part."""
        loop, parts = self._loop, self._parts
        depths = {id(one): 2 for one in [*parts.epoch_head, *parts.before, *parts.between,
                                         parts.update, *parts.behind]}
        depths.update({id(one): 3 for one in [*parts.epoch_tail, *self._heads, *parts.in_pass]})
        if parts.update in parts.in_pass:
            depths[id(parts.update)] = 2
        for one in (loop.epochs, loop.steps, loop.micro):
            if one is not None:
                self._move_block(one, depths)

    def _move_block(self, loop: Loop, depths: Dict[int, int]) -> None:
        regions = lines_of(loop.body, self._source, self._colon_line(loop))
        for statement, (first, last) in zip(loop.body, regions):
            if statement in (self._loop.steps, self._loop.micro):
                last = self._colon_line(statement)
                depth = 2
            else:
                depth = depths.get(id(statement), 2)
            begin = self._source.indent(statement.lineno)
            if statement is self._parts.update and isinstance(statement, ast.If):
                head = self._colon_line(statement)
                self._edits.reindent(first, head, begin, self._at(2))
                first, begin = head + 1, self._source.indent(statement.body[0].lineno)
            self._edits.reindent(first, last, begin, self._at(depth))

    def _tell_exits(self) -> None:
        loop, parts = self._loop, self._parts
        for one in exits(parts.before, (ast.Break, ast.Return)):
            self._note(one, "leaves the loop before the step's update: in a job of a session that "
                       "is an error when it happens; remove it")
        blocks = [*parts.behind, *parts.epoch_tail, *parts.epoch_head]
        if isinstance(parts.update, ast.If):
            blocks += parts.update.body
        for one in exits(blocks, (ast.Break, ast.Return)):
            if not self._edits.is_dropped(one):
                self._note(one, "leaves the training before the job's last step, and the job fails "
                           "then; give the job the right number of steps instead")
        if parts.accumulation is not None and loop.micro is None and parts.behind:
            self._note(parts.behind[0], "from here on is done once a step, no longer for each "
                       "batch of it")
