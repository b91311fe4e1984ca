"""Scripts, their habits and how they end, in a session without a daemon."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
import unittest

import torch
import torch.distributed
from torch.distributed.fsdp import fully_shard

sys.path.insert(0, os.path.abspath("python"))
import paceline  # noqa: E402
from engine_choice import EngineTest  # noqa: E402, F401
from session_mistakes_cases import MistakesTest  # noqa: E402, F401

BATCHES = [torch.ones(2, 4)]


def make():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


# Attaches where there is no numpy, which torch does not install.
WITHOUT_NUMPY = """
import sys
sys.modules["numpy"] = None
import torch
import paceline
run = paceline.init(steps=1, batch_per_rank=2)
model = torch.nn.Linear(4, 3)
run.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))
"""


class EnvironmentTest(unittest.TestCase):

    def test_needs_no_numpy(self):
        done = subprocess.run([sys.executable, "-c", WITHOUT_NUMPY], check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        self.assertEqual(done.returncode, 0, done.stdout)


class HabitsTest(unittest.TestCase):
    """What works."""

    def test_numbers_of_steps_are_printed_now_and_then(self):
        run = paceline.init(steps=23)
        model, optimizer = make()
        run.attach(model, optimizer)
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            for step in run.steps():
                with step:
                    for x in step.batches(BATCHES):
                        step.backward(model(x).square().mean())
                    run.report(loss=-1.0, half=torch.tensor([0.5]))
                    if step.number == 3:
                        run.report(**{"val/loss": float("nan")})
                    step.update()
                    run.report(loss=step.number)  # In the place of the one before.
        self.assertEqual(printed.getvalue().splitlines(), [
            "step=1 loss=0 half=0.5", "step=11 loss=10 half=0.5", "step=21 loss=20 half=0.5",
            "step=23 loss=22 half=0.5"])

    def test_numbers_of_a_former_rank_are_forgotten(self):
        run = paceline.init(steps=3)
        model, optimizer = make()
        run.attach(model, optimizer)
        engine, sent = run._engine, []
        order_of = engine.next

        def next_order(learning_rate):
            order = order_of(learning_rate)
            order.rank = int(order.number == 2)
            return order

        engine.next = next_order
        engine.report = sent.append
        for step in run.steps():
            with step:
                for x in step.batches(BATCHES):
                    step.backward(model(x).square().mean())
                if step.number < 2:
                    run.report(loss=step.number)
                step.update()
        self.assertEqual(sent, [[("loss", 0.0, 1)], [("loss", 1.0, 2)], []])

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

    def test_a_loop_is_left_before_a_block_and_entered_again(self):
        run = paceline.init(steps=3)
        model, optimizer = make()
        run.attach(model, optimizer)
        numbers = []
        for rounds in (2, 9):
            for step in run.steps():
                if step.number == rounds:
                    break
                with step:
                    for x in step.batches(BATCHES):
                        step.backward(model(x).square().mean())
                    step.update()
                numbers.append(step.number)
        self.assertEqual(numbers, [0, 1, 2])

    def test_a_step_without_its_block(self):
        run = paceline.init(steps=3)
        run.attach(*make())
        steps = run.steps()
        next(steps)
        with self.assertRaisesRegex(RuntimeError, "step 0 was not made; write `with step:`"):
            next(steps)

    def test_a_rank_that_is_no_spare_does_not_rehearse(self):
        run = paceline.init(steps=2)
        model, optimizer = make()
        run.attach(model, optimizer)
        steps = []
        for step in run.steps(rehearse=True):
            with step:
                for x in step.batches(BATCHES):
                    step.backward(model(x).square().mean())
                step.update()
            steps.append((step.number, step.rehearsal))
        self.assertEqual(steps, [(0, False), (1, False)])

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


class ShardedTest(unittest.TestCase):
    """A model of FSDP2, of which this rank has the only shard."""

    def setUp(self):
        self.addCleanup(lambda: torch.distributed.is_initialized()
                        and torch.distributed.destroy_process_group())

    def train(self, shards, mistakes=0):
        """mistakes: in so many steps' backward passes. Returns the parameters."""
        run = paceline.init(steps=4, batch_per_rank=2)
        model, _ = make()
        if shards:
            for layer in model:
                fully_shard(layer, mesh=run.mesh)
            fully_shard(model, mesh=run.mesh)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        run.attach(model, optimizer)
        left = [mistakes]

        def err(_gradient):
            if left[0] > 0:
                left[0] -= 1
                raise ZeroDivisionError

        def after_forward(_module, _inputs, output):
            output.register_hook(err)

        model[0].register_forward_hook(after_forward)
        for _ in range(1 + mistakes):  # A notebook's cell is run again.
            with contextlib.suppress(ZeroDivisionError):
                for step in run.steps():
                    with step:
                        for x in step.batches(BATCHES):
                            step.backward(model(x).square().mean())
                        step.update(clip=0.01)
        self.assertEqual((step.number, step.done, left), (3, True, [0]))
        return [getattr(p, "_local_tensor", p).detach() for p in model.parameters()]

    def test_a_new_run_may_have_the_same_model(self):
        model = fully_shard(make()[0], mesh=paceline.init(steps=1).mesh)
        for _ in range(2):
            run = paceline.init(steps=1)
            self.assertEqual(run.mesh.size(), 1)
            run.attach(model, torch.optim.SGD(model.parameters(), lr=0.1))

    def test_it_trains_as_any_other(self):
        torch.testing.assert_close(self.train(True), self.train(False))

    def test_a_step_that_failed_is_made_anew(self):
        torch.testing.assert_close(self.train(True, mistakes=2), self.train(True))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
