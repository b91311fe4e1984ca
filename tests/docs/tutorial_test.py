"""A tutorial does what it says, from its first command to its last, as one script.

    tutorial_test.py PAGE PROGRAMS ROOT

PROGRAMS is the folder of the built programs, ROOT that of the repository. The script runs in a
folder that looks like a checkout after `make build`. Of the page's fenced blocks,

- those without a language are run by bash, one after the other, as are the commands in comments
  `<!-- test: ... -->`, which do what a person does between them (tutorial_steps.py);
- `text` is what the block before it has printed: numbers, ids of jobs and what "…" stands for
  may differ;
- `python` and `yaml` are parts of a file of examples/ or deploy/examples.

A comment in front of a block may also say how it is run:

    <!-- test: no -->                    not at all: it is what has been done when the test begins
    <!-- test: aside -->                 beside what follows, with its output in aside.log
    <!-- test: replace OLD | NEW -->     with other numbers, to be done sooner

A variable that a comment sets, such as PID=..., fills in the same word in the blocks behind it.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

PAGE, PROGRAMS, ROOT = (pathlib.Path(path).absolute() for path in sys.argv[1:4])
STEPS = pathlib.Path(__file__).absolute().with_name("tutorial_steps.py")
LIMIT_S = 800

PART = re.compile(r"^<!-- test: (?P<hidden>.*?) -->$|^ *```(?P<kind>\w*)\n(?P<block>.*?)^ *```$",
                  re.DOTALL | re.MULTILINE)
MARK = "@@@ block"
DONE_BY_HAND = ("reach", "further", "generation", "restarted", "rank", "decision", "daemon")
PRELUDE = "".join(f'{name}() {{ "$PYTHON" "$STEPS" {name} "$@"; }}\n' for name in DONE_BY_HAND)
NUMBER = r"\d[\d.,:]*(?:e[-+]?\d+)?"
# What a page shows, and what may be in its place.
FREE = {
    r"job-[0-9a-f]{12}": r"job-[0-9a-f]{12}",
    rf"{NUMBER} (?:us|ms|s|min|h)\b": rf"{NUMBER} (?:us|ms|s|min|h)(?: \d+ (?:s|min))?",
    rf"{NUMBER} [KMGT]iB\b": rf"{NUMBER} [KMGT]?i?B",
    NUMBER: NUMBER,
    r"\s*…\s*": ".*",
    r"\s+": r"[ \t]+",
}
ANY_FREE = re.compile("|".join(f"({shown})" for shown in FREE))

# Programs that play a Slurm of one node.
SLURM = {
    "scontrol": "#!/bin/sh\necho localhost\n",
    "srun": '#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\nexec "$@"\n',
    "sbatch": """#!/bin/bash
while [[ $1 == --* ]]; do shift; done
id=$(($(cat "$HOME/slurm-id" 2>/dev/null || echo 16) + 1))
echo "$id" >"$HOME/slurm-id"
export SLURM_JOB_ID=$id SLURM_JOB_NODELIST=localhost SLURMD_NODENAME=localhost SLURM_CPUS_ON_NODE=2
(
  bash "$@" >"slurm-$id.out" 2>&1 </dev/null &
  echo $! >"$HOME/slurm-$id.pid"
  wait $!
  echo $? >"$HOME/slurm-$id.end"
) >/dev/null 2>&1 &
until [[ -s $HOME/slurm-$id.pid ]]; do sleep 0.05; done
echo "Submitted batch job $id"
""",
    # As `scancel --batch --signal=TERM ID`.
    "scancel": '#!/bin/sh\nfor id; do :; done\nkill -TERM "$(cat "$HOME/slurm-$id.pid")"\n',
    # Waits for the end of an allocation, and shows its output. No program of Slurm's.
    "slurm-end": """#!/bin/sh
until [ -s "$HOME/slurm-$1.end" ]; do sleep 0.1; done
cat "slurm-$1.out"
""",
}


class Tutorial:
    """A page as a script, and what it is to print."""

    def __init__(self, text):
        self.script = [PRELUDE]
        self.shown = []   # (number of the block, lines that it prints)
        self.quoted = []  # Blocks of Python and YAML.
        self.names = set()
        self.blocks = 0
        how = []
        for part in PART.finditer(text):
            hidden, kind, block = part.group("hidden", "kind", "block")
            if hidden is not None:
                if hidden in ("no", "aside") or hidden.startswith("replace "):
                    how.append(hidden)
                else:
                    self.script.append(hidden + "\n")
                    self.names |= set(re.findall(r"\b([A-Z]+)=", hidden))
            elif kind == "":
                if "no" not in how:
                    self._console(block, how)
                how = []
            elif kind == "text":
                self.shown.append((self.blocks, block.splitlines()))
            else:
                self.quoted.append(block)

    def _console(self, block, how):
        self.blocks += 1
        for old, new in (one.removeprefix("replace ").split(" | ") for one in how
                         if one.startswith("replace ")):
            assert block.count(old) == 1, old
            block = block.replace(old, new)
        for name in sorted(self.names):
            block = re.sub(rf"\b{name}\b", f'"${name}"', block)
        if "aside" in how:
            block = "(\n" + block + ") >aside.log 2>&1 &\n"
        self.script.append(f"echo; echo '{MARK} {self.blocks}'\n{block}")


def pattern(line):
    """Matches what a line of a page stands for."""
    made, at = "", 0
    for found in ANY_FREE.finditer(line.strip()):
        made += re.escape(line.strip()[at:found.start()]) + list(FREE.values())[found.lastindex - 1]
        at = found.end()
    return re.compile(made + re.escape(line.strip()[at:]))


class TutorialTest(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(dir="/tmp"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        for folder in ("examples", "deploy/examples", "deploy/slurm"):
            shutil.copytree(ROOT / folder, self.home / folder)
        (self.home / ".venv").symlink_to(sys.prefix)
        (self.home / "build").mkdir()
        shutil.copy(STEPS, self.home)
        self.slurm = PAGE.stem == "from-slurm"
        if self.slurm:
            self.play_slurm()
        else:
            (self.home / "build/bin").symlink_to(PROGRAMS)
        self.addCleanup(self.run_bash, "build/bin/paceline dev down --purge")

    def play_slurm(self):
        # The user `nobody` cannot enter the folders of others.
        shutil.copytree(PROGRAMS, self.home / "build/bin")
        (self.home / "fakes").mkdir()
        for name, text in SLURM.items():
            (self.home / "fakes" / name).write_text(text)
            (self.home / "fakes" / name).chmod(0o755)
        self.home.chmod(0o777)

    def run_bash(self, text):
        """The script's exit code (or a text if it did not end), and its output."""
        as_user = []
        if self.slurm and os.geteuid() == 0:
            # Workers that run as root start no scripts, and no user of a cluster is root.
            as_user = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        environment = {
            "PATH": f"{self.home}/fakes:{os.environ['PATH']}", "HOME": str(self.home),
            "TMPDIR": str(self.home), "USER": "ann",
            "PYTHON": sys.executable, "STEPS": str(self.home / STEPS.name),
            "PACELINE_CONFIG": f"{self.home}/none", "PACELINE_STATE": f"{self.home}/state",
            "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "NO_COLOR": "1",
            **{name: value for name, value in os.environ.items() if name.endswith("SAN_OPTIONS")}}
        with tempfile.TemporaryFile("w+", encoding="utf-8") as output:
            try:
                end = subprocess.run([*as_user, "bash", "-eu", "-c", text], cwd=self.home,
                                     env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                     stderr=output, timeout=LIMIT_S, check=False).returncode
            except subprocess.TimeoutExpired:
                end = f"not ended after {LIMIT_S} s"
            output.seek(0)
            return end, output.read()

    def test_the_page_works_as_it_is_written(self):
        tutorial = Tutorial(PAGE.read_text(encoding="utf-8"))
        self.assertGreater(tutorial.blocks, 3)
        script = "".join(tutorial.script).replace("/tmp/", f"{self.home}/")
        end, output = self.run_bash(script)
        print(output)  # What a page may show.
        self.assertEqual(end, 0, output[-4000:])
        printed = re.split(rf"^{MARK} \d+\n", output, flags=re.MULTILINE)
        self.assertEqual(len(printed), tutorial.blocks + 1)
        for block, lines in tutorial.shown:
            for line in lines:
                with self.subTest(line):
                    self.assertRegex(printed[block], pattern(line))

    def test_code_on_the_page_is_that_of_the_examples(self):
        files = [path.read_text(encoding="utf-8") for folder in ("examples", "deploy/examples")
                 for path in (ROOT / folder).iterdir() if path.suffix in (".py", ".yaml")]
        for block in Tutorial(PAGE.read_text(encoding="utf-8")).quoted:
            with self.subTest(block):
                self.assertTrue(any(block in text for text in files), block)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
