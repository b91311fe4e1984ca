"""The manifest of a checkpoint (docs/checkpoint-format.md), read and written.

Errors name the file, the tensor, and what to do.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Dict, List, Optional, Tuple, Union

import torch

MANIFEST = "manifest.json"
DTYPES: Dict[str, torch.dtype] = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U64": torch.uint64, "U32": torch.uint32, "U16": torch.uint16, "U8": torch.uint8,
    "BOOL": torch.bool, "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}

DTYPE_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_NEWEST_VERSION = 2  # The first one with slices that are no rows.
_MOST_MANIFEST_BYTES = 128 << 20
_FIRST_LINE = re.compile(rb'\{"checksum": "(xxh3:[0-9a-f]{16})",')
_SECOND_LINE = re.compile(rb'"format_version": ([0-9]{1,9}),')

Box = Tuple[int, ...]  # Offsets or sizes in each dimension.
Path = Tuple[Union[str, int], ...]  # Keys of nested dicts, and places in lists.


@dataclass(frozen=True)
class Slice:
    """A box of a tensor in one entry of a shard."""

    file: str
    offsets: Box  # Of its first element in the tensor.
    sizes: Box
    offset: int  # Of its first byte in the file.
    bytes: int
    checksum: str


@dataclass
class StoredTensor:
    """A tensor of a manifest."""

    dtype: torch.dtype
    shape: Box  # Of the whole tensor.
    slices: List[Slice]
    path: Optional[Path] = None  # In a nested state dict, if the manifest tells.


@dataclass
class Manifest:
    """What a checkpoint consists of."""

    step: int
    generation: int
    ranks: int
    files: Dict[str, int]  # Bytes of each shard.
    tensors: Dict[str, StoredTensor]


def damaged(path: str, what: str) -> ValueError:
    return ValueError(f"{path}: {what}: restore the file from a copy, or take another checkpoint")


def xxhash_module() -> Any:
    try:
        import xxhash  # pylint: disable=import-outside-toplevel
    except ImportError as error:
        raise ImportError("the checksums of checkpoints are XXH3: pip install xxhash") from error
    return xxhash


def checksum_text(checksum: Any) -> str:
    return f"xxh3:{checksum.hexdigest()}"


def check_name(name: str) -> None:
    """ValueError if a manifest cannot have a tensor of this name."""
    if not name or name == "__metadata__" or any(ord(c) < 32 or ord(c) == 127 for c in name):
        raise ValueError(f"{name!r} cannot be the name of a tensor in a checkpoint: rename it")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name!r} is not UTF-8, as the names in a checkpoint are") from error


def read_manifest(directory: str, verify: bool = True) -> Manifest:
    path = os.path.join(directory, MANIFEST)
    try:
        with open(path, "rb") as file:
            text = file.read(_MOST_MANIFEST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"{directory}: no complete checkpoint: there is no {MANIFEST} in "
                                "it. Give the directory step-… of a checkpoint") from error
    if len(text) > _MOST_MANIFEST_BYTES:
        raise damaged(path, f"more than {_MOST_MANIFEST_BYTES} bytes are no manifest")
    first, _, rest = text.partition(b"\n")
    expected = _FIRST_LINE.fullmatch(first)
    if expected is None:
        raise damaged(path, "no line with a checksum at its beginning")
    if verify:
        found = checksum_text(xxhash_module().xxh3_64(rest))
        if found != expected[1].decode():
            raise damaged(path, f"its checksum is {found} instead of {expected[1].decode()}")
    number = _SECOND_LINE.match(rest)
    if number is None:
        raise damaged(path, "no format_version in its second line")
    if int(number[1]) > _NEWEST_VERSION:
        raise ValueError(f"{path}: format_version {int(number[1])} is newer than {_NEWEST_VERSION},"
                         " the newest that this Paceline reads: use a newer Paceline")
    try:
        return _parse(path, json.loads(text))
    except (KeyError, TypeError, AttributeError, RecursionError, json.JSONDecodeError,
            UnicodeDecodeError) as error:
        raise damaged(path, f"not a manifest: {error!r}") from error


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is no whole number from 0 on")
    return value


def _box(values: Any) -> Box:
    return tuple(_whole(value) for value in values)


def _parse(path: str, found: Any) -> Manifest:
    files = {}
    for one in found["files"]:
        name = one["name"]
        if not isinstance(name, str) or os.path.basename(name) != name or name in (
                "", ".", "..", MANIFEST) or name in files:
            raise damaged(path, f"{name!r} is not the name of a file beside it, or is listed twice")
        files[name] = _whole(one["bytes"])
    manifest = Manifest(_whole(found["step"]), _whole(found["generation"]), _whole(found["ranks"]),
                        files, {})
    for name, one in found["tensors"].items():
        if one["dtype"] not in DTYPES:
            raise damaged(path, f'tensor "{name}": unknown dtype {one["dtype"]!r}')
        tensor = StoredTensor(DTYPES[one["dtype"]], _box(one["shape"]), [])
        if "path" in one:
            tensor.path = tuple(key if isinstance(key, str) else _whole(key) for key in one["path"])
        for part in one["slices"]:
            tensor.slices.append(_parse_slice(path, name, tensor, part, files))
        if missing(tensor):
            raise damaged(path, f'tensor "{name}": {missing(tensor)}')
        manifest.tensors[name] = tensor
    return manifest


def _parse_slice(path: str, name: str, tensor: StoredTensor, found: Any,
                 files: Dict[str, int]) -> Slice:
    shape = tensor.shape
    if "offsets" in found:
        offsets, sizes = _box(found["offsets"]), _box(found["sizes"])
    else:
        rows = _box(found["rows"])
        if len(rows) != 2:
            raise damaged(path, f'tensor "{name}": rows are not two numbers: first and count')
        offsets = (rows[0], *[0] * (len(shape) - 1)) if shape else ()
        sizes = (rows[1], *shape[1:]) if shape else ()
    one = Slice(found["file"], offsets, sizes, _whole(found["offset"]), _whole(found["bytes"]),
                found["checksum"])
    fits = len(offsets) == len(sizes) == len(shape) and all(
        offset + size <= extent for offset, size, extent in zip(offsets, sizes, shape))
    if not fits or one.bytes != math.prod(sizes) * tensor.dtype.itemsize:
        raise damaged(path, f'tensor "{name}": the slice at {offsets} of {sizes} is none of it')
    if one.file not in files or one.offset + one.bytes > files[one.file]:
        raise damaged(path, f'tensor "{name}": the slice at {offsets} is not within {one.file!r}')
    return one


def missing(tensor: StoredTensor) -> str:
    """What is wrong if the slices are not the tensor; else empty."""
    have, all_of_it = sum(math.prod(one.sizes) for one in tensor.slices), math.prod(tensor.shape)
    return "" if have == all_of_it else f"its slices have {have} elements of {all_of_it}"


def sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _are_rows(one: Slice, shape: Box) -> bool:
    return not any(one.offsets[1:]) and one.sizes[1:] == shape[1:]


def _format_slice(one: Slice, shape: Box) -> str:
    place: Dict[str, Any] = {"file": one.file,
                             "rows": [one.offsets[0], one.sizes[0]] if shape else [0, 1]}
    if not _are_rows(one, shape):
        place["offsets"], place["sizes"] = one.offsets, one.sizes
    return json.dumps({**place, "offset": one.offset, "bytes": one.bytes,
                       "checksum": one.checksum})


def _format_tensor(name: str, tensor: StoredTensor) -> str:
    path = f'"path": {json.dumps(tensor.path)}, ' if tensor.path is not None else ""
    slices = ",".join("\n    " + _format_slice(one, tensor.shape)
                      for one in sorted(tensor.slices, key=lambda one: one.offsets))
    return (f'\n  {json.dumps(name)}: {{"dtype": "{DTYPE_NAMES[tensor.dtype]}", "shape": '
            f'{json.dumps(tensor.shape)}, {path}"slices": [{slices}]}}')


def _our_version() -> str:
    try:
        return version("paceline")
    except PackageNotFoundError:  # It runs from a checkout.
        return ""


def write_manifest(directory: str, manifest: Manifest) -> None:
    """Makes the checkpoint complete. Its shards have been written."""
    path = os.path.join(directory, MANIFEST)
    for name, tensor in manifest.tensors.items():
        if missing(tensor):
            raise ValueError(f'{path}: not written: tensor "{name}": {missing(tensor)}: save from '
                             "all processes that have parts of it")
    rows = all(_are_rows(one, tensor.shape)
               for tensor in manifest.tensors.values() for one in tensor.slices)
    files = ",".join("\n  " + json.dumps({"name": name, "bytes": count})
                     for name, count in sorted(manifest.files.items()))
    tensors = ",".join(_format_tensor(*one) for one in sorted(manifest.tensors.items()))
    body = ",\n".join([
        f'"format_version": {1 if rows else 2}',
        f'"paceline_version": {json.dumps(_our_version())}',
        f'"torch_version": {json.dumps(str(torch.__version__))}',
        f'"created": {int(time.time())}', '"job_id": ""', f'"generation": {manifest.generation}',
        f'"step": {manifest.step}', f'"ranks": {manifest.ranks}', '"plan_epoch": 0',
        '"ladder": ""', '"data": {"epoch": 0, "offset": 0}', '"job_spec": {}',
        f'"files": [{files}]', f'"tensors": {{{tensors}}}}}\n']).encode()
    checksum = checksum_text(xxhash_module().xxh3_64(body))
    text = f'{{"checksum": "{checksum}",\n'.encode() + body
    if len(text) > _MOST_MANIFEST_BYTES:
        raise ValueError(f"{path} would have {len(text)} bytes, and a manifest has no more than "
                         f"{_MOST_MANIFEST_BYTES}: the model has too many tensors for so many "
                         "ranks")
    temporary = f"{path}.tmp{os.getpid()}"
    try:
        with open(temporary, "xb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.unlink(temporary)
        raise
    sync_directory(directory)
