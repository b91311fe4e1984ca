"""A script that makes mistakes, or has habits of its own, in a session without a daemon."""

import contextlib
import io
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
from paceline import _ring, profiling, state  # noqa: E402
from paceline.alone import AloneEngine  # noqa: E402
from paceline.loader import OwnLoader  # noqa: E402
from paceline.session import Run  # noqa: E402
from paceline.streams import Streams  # noqa: E402

BATCHES = [torch.ones(2, 4)]


def make():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


class Positioned:
    """A loader with the interface of torchdata's StatefulDataLoader, which may be absent here."""

    def __init__(self, size):
        self.size = size
        self.at = 0

    def __iter__(self):
        while self.at < self.size:
            self.at += 1
            yield torch.full((2, 4), self.at - 1.0)
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, loaded):
        self.at = loaded["at"]


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

    def test_a_loader_that_tells_its_position_is_saved_with_it(self):
        run = paceline.init(steps=5)
        model, optimizer = make()
        loader = Positioned(3)
        run.attach(model, optimizer, own=[loader])
        seen = []
        for step in run.steps():
            with step:
                for x in step.batches(loader):
                    seen.append(x[0, 0].item())
                    step.backward(model(x).square().mean())
                step.update()
        self.assertEqual(seen, [0, 1, 2, 0, 1])
        self.assertEqual(state._join(*run._state.take(False))[1], {"at": 2})


class OwnLoaderTest(unittest.TestCase):
    """A loader of the script's own that tells its position, where steps may be cut off."""

    def setUp(self):
        self.inner = Positioned(10)
        self.loader = OwnLoader(self.inner, keeps=True)

    def step(self, number, passes=1, loader=None):
        loader = loader or self.loader
        loader.keep()
        loader._begin((number, number))
        return [int(loader._take()[0, 0]) for _ in range(passes)]

    def test_its_state_is_that_of_the_steps_that_are_done(self):
        self.assertEqual(self.step(0, passes=2), [0, 1])
        self.assertEqual(self.loader.state_dict(), {"at": 2})
        self.assertEqual(self.step(1), [2])
        self.loader.undo()
        self.assertEqual(self.loader.state_dict(), {"at": 2})
        self.assertEqual(self.step(1, passes=2), [2, 3])
        self.assertEqual(self.loader.state_dict(), {"at": 4})

    def test_the_first_step_can_be_undone(self):
        self.step(0)
        self.loader.undo()
        self.assertEqual(self.loader.state_dict(), {"at": 0})
        self.assertEqual(self.step(0), [0])

    def test_a_step_that_others_finished_is_not_repeated(self):
        self.step(0)
        self.assertEqual(self.step(1), [1])
        self.assertEqual(self.loader.state_dict(), {"at": 2})

    def test_what_fewer_passes_leave_comes_next(self):
        self.assertEqual(self.step(0, passes=3), [0, 1, 2])
        self.loader.undo()
        self.assertEqual(self.step(0), [0])
        self.assertEqual(self.loader.state_dict(), {"at": 1})
        self.assertEqual(self.step(1, passes=3), [1, 2, 3])
        self.assertEqual(self.loader.state_dict(), {"at": 4})

    def test_another_goes_on_from_its_state(self):
        self.step(0, passes=4)
        other = OwnLoader(Positioned(10), keeps=True)
        other.load_state_dict(self.loader.state_dict())
        self.assertEqual(other.state_dict(), {"at": 4})
        self.assertEqual(self.step(5, loader=other), [4])
        # It was behind, and takes over the state again.
        other.load_state_dict({"at": 7})
        self.assertEqual(other.state_dict(), {"at": 7})
        self.assertEqual(self.step(8, loader=other), [7])

    def test_the_end_of_the_data_is_a_position_too(self):
        self.step(0, passes=10)
        other = OwnLoader(Positioned(10), keeps=True)
        other.load_state_dict(self.loader.state_dict())
        self.assertEqual(self.step(1, loader=other), [0])
        self.assertEqual(self.step(1), [0])

    def test_without_steps_of_its_own_it_is_an_object_like_others(self):
        self.loader.keep()
        self.inner.at = 5
        self.assertEqual(self.loader.state_dict(), {"at": 5})
        self.loader.undo()
        self.assertEqual(self.inner.at, 0)

    def test_state_puts_it_back(self):
        attached = state.State(None, make()[1], [], [self.loader], None, [self.loader])
        attached.keep()
        self.loader._begin((0, 0))
        self.loader._take()
        attached.undo()
        self.assertEqual(state._join(*attached.take(False))[1], {"at": 0})
        self.assertEqual(self.inner.at, 1)


class InterruptsTest(unittest.TestCase):
    """As in a notebook: an interrupt ends the loop, whose cell is then run once more."""

    def setUp(self):
        self.begin()

    def begin(self):
        self.run_ = paceline.init(steps=4, batch_per_rank=2)
        self.model, self.optimizer = make()
        self.run_.attach(self.model, self.optimizer)
        self.loader = self.run_.loader(torch.arange(32.0).view(8, 4))
        self.made = []  # (step, its batch) of each update.

    def loop(self, interrupted=None):
        """interrupted: where, and in which step."""
        def pause(where):
            if (where, step.number) == interrupted:
                raise KeyboardInterrupt

        for step in self.run_.steps():
            pause("before")
            with step:
                for x in step.batches(self.loader):
                    step.backward(self.model(x).square().mean())
                pause("inside")
                step.update()
                self.made.append((step.number, x.tolist()))
                pause("updated")
            pause("behind")

    def test_the_loop_goes_on_where_it_was(self):
        self.loop()
        made, parameters = self.made, [p.detach().clone() for p in self.model.parameters()]
        self.assertEqual([number for number, _ in made], [0, 1, 2, 3])
        for where in ("before", "inside", "updated", "behind"):
            with self.subTest(where):
                self.begin()
                with self.assertRaises(KeyboardInterrupt):
                    self.loop((where, 2))
                self.loop()
                self.assertEqual(self.made, made)
                for mine, expected in zip(self.model.parameters(), parameters):
                    self.assertTrue(torch.equal(mine, expected))

    def test_an_evaluation_is_made_again(self):
        calls = []

        @self.run_.evaluation
        def evaluate(_rank, _world_size):
            calls.append(self.model.training)
            if len(calls) == 1:
                raise KeyboardInterrupt
            return paceline.Score(loss=1.0)

        with self.assertRaises(KeyboardInterrupt):
            self.loop()
        self.assertTrue(self.model.training)
        self.loop()
        self.assertEqual(calls, [False, False])

    def test_another_run_takes_the_model_over(self):
        with self.assertRaises(KeyboardInterrupt):
            self.loop(("inside", 1))
        former = self.run_
        self.run_ = paceline.init(steps=3, batch_per_rank=2)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.run_.attach(self.model, self.optimizer)
        self.loader = self.run_.loader(torch.arange(32.0).view(8, 4))
        self.loop()
        self.assertEqual([number for number, _ in self.made], [0, 0, 1, 2])
        with self.assertRaisesRegex(RuntimeError, "nothing is attached"):
            next(former.steps())

    def test_a_block_that_was_never_left_ends_with_its_run(self):
        next(self.run_.steps()).__enter__()  # An interrupt may come before its __exit__ begins.
        self.begin()
        self.loop()
        self.assertEqual(len(self.made), 4)


class ProfilesTest(unittest.TestCase):
    """What a script traces itself, as Paceline's profiles see it."""

    def make_trace(self, **options):
        return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], **options)

    def test_a_profile_function(self):
        self.assertEqual(profiling.problem(), "")
        sys.setprofile(lambda *_: None)
        try:
            self.assertIn("sys.setprofile", profiling.problem())
        finally:
            sys.setprofile(None)
        self.assertEqual(profiling.problem(), "")

    def test_a_trace_that_began_before_the_session(self):
        with self.make_trace():
            self.assertIn("own torch.profiler is active", profiling.problem())
        self.assertEqual(profiling.problem(), "")

    def test_a_trace_that_is_prepared(self):
        profiling.give_way(paceline.init(steps=1))
        trace = self.make_trace(schedule=torch.profiler.schedule(wait=1, warmup=1, active=1,
                                                                 repeat=1))
        trace.start()
        seen = []
        for _ in range(4):
            seen.append(profiling.problem() != "")
            trace.step()
        trace.stop()
        self.assertEqual(seen, [False, True, True, False])


class SpareEngine(AloneEngine):
    """One of a spare, which is needed at once."""

    rank = -1

    def __init__(self):
        super().__init__(steps=2, batch=2, seed=0)
        self.shown = []
        self.failures = []
        self.loads = 0

    def show_rehearsal(self, phase):
        self.shown.append(phase)

    def load(self, **parts):
        super().load(**parts)
        self.loads += 1

    def fail(self, what):
        self.failures.append(what)


class RehearsalTest(unittest.TestCase):
    """A spare's step by itself."""

    def setUp(self):
        self.engine = SpareEngine()
        self.run_ = Run(self.engine)
        self.model, self.optimizer = make()
        self.run_.attach(self.model, self.optimizer)

    def make_step(self, step, batches):
        """Returns the step's batches."""
        taken = []
        with step:
            for x in step.batches(batches):
                taken.append(x.tolist())
                step.backward(self.model(x).square().mean())
            step.update()
        return taken

    def test_it_comes_before_the_job_and_takes_nothing_from_it(self):
        loader = self.run_.loader(torch.arange(32.0).reshape(8, 4))
        steps = []
        for step in self.run_.steps(rehearse=True):
            loads, place = self.engine.loads, (self.run_.rank, self.run_.world_size)
            taken = self.make_step(step, loader)
            steps.append((step.rehearsal, step.number, loads, place, taken))
        (rehearsal, *first), (begins, *second), (ends, *_) = steps
        self.assertEqual((rehearsal, begins, ends), (True, False, False))
        self.assertEqual(first[:3], [0, 0, (-1, 1)])
        self.assertEqual(second[:3], [0, 1, (0, 1)])
        self.assertEqual(first[3], second[3], "the first batch comes again")
        self.assertEqual(self.engine.shown, [_ring.DATA_WAIT, _ring.FORWARD, _ring.BACKWARD,
                                             _ring.OPTIMIZER, _ring.IDLE])

    def test_there_is_one_however_the_loop_is_written(self):
        steps = []
        while step := next(self.run_.steps(rehearse=True), None):
            self.make_step(step, BATCHES)
            steps.append(step.rehearsal)
        self.assertEqual(steps, [True, False, False])

    def test_a_mistake_in_it_ends_the_spare(self):
        with self.assertRaisesRegex(ValueError, "a mistake"):
            with next(self.run_.steps(rehearse=True)):
                raise ValueError("a mistake")
        self.assertEqual(self.engine.failures,
                         ["in the rehearsal of a spare: ValueError: a mistake"])
        self.assertEqual(self.engine.loads, 0)
        self.assertEqual(self.engine.shown[-1], _ring.IDLE)

    def test_it_is_made_as_any_step(self):
        next(self.run_.steps(rehearse=True))
        with self.assertRaisesRegex(RuntimeError, "step 0 was not made"):
            next(self.run_.steps(rehearse=True))


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
        streams = Streams(torch.device("cuda", 0))
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
                Streams(torch.device("cuda", 0)).wait_for(engine, "mean")
            engine.recovers = False
            Streams(torch.device("cuda", 0)).wait_for(engine, "mean")
        engine.cut_off.assert_called_once()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
