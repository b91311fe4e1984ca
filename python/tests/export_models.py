"""Models for export_test.py: each make(batch) returns a module and a batch."""

import torch
from torch import nn
from torch.nn import functional as F


class Tokens(nn.Module):
    """A language model whose head is its embedding; with dropout."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(50, 12)
        self.mix = nn.Linear(12, 12)
        self.drop = nn.Dropout(0.3)
        self.head = nn.Linear(12, 50, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("passes", torch.zeros((), dtype=torch.int64))
        self.scale = nn.Parameter(torch.tensor(1.5))  # A compiler would build in a constant.

    def forward(self, inputs, targets):
        if self.training:
            self.passes.add_(1)
        x = self.embedding(inputs)
        scores = self.head(self.drop(x + torch.tanh(self.mix(x)))) * self.scale
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())


def tokens(batch):
    torch.manual_seed(3)
    ids = torch.randint(0, 50, (batch, 8))
    return Tokens(), ids[:, :-1], ids[:, 1:]


class Strange(nn.Module):
    """What cannot be compiled, by kind."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.layer = nn.Linear(16, 3)
        self.register_buffer("calls", torch.zeros(1))
        self.steps = 0
        self.table = torch.ones(3)
        if kind == "unused":
            self.spare = nn.Linear(2, 2)
        if kind == "synchronised":
            self.norm = nn.SyncBatchNorm(3)
        if kind == "hooked":
            self.layer.weight.register_hook(lambda gradient: gradient * 2)
        if kind == "frozen":
            self.requires_grad_(False)
        if kind == "overlap":
            memory = torch.zeros(6)
            self.one, self.two = nn.Parameter(memory[:4]), nn.Parameter(memory[2:])

    def forward(self, inputs, targets):
        scores = self.layer(inputs.flatten(1))
        if self.kind == "branch" and scores.sum() > 0:
            scores = scores * 2
        if self.kind == "number":
            self.steps += 1
        if self.kind == "assigned":
            self.calls = self.calls + 1
        if self.kind == "foreign":
            scores = scores * self.table
        if self.kind == "updates":
            with torch.no_grad():
                self.layer.bias.add_(1)
        return scores if self.kind == "scores" else F.cross_entropy(scores, targets)


def strange(kind, batch):
    return Strange(kind), torch.rand(batch, 1, 4, 4), torch.arange(batch) % 3


def half(batch):
    return torch.nn.Linear(1, 1), torch.rand(batch // 2, 1, 4, 4), torch.zeros(batch // 2)


def nothing(batch):
    return None
