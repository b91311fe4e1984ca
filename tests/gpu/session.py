"""A rank of a session on a GPU, for cluster.py: a perceptron learns which of its first inputs is
the greatest. Each step's block is in a stream of the script's own. Fails unless it has learned; a
rank of the job writes a digest of what it has trained to OUT/RANK.

session.py OUT
"""
import contextlib
import hashlib
import os
import pathlib
import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy

import paceline

run = paceline.init()
assert run.device.type == os.environ["PACELINE_DEVICE"], run.device
cuda = run.device.type == "cuda"

torch.manual_seed(1)
inputs = torch.randn(2048, 16)
targets = inputs[:, :4].argmax(1)
model = nn.Sequential(nn.Linear(16, 256), nn.BatchNorm1d(256), nn.GELU(), nn.Dropout(0.1),
                      nn.Linear(256, 4)).to(run.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
run.attach(model, optimizer)
loader = run.loader(torch.utils.data.TensorDataset(inputs, targets), pin_memory=cuda)
scores = []


@run.evaluation
def evaluate(rank, world_size):
    shown, expected = inputs[rank::world_size].to(run.device), targets[rank::world_size]
    answers = model(shown)
    correct = float((answers.argmax(1).cpu() == expected).sum())
    scores.append(correct / len(expected))
    loss = cross_entropy(answers, expected.to(run.device), reduction="sum")
    return paceline.Score(loss=float(loss), correct=correct, count=len(expected))


own = torch.cuda.Stream() if cuda else None
for step in run.steps():
    with step, torch.cuda.stream(own) if cuda else contextlib.nullcontext():
        for x, y in step.batches(loader):
            x, y = x.to(run.device, non_blocking=True), y.to(run.device, non_blocking=True)
            step.backward(cross_entropy(model(x), y))
        step.update(clip=1.0)

if run.rank >= 0:
    assert scores[-1] > 0.9, f"it has learned {scores}"
    trained = [*model.parameters(), *(state[name] for state in optimizer.state.values()
                                      for name in sorted(state))]
    digest = hashlib.sha256(b"".join(one.detach().cpu().numpy().tobytes() for one in trained))
    pathlib.Path(sys.argv[1], str(run.rank)).write_text(digest.hexdigest(), encoding="utf-8")
