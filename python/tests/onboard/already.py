"""A convolutional net on scikit-learn's handwritten digits, in a session: a rank that dies is
replaced while the others train on, and the job goes on exactly with other numbers of ranks.

Start:      paceline dev up; paceline submit examples/session.yaml
Or alone, as one rank:   python examples/session.py

Needs paceline's wheel, torch and scikit-learn (docs/session.md). With the sources alone:
PYTHONPATH=python .venv/bin/python examples/session.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import paceline

run = paceline.init(steps=200)

images, labels = load_digits(return_X_y=True)
images = torch.tensor(images / 8 - 1, dtype=torch.float32).view(-1, 1, 8, 8)
labels = torch.tensor(labels)
train = torch.utils.data.TensorDataset(images[:1500], labels[:1500])
test_images, test_labels = images[1500:].to(run.device), labels[1500:].to(run.device)

torch.manual_seed(run.seed)
model = nn.Sequential(
    nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 10)).to(run.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, run.total_steps)
run.attach(model, optimizer, scheduler)
loader = run.loader(train)


@run.evaluation
def evaluate(rank, world_size):
    """This rank's share of the test images."""
    shown, expected = test_images[rank::world_size], test_labels[rank::world_size]
    answers = model(shown)
    return paceline.Score(loss=float(cross_entropy(answers, expected, reduction="sum")),
                          correct=float((answers.argmax(1) == expected).sum()),
                          count=len(expected))


for step in run.steps():
    with step:
        for x, y in step.batches(loader):
            step.backward(cross_entropy(model(x.to(run.device)), y.to(run.device)))
        step.update(clip=1.0)
        scheduler.step()
