"""Tensor parallelism beside shards: a session whose engine, and whose other ranks, are played."""

import os
import sys
import unittest

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

sys.path.insert(0, os.path.abspath("python"))
from fsdp_groups import played  # noqa: E402
from fsdp_net import Net, build, build_parallel, loss_of  # noqa: E402
from paceline._engine import SwitchingGroup  # noqa: E402
from paceline.alone import AloneEngine  # noqa: E402
from paceline.session import Run  # noqa: E402

MESH = {"shard": 2, "tensor": 2}
POSITIONS = 4


class ParallelEngine(AloneEngine):
    """Of a rank of two replicas; -1: a spare."""

    shards = POSITIONS
    world_size = 2 * POSITIONS

    def __init__(self, rank):
        super().__init__(steps=4, batch=2, seed=0)
        self.rank = rank

    def switching_group(self, rank, size):
        return SwitchingGroup(rank, size)

    def set_optimizer_slots(self, slots):
        pass


def groups_of(position):
    """Of the replica, and of its two dimensions."""
    return [played(position, POSITIONS), played(position // 2, 2), played(position % 2, 2)]


class ParallelSessionTest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(lambda: dist.is_initialized() and dist.destroy_process_group())

    def attach(self, rank):
        self.run_ = Run(ParallelEngine(rank), MESH)
        self.net = build_parallel(self.run_.mesh)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=0.01)
        self.run_.attach(self.net, self.optimizer)
        return self.run_._sharded

    def update(self, sharded):
        """Makes a step's gradients, and the optimizer's step."""
        sharded.begin_step()
        sharded.begin_batch()
        sharded.begin_backward(True)
        loss_of(self.net, 1).backward()
        sharded.end_backward()
        for _, part in sharded.parameters:
            part.grad.fill_(0.5)  # Played peers sum nothing up: it is what the memory held.
        sharded.finish_update(False)

    def test_slices_are_cut_along_both_dimensions(self):
        sharded = self.attach(-1)
        expected = {  # By position.
            2: {"blocks.0.inner.weight": ([20, 9], [5, 0], [5, 9], 0),
                "blocks.0.outer.weight": ([9, 20], [5, 0], [4, 10], 0),
                "blocks.0.outer.bias": ([9], [5], [4], 0),
                "embed.weight": ([97, 9], [49, 0], [48, 9], 0)},
            1: {"blocks.0.inner.weight": ([20, 9], [10, 0], [5, 9], 0),
                "blocks.0.outer.weight": ([9, 20], [0, 10], [5, 10], 0),
                "blocks.0.outer.bias": ([9], [0], [5], 1),
                "embed.weight": ([97, 9], [0, 0], [49, 9], 1)}}
        for position, slices in expected.items():
            self.assertFalse(sharded.join(groups_of(position)))
            found = dict(sharded.slices())
            self.assertEqual({name: found[name] for name in slices}, slices)
            sharded.leave()
            self.assertTrue(sharded.join(groups_of(position)))
            sharded.leave()

    def test_each_element_is_saved_once_and_parts_have_their_sizes(self):
        sharded = self.attach(-1)
        counts = {}
        for position in (3, 1, 2, 0):
            self.assertFalse(sharded.join(groups_of(position)))
            parts = dict(sharded.parameters)
            for name, (shape, offsets, sizes, copy) in sharded.slices():
                self.assertEqual(list(parts[name].shape), sizes, name)
                count = counts.setdefault(name, torch.zeros(shape, dtype=torch.int))
                box = tuple(slice(first, first + n) for first, n in zip(offsets, sizes))
                count[box] += copy == 0
            sharded.leave()
        self.assertEqual(len(counts), len(list(self.net.parameters())))
        for name, count in counts.items():
            self.assertTrue(bool((count == 1).all()), name)

    def test_state_is_of_whole_tensors(self):
        sharded = self.attach(3)
        self.assertTrue(sharded.join(groups_of(3)))
        self.update(sharded)
        state = self.run_._state
        schema, tensors = state.take(True)
        self.assertEqual([one.shape for one in state.allocate(True, schema)],
                         [one.shape for one in tensors])
        slices = state.slices(True, schema)
        self.assertIn(([20, 9], [15, 0], [5, 9], 0), slices)
        self.assertIn(([9, 20], [5, 10], [4, 10], 0), slices)
        kept = [one.clone() for one in tensors]
        state.put(True, schema, [one.clone() for one in tensors])
        for before, after in zip(kept, state.take(True)[1]):
            self.assertTrue(torch.equal(before, after))
        inner = self.net.blocks[0].inner.weight
        self.assertEqual(self.optimizer.state[inner]["exp_avg"].placements, inner.placements)
        self.update(sharded)  # It goes on with what it was given.

    def test_neighbours_have_the_same_samples(self):
        for rank, expected in ((0, 0), (1, 0), (2, 1), (7, 3)):
            run = Run(ParallelEngine(rank), MESH)
            self.assertEqual((run.data_rank, run.data_world_size), (expected, POSITIONS))
            self.assertEqual(run.mesh.get_coordinate(), (rank % POSITIONS // 2, rank % 2))
            self.assertEqual((run.data_rank, run.data_world_size), (expected, POSITIONS))
            dist.destroy_process_group()

    def test_the_engine_hears_of_several_dimensions(self):
        self.assertEqual(self.attach(0).mesh_sizes, [2, 2])
        dist.destroy_process_group()
        run = Run(ParallelEngine(0))
        net = build(run.mesh)
        run.attach(net, torch.optim.SGD(net.parameters()))
        self.assertEqual(run._sharded.mesh_sizes, [])
        self.assertEqual(run.data_world_size, run.world_size)

    def test_alone_all_dimensions_have_size_one(self):
        run = Run(AloneEngine(steps=1, batch=2, seed=0), MESH)
        self.assertEqual(tuple(run.mesh.shape), (1, 1))
        net = build_parallel(run.mesh)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        run.attach(net, optimizer)
        self.assertEqual(run.data_rank, 0)
        before = net.blocks[0].inner.weight.to_local().detach().clone()
        for step in run.steps():
            with step:
                for _ in step.batches([torch.ones(2)]):
                    step.backward(loss_of(net, 1))
                step.update()
        self.assertFalse(torch.equal(net.blocks[0].inner.weight.to_local(), before))

    def test_other_meshes_are_refused(self):
        for mesh, reason in (
                ({"shard": 2, "tensor": 3}, "the sizes 2 x 3, and the job's file says shards: 4"),
                ({"shard": -2, "tensor": -2}, "sizes of 1 and more"),
                ({"tensor": 4}, "has the dimensions tensor; known are"),
                ({"shard": 1, "tensor": 2, "pipeline": 2}, "tensor, pipeline; known are"),
                ({}, "has the dimensions none; known are")):
            with self.subTest(mesh), self.assertRaisesRegex(ValueError, reason):
                Run(ParallelEngine(0), mesh).mesh  # pylint: disable=expression-not-assigned

    def test_models_that_do_not_fit_the_mesh_are_refused(self):
        run = Run(ParallelEngine(0), MESH)

        def without_shards(mesh):
            return parallelize_module(Net(hidden=20), mesh["tensor"],
                                      {"blocks.*.inner": ColwiseParallel()}, src_data_rank=None)

        def half(mesh):
            net = without_shards(mesh)
            for block in net.blocks[1:]:
                fully_shard(block, mesh=mesh["shard"])
            return torch.nn.ModuleList([*net.blocks])

        for make, reason in (
                (lambda mesh: build_parallel(mesh, hidden=19), "which must divide it evenly"),
                (without_shards, "the attached model is not sharded"),
                (half, "0.norm.weight is of no part that fully_shard was applied to")):
            net = make(run.mesh)
            with self.assertRaisesRegex(ValueError, reason):
                run.attach(net, torch.optim.SGD(net.parameters()))
