"""Unchanged scripts never notice that they are watched, nor that the watching fails."""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.dirname(HERE)
SITE = os.path.join(PYTHON, "paceline", "site")

sys.path[:0] = [HERE]
from ring import make_ring, new_ring, read_live, read_ring

# A fake torch with only what the watching uses, so that processes start quickly.
FAKE_TORCH = {
    "__init__.py": """
        from torch import autograd, cuda, optim, utils, _C
        __version__ = "2.11.0+cpu"
        def is_grad_enabled(): return True
        """,
    "autograd.py": """
        def backward(fail=False):
            if fail: raise ArithmeticError("no gradient")
        """,
    "_C.py": """
        class _dynamo:
            class eval_frame:
                def skip_code(code): pass
        """,
    "cuda.py": """
        class amp:
            class GradScaler:
                def step(self, optimizer): pass
        """,
    "optim/__init__.py": "",
    "optim/optimizer.py": """
        before, after = [], []
        register_optimizer_step_pre_hook = before.append
        register_optimizer_step_post_hook = after.append
        class Optimizer:
            param_groups = [{"lr": 0.5}]
            def step(self):
                for hook in before: hook(self, (self,), {})
                for hook in after: hook(self, (self,), {})
        """,
    "utils/__init__.py": "",
    "utils/data/__init__.py": "",
    "utils/data/dataloader.py": """
        class _BaseDataLoaderIter:
            _index_sampler = None
            batches = iter([[1], [2], [3]])
            def __iter__(self): return self
            def __next__(self): return next(self.batches)
        """,
}

LOOP = """
import torch
from torch.optim.optimizer import Optimizer
from torch.utils.data.dataloader import _BaseDataLoaderIter
optimizer = Optimizer()
for batch in _BaseDataLoaderIter():
    torch.autograd.backward()
    optimizer.step()
print("done", batch)
"""


class ProcessTest(unittest.TestCase):
    """Starts processes with the environment that the daemon gives a watched command."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.ring = make_ring(os.path.join(self.folder, "ring"))
        self.torch = {}

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))
        return path

    def environment(self, **others):
        return {**os.environ, "PACELINE_RING": self.ring, "PYTHONPATH": SITE,
                "PYTHONDONTWRITEBYTECODE": "1", **others}

    def run_script(self, script, *flags, environment=None, python=sys.executable):
        for name, text in {**FAKE_TORCH, **self.torch}.items():
            if text is not None:
                self.write(os.path.join("script/torch", name), text)
        path = self.write("script/script.py", script)
        return subprocess.run([python, *flags, path], capture_output=True, text=True,
                              env=environment or self.environment(), check=False)

    def expect_off(self, reason):
        """Expects the script to run as if unwatched, with one line on stderr that says why."""
        done = self.run_script(LOOP)
        self.assertEqual((done.returncode, done.stdout), (0, "done [3]\n"), done.stderr)
        self.assertRegex(done.stderr, rf"^paceline: this script is no(t| longer) watched: {reason}.*\n$")

    def test_watched(self):
        done = self.run_script(LOOP)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "done [3]\n", ""))
        self.assertEqual([record.step for record in read_ring(self.ring)], [0, 1, 2])
        # Another program of the same rank continues after it.
        self.run_script(LOOP)
        self.assertEqual([record.step for record in read_ring(self.ring)], [0, 1, 2, 3, 4, 5])

    def test_other_versions_of_python(self):
        """The Python versions that this machine has."""
        found = [python for minor in range(9, 14) if minor != sys.version_info.minor
                 and (python := shutil.which(f"python3.{minor}"))
                 and subprocess.run([python, "-c", ""], check=False, capture_output=True).returncode == 0]
        if not found:
            self.skipTest("python3.9 to python3.13 are not in PATH")
        for number, python in enumerate(found):
            with self.subTest(python):
                done = self.run_script(LOOP, python=python)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "done [3]\n", ""))
                self.assertEqual(len(read_ring(self.ring)), 3 * (number + 1))

    def test_session(self):
        """A session writes its ring itself. It finds this package, unless another is installed."""
        session = self.environment(PACELINE_SESSION="1")
        where = "import paceline\nprint(paceline.__file__)\n"
        done = self.run_script(LOOP + where, environment=session)
        here = os.path.join(PYTHON, "paceline", "__init__.py")
        self.assertEqual((done.returncode, done.stdout, done.stderr),
                         (0, f"done [3]\n{here}\n", ""))
        self.assertEqual(len(read_ring(self.ring)), 0)
        installed = self.write("script/paceline.py", "")
        done = self.run_script(where, environment=session)
        self.assertEqual((done.stdout, done.stderr), (f"{installed}\n", ""))

    def test_switched_off(self):
        for off in ({"PACELINE_WATCH": "0"}, {"PACELINE_RING": ""}):
            done = self.run_script(LOOP, environment=self.environment(**off))
            self.assertEqual((done.returncode, done.stderr), (0, ""), off)
        for flag in ("-E", "-I", "-S"):
            script = LOOP if flag == "-E" else f"import sys; sys.path.insert(0, {self.folder!r}" + \
                " + '/script')\n" + LOOP
            done = self.run_script(script, flag)
            self.assertEqual((done.returncode, done.stderr), (0, ""), flag)
        self.assertEqual(read_ring(self.ring), [])

    def test_script_without_torch_loads_only_what_looks_out_for_it(self):
        done = self.run_script("""
            import sys
            import json
            print([name for name in sys.modules if name.startswith("_paceline.")], sys.path[1:2])
            """)
        self.assertEqual(done.stderr, "")
        self.assertTrue(done.stdout.startswith("['_paceline._imports'] "), done.stdout)
        self.assertNotIn(SITE, done.stdout)

    def test_sitecustomize_of_the_users_own_runs(self):
        own = self.write("own/sitecustomize.py", "import sys\nsys.own = __file__, __name__\n")
        path = os.pathsep.join([SITE, os.path.dirname(own)])
        for ring in (self.ring, ""):
            done = self.run_script("import sys, sitecustomize\nprint(sys.own, sitecustomize.__file__)",
                                   environment=self.environment(PYTHONPATH=path, PACELINE_RING=ring))
            self.assertEqual(done.stdout, f"('{own}', 'sitecustomize') {own}\n", done.stderr)
        self.write("own/sitecustomize.py", "1 / 0\n")
        environment = self.environment(PYTHONPATH=path)
        alone = self.environment(PYTHONPATH=os.path.dirname(own))
        self.assertEqual(self.run_script(LOOP, environment=environment).stderr,
                         self.run_script(LOOP, environment=alone).stderr)

    def test_package_of_the_same_name_stays_the_scripts(self):
        self.write("script/paceline.py", "mine = True\n")
        done = self.run_script("import torch, paceline\nprint(paceline.mine)")
        self.assertEqual((done.stdout, done.stderr), ("True\n", ""))

    def test_failing_script_fails_in_the_same_way(self):
        for last in ("torch.autograd.backward(fail=True)", "raise SystemExit(7)",
                     "import os, signal; os.kill(os.getpid(), signal.SIGTERM)", "1 +"):
            script = LOOP + last + "\n"
            watched = self.run_script(script)
            plain = self.run_script(script, environment=self.environment(PYTHONPATH=""))
            self.assertNotEqual(plain.returncode, 0)
            self.assertEqual((watched.returncode, watched.stdout, watched.stderr),
                             (plain.returncode, plain.stdout, plain.stderr))

    def test_torch_that_cannot_be_imported(self):
        self.torch["cuda.py"] = "raise ImportError('libcudart.so.13: no such file')"
        done = self.run_script("try:\n  import torch\nexcept ImportError as error: print(error)")
        self.assertEqual((done.stdout, done.stderr), ("libcudart.so.13: no such file\n", ""))

    def test_torch_that_is_looked_for_before_it_is_imported(self):
        for look in ("importlib.util.find_spec('torch')", "importlib.util.find_spec('torch.cuda')"):
            before = len(read_ring(self.ring))
            done = self.run_script("import importlib.util\n" + look + LOOP)
            self.assertEqual((done.stdout, done.stderr), ("done [3]\n", ""))
            self.assertEqual(len(read_ring(self.ring)), before + 3)

    def test_another_process_has_the_ring(self):
        script = f"""
            import os, subprocess, sys
            if "again" not in os.environ:
                exec({LOOP!r})
                os.environ["again"] = "1"
                sys.exit(subprocess.call([sys.executable, __file__]))
            exec({LOOP!r})
            """
        done = self.run_script(script)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout, "done [3]\ndone [3]\n")
        self.assertEqual(len(read_ring(self.ring)), 3)

    def test_ring_that_cannot_be_used(self):
        size = os.path.getsize(self.ring)
        for length in (0, 100, size - 1):
            make_ring(self.ring)
            os.truncate(self.ring, length)
            self.expect_off("ValueError")
        make_ring(self.ring, version=9)
        self.expect_off("ValueError: .* of version 9")
        make_ring(self.ring, magic=b"anything")
        self.expect_off("ValueError: .* is not a step ring")
        os.unlink(self.ring)
        self.expect_off("FileNotFoundError")
        os.mkdir(self.ring)
        self.expect_off("IsADirectoryError")
        # There is nowhere to report it.
        done = self.run_script("import sys\nsys.stderr = None" + LOOP)
        self.assertEqual((done.returncode, done.stdout), (0, "done [3]\n"))

    def test_ring_that_cannot_be_written(self):
        # A sealed file cannot be mapped for writing; root could still open a read-only one.
        import fcntl
        file = os.memfd_create("ring", os.MFD_ALLOW_SEALING)
        self.addCleanup(os.close, file)
        os.write(file, new_ring())
        fcntl.fcntl(file, 1033, 8)  # F_ADD_SEALS, F_SEAL_WRITE.
        self.ring = f"/proc/{os.getpid()}/fd/{file}"
        self.expect_off("PermissionError")

    def test_another_torch(self):
        for file, text, reason in (
                ("optim/optimizer.py", "class Optimizer:\n  def step(self): pass", "AttributeError"),
                ("_C.py", "", "AttributeError"),
                ("cuda.py", "", "AttributeError"),
                ("utils/data/dataloader.py",
                 "def _BaseDataLoaderIter(): return iter([[3]])", "AttributeError")):
            self.torch = {file: text}
            self.expect_off(reason)
            self.assertEqual(read_ring(self.ring), [])

    def test_torch_that_breaks_at_work(self):
        self.torch["optim/optimizer.py"] = FAKE_TORCH["optim/optimizer.py"].replace(
            'param_groups = [{"lr": 0.5}]', "param_groups = property(lambda self: 1 / 0)")
        self.expect_off("ZeroDivisionError")
        self.assertEqual(read_live(self.ring)[0], "idle")
        self.torch["optim/optimizer.py"] = FAKE_TORCH["optim/optimizer.py"]
        self.torch["utils/data/dataloader.py"] = FAKE_TORCH["utils/data/dataloader.py"].replace(
            "_index_sampler = None", "")
        self.expect_off("AttributeError: .*_index_sampler")

    def test_loader_of_no_known_kind(self):
        self.torch["utils/data/dataloader.py"] = FAKE_TORCH["utils/data/dataloader.py"].replace(
            "_BaseDataLoaderIter", "Other") + "\n        _BaseDataLoaderIter = Other\n"
        self.assertEqual(self.run_script(LOOP).returncode, 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
