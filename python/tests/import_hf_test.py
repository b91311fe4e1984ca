"""`python -m paceline.import_hf`, as `paceline data import-hf` runs it: what it reads and makes."""

import errno
import gzip
import json
import os
import pathlib
import shutil
import sys
import unittest
from unittest import mock

import pyarrow
import pyarrow.parquet
import tokenizers

sys.path.insert(0, os.path.abspath("python"))
from import_hf_fixture import TEXTS, WORDS, ImportFixture, read, tokens_of  # noqa: E402
from import_hf_resume_cases import ResumeTest  # noqa: E402, F401  # pylint: disable=unused-import
from paceline.import_hf import __main__ as command  # noqa: E402
from paceline.import_hf import pieces, sources  # noqa: E402


class ImportTest(ImportFixture):
    """Sources of each kind, the tokens that are made of them, and what is refused."""

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

    def test_a_folder_that_cannot_be_read_is_not_left_out(self):
        self.lines("1.jsonl")
        locked = self.folder / "locked"
        locked.mkdir()
        scan = os.scandir

        def refuse(path):
            if str(path) == str(locked):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
            return scan(path)

        with mock.patch.object(os, "scandir", refuse):
            self.fails(f"{locked} cannot be read: Permission denied", self.folder)

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
        latin = pyarrow.array([b"a", b"caf\xe9"]).cast(pyarrow.string(), safe=False)
        pyarrow.parquet.write_table(pyarrow.table({"text": latin}), parquet)
        arrow = self.folder / "texts.arrow"
        self.stream(arrow, latin)
        for one in (parquet, arrow):
            self.fails(f"{one} cannot be read: 'utf-8' codec can't decode", one)
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
