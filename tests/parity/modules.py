"""Modules with awkward parameters, each as forward(inputs, targets) -> loss."""

import torch
from torch import nn
from torch.nn import functional as F


class Tied(nn.Module):
    """A language model whose head is its embedding."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.mix = nn.Linear(12, 12)
        self.head = nn.Linear(12, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embedding(inputs)
        scores = self.head(x + torch.tanh(self.mix(x)))
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


class Mixed(nn.Module):
    """bf16 before fp32 before fp64."""

    def __init__(self):
        super().__init__()
        self.low = nn.Linear(16, 12).to(torch.bfloat16)
        self.middle = nn.Linear(12, 12)
        self.high = nn.Linear(12, 3).to(torch.float64)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.low(inputs.flatten(1).to(torch.bfloat16))).to(torch.float32)
        return F.cross_entropy(self.high(torch.relu(self.middle(x)).to(torch.float64)), targets)


class Branched(nn.Module):
    """One of two branches by the first label of the batch, and one that is seldom taken."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 3)
        self.second = nn.Linear(16, 3)
        self.seldom = nn.Parameter(torch.ones(3))

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = inputs.flatten(1)
        label = int(targets[0])
        if label == 0:
            x = self.first(x)
        else:
            x = self.second(x)
        if label == 2:
            x = x * self.seldom
        return F.cross_entropy(x, targets)
