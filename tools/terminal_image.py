"""Runs a program on a terminal and saves what it shows as an SVG image.

    tools/terminal_image.py OUT.svg [--size 100x24] [--until TEXT] [--title TITLE] -- COMMAND...

Draws the first whole frame that shows TEXT; frames are those of cli/top/terminal.cc: from `ESC[H` to
`ESC[?2026l`. Then the program gets SIGINT.
"""
import argparse
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from xml.sax.saxutils import escape

COLOURS = {"31": "#f47067", "32": "#57ab5a", "33": "#daaa3f", "36": "#39c5cf"}
BACKGROUND, TEXT, DIM = "#1c2128", "#cdd9e5", "#8b949e"
CELL_W, CELL_H, MARGIN, BAR = 8.4, 18, 14, 30
PATIENCE_S = 120


def frames(shown):
    """The whole frames in what was shown, each a list of lines."""
    for frame in re.findall(r"\x1b\[H(.*?)\x1b\[\?2026l", shown, re.S):
        yield [re.sub(r"\x1b\[[JK]", "", line) for line in frame.split("\r\n")]


def run(command, columns, rows, until):
    """The first frame of the program with the text."""
    child, master = pty.fork()
    if child == 0:
        os.environ.update(TERM="xterm-256color", LANG="C.UTF-8")
        os.environ.pop("NO_COLOR", None)
        os.execvp(command[0], command)
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    shown, deadline = "", time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            if select.select([master], [], [], 1)[0]:
                shown += os.read(master, 65536).decode("utf-8", "replace")
            for frame in frames(shown):
                if len(frame) == rows and any(until in line for line in frame):
                    return frame
        sys.exit(f"{until!r} was never shown, but\n{shown[-4000:]}")
    finally:
        os.kill(child, signal.SIGINT)
        os.close(master)
        os.waitpid(child, 0)


def spans(line):
    """(column, text, style) of the parts of a line."""
    column, style = 0, ""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b["):
            code = part[2:-1]
            style = {"0": "", "1": "font-weight:bold", "2": f"fill:{DIM}"}.get(
                code, f"fill:{COLOURS.get(code, TEXT)}")
        elif part:
            yield column, part, style
            column += len(part)


def svg(frame, columns, title):
    width = columns * CELL_W + 2 * MARGIN
    height = len(frame) * CELL_H + 2 * MARGIN + BAR
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace" '
        f'font-size="14" role="img" aria-label="{escape(title)}">',
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
    ]
    for i, colour in enumerate(("#f47067", "#daaa3f", "#57ab5a")):
        out.append(f'<circle cx="{MARGIN + 6 + 20 * i}" cy="{BAR / 2 + 4}" r="6" fill="{colour}"/>')
    out.append(f'<text x="{width / 2:.0f}" y="{BAR / 2 + 9}" fill="{DIM}" '
               f'text-anchor="middle">{escape(title)}</text>')
    for row, line in enumerate(frame):
        y = BAR + MARGIN + (row + 1) * CELL_H - 5
        for column, text, style in spans(line):
            if not text.strip():
                continue
            # Each part keeps its width, whatever the width of the font.
            out.append(f'<text x="{MARGIN + column * CELL_W:.1f}" y="{y}" fill="{TEXT}" '
                       f'style="{style}" xml:space="preserve" lengthAdjust="spacingAndGlyphs" '
                       f'textLength="{len(text) * CELL_W:.1f}">{escape(text)}</text>')
    return "\n".join(out + ["</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--size", default="100x24")
    parser.add_argument("--until", default="")
    parser.add_argument("--title", default="")
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    columns, rows = map(int, arguments.size.split("x"))
    frame = run(arguments.command, columns, rows, arguments.until)
    title = arguments.title or " ".join(arguments.command)
    with open(arguments.out, "w", encoding="utf-8") as out:
        out.write(svg(frame, columns, title))


main()
