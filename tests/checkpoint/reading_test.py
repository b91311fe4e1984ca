"""A checkpoint is read by the recipes of docs/checkpoint-format.md, without a copy of its bytes."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

os.environ["JAX_PLATFORMS"] = "cpu"

import ml_dtypes
import numpy as np
import safetensors
import torch
import xxhash

WRITE_CHECKPOINT, PAGE = (os.path.abspath(path) for path in sys.argv[1:3])

# As write_checkpoint.cc makes them: element i is i.
TENSORS = {
    "model/weight": ("float32", (64, 24)),
    "model/half": (ml_dtypes.bfloat16, (6, 32)),
    "model/labels": ("uint8", (7,)),
    "model/batches": ("int64", ()),
    "optimizer/exp_avg/weight": ("float64", (5, 3)),
}

# How the recipe of a library begins.
IMPORTS = {
    "numpy": "import numpy",
    "torch": "import torch",
    "jax": "import jax",
    "xxhash": "import xxhash",
}


def blocks(language):
    with open(PAGE, encoding="utf-8") as page:
        return re.findall(rf"```{language}\n(.*?)```", page.read(), re.DOTALL)


def recipe(directory, name, library):
    """The variables that the page's recipe for a library leaves."""
    first, *others = blocks("python")
    chosen = [other for other in others if other.startswith(IMPORTS[library])]
    assert len(chosen) == 1, library
    variables = {"directory": directory, "name": name, "np": np}
    exec(first + chosen[0], variables)  # pylint: disable=exec-used
    return variables


def mapped_file(address):
    """Path and offset of the file that is mapped at an address of this process."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            begin, end = (int(number, 16) for number in fields[0].split("-"))
            if begin <= address < end:
                path = fields[5].strip() if len(fields) == 6 else ""
                return path, address - begin + int(fields[2], 16)
    return "", 0


def expected(name):
    dtype, shape = TENSORS[name]
    return np.arange(np.prod(shape, dtype=int)).astype(dtype).reshape(shape)


class ReadingTest(unittest.TestCase):
    def setUp(self):
        self.maxDiff = None
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = os.path.realpath(temporary.name) + "/step-000000000120.g2"
        subprocess.run([WRITE_CHECKPOINT, self.directory], check=True)
        with open(f"{self.directory}/manifest.json", "rb") as manifest:
            self.text = manifest.read()
        self.tensors = json.loads(self.text)["tensors"]

    def path_of(self, piece):
        return f"{self.directory}/{piece['file']}"

    def check_is_the_file(self, address, piece):
        self.assertEqual(mapped_file(address), (self.path_of(piece), piece["offset"]))

    def test_the_manifest_lists_what_was_written(self):
        self.assertEqual(set(self.tensors), set(TENSORS))
        for name, (_, shape) in TENSORS.items():
            self.assertEqual(tuple(self.tensors[name]["shape"]), shape)
        self.assertEqual(len(self.tensors["model/weight"]["slices"]), 2)

    def test_numpy_maps_the_file(self):
        for name in TENSORS:
            if name == "model/half":
                continue  # NumPy by itself has no bfloat16.
            read = recipe(self.directory, name, "numpy")
            for rows, piece in zip(read["rows"], read["slices"], strict=True):
                self.assertFalse(rows.flags.owndata)
                self.assertFalse(rows.flags.writeable)
                self.assertTrue(rows.flags.aligned)
                self.check_is_the_file(rows.ctypes.data, piece)
            whole = np.concatenate(read["rows"]).reshape(read["shape"])
            self.assertEqual(whole.dtype, expected(name).dtype)
            np.testing.assert_array_equal(whole, expected(name))

    def test_torch_maps_the_file(self):
        for name in TENSORS:
            read = recipe(self.directory, name, "torch")
            for rows, piece in zip(read["rows"], read["slices"], strict=True):
                self.check_is_the_file(rows.data_ptr(), piece)
            whole = torch.cat(read["rows"]).reshape(read["shape"])
            as_numbers = whole.double().numpy()
            np.testing.assert_array_equal(as_numbers, expected(name).astype("float64"))

    def test_changes_of_a_torch_tensor_do_not_reach_the_file(self):
        read = recipe(self.directory, "model/weight", "torch")
        read["rows"][0].fill_(-1)
        again = recipe(self.directory, "model/weight", "torch")
        self.assertEqual(again["rows"][0][0, 1].item(), 1)

    def test_jax_takes_the_map_where_it_is_aligned(self):
        taken = 0
        for name in TENSORS:
            read = recipe(self.directory, name, "jax")
            for rows, mapped, piece in zip(
                    read["rows"], read["mapped"], read["slices"], strict=True):
                self.assertFalse(mapped.flags.owndata)
                np.testing.assert_array_equal(
                    np.asarray(rows).astype("float64"), np.asarray(mapped).astype("float64"))
                if piece["offset"] % 64 == 0 and rows.dtype == mapped.dtype:
                    self.check_is_the_file(rows.unsafe_buffer_pointer(), piece)
                    taken += 1
            whole = np.concatenate(read["mapped"]).reshape(read["shape"])
            np.testing.assert_array_equal(
                whole.astype("float64"), expected(name).astype("float64"))
        self.assertGreaterEqual(taken, 4)  # Both slices of weight and of half at least.

    def test_any_reader_of_safetensors_reads_a_shard(self):
        for name, tensor in self.tensors.items():
            rows = [safetensors.safe_open(self.path_of(piece), "pt").get_tensor(name)
                    for piece in tensor["slices"]]
            whole = torch.cat([part.reshape(-1) for part in rows]).reshape(tensor["shape"])
            np.testing.assert_array_equal(
                whole.double().numpy(), expected(name).astype("float64"))

    def test_checksums_are_those_of_xxhash(self):
        for name in TENSORS:
            recipe(self.directory, name, "xxhash")
        piece = self.tensors["model/weight"]["slices"][1]
        with open(self.path_of(piece), "r+b") as shard:
            shard.seek(piece["offset"] + 5)
            damaged = shard.read(1)[0] ^ 1
            shard.seek(piece["offset"] + 5)
            shard.write(bytes([damaged]))
        with self.assertRaisesRegex(AssertionError, piece["file"]):
            recipe(self.directory, "model/weight", "xxhash")

    def check_manifest(self, text):
        first, rest = text.split(b"\n", 1)
        self.assertEqual(first.decode(), '{"checksum": "xxh3:%s",' % xxhash.xxh3_64_hexdigest(rest))
        self.assertTrue(rest.startswith(b'"format_version": 1,\n'))

    def test_the_manifest_has_its_own_checksum(self):
        self.check_manifest(self.text)
        with self.assertRaises(AssertionError):
            self.check_manifest(self.text.replace(b'"step": 120', b'"step": 121'))

    def test_the_example_of_the_page_is_what_is_written(self):
        (example,) = blocks("json")
        self.assertEqual(example, self.text.decode())


if __name__ == "__main__":
    # The recipes leave it to Python to close what they open.
    unittest.main(argv=sys.argv[:1], warnings="ignore")
