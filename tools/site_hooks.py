"""Adds to docs/ what a site needs besides (mkdocs.yml): pages from elsewhere, a list of decisions, and
the script by which search works from file:// (iframe-worker, installed by tools/setup.sh).

Links are those of the repository. One that leaves the site, to a source file, becomes its text.
"""

import pathlib
import posixpath
import re

from mkdocs.structure.files import File

FROM_ROOT = ("CHANGELOG.md", "SECURITY.md")
DECISIONS = "decisions/index.md"
# Named in mkdocs.yml, too.
SCRIPT = "assets/javascripts/iframe-worker.js"
SCRIPT_SOURCE = "build/npm/node_modules/iframe-worker/shim/index.js"

FENCE = re.compile(r"^\s*(?:```|~~~)")
# Code in backquotes, or a link that is no picture: its text and target.
LINK = re.compile(r"(`+).+?\1|(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")


def decisions(folder):
    """A page with the titles of all decisions."""
    lines = ["# Decisions", "", "What was chosen, and what was rejected.", ""]
    for path in sorted(folder.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")
        lines.append(f"- [{title}]({path.name})")
    return "\n".join(lines) + "\n"


def on_files(files, config):
    docs = pathlib.Path(config.docs_dir)
    for name in FROM_ROOT:
        text = (docs.parent / name).read_text(encoding="utf-8")
        files.append(File.generated(config, name, content=text))
    script = (docs.parent / SCRIPT_SOURCE).read_text(encoding="utf-8")
    files.append(File.generated(config, SCRIPT, content=script))
    files.append(File.generated(config, DECISIONS, content=decisions(docs / "decisions")))
    return files


def on_page_markdown(markdown, page, config, files):
    del config
    here = page.file.src_uri
    folder = "" if here in FROM_ROOT else posixpath.join("docs", posixpath.dirname(here))

    def relinked(match):
        _, text, target = match.groups()
        path, mark, heading = (target or "").partition("#")
        if not path or re.match(r"[a-z]+:", path):
            return match.group()
        path = posixpath.normpath(posixpath.join(folder, path))
        if path not in FROM_ROOT:
            if not path.startswith("docs/"):
                return text
            path = path.removeprefix("docs/")
            if path == posixpath.dirname(DECISIONS):
                path = DECISIONS
        return f"[{text}]({posixpath.relpath(path, posixpath.dirname(here) or '.')}{mark}{heading})"

    lines, fenced = [], False
    for line in markdown.split("\n"):
        fenced ^= bool(FENCE.match(line))
        lines.append(line if fenced else LINK.sub(relinked, line))
    return "\n".join(lines)
