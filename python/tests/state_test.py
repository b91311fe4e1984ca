"""What a session has attached, its loader, and a session that runs by itself."""

import os
import pickle
import random
import sys
import unittest

import numpy
import torch

sys.path.insert(0, os.path.abspath("python"))
import paceline  # noqa: E402
from paceline import state  # noqa: E402


class Own:
    """Somebody's object with a state."""

    def __init__(self, value=0):
        self.value = value

    def state_dict(self):
        return {"value": self.value}

    def load_state_dict(self, loaded):
        self.value = loaded["value"]


class FakeRun:
    device = torch.device("cpu")
    _slots_known = True


def make(kind, **options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    optimizer = kind(model.parameters(), lr=0.1, **options)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    return model, optimizer, scheduler


def step(model, optimizer, scheduler):
    optimizer.zero_grad()
    model(torch.ones(5, 4)).square().sum().backward()
    optimizer.step()
    scheduler.step()


class StateTest(unittest.TestCase):
    KINDS = [(torch.optim.SGD, {}), (torch.optim.SGD, {"momentum": 0.9}), (torch.optim.AdamW, {}),
             (torch.optim.AdamW, {"amsgrad": True}), (torch.optim.Adagrad, {}),
             (torch.optim.RMSprop, {}), (torch.optim.NAdam, {}), (torch.optim.RAdam, {}),
             (torch.optim.Adafactor, {})]

    def test_a_newcomer_goes_on_like_its_source(self):
        for kind, options in self.KINDS:
            with self.subTest(kind=kind.__name__, **options):
                old, new = make(kind, **options), make(kind, **options)
                for _ in range(3):
                    step(*old)
                new[0].load_state_dict(old[0].state_dict())
                source = state.State(FakeRun(), *old[1:2], old[2:], [])
                newcomer = state.State(FakeRun(), *new[1:2], new[2:], [])
                self.assertEqual(source.names(), newcomer.names())
                schema, tensors = source.take(True)
                fresh = newcomer.allocate(True, schema)
                for to, from_ in zip(fresh, tensors, strict=True):
                    to.copy_(from_)
                newcomer.put(True, schema, fresh)
                for _ in range(3):
                    step(*old)
                    step(*new)
                for one, other in zip(old[0].parameters(), new[0].parameters()):
                    self.assertTrue(torch.equal(one, other))
                self.assertEqual(old[2].get_last_lr(), new[2].get_last_lr())

    def test_own_state_travels_too(self):
        _, optimizer, _ = make(torch.optim.SGD)
        mine, others = Own(7), Own()
        random.seed(1)
        numpy.random.seed(2)
        source = state.State(FakeRun(), optimizer, [], [mine])
        taken = source.take(False)
        expected = (random.random(), numpy.random.rand())
        state.State(FakeRun(), optimizer, [], [others]).put(False, *taken)
        self.assertEqual(others.value, 7)
        self.assertEqual((random.random(), numpy.random.rand()), expected)

    def test_undo_restores_what_a_step_changed(self):
        _, optimizer, scheduler = make(torch.optim.SGD)
        mine = Own(1)
        attached = state.State(FakeRun(), optimizer, [scheduler], [mine])
        attached.keep()
        before = (random.random(), numpy.random.rand())
        optimizer.step()
        scheduler.step()
        mine.value = 2
        for _ in range(2):
            attached.undo()
            self.assertEqual(mine.value, 1)
            self.assertEqual(scheduler.last_epoch, 0)
            self.assertEqual((random.random(), numpy.random.rand()), before)

    def test_slots_are_those_of_the_parameters_shapes(self):
        model, optimizer, scheduler = make(torch.optim.AdamW)
        attached = state.State(FakeRun(), optimizer, [], [])
        self.assertEqual(attached.slots(), [])
        step(model, optimizer, scheduler)
        self.assertEqual([name for name, _ in attached.slots()], ["exp_avg", "exp_avg_sq"])
        self.assertEqual([t.shape for t in attached.slots()[0][1]],
                         [p.shape for p in model.parameters()])

    def test_no_code_is_run_from_a_schema(self):
        class Evil:
            def __reduce__(self):
                return os.system, ("touch evil",)

        _, optimizer, _ = make(torch.optim.SGD)
        attached = state.State(FakeRun(), optimizer, [], [])
        for blob in (pickle.dumps(Evil()), pickle.dumps(([], pickle.dumps(Evil())))):
            with self.assertRaisesRegex(pickle.UnpicklingError, "no plain value"):
                attached.put(True, blob, [])
        self.assertFalse(os.path.exists("evil"))

    def test_a_changed_script_is_told(self):
        _, optimizer, scheduler = make(torch.optim.SGD)
        schema, tensors = state.State(FakeRun(), optimizer, [scheduler], []).take(True)
        with self.assertRaisesRegex(ValueError, "1 objects are attached, and the state is of 2"):
            state.State(FakeRun(), optimizer, [], []).put(True, schema, tensors)


class AloneTest(unittest.TestCase):
    """Without a daemon, the script trains like a plain loop."""

    def run_of(self, **options):
        run = paceline.init(steps=12, batch_per_rank=4, **options)
        model, optimizer, scheduler = make(torch.optim.SGD)
        run.attach(model, optimizer, scheduler)
        return run, model, scheduler

    def test_it_trains_and_evaluates(self):
        run, model, scheduler = self.run_of()
        scores = []

        @run.evaluation
        def evaluate(rank, world_size):
            scores.append((rank, world_size, model.training))
            return paceline.Score(loss=1.0, correct=1, count=2)

        loader = run.loader(torch.utils.data.TensorDataset(torch.ones(10, 4)))
        losses = []
        for one in run.steps():
            with one:
                for (x,) in one.batches(loader):
                    self.assertEqual(x.shape, (4, 4))
                    loss = model(x).square().mean()
                    one.backward(loss)
                self.assertTrue(one.update(clip=1.0))
                scheduler.step()
            self.assertTrue(one.done)
            losses.append(float(loss.detach()))
        self.assertEqual(len(losses), 12)
        self.assertLess(losses[-1], losses[0])
        self.assertEqual(loader.epoch, 5)
        self.assertEqual(scores, [(0, 1, False)])
        self.assertTrue(model.training)

    def test_any_iterable_gives_batches(self):
        run, model, _ = self.run_of()
        batches = [torch.ones(2, 4), torch.zeros(3, 4)]
        seen = []
        for one in run.steps():
            with one:
                for x in one.batches(batches):
                    seen.append(len(x))
                    one.backward(model(x).square().mean())
                one.update()
        self.assertEqual(seen, [2, 3] * 6)

    def losses_of(self, make_step, *others):
        """The losses of all steps, and the model's parameters at the end."""
        torch.manual_seed(0)
        run = paceline.init(steps=5)
        model, optimizer, _ = make(torch.optim.SGD, momentum=0.9)
        run.attach(model, optimizer, *others)
        losses = []
        for one in run.steps():
            with one:
                for x in one.batches([torch.ones(2, 4)]):
                    loss = model(x).square().mean()
                    losses.append(loss.item())
                    make_step(one, loss, optimizer)
            self.assertTrue(one.done)
        return losses, [p.detach() for p in model.parameters()]

    def assert_same(self, one, other):
        self.assertEqual(one[0], other[0])
        for mine, theirs in zip(one[1], other[1], strict=True):
            self.assertTrue(torch.equal(mine, theirs))

    def test_plain_calls_are_the_steps(self):
        def plainly(one, loss, optimizer):
            loss.backward()
            optimizer.step()

        expected = self.losses_of(lambda one, loss, _: (one.backward(loss), one.update()))
        self.assert_same(self.losses_of(plainly), expected)
        self.assertNotEqual(expected[0][0], expected[0][-1])

    def test_a_scaler_that_is_attached_is_used(self):
        def scaled(scaler):
            return self.losses_of(lambda one, loss, _: (one.backward(loss), one.update()), scaler)

        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)
        # Powers of two change nothing.
        self.assert_same(scaled(scaler), self.losses_of(
            lambda one, loss, _: (one.backward(loss), one.update())))
        self.assertEqual(scaler.get_scale(), 16.0)

    def test_a_scaler_leaves_out_a_step_that_is_not_finite(self):
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        updates = []

        def first_is_infinite(one, loss, _optimizer):
            one.backward(loss * float("inf") if one.number == 0 else loss)
            updates.append(one.update())

        losses, _ = self.losses_of(first_is_infinite, scaler)
        self.assertEqual(updates, [False, True, True, True, True])
        self.assertEqual(losses[0], losses[1])
        self.assertEqual(scaler.get_scale(), 2.0)

    def test_an_optimizer_outside_of_a_step_is_told(self):
        run, model, _ = self.run_of()
        optimizer = run._optimizer
        with self.assertRaisesRegex(RuntimeError, "outside of a step"):
            for one in run.steps():
                with one:
                    for x in one.batches([torch.ones(2, 4)]):
                        one.backward(model(x).square().mean())
                    one.update()
                optimizer.step()

    def mistake(self, expected, kind=RuntimeError, update=True, backward=True, twice=False):
        run, model, _ = self.run_of()
        with self.assertRaisesRegex(kind, expected):
            for one in run.steps():
                with one:
                    for x in one.batches([torch.ones(2, 4)]):
                        if backward:
                            one.backward(model(x).square().mean())
                        if twice:
                            one.backward(model(x).square().mean())
                    if update:
                        one.update()

    def test_mistakes_are_told(self):
        self.mistake("step 0 ended without step.update", update=False)
        self.mistake("no step.backward.loss. for batch 1 of 1", backward=False)
        self.mistake("once for each batch", twice=True)

    def test_attach_tells_what_is_wrong(self):
        run = paceline.init()
        model, optimizer, _ = make(torch.optim.SGD)
        with self.assertRaisesRegex(TypeError, "takes a torch.nn.Module"):
            run.attach([model], optimizer)
        with self.assertRaisesRegex(TypeError, "takes a torch.optim.Optimizer"):
            run.attach(model, model)
        with self.assertRaisesRegex(TypeError, "has no state_dict"):
            run.attach(model, optimizer, object())
        with self.assertRaisesRegex(ValueError, "2 of the optimizer's parameters"):
            run.attach(model[0], optimizer)
        with self.assertRaisesRegex(RuntimeError, "call run.attach"):
            next(run.steps())

    def test_a_loader_tells_what_is_wrong(self):
        run, _, _ = self.run_of()
        with self.assertRaisesRegex(ValueError, "sampler does not go with run.loader"):
            run.loader([1], sampler=[0])
        with self.assertRaisesRegex(TypeError, "takes a map-style dataset"):
            run.loader(iter([1]))


class Engine:
    """Where a loader's ranks and positions come from, played."""

    device = torch.device("cpu")

    def __init__(self):
        self.openings = 1
        self.position = (0, 0)
        self.taken = None
        self.rank, self.world_size, self.batch, self.seed = 0, 1, 2, 0

    def sampler(self, *, offset, rank, world_size, batch, **_rest):
        engine = self

        class Sampler:
            position = (0, offset)

            def next(self):
                at = self.position[1]
                self.position = (0, at + batch * world_size)
                return [at + rank + world_size * i for i in range(batch)]

        assert engine
        return Sampler()

    def set_position(self, epoch, offset):
        self.taken = (epoch, offset)


class LoaderTest(unittest.TestCase):
    def setUp(self):
        self.engine = Engine()
        self.run = paceline.Run(self.engine)
        self.loader = self.run.loader(list(range(100)))

    def reopen(self, position, **changes):
        for name, value in changes.items():
            setattr(self.engine, name, value)
        self.engine.position = position
        self.engine.openings += 1

    def step(self, number, passes=1):
        self.loader._begin(number)
        return [self.loader._take().tolist() for _ in range(passes)]

    def test_positions_are_those_behind_the_batches_taken(self):
        self.assertEqual(self.step(0, passes=2), [[0, 1], [2, 3]])
        self.assertEqual(self.engine.taken, (0, 4))
        self.assertEqual(self.step(1), [[4, 5]])
        self.assertEqual(self.engine.taken, (0, 6))

    def cut_off_and_repeat(self):
        """Returns whether the iterator stays."""
        self.step(0)
        iterator = self.loader._iterator
        self.step(1, passes=2)
        self.reopen((0, 2))
        self.assertEqual(self.step(1, passes=3), [[2, 3], [4, 5], [6, 7]])
        self.assertEqual(self.engine.taken, (0, 8))
        return self.loader._iterator is iterator

    def test_a_step_that_was_cut_off_draws_its_batches_anew(self):
        self.assertFalse(self.cut_off_and_repeat())

    def test_a_step_that_was_cut_off_gets_the_batches_of_workers_once_more(self):
        self.loader = paceline.Run(self.engine).loader(list(range(100)), num_workers=1)
        self.assertTrue(self.cut_off_and_repeat())

    def test_a_step_that_others_finished_is_not_repeated(self):
        self.step(0)
        self.step(1)
        self.reopen((0, 4))
        self.assertEqual(self.step(2), [[4, 5]])

    def test_other_ranks_go_on_from_the_same_position(self):
        self.step(0)
        self.step(1)
        self.reopen((0, 2), rank=1, world_size=3)
        self.assertEqual(self.step(1), [[3, 6]])

    def test_another_position_is_gone_to(self):
        self.step(0)
        self.reopen((0, 50))
        self.assertEqual(self.step(7), [[50, 51]])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
