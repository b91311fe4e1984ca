"""The peer of our hierarchical SGD: PyTorch's own averager, or DistributedDataParallel, in Python.

All ranks are forked from this process after it has imported torch, which saves memory and time
that separate processes would need. Each computes as our trainers in bench/hsgd.py: sleeps, stalls
by the same draws, a small MLP, SGD. Prints {"ranks": [{"starts_ns": [...], "totals_ns": [...]},
...]}, CLOCK_MONOTONIC nanoseconds. With --session it is one rank of a job of Paceline's, which has it
sleep, and whose ring has the times.
"""
import argparse
import collections
import json
import os
import struct
import sys
import time

import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import (
    HierarchicalModelAverager)

MASK = (1 << 64) - 1


def mix(x):
    """As in worker/trainer/loop/fault.cc."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def stalls(seed, rank, step, share):
    return mix(mix(mix(seed) ^ rank) ^ step) / 2**64 < share


def load_shard(path):
    with open(path, "rb") as file:
        data = file.read()
    _, _, _, count, channels, height, width, _, labels, pixels, _ = struct.unpack_from(
        "<8sIIQIIIIQQQ", data)
    images = numpy.frombuffer(data, numpy.uint8, offset=pixels)
    images = torch.from_numpy(images.copy()).view(count, channels * height * width).float() / 127.5 - 1
    return images, torch.from_numpy(numpy.frombuffer(data, "<u4", count, labels).astype(numpy.int64))


def network(args, images):
    return nn.Sequential(nn.Linear(images.shape[1], args.hidden), nn.ReLU(),
                         nn.Linear(args.hidden, 10))


def train_session(args):
    import paceline  # pylint: disable=import-outside-toplevel

    run = paceline.init()
    torch.manual_seed(args.seed)
    images, labels = load_shard(args.data)
    model = network(args, images)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    run.attach(model, optimizer)
    loader = run.loader(torch.utils.data.TensorDataset(images, labels), shuffle=False)
    for step in run.steps():
        with step:
            for inputs, targets in step.batches(loader):
                step.backward(nn.functional.cross_entropy(model(inputs), targets))
            step.update()


def train(args, rank):
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    dist.init_process_group("gloo", init_method=f"file://{args.store}", rank=rank,
                            world_size=args.ranks)
    images, labels = load_shard(args.data)
    model = network(args, images)
    averager = None
    if args.ladder:
        levels = (level.split(":") for level in args.ladder.split(","))
        averager = HierarchicalModelAverager(
            collections.OrderedDict((int(period), int(size)) for period, size in levels))
    else:
        model = nn.parallel.DistributedDataParallel(
            model, broadcast_buffers=False, gradient_as_bucket_view=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
    starts, totals = [], []
    per_epoch = len(images) // (args.batch * args.ranks)
    for step in range(args.steps):
        starts.append(time.monotonic_ns())
        time.sleep(args.compute)
        if stalls(args.seed, rank, step, args.stall_share):
            time.sleep(args.stall)
        if rank == args.slow_rank and step >= args.slow_from:
            time.sleep(args.slow_by)
        first = step % per_epoch * args.batch * args.ranks + rank
        mine = slice(first, first + args.batch * args.ranks, args.ranks)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[mine]), labels[mine]).backward()
        optimizer.step()
        if averager is not None:
            averager.average_parameters(model.parameters())
        totals.append(time.monotonic_ns() - starts[-1])
    with open(f"{args.store}.{rank}", "w", encoding="utf-8") as out:
        json.dump({"starts_ns": starts, "totals_ns": totals}, out)
    dist.barrier()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="image shard")
    parser.add_argument("--store", required=True, help="file where the ranks meet")
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--ladder", help="period:size,...; none: DistributedDataParallel")
    parser.add_argument("--hidden", type=int, required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--compute", type=float, required=True, help="seconds that a step sleeps")
    parser.add_argument("--stall", type=float, required=True, help="seconds of a stall")
    parser.add_argument("--stall-share", type=float, required=True, help="share of rank-steps")
    parser.add_argument("--slow-rank", type=int, default=-1, help="rank that is slow; -1: none")
    parser.add_argument("--slow-from", type=int, default=0, help="step")
    parser.add_argument("--slow-by", type=float, default=0, help="seconds a step")
    parser.add_argument("--session", action="store_true", help="a rank of a session of Paceline's")
    args = parser.parse_args()
    if args.session:
        train_session(args)
        return
    pids = []
    for rank in range(args.ranks):
        pids.append(os.fork())
        if pids[-1] == 0:
            code = 1
            try:
                train(args, rank)
                code = 0
            finally:
                os._exit(code)
    if any([os.waitpid(pid, 0)[1] for pid in pids]):  # All of them, hence a list.
        sys.exit("a rank failed")
    ranks = []
    for rank in range(args.ranks):
        with open(f"{args.store}.{rank}", encoding="utf-8") as file:
            ranks.append(json.load(file))
    print(json.dumps({"ranks": ranks}))


if __name__ == "__main__":
    main()
