"""Joins the pieces to one token file (docs/token-files.md)."""

from __future__ import annotations

import hashlib
import os
import struct
from typing import Iterable

from paceline.import_hf.pieces import writing

_HEADER = struct.Struct("<8sIIQQQ24s")
_CHUNK = 1 << 20


def join(pieces: Iterable[str], path: str, token_bytes: int, vocab_size: int) -> str:
    """Writes the tokens of all pieces as one file, whole or not at all. Returns its hash."""
    sha256 = hashlib.sha256()
    size = 0
    with writing(path):
        with open(path + ".new", "wb") as out:
            out.write(bytes(_HEADER.size))
            for piece in pieces:
                with open(piece, "rb") as file:
                    while chunk := file.read(_CHUNK):
                        out.write(chunk)
                        sha256.update(chunk)
                        size += len(chunk)
            digest = sha256.digest()[:24]
            out.seek(0)
            out.write(_HEADER.pack(b"PCLTOKEN", 1, token_bytes, size // token_bytes, vocab_size,
                                   _HEADER.size, digest))
            out.flush()
            os.fsync(out.fileno())
        os.replace(path + ".new", path)
    return digest.hex()
