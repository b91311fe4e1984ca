"""run.artifact without a daemon, and how files and directories are hashed."""

import contextlib
import hashlib
import io
import os
import sys
import tempfile
import threading
import unittest
from unittest import mock

import torch

sys.path.insert(0, os.path.abspath("python"))
import paceline  # noqa: E402
from paceline.artifacts import Artifacts, hash_directory, hash_file  # noqa: E402


class RunTest(unittest.TestCase):
    """run.artifact without a daemon."""

    def setUp(self):
        self.run_ = paceline.init(steps=2, batch_per_rank=2)
        self.model = torch.nn.Linear(4, 2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.run_.attach(self.model, self.optimizer)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "model.bin")
        with open(self.path, "wb") as file:
            file.write(b"weights")

    def test_it_is_printed_with_the_steps_done_and_its_hash(self):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            for step in self.run_.steps():
                with step:
                    self.run_.artifact(self.path, name=f"in-{step.number}")
                    for x in step.batches([torch.ones(2, 4)]):
                        step.backward(self.model(x).square().mean())
                    step.update()
            self.run_.artifact(self.path)
            self.run_.finish()
        sha256 = hashlib.sha256(b"weights").hexdigest()
        for name, step in (("in-0", 0), ("in-1", 1), ("model.bin", 2)):
            self.assertIn(f"artifact {name} of step {step}: {self.path}, "
                          f"7 bytes, sha256 {sha256}\n", out.getvalue())

    def test_what_it_cannot_be_is_told(self):
        with self.assertRaises(FileNotFoundError):
            self.run_.artifact(self.path + ".gone")
        for name in ("", "a b", "a" * 65):
            with self.assertRaisesRegex(ValueError, "is no name for run.artifact"):
                self.run_.artifact(self.path, name=name)
        with contextlib.redirect_stdout(io.StringIO()):
            for i in range(32):
                self.run_.artifact(self.path, name=f"a{i}")
            self.run_.artifact(self.path, name="a0")  # Known.
            with self.assertRaisesRegex(ValueError, "has got 32 names, which is the most: a0, a1"):
                self.run_.artifact(self.path, name="one-more")
            self.run_.finish()


class ArtifactsTest(unittest.TestCase):
    """Files that are reported: at once, and again when they are hashed."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.reported = []
        self.artifacts = Artifacts()

    def write(self, path, data):
        whole = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, "wb") as file:
            file.write(data)
        return whole

    def add(self, path, name=None, step=3):
        self.artifacts.add(path, name, step, lambda *what: self.reported.append(what))

    def test_a_file_is_reported_twice(self):
        path = self.write("a", b"1" * (3 << 20))
        self.add(path)
        name, whole, directory, size, sha256, step, time_us, error = self.reported[0]
        self.assertEqual((name, whole, directory, size, sha256, step, error),
                         ("a", path, False, 0, "", 3, ""))
        self.artifacts.close(60)
        expected = hashlib.sha256(b"1" * (3 << 20)).hexdigest()
        self.assertEqual(self.reported[1:],
                         [("a", path, False, 3 << 20, expected, 3, time_us, "")])

    def test_a_directory_is_hashed_as_sha256sum_would(self):
        paths = ("a", "b-x", "b/c/x", "b/c.y")  # In the order of their bytes, not of their parts.
        for path in paths:
            self.write(path, path.encode())
        lines = "".join(f"{hashlib.sha256(path.encode()).hexdigest()}  {path}\n"
                        for path in sorted(paths))
        self.assertEqual(hash_directory(self.folder),
                         (14, hashlib.sha256(lines.encode()).hexdigest()))

    def test_a_file_that_is_gone_or_changes_is_reported_with_the_error(self):
        path = self.write("a", b"1")
        with mock.patch("paceline.artifacts.hash_file", side_effect=OSError("it is gone")):
            self.add(path)
            self.artifacts.close(60)
        self.assertEqual(self.reported[1][3:], (0, "", 3, self.reported[0][6], "it is gone"))

        states = [mock.Mock(st_size=size, st_mtime_ns=0) for size in (1, 2)]
        with mock.patch("os.fstat", side_effect=states):
            with self.assertRaisesRegex(ValueError, "changed while it was hashed"):
                hash_file(path)

    def test_nothing_is_reported_once_it_is_closed(self):
        path = self.write("a", b"1")
        begun, goes_on = threading.Event(), threading.Event()

        def hash_late(_path):
            begun.set()
            goes_on.wait(60)
            return 1, "late"

        with mock.patch("paceline.artifacts.hash_file", side_effect=hash_late):
            self.add(path)
            begun.wait(60)
            self.artifacts.close(0)
            goes_on.set()
            self.artifacts._thread.join(60)
        self.assertEqual(len(self.reported), 1)

    def test_paths_have_bounds(self):
        with self.assertRaisesRegex(ValueError, "1024 is the most"):
            self.add("/" + "a" * 1024, name="a")
        with self.assertRaisesRegex(ValueError, "is not UTF-8"):
            self.add("/\udcff", name="a")
        with mock.patch("paceline.artifacts.MOST_FILES", 1):
            self.write("d/a", b"")
            self.write("d/b", b"")
            with self.assertRaisesRegex(ValueError, "has more than 1 files"):
                hash_directory(os.path.join(self.folder, "d"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
