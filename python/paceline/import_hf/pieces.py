"""Makes tokens of one piece of a file, in files of its own: what the processes of an import do."""

from __future__ import annotations

import array
import contextlib
import hashlib
import json
import multiprocessing
import os
import signal
import sys
import threading
from multiprocessing.process import BaseProcess
from typing import Any, Dict, Generator, List, NamedTuple, Optional

from paceline.import_hf.sources import Piece, Problem, library, texts_of

# What the tokenizer gets at a time: so many texts, or as many as have so many characters.
_TEXTS_AT_A_TIME = 256
_CHARACTERS_AT_A_TIME = 4 << 20


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


def path_of(folder: str, piece: Piece, part: str) -> str:
    """`part`: "train", "eval", or "json" of the counts, which is written last."""
    return os.path.join(folder, f"{piece.name}.{part}")


def counts_of(settings: Settings, piece: Piece) -> Optional[Counts]:
    """Of a piece that is complete."""
    try:
        with open(path_of(settings.folder, piece, "json"), encoding="utf-8") as file:
            counts = Counts(*json.load(file))
        sizes = [os.path.getsize(path_of(settings.folder, piece, part))
                 for part in ("train", "eval")]
    except (OSError, ValueError, TypeError):
        return None
    expected = [settings.token_bytes * count for count in (counts.tokens, counts.eval_tokens)]
    return counts if sizes == expected else None


def begin_process() -> None:
    """Ctrl-C reaches all processes of a terminal; the first one ends the others, which also end if
    it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(1)


def make_piece(settings: Settings, piece: Piece) -> Counts:
    """Writes the piece's tokens, whole or not at all."""
    tokenizer = _tokenizer(settings.tokenizer)
    parts = {part: _Part(path_of(settings.folder, piece, part), settings)
             for part in ("train", "eval")}
    waiting: List[str] = []
    characters = 0

    def flush() -> None:
        try:
            encodings = tokenizer.encode_batch(waiting, add_special_tokens=False)
        except Exception as error:  # The library raises no narrower one.
            raise Problem(f"{piece.file.path}: the tokenizer {settings.tokenizer} cannot make "
                          f"tokens of its texts: {error}") from error
        for text, encoding in zip(waiting, encodings):
            part = "eval" if _is_for_evaluation(text, settings.eval_share) else "train"
            parts[part].add(encoding.ids)
        waiting.clear()

    try:
        for text in texts_of(piece, settings.column):
            waiting.append(text)
            characters += len(text)
            if len(waiting) == _TEXTS_AT_A_TIME or characters >= _CHARACTERS_AT_A_TIME:
                flush()
                characters = 0
        flush()
        for part in parts.values():
            part.finish()
    finally:
        for part in parts.values():
            part.close()
    train, evaluation = parts["train"], parts["eval"]
    counts = Counts(train.texts, train.tokens, evaluation.texts, evaluation.tokens)
    write_whole(path_of(settings.folder, piece, "json"), json.dumps(counts).encode())
    return counts


def write_whole(path: str, content: bytes) -> None:
    """Replaces the file, or leaves it as it was."""
    with writing(path):
        with open(_new(path), "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(_new(path), path)


@contextlib.contextmanager
def writing(path: str) -> Generator[None, None, None]:
    """Errors of what is done meanwhile are told as those of the file."""
    try:
        yield
    except OSError as error:
        raise Problem(f"{path} cannot be written: {error.strerror or error}; the same command goes "
                      "on from the pieces that are complete") from error


def _new(path: str) -> str:
    """The name under which this process writes the file: one that was left over by an import that
    was killed may still write its own."""
    return f"{path}.{os.getpid()}.new"


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
        with writing(path):
            self._file = open(_new(path), "wb")  # noqa: SIM115

    def add(self, ids: List[int]) -> None:
        """Of one text."""
        tokens = array.array(self._type, [*ids, *self._end])
        if sys.byteorder == "big":
            tokens.byteswap()
        with writing(self._path):
            tokens.tofile(self._file)
        self.texts += 1
        self.tokens += len(tokens)

    def finish(self) -> None:
        """Puts the file in its place."""
        with writing(self._path):
            self._file.flush()
            os.fsync(self._file.fileno())
            os.replace(_new(self._path), self._path)

    def close(self) -> None:
        """Of a part that is not finished, nothing counts."""
        with contextlib.suppress(OSError):  # What is left to write, on a disk that is full.
            self._file.close()
