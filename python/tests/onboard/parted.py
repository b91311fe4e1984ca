"""The loop over batches is in a function, which is called once an epoch (as in many examples)."""
import torch

from net import Net, loader


def train(model, loader, optimizer, epoch):
    for x, y in loader:
        optimizer.zero_grad()
        loss = model(x, y)
        loss.backward()
        optimizer.step()


def main():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        train(model, loader, optimizer, epoch)


main()
