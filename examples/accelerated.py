"""Accelerate trains a perceptron on scikit-learn's handwritten digits; two batches are one step.

Start:      paceline run --ranks 2 examples/accelerated.py
On GPUs:    paceline run --ranks 8 --device cuda examples/accelerated.py
Or:         torchrun --nproc-per-node 2 examples/accelerated.py
"""

import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--epochs", type=int, default=3)
args = parser.parse_args()

# On CPUs Accelerate joins a group of ranks only if told to.
accelerator = Accelerator(cpu=not torch.cuda.is_available(), gradient_accumulation_steps=2)
set_seed(0)
images, labels = load_digits(return_X_y=True)
data = TensorDataset(torch.tensor(images / 16, dtype=torch.float32), torch.tensor(labels))
model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.AdamW(model.parameters(), lr=3e-3), DataLoader(data, 16, shuffle=True))
for epoch in range(args.epochs):
    for inputs, targets in loader:
        with accelerator.accumulate(model):
            loss = cross_entropy(model(inputs), targets)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    mean = accelerator.gather(loss.detach()).mean().item()
    accelerator.print(f"epoch {epoch}: loss {mean:.3f}", flush=True)
accelerator.end_training()
