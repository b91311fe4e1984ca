"""A standby interpreter becomes the script as if Python had just been started for it."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PYTHON = os.path.dirname(HERE)
SITE = os.path.join(PYTHON, "paceline", "site")
STANDBY = os.path.join(PYTHON, "paceline", "standby.py")

sys.path[:0] = [HERE]
from ring import make_ring, read_ring

TRAINING = """
import os, sys
if os.environ.get("PUT"):
    os.environ["PUT_BY_SCRIPT"] = "1"
import torch
import json.tool
import own
os.environ["LATER"] = "1"
import xml.dom.minidom
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(int(os.environ.get("STEPS", "3"))):
    model(torch.ones(2, 2)).sum().backward()
    optimizer.step()
"""


class StandbyTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.modules = self.path("modules")
        self.write("own.py", "")
        self.environment = {"PATH": os.environ["PATH"], "PACELINE_DIR": self.folder,
                            "PYTHONPATH": SITE, "PACELINE_RING": self.path("ring"),
                            "OMP_NUM_THREADS": "1"}

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, text):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))

    def read(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read()

    def plain(self, *command, **environment):
        """Runs the script with plain Python; returns its output and exit code."""
        done = subprocess.run([sys.executable, *command], cwd=self.folder, check=False,
                              env={**self.environment, **environment}, text=True,
                              start_new_session=True,  # Like the shim.
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.stdout, done.returncode

    def stand_by(self, *command, options=(), **environment):
        """Starts a standby interpreter; returns the process and the other end of its socket."""
        ours, theirs = socket.socketpair()
        self.addCleanup(ours.close)

        def take_socket():
            os.dup2(theirs.fileno(), 3)

        process = subprocess.Popen(  # pylint: disable=consider-using-with,subprocess-popen-preexec-fn
            [sys.executable, *options, STANDBY, *command], cwd=self.folder, preexec_fn=take_socket,
            env={**self.environment, "PACELINE_STANDBY": self.modules, **environment}, text=True,
            pass_fds=[3], start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        theirs.close()
        return process, ours

    def become(self, process, ours, **environment):
        """Returns its output and exit code."""
        variables = {**self.environment, **environment}
        text = "".join(f"{name}={value}\0" for name, value in variables.items())
        ours.sendall(text.encode())
        ours.shutdown(socket.SHUT_WR)
        output = process.communicate()[0]
        return output, process.returncode

    def both(self, *command, modules="", **environment):
        """Output and exit code of a script that Python starts, and of one a standby becomes."""
        with open(self.modules, "w", encoding="utf-8") as file:
            file.write(modules)
        process, ours = self.stand_by(*command)
        self.assertEqual(ours.recv(100), b"r")
        return self.plain(*command, **environment), self.become(process, ours, **environment)

    def expect_same(self, script, *arguments, **environment):
        self.write("script.py", script)
        plain, stood_by = self.both("script.py", *arguments, **environment)
        self.assertEqual(plain, stood_by)
        return plain

    def test_arguments_paths_and_main_are_those_of_a_start(self):
        output, code = self.expect_same("""
            import os, pickle, sys, own
            class Here: pass
            print(sys.argv, sys.path, sys.flags, __name__, __file__, __spec__, __doc__)
            print(sorted(set(globals()) - {"__annotations__"}), own.__file__, os.getcwd())
            print(pickle.loads(pickle.dumps(Here())).__class__ is sys.modules["__main__"].Here)
            print(getattr(sys, "orig_argv", None))
            print(sorted(os.environ.items()))
            """, "--lr", "0.1", "", "two words", NEW="1")
        self.assertEqual(code, 0, output)
        self.assertIn("two words", output)

    def test_a_module_is_run_as_python_does(self):
        os.mkdir(self.path("net"))
        self.write("net/__init__.py", "")
        self.write("net/train.py", "import sys; print(sys.argv, sys.path, __name__, __package__)")
        plain, stood_by = self.both("-m", "net.train", "--lr", "1")
        self.assertEqual(plain, stood_by)
        self.assertEqual(plain[1], 0, plain)
        plain, stood_by = self.both("-m", "net.missing")
        self.assertEqual(plain, stood_by)
        self.assertEqual(plain[1], 1)

    def test_ends_are_those_of_a_start(self):
        output, code = self.expect_same("""
            def train():
                raise ValueError("shard 7 is short")
            train()
            """)
        self.assertEqual(code, 1)
        self.assertIn("ValueError: shard 7 is short", output)
        self.assertEqual(self.expect_same("import sys; sys.exit(7)")[1], 7)
        self.assertEqual(self.expect_same("import sys; sys.exit('why')"), ("why\n", 1))
        self.assertEqual(self.expect_same("def (")[1], 1)
        self.assertEqual(self.expect_same("import missing_module")[1], 1)
        self.assertEqual(self.expect_same("import atexit; atexit.register(print, 'end')")[0], "end\n")
        self.assertEqual(self.expect_same("raise KeyboardInterrupt")[1], -signal.SIGINT)
        self.expect_same("""
            import sys, threading
            sys.excepthook = lambda kind, error, trace: print("mine", trace.tb_lineno)
            threading.Thread(target=print, args=("a thread",)).start()
            raise OSError
            """)

    def test_a_script_that_is_gone(self):
        self.write("script.py", "")
        with open(self.modules, "w", encoding="utf-8"):
            pass
        process, ours = self.stand_by("script.py")
        self.assertEqual(ours.recv(100), b"r")
        os.remove(self.path("script.py"))
        output, code = self.become(process, ours)
        self.assertNotEqual(code, 0)
        self.assertIn("No such file", output)
        self.assertEqual(len(output.splitlines()), 1)

    def test_the_newest_text_of_the_script_counts_and_spawned_processes_find_it(self):
        self.write("script.py", "print('old')")
        with open(self.modules, "w", encoding="utf-8"):
            pass
        process, ours = self.stand_by("script.py")
        self.assertEqual(ours.recv(100), b"r")
        self.write("script.py", """
            import multiprocessing
            def show(text):
                print(text, flush=True)
            if __name__ == "__main__":
                child = multiprocessing.get_context("spawn").Process(target=show, args=("new",))
                child.start()
                child.join()
            """)
        self.assertEqual(self.become(process, ours), ("new\n", 0))

    def test_a_rank_leaves_its_modules_and_they_are_there(self):
        make_ring(self.path("ring"))
        self.write("script.py", TRAINING)
        self.assertEqual(self.plain("script.py"), ("", 0))
        names = self.read("modules").split()
        self.assertIn("torch.optim.sgd", names)
        self.assertIn("json.tool", names)
        self.assertNotIn("own", names)
        self.assertNotIn("xml.dom.minidom", names)  # Imported after the script set a variable.
        self.write("script.py", "import sys; print(sorted(sys.modules))" + TRAINING)
        process, ours = self.stand_by("script.py")
        self.assertEqual(ours.recv(100), b"r")
        make_ring(self.path("ring2"))
        os.mkdir(self.path("second"))
        output, code = self.become(process, ours, PACELINE_RING=self.path("ring2"),
                                   PACELINE_DIR=self.path("second"), STEPS="5")
        self.assertEqual(code, 0, output)
        self.assertIn("'torch.optim.sgd'", output)
        self.assertNotIn("'own'", output)
        self.assertEqual(len(read_ring(self.path("ring2"))), 5)
        self.assertEqual(self.read("second/modules").split(), names)

    def test_variables_that_are_set_before_torch(self):
        make_ring(self.path("ring"))
        self.write("script.py", TRAINING)
        self.assertEqual(self.plain("script.py", PUT="1"), ("", 0))
        self.assertEqual(self.read("modules"),
                         "!the script sets PUT_BY_SCRIPT before it imports torch\n")

    def test_a_script_that_replaces_its_environment_goes_on(self):
        make_ring(self.path("ring"))
        self.write("script.py", "import os\nos.environ = dict(os.environ)\n" + TRAINING)
        self.assertEqual(self.plain("script.py"), ("", 0))
        self.assertEqual(len(read_ring(self.path("ring"))), 3)
        self.assertTrue(self.read("modules").startswith("!what the script imports cannot be told:"))

    def test_a_process_that_the_rank_has_started_says_so(self):
        make_ring(self.path("ring"))
        self.write("script.py", TRAINING)
        self.write("launcher.py", "import subprocess, sys; "
                   "subprocess.run([sys.executable, 'script.py'], check=True)")
        self.assertEqual(self.plain("launcher.py"), ("", 0))
        self.assertEqual(len(read_ring(self.path("ring"))), 3)
        self.assertEqual(self.read("modules"),
                         "!a process that the rank has started trains, not the rank itself\n")

    def test_one_that_is_not_needed_ends(self):
        self.write("script.py", "print('never')")
        with open(self.modules, "w", encoding="utf-8") as file:
            file.write("json\nno.such.module\n")
        process, ours = self.stand_by("script.py")
        self.assertEqual(ours.recv(100), b"r")
        ours.close()
        self.assertEqual(process.communicate()[0], "")

    def test_what_imports_set_stays_and_what_they_found_changed_does_not(self):
        folder = os.path.join(self.folder, "site-packages")
        os.mkdir(folder)
        self.write("site-packages/setter.py",
                   "import os\nos.environ['SET'] = 'x'\nos.environ['RANKED'] = 'y'\n")
        self.environment["PYTHONPATH"] += ":" + folder
        self.environment["RANKED"] = "0"
        self.write("script.py", "import os; print(os.environ.get('SET'), os.environ['RANKED'])")
        with open(self.modules, "w", encoding="utf-8") as file:
            file.write("setter\n")
        process, ours = self.stand_by("script.py", options=["-u"])
        self.assertEqual(ours.recv(100), b"r")
        self.assertEqual(self.become(process, ours, RANKED="1"), ("x 1\n", 0))


if __name__ == "__main__":
    unittest.main()
