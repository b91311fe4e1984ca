"""Somebody's own script for bench/watch_detect.py: a small model under DistributedDataParallel whose forward
pass and loader sleep. One rank is slower in one of both from a step on."""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, Dataset

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, required=True)
parser.add_argument("--forward", type=float, required=True, help="seconds")
parser.add_argument("--slow", choices=("forward", "loader", "nothing"), default="nothing")
parser.add_argument("--rank", type=int, default=0, help="that is slow")
parser.add_argument("--since", type=int, default=0, help="step")
args = parser.parse_args()
LOADING_S = args.forward / 20


class Samples(Dataset):
    """A batch is one sample: its loading sleeps."""

    def __len__(self):
        return args.steps

    def __getitem__(self, step):
        time.sleep(LOADING_S + (0.2 * args.forward if is_slow(step, "loader") else 0))
        return torch.ones(8)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def forward(self, x, step):
        time.sleep(args.forward * (1.2 if is_slow(step, "forward") else 1))
        return self.layer(x)


def is_slow(step, what):
    return args.slow == what and int(os.environ["RANK"]) == args.rank and step >= args.since


torch.set_num_threads(1)
dist.init_process_group("gloo")
model = nn.parallel.DistributedDataParallel(Model())
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for number, batch in enumerate(DataLoader(Samples())):
    optimizer.zero_grad()
    mse_loss(model(batch, number), torch.zeros(1, 1)).backward()
    optimizer.step()
dist.destroy_process_group()
