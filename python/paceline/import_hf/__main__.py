"""`python -m paceline.import_hf`: what `paceline data import-hf` runs."""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import re
import shutil
import sys
import time
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

from paceline.import_hf.joining import join
from paceline.import_hf.locks import folder_beside, locked
from paceline.import_hf.pieces import (Counts, Settings, begin_process, counts_of, make_piece,
                                       open_tokenizer, path_of, write_whole)
from paceline.import_hf.sources import (File, Piece, Problem, find_files, is_unchanged, library,
                                        pieces_of)

# Exit codes of `paceline` (cli/exit_codes.h).
_OK, _FAILED, _USAGE = 0, 1, 2
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
_REPORT_EVERY_S = 2.0


class _Tokenizer(NamedTuple):
    path: str  # Of tokenizer.json.
    sha256: str
    library: str  # Its version.
    vocab_size: int
    end_token: Optional[int]

    @property
    def token_bytes(self) -> int:
        """Bytes of a token in the file."""
        return 2 if self.vocab_size <= 1 << 16 else 4


class _Import(NamedTuple):
    files: List[File]
    pieces: List[Piece]
    tokenizer: _Tokenizer
    settings: Settings
    out: str
    eval_out: Optional[str]
    outputs: List[str]  # Both, and out's description.
    workers: int


def main(arguments: List[str]) -> int:
    """Returns the exit code."""
    flags = _parser().parse_args(arguments)
    if (flags.eval_out is None) != (flags.eval_share is None):
        return _fail("--eval-out and --eval-share go together", _USAGE)
    if flags.eval_share is not None and not 0 < flags.eval_share < 1:
        return _fail(f"--eval-share is {flags.eval_share}; allowed is 0 < x < 1", _USAGE)
    if flags.workers < 1:
        return _fail(f"--workers is {flags.workers}; allowed is 1 and more", _USAGE)
    try:
        made = _run(_plan(flags))
    except (Problem, OSError) as error:
        return _fail(str(error), _FAILED)
    if flags.output == "json":
        print(json.dumps(made, indent=2))
        return _OK
    for one in made["files"]:
        print(_CONTROL.sub("?", f"{one['path']}  {one['texts']:,} texts, {one['tokens']:,} tokens, "
                                f"hash {one['hash'][:12]}"))
    return _OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="paceline data import-hf", description=(
        "Makes a token file of texts in datasets, Parquet, Arrow or JSON lines."))
    parser.add_argument("sources", metavar="SOURCE", nargs="+")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--column", default="text")
    parser.add_argument("--split")
    parser.add_argument("--end-token")
    parser.add_argument("--eval-out")
    parser.add_argument("--eval-share", type=float)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--output", choices=("table", "json"), default="table")
    return parser


def _plan(flags: argparse.Namespace) -> _Import:
    files = find_files(flags.sources, flags.split)
    tokenizer = _find_tokenizer(flags.tokenizer, flags.end_token)
    pieces = [piece for file in files for piece in pieces_of(file)]
    out = os.path.realpath(flags.out)
    settings = Settings(tokenizer.path, flags.column, tokenizer.end_token, tokenizer.token_bytes,
                        flags.eval_share or 0.0, folder_beside(out))
    eval_out = None if flags.eval_out is None else os.path.realpath(flags.eval_out)
    outputs = [out, out + ".json"] + ([] if eval_out is None else [eval_out])
    _check_outputs(outputs, [file.path for file in files] + [tokenizer.path])
    return _Import(files, pieces, tokenizer, settings, out, eval_out, outputs, flags.workers)


def _check_outputs(outputs: List[str], inputs: List[str]) -> None:
    """What would only fail when all tokens are made."""
    if len(set(outputs)) < len(outputs):
        raise Problem("--out and --eval-out name the same file, or that of --out's description, "
                      f"{outputs[1]}")
    for path in outputs:
        folder = os.path.dirname(path)
        if path in inputs:
            raise Problem(f"{path} is read, and would be overwritten; give the result another name")
        if os.path.isdir(path):
            raise Problem(f"{path} is a folder; give the name of a file in it")
        os.makedirs(folder, exist_ok=True)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise Problem(f"{folder} cannot be written; give the result another place")


def _find_tokenizer(path: str, end_token: Optional[str]) -> _Tokenizer:
    """`path`: of a tokenizer.json, or of the folder that has it."""
    file = os.path.join(path, "tokenizer.json") if os.path.isdir(path) else path
    try:
        with open(file, "rb") as opened:
            sha256 = hashlib.sha256(opened.read()).hexdigest()
    except OSError as error:
        raise Problem(f"the tokenizer {file} cannot be read: {error.strerror}") from error
    try:
        tokenizer = open_tokenizer(file)
    except Problem:
        raise
    except Exception as error:  # The library raises no narrower one.
        raise Problem(f"{file} is no file of the library tokenizers: {error}") from error
    if end_token is None:
        end_token = _end_token_of(file)
    end = None
    if end_token:
        end = tokenizer.token_to_id(end_token)
        if end is None:
            raise Problem(f"{file} has no token {end_token}; --end-token names the one that ends a "
                          "text")
    vocab: Dict[str, int] = tokenizer.get_vocab(with_added_tokens=True)
    return _Tokenizer(os.path.realpath(file), sha256, str(library("tokenizers").__version__),
                      max(vocab.values(), default=0) + 1, end)


def _end_token_of(file: str) -> str:
    """As the file beside the tokenizer's says it."""
    beside = os.path.join(os.path.dirname(os.path.realpath(file)), "tokenizer_config.json")
    try:
        with open(beside, encoding="utf-8") as opened:
            config: Any = json.load(opened)
    except (OSError, ValueError):
        config = None
    # A text, or an object with the text.
    end: Any = config.get("eos_token") if hasattr(config, "keys") else None
    found: object = end.get("content") if hasattr(end, "keys") else end
    if not isinstance(found, str) or not found:
        raise Problem("nothing says which token ends a text, since there is no "
                      f"tokenizer_config.json with an eos_token beside {file}; give --end-token "
                      "TOKEN, or --end-token '' for none")
    return found


def _run(job: _Import) -> Dict[str, Any]:
    """Makes the pieces that are missing, and joins all. Returns what was made."""
    if not job.pieces:
        raise Problem("the sources hold no texts")
    with locked(job.outputs, job.out):
        _check_plan(job)
        counts = _make_pieces(job)
        for file in job.files:
            if not is_unchanged(file):
                raise Problem(f"{file.path} has changed while it was read; the same command reads "
                              "it again")
        made = _join(job, counts)
        # All is made. On NFS the lock, which is open, stays in the folder until it is closed.
        shutil.rmtree(job.settings.folder, ignore_errors=True)
    return made


def _check_plan(job: _Import) -> None:
    """The pieces that are there already were made as this import makes them; of which sources they
    are, their names say."""
    plan = {"tokenizer": job.tokenizer.sha256, "version of tokenizers": job.tokenizer.library,
            "end token": job.tokenizer.end_token, "column": job.settings.column,
            "share for evaluation": job.settings.eval_share}
    path = os.path.join(job.settings.folder, "plan.json")
    try:
        with open(path, encoding="utf-8") as file:
            before: Any = json.load(file)
    except FileNotFoundError:
        write_whole(path, json.dumps(plan).encode())
        return
    except ValueError as error:
        raise Problem(f"{path} is damaged ({error}); remove {job.settings.folder}, and the import "
                      "begins anew") from error
    known: Dict[str, Any] = before if hasattr(before, "keys") else {}
    changed = [key for key, value in plan.items() if known.get(key) != value]
    if changed:
        raise Problem(f"{job.settings.folder} has pieces of an import with other values of "
                      f"{', '.join(changed)}; remove it, and the import begins anew")


def _make_pieces(job: _Import) -> List[Counts]:
    done: Dict[int, Counts] = {}
    for number, piece in enumerate(job.pieces):
        counts = counts_of(job.settings, piece)
        if counts is not None:
            done[number] = counts
    if done:
        _tell(f"{len(done)} of {len(job.pieces)} pieces are there already")
    missing = [number for number in range(len(job.pieces)) if number not in done]
    make = _make_alone if min(job.workers, len(missing)) <= 1 else _make_together
    make(job, missing, _Progress(len(job.pieces), done).note)
    return [done[number] for number in range(len(job.pieces))]


class _Progress:
    """Counts pieces as they come, and says so now and then."""

    def __init__(self, pieces: int, done: Dict[int, Counts]) -> None:
        self._pieces, self._done = pieces, done
        self._told = time.monotonic()

    def note(self, number: int, counts: Counts) -> None:
        """A piece is complete."""
        self._done[number] = counts
        if time.monotonic() - self._told < _REPORT_EVERY_S:
            return
        self._told = time.monotonic()
        tokens = sum(one.tokens + one.eval_tokens for one in self._done.values())
        _tell(f"{len(self._done)} of {self._pieces} pieces, {tokens:,} tokens")


def _make_alone(job: _Import, numbers: List[int], note: Callable[[int, Counts], None]) -> None:
    for number in numbers:
        note(number, make_piece(job.settings, job.pieces[number]))


def _make_together(job: _Import, numbers: List[int], note: Callable[[int, Counts], None]) -> None:
    waiting: Dict[Future[Counts], int] = {}
    pool = ProcessPoolExecutor(min(job.workers, len(numbers)),
                               multiprocessing.get_context("spawn"),
                               begin_process)
    try:
        for number in numbers:
            waiting[pool.submit(make_piece, job.settings, job.pieces[number])] = number
        while waiting:
            for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                note(waiting.pop(future), future.result())
    except (BrokenProcessPool, MemoryError) as error:
        raise Problem("a process of the import was ended from outside, perhaps since memory ran "
                      "out; the same command goes on from the pieces that are complete, and needs "
                      "less memory with fewer --workers") from error
    finally:
        for process in multiprocessing.active_children() if waiting else ():
            process.terminate()  # A piece may take hours, and what it has is of no use.
        pool.shutdown(cancel_futures=True)


def _join(job: _Import, counts: List[Counts]) -> Dict[str, Any]:
    train = sum(one.texts for one in counts), sum(one.tokens for one in counts)
    evaluation = sum(one.eval_texts for one in counts), sum(one.eval_tokens for one in counts)
    targets: List[Tuple[str, str, Tuple[int, int]]] = [(job.out, "train", train)]
    if job.eval_out is not None:
        targets.append((job.eval_out, "eval", evaluation))
    files: List[Dict[str, Any]] = []
    for path, part, (texts, tokens) in targets:
        if tokens == 0:
            raise Problem(f"{path} would have no tokens; the sources hold too few texts")
        paths = (path_of(job.settings.folder, piece, part) for piece in job.pieces)
        found = join(paths, path, job.settings.token_bytes, job.tokenizer.vocab_size)
        files.append({"path": path, "texts": texts, "tokens": tokens, "hash": found})
    made = {"files": files, "vocab_size": job.tokenizer.vocab_size,
            "tokenizer": {"path": job.tokenizer.path, "sha256": job.tokenizer.sha256,
                          "library": "tokenizers " + job.tokenizer.library},
            "end_token": job.tokenizer.end_token, "column": job.settings.column,
            "sources": [{"path": one.path, "bytes": one.bytes, "modified_ns": one.modified_ns}
                        for one in job.files]}
    write_whole(job.out + ".json", json.dumps(made, indent=2).encode() + b"\n")
    return made


def _tell(text: str) -> None:
    print(_CONTROL.sub("?", text), file=sys.stderr, flush=True)


def _fail(text: str, code: int) -> int:
    _tell(f"error: {text}")
    return code


def run(arguments: Optional[List[str]] = None) -> int:
    """As main; an interrupt ends it as `paceline`'s other verbs."""
    if sys.version_info < (3, 9):
        return _fail("paceline data import-hf needs Python 3.9 or newer, and this is "
                     f"{sys.version.split()[0]}; activate an environment with one", _FAILED)
    try:
        return main(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        _tell("interrupted; the same command goes on from the pieces that are complete")
        return 130


if __name__ == "__main__":
    sys.exit(run())
