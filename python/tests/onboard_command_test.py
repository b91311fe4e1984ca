"""`python -m paceline.onboard`, as `paceline init` runs it: what it prints and writes."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.abspath("python"))
from paceline.onboard import __main__ as command  # noqa: E402

SCRIPT = """\
import torch
from net import Net, loader
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in loader:
    model(x).backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class CommandTest(unittest.TestCase):
    """`python -m paceline.onboard`."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name).resolve() / "train.py"
        self.job = self.path.with_suffix(".yaml")
        self.path.write_text(SCRIPT, encoding="utf-8")
        self.path.chmod(0o750)

    def run_(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command.run([str(self.path), *arguments])
        return code, out.getvalue(), err.getvalue()

    def test_it_only_shows(self):
        code, out, err = self.run_()
        self.assertEqual(code, 0)
        self.assertIn("+run = paceline.init()\n", out)
        self.assertIn("Nothing was written", err)
        self.assertEqual(self.path.read_text(encoding="utf-8"), SCRIPT)
        self.assertFalse(self.job.exists())

    def test_it_writes(self):
        code, _, err = self.run_("--write")
        self.assertEqual(code, 0)
        self.assertIn(f"Written: {self.path}, {self.job}.", err)
        self.assertIn("run = paceline.init()\n", self.path.read_text(encoding="utf-8"))
        self.assertEqual(self.path.stat().st_mode & 0o777, 0o750)
        self.assertIn("session: true\n", self.job.read_text(encoding="utf-8"))
        self.assertEqual(sorted(one.name for one in self.path.parent.iterdir()),
                         ["train.py", "train.yaml"])
        self.assertIn("is a session already", self.run_()[2])

    def test_a_job_file_stays(self):
        self.job.write_text("name: mine\n", encoding="utf-8")
        self.assertIn("stays as it is", self.run_("--write")[2])
        self.assertEqual(self.job.read_text(encoding="utf-8"), "name: mine\n")

    def test_other_encodings_and_marks_stay(self):
        for encoding, mark in (("latin-1", "# coding: latin-1\n# é\n"), ("utf-8-sig", "# é\n")):
            self.path.write_bytes((mark + SCRIPT).encode(encoding))
            self.job.unlink(missing_ok=True)
            self.assertEqual(self.run_("--write")[0], 0)
            begin = self.path.read_bytes()[:len(mark.encode(encoding))]
            self.assertEqual(begin, mark.encode(encoding))

    def test_json(self):
        code, out, err = self.run_("--output", "json")
        told = json.loads(out)
        self.assertEqual((code, err, told["outcome"], told["written"]), (0, "", "proposed", False))
        self.assertIn("+run = paceline.init()\n", told["diff"])
        self.assertTrue(told["job_file"]["text"].startswith("# Made by"))

    def test_it_is_not_understood(self):
        self.path.write_text("import torch\n", encoding="utf-8")
        code, out, err = self.run_("--write")
        self.assertEqual((code, out), (1, ""))
        self.assertIn("train.py:1: stopped here: no training loop", err)

    def test_there_is_none(self):
        self.path.unlink()
        self.assertEqual(self.run_()[0], 3)

    def test_it_asks_at_a_terminal(self):
        for answer, is_written in (("n", False), ("y", True)):
            ours, theirs = os.openpty()
            with subprocess.Popen(
                    [sys.executable, "-m", "paceline.onboard", str(self.path)], stdin=theirs,
                    stdout=theirs, stderr=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": os.path.abspath("python")}) as process:
                os.close(theirs)
                os.write(ours, f"{answer}\n".encode())
                with contextlib.suppress(OSError):  # The terminal's end.
                    while os.read(ours, 4096):
                        pass
                self.assertEqual(process.wait(), 0)
            os.close(ours)
            self.assertEqual(self.job.exists(), is_written)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
