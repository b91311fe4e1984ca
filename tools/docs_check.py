"""Checks what the documents refer to. Prints each fault as FILE:LINE: WHAT; ends with 1 if any.

    git ls-files -co --exclude-standard | python tools/docs_check.py

The paths of all files of the repository come in on the standard input. Checked are:

- links: the file is there, and the heading, named as GitHub names anchors;
- pages of docs/ and their headings, wherever they are mentioned, in sources too;
- commands of `paceline`, wherever they are mentioned, in messages and comments too;
- paths in code marks that begin with a folder of ours, and targets of make;
- tables: each row has as many cells as its head;
- every page of docs/ can be reached from README.md by links or mentions.
"""

import os
import posixpath
import re
import sys

FOLDERS = "bazel|bench|cli|common|controller|deploy|docs|proto|python|tests|third_party|tools|worker"

# The help's examples. A test of the CLI makes sure that all commands have one, and no others.
EXAMPLES = "cli/verbs/program/examples.cc"
TEXTS = (".md", ".h", ".cc", ".cu", ".py", ".sh", ".proto", ".yaml", ".bzl", ".conf", ".html",
         ".js", ".json", ".sbatch", ".toml")

FENCE = re.compile(r"^\s*(```+|~~~+)")
CODE = re.compile(r"(`+)(.+?)\1")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$")
PAGE = re.compile(r"(?<![\w/.-])(docs/[\w/-]+\.md)\b(?:#([\w-]*\w))?")
DECISION = re.compile(r"(?<![\w/.-])docs/decisions/(\d{4})(?![\w-])")
PATH = re.compile(rf"(?:{FOLDERS})/[\w./-]*[\w/]")
MAKE = re.compile(r"make ([a-z][a-z-]*)(?: NAME=(\w+))?")
EXAMPLE = re.compile(r'\{"paceline ([a-z-]+)(?: ([a-z-]+))?",')
# Between two words of a text: a space, or the end of a line, of a literal or of a comment's line.
GAP = r'(?: ?"\s*\n\s*f?" ?|(?: |\\n|\n) *(?:(?://|#) +)?)'
COMMAND = re.compile(rf"(?P<mark>`|<code>)?(?<![\w/.@:-])paceline{GAP}(?P<first>[a-z][a-z-]*)"
                     rf"(?:{GAP}(?P<second>[a-z][a-z-]*))?")


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
        self.commands = {"man": set()}  # By first word, the second ones. `man` is hidden.
        for first, second in EXAMPLE.findall(self._read(EXAMPLES)):
            self.commands.setdefault(first, set()).update({second} - {""})

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
        for name, heading in PAGE.findall(line):
            if name not in self.paths:
                self._fault(path, number, f"no page {name}")
                continue
            if path in self.edges:
                self.edges[path].add(name)
            if heading and heading not in self.pages[name].anchors:
                self._fault(path, number, f"{name} has no heading #{heading}")
        for name in DECISION.findall(line):
            found = [page for page in self.pages if page.startswith(f"docs/decisions/{name}-")]
            if not found:
                self._fault(path, number, f"no decision {name}")
            elif path in self.edges:
                self.edges[path].update(found)

    def _commands(self, path, text):
        for match in COMMAND.finditer(text):
            first, second = match["first"], match["second"]
            number = text.count("\n", 0, match.start()) + 1
            if first not in self.commands:
                # Without a mark, "paceline" may be a package, a user or a namespace.
                if match["mark"]:
                    self._fault(path, number, f"no command paceline {first}")
            elif second and self.commands[first] and second not in self.commands[first]:
                self._fault(path, number, f"no command paceline {first} {second}")

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
            if not path.endswith(TEXTS):
                continue
            text = self._read(path)
            for number, line in enumerate(text.split("\n"), start=1):
                self._mentions(path, number, line)
            if not path.endswith(("_test.cc", "_test.py")):  # They make some up.
                self._commands(path, text)
        for page in self.pages.values():
            self._page(page)
        self._reached()
        return self.faults


if __name__ == "__main__":
    faults = Check(".", sys.stdin.read().split("\n")[:-1]).run()
    print(*faults, sep="\n", end="\n" if faults else "")
    sys.exit(1 if faults else 0)
