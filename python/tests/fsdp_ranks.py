"""Ranks of a sharded model in processes of their own, connected by Gloo: 2 replicas of 2 shards.

Run as a script, it is one of them, or their spare. The steps that are cut off, and where, are known
to all beforehand: each rank ends its own connections there, so that nothing depends on time.
"""

import datetime
import gc
import hashlib
import os
import signal
import subprocess
import sys
import unittest

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

sys.path.insert(0, os.path.abspath("python"))
from fsdp_groups import CPU, group_with  # noqa: E402
from fsdp_net import build, cut_at, loss_of  # noqa: E402
from paceline import fsdp  # noqa: E402
from paceline._engine import SwitchingGroup  # noqa: E402
from paceline.mesh import ReplicaMesh  # noqa: E402

PATIENCE = datetime.timedelta(seconds=250)
SHARDS, RANKS, SPARE, STEPS, PASSES = 2, 4, 4, 8, 2
# By step. prepared: all have their gradients, and make the update without meeting. lost: the last
# rank is killed, and the spare takes its place.
CUTS = {1: "forward", 2: "backward", 3: "hook", 4: "clip", 5: "prepared", 6: "lost"}
OF_STATE = ("step", "exp_avg", "exp_avg_sq")


def seed_of(step, number, rank):
    return 100 * step + 10 * number + rank


def optimizer_of(net):
    return torch.optim.AdamW(net.parameters(), lr=0.01)


def show(step, net, optimizer):
    """Prints a digest of the rank's shards and their optimizer's state."""
    digest = hashlib.sha256()
    for p in net.parameters():
        for tensor in (p, *(optimizer.state[p][name] for name in OF_STATE)):
            digest.update(fsdp.local(tensor).detach().contiguous().numpy().tobytes())
    print("step", step, digest.hexdigest(), flush=True)


def wait_for_all(what, store, rank):
    """Until then, one may need another's connection."""
    store.set(f"{what}/{rank}", "")
    store.wait([f"{what}/{one}" for one in range(RANKS)], PATIENCE)


def train_natively(rank, store):
    """As torch does it: replicas and shards are dimensions of one mesh."""
    dist.init_process_group("gloo", store=store, rank=rank, world_size=RANKS, timeout=PATIENCE)
    net = build(dist.init_device_mesh("cpu", (RANKS // SHARDS, SHARDS),
                                      mesh_dim_names=("replica", "shard")))
    optimizer = optimizer_of(net)
    for step in range(STEPS):
        for number in range(PASSES):
            net.set_requires_all_reduce(number == PASSES - 1)
            (loss_of(net, seed_of(step, number, rank)) / PASSES).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()
        show(step, net, optimizer)
    wait_for_all("done", store, rank)


class Rank:
    """What a session does, without a daemon."""

    def __init__(self, rank, store):
        self.store = store
        self.rank = rank
        self.cut = None      # Where this step is cut off.
        self.generation = -1
        self.groups = []     # Connected ones: closing them would disturb others.
        self.lane = None
        # A spare does not know its position yet.
        self.mesh = ReplicaMesh({"shard": SHARDS}, 0 if rank == SPARE else rank % SHARDS, CPU,
                                SwitchingGroup)
        self.net = build(self.mesh.device_mesh)
        fsdp.check(self.net)
        self.optimizer = optimizer_of(self.net)
        self.mean = fsdp.ReplicaMean(self.net, self.take_mean)

    def meet(self, generation):
        self.generation = generation
        replica, position = divmod(self.rank, SHARDS)
        self.mesh.connect(lambda use, positions: self.gloo(
            f"replica{replica}/{use}", positions.index(position), len(positions)))
        self.lane = self.gloo(f"position{position}", replica, RANKS // SHARDS)
        wait_for_all(f"connected/{generation}", self.store, self.rank)

    def gloo(self, name, rank, size):
        store = dist.PrefixStore(f"{self.generation}/{name}", self.store)
        group = group_with(dist.ProcessGroup.BackendType.GLOO,
                           dist.ProcessGroupGloo(store, rank, size, PATIENCE), rank, size)
        self.groups.append(group)
        return group

    def take_mean(self, gradients):
        if self.cut == "hook":
            raise RuntimeError("cut off")
        self.lane.allreduce([gradients]).wait()
        gradients.div_(RANKS // SHARDS)

    def end_connections(self):
        if self.cut == "lost" and self.rank == RANKS - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        self.mesh.sever()

    def make_gradients(self, step):
        remove = None
        if self.cut in ("forward", "backward", "lost"):
            remove = cut_at(self.net, self.cut, self.end_connections)
        try:
            for number in range(PASSES):
                self.mean.begin_pass(number == PASSES - 1)
                (loss_of(self.net, seed_of(step, number, self.rank)) / PASSES).backward()
            self.mean.end_passes()
            if self.cut == "clip":
                self.end_connections()
            nn.utils.clip_grad_norm_(self.net.parameters(), 0.5)
            if self.cut == "prepared":
                self.end_connections()
        except RuntimeError:
            if self.cut is None:
                raise
            return False
        finally:
            if remove is not None:
                remove()
        return True

    def train(self, step, cuts):
        while step < STEPS:
            self.cut = cuts.pop(step, None)
            prepared = self.make_gradients(step)
            if self.cut is not None:
                if prepared != (self.cut == "prepared"):
                    raise AssertionError(f"step {step}, cut off at {self.cut}: {prepared=}")
                fsdp.reset(self.net, keep_gradients=prepared)
                self.mean.reset()
            if prepared:
                self.optimizer.step()
                self.optimizer.zero_grad()
                show(step, self.net, self.optimizer)
                step += 1
            if self.cut is not None:
                self.regroup()
        wait_for_all("done", self.store, self.rank)

    def regroup(self):
        self.mesh.sever()
        if self.cut == "lost":  # Others may wait for a rank that waits for the lost one.
            self.lane = None
            self.groups.clear()
            gc.collect()
        self.meet(self.generation + 1)
        if self.cut == "lost" and self.rank == RANKS - 1 - SHARDS:
            self.transfer(lambda tensor: self.lane.send([tensor], 1, 0))

    def transfer(self, move):
        for p in self.net.parameters():
            for tensor in (p, *(self.optimizer.state[p][name] for name in OF_STATE)):
                if fsdp.local(tensor).numel():
                    move(fsdp.local(tensor).detach()).wait()

    def stand_by(self):
        """Takes the lost rank's place."""
        self.rank = RANKS - 1
        self.mesh.move(self.rank % SHARDS)
        fsdp.move(self.net)
        self.meet(len(CUTS))
        for p in self.net.parameters():
            self.optimizer.state[p] = {"step": torch.zeros(()), "exp_avg": torch.zeros_like(p),
                                       "exp_avg_sq": torch.zeros_like(p)}
        self.transfer(lambda tensor: self.lane.recv([tensor], 0, 0))
        self.train(max(CUTS), {})


class RanksTest(unittest.TestCase):
    def run_ranks(self, kind, ranks):
        """Runs them to their end. Returns what they have shown."""
        # Here, so that no rank has to outlive the others.
        store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        processes = [subprocess.Popen([sys.executable, os.path.abspath(__file__), kind, str(rank),
                                       str(store.port)], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True)
                     for rank in range(ranks)]
        for process in processes:
            self.addCleanup(process.kill)
        outputs = [process.communicate(timeout=2 * PATIENCE.total_seconds())[0]
                   for process in processes]
        expected = [0] * ranks
        if kind == "switching":
            expected[RANKS - 1] = -signal.SIGKILL
        self.assertEqual([process.returncode for process in processes], expected,
                         "\n".join(outputs))
        return [[tuple(line.split()[1:]) for line in output.splitlines()
                 if line.startswith("step ")] for output in outputs]

    def test_all_goes_on_as_if_nothing_had_been_cut_off(self):
        """Gradients by way of switching groups and hooks are those of native HSDP, and so they are
        after cuts, and on the spare."""
        native = self.run_ranks("native", RANKS)
        shown = self.run_ranks("switching", RANKS + 1)
        shown[RANKS - 1] += shown.pop(SPARE)
        for rank in range(RANKS):
            self.assertEqual((len(native[rank]), len(shown[rank])), (STEPS, STEPS))
            for step, expected in enumerate(native[rank]):
                self.assertEqual(shown[rank][step], expected, (rank, step, CUTS.get(step)))
        # Each position has other shards at each step, the same ones on both replicas.
        self.assertEqual(len({digest for steps in native for _, digest in steps}), SHARDS * STEPS)


def main(kind, rank, port):
    torch.set_num_threads(1)
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=PATIENCE)
    if kind == "native":
        train_natively(rank, store)
    elif rank == SPARE:
        Rank(rank, store).stand_by()
    else:
        one = Rank(rank, store)
        one.meet(0)
        one.train(0, dict(CUTS))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
