"""Checkpoints of Paceline for torch.distributed.checkpoint (docs/checkpoints.md).

    dcp.save(state, storage_writer=PacelineWriter(directory))
    dcp.load(state, storage_reader=PacelineReader(directory))

`python -m paceline.dcp convert` makes a checkpoint of the one kind from one of the other.
"""

from __future__ import annotations

import argparse
import dataclasses
import io
import os
import pickle
import re
import sys
from dataclasses import dataclass
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

import torch
from torch.distributed.checkpoint.metadata import (BytesStorageMetadata, ChunkStorageMetadata,
                                                   Metadata, MetadataIndex, StorageMeta,
                                                   TensorProperties, TensorStorageMetadata)
from torch.distributed.checkpoint.planner import (LoadItemType, LoadPlan, LoadPlanner, SavePlan,
                                                  SavePlanner, WriteItem, WriteItemType)
from torch.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from torch.futures import Future

from paceline._checkpoint_manifest import (DTYPE_NAMES, MANIFEST, Manifest, Path, Slice,
                                           StoredTensor, check_name, damaged, read_manifest,
                                           sync_directory, write_manifest)
from paceline._checkpoint_shards import Entry, Shards, shard_name, write_shard

Directory = Union[str, "os.PathLike[str]"]

# What is no tensor, as the bytes of torch.save.
OBJECT = "object/"
# How many steps the optimizer has made, where all parameters have made equally many.
STEP = "optimizer/step"

_CHECKPOINT_NAME = re.compile(r"step-([0-9]{12,})\.g([1-9][0-9]*)")


def path_of(name: str) -> Path:
    """Where the tensor of a checkpoint is in a state dict {"model": …, "optimizer": …}.

    The optimizer's is as get_optimizer_state_dict has it: "state", the parameter's name, the slot.
    """
    kind, _, rest = name.partition("/")
    if kind == "model" and rest:
        return kind, rest
    slot, _, parameter = rest.partition("/")
    if kind == "optimizer" and slot and parameter:
        return kind, "state", parameter, slot
    return (name,)


def key_of(path: Path) -> str:
    """The key that torch.distributed.checkpoint gives to a value of a nested state dict."""
    return ".".join(map(str, path))


def name_of(key: str) -> str:
    """The name in a checkpoint of a key: the inverse of path_of and key_of."""
    if key.startswith("model.") and key != "model.":
        return "model/" + key[len("model."):]
    parameter, _, slot = key[len("optimizer.state."):].rpartition(".")
    if key.startswith("optimizer.state.") and parameter and slot and "/" not in slot:
        return f"optimizer/{slot}/{parameter}"
    return key


@dataclass(frozen=True)
class _Stored:
    """A slice, or an object's bytes, with what it belongs to."""

    name: str
    dtype: torch.dtype
    slice: Slice


def _add(metadata: Metadata, path: Path, name: str, tensor: StoredTensor) -> None:
    key = key_of(path)
    if key in metadata.state_dict_metadata:
        raise ValueError(f'two tensors of the checkpoint would be "{key}": rename one of them')
    metadata.planner_data[key] = path
    if name.startswith(OBJECT):
        if tensor.dtype != torch.uint8 or len(tensor.shape) != 1 or len(tensor.slices) != 1:
            raise ValueError(f'"{name}" of the checkpoint is no text of torch.save in one slice: '
                             "take another checkpoint")
        metadata.state_dict_metadata[key] = BytesStorageMetadata()
        metadata.storage_data[MetadataIndex(key)] = _Stored(name, tensor.dtype, tensor.slices[0])
        return
    chunks: List[ChunkStorageMetadata] = []
    for one in tensor.slices:
        offsets = torch.Size(one.offsets)
        chunks.append(ChunkStorageMetadata(offsets, torch.Size(one.sizes)))
        metadata.storage_data[MetadataIndex(key, offsets)] = _Stored(name, tensor.dtype, one)
    metadata.state_dict_metadata[key] = TensorStorageMetadata(
        TensorProperties(dtype=tensor.dtype), torch.Size(tensor.shape), chunks)


def metadata_of(manifest: Manifest,
                rename: Optional[Callable[[str], Optional[str]]] = None) -> Metadata:
    """A manifest for torch.distributed.checkpoint; its storage_data is _Stored by index."""
    metadata = Metadata({}, planner_data={}, storage_data={}, storage_meta=StorageMeta())
    for name, tensor in manifest.tensors.items():
        if rename is not None:
            key = rename(name)
            if key is not None:
                _add(metadata, (key,), name, tensor)
        elif name != STEP or not any(one.startswith(STEP + "/") for one in manifest.tensors):
            _add(metadata, tensor.path or path_of(name), name, tensor)
    if rename is None and STEP in manifest.tensors:
        # An optimizer of torch has the number of steps once for each parameter.
        for name in manifest.tensors:
            path = path_of(name)
            if path[:2] == ("optimizer", "state"):
                step: Path = (*path[:3], "step")
                if key_of(step) not in metadata.state_dict_metadata:
                    _add(metadata, step, STEP, manifest.tensors[STEP])
    return metadata


def read_object(directory: str, shards: Shards, stored: _Stored) -> io.BytesIO:
    """The value as torch.save writes it anew, since torch's planners unpickle whatever they get.

    ValueError if it is no plain value.
    """
    raw = torch.empty(stored.slice.sizes, dtype=torch.uint8)
    shards.read(stored.name, stored.dtype, stored.slice, (0,), stored.slice.sizes, raw)
    try:
        value = torch.load(io.BytesIO(raw.numpy().tobytes()), map_location="cpu",
                           weights_only=True)
    except pickle.UnpicklingError as error:
        raise ValueError(f'{directory}: "{stored.name}" would run code when it is loaded, and is '
                         "not. If you trust the checkpoint, allow the classes in it with "
                         f"torch.serialization.add_safe_globals. {error}") from error
    except Exception as error:
        raise damaged(directory, f'"{stored.name}" cannot be read: {error}') from error
    contents = io.BytesIO()
    torch.save(value, contents)
    contents.seek(0)
    return contents


class PacelineReader(StorageReader):
    """Reads a checkpoint of a Paceline job, or of PacelineWriter, into tensors of any placement.

    `rename` gets a tensor's name in the checkpoint and returns its key in the state dict, or None
    to leave it out. By default `model/fc.weight` is for {"model": {"fc.weight": …}}, and
    `optimizer/exp_avg/fc.weight` for {"optimizer": {"state": {"fc.weight": {"exp_avg": …}}}}.

    Exactly the wanted parts are read. A slice that is read whole is compared with its checksum;
    `verify=False` compares nothing, and needs no xxhash.
    """

    def __init__(self, directory: Directory,
                 rename: Optional[Callable[[str], Optional[str]]] = None, *,
                 verify: bool = True) -> None:
        self.directory = os.fspath(directory)
        self._rename = rename
        self._verify = verify
        self._manifest: Optional[Manifest] = None
        self._error: Optional[Exception] = None  # Of read_metadata.
        self._stored: Dict[MetadataIndex, _Stored] = {}

    def reset(self, checkpoint_id: Optional[Directory] = None) -> None:
        if checkpoint_id is not None:
            self.directory = os.fspath(checkpoint_id)

    def read_metadata(self, *_args: Any, **_kwargs: Any) -> Metadata:
        """Empty if there was an error, which set_up_storage_reader raises.

        From here, torch.distributed.checkpoint would drop it, and report a missing metadata only.
        """
        self._error = None
        try:
            self._manifest = read_manifest(self.directory, self._verify)
            return metadata_of(self._manifest, self._rename)
        except Exception as error:  # pylint: disable=broad-except
            self._error = error
            return Metadata({}, planner_data={}, storage_data={}, storage_meta=StorageMeta())

    def set_up_storage_reader(self, metadata: Metadata, is_coordinator: bool, *_args: Any,
                              **_kwargs: Any) -> None:
        if self._error is not None:
            raise self._error
        self._stored = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: List[LoadPlan]) -> List[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future[None]:
        assert self._manifest is not None
        wanted = [(self._stored[item.storage_index], item) for item in plan.items]
        wanted.sort(key=lambda one: (one[0].slice.file, one[0].slice.offset))
        with Shards(self.directory, self._manifest.files, self._verify) as shards:
            for stored, item in wanted:
                if item.type == LoadItemType.BYTE_IO:
                    planner.load_bytes(item, read_object(self.directory, shards, stored))
                    continue
                target = planner.resolve_tensor(item).detach()
                shards.read(stored.name, stored.dtype, stored.slice, tuple(item.storage_offsets),
                            tuple(item.lengths), target)
                planner.commit_tensor(item, target)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Directory) -> bool:
        return "://" not in os.fspath(checkpoint_id)


@dataclass(frozen=True)
class _Place:
    """What a rank is told of its plan."""

    rank: int
    ranks: int
    step_key: Optional[str]  # Of a parameter's number of steps that is also written as STEP.


@dataclass(frozen=True)
class _Written:
    """A slice that a rank has written."""

    name: str
    dtype: torch.dtype
    shape: Tuple[int, ...]
    slice: Slice
    file_bytes: int


class PacelineWriter(StorageWriter):
    """Writes a checkpoint that Paceline, PacelineReader and other readers of safetensors read.

    The directory is new or empty; its name may be `step-000000000500.g1`, as those of jobs are.
    `step` is by default the one in the name, else 0. `rename` gets a key of the state dict and
    returns the tensor's name in the checkpoint, by default as PacelineReader has it. Values that
    are no tensors are saved by torch.save, under `object/` and their key.

    Each rank writes its own shard, one tensor after the other; the coordinator writes the manifest
    when all have done so. Until then the directory is no checkpoint. Needs xxhash.
    """

    def __init__(self, directory: Directory, *, step: Optional[int] = None,
                 rename: Optional[Callable[[str], str]] = None) -> None:
        self.directory = os.fspath(directory)
        self._step = step
        self._rename = rename or name_of
        self._checkpoint_key()  # Refuses a step that is none.

    def reset(self, checkpoint_id: Optional[Directory] = None) -> None:
        if checkpoint_id is not None:
            self.directory = os.fspath(checkpoint_id)

    def set_up_storage_writer(self, is_coordinator: bool, *_args: Any, **kwargs: Any) -> None:
        if not kwargs.get("use_collectives", True):
            raise ValueError("with use_collectives=False each rank would have a checkpoint of its "
                             "own; PacelineWriter writes one of all ranks: leave it out")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        self._checkpoint_key()
        if not os.path.isdir(self.directory):
            os.makedirs(self.directory, exist_ok=True)
            sync_directory(os.path.dirname(os.path.abspath(self.directory)))
        if os.listdir(self.directory):
            raise FileExistsError(f"{self.directory} is not empty, and no checkpoint is written "
                                  "over: save into a new directory, or remove what is in it")
        return plan

    def prepare_global_plan(self, plans: List[SavePlan]) -> List[SavePlan]:
        keys: Dict[str, str] = {}
        step_key = None
        for plan in plans:
            for item in plan.items:
                name, key = self._name(item), item.index.fqn
                check_name(name)
                if item.tensor_data and item.tensor_data.properties.dtype not in DTYPE_NAMES:
                    raise ValueError(f'tensor "{name}" is of {item.tensor_data.properties.dtype}, '
                                     "which safetensors do not have: save it as another type")
                if keys.setdefault(name, key) != key:
                    raise ValueError(f'"{keys[name]}" and "{key}" would both be "{name}" in the '
                                     "checkpoint: rename one of them")
                if name.startswith(STEP + "/") and item.type == WriteItemType.TENSOR:
                    step_key = step_key or key
        if STEP in keys:
            step_key = None
        return [dataclasses.replace(plan, storage_data=_Place(rank, len(plans), step_key))
                for rank, plan in enumerate(plans)]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future[List[WriteResult]]:
        place: _Place = plan.storage_data
        # A name occurs once in a shard: a rank with several slices of a tensor has several.
        files: List[Dict[str, Tuple[MetadataIndex, Entry]]] = []
        for index, entry in self._entries(plan, planner, place.step_key):
            free = next((one for one in files if entry.name not in one), None)
            if free is None:
                files.append({})
                free = files[-1]
            free[entry.name] = (index, entry)
        results: List[WriteResult] = []
        for number, in_file in enumerate(files):
            file = shard_name(place.rank, place.ranks, number)
            entries = [entry for _, entry in in_file.values()]
            slices = write_shard(self.directory, file, entries)
            file_bytes = os.path.getsize(os.path.join(self.directory, file))
            for (index, entry), one in zip(in_file.values(), slices):
                written = _Written(entry.name, entry.dtype, entry.shape, one, file_bytes)
                results.append(WriteResult(index, one.bytes, written))
        done: Future[List[WriteResult]] = Future()
        done.set_result(results)
        return done

    def finish(self, metadata: Metadata, results: List[List[WriteResult]]) -> None:
        step, generation = self._checkpoint_key()
        manifest = Manifest(step, generation, len(results), {}, {})
        nested = isinstance(metadata.planner_data, dict)  # Other planners have what they like.
        paths: Dict[str, Any] = metadata.planner_data if nested else {}
        for result in (result for of_rank in results for result in of_rank):
            written: _Written = result.storage_data
            tensor = manifest.tensors.setdefault(
                written.name, StoredTensor(written.dtype, written.shape, []))
            if (tensor.dtype, tensor.shape) != (written.dtype, written.shape):
                raise ValueError(f'{self.directory}: not written: tensor "{written.name}" is '
                                 f"{tensor.dtype} {tensor.shape} on one rank, and on another "
                                 f"{written.dtype} {written.shape}")
            tensor.slices.append(written.slice)
            manifest.files[written.slice.file] = written.file_bytes
            path = tuple(paths.get(result.index.fqn, (result.index.fqn,)))
            tensor.path = path if path != path_of(written.name) else None
        self._check_shards(manifest)
        write_manifest(self.directory, manifest)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Directory) -> bool:
        return "://" not in os.fspath(checkpoint_id)

    def _check_shards(self, manifest: Manifest) -> None:
        """The shards of all ranks are here, and none of another save."""
        for name, count in manifest.files.items():
            path = os.path.join(self.directory, name)
            if not os.path.exists(path) or os.path.getsize(path) != count:
                raise FileNotFoundError(f"{path} was written by a rank, and is not here: save into "
                                        "a directory that all ranks share")
        others = [name for name in os.listdir(self.directory) if name not in manifest.files
                  and (name == MANIFEST or name.endswith(".safetensors"))]
        if others:
            raise FileExistsError(f"{self.directory}: {min(others)} is of another save, made "
                                  "meanwhile: save into a new directory")

    def _checkpoint_key(self) -> Tuple[int, int]:
        """Step and generation, which the directory's name may tell."""
        told = _CHECKPOINT_NAME.fullmatch(os.path.basename(os.path.abspath(self.directory)))
        step, generation = (int(told[1]), int(told[2])) if told else (self._step or 0, 1)
        if self._step is not None and (self._step < 0 or self._step != step):
            raise ValueError(f"step {self._step} is negative, or another one than the name of "
                             f"{self.directory} tells: leave it out, or rename the directory")
        return step, generation

    def _name(self, item: WriteItem) -> str:
        if item.type == WriteItemType.BYTE_IO:
            return OBJECT + item.index.fqn
        name = self._rename(item.index.fqn)
        if name.startswith(OBJECT):
            raise ValueError(f'the tensor "{item.index.fqn}" would be "{name}", and such names are '
                             "for what is no tensor: rename it")
        return name

    def _entries(self, plan: SavePlan, planner: SavePlanner,
                 step_key: Optional[str]) -> List[Tuple[MetadataIndex, Entry]]:
        entries: List[Tuple[MetadataIndex, Entry]] = []
        for item in plan.items:
            name = self._name(item)
            if item.type == WriteItemType.BYTE_IO:
                entries.append((item.index, _object_entry(name, planner, item)))
                continue
            data = item.tensor_data
            assert data is not None and data.chunk is not None
            shape, offsets = tuple(data.size), tuple(data.chunk.offsets)
            # A tensor without elements is one slice, however it is cut; others have no empty ones.
            sizes = shape if 0 in shape else tuple(data.chunk.sizes)
            entry = Entry(name, data.properties.dtype, shape, offsets, sizes,
                          partial(_tensor_of, planner, item))
            if not any(offsets) if 0 in shape else 0 not in sizes:
                entries.append((item.index, entry))
            if item.index.fqn == step_key:
                entries.append((MetadataIndex(STEP), dataclasses.replace(entry, name=STEP)))
        return entries


def _tensor_of(planner: SavePlanner, item: WriteItem) -> torch.Tensor:
    tensor = planner.resolve_data(item)
    assert isinstance(tensor, torch.Tensor)
    return tensor


def _object_entry(name: str, planner: SavePlanner, item: WriteItem) -> Entry:
    contents = planner.resolve_data(item)
    assert isinstance(contents, io.BytesIO)
    raw = torch.frombuffer(bytearray(contents.getbuffer()), dtype=torch.uint8)
    return Entry(name, raw.dtype, tuple(raw.shape), (0,), tuple(raw.shape), lambda: raw)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m paceline.dcp",
        description="Checkpoints of Paceline and of torch.distributed.checkpoint.")
    commands = parser.add_subparsers(dest="command", required=True)
    convert = commands.add_parser(
        "convert", help="make a checkpoint of the one kind from one of the other",
        description="Makes a checkpoint of Paceline from a directory that "
        "torch.distributed.checkpoint's own FileSystemWriter has written, or the other way round. "
        "Its .metadata is a pickle: it is read without running code. Memory holds about twice the "
        "largest slice of a tensor, and for --to dcp 256 MiB more.")
    convert.add_argument("source", metavar="SOURCE", help="the directory to read")
    convert.add_argument("target", metavar="TARGET", help="a new directory")
    convert.add_argument("--to", choices=("paceline", "dcp"), default="paceline",
                         help="what TARGET is to be (default: %(default)s)")
    convert.add_argument("--step", type=int, help="steps that the training had made, for Paceline "
                         "(default: what TARGET's name step-….g1 says, else 0)")
    return parser


def main(arguments: Optional[Sequence[str]] = None) -> None:
    from paceline import _dcp_convert  # pylint: disable=import-outside-toplevel

    parser = _parser()
    given = parser.parse_args(arguments)
    if given.to == "dcp" and given.step is not None:
        parser.error("--step is for --to paceline")
    try:
        if given.to == "dcp":
            count = _dcp_convert.to_dcp(given.source, given.target)
        else:
            count = _dcp_convert.to_paceline(given.source, given.target, given.step)
    except (OSError, ValueError, ImportError) as error:
        sys.exit(f"{parser.prog}: {error}")
    print(f"{count} tensors and other values, in {given.target}")


if __name__ == "__main__":
    main()
