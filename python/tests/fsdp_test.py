"""Sharded models under ranks that come and go: FSDP2's private state, the mesh of a replica, and
the groups beneath it. Most of it in one process, beside peers that are played."""

import ast
import inspect
import os
import sys
import unittest
from importlib import import_module
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

sys.path.insert(0, os.path.abspath("python"))
from fsdp_groups import CPU, SwitchingGroupTest, played  # noqa: E402, F401
from fsdp_net import BLOCKS, build, cut_at, loss_of  # noqa: E402
from fsdp_parallel import ParallelSessionTest  # noqa: E402, F401
from fsdp_ranks import RanksTest  # noqa: E402, F401
from fsdp_session import ShardedSessionTest  # noqa: E402, F401
from paceline import fsdp  # noqa: E402
from paceline._engine import SwitchingGroup  # noqa: E402
from paceline.mesh import ReplicaMesh, mesh_of_one  # noqa: E402


def make_mesh(position=0, **shape):
    return ReplicaMesh(shape or {"shard": 2}, position, CPU, SwitchingGroup)


def connect(mesh):
    mesh.connect(lambda _use, positions: played(positions.index(mesh.position), len(positions)))


class MeshTest(unittest.TestCase):
    def setUp(self):
        self.addCleanup(lambda: dist.is_initialized() and dist.destroy_process_group())


class CheckTest(MeshTest):
    """What FSDP2 keeps, by name."""

    def test_this_torch_has_all_of_it(self):
        self.assertEqual(fsdp._missing_fields(), [])

    def test_a_field_that_is_missing_is_named(self):
        with mock.patch.dict(fsdp._FIELDS, {("_fsdp_param", "FSDPParam"): ("sharded_size", "gone"),
                                            ("_fsdp_param", "Gone"): ("x",)}):
            with self.assertRaisesRegex(RuntimeError, r"FSDPParam\.gone, Gone missing.*2\.11"):
                fsdp.check(nn.Linear(1, 1))

    def test_an_older_torch_is_refused(self):
        for version in ("2.9.1+cpu", "2.10.0"):
            with mock.patch("torch.__version__", version):
                with self.assertRaisesRegex(RuntimeError, f"need torch 2.11.* {version[:4]}"):
                    make_mesh()
            self.assertFalse(dist.is_initialized())

    # A field that is new in a later torch has to be looked at: is it left over by a cut step?
    KEPT = {
        "FSDPState": "_auto_reshard_after_forward _device _device_handle _is_root _modules "
                     "_mp_policy _post_forward_hook_handle _pre_forward_hook_handle "
                     "_states_to_backward_prefetch _states_to_forward_prefetch",
        "FSDPStateContext": "all_states is_last_backward",
        "FSDPCommContext": "all_gather_copy_in_stream all_gather_stream all_reduce_stream "
                           "device_handle reduce_scatter_stream",
        "FSDPParamGroup": "_all_gather_comm _all_gather_output _all_reduce_hook_stream "
                          "_module_to_pre_load_state_dict_hook_handle "
                          "_module_to_pre_save_state_dict_hook_handle _orig_dtype _reduce_dtype "
                          "_reduce_scatter_comm _reset_sharded_params all_reduce_grads comm_ctx "
                          "device_handle force_sum_reduction_for_comms gradient_divide_factor "
                          "mp_policy offload_policy reduce_grads reshard_after_backward "
                          "unshard_async_op unshard_in_backward",
        "FSDPParam": "_contiguous_orig_stride _module_info _param_fqn _post_load_hook_handle "
                     "_sharding_spec _spmd_mesh _spmd_placements mp_policy offload_to_cpu "
                     "orig_dtype param_dtype pin_memory reduce_dtype",
    }

    def test_all_else_that_it_keeps_is_the_models(self):
        known = {node.attr for node in ast.walk(ast.parse(inspect.getsource(fsdp)))
                 if isinstance(node, ast.Attribute)}
        for (module, name) in fsdp._FIELDS:
            if name not in self.KEPT:
                continue
            kind = getattr(import_module(fsdp._INTERNALS + module), name)
            stored = {node.attr for node in ast.walk(ast.parse(inspect.getsource(kind)))
                      if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
                      and isinstance(node.value, ast.Name) and node.value.id == "self"}
            self.assertEqual(stored - known, set(self.KEPT[name].split()), name)

    def test_what_cannot_be_restored_is_refused(self):
        mesh = make_mesh(replica=2, shard=2).device_mesh
        with self.assertRaisesRegex(ValueError, "replicas are the job's"):
            fsdp.check(fully_shard(nn.Linear(4, 4), mesh=mesh))
        module = fully_shard(nn.Linear(4, 4), mesh=mesh["shard"])
        fsdp.check(module)
        module.set_all_reduce_hook(lambda _: None)
        with self.assertRaisesRegex(ValueError, "all-reduce hook"):
            fsdp.check(module)


class ResetTest(MeshTest):
    """A step that is cut off, and made again. A rank that enters another number of collectives than
    the others would wait for ever, or get their data for another parameter's."""

    def collectives_of_the_repeated_step(self, place, left_out):
        """Of an undisturbed step, and of one that follows a cut step."""
        mesh = make_mesh()
        connect(mesh)
        net = build(mesh.device_mesh)

        def step():
            group = mesh.device_mesh.get_group()
            before = group._get_sequence_number_for_group()
            try:
                loss_of(net, 1).backward()
            except (RuntimeError, AssertionError, AttributeError) as error:
                return type(error).__name__
            return group._get_sequence_number_for_group() - before

        step()
        usual = step()
        remove = cut_at(net, place, mesh.sever)
        self.assertIn("Error", str(step()))
        remove()
        with mock.patch.object(fsdp, left_out or "check"):
            fsdp.reset(net)
        connect(mesh)
        again = step()
        dist.destroy_process_group()
        return usual, again

    # Not among them: `iter_forward_root` and `post_optim_event` of the flags, which only order
    # streams of a GPU, and _reset_buffers, whose fields hold memory and events of one.
    NECESSARY = [("backward", "_reset_phases"), ("backward", "_reset_flags"),
                 ("backward", "_reset_collectives"), ("forward", "_reset_unsharded")]

    # A block gathers in the forward and the backward pass, the root once; all scatter.
    USUAL = 3 * BLOCKS + 2

    def test_the_repeated_step_has_the_same_collectives(self):
        for place in ("forward", "backward"):
            usual, again = self.collectives_of_the_repeated_step(place, None)
            self.assertEqual((usual, again), (self.USUAL, self.USUAL), place)

    def test_each_part_of_the_reset_is_necessary(self):
        for place, part in self.NECESSARY:
            with self.subTest(part):
                usual, again = self.collectives_of_the_repeated_step(place, part)
                self.assertEqual(usual, self.USUAL)
                self.assertNotEqual(again, usual)

    def gradients_of_the_repeated_step(self, left_out):
        """On one rank, whose hook cuts the second step off."""
        net = build(mesh_of_one(CPU))
        calls = []

        def mean(_gradients):
            calls.append(1)
            if len(calls) == 6:  # Of the second step's second part; a step has four.
                raise RuntimeError("cut off")

        fsdp.ReplicaMean(net, mean)
        loss_of(net, 1).backward()
        fsdp.reset(net)
        with self.assertRaisesRegex(RuntimeError, "cut off"):
            loss_of(net, 2).backward()
        with mock.patch.object(fsdp, left_out or "check"):
            fsdp.reset(net)
        loss_of(net, 2).backward()
        return [fsdp.local(p.grad) for p in net.parameters()]

    def test_gradients_of_the_cut_step_are_dropped(self):
        net = build(mesh_of_one(CPU))
        loss_of(net, 2).backward()
        usual = [fsdp.local(p.grad) for p in net.parameters()]
        for left_out in (None, "_drop_unsharded_gradients", "_drop_gradients"):
            with self.subTest(left_out=left_out):
                again = self.gradients_of_the_repeated_step(left_out)
                equal = all(torch.equal(one, other) for one, other in zip(usual, again))
                self.assertEqual(equal, left_out is None)

    def test_a_prepared_rank_keeps_its_gradients(self):
        net = build(mesh_of_one(CPU))
        loss_of(net, 1).backward()
        before = [fsdp.local(p.grad).clone() for p in net.parameters()]
        fsdp.reset(net, keep_gradients=True)
        for p, gradient in zip(net.parameters(), before):
            self.assertTrue(torch.equal(fsdp.local(p.grad), gradient))
        fsdp.reset(net)
        self.assertTrue(all(p.grad is None for p in net.parameters()))

    def test_gradients_of_what_is_not_sharded_are_dropped_too(self):
        net = nn.Sequential(fully_shard(nn.Linear(2, 2), mesh=mesh_of_one(CPU)), nn.Linear(2, 1))
        net(torch.ones(1, 2)).sum().backward()
        self.assertIsNotNone(net[1].weight.grad)
        fsdp.reset(net)
        self.assertTrue(all(p.grad is None for p in net.parameters()))

    @staticmethod
    def held(net):
        """What FSDP2 keeps of a step that is not over, by the names of its fields."""
        names = []
        for state in fsdp._states(net):
            for kept in (state._comm_ctx, state._state_ctx):
                names += [name for name in (
                    "all_gather_state", "reduce_scatter_state", "post_forward_order",
                    "iter_forward_root") if getattr(kept, name, None)]
        for group in fsdp._groups(net):
            names += [name for name in ("_all_gather_result", "_post_forward_indices")
                      if getattr(group, name)]
            names += ["all_gather_outputs" for one in group.fsdp_params
                      for tensor in one.all_gather_outputs if tensor.untyped_storage().size()]
        return set(names)

    def test_what_holds_memory_of_a_gpu_is_let_go_of(self):
        of_both = {"post_forward_order", "_post_forward_indices", "all_gather_outputs"}
        for place, kept in (("forward", {"all_gather_state", "iter_forward_root"}),
                            ("backward", {"_all_gather_result"})):
            with self.subTest(place):
                mesh = make_mesh()
                connect(mesh)
                net = build(mesh.device_mesh)
                cut_at(net, place, mesh.sever)
                with self.assertRaises(RuntimeError):
                    loss_of(net, 1).backward()
                self.assertEqual(self.held(net), of_both | kept)
                fsdp.reset(net)
                self.assertEqual(self.held(net), set())
                dist.destroy_process_group()


class LocalTest(MeshTest):
    def test_parts_keep_their_memory_over_steps_and_evaluations(self):
        mesh = make_mesh()
        connect(mesh)
        net = build(mesh.device_mesh)
        parts = dict(fsdp.local_parameters(net))
        self.assertEqual(parts["embed.weight"].shape, (49, 9))
        loss_of(net, 1).backward()
        with torch.no_grad():
            loss_of(net, 2)  # Leaves the root's parameters whole.
        for name, part in fsdp.local_parameters(net):
            self.assertEqual((part.data_ptr(), part.shape),
                             (parts[name].data_ptr(), parts[name].shape), name)

    def test_memory_that_a_script_has_replaced_is_found(self):
        """FSDP2 would pad it in the first forward pass, behind the back of who has its address."""
        mesh = make_mesh(1)
        connect(mesh)
        net = build(mesh.device_mesh)
        net.head.to_empty(device=CPU)  # It hears of it only when it is a whole part.
        parts = dict(fsdp.local_parameters(net))
        self.assertEqual(parts["head.weight"].shape, (48, 9))
        with torch.no_grad():
            parts["head.weight"].zero_()
            parts["head.bias"].zero_()
        loss_of(net, 1).backward()
        for name, part in fsdp.local_parameters(net):
            self.assertEqual(part.data_ptr(), parts[name].data_ptr(), name)

    def test_names_are_those_without_wrappers(self):
        net = nn.Sequential(torch.compile(fully_shard(nn.Linear(2, 2), mesh=mesh_of_one(CPU))))
        self.assertEqual([name for name, _ in fsdp.local_parameters(net)], ["0.weight", "0.bias"])
        self.assertTrue(fsdp.is_sharded(net))
        self.assertFalse(fsdp.is_sharded(nn.Linear(1, 1)))


class MoveTest(MeshTest):
    ROWS = range(1, 10)

    def build(self, position, shards):
        mesh = make_mesh(position, shard=shards)
        module = nn.Module()
        module.all = nn.ParameterList(nn.Parameter(torch.ones(rows, 3)) for rows in self.ROWS)
        return mesh, fully_shard(module, mesh=mesh.device_mesh)

    def sizes(self, module):
        return [(one.sharded_size, tuple(one.contiguous_sharded_stride),
                 one.sharded_post_forward_size, fsdp.local(one.sharded_param).shape,
                 one._sharded_param_data.shape)
                for group in fsdp._groups(module) for one in group.fsdp_params]

    def test_a_moved_module_is_as_one_built_there(self):
        for shards in (1, 2, 3, 4, 10):
            for position in range(shards):
                _, there = self.build(position, shards)
                expected = self.sizes(there)
                dist.destroy_process_group()
                mesh, module = self.build(0, shards)
                before = list(module.parameters())
                mesh.move(position)
                fsdp.move(module)
                self.assertEqual(self.sizes(module), expected, (shards, position))
                self.assertTrue(all(one is other for one, other
                                    in zip(before, module.parameters(), strict=True)))
                mesh.move(0)
                fsdp.move(module)
                self.assertEqual(dist.get_rank(), 0)
                dist.destroy_process_group()

    def test_padding_is_zero_and_the_optimizer_finds_its_parameters(self):
        mesh, module = self.build(0, 2)
        optimizer = torch.optim.AdamW(module.parameters())
        mesh.move(1)
        fsdp.move(module)
        for p in module.parameters():
            p.grad = torch.ones_like(p)
        optimizer.step()
        for group in fsdp._groups(module):
            for one in group.fsdp_params:
                part = fsdp.local(one.sharded_param)
                self.assertEqual(fsdp.local(optimizer.state[one.sharded_param]["exp_avg"]).shape,
                                 part.shape)
                self.assertTrue(bool((one._sharded_param_data[part.numel():] == 0).all()))

    def test_memory_that_a_script_has_replaced_is_what_moves(self):
        mesh, module = self.build(0, 2)
        module.all.to(torch.float64)
        mesh.move(1)
        fsdp.move(module)
        for p in module.parameters():
            self.assertEqual(fsdp.local(p).dtype, torch.float64)

    def test_a_mesh_of_two_dimensions_moves(self):
        mesh = make_mesh(0, shard=2, tensor=3)
        whole, shard = mesh.device_mesh, mesh.device_mesh["shard"]
        mesh.move(5)
        self.assertEqual((dist.get_rank(), mesh.position), (5, 5))
        self.assertEqual(whole.get_coordinate(), (1, 2))
        self.assertEqual((shard.get_coordinate(), shard.get_local_rank()), ((1,), 1))
        self.assertEqual(dist.get_process_group_ranks(whole.get_group("shard")), [2, 5])
        self.assertEqual(dist.get_process_group_ranks(whole.get_group("tensor")), [3, 4, 5])
        self.assertEqual(whole.get_group("tensor").rank(), 2)
        made = []
        mesh.connect(lambda use, positions: made.append((use, positions)) or played(
            positions.index(mesh.position), len(positions)))
        self.assertEqual(made, [("default_pg/1", [0, 1, 2, 3, 4, 5]), ("mesh_shard/1", [2, 5]),
                                ("mesh_tensor/1", [3, 4, 5])])

    def test_what_a_newcomer_would_not_have_is_refused(self):
        mesh = make_mesh(0, shard=4)
        dist.new_group([0, 1])
        with self.assertRaisesRegex(RuntimeError, r"\[0, 1\] is of no dimension"):
            mesh.move(2)
        self.assertEqual(mesh.position, 0)
        connect(mesh)
        with self.assertRaisesRegex(RuntimeError, "before run.steps"):
            dist.new_group([0, 2])
        with self.assertRaisesRegex(RuntimeError, "leave out init_process_group"):
            make_mesh()


class ReplicaMeanTest(MeshTest):
    def test_the_mean_is_taken_once_of_the_sum_of_the_passes(self):
        nets = [build(mesh_of_one(CPU)) for _ in range(2)]
        calls = []
        mean = fsdp.ReplicaMean(nets[1], lambda gradients: calls.append(gradients.mul_(0.5)))
        for number in range(3):
            loss_of(nets[0], number).backward()
            mean.begin_pass(number == 2)
            loss_of(nets[1], number).backward()
        mean.end_passes()
        self.assertEqual(len(calls), 4)
        for one, other in zip(nets[0].parameters(), nets[1].parameters()):
            self.assertTrue(torch.equal(fsdp.local(one.grad) * 0.5, fsdp.local(other.grad)))

    def test_passes_with_different_parameters_are_an_error(self):
        class Either(nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in range(2))

            def forward(self, x, part):
                return self.parts[part](x)

        for passes in ((0, 1), (0, None)):  # None: without the module.
            with self.subTest(passes=passes):
                module = fully_shard(Either(), mesh=mesh_of_one(CPU))
                mean = fsdp.ReplicaMean(module, lambda _: None)
                for number, part in enumerate(passes):
                    mean.begin_pass(number == 1)
                    if part is not None:
                        module(torch.ones(1, 2), part).sum().backward()
                with self.assertRaisesRegex(RuntimeError, "each pass must use the same"):
                    mean.end_passes()
                mean.end_passes()  # It is over.


if __name__ == "__main__":
    unittest.main()
