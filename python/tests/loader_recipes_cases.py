"""Cases of hf_test.py: the loaders of docs/adapters.md, whose path is the program's argument."""

import os
import re
import sys
import types
import unittest
from unittest import mock

import torch
import torchdata.stateful_dataloader

sys.path.insert(0, os.path.abspath("python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import paceline  # noqa: E402
from cutting_engine import CuttingEngine  # noqa: E402

PAGE = os.path.abspath(sys.argv[1])


class Recipes(unittest.TestCase):
    """The Python of docs/adapters.md does what the page says."""

    def run_block(self, words, **variables):
        with open(PAGE, encoding="utf-8") as page:
            blocks = re.findall(r"```python\n(.*?)```", page.read(), re.DOTALL)
        chosen = [text for text in blocks if words in text]
        self.assertEqual(len(chosen), 1, words)
        variables = {"paceline": paceline, "torch": torch, **variables}
        exec(chosen[0], variables)  # pylint: disable=exec-used
        return variables

    def setUp(self):
        torch.manual_seed(0)
        inputs = torch.randn(24, 4)
        self.samples = [(x, x.sum(-1, keepdim=True)) for x in inputs]
        self.net = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)


class LoaderRecipesTest(Recipes):
    def test_a_stateful_loader(self):
        run = paceline.init(steps=8, batch_per_rank=4)
        run._engine = CuttingEngine(run, [("backward", 2), ("before_update", 6)])
        taken = []

        class Loader(torchdata.stateful_dataloader.StatefulDataLoader):
            def __iter__(self):
                for batch in super().__iter__():
                    taken.append(batch[0])
                    yield batch

        done = self.run_block("StatefulDataLoader(Share()", run=run, samples=self.samples,
                              StatefulDataLoader=Loader, model=self.net, optimizer=self.optimizer)
        self.assertEqual((done["step"].number, run._engine.cuts), (7, 2))
        self.assertEqual(len(taken), 8)  # Each batch once, and those that were cut off again.
        self.assertTrue(torch.equal(taken[0], taken[6]))
        done["run"] = types.SimpleNamespace(rank=-1, world_size=1)  # A spare's rehearsal.
        self.assertEqual(len(list(done["Share"]())), len(self.samples))

    def test_shards_of_a_rank(self):
        class Run:
            rank, world_size, batch_per_rank = 1, 3, 4

        with mock.patch.dict(sys.modules, {"webdataset": mock.MagicMock()}) as modules:
            done = self.run_block("import webdataset", run=Run, urls=[])
            given = modules["webdataset"].WebDataset.call_args.kwargs
        self.assertIs(given["nodesplitter"], done["by_rank"])
        self.assertEqual(list(done["by_rank"](range(8))), [1, 4, 7])
        Run.rank, Run.world_size = -1, 1  # A spare's rehearsal.
        self.assertEqual(list(done["by_rank"](range(8))), list(range(8)))

    def test_samples_of_a_streamed_set_by_their_numbers(self):
        class Streamed:
            size = 24

            def __init__(self, **given):
                self.given = given

            def __getitem__(self, number):
                return {"id": number}

        run = paceline.init(steps=8, batch_per_rank=4)
        library = mock.MagicMock(StreamingDataset=Streamed)
        with mock.patch.dict(sys.modules, {"streaming": library}):
            done = self.run_block("import streaming", run=run, remote="s3://data")
        os.rmdir(done["streamed"].given["local"])
        self.assertEqual(done["streamed"].given["remote"], "s3://data")
        run.attach(self.net, self.optimizer)
        taken = []
        for step in run.steps():
            with step:
                for batch in step.batches(done["loader"]):
                    taken += batch["id"].tolist()
                    step.backward(self.net(torch.ones(4, 4)).square().mean())
                step.update()
        self.assertEqual(sorted(taken[:24]), list(range(24)))
        self.assertEqual(len(taken), 32)
