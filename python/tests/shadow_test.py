"""A script's optimizer and schedulers in the engine's hands."""

import os
import sys
import types
import unittest

import torch

sys.path.insert(0, os.path.abspath("python"))
from paceline import state  # noqa: E402
from paceline.shadow import Shadow  # noqa: E402

SCHEDULES = torch.optim.lr_scheduler


def cosine(optimizer):
    return SCHEDULES.CosineAnnealingLR(optimizer, 10)


def warm(optimizer):
    return SCHEDULES.SequentialLR(
        optimizer, [SCHEDULES.LinearLR(optimizer, 0.1, total_iters=3), cosine(optimizer)], [3])


def chained(optimizer):
    return SCHEDULES.ChainedScheduler(
        [SCHEDULES.ConstantLR(optimizer, 0.5, 2), SCHEDULES.ExponentialLR(optimizer, 0.9)])


def cycle(optimizer):
    return SCHEDULES.OneCycleLR(optimizer, 0.2, 20)


def make(kind, schedule=cosine, **options):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    optimizer = kind([{"params": model[0].parameters()},
                      {"params": model[1].parameters(), "lr": 0.05}], lr=0.1, **options)
    return model, optimizer, schedule(optimizer)


def gradients_at(tensors):
    return [t.detach() * 0.3 + 0.01 * (place + 1) for place, t in enumerate(tensors)]


def plain_step(model, optimizer, scheduler):
    parameters = list(model.parameters())
    for parameter, gradient in zip(parameters, gradients_at(parameters)):
        parameter.grad = gradient
    optimizer.step()
    scheduler.step()


def shadow_of(model, optimizer, scheduler):
    shadow = Shadow(optimizer, [scheduler])
    shadow.load(list(model.parameters()))
    return shadow


def ended(number, done=True, scheduled=True):
    return (types.SimpleNamespace(done=done),
            types.SimpleNamespace(number=number, scheduled=scheduled))


class UpdateTest(unittest.TestCase):
    KINDS = [(torch.optim.SGD, {}), (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
             (torch.optim.AdamW, {}), (torch.optim.AdamW, {"amsgrad": True}),
             (torch.optim.Adagrad, {"initial_accumulator_value": 0.1}), (torch.optim.RMSprop, {}),
             (torch.optim.NAdam, {}), (torch.optim.RAdam, {}), (torch.optim.Adafactor, {})]

    def test_updates_of_other_tensors_are_those_of_a_plain_loop(self):
        for kind, options in self.KINDS:
            with self.subTest(kind=kind.__name__, **options):
                plain, other = make(kind, **options), make(kind, **options)
                shadow = shadow_of(*other)
                own = [p.detach().clone() for p in other[0].parameters()]
                common = [p.detach().clone() for p in other[0].parameters()]
                for step in range(6):
                    plain_step(*plain)
                    shadow.schedule(step)
                    shadow.update(common, gradients_at(common))
                for one, expected in zip(common, plain[0].parameters()):
                    self.assertTrue(torch.equal(one, expected))
                for one, expected in zip(other[0].parameters(), own):
                    self.assertTrue(torch.equal(one, expected), "the model's own are left alone")
                # The script goes on with the same state.
                for parameter, value in zip(other[0].parameters(), common):
                    parameter.data.copy_(value)
                shadow.schedule(6)
                plain_step(*plain)
                plain_step(*other)
                for one, expected in zip(other[0].parameters(), plain[0].parameters()):
                    self.assertTrue(torch.equal(one, expected))

    def test_hooks_of_the_optimizer_are_the_scripts_alone(self):
        model, optimizer, scheduler = make(torch.optim.SGD)
        called = []
        optimizer.register_step_pre_hook(lambda *_: called.append("pre"))
        optimizer.register_step_post_hook(lambda *_: called.append("post"))
        shadow = shadow_of(model, optimizer, scheduler)
        common = [p.detach().clone() for p in model.parameters()]
        shadow.schedule(0)
        shadow.update(common, gradients_at(common))
        self.assertEqual(called, [])

    def test_a_state_of_which_there_is_a_mean(self):
        names = {torch.optim.SGD: 0, torch.optim.AdamW: 3, torch.optim.RMSprop: 2}
        for kind, each in names.items():
            with self.subTest(kind=kind.__name__):
                plain, other = make(kind), make(kind)
                shadow = Shadow(other[1], [other[2]])
                self.assertEqual(shadow.load(list(other[0].parameters())), "")
                self.assertEqual(len(shadow.state()), 4 * each)
                counts = shadow.step_counts()
                self.assertEqual([float(one) for one in counts], [0.0] * (4 if each else 0))
                for count, tensor in zip(counts, shadow.state()[4 * (each - 1):]):
                    self.assertIs(count, tensor)
                # Made before the first step, it is the one before the first step.
                for step in range(2):
                    shadow.schedule(step)
                    plain_step(*plain)
                    plain_step(*other)
                for one, expected in zip(other[0].parameters(), plain[0].parameters()):
                    self.assertTrue(torch.equal(one, expected))

    def test_a_state_of_which_there_is_none(self):
        for kind, name in ((torch.optim.Adafactor, "col_var"), (torch.optim.NAdam, "mu_product")):
            model, optimizer, scheduler = make(kind)
            shadow = Shadow(optimizer, [scheduler])
            self.assertIn(f"the state of {kind.__name__} has '{name}'",
                          shadow.load(list(model.parameters())))
            self.assertFalse(any(optimizer.state.values()), "it has none yet")

    def test_reset_forgets(self):
        plain, other = make(torch.optim.AdamW), make(torch.optim.AdamW)
        shadow = shadow_of(*other)
        start = [p.detach().clone() for p in other[0].parameters()]
        plain_step(*other)
        shadow.reset()
        for parameter, value in zip(other[0].parameters(), start):
            parameter.data.copy_(value)
        plain_step(*plain)
        plain_step(*other)
        for one, expected in zip(other[0].parameters(), plain[0].parameters()):
            self.assertTrue(torch.equal(one, expected))


class ScheduleTest(unittest.TestCase):
    SCHEDULES = [cosine, warm, chained, cycle]

    def test_it_goes_by_the_jobs_steps_and_never_back(self):
        for schedule in self.SCHEDULES:
            with self.subTest(schedule=schedule.__name__):
                model, optimizer, scheduler = make(torch.optim.SGD, schedule)
                rates = []
                for _ in range(12):
                    rates.append([group["lr"] for group in optimizer.param_groups])
                    plain_step(model, optimizer, scheduler)
                model, optimizer, scheduler = make(torch.optim.SGD, schedule)
                shadow = shadow_of(model, optimizer, scheduler)
                for step, expected in ((0, 0), (1, 1), (1, 1), (4, 4), (2, 4), (11, 11)):
                    self.assertEqual(shadow.schedule(step), rates[expected][0])
                    self.assertEqual([group["lr"] for group in optimizer.param_groups],
                                     rates[expected])

    def test_the_scripts_calls_only_count(self):
        model, optimizer, scheduler = make(torch.optim.SGD)
        shadow = shadow_of(model, optimizer, scheduler)
        shadow.schedule(0)
        scheduler.step()
        self.assertEqual(scheduler.last_epoch, 0)
        shadow.end_step(*ended(0))
        for calls in (0, 2):
            for _ in range(calls):
                scheduler.step()
            with self.assertRaisesRegex(RuntimeError, f"was called {calls} times in step 1"):
                shadow.end_step(*ended(1))
        shadow.end_step(*ended(1, done=False))
        with self.assertRaisesRegex(ValueError, "takes no argument"):
            scheduler.step(3)

    def test_a_step_that_is_the_scripts_own_is_saved_as_counted(self):
        model, optimizer, scheduler = make(torch.optim.SGD)
        shadow = shadow_of(model, optimizer, scheduler)
        run = types.SimpleNamespace(_slots_known=True)
        attached = state.State(run, optimizer, [scheduler], [], shadow)
        shadow.schedule(0)
        scheduler.step()
        shadow.end_step(*ended(0, scheduled=False))
        taken = attached.take(True)
        self.assertEqual(scheduler.last_epoch, 1)
        model, optimizer, scheduler = make(torch.optim.SGD)
        shadow = shadow_of(model, optimizer, scheduler)
        shadow.schedule(0)
        state.State(run, optimizer, [scheduler], [], shadow).put(True, *taken)
        self.assertEqual(scheduler.last_epoch, 1)
        shadow.schedule(1)  # The rates are not taken for the script's doing.

    def test_nothing_of_a_schedule_is_undone(self):
        model, optimizer, scheduler = make(torch.optim.SGD)
        shadow = shadow_of(model, optimizer, scheduler)
        attached = state.State(None, optimizer, [scheduler], [], shadow)
        shadow.schedule(0)
        attached.keep()
        shadow.schedule(3)
        attached.undo()
        self.assertEqual(scheduler.last_epoch, 3)

    def test_a_scheduler_is_saved_under_its_own_name_and_as_before(self):
        _, optimizer, scheduler = make(torch.optim.SGD)
        before = (scheduler.state_dict(), state.State(None, optimizer, [scheduler], []).names())
        Shadow(optimizer, [scheduler])
        after = (scheduler.state_dict(), state.State(None, optimizer, [scheduler], []).names())
        self.assertEqual(before, after)

    def test_rates_are_changed_by_what_is_attached_alone(self):
        model, optimizer, scheduler = make(torch.optim.SGD)
        shadow = shadow_of(model, optimizer, scheduler)
        shadow.schedule(0)
        optimizer.param_groups[1]["lr"] = 0.3
        with self.assertRaisesRegex(RuntimeError, "has changed the optimizer's learning rate"):
            shadow.schedule(1)

    def test_a_schedule_by_what_is_measured_is_refused(self):
        _, optimizer, scheduler = make(torch.optim.SGD)
        self.assertEqual(Shadow.problem([scheduler]), "")
        self.assertIn("ReduceLROnPlateau",
                      Shadow.problem([SCHEDULES.ReduceLROnPlateau(optimizer)]))


if __name__ == "__main__":
    unittest.main()
