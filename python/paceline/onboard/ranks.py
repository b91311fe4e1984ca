"""What a script knows of its rank, and what a session makes of it."""

from __future__ import annotations

import ast
from typing import Dict, List, Optional, Set

from paceline.onboard.loop_edits import Names, Note
from paceline.onboard.script import (Scope, Script, calls_method, ends_with, expression, stop,
                                     text_of)
from paceline.onboard.source import Edits

_VARIABLES = {"RANK": "rank", "WORLD_SIZE": "world", "LOCAL_RANK": "local"}
_SINGLES = ("torch.distributed.barrier", "torch.cuda.set_device",
            "torch.distributed.init_process_group", "torch.distributed.destroy_process_group")
# How the names of what needs a process group begin.
_COLLECTIVES = ("all_", "barrier", "monitored_barrier", "broadcast", "gather", "reduce", "scatter",
                "send", "recv", "isend", "irecv", "new_group", "is_initialized")
_IS_FIRST = ("== 0", "<= 0", "in (0, -1)", "in (-1, 0)", "in [0, -1]", "in [-1, 0]")
# Around which a comparison needs no parentheses.
_LOOSE = {ast.BoolOp, ast.If, ast.While, ast.Call, ast.keyword, ast.Assign, ast.Return,
              ast.FormattedValue}


class Ranks:
    """Edits of the process group, ranks and devices. Raises Unclear where ranks are started or
    found in another way."""

    def __init__(self, script: Script, scope: Scope, names: Names, edits: Edits) -> None:
        self._script, self._scope, self._run, self._edits = script, scope, names.run, edits
        self._source = script.source
        self.notes: List[Note] = []
        self.needs_run: List[ast.AST] = []  # Where `run` is read from now on.
        self.group: Optional[ast.stmt] = None  # Which made the process group.
        self.fixed_device = ""  # Variable with the name of a device, which is set too early.
        self.fixed_device_line = 0
        self._dead: Set[int] = set()
        self._roles: Dict[str, str] = {}  # Of names: rank, local, world, main.

    def is_live(self, node: ast.AST) -> bool:
        """Whether a session may come there."""
        return not any(id(one) in self._dead
                       for one in (node, *self._source.ancestors(node)))

    def make(self) -> None:
        for call in self._script.calls("multiprocessing.spawn", "mp.spawn"):
            raise stop(call, "the script starts its ranks by itself",
                       "a job's file says how many ranks there are, and Paceline starts them: call "
                       "the function itself, without spawn, and try again")
        self._find_flags()
        self._drop_group()
        self._find_roles()
        self._write_devices()
        self._write_roles()
        self._tell_rest()

    def _find_flags(self) -> None:
        """Variables that say whether torchrun has started the script: it has not."""
        flags: Set[str] = set()
        for one in self._script.assignments:
            if isinstance(one.value, ast.Compare) and isinstance(one.statement, ast.Assign):
                if self._is_flag(one.value) and isinstance(one.statement.targets[0], ast.Name):
                    flags.add(one.target)
                    self._edits.replace_node(one.value, "False")
                    self._dead.update(map(id, ast.walk(one.value)))
                    self.notes.append(Note(one.statement.lineno, f"{one.target} is False in a "
                                           "session: what depends on it is not done, and may be "
                                           "removed"))
        for node in ast.walk(self._script.tree):
            test = getattr(node, "test", None)
            if isinstance(node, (ast.If, ast.IfExp)) and isinstance(test, ast.expr):
                if isinstance(test, ast.Name) and test.id in flags:
                    body = node.body if isinstance(node.body, list) else [node.body]
                    self._dead.update(map(id, body))

    def _is_flag(self, test: ast.Compare) -> bool:
        if isinstance(test.ops[0], ast.In) and isinstance(test.left, ast.Constant):
            return (test.left.value in _VARIABLES
                    and text_of(test.comparators[0]).endswith("environ"))
        return bool(self._role(test.left)) and self._role(test) != "main" and not isinstance(
            test.left, ast.Name)

    def _drop_group(self) -> None:
        makers = self._functions_that("torch.distributed.init_process_group")
        enders = self._functions_that("torch.distributed.destroy_process_group")
        for node in ast.walk(self._script.tree):
            called = self._script.called(node)
            if called in makers | enders and isinstance(node, ast.Call) and self.is_live(node):
                statement = self._source.statement(node)
                if expression(statement) is not node:
                    raise stop(node, f"{called}() makes the process group, and returns something",
                               "take paceline.init() in its place by hand, with run.rank, "
                               "run.world_size and run.device")
                self._edits.drop(statement)
                self.group = self.group or statement
            if not isinstance(node, ast.Expr) or not self.is_live(node):
                continue
            if self._script.called(node.value) in _SINGLES and self._is_ours(node):
                self._edits.drop(node)
                if "init_process_group" in self._script.called(node.value):
                    self.group = self.group or node

    def _functions_that(self, call: str) -> Set[str]:
        """Helpers of the script, of a few lines, that make this call."""
        return {name for name, function in self._script.functions.items()
                if function is not self._scope and self._script.calls(call, of=function)
                and not any(isinstance(node, (ast.For, ast.While)) for node in ast.walk(function))
                and name != "main"}

    def _is_ours(self, node: ast.AST) -> bool:
        """Whether it is in the scope of the loop, or in the module outside of functions."""
        scope = self._script.scope(node)
        return scope is self._scope or isinstance(scope, ast.Module)

    def _role(self, node: ast.expr) -> str:
        """What of a rank an expression is; empty: nothing."""
        if isinstance(node, ast.Name):
            return self._roles.get(node.id, "")
        if isinstance(node, ast.Subscript):
            key = node.slice
            if isinstance(key, ast.Constant) and text_of(node.value).endswith("environ"):
                return _VARIABLES.get(str(key.value), "")
        if isinstance(node, ast.IfExp):
            return self._role(node.body) or self._role(node.orelse)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and self._role(node.left):
            return "local" if "device_count" in text_of(node.right) else ""
        if isinstance(node, ast.Compare) and self._role(node.left) in ("rank", "local"):
            compared = text_of(node)[len(text_of(node.left)):].strip()
            return "main" if compared in _IS_FIRST else ""
        if isinstance(node, ast.Call):
            name = self._script.called(node)
            if name == "int" and node.args:
                return self._role(node.args[0])
            if ends_with(name, "environ.get", "os.getenv") and isinstance(
                    node.args[0], ast.Constant):
                return _VARIABLES.get(str(node.args[0].value), "")
            return {"torch.distributed.get_rank": "rank", "torch.distributed.get_world_size":
                    "world", "torch.distributed.get_node_local_rank": "local"}.get(name, "")
        return ""

    def _find_roles(self) -> None:
        parameters = {node.arg for node in ast.walk(self._script.tree) if isinstance(node, ast.arg)}
        for _ in range(2):  # `main = rank == 0` may be before or behind, in other branches.
            for one in self._script.assignments:
                if not (isinstance(one.statement, ast.Assign) and self._is_ours(one.statement)
                        and isinstance(one.statement.targets[0], ast.Name)):
                    continue
                role = self._role(one.value)
                if role and one.target not in parameters:
                    others = [two for two in self._script.assigned(one.target)
                              if not self._is_ours(two.statement) or not self._role(two.value)
                              and not isinstance(two.value, ast.Constant)]
                    if not others:
                        self._roles.setdefault(one.target, role)

    def is_main(self, test: ast.expr) -> bool:
        """Whether what depends on the test is done by one rank alone."""
        return any(isinstance(node, ast.expr) and self._role(node) == "main"
                   for node in ast.walk(test))

    def is_alone(self, node: ast.AST) -> bool:
        """Whether one rank alone comes there, as far as this function says."""
        for one in self._source.ancestors(node):
            if isinstance(one, ast.If) and self.is_main(one.test):
                return True
        return False

    def _text(self, role: str) -> str:
        run = self._run
        return {"rank": f"{run}.rank", "world": f"{run}.world_size",
                "local": f"({run}.device.index or 0)", "main": f"{run}.rank == 0"}[role]

    def _write_roles(self) -> None:
        for name, role in self._roles.items():
            for one in self._script.assigned(name):
                if not self.is_live(one.statement) or not self._is_ours(one.statement):
                    continue
                if role == "world":
                    self._replace(one.value, self._text(role))
                    self._note(one.statement, f"{name} is read once, and the number of ranks may "
                               f"change: read {self._run}.world_size where that matters")
                else:
                    self._edits.drop(one.statement)
        done = {id(node) for name in self._roles for one in self._script.assigned(name)
                for node in ast.walk(one.statement)}
        self._walk(self._script.tree, done)

    def _walk(self, node: ast.AST, done: Set[int]) -> None:
        """Replaces each whole expression that has a role."""
        for child in ast.iter_child_nodes(node):
            if id(child) in done or id(child) in self._dead:
                continue
            role = self._role(child) if isinstance(child, ast.expr) and isinstance(
                getattr(child, "ctx", ast.Load()), ast.Load) else ""
            is_name = isinstance(child, ast.Name)
            if not role or (is_name and role == "world"):
                self._walk(child, done)
                continue
            if self._edits.is_dropped(child):
                continue
            if not self._script.is_visible(self._scope, child):
                self._must(child, f"`{self._source.of(child)}`: {self._run} is not known in this "
                           f"function; hand it {self._text(role)}")
                continue
            text = self._text(role)
            if role == "main" and type(node) not in _LOOSE and not (
                    isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
                text = f"({text})"
            assert isinstance(child, ast.expr)
            if role in ("rank", "local") and self._is_device(node, child):
                text = f"{self._run}.device"
            self._replace(child, text)
            self._tell_keeping(node, child, role)

    def _tell_keeping(self, parent: ast.AST, node: ast.AST, role: str) -> None:
        """What is made with a rank's number, before the loop, keeps it."""
        call = self._source.parents[parent] if isinstance(parent, ast.keyword) else parent
        if role == "local" or self._script.loops_around(node):
            return
        if isinstance(call, ast.Call):
            called = self._script.called(call)
            if role == "rank" and called and not self._edits.is_dropped(call) and not ends_with(
                    called, "print", "manual_seed", "seed"):
                self._note(node, f"{self._text(role)} is -1 in a spare, and may change: what is "
                           "made with it here keeps the first one")
        elif isinstance(parent, (ast.Assign, ast.Tuple)):
            self._note(node, f"{self._source.of(node)} is read once, and may change: read "
                       f"{self._text(role)} where that matters")

    def _is_device(self, parent: ast.AST, node: ast.expr) -> bool:
        """Whether it stands where a device is expected: x.to(rank), x.cuda(rank)."""
        return isinstance(parent, ast.Call) and bool(calls_method(parent, "to", "cuda")[1]) and (
            node in parent.args)

    def _replace(self, node: ast.AST, text: str) -> None:
        self._edits.replace_node(node, text)
        self.needs_run.append(node)

    def _write_devices(self) -> None:
        for one in self._script.assignments:
            if (not isinstance(one.statement, ast.Assign) or "device" not in one.target.lower()
                    or not isinstance(one.statement.targets[0], ast.Name)
                    or not self.is_live(one.statement)
                    or self._script.scope(one.statement) is not self._scope):
                continue
            has_object = bool(self._script.calls(
                "torch.device", "accelerator.current_accelerator", of=one.value))
            texts = [node.value for node in ast.walk(one.value) if isinstance(node, ast.Constant)
                     and isinstance(node.value, str)]
            names_one = any(text.split(":")[0] in ("cuda", "cpu", "mps") for text in texts)
            if not (names_one or has_object) or "type" in one.target or not (
                    has_object or isinstance(one.value, (ast.Constant, ast.JoinedStr))
                    or "is_available" in text_of(one.value)):
                continue
            if isinstance(one.value, ast.Constant):
                self.fixed_device, self.fixed_device_line = one.target, one.statement.lineno
                continue
            run = self._run
            self._replace(one.value, f"{run}.device" if has_object else f"str({run}.device)")

    def _tell_rest(self) -> None:
        """What of torch.distributed is left for a person."""
        for node in ast.walk(self._script.tree):
            name = self._script.called(node)
            last = name.rsplit(".", 1)[-1]
            if (not name.startswith("torch.distributed.") or not last.startswith(_COLLECTIVES)
                    or self._edits.is_dropped(node) or not self.is_live(node)):
                continue
            scope = self._script.scope(node)
            if getattr(scope, "name", "") in (
                    self._functions_that("torch.distributed.init_process_group")
                    | self._functions_that("torch.distributed.destroy_process_group")):
                continue
            if last == "is_initialized":
                if self._script.is_visible(self._scope, node):
                    self._edits.replace_node(node, "True")
                continue
            remedy = ("leave it out" if last == "barrier"
                      else f"give it group={self._run}.process_group, inside of the step's block")
            self._must(node, f"{last} of torch.distributed: a session has no default process "
                       f"group; {remedy}")

    def _note(self, node: ast.AST, text: str) -> None:
        self.notes.append(Note(getattr(node, "lineno", 1), text))

    def _must(self, node: ast.AST, text: str) -> None:
        self.notes.append(Note(getattr(node, "lineno", 1), text, must=True))
