#!/usr/bin/env python3
"""DistributedDataParallel with a DistributedSampler, in a main()."""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

from data import make_dataset
from net import Net


def setup():
    os.environ.setdefault("MASTER_ADDR", "localhost")
    dist.init_process_group("nccl")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()

    setup()
    rank = dist.get_rank()
    local_rank = int(os.environ["LOCAL_RANK"])
    world_size = dist.get_world_size()
    torch.cuda.set_device(local_rank)
    torch.manual_seed(1 + rank)

    model = Net().to(local_rank)
    model = DDP(model, device_ids=[local_rank], find_unused_parameters=True)
    dataset = make_dataset(args.data)
    sampler = DistributedSampler(dataset, num_replicas=world_size, rank=rank, shuffle=True)
    loader = DataLoader(dataset, args.batch_size, sampler=sampler, num_workers=4, pin_memory=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 * world_size, momentum=0.9)

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for images, labels in loader:
            images = images.to(local_rank, non_blocking=True)
            labels = labels.cuda(local_rank)
            loss = torch.nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        dist.barrier()
        if rank == 0:
            print(f"{epoch}: {loss.item()} of {len(loader.dataset)}")
            torch.save(model.module.state_dict(), "model.pt")

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
