"""tools/docs_check.py finds what it is there to find, and nothing in pages that are right."""

import importlib.util
import os
import sys
import tempfile
import unittest

SPEC = importlib.util.spec_from_file_location("docs_check", os.path.abspath(sys.argv[1]))
docs_check = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(docs_check)

SOUND = {
    "Makefile": "test:\n\tcc\nbench:\n\tcc\n",
    "README.md": "[Guide](docs/guide.md#two-words), `docs/other.md`, [all](docs/decisions/)\n",
    "bench/step.py": "",
    "cli/verbs/program/examples.cc": '{"paceline", "paceline job list", "All"},\n'
                                     '{"paceline job list", "paceline job list", "All"},\n'
                                     '{"paceline submit", "paceline submit a.yaml", "One"},\n',
    "common/log.h": "// See docs/guide.md.\n",
    "common/log_test.cc": "",
    "docs/decisions/0001-first.md": "# First\n",
    "docs/guide.md": "# Guide\n\n## Two `words`\n\n## Two words\n\n[again](#two-words-1)\n"
                     "`common/log_test`\n\n| a | b |\n| --- | --- |\n| `x \\| y` | 1 |\n"
                     "\n`make bench NAME=step`\n"
                     "```\n# No heading, [no link](nowhere.md)\n$ make test\n```\n",
    "docs/other.md": "# Other\n\ndocs/decisions/0001 says why; `[no](link.md)`; <https://a.b>\n",
}


class DocsCheckTest(unittest.TestCase):
    def faults(self, **changes):
        """The faults of the sound repository with changed files; "__" in a name stands for "/"."""
        files = SOUND | {name.replace("__", "/"): text for name, text in changes.items()}
        with tempfile.TemporaryDirectory() as root:
            for path, text in files.items():
                os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
                with open(f"{root}/{path}", "w", encoding="utf-8") as file:
                    file.write(text)
            return docs_check.Check(root, list(files)).run()

    def other(self, text):
        return self.faults(**{"docs__other.md": "# Other\n\n" + text + "\n"})

    def test_a_sound_repository_has_no_faults(self):
        self.assertEqual(self.faults(), [])

    def test_links(self):
        self.assertEqual(self.other("[a](gone.md)"), ["docs/other.md:3: no file docs/gone.md"])
        self.assertEqual(self.other("[a](guide.md#three)"),
                         ["docs/other.md:3: docs/guide.md has no heading #three"])
        self.assertEqual(self.other("[a](#two-words)"),
                         ["docs/other.md:3: docs/other.md has no heading #two-words"])
        self.assertEqual(self.other("[a](../common/log.h)"), [])

    def test_mentions_also_in_sources(self):
        self.assertEqual(self.faults(**{"common__log.h": "// docs/gone.md\n"}),
                         ["common/log.h:1: no page docs/gone.md"])
        self.assertEqual(self.other("docs/decisions/0002"), ["docs/other.md:3: no decision 0002"])

    def test_headings_in_sources(self):
        self.assertEqual(self.faults(**{"common__log.h": "// docs/guide.md#two-words.\n"}), [])
        self.assertEqual(self.faults(**{"common__log.h": "// docs/guide.md#two\n"}),
                         ["common/log.h:1: docs/guide.md has no heading #two"])

    def command(self, text):
        return self.faults(**{"common__log.h": text + "\n"})

    def test_commands_in_sources(self):
        for sound in ("`paceline job list`, `paceline job`", "`paceline submit job.yaml`",
                      '"`paceline "\n    "job list`"', "// `paceline\n// job list`", "a paceline go"):
            self.assertEqual(self.command(sound), [])
        for wrong in ("// `paceline job stop`", '"end it: paceline job stop"',
                      '"`paceline "\n    "job stop`"', '"`paceline job"\n    " stop`"',
                      "// `paceline job\n  // stop`", '{"text": "`paceline job\\n  stop`"}'):
            self.assertEqual(self.command(wrong), ["common/log.h:1: no command paceline job stop"])
        for wrong in ("`paceline go`", "<code>paceline go</code>"):
            self.assertEqual(self.command(wrong), ["common/log.h:1: no command paceline go"])

    def test_tests_make_commands_up(self):
        self.assertEqual(self.faults(**{"common__log_test.cc": "`paceline job stop`\n"}), [])

    def test_paths_in_code_marks(self):
        self.assertEqual(self.other("`common/lag.h`"), ["docs/other.md:3: no file common/lag.h"])
        self.assertEqual(self.other("`bench/NAME.py`, `common/`, `/common/lag.h`"), [])

    def test_targets_of_make(self):
        self.assertEqual(self.other("`make tests`"), ["docs/other.md:3: make has no target tests"])
        self.assertEqual(self.other("```\nmake bench NAME=stop\n```"),
                         ["docs/other.md:4: no benchmark stop"])
        self.assertEqual(self.other("make sure that"), [])

    def test_tables(self):
        self.assertEqual(self.other("| a | b |\n| --- | --- |\n| `x | y` | 1 |"),
                         ["docs/other.md:5: 3 cells in a table of 2 columns"])

    def test_pages_that_nothing_leads_to(self):
        self.assertEqual(self.faults(**{"docs__lost.md": "# Lost\n"}),
                         ["docs/lost.md:1: cannot be reached from README.md"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
