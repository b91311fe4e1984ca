"""docs/first-job.md does what it says, from the cluster to its end, as one script.

What a person does by hand is filled in: the wait until the job trains and the id of the process to
be killed. It trains fewer steps, in a folder of its own.
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BIN, PAGE = (os.path.abspath(path) for path in sys.argv[1:3])

LIMIT_S = 600

# Reads the changes of a job until it trains in the given generation or a later one, and prints
# the process id of its rank 0.
AWAIT = """import json, sys
for line in sys.stdin:
    job = json.loads(line).get("job") or {}
    if job.get("state") == "RUNNING" and int(job["generation"]) >= int(sys.argv[1]):
        print(job["ranks"][0]["pid"])
        break
"""
TRAINS = 'paceline --output json job watch tough | "$PYTHON" "$AWAIT" %d'


def blocks(text):
    """The console blocks, and the Python blocks as commands; without section 1 (the programs)."""
    text = text[text.index("\n## 2."):]
    for kind, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        if kind == "python":
            yield f'"$PYTHON" <<"END"\n{block}END\n'
        elif not kind:
            yield block


def script(folder):
    with open(PAGE, encoding="utf-8") as file:
        text = "".join(blocks(file.read())).replace("/tmp/first", f"{folder}/first")
    for old, new in (
        ("steps: 150\n", "steps: 60\n"),
        ("kill -9 PID\n", f"kill -9 $({TRAINS % 1})\n{TRAINS % 2}\n"),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


class FirstJobTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(dir="/tmp")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / ".venv").symlink_to(sys.prefix)
        (self.folder / "await.py").write_text(AWAIT)
        self.environment = {
            "PATH": f"{BIN}:{os.environ['PATH']}", "HOME": folder.name, "PYTHON": sys.executable,
            "AWAIT": str(self.folder / "await.py"), "USER": "ann",
            **{name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")},
        }
        self.addCleanup(self.run_bash, "paceline dev down --purge")

    def run_bash(self, text):
        """The script's exit code (or a text if it did not end), and its output."""
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            try:
                end = subprocess.run(["bash", "-eu", "-c", text], cwd=self.folder,
                                     env=self.environment, stdin=subprocess.DEVNULL, stdout=output,
                                     stderr=output, timeout=LIMIT_S, check=False).returncode
            except subprocess.TimeoutExpired:
                end = f"not ended after {LIMIT_S} s"
            output.seek(0)
            return end, output.read()

    def test_the_page_works_as_it_is_written(self):
        end, output = self.run_bash(script(self.folder))
        self.assertEqual(end, 0, output)
        for words in ("1438 images", "digits SUCCEEDED", "ended by signal 9 (SIGKILL)", "takes seat",
                      "w1 DRAINED", "torch.Size([10, 512])"):
            self.assertIn(words, output)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
