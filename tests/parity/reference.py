"""What Paceline's trainer is compared with: the same training in plain PyTorch.

`python reference.py rank world store_file task.json` is one rank of a DistributedDataParallel
job over Gloo. It writes losses.<rank>.json and, on rank 0, final.pt into the task's directory.
"""

import json
import math
import struct
import sys
from collections import OrderedDict

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import (
    HierarchicalModelAverager)
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return F.relu(y, inplace=True)


class ResNet18(nn.Module):
    """The network of torchvision.models.resnet18, with its names."""

    def __init__(self, channels, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        inputs = 64
        for layer, outputs in enumerate([64, 128, 256, 512], 1):
            stride = 1 if layer == 1 else 2
            blocks = [BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs, 1)]
            setattr(self, f"layer{layer}", nn.Sequential(*blocks))
            inputs = outputs
        self.fc = nn.Linear(512, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(F.relu(self.bn1(self.conv1(x)), inplace=True))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Mlp(nn.Module):
    def __init__(self, inputs, hidden, classes):
        super().__init__()
        widths = [inputs, *hidden, classes]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, x):
        x = self.layers[0](x.flatten(1))
        for layer in self.layers[1:]:
            x = layer(F.relu(x))
        return x


def make_model(task):
    channels, height, width = task["shape"]
    if task["model"] == "resnet18":
        return ResNet18(channels, task["classes"])
    return Mlp(channels * height * width, task["hidden"], task["classes"])


class OuterAverager(HierarchicalModelAverager):
    """Ends the means of all ranks in an outer step of SlowMo: the gradient is backup - mean, the
    outer optimizer torch.optim.SGD steps on the backup, and all go on from there."""

    def __init__(self, ladder, warmup, model, outer):
        super().__init__(OrderedDict(ladder), warmup)
        self.parameters = list(model.parameters())
        self.backup = [parameter.detach().clone() for parameter in self.parameters]
        self.outer = torch.optim.SGD(self.backup, lr=outer["learning_rate"],
                                     momentum=outer["momentum"])
        self.period = max(ladder)

    @torch.no_grad()
    def average_parameters(self, params):
        step = self.step
        super().average_parameters(params)
        if step < self.warmup_steps:
            for backup, parameter in zip(self.backup, self.parameters):
                backup.copy_(parameter)
        elif step % self.period == 0:
            for backup, parameter in zip(self.backup, self.parameters):
                backup.grad = backup - parameter
            self.outer.step()
            for backup, parameter in zip(self.backup, self.parameters):
                parameter.copy_(backup)


class WholeManager:
    """What torchft's DiLoCo asks of its manager, where no replica is ever lost."""

    _use_async_quorum = False

    def __init__(self, step):
        self.step = step

    def current_step(self):
        return self.step

    def allreduce(self, tensor, should_quantize=False):
        assert not should_quantize
        tensor /= dist.get_world_size()
        return dist.all_reduce(tensor, async_op=True)

    def should_commit(self):
        self.step += 1
        return True

    def register_state_dict_fn(self, *_functions):
        pass

    start_quorum = allow_state_dict_read = disallow_state_dict_read = register_state_dict_fn


class DiLoCoAverager:
    """torchft's own DiLoCo after some steps of warm-up. It hangs on the steps of the inner
    optimizer, and counts a fragment's delay back from the step that takes it up; its count begins
    such that averages begin at multiples of period / fragments, as ours do. `cut`: numbers of the
    parameters in each fragment."""

    def __init__(self, period, warmup, model, optimizer, outer, cut=None):
        parameters = list(model.parameters())
        cut = cut or [range(len(parameters))]
        self.fragments = [nn.ParameterList(parameters[i] for i in part) for part in cut]
        self.outers = [torch.optim.SGD(fragment.parameters(), lr=outer["learning_rate"],
                                       momentum=outer["momentum"], nesterov=True)
                       for fragment in self.fragments]
        self.optimizer = optimizer
        self.period = period
        self.delay = outer.get("delay", 0)
        self.alpha = outer.get("alpha", 0.0)
        self.step = 0
        self.warmup = warmup
        self.begin_if_warm()

    def begin_if_warm(self):
        if self.step != self.warmup:
            return
        # Takes seconds, and most tests have no outer steps.
        from torchft.local_sgd import DiLoCo  # pylint: disable=import-outside-toplevel
        interval = self.period // len(self.fragments)
        ahead = -self.step % interval  # Steps until an average begins after one.
        manager = WholeManager((self.step + ahead) // interval)
        diloco = DiLoCo(manager, self.fragments, self.optimizer, self.outers, self.period,
                        fragment_sync_delay=self.delay, fragment_update_alpha=self.alpha)
        diloco._local_step = interval - self.delay - ahead - 1  # pylint: disable=protected-access
        diloco.__enter__()

    def average_parameters(self, params):  # pylint: disable=unused-argument
        """After a step, in which DiLoCo has averaged if it was time."""
        self.step += 1
        self.begin_if_warm()


def outer_text(outer):
    """The same in a job's spec. None: there is no outer step."""
    if outer is None:
        return ""
    keys = " ".join(f"{key}: {value}" for key, value in outer.items() if key != "kind")
    return f"outer {{ kind: OUTER_{outer['kind'].upper()} {keys} }}"


def write_shard(path, images, labels, classes):
    """docs/image-shards.md"""
    count, channels, height, width = images.shape
    pixels_offset = (64 + 4 * count + 7) // 8 * 8
    head = struct.pack("<8sIIQIIIIQQQ", b"PCLIMAGE", 1, 1, count, channels, height, width, classes,
                       64, pixels_offset, 0)
    data = head + labels.astype("<u4").tobytes()
    data += bytes(pixels_offset - len(data)) + images.tobytes()
    with open(path, "wb") as out:
        out.write(data)


def read_shard(path):
    with open(path, "rb") as file:
        data = file.read()
    _, _, _, count, channels, height, width, _, labels, pixels, _ = struct.unpack_from(
        "<8sIIQIIIIQQQ", data)
    images = np.frombuffer(data, np.uint8, offset=pixels).reshape(count, channels, height, width)
    return images, np.frombuffer(data, "<u4", count, labels).astype(np.int64)


def mix(x):
    mask = (1 << 64) - 1
    x = (x + 0x9E3779B97F4A7C15) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return x ^ (x >> 31)


def permutation(size, seed, epoch):
    """worker/trainer/core/sampler.h"""
    bits = 1
    while (1 << (2 * bits)) < size:
        bits += 1
    keys = [mix(mix(mix(seed) ^ epoch))]
    while len(keys) < 6:
        keys.append(mix(keys[-1]))
    mask = (1 << bits) - 1

    def shuffle(value):
        left, right = value >> bits, value & mask
        for key in keys:
            left, right = right, left ^ (mix(right ^ key) & mask)
        return (left << bits) | right

    order = []
    for position in range(size):
        value = shuffle(position)
        while value >= size:
            value = shuffle(value)
        order.append(value)
    return order


def batch_indices(task, samples, rank, world, step):
    batch = task["batch"]
    per_epoch = samples // (batch * world)
    epoch, step_of_epoch = divmod(step, per_epoch)
    positions = [step_of_epoch * batch * world + k * world + rank for k in range(batch)]
    if not task["shuffle"]:
        return positions
    order = permutation(samples, task["seed"], epoch)
    return [order[p] for p in positions]


def learning_rate(task, step):
    peak, steps, warmup = task["lr"], task["steps"], task["warmup"]
    if step < warmup:
        return peak * (step + 1) / warmup
    if task["schedule"] == "cosine" and steps - warmup > 1:
        share = (step - warmup) / (steps - warmup - 1)
        ratio = task["final_ratio"]
        return peak * (ratio + (1 - ratio) * (1 + math.cos(math.pi * share)) / 2)
    return peak


def make_optimizer(task, model):
    if task["optimizer"] == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=task["lr"], betas=(0.9, 0.999), eps=1e-8,
                                 weight_decay=task["weight_decay"], fused=task["fused"])
    return torch.optim.SGD(model.parameters(), lr=task["lr"], momentum=task["momentum"],
                           nesterov=task["nesterov"], weight_decay=task["weight_decay"],
                           fused=task["fused"])


def train(rank, world, store_file, task):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store_file}", rank=rank, world_size=world)
    images, labels = read_shard(task["train"])
    model = make_model(task)
    model.load_state_dict(torch.load(task["init"]))
    ddp = DistributedDataParallel(model)
    optimizer = make_optimizer(task, model)
    losses = []
    for step in range(task["steps"]):
        indices = batch_indices(task, len(images), rank, world, step)
        x = (torch.from_numpy(images[indices]).float() / 255 - 0.5) / 0.5
        y = torch.from_numpy(labels[indices])
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(task, step)
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=task["bf16"]):
            loss = F.cross_entropy(ddp(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with open(f"{task['directory']}/losses.{rank}.json", "w") as out:
        json.dump(losses, out)
    if rank == 0:
        torch.save(model.state_dict(), f"{task['directory']}/final.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with open(sys.argv[4]) as task_file:
        train(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], json.load(task_file))
