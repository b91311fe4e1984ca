"""Cases of session_alone_test.py: mistakes of a script, each of which is told."""

import os
import sys
import unittest

import torch

sys.path.insert(0, os.path.abspath("python"))
import paceline  # noqa: E402

BATCHES = [torch.ones(2, 4)]


class MistakesTest(unittest.TestCase):
    """Each is told with what to do instead."""

    def setUp(self):
        self.run_ = paceline.init(steps=4, batch_per_rank=2)
        self.model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.run_.attach(self.model, self.optimizer)

    def loss(self, x):
        return self.model(x).square().mean()

    def make_step(self, step):
        with step:
            for x in step.batches(BATCHES):
                step.backward(self.loss(x))
            step.update()

    def mistake(self, expected, make_part, kind=RuntimeError):
        """Makes a step, then one with this part before its update."""
        steps = self.run_.steps()
        self.make_step(next(steps))
        step = next(steps)
        with self.assertRaisesRegex(kind, expected):
            with step:
                for x in step.batches(BATCHES):
                    step.backward(self.loss(x))
                make_part(step)
                step.update()

    def test_a_sync_batch_norm_that_does_not_synchronise(self):
        run = paceline.init(steps=1, batch_per_rank=2)
        model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(
            torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)))
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        with self.assertRaisesRegex(ValueError, "head.1 is a SyncBatchNorm.*leave convert"):
            run.attach({"head": model}, optimizer)

    def test_another_optimizer(self):
        other = torch.optim.AdamW(self.model.parameters())
        self.mistake("a AdamW that is not attached", lambda step: other.step())

    def test_an_optimizer_of_something_else_is_the_scripts_own(self):
        aside = torch.nn.Parameter(torch.ones(2))
        other = torch.optim.SGD([aside], lr=1.0)
        for step in self.run_.steps():
            aside.grad = torch.ones(2)
            other.step()
            self.make_step(step)
        self.assertEqual(aside.tolist(), [-3.0, -3.0])

    def test_a_closure(self):
        self.mistake("step.closure. evaluates the loss itself",
                     lambda step: self.optimizer.step(lambda: self.loss(BATCHES[0])))

    def test_no_closure(self):
        for step in self.run_.steps():
            with step:
                for x in step.batches(BATCHES):
                    self.loss(x).backward()
                self.optimizer.step(None)  # As Accelerate's optimizer calls it.
        self.assertTrue(step.done)

    def test_a_parameter_that_is_added_later(self):
        def add(_step):
            more = torch.nn.Parameter(torch.ones(2))
            self.optimizer.add_param_group({"params": [more]})

        self.mistake("has 5 parameters, and had 4", add)

    def test_a_model_that_is_moved_later(self):
        steps = self.run_.steps()
        self.make_step(next(steps))
        self.model.double()
        with self.assertRaisesRegex(ValueError, "0.weight has another storage"):
            self.make_step(next(steps))

    def test_a_loss_that_is_no_number(self):
        step = next(self.run_.steps())
        with self.assertRaisesRegex(ValueError, r"loss has shape \(2, 2\); call .mean"):
            with step:
                for x in step.batches(BATCHES):
                    step.backward(self.model(x))

    def test_a_block_in_a_block(self):
        def again(step):
            with step:
                pass

        self.mistake("begins a second time", again)

    def test_a_block_that_is_made_again(self):
        step = next(self.run_.steps())
        self.make_step(step)
        with self.assertRaisesRegex(RuntimeError, "begins a second time"):
            self.make_step(step)

    def test_steps_in_a_block(self):
        self.mistake("inside of the block of step 1", lambda step: next(self.run_.steps()))

    def test_calls_outside_of_the_block(self):
        step = next(self.run_.steps())
        for call in (step.update, lambda: step.backward(self.loss(BATCHES[0])),
                     lambda: next(step.batches(BATCHES))):
            with self.assertRaisesRegex(RuntimeError, "outside of its block"):
                call()
        self.make_step(step)
        with self.assertRaisesRegex(RuntimeError, "outside of its block"):
            step.update()

    def test_an_error_that_the_script_swallows_leaves_no_update(self):
        def swallow(step):
            with step:
                try:
                    for x in step.batches(BATCHES):
                        step.backward(self.loss(x))
                        raise ValueError("a mistake")
                except Exception:  # pylint: disable=broad-except
                    pass

        with self.assertRaisesRegex(RuntimeError, "step 0 ended without step.update"):
            swallow(next(self.run_.steps()))

    def test_what_comes_too_late(self):
        self.make_step(next(self.run_.steps()))
        with self.assertRaisesRegex(RuntimeError, "attach was called before"):
            self.run_.attach(self.model, self.optimizer)
        with self.assertRaisesRegex(RuntimeError, "loader is called after"):
            self.run_.loader(list(range(8)))
        with self.assertRaisesRegex(RuntimeError, "evaluation comes after"):
            self.run_.evaluation(lambda rank, world_size: paceline.Score(0.0))

    def test_a_score_that_is_none(self):
        self.run_.evaluation(lambda rank, world_size: 0.5)
        with self.assertRaisesRegex(TypeError, "has returned a float; it must return a"):
            for step in self.run_.steps():
                self.make_step(step)

    def test_sizes_that_give_no_batch(self):
        for size in (0, -1):
            with self.assertRaisesRegex(ValueError, f"batch_size is {size}"):
                self.run_.loader([1, 2], batch_size=size)
        loader = self.run_.loader([1])
        step = next(self.run_.steps())
        with self.assertRaisesRegex(ValueError, "1 samples, less than the 2"):
            with step:
                next(step.batches(loader))

    def test_an_iterator_that_ends(self):
        batches = iter(BATCHES)
        with self.assertRaisesRegex(ValueError, "has come to its end, and cannot be gone through"):
            for step in self.run_.steps():
                with step:
                    for x in step.batches(batches):
                        step.backward(self.loss(x))
                    step.update()
        self.assertEqual(step.number, 1)

    def test_loaders_without_positions(self):
        class Stream(torch.utils.data.IterableDataset):
            def __iter__(self):
                return iter(range(6))

            def __len__(self):
                return 6

        with self.assertRaisesRegex(TypeError, "run.loader takes a map-style dataset"):
            self.run_.loader(Stream())
        with self.assertRaisesRegex(ValueError, "in_order=False does not go with run.loader"):
            self.run_.loader([1, 2], in_order=False)

    def test_save_and_group_outside_of_a_step(self):
        with self.assertRaisesRegex(RuntimeError, "save.. is called outside of a step"):
            self.run_.save()
        with self.assertRaisesRegex(RuntimeError, "report.. is called outside of a step"):
            self.run_.report(loss=1.0)
        with self.assertRaisesRegex(RuntimeError, "outside of the training"):
            _ = self.run_.process_group

    def test_what_is_no_number_to_report(self):
        step = next(self.run_.steps())
        with step:
            for kind, expected, numbers in (
                    (TypeError, "takes a number, and loss is a str", {"loss": "0.5"}),
                    (TypeError, "loss is a complex", {"loss": torch.tensor(1j)}),
                    (ValueError, r"loss has shape \(2,\); call .mean", {"loss": torch.ones(2)}),
                    (ValueError, "'a b' is no name", {"a b": 1.0}),
                    (ValueError, "is no name", {"x" * 65: 1.0}),
                    (ValueError, "has got 33 names, and 32 is the most",
                     {f"n{i}": i for i in range(33)})):
                with self.assertRaisesRegex(kind, expected):
                    self.run_.report(**numbers)
            for x in step.batches(BATCHES):
                step.backward(self.loss(x))
            step.update()
