"""ResNet-18 on scikit-learn's handwritten digits, by DistributedDataParallel.

Start:      paceline run --ranks 2 examples/ddp.py
On GPUs:    paceline run --ranks 8 --device cuda examples/ddp.py
Or:         torchrun --nproc-per-node 2 examples/ddp.py
"""

import argparse
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy, relu
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.shortcut = nn.Sequential() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return relu(self.body(x) + self.shortcut(x))


def resnet18(width=64):
    """For images of 8x8 in one channel."""
    layers = [nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    channels = width
    for stage in range(4):
        for stride in (1 if stage == 0 else 2, 1):
            layers.append(Block(channels, width << stage, stride))
            channels = width << stage
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def digits():
    """Training and test images of 8x8 in one channel, with what digit each is."""
    images, labels = load_digits(return_X_y=True)
    data = TensorDataset(torch.tensor(images / 8 - 1, dtype=torch.float32).view(-1, 1, 8, 8),
                         torch.tensor(labels))
    return torch.utils.data.random_split(data, [0.8, 0.2], torch.Generator().manual_seed(0))


@torch.no_grad()
def accuracy(model, loader, device):
    """Over the test images of all ranks."""
    model.eval()
    counts = torch.zeros(2, device=device)
    for images, labels in loader:
        right = model(images.to(device)).argmax(1) == labels.to(device)
        counts += torch.tensor([right.sum(), len(labels)], device=device)
    dist.all_reduce(counts)
    return (counts[0] / counts[1]).item()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch", type=int, default=32, help="images of each rank in a step")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--width", type=int, default=64, help="channels of the first layers")
    args = parser.parse_args()

    dist.init_process_group()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = DistributedDataParallel(resnet18(args.width).to(device))
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    train, test = digits()
    sampler = DistributedSampler(train)
    loader = DataLoader(train, args.batch, sampler=sampler)
    test_loader = DataLoader(test, 256, sampler=DistributedSampler(test, shuffle=False))

    for epoch in range(args.epochs):
        model.train()
        sampler.set_epoch(epoch)
        for images, labels in loader:
            loss = cross_entropy(model(images.to(device)), labels.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        right = accuracy(model.module, test_loader, device)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {100 * right:.1f} %", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
