"""Gradients of several batches, by the number of the batch; ends after a number of steps."""
import torch
from torch.utils.data import DataLoader
from tqdm import tqdm

from net import Net, dataset

accumulate = 4
max_steps = 500
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=max_steps)
loader = DataLoader(dataset, batch_size=8, shuffle=True)
global_step = 0
for epoch in range(100):
    for i, batch in enumerate(tqdm(loader, desc="train")):
        loss = model(**batch).loss
        loss = loss / accumulate
        loss.backward()
        if (i + 1) % accumulate == 0 or i + 1 == len(loader):
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            global_step += 1
            if global_step % 50 == 0:
                print(global_step, loss.item() * accumulate)
            if global_step >= max_steps:
                break
    if global_step >= max_steps:
        break
