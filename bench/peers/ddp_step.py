"""The peer of our trainer: the same training as a plain Python loop over DistributedDataParallel,
or, with --shards, over FSDP2.

One process per rank, as our trainers. Reads the same file (docs/image-shards.md, or 16-bit tokens
without a header), draws its batches from memory (the fastest that Python can be), and times a
step as our step ring does: from the start of one step to the start of the next. Prints one JSON
object: {"starts_ns": [...], "first_step_end_ns": N, "loss": last}, CLOCK_MONOTONIC nanoseconds.
"""
import argparse
import json
import struct
import time

import numpy
import torch
from torch import nn

import llama


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.downsample = None
        if stride != 1 or channels_in != channels:
            self.downsample = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        y = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(y)) + shortcut)


class ResNet18(nn.Module):
    """The 18-layer residual network of He et al. (2015) with the usual parameter names."""

    def __init__(self, channels, classes):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, padding=1)
        widths = [64, 64, 128, 256, 512]
        for i in range(1, 5):
            stride = 1 if i == 1 else 2
            self.add_module(f"layer{i}", nn.Sequential(
                BasicBlock(widths[i - 1], widths[i], stride), BasicBlock(widths[i], widths[i], 1)))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, classes)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def load_shard(path):
    """Images as floats between -1 and 1, labels, and the number of classes."""
    data = numpy.fromfile(path, dtype=numpy.uint8)
    _, _, _, count, channels, height, width, classes, labels_at, pixels_at, _ = struct.unpack(
        "<8sIIQIIIIQQQ", data[:64].tobytes())
    labels = data[labels_at:labels_at + 4 * count].view("<u4").astype(numpy.int64)
    pixels = data[pixels_at:].reshape(count, channels, height, width)
    images = (torch.from_numpy(pixels.copy()).float() / 255 - 0.5) / 0.5
    return images, torch.from_numpy(labels), classes


def load_tokens(path, length):
    """Sequences of int64 and, one token later, their targets."""
    tokens = torch.from_numpy(numpy.fromfile(path, dtype="<u2").astype(numpy.int64))
    count = (len(tokens) - 1) // length
    return (tokens[:count * length].view(count, length),
            tokens[1:count * length + 1].view(count, length))


def batches(count, batch, rank, world):
    """Indices of this rank's batches, without end: a new permutation for each epoch."""
    epoch = 0
    while True:
        order = torch.randperm(count, generator=torch.Generator().manual_seed(epoch))
        for first in range(0, count - batch * world + 1, batch * world):
            yield order[first:first + batch * world][rank::world]
        epoch += 1


def make_training(args):
    """Inputs, targets and the model."""
    if args.model == "resnet18":
        inputs, targets, classes = load_shard(args.data)
        return inputs, targets, ResNet18(inputs.shape[1], classes)
    inputs, targets = load_tokens(args.data, args.length)
    return inputs, targets, llama.Llama(llama.Sizes(**json.loads(args.sizes)), args.length)


def make_optimizer(args, parameters):
    if args.model == "resnet18":
        return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, fused=args.fused)
    return torch.optim.AdamW(parameters, lr=3e-4, weight_decay=0.1, fused=args.fused)


def native_mesh(args):
    """Replicas and shards; of one replica, shards alone, which is quicker."""
    mesh = torch.distributed.init_device_mesh(
        "cpu", (args.world // args.shards, args.shards), mesh_dim_names=("replica", "shard"))
    return mesh if args.world > args.shards else mesh["shard"]


def shard(args, model, mesh):
    """Of a llama, block by block."""
    # pylint: disable-next=import-outside-toplevel
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard  # Others start without it.

    policy = MixedPrecisionPolicy()
    if args.precision == "bf16":
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.model.layers:
        fully_shard(block, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def train(args):
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    all_inputs, all_targets, model = make_training(args)
    if not args.plain:
        torch.distributed.init_process_group(
            "gloo", init_method=f"file://{args.store}", rank=args.rank, world_size=args.world)
        if args.shards > 1:
            shard(args, model, native_mesh(args))
        else:
            # Our trainer, too, keeps each rank's running statistics and reduces in place.
            model = nn.parallel.DistributedDataParallel(
                model, broadcast_buffers=False, gradient_as_bucket_view=True)
    if args.compile:
        model = torch.compile(model)
    optimizer = make_optimizer(args, model.parameters())
    criterion = nn.CrossEntropyLoss()
    indices = batches(len(all_inputs), args.batch, args.rank, args.world)
    starts, first_step_end, value = [], 0, None
    for step in range(args.steps):
        starts.append(time.monotonic_ns())
        batch = next(indices)
        inputs, targets = all_inputs[batch], all_targets[batch]
        optimizer.zero_grad()
        scores = model(inputs)
        loss = criterion(scores.flatten(0, -2).float(), targets.flatten())
        del scores
        loss.backward()
        optimizer.step()
        value = loss.item()
        if step == 0:
            first_step_end = time.monotonic_ns()
    print(json.dumps({"starts_ns": starts, "first_step_end_ns": first_step_end, "loss": value}))
    if not args.plain:
        torch.distributed.destroy_process_group()


def train_session(args):
    """The same as a session of Paceline's, whose ring has the times."""
    import paceline  # pylint: disable=import-outside-toplevel

    run = paceline.init()
    torch.manual_seed(1)
    all_inputs, all_targets, model = make_training(args)
    if args.shards > 1:
        shard(args, model, run.mesh)
    optimizer = make_optimizer(args, model.parameters())
    run.attach(model, optimizer)
    if args.compile:
        model = torch.compile(model)
    criterion = nn.CrossEntropyLoss()
    drawn = ((all_inputs[batch], all_targets[batch]) for batch in
             batches(len(all_inputs), args.batch, max(run.rank, 0), run.world_size))
    for step in run.steps():
        with step:
            for inputs, targets in step.batches(drawn):
                scores = model(inputs)
                loss = criterion(scores.flatten(0, -2).float(), targets.flatten())
                del scores
                step.backward(loss)
            step.update()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=("resnet18", "llama"), default="resnet18")
    parser.add_argument("--sizes", help="of a llama: llama.Sizes as JSON")
    parser.add_argument("--length", type=int, help="of a llama's sequences")
    parser.add_argument("--data", required=True, help="image shard or tokens")
    parser.add_argument("--store", help="file where the ranks meet")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--world", type=int, default=1)
    parser.add_argument("--batch", type=int, default=32, help="samples per rank and step")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="no DistributedDataParallel")
    parser.add_argument("--fused", action="store_true", help="the optimizer in one kernel")
    parser.add_argument("--compile", action="store_true", help="the model by torch.compile")
    parser.add_argument("--shards", type=int, default=1, help="ranks of a replica of a llama")
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="fp32",
                        help="of a sharded model's parameters and compute")
    parser.add_argument("--session", action="store_true", help="as a session of Paceline's")
    args = parser.parse_args()
    train_session(args) if args.session else train(args)


if __name__ == "__main__":
    main()
