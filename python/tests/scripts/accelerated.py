"""Accelerate: 16 batches, the gradients of two are one step."""

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
model = nn.Linear(8, 1)
data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.AdamW(model.parameters()), DataLoader(data, batch_size=4))
for inputs, targets in loader:
    with accelerator.accumulate(model):
        accelerator.backward(nn.functional.mse_loss(model(inputs), targets))
        optimizer.step()
        optimizer.zero_grad()
