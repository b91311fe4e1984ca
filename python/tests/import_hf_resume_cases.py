"""Cases of import_hf_test.py: imports that are cut off, begun again, or made at the same time."""

import contextlib
import errno
import fcntl
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
from unittest import mock

import tokenizers

sys.path.insert(0, os.path.abspath("python"))
from import_hf_fixture import TEXTS, ImportFixture, read, tokens_of  # noqa: E402
from paceline.import_hf import __main__ as command  # noqa: E402
from paceline.import_hf import pieces  # noqa: E402

# As cli/verbs/program/python_module.cc starts it.
START = ("import importlib, sys; sys.path.insert(0, sys.argv.pop(1)); "
         "sys.exit(importlib.import_module(sys.argv.pop(1)).run())")


def child_of(parent):
    """A process that reads texts for the import."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent and b"spawn_main" in (stat.parent / "cmdline").read_bytes():
                return int(stat.parent.name)
    raise AssertionError(f"{parent} has no child")


class ResumeTest(ImportFixture):
    """What is made again of what is there, and who makes it."""

    def test_an_import_that_was_cut_off_goes_on(self):
        path = self.lines()
        make, made = pieces.make_piece, []

        def cut_off(settings, piece):
            if len(made) == 5:
                (pathlib.Path(settings.folder) / f"{piece.name}.train.new").write_bytes(b"torn")
                raise KeyboardInterrupt
            made.append(piece)
            return make(settings, piece)

        with mock.patch.object(command, "make_piece", cut_off):
            code, _, err = self.run_(path)
            self.assertEqual(code, 130)
            self.assertIn("the same command goes on", err)
            self.assertFalse(self.out.exists())
            # One that is not whole is made again.
            torn = made[2]
            os.truncate(f"{self.out}.import/{torn.name}.train", 2)
            made[:] = [None] * 4
            code, _, err = self.run_(path)
            self.assertEqual(made[4:], [torn])
            self.assertIn("4 of ", err)
        self.imports(TEXTS, path)

    def test_pieces_of_another_import_are_refused(self):
        path = self.lines()
        with mock.patch.object(command, "make_piece", side_effect=KeyboardInterrupt):
            self.run_(path)
        self.fails("pieces of an import with other values of end token", path, end="a")
        self.fails("other values of column", path, "--column", "id")
        self.fails("remove it, and the import begins anew", path, end="a")

    def test_of_a_source_that_was_mended_only_its_pieces_are_made_again(self):
        paths = [self.lines(f"{i}.jsonl", TEXTS[100 * i:100 * i + 100]) for i in range(4)]
        with paths[2].open("a", encoding="utf-8") as file:
            file.write('{"text": 3}\n')
        self.fails(f"{paths[2]}: at offset", *paths)
        make, made = pieces.make_piece, []

        def note(settings, piece):
            made.append(piece.file.path)
            return make(settings, piece)

        # Shorter, so that it has another number of pieces.
        self.lines("2.jsonl", TEXTS[200:230])
        with mock.patch.object(command, "make_piece", note):
            self.imports(TEXTS[:230] + TEXTS[300:400], *paths)
        self.assertEqual(set(made), {str(paths[2]), str(paths[3])})

    def test_a_source_that_was_changed_is_read_whole_again(self):
        path = self.lines()
        make, made = pieces.make_piece, []

        def cut_off(settings, piece):
            if len(made) == 5:
                raise KeyboardInterrupt
            made.append(piece)
            return make(settings, piece)

        with mock.patch.object(command, "make_piece", cut_off):
            self.run_(path)
        # As long as before, with the time of before, as an archive may give it to all its files.
        before = path.stat()
        text = path.read_text(encoding="utf-8").replace('"a b', '"b a', 1)
        path.write_text(text, encoding="utf-8")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        texts = [json.loads(line)["text"] for line in text.splitlines()]
        self.assertNotEqual(texts, TEXTS)
        self.imports(texts, path)

    def test_other_sources_may_be_given(self):
        first, second = self.lines("1.jsonl", TEXTS[:300]), self.lines("2.jsonl", TEXTS[300:])
        with mock.patch.object(command, "_join", side_effect=KeyboardInterrupt):
            self.run_(first, second)
        with mock.patch.object(command, "make_piece", side_effect=AssertionError):
            self.imports(TEXTS[300:] + TEXTS[:300], second, first)

    def test_a_source_that_changes_meanwhile(self):
        path = self.lines()
        make = pieces.make_piece

        def change(settings, piece):
            if piece.begin == 3000:
                os.utime(path, ns=(0, 0))
            return make(settings, piece)

        with mock.patch.object(command, "make_piece", change):
            self.fails(f"{path} has changed while it was read; the same command", path)
        self.imports(TEXTS, path)

    def test_another_version_of_the_tokenizers_library(self):
        path = self.lines()
        with mock.patch.object(command, "make_piece", side_effect=KeyboardInterrupt):
            self.run_(path)
        with mock.patch.object(tokenizers, "__version__", "0.0"):
            self.fails("other values of version of tokenizers", path)

    def test_a_full_disk(self):
        path = self.lines()
        full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = []

        def sync(_file):
            done.append(1)
            if len(done) > 9:
                raise full

        with mock.patch.object(os, "fsync", sync):
            self.fails("cannot be written: No space left on device; the same command goes on", path)
        code, _, err = self.run_(path)
        self.assertEqual(code, 0, err)
        self.assertIn("pieces are there already", err)
        self.assertEqual(read(self.out)[2], tokens_of(TEXTS))

    def test_a_folder_that_goes_only_when_its_lock_is_closed(self):
        remove = shutil.rmtree

        def keep(folder, ignore_errors=False):
            """As on NFS, where what is removed while it is open stays until it is closed."""
            remove(folder)
            os.mkdir(folder)
            if not ignore_errors:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), folder)

        with mock.patch.object(shutil, "rmtree", keep):
            self.imports(TEXTS, self.lines())

    @contextlib.contextmanager
    def importing(self):
        """An import of two processes, which wait for what they are to read."""
        fifos = [self.folder / f"{i}.jsonl.gz" for i in range(2)]
        for fifo in fifos:
            os.mkfifo(fifo)
        with subprocess.Popen(
                [sys.executable, "-I", "-B", "-c", START, os.path.abspath("python"),
                 "paceline.import_hf.__main__", "--tokenizer", self.tokenizer, "--out", self.out,
                 "--end-token=", "--workers", "2", "--", *fifos],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            ends = [self.writer_of(fifo) for fifo in fifos]
            try:
                yield process
            finally:
                process.kill()
                for end in ends:
                    os.close(end)

    def writer_of(self, fifo):
        """Waits until somebody reads."""
        for _ in range(6000):
            try:
                return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:
                time.sleep(0.01)
        raise AssertionError(f"nobody reads {fifo}")

    def test_processes_end_with_the_import(self):
        for number, code, text in ((signal.SIGINT, 130, "interrupted; the same command goes on"),
                                   (signal.SIGKILL, -9, "")):
            with self.importing() as process:
                process.send_signal(number)
                # Its end is that of all who have its output.
                told, _ = process.communicate(timeout=60)
                self.assertEqual(process.returncode, code, told)
                self.assertIn(text, told)
            for fifo in self.folder.glob("*.gz"):
                fifo.unlink()
            shutil.rmtree(f"{self.out}.import")

    def test_a_process_that_is_lost(self):
        with self.importing() as process:
            os.kill(child_of(process.pid), signal.SIGKILL)
            told, _ = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 1, told)
            self.assertIn("a process of the import was ended from outside", told)
            self.assertFalse(self.out.exists())

    def test_two_imports_of_one_file_do_not_meet(self):
        os.mkdir(f"{self.out}.import")
        with open(f"{self.out}.import/lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.fails("another import writes", self.lines())

    def starts_meanwhile(self, *arguments):
        """What an import says that starts while another one is under way."""
        path = self.lines()
        make, found = pieces.make_piece, []

        def start_another(settings, piece):
            if not found:
                found.append(None)
                found[0] = self.run_(path, *arguments)
            return make(settings, piece)

        with mock.patch.object(command, "make_piece", start_another):
            code, _, err = self.run_(path, "--eval-out", self.folder / "eval.tokens",
                                     "--eval-share", "0.3")
        self.assertEqual(code, 0, err)
        return found[0]

    def test_two_imports_with_any_result_in_common_do_not_meet(self):
        evaluation, second = self.folder / "eval.tokens", self.folder / "second.tokens"
        for arguments, held in (
                (("--out", second, "--eval-out", evaluation), evaluation),
                (("--out", second, "--eval-out", self.out), self.out),
                (("--out", evaluation), evaluation),
                (("--out", f"{self.out}.json"), f"{self.out}.json")):
            share = ("--eval-share", "0.3") if "--eval-out" in arguments else ()
            code, _, err = self.starts_meanwhile(*arguments, *share)
            self.assertEqual(code, 1, err)
            self.assertIn(f"another import writes {held} (process {os.getpid()} on "
                          f"{socket.gethostname()}, with --out {self.out}); wait for its end, or "
                          "give the result another name", err)
            self.assertEqual(list(self.folder.glob("*.import")), [])
            self.assertFalse(second.exists())
        code, _, err = self.starts_meanwhile("--out", second)
        self.assertEqual(code, 0, err)
        self.assertEqual(read(second)[2], tokens_of(TEXTS))

    def test_locks_of_imports_that_were_killed_hold_nobody_up(self):
        evaluation = self.folder / "eval.tokens"
        for name in ("out.tokens", "out.tokens.json", "eval.tokens"):
            (self.folder / f"{name}.import").mkdir()
            (self.folder / f"{name}.import/lock").write_text("process 1 on w0")
        # Of an import with this --out, which goes on later.
        piece = self.folder / "eval.tokens.import/1.train"
        piece.write_bytes(b"")
        code, _, err = self.run_(self.lines(), "--eval-out", evaluation, "--eval-share", "0.3")
        self.assertEqual(code, 0, err)
        self.assertEqual([str(one) for one in self.folder.rglob("*.import/*")], [str(piece)])

    def test_an_import_that_ends_meanwhile_takes_its_folder_with_it(self):
        take = fcntl.flock

        def end_the_other(lock, how):
            shutil.rmtree(f"{self.out}.import")
            os.mkdir(f"{self.out}.import")
            open(f"{self.out}.import/lock", "wb").close()  # That of a third one.
            take(lock, how)

        with mock.patch.object(fcntl, "flock", end_the_other):
            self.fails("another import writes", self.lines())
