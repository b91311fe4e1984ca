"""A plain loop over epochs and batches."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.randn(1000, 8), torch.randint(0, 2, (1000,)))
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

# Two layers are enough.
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2)).to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
criterion = nn.CrossEntropyLoss()
loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, drop_last=True)

# Trains.
for epoch in range(10):
    running = 0.0
    model.train()
    for i, (inputs, targets) in enumerate(loader):  # one pass
        inputs, targets = inputs.to(device), targets.to(device)

        optimizer.zero_grad()
        loss = criterion(model(inputs), targets)
        loss.backward()
        # Keeps steps small.
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

        running += loss.item()
        if i % 100 == 0:
            print(f"""epoch {epoch}, batch {i}:
    loss {loss.item():.3f}""")
    print(f"epoch {epoch}: {running / len(loader):.3f}")
    # For whoever wants it.
    torch.save(model.state_dict(), f"model-{epoch}.pt")

print("done")
