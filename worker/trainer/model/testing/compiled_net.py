"""Exports a small model for tests: batches of 4 images of 1 x 8 x 8 in 10 classes.

    compiled_net.py FILE.pt2

It has batch normalisation, a tied weight, a frozen parameter, a buffer, a constant, and two
parameters with the same gradient.
"""

import sys

import torch
from torch import nn

from paceline.export import export_step


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(64, 16)
        self.norm = nn.BatchNorm1d(16)
        self.mix = nn.Linear(16, 16, bias=False)
        self.same = nn.Linear(16, 16, bias=False)
        self.same.weight = self.mix.weight
        self.last = nn.Linear(16, 10)
        self.frozen = nn.Parameter(torch.full((10,), 2.0), requires_grad=False)
        self.one = nn.Parameter(torch.zeros(10))
        self.two = nn.Parameter(torch.zeros(10))
        self.register_buffer("table", torch.linspace(0, 1, 10), persistent=False)

    def forward(self, inputs, targets):
        x = torch.relu(self.norm(self.first(inputs.flatten(1))))
        x = torch.tanh(self.same(torch.tanh(self.mix(x))))
        scores = self.last(x) * self.frozen + self.table + torch.tensor([0.5] + [0.25] * 9)
        return nn.functional.cross_entropy(scores + (self.one + self.two), targets)


torch.manual_seed(0)
export_step(Net(), torch.rand(4, 1, 8, 8) * 2 - 1, torch.tensor([0, 3, 3, 9]), sys.argv[1])
