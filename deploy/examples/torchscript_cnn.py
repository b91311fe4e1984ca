"""Exports a small convolutional network with its loss for `model: torchscript`.

    python deploy/examples/torchscript_cnn.py deploy/examples/cnn.pt

forward(inputs, targets) takes a batch as the trainer reads it (docs/own-model.md) and
returns the mean loss. Here: grey images of 10 classes, as the digits are.
"""

import sys

import torch
from torch import nn
from torch.nn import functional as F


class Cnn(nn.Module):
    def __init__(self, channels: int, classes: int):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(channels, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.AdaptiveAvgPool2d(4), nn.Flatten(),
        )
        self.classify = nn.Linear(32 * 16, classes)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.classify(self.features(inputs)), targets)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(f"usage: {sys.argv[0]} OUTPUT.pt")
    torch.manual_seed(0)
    torch.jit.script(Cnn(channels=1, classes=10)).save(sys.argv[1])
