"""Converts checkpoints between Paceline's kind and that of torch's FileSystemWriter.

Both directions are plans of torch.distributed.checkpoint that one process carries out, with data
that is read when its turn has come.
"""

from __future__ import annotations

import io
import os
import pathlib
import pickle
from typing import Any, Dict, List, Optional, Tuple

import torch
from torch.distributed.checkpoint import FileSystemWriter, filesystem
from torch.distributed.checkpoint import metadata as dcp_metadata
from torch.distributed.checkpoint.metadata import (Metadata, MetadataIndex, TensorStorageMetadata)
from torch.distributed.checkpoint.planner import (SavePlan, TensorWriteData, WriteItem,
                                                  WriteItemType)

from paceline._checkpoint_manifest import read_manifest
from paceline._checkpoint_shards import Shards
from paceline.dcp import PacelineWriter, metadata_of, read_object

METADATA = ".metadata"
# FileSystemWriter keeps what it has written to a file until the file ends.
MOST_FILE_BYTES = 256 << 20


def _member(kind: Any, name: Any) -> Any:
    """For getattr, by which Python 3.11 pickles the member of an enumeration."""
    if kind is not dcp_metadata._MEM_FORMAT_ENCODING or name not in kind.__members__:
        raise pickle.UnpicklingError(f"getattr({kind!r}, {name!r})")
    return kind[name]


# All that the metadata is made of, besides plain values and torch's dtypes.
_ALLOWED: Dict[Tuple[str, str], Any] = {
    **{("torch.distributed.checkpoint.metadata", name): getattr(dcp_metadata, name)
       for name in ("Metadata", "MetadataIndex", "TensorStorageMetadata", "BytesStorageMetadata",
                    "ChunkStorageMetadata", "TensorProperties", "StorageMeta",
                    "_MEM_FORMAT_ENCODING")},
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"): filesystem._StorageInfo,
    ("torch", "Size"): torch.Size,
    ("torch.serialization", "_get_layout"): torch.serialization._get_layout,
    ("builtins", "getattr"): _member,
    # The directory that was saved to. The second name is Python 3.13's.
    ("pathlib", "PosixPath"): pathlib.PurePosixPath,
    ("pathlib._local", "PosixPath"): pathlib.PurePosixPath,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _ALLOWED:
            return _ALLOWED[module, name]
        found = getattr(torch, name, None) if module == "torch" else None
        if isinstance(found, torch.dtype):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of such metadata")


def read_dcp_metadata(directory: str) -> Metadata:
    """What FileSystemWriter knows of a checkpoint. Runs no code of the pickle."""
    path = os.path.join(directory, METADATA)
    try:
        with open(path, "rb") as file:
            found = _Unpickler(file).load()
        _check(found)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise FileNotFoundError(f"{directory}: there is no {METADATA} in it, so it is no directory "
                                "of torch.distributed.checkpoint. For a checkpoint of Paceline: "
                                "--to dcp") from error
    except OSError:
        raise
    except Exception as error:  # Whatever a damaged pickle leads to.
        raise ValueError(f"{path}: not read, as it is not the metadata of "
                         f"torch.distributed.checkpoint: {error}") from error
    assert isinstance(found, Metadata)
    return found


def _check(found: Any) -> None:
    """The objects are what they say, and their files lie beside the metadata."""
    if not isinstance(found, Metadata):
        raise ValueError(f"it has a {type(found).__name__}")
    for path in (found.planner_data or {}).values():
        if not all(isinstance(key, (str, int)) for key in path):
            raise ValueError(f"{path!r} are no keys of a state dict")
    for index, info in found.storage_data.items():
        name = info.relative_path
        if not isinstance(name, str) or os.path.basename(name) != name or name in ("", ".", ".."):
            raise ValueError(f'"{index.fqn}" is in {name!r}, which is no file beside it')
        if type(info.offset) is not int or type(info.length) is not int or (
                info.offset < 0 or info.length < 0):
            raise ValueError(f'"{index.fqn}" is at no place in {name}')
        if info.transform_descriptors:
            raise ValueError(f'"{index.fqn}" was written by the extensions '
                             f"{list(info.transform_descriptors)}, which are not known here: save "
                             "without them")
    for key, value in found.state_dict_metadata.items():
        chunks = value.chunks if isinstance(value, TensorStorageMetadata) else [None]
        for chunk in chunks:
            if MetadataIndex(key, chunk.offsets if chunk else None) not in found.storage_data:
                raise ValueError(f'it does not say where "{key}" is')


class _DcpData:
    """Values of a checkpoint of FileSystemWriter, for a writer that asks its planner for them."""

    def __init__(self, directory: str, metadata: Metadata) -> None:
        self._directory = directory
        self._places = metadata.storage_data

    def resolve_data(self, item: WriteItem) -> Any:
        info = self._places[item.index]
        path = os.path.join(self._directory, info.relative_path)
        with open(path, "rb") as file:
            file.seek(info.offset)
            contents = file.read(info.length)
        if len(contents) != info.length:
            raise ValueError(f'{path}: the file ends within "{item.index.fqn}": take another copy')
        if item.type == WriteItemType.BYTE_IO:
            return io.BytesIO(contents)
        try:
            found = torch.load(io.BytesIO(contents), map_location="cpu", weights_only=True)
        except Exception as error:
            raise ValueError(f'{path}: "{item.index.fqn}" cannot be read: {error}') from error
        if not isinstance(found, torch.Tensor):
            raise ValueError(f'{path}: "{item.index.fqn}" is no tensor')
        return found


class _PacelineData:
    """The same of a checkpoint of Paceline."""

    def __init__(self, directory: str, shards: Shards, metadata: Metadata) -> None:
        self._directory = directory
        self._shards = shards
        self._places = metadata.storage_data

    def resolve_data(self, item: WriteItem) -> Any:
        stored = self._places[item.index]
        if item.type == WriteItemType.BYTE_IO:
            return read_object(self._directory, self._shards, stored)
        tensor = torch.empty(stored.slice.sizes, dtype=stored.dtype)
        self._shards.read(stored.name, stored.dtype, stored.slice, (0,) * tensor.dim(),
                          stored.slice.sizes, tensor)
        return tensor


def _items(metadata: Metadata) -> List[List[WriteItem]]:
    """For each value of the state dict, its chunks, or itself."""
    items = []
    for key, value in metadata.state_dict_metadata.items():
        if isinstance(value, TensorStorageMetadata):
            kind = WriteItemType.SHARD if len(value.chunks) > 1 else WriteItemType.TENSOR
            items.append([WriteItem(MetadataIndex(key, chunk.offsets), kind, tensor_data=(
                TensorWriteData(chunk, value.properties, value.size))) for chunk in value.chunks])
        else:
            items.append([WriteItem(MetadataIndex(key), WriteItemType.BYTE_IO)])
    return items


def _write(writer: Any, plans: List[List[WriteItem]], data: Any, metadata: Metadata) -> int:
    writer.set_up_storage_writer(True)
    local = [writer.prepare_local_plan(SavePlan(plan)) for plan in plans]
    results = [writer.write_data(plan, data).value() for plan in writer.prepare_global_plan(local)]
    writer.finish(Metadata(metadata.state_dict_metadata, planner_data=metadata.planner_data),
                  results)
    return len(metadata.state_dict_metadata)


def to_paceline(source: str, target: str, step: Optional[int]) -> int:
    """Returns the number of values. A shard has one chunk of each tensor, as that of a rank."""
    metadata = read_dcp_metadata(source)
    plans: List[List[WriteItem]] = [[]]
    for items in _items(metadata):
        while len(plans) < len(items):
            plans.append([])
        for plan, item in zip(plans, items):
            plan.append(item)
    return _write(PacelineWriter(target, step=step), plans, _DcpData(source, metadata), metadata)


def to_dcp(source: str, target: str) -> int:
    """Returns the number of values. A file has slices of at most MOST_FILE_BYTES, or one slice."""
    manifest = read_manifest(source)
    metadata = metadata_of(manifest)
    plans: List[List[WriteItem]] = [[]]
    room = MOST_FILE_BYTES
    for item in (item for items in _items(metadata) for item in items):
        room -= metadata.storage_data[item.index].slice.bytes
        if room < 0 and plans[-1]:
            plans.append([])
            room = MOST_FILE_BYTES - metadata.storage_data[item.index].slice.bytes
        plans[-1].append(item)
    if os.path.isdir(target) and os.listdir(target):
        raise FileExistsError(f"{target} is not empty: convert into a new directory")
    writer = FileSystemWriter(target, per_thread_copy_ahead=0, overwrite=False)
    with Shards(source, manifest.files) as shards:
        return _write(writer, plans, _PacelineData(source, shards, metadata), metadata)
