"""Converts checkpoints between Paceline's kind and that of torch's FileSystemWriter.

Both directions are plans of torch.distributed.checkpoint that one process carries out, with data
that is read when its turn has come.
"""

from __future__ import annotations

import io
import os
from typing import Any, List, Optional

import torch
from torch.distributed.checkpoint.filesystem import FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, MetadataIndex, TensorStorageMetadata
from torch.distributed.checkpoint.planner import (SavePlan, TensorWriteData, WriteItem,
                                                  WriteItemType)

from paceline._checkpoint_manifest import open_regular, read_manifest
from paceline._checkpoint_shards import Shards
from paceline._dcp_metadata import read_dcp_metadata
from paceline.dcp import PacelineWriter, metadata_of, read_object

# FileSystemWriter keeps what it has written to a file until the file ends.
MOST_FILE_BYTES = 256 << 20


class _DcpData:
    """Values of a checkpoint of FileSystemWriter, for a writer that asks its planner for them."""

    def __init__(self, directory: str, metadata: Metadata) -> None:
        self._directory = directory
        self._places = metadata.storage_data

    def resolve_data(self, item: WriteItem) -> Any:
        info = self._places[item.index]
        path = os.path.join(self._directory, info.relative_path)
        with os.fdopen(open_regular(path), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(info.offset)
            contents = file.read(info.length) if info.offset + info.length <= size else b""
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
    items: List[List[WriteItem]] = []
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
