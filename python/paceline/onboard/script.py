"""What the names of a script mean, as far as its text says it."""

from __future__ import annotations

import ast
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, Union

from paceline.onboard.source import Source, Unclear

Scope = Union[ast.Module, ast.FunctionDef, ast.AsyncFunctionDef]
Loop = Union[ast.For, ast.While]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class Value(NamedTuple):
    """A number that the script says, and where."""

    number: Union[int, float]
    line: int
    name: str


class Assignment(NamedTuple):
    target: str  # As it is written: `x`, `self.x`, `x, y`.
    value: ast.expr
    statement: ast.stmt


class Script:
    """A source, and lookups in it."""

    def __init__(self, text: str) -> None:
        self.source = Source(text)
        self.tree = self.source.tree
        self._imported: Dict[str, str] = {}  # The full name behind each name of an import.
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for name in node.names:
                    first = name.name.split(".")[0]
                    self._imported[name.asname or first] = name.name if name.asname else first
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for name in node.names:
                    self._imported[name.asname or name.name] = f"{node.module}.{name.name}"
        self.assignments = sorted(self._find_assignments(),
                                  key=lambda one: one.statement.lineno)
        self.functions = {node.name: node for node in ast.walk(self.tree)
                          if isinstance(node, ast.FunctionDef)}
        self.names = {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}
        self.names |= self.bound()
        self.flags = self._read_flags()

    def bound(self) -> Set[str]:
        """Names that are given a value anywhere."""
        names = set(self._imported)
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                names.add(node.id)
            elif isinstance(node, ast.arg):
                names.add(node.arg)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                names.add(node.name)
            elif isinstance(node, ast.ExceptHandler) and node.name:
                names.add(node.name)
        return names

    def full_name(self, node: ast.AST) -> str:
        """`dist.barrier` as torch.distributed.barrier; empty for what is no name."""
        parts: List[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name):
            return ""
        parts.append(self._imported.get(node.id, node.id))
        return ".".join(reversed(parts))

    def called(self, node: Optional[ast.AST]) -> str:
        """The full name of what a call calls."""
        return self.full_name(node.func) if isinstance(node, ast.Call) else ""

    def calls(self, *names: str, of: Optional[ast.AST] = None) -> List[ast.Call]:
        """The calls whose full name ends with one of these, in the order of the text."""
        found = [node for node in ast.walk(of or self.tree) if isinstance(node, ast.Call)
                 and ends_with(self.called(node), *names)]
        return sorted(found, key=self.source.begin)

    def scope(self, node: ast.AST) -> Scope:
        """The innermost function, or the module, that the node is in."""
        for one in self.source.ancestors(node):
            if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Module)):
                return one
        raise AssertionError("a node outside of the module")

    def loops_around(self, node: ast.AST) -> List[Loop]:
        """The loops of its scope that the node is in, the innermost first."""
        loops: List[Loop] = []
        for one in self.source.ancestors(node):
            if isinstance(one, _FUNCTIONS):
                break
            if isinstance(one, (ast.For, ast.While)):
                loops.append(one)
        return loops

    def is_visible(self, scope: Scope, node: ast.AST) -> bool:
        """Whether a name of the scope can be read where the node is."""
        return scope is node or scope in self.source.ancestors(node)

    def assigned(self, target: str, scope: Optional[Scope] = None) -> List[Assignment]:
        """The assignments to a target, in this scope alone if one is given."""
        return [one for one in self.assignments if one.target == target and (
            scope is None or self.scope(one.statement) is scope)]

    def uses(self, name: str, inside: Optional[ast.AST] = None) -> List[ast.Name]:
        """Where a name is read."""
        return [node for node in ast.walk(inside or self.tree) if isinstance(node, ast.Name)
                and node.id == name and isinstance(node.ctx, ast.Load)]

    def value(self, node: Optional[ast.AST]) -> Optional[Value]:
        """The number that an expression is: a literal, a name with one literal value, or the
        default of an argument of the command line."""
        if node is None:
            return None
        if isinstance(node, ast.Constant):
            number = node.value
            return (Value(number, node.lineno, "")
                    if isinstance(number, (int, float)) and not isinstance(number, bool) else None)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            left, right = self.value(node.left), self.value(node.right)
            return left and right and Value(left.number * right.number, node.lineno, "")
        if isinstance(node, ast.Name):
            values = [one for one in map(lambda one: self.value(one.value), self.assigned(node.id))]
            if values and values[0] is not None and len({v and v.number for v in values}) == 1:
                return Value(values[0].number, self.assigned(node.id)[0].statement.lineno, node.id)
        if isinstance(node, ast.Attribute) and node.attr in self.flags:
            call = self.flags[node.attr]
            default = self.value(keyword(call, "default"))
            return default and Value(default.number, call.lineno, self.source.of(node))
        return None

    def required_flags(self) -> List[str]:
        """Arguments without which the script does not start."""
        required: List[str] = []
        for call in self.flags.values():
            names = [one.value for one in call.args if isinstance(one, ast.Constant)]
            is_required = keyword(call, "required")
            nargs = keyword(call, "nargs")
            optional = isinstance(nargs, ast.Constant) and nargs.value in ("?", "*")
            if (isinstance(is_required, ast.Constant) and is_required.value is True) or (
                    names and not str(names[0]).startswith("-") and not optional):
                required.append(str(names[-1]))
        return required

    def _read_flags(self) -> Dict[str, ast.Call]:
        """The calls of argparse's add_argument, by the attribute that the value gets."""
        flags: Dict[str, ast.Call] = {}
        for node in ast.walk(self.tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
                    and node.func.attr == "add_argument"):
                continue
            names = [str(one.value) for one in node.args if isinstance(one, ast.Constant)]
            dest = keyword(node, "dest")
            if isinstance(dest, ast.Constant):
                names = [str(dest.value)]
            if names:
                long = next((one for one in names if one.startswith("--")), names[0])
                flags[long.lstrip("-").replace("-", "_")] = node
        return flags

    def _find_assignments(self) -> Iterator[Assignment]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    yield Assignment(text_of(target), node.value, node)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                yield Assignment(text_of(node.target), node.value, node)


def text_of(node: ast.AST) -> str:
    """The node in one form, however it is written."""
    text = ast.unparse(node)
    return text[1:-1] if isinstance(node, ast.Tuple) and text.startswith("(") else text


def ends_with(name: str, *ends: str) -> bool:
    return any(f".{name}".endswith(f".{end}") for end in ends)


def keyword(call: ast.Call, name: str) -> Optional[ast.expr]:
    return next((one.value for one in call.keywords if one.arg == name), None)


def expression(statement: ast.AST) -> Optional[ast.Call]:
    """The call that is all of a statement."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return statement.value
    return None


def leaves(block: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block and of the `if`s in it, without these themselves."""
    for statement in block:
        if isinstance(statement, ast.If):
            yield from leaves(statement.body)
            yield from leaves(statement.orelse)
        else:
            yield statement


def target_names(node: ast.AST) -> List[str]:
    return [one.id for one in ast.walk(node) if isinstance(one, ast.Name)]


def stop(node: ast.AST, what: str, remedy: str) -> Unclear:
    return Unclear(getattr(node, "lineno", 1), what, remedy)


def calls_method(call: Optional[ast.AST], *methods: str) -> Tuple[str, str]:
    """The object, as text, and the method, if it is a call of one of these; else empty texts."""
    if (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
            and call.func.attr in methods):
        return text_of(call.func.value), call.func.attr
    return "", ""
