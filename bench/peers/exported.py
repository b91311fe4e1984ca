"""The models of ddp_step.py as `python -m paceline.export` takes them: functions that get a batch's
size and return a module with its loss, and a batch. The Llama's sizes and the length of its
sequences come in LLAMA: {"sizes": {...}, "length": N}.
"""
import json
import os

import torch
from torch import nn

import ddp_step
import llama as peer_llama


class WithLoss(nn.Module):
    """The mean loss of a batch, as ddp_step.py computes it."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs, targets):
        scores = self.model(inputs)
        return nn.functional.cross_entropy(scores.flatten(0, -2).float(), targets.flatten())


def resnet18(batch):
    return (WithLoss(ddp_step.ResNet18(channels=1, classes=10)),
            torch.rand(batch, 1, 32, 32) * 2 - 1, torch.randint(0, 10, (batch,)))


def llama(batch):
    wanted = json.loads(os.environ["LLAMA"])
    sizes = peer_llama.Sizes(**wanted["sizes"])
    tokens = torch.randint(0, sizes.vocab_size, (batch, wanted["length"] + 1))
    return (WithLoss(peer_llama.Llama(sizes, wanted["length"])), tokens[:, :-1].contiguous(),
            tokens[:, 1:].contiguous())
