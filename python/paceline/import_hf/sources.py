"""Files with texts, and the pieces that they are divided into, which are the same at each start."""

from __future__ import annotations

import gzip
import hashlib
import importlib
import itertools
import json
import os
import sys
import zlib
from collections import Counter
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

# A piece of a file has about so much, of bytes and of rows.
_PIECE_BYTES = 16 << 20
_PIECE_ROWS = 20000
_KINDS = ((".jsonl", "jsonl"), (".ndjson", "jsonl"), (".jsonl.gz", "gzip"),
          (".json.gz", "gzip"), (".parquet", "parquet"), (".arrow", "arrow"))


class Problem(Exception):
    """What the person who imports has to know, and can change."""


class File(NamedTuple):
    """A file as it was found."""

    path: str  # Absolute.
    kind: str  # "jsonl", "gzip", "parquet", "arrow".
    bytes: int
    modified_ns: int
    changed_ns: int  # Which nobody sets: a copy or an archive may keep modified_ns.


class Piece(NamedTuple):
    """A part of a file: bytes of "jsonl", row groups of "parquet", record batches of "arrow"."""

    file: File
    begin: int
    end: int

    @property
    def name(self) -> str:
        """Of this part of the file as it was found: another one if the file has changed."""
        return hashlib.blake2b(json.dumps(self).encode(), digest_size=16).hexdigest()


def library(name: str) -> Any:
    """The module, or a Problem that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.split(".")[0]
        raise Problem(
            f"the library {package} is needed, and {sys.executable} cannot import it ({error}); "
            f"install it (pip install {package}), or activate the environment that has it"
        ) from error


def find_files(paths: Iterable[str], split: Optional[str]) -> List[File]:
    """All files, in the order of the paths; those of a folder by name."""
    found: List[File] = []
    for path in paths:
        if split is not None and not os.path.exists(_list_of_splits(path)):
            raise Problem(f"{path} is no saved dataset with splits; leave --split out, and name "
                          "the files of the split instead")
        names = _below(path, split) if os.path.isdir(path) else [path]
        for name in names:
            status = _status(name)
            kind = _kind(name)
            if kind is None:
                raise Problem(f"{name} is of no known kind; known are a folder of datasets' "
                              "save_to_disk, and names that end in "
                              + ", ".join(ending for ending, _ in _KINDS))
            found.append(File(os.path.realpath(name), kind, *_identity(status)))
    for file, times in Counter(found).items():
        if times > 1:
            raise Problem(f"{file.path} is given twice")
    return found


def is_unchanged(file: File) -> bool:
    """Whether the file is as it was found."""
    return _identity(_status(file.path)) == (file.bytes, file.modified_ns, file.changed_ns)


def pieces_of(file: File) -> List[Piece]:
    """The pieces of a file, in its order."""
    if file.kind == "jsonl":
        edges = range(0, file.bytes, _PIECE_BYTES)
        ends = [*edges[1:], file.bytes]
        return [Piece(file, begin, end) for begin, end in zip(edges, ends)]
    if file.kind == "gzip":
        return [Piece(file, 0, 1)]
    if file.kind == "parquet":
        metadata = _read(file.path, lambda: library("pyarrow.parquet").read_metadata(file.path))
        sizes = [metadata.row_group(i).total_byte_size for i in range(metadata.num_row_groups)]
        limit = _PIECE_BYTES
    else:
        sizes = _read(file.path, lambda: [one.num_rows for one in _record_batches(file.path)])
        limit = _PIECE_ROWS
    return [Piece(file, begin, end) for begin, end in _runs(sizes, limit)]


def texts_of(piece: Piece, column: str) -> Iterator[str]:
    """The texts of a piece; those that are null are left out."""
    rows = {"jsonl": _lines, "gzip": _gzip_lines, "parquet": _parquet_rows,
            "arrow": _arrow_rows}[piece.file.kind]
    for where, text in rows(piece, column):
        if text is None:
            continue
        if not isinstance(text, str):
            raise Problem(f"{piece.file.path}: {where}: {column} is no text, but a "
                          f"{type(text).__name__}; --column names the one with the texts")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Problem(f"{piece.file.path}: {where}: {column} has half of a surrogate pair at "
                          f"its character {error.start}, which is no text; remove it, or the row"
                          ) from error
        yield text


def _status(path: str) -> os.stat_result:
    try:
        return os.stat(path)
    except OSError as error:
        raise Problem(f"{path} cannot be read: {error.strerror}") from error


def _identity(status: os.stat_result) -> Tuple[int, int, int]:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _kind(path: str) -> Optional[str]:
    kinds = [kind for ending, kind in _KINDS if path.endswith(ending)]
    return kinds[0] if kinds else None


def _below(folder: str, split: Optional[str]) -> List[str]:
    """The files of a folder: a dataset that was saved, or all files of known kinds below it."""
    splits = _list_of_splits(folder)
    if os.path.exists(splits):
        names = _names(splits, _json(splits).get("splits"))
        if split is None and len(names) != 1:
            raise Problem(f"{folder} has the splits {', '.join(names)}; choose one with --split")
        if split is not None and split not in names:
            raise Problem(f"{folder} has no split {split}, but {', '.join(names)}")
        return _saved_dataset(os.path.join(folder, split or names[0]))
    if os.path.exists(os.path.join(folder, "state.json")):
        return _saved_dataset(folder)
    found = os.walk(folder, onerror=_refuse_unreadable)
    names = sorted(os.path.join(where, name) for where, _, files in found
                   for name in files if _kind(name) is not None)
    if not names:
        raise Problem(f"{folder} has no file whose name ends in "
                      + ", ".join(ending for ending, _ in _KINDS))
    return names


def _refuse_unreadable(error: OSError) -> None:
    """What is in a folder below would be missing in silence."""
    raise Problem(f"{error.filename} cannot be read: {error.strerror}") from error


def _list_of_splits(folder: str) -> str:
    return os.path.join(folder, "dataset_dict.json")


def _names(path: str, found: object) -> List[str]:
    """A list that a dataset has of what lies beside it: no name leads elsewhere."""
    listed: Any = found
    if not isinstance(found, list) or not all(
            isinstance(one, str) and one not in ("", ".", "..") and os.path.basename(one) == one
            for one in listed):
        raise Problem(f"{path} is no list of datasets' save_to_disk, whose names lie beside it")
    return [*listed]


def _saved_dataset(folder: str) -> List[str]:
    """Of `Dataset.save_to_disk`: what state.json names, in its order."""
    path = os.path.join(folder, "state.json")
    state = _json(path)
    if state.get("_indices_data_files"):
        raise Problem(f"{folder} has its rows in the order of a list of indices; save it with a "
                      "newer version of datasets, or behind flatten_indices()")
    files: Any = state.get("_data_files")
    named = None if not hasattr(files, "append") else [
        one.get("filename") if hasattr(one, "keys") else None for one in files]
    return [os.path.join(folder, name) for name in _names(path, named)]


def _json(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            value: Any = json.load(file)
    except (OSError, ValueError) as error:
        raise Problem(f"{path} cannot be read: {error}") from error
    if not hasattr(value, "keys"):
        raise Problem(f"{path} is no list of datasets' save_to_disk")
    found: Dict[str, Any] = value
    return found


def _runs(sizes: List[int], limit: int) -> Iterator[Tuple[int, int]]:
    """Runs of neighbours, which end as soon as they have reached the limit."""
    begin, size = 0, 0
    for end, one in enumerate(sizes, 1):
        size += one
        if size >= limit or end == len(sizes):
            yield begin, end
            begin, size = end, 0


def _read(path: str, read: Any) -> Any:
    """Calls a function of pyarrow's, whose errors do not name the file: also that of a text that is
    no UTF-8."""
    try:
        return read()
    except Problem:
        raise
    except (OSError, ValueError, NotImplementedError) as error:  # pyarrow's are one of them.
        raise Problem(f"{path} cannot be read: {error}") from error


def _field(where: str, line: bytes, column: str) -> object:
    try:
        row: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Problem(f"{where}: not JSON: {error}") from error
    if not hasattr(row, "keys"):
        raise Problem(f"{where}: a line is to be an object, such as {{\"{column}\": \"...\"}}")
    if column not in row:
        raise Problem(f"{where}: there is no {column}, but {', '.join(map(str, row))}; --column "
                      "names the one with the texts")
    value: object = row[column]
    return value


def _lines(piece: Piece, column: str) -> Iterator[Tuple[str, object]]:
    """Of the lines that begin in the piece."""
    with open(piece.file.path, "rb") as file:
        if piece.begin > 0:
            file.seek(piece.begin - 1)
            file.readline()  # The rest of one that begins before.
        at = file.tell()
        while at < piece.end:
            line = file.readline()
            if not line:
                return
            where = f"at offset {at}"
            at += len(line)
            if line.strip():
                yield where, _field(f"{piece.file.path}: {where}", line, column)


def _gzip_lines(piece: Piece, column: str) -> Iterator[Tuple[str, object]]:
    try:
        with gzip.open(piece.file.path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    where = f"line {number}"
                    yield where, _field(f"{piece.file.path}: {where}", line, column)
    except (OSError, EOFError, zlib.error) as error:
        raise Problem(f"{piece.file.path} cannot be read: {error}") from error


def _parquet_rows(piece: Piece, column: str) -> Iterator[Tuple[str, object]]:
    def batches() -> Iterator[Any]:
        file = library("pyarrow.parquet").ParquetFile(piece.file.path)
        _check_column(piece.file.path, file.schema_arrow.names, column)
        groups = list(range(piece.begin, piece.end))
        rows: Iterator[Any] = file.iter_batches(1024, row_groups=groups, columns=[column])
        return rows
    found: Iterator[Any] = _read(piece.file.path, batches)
    while True:
        batch = _read(piece.file.path, lambda: next(found, None))
        if batch is None:
            return
        for text in _read(piece.file.path, batch.column(0).to_pylist):
            yield f"row groups {piece.begin} to {piece.end - 1}", text


def _arrow_rows(piece: Piece, column: str) -> Iterator[Tuple[str, object]]:
    found = itertools.islice(_record_batches(piece.file.path), piece.begin, piece.end)
    for number in itertools.count(piece.begin):
        batch = _read(piece.file.path, lambda: next(found, None))
        if batch is None:
            return
        _check_column(piece.file.path, batch.schema.names, column)
        texts = batch.column(batch.schema.get_field_index(column))
        for text in _read(piece.file.path, texts.to_pylist):
            yield f"record batch {number}", text


def _record_batches(path: str) -> Iterator[Any]:
    """Of both of Arrow's formats: datasets writes streams."""
    arrow = library("pyarrow")
    ipc = library("pyarrow.ipc")
    with open(path, "rb") as file:
        is_file = file.read(6) == b"ARROW1"
    with arrow.memory_map(path) as source:
        if not is_file:
            yield from ipc.open_stream(source)
            return
        reader = ipc.open_file(source)
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)


def _check_column(path: str, names: List[str], column: str) -> None:
    if names.count(column) != 1:
        raise Problem(f"{path} has no column {column}, but {', '.join(names)}; --column names the "
                      "one with the texts")
