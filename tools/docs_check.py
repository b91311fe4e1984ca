"""Checks what the documents refer to. Prints each fault as FILE:LINE: WHAT; ends with 1 if any.

    git ls-files -co --exclude-standard | python tools/docs_check.py

The paths of all files of the repository come in on the standard input. Checked are:

- links: the file is there, and the heading, named as GitHub names anchors;
- pages of docs/, wherever they are mentioned, in sources too;
- paths in code marks that begin with a folder of ours, and targets of make;
- tables: each row has as many cells as its head;
- every page of docs/ can be reached from README.md by links or mentions.
"""

import os
import posixpath
import re
import sys

FOLDERS = "bazel|bench|cli|common|controller|deploy|docs|proto|python|tests|third_party|tools|worker"

FENCE = re.compile(r"^\s*(```+|~~~+)")
CODE = re.compile(r"(`+)(.+?)\1")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$")
PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md\b")
DECISION = re.compile(r"(?<![\w/.-])docs/decisions/(\d{4})(?![\w-])")
PATH = re.compile(rf"(?:{FOLDERS})/[\w./-]*[\w/]")
MAKE = re.compile(r"make ([a-z][a-z-]*)(?: NAME=(\w+))?")


def without_code(line):
    return CODE.sub(lambda match: " " * len(match.group()), line)


def anchor(heading):
    text = LINK.sub(lambda match: match.group().split("]")[0][1:], heading)
    text = re.sub(r"[^\w\- ]", "", text.replace("`", "").lower())
    return text.replace(" ", "-")


class Page:
    """One Markdown file: its lines, told apart as text and fenced code, and its anchors."""

    def __init__(self, path, text):
        self.path = path
        self.text = []  # (line number, line), without fenced code.
        self.fenced = []
        self.anchors = set()
        fence = None
        for number, line in enumerate(text.split("\n"), start=1):
            mark = FENCE.match(line)
            if mark and (fence is None or mark.group(1).startswith(fence)):
                fence = mark.group(1) if fence is None else None
            else:
                (self.text if fence is None else self.fenced).append((number, line))
        counts = {}
        for _, line in self.text:
            heading = HEADING.match(line)
            if heading:
                name = anchor(heading.group(1))
                counts[name] = counts.get(name, -1) + 1
                self.anchors.add(f"{name}-{counts[name]}" if counts[name] else name)


class Check:
    def __init__(self, root, paths):
        self.root = root
        self.paths = set(paths)
        self.folders = {""}
        for path in paths:
            while path:
                path = posixpath.dirname(path)
                self.folders.add(path)
        self.faults = []
        self.pages = {path: Page(path, self._read(path))
                      for path in paths if path.endswith(".md")}
        self.edges = {path: set() for path in self.pages}
        self.targets = set(re.findall(r"^([a-z][a-z-]*):", self._read("Makefile"), re.MULTILINE))

    def _read(self, path):
        try:
            with open(os.path.join(self.root, path), encoding="utf-8") as file:
                return file.read()
        except (OSError, UnicodeDecodeError):
            return ""

    def _fault(self, path, number, what):
        self.faults.append(f"{path}:{number}: {what}")

    def _exists(self, path):
        path = path.rstrip("/")
        if path in self.paths or path in self.folders:
            return True
        # A class or test is named without its file extension.
        return any(path + end in self.paths for end in (".cc", ".h", ".py", ".proto", ".sh"))

    def _known(self, path):
        # Words in capitals are placeholders; decisions are checked separately.
        return self._exists(path) or re.search(r"[A-Z]{3}", path) or DECISION.fullmatch(path)

    def _link(self, page, number, target):
        if re.match(r"[a-z]+:", target):
            return
        file, _, heading = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page.path), file))
        if not file:
            path = page.path
        elif not self._exists(path):
            self._fault(page.path, number, f"no file {path}")
            return
        if path in self.folders:
            # A link to a folder reaches its files.
            self.edges[page.path].update(name for name in self.pages
                                         if posixpath.dirname(name) == path)
        else:
            self.edges[page.path].add(path)
        if heading and heading not in getattr(self.pages.get(path), "anchors", ()):
            self._fault(page.path, number, f"{path} has no heading #{heading}")

    def _mentions(self, path, number, line):
        for name in PAGE.findall(line):
            if name not in self.paths:
                self._fault(path, number, f"no page {name}")
            elif path in self.edges:
                self.edges[path].add(name)
        for name in DECISION.findall(line):
            found = [page for page in self.pages if page.startswith(f"docs/decisions/{name}-")]
            if not found:
                self._fault(path, number, f"no decision {name}")
            elif path in self.edges:
                self.edges[path].update(found)

    def _make(self, page, number, command):
        match = MAKE.match(command)
        if not match:
            return
        target, name = match.groups()
        if target not in self.targets:
            self._fault(page.path, number, f"make has no target {target}")
        elif name and f"bench/{name}.py" not in self.paths:
            self._fault(page.path, number, f"no benchmark {name}")

    def _table(self, page):
        columns, before = 0, 0
        for number, line in page.text:
            if not line.startswith("|"):
                columns = 0
                continue
            cells = len(re.findall(r"(?<!\\)\|", line)) - 1
            if number != before + 1 or not columns:
                columns = cells
            elif cells != columns:
                self._fault(page.path, number, f"{cells} cells in a table of {columns} columns")
            before = number

    def _page(self, page):
        for number, line in page.text:
            for target in LINK.findall(without_code(line)):
                self._link(page, number, target)
            for _, code in CODE.findall(line):
                if PATH.fullmatch(code) and not self._known(code):
                    self._fault(page.path, number, f"no file {code}")
                self._make(page, number, code)
        for number, line in page.fenced:
            self._make(page, number, line.removeprefix("$ "))
        self._table(page)

    def _reached(self):
        reached, left = set(), ["README.md"]
        while left:
            path = left.pop()
            if path not in reached:
                reached.add(path)
                left.extend(self.edges.get(path, ()))
        for path in sorted(self.pages):
            if path.startswith("docs/") and path not in reached:
                self._fault(path, 1, "cannot be reached from README.md")

    def run(self):
        for path in sorted(self.paths):
            if path.startswith(("third_party/", "tests/docs/")):  # Not ours; pages made up for tests.
                continue
            if path.endswith((".md", ".h", ".cc", ".cu", ".py", ".sh", ".proto", ".yaml", ".bzl")):
                for number, line in enumerate(self._read(path).split("\n"), start=1):
                    self._mentions(path, number, line)
        for page in self.pages.values():
            self._page(page)
        self._reached()
        return self.faults


if __name__ == "__main__":
    faults = Check(".", sys.stdin.read().split("\n")[:-1]).run()
    print(*faults, sep="\n", end="\n" if faults else "")
    sys.exit(1 if faults else 0)
