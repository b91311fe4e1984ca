"""A training in a session, or the same by DistributedDataParallel: what the two have in common."""

import json
import os
import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy

SAMPLES = 230


class Numbered(torch.utils.data.Dataset):
    """Inputs and targets, with the sample's number."""

    def __init__(self):
        generator = torch.Generator().manual_seed(2)
        self.inputs = torch.randn(SAMPLES, 1, 8, 8, generator=generator)
        self.targets = torch.randint(10, (SAMPLES,), generator=generator)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, i):
        return self.inputs[i], self.targets[i], i


def make(optimizer):
    """Model, optimizer and schedule; each rank's are alike."""
    torch.manual_seed(1)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(128, 64), nn.GELU(), nn.Dropout(0.1), nn.Linear(64, 10))
    kind, options = optimizer
    optimizer = getattr(torch.optim, kind)(model.parameters(), **options)
    return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)


def save(out, rank, model, optimizer, losses, used):
    """Writes a rank's results."""
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "losses": losses, "used": used}, f"{out}/{rank}.pt")


def train_in_session():
    import paceline

    run = paceline.init()
    settings = json.loads(os.environ["SETTINGS"])
    model, optimizer, scheduler = make(settings["optimizer"])
    run.attach(model, optimizer, scheduler)
    loader = run.loader(Numbered())
    losses, used = [], []
    for step in run.steps():
        with step:
            for x, y, numbers in step.batches(loader):
                loss = cross_entropy(model(x), y)
                step.backward(loss)
                losses.append(loss.item())
                used.append(numbers.tolist())
            step.update()
            scheduler.step()
    save(settings["out"], run.rank, model, optimizer, losses, used)


def train_with_ddp(rank, world_size, port, settings, used):
    """With the batches that the rank of the session has used."""
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world_size)
    model, optimizer, scheduler = make(settings["optimizer"])
    replica = nn.parallel.DistributedDataParallel(model, broadcast_buffers=False,
                                                  gradient_as_bucket_view=True)
    data = Numbered()
    losses = []
    passes = settings["passes"]
    for i, numbers in enumerate(used):
        last = i % passes == passes - 1
        replica.require_backward_grad_sync = last
        loss = cross_entropy(replica(data.inputs[numbers]), data.targets[numbers])
        losses.append(loss.item())
        (loss * (1.0 / passes) if passes > 1 else loss).backward()
        if last:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            scheduler.step()
    save(settings["out"], f"ddp{rank}", model, optimizer, losses, used)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    sys.argv[1:] or train_in_session()
