"""A sharded model in a session whose engine, and whose other ranks, are played."""

import os
import sys
import unittest
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

sys.path.insert(0, os.path.abspath("python"))
from fsdp_groups import played  # noqa: E402
from fsdp_net import Net, build, loss_of  # noqa: E402
from paceline._engine import SwitchingGroup  # noqa: E402
from paceline.alone import AloneEngine  # noqa: E402
from paceline.session import Run  # noqa: E402
from paceline.state import State  # noqa: E402


class ShardedEngine(AloneEngine):
    """Of a rank of replicas of two shards; -1: a spare."""

    shards = 2

    def __init__(self, rank):
        super().__init__(steps=4, batch=2, seed=0)
        self.rank = rank
        self.slots = None

    def switching_group(self, rank, size):
        return SwitchingGroup(rank, size)

    def set_optimizer_slots(self, slots):
        self.slots = slots


class ShardedSessionTest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(lambda: dist.is_initialized() and dist.destroy_process_group())

    def attach(self, rank):
        self.engine = ShardedEngine(rank)
        self.run_ = Run(self.engine)
        self.net = build(self.run_.mesh)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.01)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1)
        self.run_.attach(self.net, self.optimizer, self.scheduler)
        return self.run_._sharded

    def prepare(self, sharded):
        """Makes the gradients of a step."""
        sharded.begin_step()
        sharded.begin_batch()
        sharded.begin_backward(True)
        loss_of(self.net, 1).backward()
        sharded.end_backward()
        for _, part in sharded.parameters:
            part.grad.fill_(0.5)  # Played peers sum nothing up: it is what the memory held.

    def made(self):
        """Steps of the optimizer, by parameters' number."""
        return {float(state["step"]) for state in self.optimizer.state.values()}

    def test_a_spare_becomes_another_shard(self):
        sharded = self.attach(-1)
        for position, offset, rows in ((1, 49, 48), (0, 0, 49)):
            self.prepare_state()
            self.assertFalse(sharded.join([played(position, 2)]))
            self.assertEqual(self.run_.mesh.get_local_rank(), position)
            self.assertEqual(dict(sharded.slices())["embed.weight"],
                             ([97, 9], [offset, 0], [rows, 9], 0))
            self.assertEqual(dict(sharded.parameters)["embed.weight"].shape, (rows, 9))
            self.assertEqual(len(self.optimizer.state), 0)
            self.prepare(sharded)
            sharded.leave()
            self.assertTrue(sharded.join([played(position, 2)]))
            sharded.leave()

    def prepare_state(self):
        for p in self.net.parameters():
            self.optimizer.state[p] = {"step": torch.tensor(1.0), "exp_avg": torch.zeros_like(p)}

    def test_an_update_is_finished_once(self):
        sharded = self.attach(3)
        self.assertTrue(sharded.join([played(1, 2)]))
        self.prepare(sharded)
        sharded.leave()  # In the word, or behind it.
        sharded.finish_update(False)
        self.assertEqual((self.made(), self.scheduler.last_epoch), ({1.0}, 1))
        self.assertTrue(all(p.grad is None for p in self.net.parameters()))
        self.assertTrue(all(part.grad is None for _, part in sharded.parameters))
        sizes = [part.shape for _, part in sharded.parameters]
        slots = [(name, [one.shape for one in tensors]) for name, tensors in self.engine.slots]
        self.assertEqual(slots, [("exp_avg", sizes), ("exp_avg_sq", sizes)])
        # One that is left out, of which the script has stepped the scheduler before it was cut off.
        self.assertTrue(sharded.join([played(1, 2)]))
        self.prepare(sharded)
        self.scheduler.step()
        sharded.leave()
        sharded.finish_update(True)
        self.assertEqual((self.made(), self.scheduler.last_epoch), ({1.0}, 2))

    def test_a_scheduler_makes_one_step_in_each(self):
        sharded = self.attach(0)
        step = SimpleNamespace(number=0, done=True, _is_cut_off=True)
        sharded.begin_step()
        for _ in range(2):  # The script has not made it, as it was cut off behind the update.
            sharded.end_step(step)
            self.assertEqual(self.scheduler.last_epoch, 1)
        step._is_cut_off = False
        sharded.begin_step()
        with self.assertRaisesRegex(RuntimeError, "StepLR has made 0 steps in step 0"):
            sharded.end_step(step)

    def test_gradients_that_are_not_whole_are_dropped(self):
        sharded = self.attach(0)
        self.assertTrue(sharded.join([played(0, 2)]))
        sharded.begin_step()
        sharded.begin_backward(True)
        loss_of(self.net, 1).backward()
        sharded.leave()
        self.assertTrue(all(p.grad is None for p in self.net.parameters()))

    def test_the_engine_clips_what_the_optimizer_takes(self):
        sharded = self.attach(0)
        self.assertTrue(sharded.join([played(0, 2)]))
        self.prepare(sharded)
        for _, part in sharded.parameters:
            part.grad.fill_(2)
        self.assertTrue(all((p.grad.to_local() == 2).all() for p in self.net.parameters()))

    def test_state_is_of_whole_tensors(self):
        sharded = self.attach(1)
        self.assertTrue(sharded.join([played(1, 2)]))
        self.prepare(sharded)
        sharded.finish_update(False)
        state = self.run_._state
        schema, tensors = state.take(True)
        self.assertFalse(any(isinstance(one, DTensor) for one in tensors))
        self.assertEqual([one.shape for one in state.allocate(True, schema)],
                         [one.shape for one in tensors])
        self.expect_slices(state, schema, tensors)
        kept = [one.clone() for one in tensors]
        state.put(True, schema, [one.clone() for one in tensors])
        for before, after in zip(kept, state.take(True)[1]):
            self.assertTrue(torch.equal(before, after))
        exp_avg = self.optimizer.state[self.net.embed.weight]["exp_avg"]
        self.assertEqual((exp_avg.shape, exp_avg.placements),
                         (self.net.embed.weight.shape, self.net.embed.weight.placements))

    def expect_slices(self, state, schema, tensors):
        """Each tensor is a slice but the counts of steps."""
        slices = state.slices(True, schema)
        self.assertEqual(len(slices), len(tensors))
        for tensor, one in zip(tensors, slices):
            self.assertEqual(one is None, tensor.dim() == 0)
            if one is not None:
                self.assertEqual(list(tensor.shape), one[2])
        self.assertIn(([97, 9], [49, 0], [48, 9], 0), slices)

    def test_state_of_a_model_without_shards_fits(self):
        net = Net()
        optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        loss_of(net, 1).backward()
        optimizer.step()
        schema, _ = State(self, optimizer, [scheduler], []).take(True)
        self.attach(1)
        state = self.run_._state
        parts = state.allocate(True, schema)
        self.expect_slices(state, schema, parts)
        state.put(True, schema, [part.fill_(1) for part in parts])
        self.assertEqual(self.optimizer.state[self.net.embed.weight]["exp_avg"].to_local().shape,
                         (48, 9))

    def test_what_does_not_go_with_shards_is_refused(self):
        self.engine = ShardedEngine(0)
        for make, reason in (
                (lambda run: Net(), "the attached model is not sharded"),
                (lambda run: torch.nn.ModuleList([build(run.mesh), torch.nn.Linear(1, 1)]),
                 "1.weight is of no part that fully_shard was applied to")):
            run = Run(self.engine)
            net = make(run)
            with self.assertRaisesRegex(ValueError, reason):
                run.attach(net, torch.optim.SGD(net.parameters()))
        net = build(run.mesh)
        with self.assertRaisesRegex(ValueError, "GradScaler"):
            run.attach(net, torch.optim.SGD(net.parameters()), torch.amp.GradScaler("cpu"))
