"""The shards of a checkpoint (docs/checkpoint-format.md), read and written.

Errors name the file, the tensor, and what to do.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import struct
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Sequence

import torch

from paceline._checkpoint_manifest import (DTYPE_NAMES, Box, Slice, checksum_text, damaged,
                                           new_file, open_regular, sync_directory, xxhash_module)

# Bytes that are read at once, and the shortest run that is read by itself where a box lacks part of
# an inner dimension; below it, whole rows are read.
PIECE_BYTES = 4 << 20
RUN_BYTES = 64 << 10

_MOST_OPEN = 64  # Shards. A checkpoint may have more than a process may have open files.
_MOST_HEADER_BYTES = 100_000_000  # The limit of safetensors.
_MOST_ALIGNED = 64
_DATA_ALIGNED = 4096


def shard_name(rank: int, ranks: int, number: int) -> str:
    """Of a rank's shard `number`; most ranks have only number 0."""
    more = f".{number}" if number else ""
    return f"shard-{rank:05d}-of-{ranks:05d}{more}.safetensors"


class Shards:
    """The shards of a checkpoint, opened when they are first read. Not thread-safe."""

    def __init__(self, directory: str, files: Dict[str, int], verify: bool = True) -> None:
        self._directory = directory
        self._files = files
        self._verify = verify
        self._open: Dict[str, int] = {}
        self._buffer = bytearray()

    def __enter__(self) -> Shards:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._open.values():
            os.close(descriptor)
        self._open.clear()

    def read(self, name: str, dtype: torch.dtype, one: Slice, offsets: Sequence[int],
             lengths: Sequence[int], target: torch.Tensor) -> None:
        """Copies a box of the slice of tensor `name` to `target`, which has its shape.

        Numbers with a floating point are converted; ValueError for other types than the tensor's.
        Only a slice that is read whole has a checksum to compare with. Memory: PIECE_BYTES, or, if
        runs are too short to be read by themselves, what one index of the slice's first dimension
        has.
        """
        if tuple(target.shape) != tuple(lengths):
            raise ValueError(f'tensor "{name}": {tuple(lengths)} do not fit into '
                             f"{tuple(target.shape)}")
        floats = dtype.is_floating_point and target.dtype.is_floating_point
        if dtype != target.dtype and not floats:
            raise ValueError(f'tensor "{name}" is of {dtype}, and is wanted as {target.dtype}: '
                             "load it into a tensor of its own type")
        if math.prod(lengths) == 0:
            return
        whole = tuple(lengths) == one.sizes
        checksum = xxhash_module().xxh3_64() if whole and self._verify else None
        sizes, offsets, lengths = one.sizes or (1,), offsets or (0,), lengths or (1,)
        target = target if one.sizes else target.unsqueeze(0)
        strides = [dtype.itemsize * math.prod(sizes[d + 1:]) for d in range(len(sizes))]
        cut = max((d for d in range(len(sizes)) if lengths[d] != sizes[d]), default=0)
        # Dimensions whose indices are read one by one.
        depth = cut if lengths[cut] * strides[cut] >= RUN_BYTES else 0
        while cut <= depth < len(sizes) - 1 and strides[depth] > PIECE_BYTES:
            depth += 1
        step = max(1, PIECE_BYTES // strides[depth])
        for index in itertools.product(*map(range, lengths[:depth])):
            begin = one.offset + sum((offset + i) * stride
                                     for offset, i, stride in zip(offsets, index, strides))
            for first in range(0, lengths[depth], step):
                count = min(step, lengths[depth] - first)
                piece = self._fetch(name, one, begin + (offsets[depth] + first) * strides[depth],
                                    count * strides[depth])
                if checksum is not None:
                    checksum.update(piece)
                rows = torch.frombuffer(piece, dtype=dtype).view(count, *sizes[depth + 1:])
                for d in range(depth + 1, len(sizes)):
                    rows = rows.narrow(d - depth, offsets[d], lengths[d])
                target[index].narrow(0, first, count).copy_(rows)
        found = one.checksum if checksum is None else checksum_text(checksum)
        if found != one.checksum:
            raise damaged(self._path(one), f'damaged: tensor "{name}", bytes from {one.offset} to '
                          f"{one.offset + one.bytes}: the checksum is {found} instead of "
                          f"{one.checksum}")

    def _path(self, one: Slice) -> str:
        return os.path.join(self._directory, one.file)

    def _descriptor(self, one: Slice) -> int:
        if one.file in self._open:
            return self._open[one.file]
        if len(self._open) == _MOST_OPEN:
            os.close(self._open.pop(next(iter(self._open))))
        path = self._path(one)
        try:
            descriptor = open_regular(path)
        except FileNotFoundError as error:
            raise damaged(path, "missing, though the manifest lists it") from error
        self._open[one.file] = descriptor
        size = os.fstat(descriptor).st_size
        if size != self._files[one.file]:
            raise damaged(path, f"{size} bytes instead of {self._files[one.file]}")
        return descriptor

    def _fetch(self, name: str, one: Slice, begin: int, count: int) -> memoryview:
        """Valid until the next call."""
        descriptor = self._descriptor(one)
        if len(self._buffer) < count:
            self._buffer = bytearray(count)
        piece = memoryview(self._buffer)[:count]
        done = 0
        while done < count:
            try:
                got = os.preadv(descriptor, [piece[done:]], begin + done)
            except OSError as error:
                raise damaged(self._path(one), f'tensor "{name}": cannot be read at offset '
                              f"{begin + done}: {error.strerror}") from error
            if got == 0:
                raise damaged(self._path(one), f'tensor "{name}": the file ends at {begin + done}')
            done += got
        return piece


@dataclass(frozen=True)
class Entry:
    """A slice to be written, and where its data comes from when its turn has come."""

    name: str
    dtype: torch.dtype
    shape: Box  # Of the whole tensor.
    offsets: Box
    sizes: Box
    take: Callable[[], torch.Tensor]

    @property
    def bytes(self) -> int:
        return math.prod(self.sizes) * self.dtype.itemsize

    def data(self) -> memoryview:
        if self.bytes == 0:
            return memoryview(b"")
        tensor = self.take().detach()
        if tensor.dtype != self.dtype or tuple(tensor.shape) != self.sizes:
            raise ValueError(f'tensor "{self.name}": planned as {self.dtype} {self.sizes}, and is '
                             f"{tensor.dtype} {tuple(tensor.shape)}")
        if tensor.layout != torch.strided:
            raise ValueError(f'tensor "{self.name}" is {tensor.layout}: save it as a dense one')
        return tensor.cpu().contiguous().flatten().view(torch.uint8).numpy().data


def _alignment_kept(count: int) -> int:
    alignment = _MOST_ALIGNED
    while count % alignment != 0:
        alignment //= 2
    return alignment


def _header(entries: Sequence[Entry]) -> bytes:
    # torch's HuggingFaceStorageReader finds the slices' places by this metadata.
    places = {entry.name: {"saved_offsets": list(entry.offsets)} for entry in entries}
    header: Dict[str, Any] = {"__metadata__": {
        "DCP_SHARDING_INFO": json.dumps(places), "DCP_VERSION": "1.0", "format": "pt"}}
    offset = 0
    for entry in entries:
        header[entry.name] = {"dtype": DTYPE_NAMES[entry.dtype], "shape": list(entry.sizes),
                              "data_offsets": [offset, offset + entry.bytes]}
        offset += entry.bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(len(text) + 8) % _DATA_ALIGNED)
    if len(text) > _MOST_HEADER_BYTES:
        raise ValueError(f"{len(entries)} tensors are too many for one safetensors file: save "
                         "from more ranks")
    return struct.pack("<Q", len(text)) + text


def write_shard(directory: str, file_name: str, entries: Sequence[Entry]) -> List[Slice]:
    """Writes and syncs a new shard. Memory holds the data of one entry at a time.

    The slices are in the order of the entries, whose names must differ.
    """
    order = sorted(range(len(entries)), key=lambda i: -_alignment_kept(entries[i].bytes))
    header = _header([entries[i] for i in order])
    slices: Dict[int, Slice] = {}
    with new_file(os.path.join(directory, file_name)) as file:
        file.write(header)
        offset = len(header)
        for i in order:
            entry, data = entries[i], entries[i].data()
            checksum = checksum_text(xxhash_module().xxh3_64(data))
            slices[i] = Slice(file_name, entry.offsets, entry.sizes, offset, entry.bytes, checksum)
            file.write(data)
            del data  # Before the next one is taken.
            offset += entry.bytes
    sync_directory(directory)
    return [slices[i] for i in range(len(entries))]
