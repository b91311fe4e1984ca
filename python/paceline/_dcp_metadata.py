"""What torch's FileSystemWriter knows of a checkpoint: its .metadata, read without running it.

The file is a pickle. Nothing that it names is imported or called: its objects become records, and
what torch has to know is made from them anew, checked value by value. Errors quote no value of it,
since a small pickle may describe one that is too large to be written down.
"""

from __future__ import annotations

import io
import math
import os
import pickle
from typing import Any, Dict, Tuple, Type

import torch
from torch.distributed.checkpoint.filesystem import _StorageInfo as StorageInfo
from torch.distributed.checkpoint.metadata import (STORAGE_TYPES, BytesStorageMetadata,
                                                   ChunkStorageMetadata, Metadata, MetadataIndex,
                                                   TensorProperties, TensorStorageMetadata)

from paceline._checkpoint_manifest import (box, is_file_name, is_within, open_regular, path_from,
                                           whole)

METADATA = ".metadata"


class _Record:
    """An object of the pickle.

    A pickle can call the class, call `__new__`, and set the state. For want of an argument it
    cannot set the state of the class itself, and so it cannot change the class.
    """

    arguments: Tuple[Any, ...] = ()
    state: Any = None

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments

    def __setstate__(self, state: Any) -> None:
        self.state = state


class _Metadata(_Record):
    pass


class _Index(_Record):
    pass


class _Tensor(_Record):
    pass


class _Bytes(_Record):
    pass


class _Chunk(_Record):
    pass


class _Properties(_Record):
    pass


class _Place(_Record):
    pass


class _Size(_Record):
    pass


class _Dtype(_Record):
    pass


class _Unused(_Record):
    pass


_KINDS: Dict[Tuple[str, str], Type[_Record]] = {
    ("torch.distributed.checkpoint.metadata", "Metadata"): _Metadata,
    ("torch.distributed.checkpoint.metadata", "MetadataIndex"): _Index,
    ("torch.distributed.checkpoint.metadata", "TensorStorageMetadata"): _Tensor,
    ("torch.distributed.checkpoint.metadata", "BytesStorageMetadata"): _Bytes,
    ("torch.distributed.checkpoint.metadata", "ChunkStorageMetadata"): _Chunk,
    ("torch.distributed.checkpoint.metadata", "TensorProperties"): _Properties,
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"): _Place,
    ("torch", "Size"): _Size,
    # Where the checkpoint was saved, and tensors' layouts and memory formats. Python 3.11 pickles
    # the member of an enumeration by getattr; the second PosixPath is that of Python 3.13.
    ("torch.distributed.checkpoint.metadata", "StorageMeta"): _Unused,
    ("torch.distributed.checkpoint.metadata", "_MEM_FORMAT_ENCODING"): _Unused,
    ("torch.serialization", "_get_layout"): _Unused,
    ("builtins", "getattr"): _Unused,
    ("pathlib", "PosixPath"): _Unused,
    ("pathlib._local", "PosixPath"): _Unused,
}


# The Unpickler in C would make room for as many objects as an opcode has the number of one.
class _Unpickler(pickle._Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _KINDS:
            return _KINDS[module, name]
        if module == "torch" and isinstance(vars(torch).get(name), torch.dtype):
            return _Dtype(name)
        raise pickle.UnpicklingError(f"{f'{module}.{name}'!r:.200} is no part of such metadata")


def _is(value: Any, kind: Type[object]) -> bool:
    return type(value) is kind


def _fields(record: Any, kind: Type[_Record]) -> Any:
    """What an object of torch's classes has, by name."""
    if not _is(record, kind) or not _is(record.state, dict):
        raise TypeError(f"a {type(record).__name__} instead of a {kind.__name__}")
    return record.state


def _items(found: Any) -> Any:
    if not _is(found, dict):
        raise TypeError(f"a {type(found).__name__} instead of a dict")
    return found.items()


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} instead of a name")
    return value


def _size(record: Any) -> torch.Size:
    if not _is(record, _Size) or len(record.arguments) != 1:
        raise TypeError(f"a {type(record).__name__} instead of a Size")
    return torch.Size(box(record.arguments[0]))


def _index(record: Any) -> MetadataIndex:
    found = _fields(record, _Index)
    offset = found.get("offset")
    return MetadataIndex(_text(found["fqn"]), None if offset is None else _size(offset))


def _dtype(properties: Any) -> torch.dtype:
    if not _is(properties, _Properties) or not _is(properties.state, tuple):
        raise TypeError(f"a {type(properties).__name__} instead of properties")
    dtype = properties.state[0]
    found = vars(torch).get(dtype.arguments[0]) if _is(dtype, _Dtype) else None
    if not isinstance(found, torch.dtype):
        raise TypeError("a tensor without a type")
    return found


def _tensor(record: Any) -> TensorStorageMetadata:
    found = _fields(record, _Tensor)
    made = TensorStorageMetadata(TensorProperties(dtype=_dtype(found["properties"])),
                                 _size(found["size"]), [])
    for one in found["chunks"]:
        chunk = _fields(one, _Chunk)
        offsets, sizes = _size(chunk["offsets"]), _size(chunk["sizes"])
        if not is_within(offsets, sizes, made.size):
            raise ValueError(f"a chunk at {tuple(offsets)} of {tuple(sizes)} is none of a tensor "
                             f"of {tuple(made.size)}")
        made.chunks.append(ChunkStorageMetadata(offsets, sizes))
    return made


def _place(record: Any) -> StorageInfo:
    found = _fields(record, _Place)
    name = found["relative_path"]
    if not is_file_name(name):
        raise ValueError("a value is in what is no file beside it")
    if found.get("transform_descriptors"):
        raise ValueError("a value was written by extensions, which are not known here: save "
                         "without them")
    return StorageInfo(name, whole(found["offset"]), whole(found["length"]))


def _check_places(metadata: Metadata) -> None:
    """All values are somewhere, with at least as many bytes as they have."""
    for key, value in metadata.state_dict_metadata.items():
        if isinstance(value, BytesStorageMetadata):
            needed = [(MetadataIndex(key), 0)]
        else:
            item_bytes = value.properties.dtype.itemsize
            needed = [(MetadataIndex(key, chunk.offsets), math.prod(chunk.sizes) * item_bytes)
                      for chunk in value.chunks]
        for index, count in needed:
            place = metadata.storage_data.get(index)
            if place is None or place.length < count:
                raise ValueError(f'it does not say where all of "{key}" is')


def _metadata(record: Any) -> Metadata:
    found = _fields(record, _Metadata)
    values: Dict[str, STORAGE_TYPES] = {}
    for key, value in _items(found["state_dict_metadata"]):
        values[_text(key)] = BytesStorageMetadata() if _is(value, _Bytes) else _tensor(value)
    paths = {_text(key): path_from(path)
             for key, path in _items(found.get("planner_data") or {})}
    places = {_index(index): _place(place) for index, place in _items(found["storage_data"])}
    metadata = Metadata(values, planner_data=paths, storage_data=places)
    _check_places(metadata)
    return metadata


def read_dcp_metadata(directory: str) -> Metadata:
    path = os.path.join(directory, METADATA)
    try:
        with os.fdopen(open_regular(path), "rb") as file:
            contents = io.BytesIO(file.read())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"{directory}: there is no {METADATA} in it, so it is no directory "
                                "of torch.distributed.checkpoint. For a checkpoint of Paceline: "
                                "--to dcp") from error
    try:
        return _metadata(_Unpickler(contents).load())
    except Exception as error:  # Whatever a damaged pickle leads to.
        raise ValueError(f"{path}: not read, as it is not the metadata of "
                         f"torch.distributed.checkpoint: {error!s:.400}") from error
