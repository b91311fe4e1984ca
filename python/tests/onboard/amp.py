"""Mixed precision with a GradScaler; a scheduler by steps, and one by epochs."""
import torch
from torch.optim.lr_scheduler import OneCycleLR, StepLR
from net import Net, loss_of, train_loader

device = "cuda"
model = Net().to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
warm = OneCycleLR(optimizer, max_lr=0.1, total_steps=1000)
decay = StepLR(optimizer, step_size=3)
scaler = torch.amp.GradScaler(device)
use_clip = True

for epoch in range(1, 11):
    for x, y in train_loader:
        optimizer.zero_grad()
        with torch.autocast(device, dtype=torch.float16):
            loss = loss_of(model(x.to(device)), y.to(device))
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        if use_clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        warm.step()
    decay.step()
    print("epoch", epoch)
