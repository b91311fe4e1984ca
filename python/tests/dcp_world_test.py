"""Checkpoints of several processes, and of torch's own kind, converted."""

import contextlib
import io
import math
import os
import pickle
import struct
import sys
import tempfile
import tracemalloc
import unittest
from unittest import mock

os.environ["GLOO_SOCKET_IFNAME"] = "lo"

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.multiprocessing
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import _EmptyStateDictLoadPlanner
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.metadata import Metadata
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.abspath("python")]
from checkpoints import DirectoryTest, Evil, load, manifest_of, training, zeros_of
from paceline import _dcp_convert, _dcp_metadata
from paceline.dcp import PacelineReader, PacelineWriter, main


def enter(rank, ranks, store, function, arguments):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    function(*arguments)
    dist.barrier()
    dist.destroy_process_group()


def in_world(ranks, function, *arguments):
    """Calls the function in each process of a Gloo world; fails if one of them does."""
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(enter, (ranks, f"{folder}/store", function, arguments), ranks)


def whole(name):
    """Tensors with a number of rows or columns that no world divides."""
    shape = {"rows": (5, 4), "columns": (3, 5), "short": (1, 3), "line": (7,), "same": (2, 2)}[name]
    return torch.arange(1.0, 1.0 + math.prod(shape)).reshape(shape)


PLACED = {"rows": Shard(0), "columns": Shard(1), "short": Shard(0), "line": Shard(0),
          "same": Replicate()}


def placed(placements, empty=False):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return {name: distribute_tensor(torch.zeros_like(whole(name)) if empty else whole(name), mesh,
                                    [placement]) for name, placement in placements.items()}


def save_placed(directory, placements, by_torch=False):
    """Of a world. `by_torch`: as FileSystemWriter does."""
    state = {"model": {**placed(placements), "plain": torch.tensor([1.0, 2.0])}, "epoch": 3}
    if by_torch:
        dcp.save(state, checkpoint_id=directory)
    else:
        dcp.save(state, storage_writer=PacelineWriter(directory))


def check_placed(directory, placements, reader):
    """Loads, in a world, into these placements."""
    names = {f"model/{name}": value for name, value in placed(placements, empty=True).items()}
    if reader is HuggingFaceStorageReader:
        dcp.load(names, storage_reader=reader(directory))
    else:
        dcp.load(names, storage_reader=reader(directory, rename=str))
    for name, value in names.items():
        expected = whole(name.removeprefix("model/"))
        assert torch.equal(value.full_tensor(), expected), (name, value.full_tensor())


def check_refused(directory):
    """A rank's error reaches all, and names the shard."""
    try:
        dcp.load({"model": placed(PLACED, empty=True)}, storage_reader=PacelineReader(directory))
    except CheckpointException as error:
        assert "shard-00001-of-00002.safetensors: missing" in str(error), error
        return
    raise AssertionError("a missing shard was not told")


class WorldTest(DirectoryTest):
    def expected(self):
        return {"model": {**{name: whole(name) for name in PLACED},
                          "plain": torch.tensor([1.0, 2.0])}, "epoch": 3}

    def test_two_processes_into_one_and_three(self):
        in_world(2, save_placed, self.directory, PLACED)
        self.assert_same(load(zeros_of(self.expected()), self.directory), self.expected())
        manifest = manifest_of(self.directory)
        self.assertEqual((manifest["format_version"], manifest["ranks"]), (2, 2))
        slices = manifest["tensors"]["model/columns"]["slices"]
        self.assertEqual([(one["offsets"], one["sizes"]) for one in slices],
                         [([0, 0], [3, 3]), ([0, 3], [3, 2])])
        self.assertTrue(all("rows" not in one for one in slices))
        self.assertEqual([one["rows"] for one in manifest["tensors"]["model/rows"]["slices"]],
                         [[0, 3], [3, 2]])
        self.assertEqual([one["rows"] for one in manifest["tensors"]["model/short"]["slices"]],
                         [[0, 1]])
        other = {"rows": Shard(1), "columns": Shard(0), "short": Replicate(), "line": Shard(0),
                 "same": Shard(1)}
        for reader in (PacelineReader, HuggingFaceStorageReader):
            in_world(3, check_placed, self.directory, other, reader)

    def test_rows_alone_are_version_1(self):
        in_world(2, save_placed, self.directory, {"rows": Shard(0), "line": Shard(0)})
        self.assertEqual(manifest_of(self.directory)["format_version"], 1)

    def test_an_error_of_a_rank_reaches_all(self):
        in_world(2, save_placed, self.directory, PLACED)
        os.unlink(f"{self.directory}/shard-00001-of-00002.safetensors")
        in_world(2, check_refused, self.directory)

    def test_a_directory_of_two_processes_is_converted(self):
        in_world(2, save_placed, f"{self.folder}/dcp", PLACED, True)
        with contextlib.redirect_stdout(io.StringIO()):
            main(["convert", f"{self.folder}/dcp", self.directory])
        self.assert_same(load(zeros_of(self.expected()), self.directory), self.expected())
        self.assertEqual(manifest_of(self.directory)["ranks"], 2)


class ConvertTest(DirectoryTest):
    def setUp(self):
        super().setUp()
        self.source = f"{self.folder}/source"
        self.state = training()

    def convert(self, *arguments):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            main(["convert", *arguments])
        return said.getvalue()

    def refused(self, expected, *arguments):
        with self.assertRaisesRegex(SystemExit, expected):
            self.convert(*arguments)

    def test_there_and_back(self):
        dcp.save(self.state, checkpoint_id=self.source, no_dist=True)
        self.assertIn(self.directory, self.convert(self.source, self.directory))
        self.assertEqual(manifest_of(self.directory)["step"], 2)
        self.assert_same(load(zeros_of(self.state), self.directory), self.state)
        back = f"{self.folder}/back"
        # A file for each slice.
        with mock.patch.object(_dcp_convert, "MOST_FILE_BYTES", 1):
            self.convert(self.directory, back, "--to", "dcp")
        found = zeros_of(self.state)
        dcp.load(found, checkpoint_id=back, no_dist=True)
        self.assert_same(found, self.state)
        self.assertGreater(len(os.listdir(back)), 10)
        found = {}
        _load_state_dict(found, dcp.FileSystemReader(back), no_dist=True,
                         planner=_EmptyStateDictLoadPlanner())
        self.assert_same(found, self.state)

    def test_a_step_is_given(self):
        dcp.save({"x": torch.ones(1)}, checkpoint_id=self.source, no_dist=True)
        self.convert(self.source, f"{self.folder}/out", "--step", "9")
        self.assertEqual(manifest_of(f"{self.folder}/out")["step"], 9)

    def test_metadata_that_would_run_code(self):
        os.mkdir(self.source)
        made = f"{self.folder}/made"
        for evil in [Evil(made), {"a": [Evil(made)]}]:
            with open(f"{self.source}/.metadata", "wb") as file:
                pickle.dump(evil, file)
            self.refused(r"\.metadata: not read.*io\.open", self.source, self.directory)
        self.assertFalse(os.path.exists(made))
        self.assertFalse(os.path.exists(self.directory))

    def write_metadata(self, contents):
        os.makedirs(self.source, exist_ok=True)
        with open(f"{self.source}/.metadata", "wb") as file:
            file.write(contents)

    def test_what_pickles_can_do_without_a_call(self):
        record = b"ctorch.distributed.checkpoint.metadata\nMetadata\n"
        for contents in [
                # Attributes of a class, of torch's and of an object that is none.
                record + b"N}Vevil\nI1\ns\x86b.",
                record + b"}Vevil\nI1\nsb.",
                b"ctorch\nfloat32\nN}Vevil\nI1\ns\x86b.",
                # getattr, and calls with other arguments than torch's.
                b"cbuiltins\ngetattr\n(" + record + b"V__init__\ntR.",
                record + b"(I1\ntR.",
                record + b"(I1\nt}\x92.",
                b"ctorch.serialization\n_get_layout\n(Vx\ntR.",
                b"I1\n.", b"", b"\x80\x04"]:
            with self.subTest(contents):
                self.write_metadata(contents)
                self.refused(r"\.metadata: not read", self.source, self.directory)
        self.assertFalse(hasattr(Metadata, "evil") or hasattr(_dcp_metadata._Metadata, "evil"))
        self.assertFalse(hasattr(torch.float32, "evil"))

    def test_small_pickles_of_large_objects(self):
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        nested = ()
        for _ in range(60):
            nested = (nested, nested)
        for contents in [
                b"Nr" + struct.pack("<I", 1 << 22) + b".",  # Place 4,194,304 of the memo.
                pickle.dumps(Metadata({}, planner_data={"x": nested}, storage_data={})),
                pickle.dumps(Metadata({"x": nested}, storage_data={})),
                pickle.dumps(Metadata({}, planner_data={"x": ("x", 1 << 40)}, storage_data={}))]:
            with self.subTest(contents[:20]):
                self.write_metadata(contents)
                self.refused(r"\.metadata: not read", self.source, self.directory)
        self.assertLess(tracemalloc.get_traced_memory()[1], 16 << 20)

    def change_metadata(self, change):
        """Of what a save has written."""
        dcp.save({"x": torch.ones(4)}, checkpoint_id=self.source, no_dist=True)
        with open(f"{self.source}/.metadata", "rb") as file:
            metadata = pickle.load(file)
        change(metadata)
        self.write_metadata(pickle.dumps(metadata))

    def test_metadata_that_contradicts_itself(self):
        def place(**fields):
            return lambda one: [vars(info).update(fields) for info in one.storage_data.values()]

        for expected, change in [
                ("no file beside it", place(relative_path="../__0_0.distcp")),
                ("no file beside it", place(relative_path="")),
                ("no file beside it", place(relative_path="x\0")),
                ("no whole number", place(offset=-1)),
                ("no whole number", place(length=1 << 63)),
                ('where all of "x" is', place(length=15)),
                ('where all of "x" is', lambda one: one.storage_data.clear()),
                ("by extensions", place(transform_descriptors=["zstd"])),
                ("is none of a tensor", lambda one: setattr(
                    one.state_dict_metadata["x"], "size", torch.Size([3])))]:
            with self.subTest(expected):
                self.change_metadata(change)
                self.refused(expected, self.source, self.directory)

    def test_files_that_are_none(self):
        self.change_metadata(lambda one: None)
        for name in ("__0_0.distcp", ".metadata"):
            os.unlink(f"{self.source}/{name}")
            os.mkfifo(f"{self.source}/{name}")
            self.refused(f"{name}: no regular file", self.source,
                         f"{self.directory}/{name}")

    def test_a_truncated_file_is_named(self):
        dcp.save({"x": torch.ones(1000)}, checkpoint_id=self.source, no_dist=True)
        os.truncate(f"{self.source}/__0_0.distcp", 100)
        self.refused(r'__0_0\.distcp: the file ends within "x"', self.source, self.directory)
        self.assertFalse(os.path.exists(f"{self.directory}/manifest.json"))

    def test_what_is_no_checkpoint(self):
        os.mkdir(self.source)
        self.refused("no .metadata in it", self.source, self.directory)
        self.refused("no complete checkpoint", self.source, self.directory, "--to", "dcp")

    def test_a_target_with_something_in_it(self):
        dcp.save({"x": torch.ones(1)}, checkpoint_id=self.source, no_dist=True)
        self.refused("is not empty", self.source, self.source)
        self.convert(self.source, self.directory)
        self.refused("is not empty", self.directory, self.source, "--to", "dcp")


if __name__ == "__main__":
    unittest.main()
