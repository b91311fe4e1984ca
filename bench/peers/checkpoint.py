"""The peers of our checkpoints: torch.distributed.checkpoint and safetensors, in the same loop.

One process per rank, which holds what --state says; prints what bench/checkpoint_benchmark.cc
prints, for one --way of saving and reading.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import time

import safetensors.torch
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import staging, state_dict_saver

PRODUCT_SIZE = 512
SETTLING_STEPS = 2


class DcpSave:
    """The blocking save."""

    def begin(self, state, path):
        dcp.save(state, checkpoint_id=path)

    def before_change(self):
        """Nothing is being copied."""

    def is_durable(self):
        return True

    def load(self, state, path):
        dcp.load(state, checkpoint_id=path)


class DcpAsyncSave(DcpSave):
    """As users call it: a stager of its own for each save. Its collectives have a group of their own,
    since those of the training go on beside them."""

    def __init__(self, kind):
        self.kind, self.upload, self.group = kind, None, dist.new_group()

    def begin(self, state, path):
        self.upload = dcp.async_save(state, checkpoint_id=path, async_checkpointer_type=self.kind,
                                     process_group=self.group)

    def is_durable(self):
        if not self.upload.done():
            return False
        self.upload.result()
        return True


class DcpStagingThread(DcpAsyncSave):
    """With an option that is said to need CUDA, but copies in a thread without it, too. The stager is
    made anew each time, since async_save closes it."""

    def __init__(self):
        super().__init__(state_dict_saver.AsyncCheckpointerType.THREAD)
        self.staged = None

    def begin(self, state, path):
        stager = staging.DefaultStager(staging.StagingOptions(
            use_pinned_memory=False, use_shared_memory=False, use_async_staging=True,
            use_non_blocking_copy=False))
        response = dcp.async_save(state, checkpoint_id=path, async_stager=stager,
                                  process_group=self.group)
        self.staged, self.upload = response.staging_completion, response.upload_completion

    def before_change(self):
        if self.staged is not None:
            self.staged.result()
            self.staged = None


class Safetensors(DcpSave):
    """One file for each rank, and no more than that: no list of them, no checksums."""

    def begin(self, state, path):
        path.mkdir(exist_ok=True)
        file = path / f"{dist.get_rank()}.safetensors"
        safetensors.torch.save_file(state, file)
        descriptor = os.open(file, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def load(self, state, path):
        for file in sorted(path.iterdir()):
            for name, tensor in safetensors.torch.load_file(file).items():
                state[name].copy_(tensor)


WAYS = {
    "dcp-save": DcpSave,
    "dcp-async-thread": lambda: DcpAsyncSave(state_dict_saver.AsyncCheckpointerType.THREAD),
    "dcp-async-process": lambda: DcpAsyncSave(state_dict_saver.AsyncCheckpointerType.PROCESS),
    "dcp-staging-thread": DcpStagingThread,
    "safetensors": Safetensors,
}


def meet(value=0.0):
    one = torch.tensor([float(value)])
    dist.all_reduce(one)
    return one.item()


def make_state(args):
    ranks = json.loads(args.state.read_text(encoding="utf-8"))
    return {one["name"]: torch.full(one["shape"], 1.0 + args.rank) for one in ranks[args.rank]}


class SavingLoop:
    """Steps with saves between them."""

    def __init__(self, args):
        self.args, self.state, self.way = args, make_state(args), WAYS[args.way]()
        self.left, self.right, self.product = (
            torch.rand(PRODUCT_SIZE, PRODUCT_SIZE) for _ in range(3))
        self.steps, self.saves = [], []

    def run(self):
        self.train(SETTLING_STEPS)
        for number in range(self.args.saves + 1):
            self.begin(number)
            while meet(not self.look()) > 0:
                self.train(1)
            self.train(self.args.quiet_steps)
        return {"steps": self.steps, "saves": self.saves}

    def begin(self, number):
        begin = time.monotonic_ns()
        self.way.begin(self.state, self.args.directory / f"step-{number}")
        blocked = time.monotonic_ns() - begin
        self.saves.append({"begin": begin, "blocked": blocked, "durable": 0})
        self.look()

    def look(self):
        """Whether the save is durable; notes when that is first seen."""
        save = self.saves[-1]
        if not save["durable"] and self.way.is_durable():
            save["durable"] = time.monotonic_ns()
        return save["durable"] > 0

    def train(self, count):
        for _ in range(count):
            start = time.monotonic_ns()
            for _ in range(self.args.products):
                torch.mm(self.left, self.right, out=self.product)
                if self.saves:
                    self.look()
            meet()
            change = time.monotonic_ns()
            self.way.before_change()
            if self.saves:
                self.saves[-1]["blocked"] += time.monotonic_ns() - change
            for tensor in self.state.values():
                tensor.add_(1e-6)
            self.steps.append([start, time.monotonic_ns()])


def read(args):
    state, way = make_state(args), WAYS[args.way]()
    meet()
    start = time.monotonic_ns()
    way.load(state, args.directory)
    return {"seconds": (time.monotonic_ns() - start) * 1e-9}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", choices=WAYS, required=True)
    parser.add_argument("--state", type=pathlib.Path, required=True, help="JSON: tensors of each rank")
    parser.add_argument("--store", required=True, help="file where the ranks meet")
    parser.add_argument("--directory", type=pathlib.Path, required=True,
                        help="of the job, or of the checkpoint to be read")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--saves", type=int, default=0, help="that are measured; 0: read")
    parser.add_argument("--quiet-steps", type=int, default=3, help="after each save")
    parser.add_argument("--products", type=int, default=100, help="of matrices in a step")
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{args.store}", rank=args.rank,
                            world_size=args.ranks)
    print(json.dumps(read(args) if args.saves == 0 else SavingLoop(args).run()), flush=True)
    # Processes that async_save has started would wait for more work.
    for process in multiprocessing.active_children():
        process.kill()
    os._exit(0)


if __name__ == "__main__":
    main()
