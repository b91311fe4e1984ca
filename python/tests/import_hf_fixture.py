"""What tests of `python -m paceline.import_hf` import, and how."""

import array
import contextlib
import hashlib
import io
import json
import os
import pathlib
import struct
import sys
import tempfile
import unittest
from unittest import mock

import tokenizers

sys.path.insert(0, os.path.abspath("python"))
from paceline.import_hf import __main__ as command  # noqa: E402
from paceline.import_hf import sources  # noqa: E402

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


class ImportFixture(unittest.TestCase):
    """Imports in a folder of their own, of sources in small pieces."""

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
