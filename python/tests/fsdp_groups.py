"""The groups beneath a replica's mesh, with peers that are played, or in threads."""

import datetime
import os
import sys
import threading
import unittest

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch._C._distributed_c10d import FakeProcessGroup, HashStore  # noqa: E402

sys.path.insert(0, os.path.abspath("python"))
from paceline._engine import SwitchingGroup  # noqa: E402

CPU = torch.device("cpu")
PATIENCE = datetime.timedelta(seconds=200)


def group_with(kind, backend, rank, size):
    group = dist.ProcessGroup(HashStore(), rank, size)
    group._set_default_backend(kind)
    group._register_backend(CPU, kind, backend)
    return group


def played(rank, size):
    """A group whose other members are always there. All have what this one has."""
    return group_with(dist.ProcessGroup.BackendType.CUSTOM,
                      FakeProcessGroup._create_internal(rank, size), rank, size)


class SwitchingGroupTest(unittest.TestCase):
    def test_says_when_it_is_called_outside_of_a_step(self):
        group = SwitchingGroup(0, 2)
        for _ in range(2):
            with self.assertRaisesRegex(RuntimeError, "outside of a step"):
                group.allreduce([torch.ones(1)])
            group.connect(played(0, 2))
            self.assertTrue(group.is_connected)
            group.allreduce([torch.ones(1)]).wait()
            group.sever()
        self.assertEqual(group._get_sequence_number_for_group(), 2)

    def test_another_rank_needs_a_move_and_a_move_needs_no_connection(self):
        group = SwitchingGroup(0, 2)
        with self.assertRaisesRegex(ValueError, "move it first"):
            group.connect(played(1, 2))
        group.move(1)
        group.connect(played(1, 2))
        with self.assertRaisesRegex(ValueError, "sever it first"):
            group.move(0)
        self.assertEqual((group.rank(), group.size()), (1, 2))
        group.sever()
        with self.assertRaisesRegex(ValueError, "no rank 2 of 2"):
            group.move(2)

    def test_a_connected_group_ends_while_its_thread_frees_tensors(self):
        group = SwitchingGroup(0, 1)
        group.connect(group_with(dist.ProcessGroup.BackendType.GLOO,
                                 dist.ProcessGroupGloo(HashStore(), 0, 1, PATIENCE), 0, 1))
        # Nobody in Python has these tensors any more: a thread of Gloo frees them, with the GIL.
        group.alltoall_base(torch.zeros(1), torch.ones(1), [], [])
        del group

    def test_what_needs_a_backend_is_refused(self):
        with self.assertRaisesRegex(NotImplementedError, "symmetric memory"):
            SwitchingGroup(0, 2)._get_backend(CPU)
        group = SwitchingGroup(0, 2)
        self.assertEqual(group._device_types, [])
        group.connect(played(0, 2))
        self.assertEqual(group._device_types, [CPU])

    def test_collectives_are_those_of_the_connected_group(self):
        store, results, errors = HashStore(), {}, []

        def member(rank):
            try:
                group = SwitchingGroup(rank, 2)
                group.connect(group_with(
                    dist.ProcessGroup.BackendType.GLOO,
                    dist.ProcessGroupGloo(store, rank, 2, PATIENCE), rank, 2))
                results[rank] = list(self.operations(group, rank))
            except Exception as error:  # pylint: disable=broad-exception-caught
                errors.append(error)

        threads = [threading.Thread(target=member, args=(rank,)) for rank in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(errors, [])
        of_both = [[1.0], [3.0], [3.0], [1.0, 2.0], [1.0, 2.0], [1.0, 2.0]]
        self.assertEqual(results[0],
                         [*of_both, [3.0], [3.0], [3.0], [6.0], [5.0], [1.0, 1.0], [8.0]])
        self.assertEqual(results[1],
                         [*of_both, [2.0], [30.0], [30.0], [6.0], [6.0], [2.0, 2.0], [7.0]])

    @staticmethod
    def operations(group, rank):
        """Each collective's result, of 1 on rank 0 and 2 on rank 1."""
        def own(count=1):
            return torch.full((count,), rank + 1.0)

        def done(work, *tensors):
            work.wait()
            return torch.cat(tensors).tolist()

        t = own()
        yield done(group.broadcast([t], dist.BroadcastOptions()), t)
        t = own()
        yield done(group.allreduce([t]), t)
        t = own()
        yield done(group.allreduce_coalesced([t]), t)
        out = [torch.zeros(1), torch.zeros(1)]
        yield done(group.allgather([out], [own()]), *out)
        t = torch.zeros(2)
        yield done(group._allgather_base(t, own()), t)
        t = torch.zeros(2)
        yield done(group.allgather_into_tensor_coalesced([t], [own()]), t)
        t = own()
        work = group.reduce([t], dist.ReduceOptions())
        yield done(work, t) if rank == 0 else done(work, own())
        out = torch.zeros(1)
        yield done(group._reduce_scatter_base(out, torch.tensor([1.0, 10.0]) * (rank + 1)), out)
        out = torch.zeros(1)
        yield done(group.reduce_scatter_tensor_coalesced(
            [out], [torch.tensor([1.0, 10.0]) * (rank + 1)]), out)
        group.barrier(dist.BarrierOptions()).wait()
        out = torch.zeros(1)
        yield done(group.reduce_scatter([out], [[torch.tensor([3.0]), torch.tensor([3.0])]]), out)
        out = torch.zeros(1)
        lists = [[torch.tensor([5.0]), torch.tensor([6.0])]] if rank == 0 else []
        yield done(group.scatter([out], lists, dist.ScatterOptions()), out)
        out = torch.zeros(2)
        group.alltoall_base(out, torch.tensor([1.0, 2.0]), [], []).wait()
        yield out.tolist()
        message = torch.tensor([7.0 + rank])
        if rank == 0:
            group.send([message], 1, 0).wait()
            group.recv([message], 1, 1).wait()
        else:
            mine = message.clone()
            group.recv([message], 0, 0).wait()
            group.send([mine], 0, 1).wait()
        yield message.tolist()
