"""The Python of docs/own-data.md and docs/own-model.md does what the pages say."""

import importlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import safetensors.torch
import sklearn
import torch
from PIL import Image

PACELINE, DATA_PAGE, MODEL_PAGE = (os.path.abspath(path) for path in sys.argv[1:4])
DIGITS = pathlib.Path(sklearn.__file__).parent / "datasets/data/digits.csv.gz"


def block(page, words):
    """The one block of Python on a page that has these words."""
    with open(page, encoding="utf-8") as file:
        blocks = re.findall(r"```python\n(.*?)```", file.read(), re.DOTALL)
    chosen = [text for text in blocks if words in text]
    assert len(chosen) == 1, words
    return chosen[0]


def run(page, words, variables):
    exec(block(page, words), variables)  # pylint: disable=exec-used
    return variables


def paceline(*arguments):
    subprocess.run([PACELINE, *arguments], check=True, stdout=subprocess.DEVNULL)


class DataTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_written_shard_is_as_the_program_writes_it(self):
        paceline("data", "import-digits", "--csv", str(DIGITS), "--out", str(self.folder),
                 "--size", "9")
        expected = (self.folder / "digits-test.shard").read_bytes()
        count, channels, height, width = 359, 1, 9, 9
        labels = np.frombuffer(expected, "<u4", count, 64)
        pixels = np.frombuffer(expected[-count * height * width:], np.uint8)
        page = run(DATA_PAGE, "def write_shard", {})
        page["write_shard"](self.folder / "ours", pixels.reshape(count, channels, height, width),
                            labels, 10)
        self.assertEqual((self.folder / "ours").read_bytes(), expected)

    def test_pictures_in_folders_have_the_label_of_their_folder(self):
        for name, colour in (("a", (255, 0, 0)), ("b", (0, 0, 255))):
            (self.folder / name).mkdir()
            Image.new("RGB", (20, 10), colour).save(self.folder / name / "picture.png")
        page = run(DATA_PAGE, "def read_folder", {"np": np})
        images, labels, classes = page["read_folder"](self.folder, 4)
        self.assertEqual((images.shape, images.dtype, classes), ((2, 3, 4, 4), np.uint8, 2))
        self.assertEqual(list(labels), [0, 1])
        self.assertEqual(images[:, :, 0, 0].tolist(), [[255, 0, 0], [0, 0, 255]])

    def test_tokens_go_in_and_out_as_the_program_writes_them(self):
        (self.folder / "text").mkdir()
        (self.folder / "text/a.txt").write_text("a slow rider\n")
        made = str(self.folder / "made")
        paceline("data", "tokenize", "--bytes", str(self.folder / "text"), "--out", made)
        page = run(DATA_PAGE, "def write_tokens", {})
        tokens = page["read_tokens"](made)
        self.assertIn(b"a slow rider", bytes(tokens.astype(np.uint8)))
        page["write_tokens"](self.folder / "ours", tokens, 256)
        self.assertEqual((self.folder / "ours").read_bytes(), pathlib.Path(made).read_bytes())


class ModelTest(unittest.TestCase):
    def test_the_exported_module_is_what_a_trainer_asks_for_and_comes_back(self):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            # From a file: torch.jit.script reads the source.
            pathlib.Path("net_page.py").write_text(block(MODEL_PAGE, "class WithLoss"))
            sys.path.insert(0, folder)
            page = dict(vars(importlib.import_module("net_page")))
            module = torch.jit.load("net.pt")
            loss = module(torch.zeros(2, 1, 32, 32), torch.zeros(2, dtype=torch.int64))
            self.assertEqual((loss.dim(), loss.requires_grad), (0, True))
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.fill_(0.5)
            safetensors.torch.save_file(module.state_dict(), "net.rank0.safetensors")
            run(MODEL_PAGE, "import safetensors.torch", page)
            self.assertEqual(page["scores"].shape, (1, 10))
            self.assertTrue(all((tensor == 0.5).all() for tensor in page["net"].parameters()))
            os.chdir("/")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
