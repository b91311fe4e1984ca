"""A model for fully_shard whose sizes no number of shards divides, and places to cut a step off."""

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                               parallelize_module)

ROWS = 97
BLOCKS = 3


class Block(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.inner = nn.Linear(width, hidden)
        self.outer = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.dropout(self.outer(torch.relu(self.inner(self.norm(x)))))


class Net(nn.Module):
    def __init__(self, width=9, hidden=19):
        super().__init__()
        self.embed = nn.Embedding(ROWS, width)
        self.blocks = nn.ModuleList(Block(width, hidden) for _ in range(BLOCKS))
        self.head = nn.Linear(width, ROWS)

    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def build(mesh):
    torch.manual_seed(0)
    net = Net()
    for block in net.blocks:
        fully_shard(block, mesh=mesh)
    return fully_shard(net, mesh=mesh)


def build_parallel(mesh, hidden=20):
    """On a mesh of the dimensions shard and tensor; the layers of blocks are cut along both."""
    torch.manual_seed(0)
    net = Net(hidden=hidden)
    for block in net.blocks:
        parallelize_module(block, mesh["tensor"],
                           {"inner": ColwiseParallel(), "outer": RowwiseParallel()},
                           src_data_rank=None)
        fully_shard(block, mesh=mesh["shard"])
    return fully_shard(net, mesh=mesh["shard"])


def loss_of(net, seed):
    """Of some tokens, with some dropout; both follow from the seed."""
    torch.manual_seed(seed)
    tokens = torch.randint(0, ROWS, (4, 6))
    return nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.roll(1, 1).flatten())


def cut_at(net, place, cut):
    """Calls `cut` at a place of each step, until what this returns is called.

    forward: in the middle of the forward pass. backward: in the middle of the backward pass, before
    a block's gradients are scattered, while the next block's parameters are being gathered.
    """
    middle = net.blocks[BLOCKS // 2]
    if place == "forward":
        handle = middle.register_forward_pre_hook(lambda *_: cut())
    else:
        handle = middle.register_forward_hook(
            lambda _module, _inputs, output: output.register_hook(lambda _: cut()) and None)
    return handle.remove
