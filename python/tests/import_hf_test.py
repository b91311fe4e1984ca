"""`python -m paceline.import_hf`, as `paceline data import-hf` runs it."""

import array
import contextlib
import errno
import fcntl
import gzip
import hashlib
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

import pyarrow
import pyarrow.parquet
import tokenizers

sys.path.insert(0, os.path.abspath("python"))
from paceline.import_hf import __main__ as command  # noqa: E402
from paceline.import_hf import pieces, sources  # noqa: E402

# As cli/verbs/program/python_module.cc starts it.
START = ("import importlib, sys; sys.path.insert(0, sys.argv.pop(1)); "
         "sys.exit(importlib.import_module(sys.argv.pop(1)).run())")
WORDS = ["<end>", "a", "b", "c", "d", "é"]
TEXTS = [" ".join(WORDS[1 + (i + j) % 5] for j in range(1 + i * 7 % 11)) for i in range(700)]


def tokens_of(texts):
    return [WORDS.index(word) for text in texts for word in [*text.split(), "<end>"]]


def read(path):
    """The header and the tokens of a token file."""
    data = pathlib.Path(path).read_bytes()
    magic, version, size, count, vocab, offset, digest = struct.unpack("<8sIIQQQ24s", data[:64])
    assert (magic, version, offset) == (b"PCLTOKEN", 1, 64), data[:64]
    assert digest == hashlib.sha256(data[64:]).digest()[:24]
    tokens = array.array("H" if size == 2 else "I", data[64:])
    assert len(tokens) == count
    return size, vocab, list(tokens)


def child_of(parent):
    """A process that reads texts for the import."""
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(fields[1]) == parent and b"spawn_main" in (stat.parent / "cmdline").read_bytes():
                return int(stat.parent.name)
    raise AssertionError(f"{parent} has no child")


class ImportTest(unittest.TestCase):
    """Sources of each kind, and what becomes of an import that is cut off."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(
            {word: i for i, word in enumerate(WORDS)}, unk_token="<end>"))
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        # Meant for batches of a model; a text is to be whole.
        tokenizer.enable_truncation(3)
        tokenizer.enable_padding(length=5)
        self.tokenizer = self.folder / "tokenizer.json"
        tokenizer.save(str(self.tokenizer))
        self.out = self.folder / "out.tokens"
        # Small pieces.
        for name, value in (("_PIECE_BYTES", 1000), ("_PIECE_ROWS", 90)):
            patch = mock.patch.object(sources, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def run_(self, *arguments, workers=1, end="<end>"):
        out, err = io.StringIO(), io.StringIO()
        given = ["--tokenizer", str(self.tokenizer), "--out", str(self.out),
                 "--workers", str(workers), *map(str, arguments)]
        if end is not None:
            given += ["--end-token", end]
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = command.run(given)
        return code, out.getvalue(), err.getvalue()

    def fails(self, text, *arguments, **more):
        code, _, err = self.run_(*arguments, **more)
        self.assertNotEqual(code, 0)
        self.assertIn(text, err)
        self.assertFalse(self.out.exists())

    def imports(self, texts, *arguments, **more):
        code, _, err = self.run_(*arguments, **more)
        self.assertEqual(code, 0, err)
        self.assertEqual(read(self.out), (2, len(WORDS), tokens_of(texts)))
        self.assertEqual(list(self.folder.glob("*.import")), [])

    def lines(self, name="texts.jsonl", texts=None):
        path = self.folder / name
        path.write_text("".join(json.dumps({"id": i, "text": text}, ensure_ascii=False) + "\n"
                                for i, text in enumerate(TEXTS if texts is None else texts)),
                        encoding="utf-8")
        return path

    def stream(self, path, texts):
        """As datasets writes it."""
        table = pyarrow.table({"text": texts})
        with pyarrow.ipc.new_stream(str(path), table.schema) as writer:
            writer.write_table(table, max_chunksize=40)

    def dataset(self, path, texts):
        path.mkdir(parents=True)
        for i, part in enumerate((texts[:300], texts[300:])):
            self.stream(path / f"data-{i:05d}-of-00002.arrow", part)
        (path / "state.json").write_text(json.dumps({"_data_files": [
            {"filename": f"data-{i:05d}-of-00002.arrow"} for i in range(2)]}))
        return path

    def test_json_lines(self):
        path = self.lines()
        self.assertGreater(len(sources.pieces_of(sources.find_files([str(path)], None)[0])), 20)
        self.imports(TEXTS, path)

    def test_json_lines_belong_to_the_piece_in_which_they_begin(self):
        path = self.lines(texts=TEXTS[:40])
        for size in range(1, 200):
            with mock.patch.object(sources, "_PIECE_BYTES", size):
                parts = sources.pieces_of(sources.find_files([str(path)], None)[0])
                found = [text for part in parts for text in sources.texts_of(part, "text")]
                self.assertEqual(found, TEXTS[:40], size)

    def test_compressed_lines(self):
        path = self.folder / "texts.jsonl.gz"
        path.write_bytes(gzip.compress(self.lines().read_bytes()))
        self.imports(TEXTS, path)

    def test_parquet(self):
        path = self.folder / "texts.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"n": list(range(700)), "text": TEXTS}), path,
                                    row_group_size=64)
        self.assertGreater(len(sources.pieces_of(sources.find_files([str(path)], None)[0])), 2)
        self.imports(TEXTS, path)

    def test_a_dataset_that_was_saved(self):
        path = self.dataset(self.folder / "saved", TEXTS)
        files = sources.find_files([str(path)], None)
        self.assertEqual([len(sources.pieces_of(one)) for one in files], [3, 4])
        self.imports(TEXTS, path)

    def test_splits_of_a_dataset(self):
        for name in ("train", "test"):
            self.dataset(self.folder / "saved" / name, TEXTS[name == "test":])
        (self.folder / "saved/dataset_dict.json").write_text('{"splits": ["train", "test"]}')
        self.fails("has the splits train, test; choose one with --split", self.folder / "saved")
        self.fails("has no split dev", self.folder / "saved", "--split", "dev")
        self.imports(TEXTS[1:], self.folder / "saved", "--split", "test")

    def test_lists_of_a_dataset_that_lead_elsewhere(self):
        path = self.dataset(self.folder / "saved", TEXTS)
        for state in ([], {}, {"_data_files": 3}, {"_data_files": ["data.arrow"]},
                      {"_data_files": [{"filename": "../secret.arrow"}]},
                      {"_data_files": [{"filename": "/secret.arrow"}]},
                      {"_data_files": [{"filename": ".."}]}):
            (path / "state.json").write_text(json.dumps(state))
            self.fails("is no list of datasets' save_to_disk", path)
        (path / "dataset_dict.json").write_text('{"splits": ["../other"]}')
        self.fails("is no list of datasets' save_to_disk", path)

    def test_arrow_files_and_folders_of_files(self):
        folder = self.folder / "all"
        folder.mkdir()
        table = pyarrow.table({"text": TEXTS[:500]})
        with pyarrow.ipc.new_file(str(folder / "1.arrow"), table.schema) as writer:
            writer.write_table(table, max_chunksize=30)
        self.lines("all/2.jsonl", TEXTS[500:])
        (folder / "README.md").write_text("not data")
        self.imports(TEXTS, folder)

    def test_texts_that_are_null_are_left_out(self):
        path = self.folder / "texts.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"text": ["a b", None, "c"]}), path)
        self.imports(["a b", "c"], path)

    def test_processes_make_the_same(self):
        self.imports(TEXTS, self.lines(), workers=2)

    def test_some_texts_are_for_evaluation_by_what_they_say(self):
        evaluation = self.folder / "eval.tokens"
        code, out, err = self.run_(self.lines(), "--eval-out", evaluation, "--eval-share", "0.3",
                                   "--output", "json")
        self.assertEqual(code, 0, err)
        made = json.loads(out)
        chosen = [text for text in TEXTS if pieces._is_for_evaluation(text, 0.3)]
        rest = [text for text in TEXTS if not pieces._is_for_evaluation(text, 0.3)]
        self.assertFalse(set(chosen) & set(rest))
        self.assertGreater(len(chosen), 0)
        self.assertEqual(read(evaluation)[2], tokens_of(chosen))
        self.assertEqual(read(self.out)[2], tokens_of(rest))
        self.assertEqual([one["texts"] for one in made["files"]], [len(rest), len(chosen)])
        self.assertEqual(made["files"][0]["hash"], self.out.read_bytes()[40:64].hex())
        self.assertEqual(json.loads((self.folder / "out.tokens.json").read_text()), made)

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

    def test_results_that_cannot_be_written_are_refused_at_once(self):
        path = self.lines()
        with mock.patch.object(command, "make_piece", side_effect=AssertionError):
            for out, text in ((path, "is read, and would be overwritten"),
                              (self.tokenizer, "is read, and would be overwritten"),
                              (self.folder, "is a folder"),
                              (f"{self.out}.json", "that of --out's description")):
                self.fails(text, path, "--eval-out", out, "--eval-share", "0.1")
        evaluation = self.folder / "new" / "eval.tokens"
        code, _, err = self.run_(path, "--eval-out", evaluation, "--eval-share", "0.5")
        self.assertEqual(code, 0, err)
        self.assertTrue(evaluation.exists())

    def test_large_texts_are_not_held_together(self):
        path = self.lines()
        with mock.patch.object(pieces, "_CHARACTERS_AT_A_TIME", 50):
            self.imports(TEXTS, path)

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

    def test_the_end_token_is_the_tokenizers_own(self):
        path = self.lines()
        self.fails("nothing says which token ends a text", path, end=None)
        beside = self.folder / "tokenizer_config.json"
        beside.write_text('{"eos_token": {"content": "<end>"}}')
        self.imports(TEXTS, path, end=None)
        beside.write_text('{"eos_token": "<end>"}')
        self.imports(TEXTS, path, end=None)
        for content in ("[]", "{}", '{"eos_token": {}}', "no JSON"):
            self.out.unlink(missing_ok=True)
            beside.write_text(content)
            self.fails("nothing says which token ends a text", path, end=None)
        code, _, err = self.run_(path, end="")
        self.assertEqual(code, 0, err)
        self.assertEqual(read(self.out)[2], [one for one in tokens_of(TEXTS) if one != 0])

    def test_large_vocabularies_have_wide_tokens(self):
        large = tokenizers.Tokenizer(tokenizers.models.WordLevel(
            {**{word: i for i, word in enumerate(WORDS)}, "x": 70000}, unk_token="<end>"))
        large.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        large.save(str(self.tokenizer))
        self.assertEqual(self.run_(self.lines(texts=["a x"]))[0], 0)
        self.assertEqual(read(self.out), (4, 70001, [1, 70000, 0]))

    def test_what_is_wrong_is_said_with_its_place(self):
        path = self.folder / "texts.jsonl"
        for content, text in (
                ('{"text": "a"}\n{"text": 3}\n', "at offset 14: text is no text, but a int"),
                ('{"text": "a"}\n{"content": "b"}\n',
                 "at offset 14: there is no text, but content"),
                ('{"text": "a"}\n["b"]\n', "at offset 14: a line is to be an object"),
                ('{"text": "a"\n', "at offset 0: not JSON"),
                ("[" * 100000 + "\n", "at offset 0: not JSON"),
                ('{"text": "a"}\n{"text": "b\\ud83d"}\n',
                 "at offset 14: text has half of a surrogate pair at its character 1"),
                ("", "the sources hold no texts"),
                ("\n\n", "out.tokens would have no tokens")):
            path.write_text(content, encoding="utf-8")
            self.fails(text, path)
            for one in pathlib.Path(f"{self.out}.import").glob("*"):
                one.unlink()
        parquet = self.folder / "texts.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"content": ["a"]}), parquet)
        self.fails("has no column text, but content", parquet)
        parquet.write_bytes(b"no parquet")
        self.fails(f"{parquet} cannot be read", parquet)
        shutil.rmtree(f"{self.out}.import")
        packed = self.folder / "texts.json.gz"
        packed.write_bytes(gzip.compress(b'{"text": "a"}\n' * 99)[:-20] + b"\0" * 30)
        self.fails(f"{packed} cannot be read", packed)
        shutil.rmtree(f"{self.out}.import")
        self.fails("is no saved dataset with splits; leave --split out", packed, "--split", "train")
        self.fails("is of no known kind", self.tokenizer)
        self.fails("cannot be read: No such file", self.folder / "none.jsonl")
        self.fails("is given twice", self.lines(), path)
        self.fails("has no token <eos>", path, end="<eos>")
        self.tokenizer.write_text("{}")
        self.fails("is no file of the library tokenizers", path)

    def test_flags_that_do_not_go_together(self):
        path = self.lines()
        self.fails("--eval-out and --eval-share go together", path, "--eval-share", "0.1")
        self.fails("allowed is 0 < x < 1", path, "--eval-out", "e", "--eval-share", "1")
        self.fails("allowed is 1 and more", path, workers=0)
        self.fails("name the same file", path, "--eval-out", self.out, "--eval-share", "0.1")

    def test_a_library_that_is_missing_is_named(self):
        with mock.patch.dict(sys.modules, {"pyarrow": None, "pyarrow.parquet": None}):
            self.imports(TEXTS, self.lines())
            self.out.unlink()
            (self.folder / "texts.parquet").write_bytes(b"")
            self.fails("the library pyarrow is needed, and", self.folder / "texts.parquet")
        with mock.patch.dict(sys.modules, {"tokenizers": None}):
            self.fails("the library tokenizers is needed", self.lines())


if __name__ == "__main__":
    unittest.main()
