"""The flags of the daemons that the documents show are there."""

import os
import re
import subprocess
import sys
import unittest

PROGRAMS = [os.path.abspath(path) for path in sys.argv[1:3]]
PAGES = sys.argv[3:]

FLAG = re.compile(r"(?<![\w-])--[a-z][\w-]*")


def flags_of(program):
    text = subprocess.run([program, "--help"], check=True, stdout=subprocess.PIPE,
                          encoding="utf-8").stdout
    lines = [line for line in text.split("\n") if line.lstrip().startswith("-")]
    return {flag for line in lines for flag in FLAG.findall(line.split()[0])}


def commands(name):
    """(page, text after the program's name up to the end of its line or code mark) pairs."""
    for page in PAGES:
        with open(page, encoding="utf-8") as file:
            text = re.sub(r"\\\n", " ", file.read())
        # Skips names of units, as in journalctl -u paceline-controller --since -1h.
        for words in re.findall(rf"(?<![\w/.-])(?<!-u ){name} +(-[^`\n]*)", text):
            yield page, words


class DaemonFlagsTest(unittest.TestCase):
    def test_flags_in_commands_are_there(self):
        seen = 0
        for program in PROGRAMS:
            known = flags_of(program)
            self.assertIn("--listen", known)
            for page, words in commands(os.path.basename(program)):
                for flag in FLAG.findall(words):
                    seen += 1
                    self.assertIn(flag, known, f"{page}: {words}")
        self.assertGreater(seen, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
