"""Checkpoints of Paceline through torch.distributed.checkpoint, in one process."""

import io
import itertools
import json
import os
import random
import sys
import tempfile
import unittest
from unittest import mock

import torch
import torch.distributed.checkpoint as dcp
import xxhash
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.default_planner import (DefaultLoadPlanner, DefaultSavePlanner,
                                                          _EmptyStateDictLoadPlanner)
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
from torch.distributed.checkpoint.state_dict_loader import _load_state_dict

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.abspath("python")]
from checkpoints import DirectoryTest, Evil, load, manifest_of, save, training, zeros_of
from paceline import _checkpoint_manifest, _checkpoint_shards
from paceline.dcp import PacelineReader, PacelineWriter, key_of, name_of, path_of


def write_manifest_of(directory, manifest):
    """Replaces it by one that somebody has changed, with a checksum that fits."""
    text = json.dumps(manifest)
    body = f'"format_version": {manifest["format_version"]},\n{text[1:]}'.encode()
    with open(f"{directory}/manifest.json", "wb") as file:
        file.write(b'{"checksum": "xxh3:%s",\n' % xxhash.xxh3_64_hexdigest(body).encode() + body)


class NamesTest(unittest.TestCase):
    def test_keys_come_back(self):
        for key in ["model.fc.weight", "optimizer.state.fc.weight.exp_avg", "models.x",
                    "optimizer.state.0.step", "optimizer.param_groups.0.lr", "epoch", "model.",
                    "optimizer.state.x", "a/b", "optimizer.state.a.b/c"]:
            self.assertEqual(key_of(path_of(name_of(key))), key)

    def test_names_are_those_of_jobs(self):
        self.assertEqual(name_of("model.fc.weight"), "model/fc.weight")
        self.assertEqual(name_of("optimizer.state.fc.weight.exp_avg"),
                         "optimizer/exp_avg/fc.weight")
        self.assertEqual(path_of("optimizer/exp_avg/fc.weight"),
                         ("optimizer", "state", "fc.weight", "exp_avg"))
        for name in ["rng/cpu", "optimizer/step", "averager/level0/x", "rank1/model/x"]:
            self.assertEqual(path_of(name), (name,))


class OneProcessTest(DirectoryTest):
    def test_a_training_comes_back(self):
        state = training()
        save(state, self.directory)
        self.assert_same(load(zeros_of(state), self.directory), state)

    def test_manifest_is_that_of_a_job(self):
        save(training(), self.directory)
        manifest = manifest_of(self.directory)
        self.assertEqual(
            [manifest[key] for key in ("format_version", "step", "generation", "ranks")],
            [1, 2, 3, 1])
        self.assertLessEqual(
            {"model/0.weight", "model/1.num_batches_tracked", "optimizer/exp_avg/0.weight",
             "optimizer/step/0.weight", "optimizer/step", "object/epoch"}, set(manifest["tensors"]))
        self.assertEqual(manifest["tensors"]["model/0.weight"]["shape"], [5, 6])
        self.assertEqual(manifest["tensors"]["model/0.weight"]["slices"][0]["rows"], [0, 5])
        self.assertEqual(manifest["tensors"]["optimizer/step"]["slices"][0]["rows"], [0, 1])
        # Only what the names do not tell.
        self.assertNotIn("path", manifest["tensors"]["model/0.weight"])
        self.assertEqual(manifest["tensors"]["object/optimizer.param_groups.0.lr"]["path"],
                         ["optimizer", "param_groups", 0, "lr"])
        # Checksum of all but the first line; entries aligned to their elements.
        with open(f"{self.directory}/manifest.json", "rb") as file:
            first, _, rest = file.read().partition(b"\n")
        self.assertEqual(first.decode(),
                         '{"checksum": "xxh3:%s",' % xxhash.xxh3_64_hexdigest(rest))
        for tensor in manifest["tensors"].values():
            for one in tensor["slices"]:
                if tensor["dtype"] == "F32":
                    self.assertEqual(one["offset"] % 4, 0)

    def test_state_is_made_from_the_checkpoint_alone(self):
        state = training()
        save(state, self.directory)
        found = {}
        _load_state_dict(found, PacelineReader(self.directory), no_dist=True,
                         planner=_EmptyStateDictLoadPlanner())
        self.assert_same(found, state)

    def test_types_and_shapes(self):
        state = {name: torch.arange(24).to(dtype).reshape(2, 3, 4)
                 for name, dtype in _checkpoint_manifest.DTYPES.items() if name[:3] != "F8_"}
        state.update({"scalar": torch.tensor(2.5), "no rows": torch.zeros(0, 3),
                      "empty rows": torch.zeros(3, 0), "none": torch.zeros(0),
                      "turned": torch.arange(12.).view(3, 4).t(), "one": torch.ones(1)})
        save(state, self.directory)
        self.assert_same(load(zeros_of(state), self.directory), state)

    def test_eight_bit_floats(self):
        state = {str(dtype): torch.arange(16, dtype=torch.uint8).view(dtype)
                 for dtype in (torch.float8_e4m3fn, torch.float8_e5m2)}
        save(state, self.directory)
        found = load({name: torch.empty(16, dtype=value.dtype) for name, value in state.items()},
                     self.directory)
        for name, value in state.items():
            self.assertEqual(found[name].view(torch.uint8).tolist(), list(range(16)))
            self.assertEqual(found[name].dtype, value.dtype)

    def test_floats_are_converted(self):
        save({"x": torch.tensor([1.0, 2.5])}, self.directory)
        found = load({"x": torch.zeros(2, dtype=torch.bfloat16)}, self.directory)
        self.assertEqual(found["x"].tolist(), [1.0, 2.5])
        with self.assertRaisesRegex(CheckpointException, "is of torch.float32, and is wanted as"):
            load({"x": torch.zeros(2, dtype=torch.int64)}, self.directory)

    def test_renamed_on_both_sides(self):
        state = {"a": torch.ones(2), "b": torch.ones(3)}
        save(state, self.directory, rename=lambda key: f"model/net.{key}")
        self.assertEqual(set(manifest_of(self.directory)["tensors"]),
                         {"model/net.a", "model/net.b"})
        self.assert_same(load(zeros_of(state), self.directory), state)
        found = load({"net.b": torch.zeros(3)}, self.directory, rename=lambda name: (
            name.removeprefix("model/") if name.endswith("b") else None))
        self.assertEqual(found["net.b"].tolist(), [1.0] * 3)

    def test_a_jobs_state_for_an_optimizer_of_torch(self):
        stored = {"model/w": torch.ones(2), "optimizer/exp_avg/w": torch.full((2,), 2.0),
                  "optimizer/exp_avg/b": torch.full((3,), 4.0), "optimizer/step": torch.tensor(7.0)}
        os.mkdir(self.directory)
        slices = _checkpoint_shards.write_shard(self.directory, "shard", [
            _checkpoint_shards.Entry(name, value.dtype, tuple(value.shape), (0,) * value.dim(),
                                     tuple(value.shape), lambda value=value: value)
            for name, value in stored.items()])
        _checkpoint_manifest.write_manifest(self.directory, _checkpoint_manifest.Manifest(
            7, 1, 1, {"shard": os.path.getsize(f"{self.directory}/shard")},
            {name: _checkpoint_manifest.StoredTensor(value.dtype, tuple(value.shape), [one])
             for (name, value), one in zip(stored.items(), slices)}))
        found = load({"model": {"w": torch.zeros(2)}, "optimizer": {"state": {
            name: {"exp_avg": torch.zeros(size), "step": torch.tensor(0.0)}
            for name, size in (("w", 2), ("b", 3))}}}, self.directory)
        state = found["optimizer"]["state"]
        self.assertEqual((state["w"]["step"].item(), state["b"]["step"].item()), (7.0, 7.0))
        self.assertEqual(state["b"]["exp_avg"].tolist(), [4.0] * 3)
        found = load({"model/w": torch.zeros(2)}, self.directory, rename=str)
        self.assertEqual(found["model/w"].tolist(), [1.0, 1.0])

    def test_torchs_reader_of_safetensors(self):
        model = training()["model"]
        save({"model": model}, self.directory)
        # Its library takes no slices of scalars.
        expected = {f"model/{name}": value for name, value in model.items() if value.dim() > 0}
        found = zeros_of(expected)
        dcp.load(found, storage_reader=HuggingFaceStorageReader(self.directory), no_dist=True)
        self.assert_same(found, expected)

    def test_async_save(self):
        state = training()
        dcp.async_save(state, storage_writer=PacelineWriter(self.directory)).result()
        self.assert_same(load(zeros_of(state), self.directory), state)


class MistakesTest(DirectoryTest):
    def refuses(self, expected, state, directory=None, **options):
        with self.assertRaisesRegex(CheckpointException, expected):
            save(state, directory or self.directory, **options)
        self.assertFalse(os.path.exists(f"{self.directory}/manifest.json"))

    def test_two_keys_of_one_name(self):
        self.refuses('"model.x" and "model/x"|"model/x" and "model.x"',
                     {"model": {"x": torch.ones(1)}, "model/x": torch.ones(1)})

    def test_names_that_cannot_be(self):
        self.refuses("cannot be the name", {"a\nb": torch.ones(1)})
        self.refuses("for what is no tensor", {"object/x": torch.ones(1)})

    def test_types_that_cannot_be(self):
        self.refuses('"z" is of torch.complex64', {"z": torch.ones(1, dtype=torch.complex64)})

    def test_a_checkpoint_is_not_written_over(self):
        save({"x": torch.ones(1)}, self.directory)
        with self.assertRaisesRegex(CheckpointException, "is not empty"):
            save({"x": torch.zeros(1)}, self.directory)
        self.assertEqual(load({"x": torch.zeros(1)}, self.directory)["x"].item(), 1.0)

    def test_another_step_than_the_name_tells(self):
        with self.assertRaisesRegex(ValueError, "step 5 is"):
            PacelineWriter(self.directory, step=5)
        save({"x": torch.ones(1)}, f"{self.folder}/mine", step=5)
        self.assertEqual(manifest_of(f"{self.folder}/mine")["step"], 5)

    def test_each_rank_for_itself(self):
        with self.assertRaisesRegex(ValueError, "use_collectives"):
            dcp.save({"x": torch.ones(1)}, storage_writer=PacelineWriter(self.directory),
                     no_dist=True, use_collectives=False)

    def test_a_save_that_fails_leaves_no_file(self):
        os.mkdir(self.directory)
        full = OSError(28, "No space left on device")
        with mock.patch("os.fsync", side_effect=full):
            self.refuses("No space left on device.*shard-00000-of-00001", {"x": torch.ones(1)})
        self.assertEqual(os.listdir(self.directory), [])

    def test_shards_of_others_and_shards_that_are_not_here(self):
        other = f"{self.directory}/shard-00000-of-00002.safetensors"
        own = f"{self.directory}/shard-00000-of-00001.safetensors"

        class Raced(PacelineWriter):
            def write_data(self, plan, planner):
                with open(other, "wb"):
                    return super().write_data(plan, planner)

        class Elsewhere(PacelineWriter):
            def write_data(self, plan, planner):
                done = super().write_data(plan, planner)
                os.unlink(own)
                return done

        for writer, expected in [(Raced, "00002.safetensors is of another save"),
                                 (Elsewhere, "and is not here")]:
            with self.subTest(expected):
                with self.assertRaisesRegex(CheckpointException, expected):
                    dcp.save({"x": torch.ones(1)}, storage_writer=writer(self.directory),
                             no_dist=True)
                self.assertFalse(os.path.exists(f"{self.directory}/manifest.json"))
                for name in os.listdir(self.directory):
                    os.unlink(f"{self.directory}/{name}")

    def test_planners_get_no_pickle_of_the_checkpoint(self):
        seen = []

        class Older(DefaultSavePlanner):
            def transform_object(self, write_item, object):
                contents = io.BytesIO()
                torch.save(object, contents, _use_new_zipfile_serialization=False)
                return contents

        class Watching(DefaultLoadPlanner):
            def load_bytes(self, read_item, value):
                seen.append(value.getvalue())
                super().load_bytes(read_item, value)

        dcp.save({"x": {"y": 5}}, storage_writer=PacelineWriter(self.directory), planner=Older(),
                 no_dist=True)
        found = {"x": {"y": None}}
        dcp.load(found, storage_reader=PacelineReader(self.directory), planner=Watching(),
                 no_dist=True)
        self.assertEqual(found, {"x": {"y": 5}})
        self.assertEqual([one[:2] for one in seen], [b"PK"])

    def test_an_object_that_would_run_code(self):
        made = f"{self.folder}/made"
        save({"x": Evil(made)}, self.directory)
        with self.assertRaisesRegex(CheckpointException, '"object/x" would run code'):
            load({"x": None}, self.directory)
        self.assertFalse(os.path.exists(made))


class DamageTest(DirectoryTest):
    SHARD = "shard-00000-of-00001.safetensors"

    def setUp(self):
        super().setUp()
        self.state = {"w": torch.arange(3000.), "v": torch.arange(7)}
        save(self.state, self.directory)

    def refused(self, *expected, **options):
        with self.assertRaises(CheckpointException) as caught:
            load(zeros_of(self.state), self.directory, **options)
        for one in expected:
            self.assertIn(one, str(caught.exception))

    def test_a_wrong_byte_is_named(self):
        [one] = manifest_of(self.directory)["tensors"]["w"]["slices"]
        with open(f"{self.directory}/{self.SHARD}", "r+b") as file:
            file.seek(one["offset"] + 777)
            file.write(b"\xff")
        self.refused(self.SHARD, '"w"', "damaged", one["checksum"], "another checkpoint")
        load(zeros_of(self.state), self.directory, verify=False)

    def test_a_truncated_shard_is_named(self):
        path = f"{self.directory}/{self.SHARD}"
        size = os.path.getsize(path)
        os.truncate(path, size - 1)
        self.refused(path, f"{size - 1} bytes instead of {size}")

    def test_a_missing_shard_is_named(self):
        os.unlink(f"{self.directory}/{self.SHARD}")
        self.refused(self.SHARD, "missing")

    def test_pipes_are_not_waited_for(self):
        for name in (self.SHARD, "manifest.json"):
            os.unlink(f"{self.directory}/{name}")
            os.mkfifo(f"{self.directory}/{name}")
            self.refused(name, "no regular file")

    def test_no_manifest(self):
        os.unlink(f"{self.directory}/manifest.json")
        self.refused(self.directory, "no complete checkpoint")

    def test_a_damaged_manifest(self):
        with open(f"{self.directory}/manifest.json", "r+b") as file:
            file.seek(-10, os.SEEK_END)
            file.write(b"x")
        self.refused("manifest.json", "its checksum is")

    def test_a_newer_version(self):
        write_manifest_of(self.directory, {**manifest_of(self.directory), "format_version": 9})
        self.refused("format_version 9", "use a newer Paceline")

    def test_manifests_that_contradict_themselves(self):
        def change(key, value):
            def changed(manifest):
                manifest["tensors"]["w"]["slices"][0][key] = value
            return changed

        def halves(manifest):
            [one] = manifest["tensors"]["w"]["slices"]
            manifest["tensors"]["w"]["slices"] = [{**one, "rows": [0, 1500], "bytes": 6000}] * 2

        def more_of_nothing(manifest):
            slices = manifest["tensors"]["w"]["slices"]
            slices.append({**slices[0], "rows": [0, 0], "bytes": 0})

        for expected, changed in [
                ("is none of it", change("rows", [1, 3000])),
                ("is none of it", change("bytes", 4)),
                ("is not within", change("offset", 1 << 40)),
                ("is not within", change("file", "another")),
                ("first and count", change("rows", [1])),
                ("not a manifest", change("offset", -1)),
                ("not a manifest", change("offset", 1 << 63)),
                ("is none of it", more_of_nothing),
                (r"2 of its slices have element \[0\]", halves),
                (r"none of its slices has element \[0\]",
                 lambda one: one["tensors"]["w"].update(slices=[])),
                ("64", lambda one: one["tensors"]["w"].update(shape=[1] * 65)),
                ("begin with a key", lambda one: one["tensors"]["w"].update(path=[0])),
                ("a place in a list", lambda one: one["tensors"]["w"].update(path=["x", 1 << 40])),
                ("not the name of a file", lambda one: one["files"][0].update(name="x\0")),
                ("unknown dtype", lambda one: one["tensors"]["w"].update(dtype="C64")),
                ("not the name of a file", lambda one: one["files"][0].update(name="../x")),
                ("not a manifest", lambda one: one.pop("tensors")),
                ("not a manifest", lambda one: one.update(tensors=[1]))]:
            with self.subTest(expected):
                manifest = manifest_of(self.directory)
                changed(manifest)
                with tempfile.TemporaryDirectory() as copy:
                    write_manifest_of(copy, manifest)
                    with self.assertRaisesRegex(ValueError, expected):
                        _checkpoint_manifest.read_manifest(copy)

    def test_without_xxhash(self):
        with mock.patch.dict(sys.modules, xxhash=None):
            self.refused("pip install xxhash")
            self.assert_same(load(zeros_of(self.state), self.directory, verify=False), self.state)


class BoxesTest(DirectoryTest):
    def test_each_element_once(self):
        numbers = random.Random(6)
        covered = 0
        for _ in range(3000):
            shape = tuple(numbers.randint(1, 3) for _ in range(numbers.randint(0, 3)))
            boxes = []
            for _ in range(numbers.randint(0, 4)):
                offsets = tuple(numbers.randrange(extent) for extent in shape)
                boxes.append((offsets, tuple(numbers.randint(1, extent - offset)
                                             for offset, extent in zip(offsets, shape))))
            times = torch.zeros(shape)
            for offsets, sizes in boxes:
                times[tuple(slice(a, a + b) for a, b in zip(offsets, sizes))] += 1
            problem = _checkpoint_manifest.why_not_covered(_checkpoint_manifest.StoredTensor(
                torch.float32, shape, [_checkpoint_manifest.Slice("", *one, 0, 0, "")
                                       for one in boxes]))
            self.assertEqual(problem == "", bool((times == 1).all()), (shape, boxes, problem))
            covered += problem == ""
        self.assertGreater(covered, 100)

    def test_cut_along_many_dimensions(self):
        halves = [_checkpoint_manifest.Slice("", offsets, (1,) * 5, 0, 0, "")
                  for offsets in itertools.product((0, 1), repeat=5)]
        tensor = _checkpoint_manifest.StoredTensor(torch.float32, (2,) * 5, halves)
        self.assertIn("along 5 dimensions", _checkpoint_manifest.why_not_covered(tensor))

    def test_every_box_of_random_slices(self):
        numbers = random.Random(5)
        for round_ in range(40):
            shape = tuple(numbers.randint(1, 5) for _ in range(numbers.randint(1, 4)))
            tensor = torch.randn(shape, dtype=numbers.choice([torch.float32, torch.bfloat16]))
            file = f"shard-{round_}"
            [one] = _checkpoint_shards.write_shard(self.folder, file, [_checkpoint_shards.Entry(
                "x", tensor.dtype, shape, (0,) * len(shape), shape, lambda tensor=tensor: tensor)])
            files = {file: os.path.getsize(f"{self.folder}/{file}")}
            limits = {"PIECE_BYTES": numbers.choice([1, 16, 4096]),
                      "RUN_BYTES": numbers.choice([1, 8, 4096])}
            with mock.patch.multiple(_checkpoint_shards, **limits), \
                    _checkpoint_shards.Shards(self.folder, files) as shards:
                for bounds in itertools.product(*[
                        [(a, b) for a in range(extent) for b in range(a, extent + 1)]
                        for extent in shape[:2]]):
                    bounds += tuple((numbers.randrange(extent), extent) for extent in shape[2:])
                    expected = tensor[tuple(slice(a, b) for a, b in bounds)]
                    found = torch.zeros_like(expected)
                    shards.read("x", tensor.dtype, one, [a for a, _ in bounds],
                                [b - a for a, b in bounds], found)
                    self.assertTrue(torch.equal(found, expected), (shape, bounds))

    def test_only_the_wanted_bytes_are_read(self):
        tensor = torch.zeros(64, 4, 16 << 10)  # Runs of 64 KiB.
        shape = tuple(tensor.shape)
        [one] = _checkpoint_shards.write_shard(self.folder, "shard", [_checkpoint_shards.Entry(
            "x", tensor.dtype, shape, (0, 0, 0), shape, lambda: tensor)])
        got, real = [], os.preadv

        def preadv(descriptor, buffers, offset):
            got.append(sum(map(len, buffers)))
            return real(descriptor, buffers, offset)

        files = {"shard": os.path.getsize(f"{self.folder}/shard")}
        with mock.patch("os.preadv", preadv), \
                _checkpoint_shards.Shards(self.folder, files) as shards:
            target = torch.empty(2, 1, 16 << 10)
            shards.read("x", tensor.dtype, one, (3, 2, 0), tuple(target.shape), target)
        self.assertEqual(sum(got), target.nbytes)

    def test_few_files_are_open_and_few_bytes_in_memory(self):
        tensor = torch.arange(1000.).view(1, 1000)
        slices = [_checkpoint_shards.write_shard(self.folder, f"shard-{i}", [
            _checkpoint_shards.Entry("x", tensor.dtype, (1, 1000), (0, 0), (1, 1000),
                                     lambda: tensor)])[0] for i in range(3)]
        files = {one.file: os.path.getsize(f"{self.folder}/{one.file}") for one in slices}
        with mock.patch.multiple(_checkpoint_shards, _MOST_OPEN=2, PIECE_BYTES=400), \
                _checkpoint_shards.Shards(self.folder, files) as shards:
            for one in slices * 2:
                target = torch.zeros(1, 1000)
                shards.read("x", tensor.dtype, one, (0, 0), (1, 1000), target)
                self.assertTrue(torch.equal(target, tensor))
                self.assertLessEqual(len(shards._open), 2)
            self.assertEqual(len(shards._buffer), 400)


if __name__ == "__main__":
    unittest.main()
