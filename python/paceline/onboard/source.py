"""A script's text, and edits of it that leave alone whatever they do not touch."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from typing import Dict, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+$")
_BLOCKS = ("body", "orelse", "finalbody", "handlers")


class Unclear(Exception):
    """The line at which the analysis stops, what is there, and what a person can do."""

    def __init__(self, line: int, what: str, remedy: str) -> None:
        super().__init__(what)
        self.line, self.what, self.remedy = line, what, remedy


class _Token(NamedTuple):
    text: str
    begin: int  # Offset in the text.


class Source:
    """The text of a script, its lines, and its syntax tree. Raises SyntaxError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self.lines: List[str] = _LINE.findall(text)  # With their ends.
        ends = [line[len(line.rstrip("\r\n")):] for line in self.lines]
        self.newline = next((end for end in ends if end), "\n")
        self._begins = [0]
        for line in self.lines:
            self._begins.append(self._begins[-1] + len(line))
        self.parents: Dict[ast.AST, ast.AST] = {
            child: parent for parent in ast.walk(self.tree)
            for child in ast.iter_child_nodes(parent)}
        self.in_string: Set[int] = set()  # Lines that begin inside of a string.
        self._operators: List[_Token] = []
        self._read_tokens()

    def _read_tokens(self) -> None:
        opened: List[int] = []
        reader = io.StringIO(self.text, newline="").readline
        for token in tokenize.generate_tokens(reader):
            name = tokenize.tok_name[token.type]
            if name in ("FSTRING_START", "TSTRING_START"):
                opened.append(token.start[0])
            elif name in ("FSTRING_END", "TSTRING_END"):
                self.in_string.update(range(opened.pop() + 1, token.end[0] + 1))
            elif name == "STRING":
                self.in_string.update(range(token.start[0] + 1, token.end[0] + 1))
            elif name == "OP":
                self._operators.append(
                    _Token(token.string, self._begins[token.start[0] - 1] + token.start[1]))

    def begin_of(self, line: int) -> int:
        """Offset of a line, counted from 1; of the one behind the last, the text's length."""
        return self._begins[line - 1]

    def begin(self, node: ast.AST) -> int:
        return self._offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]

    def end(self, node: ast.AST) -> int:
        return self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]

    def _offset(self, line: int, column: int) -> int:
        """Syntax trees count a line's columns in bytes of UTF-8."""
        text = self.lines[line - 1]
        return self._begins[line - 1] + len(text.encode()[:column].decode())

    def of(self, node: ast.AST) -> str:
        """The node as it is written."""
        return self.text[self.begin(node):self.end(node)]

    def line_at(self, offset: int) -> int:
        low, high = 0, len(self.lines) - 1
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self._begins[middle] <= offset else (low, middle - 1)
        return low + 1

    def indent(self, line: int) -> str:
        text = self.lines[line - 1]
        return text[:len(text) - len(text.lstrip(" \t"))]

    def is_blank(self, line: int) -> bool:
        return not 1 <= line <= len(self.lines) or not self.lines[line - 1].strip()

    def header_end(self, loop: ast.stmt) -> int:
        """The offset of the colon behind the head of a `for`, `while`, `if` or `with`."""
        expressions = [child for child in ast.iter_child_nodes(loop)
                       if not isinstance(child, (ast.stmt, ast.excepthandler))]
        behind = max(self.end(one) for one in expressions if hasattr(one, "end_lineno"))
        depth = 0
        begin = self.begin(loop)
        for token in self._operators:
            if token.begin < begin:
                continue
            depth += (token.text in "([{") - (token.text in ")]}")
            if token.text == ":" and depth == 0 and token.begin >= behind:
                return token.begin
        raise AssertionError("a compound statement without a colon")

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        while node in self.parents:
            node = self.parents[node]
            yield node

    def statement(self, node: ast.AST) -> ast.stmt:
        """The innermost statement that the node is part of."""
        if isinstance(node, ast.stmt):
            return node
        return next(one for one in self.ancestors(node) if isinstance(one, ast.stmt))


class _Span(NamedTuple):
    begin: int
    end: int
    order: int
    text: str


class Edits:
    """Changes of a source, applied together. Inside of what is dropped, other changes have no
    effect, but lines can be inserted before it."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._spans: List[_Span] = []
        self._dropped: List[ast.stmt] = []
        self._dropped_lines: Set[int] = set()

    def replace(self, begin: int, end: int, text: str) -> None:
        self._spans.append(_Span(begin, end, len(self._spans), text))

    def replace_node(self, node: ast.AST, text: str) -> None:
        self._check(node)
        self.replace(self._source.begin(node), self._source.end(node), text)

    def keep_part(self, whole: ast.AST, part: ast.AST, before: str = "", after: str = "") -> None:
        """Puts `part` of the node in its place, between two texts."""
        source = self._source
        self._check(whole)
        self.replace(source.begin(whole), source.begin(part), before)
        self.replace(source.end(part), source.end(whole), after)

    def _check(self, node: ast.AST) -> None:
        """Before 3.12, Python does not say where in an f-string an expression is."""
        if any(isinstance(one, ast.JoinedStr) for one in self._source.ancestors(node)):
            try:
                found = ast.parse(self._source.of(node), mode="eval").body
            except (SyntaxError, IndexError, ValueError):
                found = ast.Constant(None)
            if ast.dump(found) != ast.dump(node):
                raise Unclear(self._source.statement(node).lineno, "an f-string of several lines, "
                              f"with `{ast.unparse(node)}` in it",
                              "take that out of the text, into a variable, and try again")

    def insert(self, line: int, text: str) -> None:
        """A line of its own, before this one; behind those that were inserted there before."""
        begin = self._source.begin_of(line)
        newline = self._source.newline
        if line > len(self._source.lines) and not self._source.text.endswith(("\n", "\r")):
            text = newline + text
        self.replace(begin, begin, text + newline)

    def drop(self, statement: ast.stmt) -> None:
        """Removes a statement with its lines. Raises Unclear if they hold another one."""
        source = self._source
        last = statement.end_lineno or statement.lineno
        before = source.text[source.begin_of(statement.lineno):source.begin(statement)]
        behind = source.text[source.end(statement):source.begin_of(last + 1)].strip()
        if before.strip() or (behind and not behind.startswith("#")):
            raise Unclear(statement.lineno, "the line holds several statements",
                          "write each on a line of its own, and try again")
        if statement not in self._dropped:
            self._dropped.append(statement)

    def drop_lines(self, first: int, last: int) -> None:
        self._dropped_lines.update(range(first, last + 1))

    def is_dropped(self, node: ast.AST) -> bool:
        return any(one in self._dropped for one in (node, *self._source.ancestors(node)))

    def of(self, node: ast.AST) -> str:
        """The node as it is written, with the changes inside of it so far."""
        at, end = self._source.begin(node), self._source.end(node)
        text = ""
        for span in sorted(self._spans, key=self._order):
            if at <= span.begin and span.end <= end and not self._is_line(span):
                text += self._source.text[at:span.begin] + span.text
                at = span.end
        return text + self._source.text[at:end]

    def has_dropped(self, line: int) -> bool:
        return line in self._dropped_lines or any(
            one.lineno <= line <= (one.end_lineno or one.lineno) for one in self._dropped)

    def reindent(self, first: int, last: int, indent: str, wanted: str) -> None:
        """Lines that begin with `indent` begin with `wanted` instead. Strings stay as they are."""
        if indent == wanted:
            return
        for line in range(first, last + 1):
            text = self._source.lines[line - 1]
            if line in self._source.in_string or not text.strip() or not text.startswith(indent):
                continue
            begin = self._source.begin_of(line)
            self.replace(begin, begin + len(indent), wanted)

    def apply(self) -> str:
        """The text with all changes."""
        self._fill_blocks()
        lines = set(self._dropped_lines)
        for statement in self._dropped:
            lines.update(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
        lines |= self._doubled_blanks(lines)
        text: List[str] = []
        at = 0
        source = self._source
        for span in sorted(self._spans, key=self._order):
            if not self._is_line(span) and source.line_at(span.begin) in lines:
                continue
            if span.begin < at:
                continue  # Inside of what was replaced.
            text.append(self._kept(at, span.begin, lines))
            text.append(span.text)
            at = span.end
        text.append(self._kept(at, len(source.text), lines))
        return "".join(text)

    def _is_line(self, span: _Span) -> bool:
        return span.begin == span.end and span.text.endswith(self._source.newline)

    def _order(self, span: _Span) -> Tuple[int, bool, bool, int]:
        return span.begin, not self._is_line(span), span.begin != span.end, span.order

    def _kept(self, begin: int, end: int, dropped: Set[int]) -> str:
        """What is left of a part of the text."""
        source = self._source
        kept: List[str] = []
        while begin < end:
            line = source.line_at(begin)
            until = min(end, source.begin_of(line + 1))
            if line not in dropped:
                kept.append(source.text[begin:until])
            begin = until
        return "".join(kept)

    def _fill_blocks(self) -> None:
        """A block that has lost all its statements gets a `pass`, or goes with its `if`."""
        emptied = [block for block in _blocks(self._source.tree)
                   if block and all(one in self._dropped for one in block)
                   and not self.is_dropped(self._source.parents[block[0]])]
        for block in emptied:
            first = block[0]
            owner = self._source.parents[first]
            if first.lineno in self._dropped_lines:
                continue
            if isinstance(owner, ast.If) and not owner.orelse and not isinstance(
                    self._source.parents[owner], ast.If):
                siblings = next(one for one in _blocks(self._source.tree) if owner in one)
                if any(one not in self._dropped and one is not owner for one in siblings):
                    self._dropped.append(owner)
                    continue
            self._dropped.remove(first)
            self.replace_node(first, "pass")

    def _doubled_blanks(self, dropped: Set[int]) -> Set[int]:
        """Blank lines behind what is dropped, where others are before it."""
        doubled: Set[int] = set()
        for line in sorted(dropped):
            if line - 1 in dropped:
                continue
            last = line
            while last + 1 in dropped:
                last += 1
            while line > 1 and self._source.is_blank(line - 1) and (
                    last < len(self._source.lines) and self._source.is_blank(last + 1)):
                line, last = line - 1, last + 1
                doubled.add(last)
        return doubled


def _blocks(tree: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    for node in ast.walk(tree):
        for name in _BLOCKS:
            block: Optional[List[ast.stmt]] = getattr(node, name, None)
            if isinstance(block, list) and name != "handlers":
                yield block


def lines_of(block: Sequence[ast.stmt], source: Source, head: int) -> List[Tuple[int, int]]:
    """First and last line of each statement, with the comments before it, and of the last one with
    those behind it. head: the last line before the block."""
    regions: List[Tuple[int, int]] = []
    for statement in block:
        last = statement.end_lineno or statement.lineno
        regions.append((head + 1, last))
        head = last
    indent = source.indent(block[0].lineno)
    line = head + 1
    while line <= len(source.lines) and (source.is_blank(line) or (
            source.lines[line - 1].lstrip().startswith("#")
            and source.indent(line).startswith(indent))):
        if not source.is_blank(line):
            regions[-1] = (regions[-1][0], line)
        line += 1
    return regions
