"""A training in a session, or the same by torch's own means: what the two have in common.

Settings: optimizer: [name in torch.optim, arguments]; passes: of a step; out: folder for results;
averager: null (DistributedDataParallel), a period, a ladder [[period, size], ...], or means of all
{"period": ..., "outer": as in reference.py, "cut": into fragments, if it is streamed}; dropout: a
probability; decays: whether the learning rate does; module: path of a TorchScript module to train
in the place of the model, or "".
"""

import collections
import json
import os
import sys

import torch
from torch import nn
from torch.nn.functional import cross_entropy

SAMPLES = 230


def images_and_targets():
    """Images of bytes [SAMPLES, 1, 8, 8], and classes below 10."""
    generator = torch.Generator().manual_seed(2)
    images = torch.randint(256, (SAMPLES, 1, 8, 8), generator=generator, dtype=torch.uint8)
    return images, torch.randint(10, (SAMPLES,), generator=generator)


class Numbered(torch.utils.data.Dataset):
    """Inputs and targets, with the sample's number."""

    def __init__(self):
        images, self.targets = images_and_targets()
        self.inputs = (images.float() / 255 - 0.5) / 0.5  # As the trainer does it.

    def __len__(self):
        return SAMPLES

    def __getitem__(self, i):
        return self.inputs[i], self.targets[i], i


class WithLoss(nn.Module):
    """A model that returns its loss."""

    def __init__(self, dropout):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            nn.Linear(128, 64), nn.GELU(), nn.Dropout(dropout), nn.Linear(64, 10))

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return cross_entropy(self.net(inputs), targets)


def make_model(dropout):
    """Each rank's are alike."""
    torch.manual_seed(1)
    return WithLoss(dropout)


def make(settings):
    """Model, optimizer and schedule; each rank's are alike."""
    module = settings["module"]
    model = torch.jit.load(module) if module else make_model(settings["dropout"])
    kind, options = settings["optimizer"]
    optimizer = getattr(torch.optim, kind)(model.parameters(), **options)
    if settings["decays"]:
        return model, optimizer, torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 30)
    return model, optimizer, torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)


def save(out, rank, model, optimizer, losses, used):
    """Writes a rank's results."""
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(),
                "losses": losses, "used": used}, f"{out}/{rank}.pt")


def train_in_session():
    import paceline

    run = paceline.init()
    settings = json.loads(os.environ["SETTINGS"])
    model, optimizer, scheduler = make(settings)
    run.attach(model, optimizer, scheduler)
    loader = run.loader(Numbered())
    losses, used = [], []
    for step in run.steps():
        with step:
            for x, y, numbers in step.batches(loader):
                loss = model(x, y)
                step.backward(loss)
                losses.append(loss.item())
                used.append(numbers.tolist())
            step.update()
            scheduler.step()
    save(settings["out"], run.rank, model, optimizer, losses, used)


def make_averager(averager, model, optimizer):
    """None: there is none."""
    import reference
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import (
        HierarchicalModelAverager)

    if averager is None:
        return None
    if isinstance(averager, int):
        return PeriodicModelAverager(averager, warmup_steps=0)
    if isinstance(averager, list):
        return HierarchicalModelAverager(collections.OrderedDict(averager), warmup_steps=0)
    period, outer = averager["period"], averager["outer"]
    if outer["kind"] == "nesterov":
        return reference.DiLoCoAverager(period, 0, model, optimizer, outer, averager.get("cut"))
    return reference.OuterAverager({period: torch.distributed.get_world_size()}, 0, model, outer)


def train_with_torch(rank, world_size, port, settings, used):
    """With the batches that the rank of the session has used."""
    from torch.distributed.algorithms.model_averaging.utils import average_parameters

    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.distributed.init_process_group("gloo", rank=rank, world_size=world_size)
    model, optimizer, scheduler = make(settings)
    averager = make_averager(settings["averager"], model, optimizer)
    replica = model
    if averager is None:
        replica = nn.parallel.DistributedDataParallel(model, broadcast_buffers=False,
                                                      gradient_as_bucket_view=True)
    data = Numbered()
    losses = []
    passes = settings["passes"]
    for i, numbers in enumerate(used):
        last = i % passes == passes - 1
        replica.require_backward_grad_sync = last
        loss = replica(data.inputs[numbers], data.targets[numbers])
        losses.append(loss.item())
        (loss * (1.0 / passes) if passes > 1 else loss).backward()
        if last:
            optimizer.step()
            if averager is not None:
                averager.average_parameters(model.parameters())
            optimizer.zero_grad(set_to_none=True)
            scheduler.step()
    if averager is not None:
        # At the end, the model of a job is the mean of all ranks'.
        average_parameters(model.parameters(), torch.distributed.group.WORLD)
    save(settings["out"], f"torch{rank}", model, optimizer, losses, used)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    sys.argv[1:] or train_in_session()
