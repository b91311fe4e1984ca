"""The same update with and without a GradScaler; a scheduler by steps."""
import os

import torch
from transformers import get_cosine_schedule_with_warmup

from net import Net, dataset

batch_size = int(os.environ.get("BATCH", 16))
use_amp = torch.cuda.is_available()
model = torch.compile(Net())
optimizer = torch.optim.AdamW(model.parameters())
scheduler = get_cosine_schedule_with_warmup(optimizer, 10, 1000)
scaler = torch.cuda.amp.GradScaler() if use_amp else None
grad_scaler = torch.cuda.amp.GradScaler(enabled=use_amp)
loader = torch.utils.data.DataLoader(dataset, batch_size, True)
for batch in loader:
    loss = model(batch)
    if use_amp:
        grad_scaler.scale(loss).backward()
        grad_scaler.step(optimizer)
        grad_scaler.update()
    else:
        loss.backward()
        optimizer.step()
    optimizer.zero_grad()
    scheduler.step()
