"""A script that makes mistakes, or has habits of its own, in a session without a daemon."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import torch
import torch.distributed

sys.path.insert(0, os.path.abspath("python"))
import paceline  # noqa: E402
from paceline.streams import Streams  # noqa: E402

BATCHES = [torch.ones(2, 4)]


def make():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


class MistakesTest(unittest.TestCase):
    """Each is told, with what to do instead."""

    def setUp(self):
        self.run_ = paceline.init(steps=4, batch_per_rank=2)
        self.model, self.optimizer = make()
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

    def test_save_and_group_outside_of_a_step(self):
        with self.assertRaisesRegex(RuntimeError, "save.. is called outside of a step"):
            self.run_.save()
        with self.assertRaisesRegex(RuntimeError, "outside of the training"):
            _ = self.run_.process_group


class HabitsTest(unittest.TestCase):
    """What works."""

    def test_a_loop_is_left_and_entered_again(self):
        run = paceline.init(steps=4)
        model, optimizer = make()
        run.attach(model, optimizer)
        numbers = []
        for _ in range(3):
            for step in run.steps():
                with step:
                    for x in step.batches(BATCHES):
                        step.backward(model(x).square().mean())
                    step.update()
                numbers.append(step.number)
                if step.number == 1:
                    break
        self.assertEqual(numbers, [0, 1, 2, 3])

    def test_collectives_of_one_rank_and_saves(self):
        run = paceline.init(steps=1)
        model, optimizer = make()
        run.attach(model, optimizer)
        for step in run.steps():
            with step:
                group = run.process_group
                self.assertIsInstance(group, torch.distributed.ProcessGroup)
                self.assertIs(run.process_group, group)
                value = torch.tensor([3.0])
                torch.distributed.all_reduce(value, group=group)
                torch.distributed.broadcast(value, group_src=0, group=group)
                self.assertEqual(value.item(), 3.0)
                for x in step.batches(BATCHES):
                    step.backward(model(x).square().mean())
                run.save()
                step.update()


SCRIPT = """
import os, sys, torch, paceline
run = paceline.init(steps=3)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
run.attach(model, optimizer)
for step in run.steps():
    with step:
        for x in step.batches([torch.ones(2, 4)]):
            step.backward(model(x).square().mean())
        if step.number == 1:
            {what}
        step.update()
print("trained", flush=True)
"""


class ProcessTest(unittest.TestCase):
    """How a script ends."""

    def run_script(self, what):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "train.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(SCRIPT.format(what=what))
            return subprocess.run(
                [sys.executable, path], check=False, text=True, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": os.path.abspath("python")})

    def test_sys_exit_keeps_its_code(self):
        ended = self.run_script("sys.exit(3)")
        self.assertEqual((ended.returncode, ended.stdout), (3, ""), ended.stderr)

    def test_an_interrupt_ends_it(self):
        ended = self.run_script("raise KeyboardInterrupt")
        self.assertEqual((ended.returncode, ended.stdout), (-signal.SIGINT, ""), ended.stderr)
        self.assertIn("KeyboardInterrupt", ended.stderr)

    def test_a_child_leaves_its_parent_alone(self):
        ended = self.run_script(
            "pid = os.fork() or sys.exit(7); assert os.waitstatus_to_exitcode("
            "os.waitpid(pid, 0)[1]) == 7")
        self.assertEqual((ended.returncode, ended.stdout), (0, "trained\n"), ended.stderr)


class GpuTest(unittest.TestCase):
    """What a rank on a GPU does besides, without one."""

    def test_a_missing_engine_is_told(self):
        variables = {"PACELINE_SOCKET": "none", "PACELINE_SESSION": "1", "PACELINE_DEVICE": "cuda"}
        with mock.patch.dict(os.environ, variables):
            with self.assertRaisesRegex(ImportError, "_engine_cuda.*make build CUDA=1"):
                paceline.init()

    def test_the_engine_follows_the_scripts_streams(self):
        streams = Streams(mock.Mock(device=torch.device("cuda", 0)))
        first, second = mock.Mock(), mock.Mock()
        for stream in (first, first, second, first):
            with mock.patch.object(torch.cuda, "current_stream", return_value=stream):
                streams.follow()
        second.wait_stream.assert_called_once_with(first)
        first.wait_stream.assert_called_once_with(second)

    def test_a_mean_that_was_broken_off_is_not_used(self):
        engine = mock.Mock(device=torch.device("cuda", 0), recovers=True)
        stream = mock.Mock()
        with mock.patch.object(torch.cuda, "current_stream", return_value=stream):
            # It is known only when the GPU seems to have finished.
            engine.cut_off.side_effect = lambda *_: stream.synchronize.called
            with self.assertRaisesRegex(paceline.Regroup, "mean: it was broken off"):
                Streams(engine).wait_for("mean")
            engine.recovers = False
            Streams(engine).wait_for("mean")
        engine.cut_off.assert_called_once()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
