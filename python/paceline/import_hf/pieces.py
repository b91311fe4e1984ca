"""Makes tokens of one piece of a file, in files of its own: what the processes of an import do."""

from __future__ import annotations

import array
import hashlib
import json
import os
import signal
import sys
from typing import Any, Dict, List, NamedTuple, Optional

from paceline.import_hf.sources import Piece, library, texts_of

_TEXTS_AT_A_TIME = 256


class Settings(NamedTuple):
    """What the tokens of a piece depend on, besides the piece."""

    tokenizer: str  # File.
    column: str
    end_token: Optional[int]  # Behind each text.
    token_bytes: int
    eval_share: float
    folder: str  # Of the files that are made.


class Counts(NamedTuple):
    """What a piece has, of training and of evaluation."""

    texts: int
    tokens: int
    eval_texts: int
    eval_tokens: int


def open_tokenizer(path: str) -> Any:
    """The tokenizer, without the cutting and filling that is meant for batches of a model."""
    tokenizer = library("tokenizers").Tokenizer.from_file(path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def path_of(folder: str, number: int, part: str) -> str:
    """`part`: "train", "eval", or "json" of the counts, which is written last."""
    return os.path.join(folder, f"{number:06d}.{part}")


def counts_of(settings: Settings, number: int) -> Optional[Counts]:
    """Of a piece that is complete."""
    try:
        with open(path_of(settings.folder, number, "json"), encoding="utf-8") as file:
            counts = Counts(*json.load(file))
        sizes = [os.path.getsize(path_of(settings.folder, number, part))
                 for part in ("train", "eval")]
    except (OSError, ValueError, TypeError):
        return None
    expected = [settings.token_bytes * count for count in (counts.tokens, counts.eval_tokens)]
    return counts if sizes == expected else None


def leave_interrupts_to_the_parent() -> None:
    """Ctrl-C reaches all processes of a terminal; the first one ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def make_piece(settings: Settings, number: int, piece: Piece) -> Counts:
    """Writes the piece's tokens, whole or not at all."""
    tokenizer = _tokenizer(settings.tokenizer)
    parts = {part: _Part(path_of(settings.folder, number, part), settings)
             for part in ("train", "eval")}
    waiting: List[str] = []

    def flush() -> None:
        for text, encoding in zip(waiting, tokenizer.encode_batch(waiting,
                                                                  add_special_tokens=False)):
            part = "eval" if _is_for_evaluation(text, settings.eval_share) else "train"
            parts[part].add(encoding.ids)
        waiting.clear()

    try:
        for text in texts_of(piece, settings.column):
            waiting.append(text)
            if len(waiting) == _TEXTS_AT_A_TIME:
                flush()
        flush()
        for part in parts.values():
            part.finish()
    finally:
        for part in parts.values():
            part.close()
    train, evaluation = parts["train"], parts["eval"]
    counts = Counts(train.texts, train.tokens, evaluation.texts, evaluation.tokens)
    write_whole(path_of(settings.folder, number, "json"), json.dumps(counts).encode())
    return counts


def write_whole(path: str, content: bytes) -> None:
    """Replaces the file, or leaves it as it was."""
    with open(path + ".new", "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


_tokenizers: Dict[str, Any] = {}  # Of this process.


def _tokenizer(path: str) -> Any:
    if path not in _tokenizers:
        # The import has its own processes.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        _tokenizers[path] = open_tokenizer(path)
    return _tokenizers[path]


def _is_for_evaluation(text: str, share: float) -> bool:
    """By the text alone, so that copies of a text are never on both sides."""
    if share == 0:
        return False
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") < share * 2.0**64


class _Part:
    """A file of tokens that grows under another name."""

    def __init__(self, path: str, settings: Settings) -> None:
        self.texts = self.tokens = 0
        self._path = path
        self._type = "H" if settings.token_bytes == 2 else "I"
        self._end = [] if settings.end_token is None else [settings.end_token]
        self._file = open(path + ".new", "wb")  # noqa: SIM115

    def add(self, ids: List[int]) -> None:
        """Of one text."""
        tokens = array.array(self._type, [*ids, *self._end])
        if sys.byteorder == "big":
            tokens.byteswap()
        tokens.tofile(self._file)
        self.texts += 1
        self.tokens += len(tokens)

    def finish(self) -> None:
        """Puts the file in its place."""
        self._file.flush()
        os.fsync(self._file.fileno())
        os.replace(self._path + ".new", self._path)

    def close(self) -> None:
        """Of a part that is not finished, nothing counts."""
        self._file.close()
