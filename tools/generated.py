"""Writes the part of a page that a program makes, or checks that it is current.

    python tools/generated.py write|check PAGE PART COMMAND...

The part stands in the page between two lines, and is what the command prints, which may be a
Python file with its arguments:

    <!-- PART: made by `make docs` -->
    <!-- end of PART -->

Pages of docs/ that it names, such as docs/cli.md, become links; PAGE is in docs/, too.
"""

import difflib
import re
import subprocess
import sys


def main(mode, page, part, *command):
    begin, end = f"<!-- {part}: made by `make docs` -->\n", f"<!-- end of {part} -->\n"
    with open(page, encoding="utf-8") as file:
        text = file.read()
    if text.count(begin) != 1 or text.count(end) != 1:
        return f"{page}: needs exactly one line each: {begin}{end}"
    head, rest = text.split(begin)
    if command[0].endswith(".py"):
        command = (sys.executable, *command)
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, encoding="utf-8").stdout
    made = re.sub(r"\bdocs/([\w-]+\.md)", r"[\1](\1)", made)
    now, tail = rest.split(end)
    if mode == "check":
        lines = difflib.unified_diff(now.split("\n"), made.split("\n"), page, "as it should be",
                                     lineterm="", n=0)
        found = "\n".join(list(lines)[:40])
        return f"{found}\n{page} is not current: run `make docs`" if found else 0
    with open(page, "w", encoding="utf-8") as file:
        file.write(head + begin + made + end + tail)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
