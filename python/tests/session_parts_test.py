"""Sessions whose daemon is played: loaders, interrupts, profiles, rehearsals, and streams."""

import os
import sys
import unittest
from unittest import mock

import torch
from torchdata.stateful_dataloader import StatefulDataLoader

sys.path.insert(0, os.path.abspath("python"))
import paceline  # noqa: E402
from paceline import _ring, connect, profiling, state  # noqa: E402
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
    """The least that a loader needs to tell its position."""

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


class StatefulDataLoaderTest(unittest.TestCase):
    """The same with torchdata's own, which shuffles, and prefetches in workers."""

    def make(self, workers):
        torch.manual_seed(3)
        return StatefulDataLoader(torch.arange(20), 2, shuffle=True, num_workers=workers)

    def take(self, loader, step):
        loader.keep()
        loader._begin((step, step))
        return loader._take().tolist()

    def test_it_goes_on_where_the_steps_ended_that_are_done(self):
        for workers in (0, 1):
            with self.subTest(workers=workers):
                expected = [batch.tolist() for batch in self.make(workers)]
                loader = OwnLoader(self.make(workers), keeps=True)
                self.assertEqual([self.take(loader, i) for i in range(4)], expected[:4])
                loader.undo()
                other = OwnLoader(self.make(workers), keeps=True)
                other.load_state_dict(loader.state_dict())
                self.assertEqual(self.take(loader, 3), expected[3])
                torch.manual_seed(99)
                self.assertEqual([self.take(other, i) for i in range(3, 10)], expected[3:])
                second_pass = {x for i in range(10) for x in self.take(other, i)}
                self.assertEqual(len(second_pass), 20)


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

    def test_loaders_of_the_scripts_own_begin_anew(self):
        class Restarting(Positioned):
            def __iter__(self):
                self.at = 0
                return super().__iter__()

        for attached in (False, True):
            with self.subTest(attached=attached):
                self.begin()
                self.run_ = paceline.init(steps=4)
                self.model, self.optimizer = make()
                self.loader = Restarting(9)
                self.run_.attach(self.model, self.optimizer,
                                 own=[self.loader] if attached else [])
                with self.assertRaises(KeyboardInterrupt):
                    self.loop(("inside", 2))
                self.loop()
                self.assertEqual([(number, x[0][0]) for number, x in self.made],
                                 [(0, 0), (1, 1), (2, 0), (3, 1)])

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
        steps = self.run_.steps(rehearse=True)
        next(steps)
        with self.assertRaisesRegex(RuntimeError, "step 0 was not made"):
            next(steps)

    def test_a_loop_that_is_left_before_its_block_goes_on_with_it(self):
        first = next(self.run_.steps(rehearse=True))
        again = next(self.run_.steps(rehearse=True))
        self.assertIs(again, first)
        self.make_step(again, BATCHES)
        self.assertFalse(next(self.run_.steps(rehearse=True)).rehearsal)
        self.assertEqual(self.engine.loads, 1)

    def test_a_loader_that_tells_its_position_goes_back(self):
        self.engine.recovers = True
        self.run_ = Run(self.engine)
        self.model, self.optimizer = make()
        inner = Positioned(3)
        self.run_.attach(self.model, self.optimizer, own=[inner])
        firsts = []
        for step in self.run_.steps(rehearse=True):
            firsts.append(self.make_step(step, inner)[0][0][0])
        self.assertEqual(firsts, [0, 0, 1])

    def test_what_is_reported_in_it_counts_nowhere(self):
        sent = []
        self.engine.report = sent.append
        for step in self.run_.steps(rehearse=True):
            with step:
                for x in step.batches(BATCHES):
                    step.backward(self.model(x).square().mean())
                self.run_.report(**{"rehearsed" if step.rehearsal else "trained": 1.0})
                step.update()
        self.assertEqual(sent, [[], [("trained", 1.0, 1)], [("trained", 1.0, 2)]])

    def test_a_script_that_ends_behind_it_has_not_trained(self):
        self.engine.steps = 1
        self.make_step(next(self.run_.steps(rehearse=True)), BATCHES)
        self.assertEqual(self.run_.finish(), 0)
        self.assertEqual(self.engine.failures, [
            "in the rehearsal of a spare: the script ended before its training did"])
        self.assertEqual(self.engine.loads, 0)


class GpuTest(unittest.TestCase):
    """What a rank on a GPU does besides, without one."""

    def test_a_missing_engine_is_told(self):
        variables = {"PACELINE_SOCKET": "none", "PACELINE_SESSION": "1", "PACELINE_DEVICE": "cuda"}
        none_before = mock.patch.object(connect, "_newest", None)  # Other tests have made runs.
        with mock.patch.dict(os.environ, variables), none_before:
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
