"""The manifest of a checkpoint (docs/checkpoint-format.md), read and written.

Errors name the file, the tensor, and what to do.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import re
import stat
import time
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, BinaryIO, Dict, Generator, List, Optional, Tuple, Union

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
_MOST_DIMENSIONS = 64  # Of a tensor of torch.
_MOST_CUT_DIMENSIONS = 4  # Of a tensor, by its slices.
# A path's place in a list is below it: whoever makes the list fills it up to there.
_MOST_PLACES = 1 << 20
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


def _has_controls(name: str) -> bool:
    return any(ord(c) < 32 or ord(c) == 127 for c in name)


def is_file_name(name: Any) -> bool:
    """Whether it is the name of a file beside the one that has the name."""
    return isinstance(name, str) and not _has_controls(name) and "/" not in name and (
        len(name) <= 255) and name not in ("", ".", "..")


def open_regular(path: str) -> int:
    """A descriptor to read from. What is no regular file might never end, and is refused."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise damaged(path, "no regular file")
    return descriptor


def check_name(name: str) -> None:
    """ValueError if a manifest cannot have a tensor of this name."""
    if not name or name == "__metadata__" or _has_controls(name):
        raise ValueError(f"{name!r} cannot be the name of a tensor in a checkpoint: rename it")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name!r} is not UTF-8, as the names in a checkpoint are") from error


def read_manifest(directory: str, verify: bool = True) -> Manifest:
    path = os.path.join(directory, MANIFEST)
    try:
        with os.fdopen(open_regular(path), "rb") as file:
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
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"not a manifest: {error}") from error
    try:
        return _parse(path, parsed)
    except (KeyError, TypeError, AttributeError) as error:
        raise damaged(path, f"not a manifest: {error!r}") from error


def whole(value: Any) -> int:
    """The value. TypeError if it is no number that 63 bits have."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 63:
        raise TypeError(f"a {type(value).__name__} that is no whole number from 0 to 2^63 - 1")
    return value


def box(values: Any) -> Box:
    """Offsets or sizes. TypeError if they are none."""
    if len(values) > _MOST_DIMENSIONS:
        raise TypeError(f"{len(values)} dimensions, of which a tensor has at most "
                        f"{_MOST_DIMENSIONS}")
    return tuple(whole(value) for value in values)


def path_from(keys: Any) -> Path:
    """Keys of nested dicts, and places in lists. TypeError if they are none."""
    if type(keys) not in (list, tuple) or not keys or not isinstance(keys[0], str):
        raise TypeError("a path that does not begin with a key of a state dict")
    path: List[Union[str, int]] = []
    for key in keys:
        path.append(key if isinstance(key, str) else whole(key))
        if isinstance(key, int) and key >= _MOST_PLACES:
            raise TypeError(f"a place in a list of more than {_MOST_PLACES}")
    return tuple(path)


def _parse(path: str, found: Any) -> Manifest:
    files: Dict[str, int] = {}
    for one in found["files"]:
        name = one["name"]
        if not is_file_name(name) or name == MANIFEST or name in files:
            raise damaged(path, f"{name!r} is not the name of a file beside it, or is listed twice")
        files[name] = whole(one["bytes"])
    manifest = Manifest(whole(found["step"]), whole(found["generation"]), whole(found["ranks"]),
                        files, {})
    for name, one in found["tensors"].items():
        if one["dtype"] not in DTYPES:
            raise damaged(path, f'tensor "{name}": unknown dtype {one["dtype"]!r}')
        tensor = StoredTensor(DTYPES[one["dtype"]], box(one["shape"]), [])
        if "path" in one:
            tensor.path = path_from(one["path"])
        for part in one["slices"]:
            tensor.slices.append(_parse_slice(path, name, tensor, part, files))
        problem = why_not_covered(tensor)
        if problem:
            raise damaged(path, f'tensor "{name}": {problem}')
        manifest.tensors[name] = tensor
    return manifest


def _parse_slice(path: str, name: str, tensor: StoredTensor, found: Any,
                 files: Dict[str, int]) -> Slice:
    shape = tensor.shape
    if "offsets" in found:
        offsets, sizes = box(found["offsets"]), box(found["sizes"])
    else:
        rows = box(found["rows"])
        if len(rows) != 2:
            raise damaged(path, f'tensor "{name}": rows are not two numbers: first and count')
        offsets = (rows[0], *[0] * (len(shape) - 1)) if shape else ()
        sizes = (rows[1], *shape[1:]) if shape else ()
        if not shape and rows != (0, 1):
            raise damaged(path, f'tensor "{name}": a scalar is one row')
    one = Slice(found["file"], offsets, sizes, whole(found["offset"]), whole(found["bytes"]),
                found["checksum"])
    fits = is_within(offsets, sizes, shape) and (0 not in sizes or 0 in shape)
    if not fits or one.bytes != math.prod(sizes) * tensor.dtype.itemsize:
        raise damaged(path, f'tensor "{name}": the slice at {offsets} of {sizes} is none of it')
    if one.file not in files or one.offset + one.bytes > files[one.file]:
        raise damaged(path, f'tensor "{name}": the slice at {offsets} is not within {one.file!r}')
    return one


def is_within(offsets: Box, sizes: Box, shape: Box) -> bool:
    """Whether the box is one of a tensor of this shape."""
    return len(offsets) == len(sizes) == len(shape) and all(
        offset + size <= extent for offset, size, extent in zip(offsets, sizes, shape))


def why_not_covered(tensor: StoredTensor) -> str:
    """Why the slices do not have each element once; empty if they do.

    Linear in their number. How many slices have an element is the sum of what there is before it at
    corners of boxes: 1 where a box begins in each dimension, and the sign changes with each
    dimension in which it ends. Minus the whole tensor, all corners must come to 0.
    """
    shape = tensor.shape
    if 0 in shape:
        return ""
    cut = [d for d, extent in enumerate(shape)
           if any((one.offsets[d], one.sizes[d]) != (0, extent) for one in tensor.slices)]
    if len(cut) > _MOST_CUT_DIMENSIONS:
        return (f"its slices cut it along {len(cut)} dimensions, of which at most "
                f"{_MOST_CUT_DIMENSIONS} are allowed")
    corners: Dict[Box, int] = {}
    boxes = [(1, one.offsets, one.sizes) for one in tensor.slices]
    for value, offsets, sizes in [(-1, (0,) * len(shape), shape), *boxes]:
        for ends in itertools.product((0, 1), repeat=len(cut)):
            corner = tuple(offsets[d] + end * sizes[d] for d, end in zip(cut, ends))
            corners[corner] = corners.get(corner, 0) + (-value if sum(ends) % 2 else value)
    left = min((corner for corner, value in corners.items() if value != 0), default=None)
    if left is None:
        return ""
    element = [0] * len(shape)
    for d, place in zip(cut, left):
        element[d] = place
    return (f"none of its slices has element {element}" if corners[left] < 0 else
            f"{corners[left] + 1} of its slices have element {element}")


@contextlib.contextmanager
def new_file(path: str) -> Generator[BinaryIO, None, None]:
    """A file that is synced at the end, and gone if there is an error, which then names it."""
    file = open(path, "xb")  # pylint: disable=consider-using-with
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(path)
        if isinstance(error, OSError) and error.filename is None:
            raise OSError(error.errno, f"not written: {error.strerror}", path) from error
        raise


def sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _are_rows(one: Slice, shape: Box) -> bool:
    return one.sizes[1:] == shape[1:]


def _format_slice(one: Slice, shape: Box) -> str:
    place: Dict[str, Any] = {"offsets": one.offsets, "sizes": one.sizes}
    if _are_rows(one, shape):
        place = {"rows": [one.offsets[0], one.sizes[0]] if shape else [0, 1]}
    return json.dumps({"file": one.file, **place, "offset": one.offset, "bytes": one.bytes,
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
        problem = why_not_covered(tensor)
        if problem:
            raise ValueError(f'{path}: not written: tensor "{name}": {problem}: save from all '
                             "processes that have parts of it")
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
    with new_file(temporary) as file:
        file.write(text)
    os.rename(temporary, path)
    sync_directory(directory)
