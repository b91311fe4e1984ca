"""A plain training loop on one thread, DDP or FSDP2, for bench/watch.py: it knows nothing of watching.

Reads from its input how many steps to make, makes them, and prints their seconds by the clock and on
the processor; again and again until the input ends.
"""
import argparse
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import ddp_step
import llama


def ddp():
    model = nn.parallel.DistributedDataParallel(ddp_step.ResNet18(3, 10))
    data = TensorDataset(torch.randn(1024, 3, 32, 32), torch.randint(10, (1024,)))
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), data, 16


def small_ddp():
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8))
    data = TensorDataset(torch.randn(4096, 8), torch.randint(8, (4096,)))
    return model, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9), data, 4


def fsdp2(sizes=llama.Sizes(256, 4, 8, 8, 768, 2048), length=128):
    model = llama.Llama(sizes, length)
    for layer in model.modules():
        if isinstance(layer, llama.Block):
            fully_shard(layer, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    data = TensorDataset(*torch.randint(sizes.vocab_size, (2, 1024, length)))
    return model, torch.optim.AdamW(model.parameters(), lr=3e-4), data, 4


def small_fsdp2():
    return fsdp2(llama.Sizes(16, 1, 2, 2, 32, 64), length=4)


KINDS = {"ddp": ddp, "small_ddp": small_ddp, "fsdp2": fsdp2, "small_fsdp2": small_fsdp2}


def steps(model, optimizer, data, batch):
    loader = DataLoader(data, batch, sampler=DistributedSampler(data))
    while True:
        for inputs, targets in loader:
            optimizer.zero_grad()
            scores = model(inputs)
            loss = cross_entropy(scores.flatten(0, -2), targets.flatten())
            del scores
            loss.backward()
            optimizer.step()
            yield loss.item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--store", required=True, help="file where the ranks meet")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    dist.init_process_group("gloo", init_method=f"file://{args.store}", rank=0, world_size=1)
    training = steps(*KINDS[args.kind]())
    for line in sys.stdin:
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(int(line)):
            next(training)
        print(time.perf_counter() - wall, time.process_time() - processor, flush=True)


if __name__ == "__main__":
    main()
