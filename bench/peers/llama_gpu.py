"""The peer of our CUDA trainer: the training of a Llama as a plain eager Python loop on one GPU.

The same network (llama.py), scaled_dot_product_attention, bfloat16 autocast, the fused AdamW,
batches from pinned memory without blocking, and a wait for the GPU every 10 steps, to see the
loss. A step is timed by CUDA events from its start to the start of the next. Prints one JSON object: {"starts_ns": [...], "loss": last, "parameters":
N, "embedding_parameters": N, "device": NAME, "torch": VERSION}; starts count from the first.
"""
import argparse
import json
import time

import numpy
import torch
from torch.nn import functional as F

import llama


class Clock:
    """The start of each step, as the device passes it."""

    def __init__(self, device):
        self.cuda = device.type == "cuda"
        self.marks = []

    def mark(self):
        if self.cuda:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self.marks.append(event)
        else:
            self.marks.append(time.monotonic_ns())

    def starts_ns(self):
        if not self.cuda:
            return [mark - self.marks[0] for mark in self.marks]
        torch.cuda.synchronize()
        return [round(self.marks[0].elapsed_time(mark) * 1e6) for mark in self.marks]


def train(args):
    device = torch.device(args.device)
    torch.manual_seed(1)
    sizes = llama.PRESETS[args.preset]
    with device:
        model = llama.Llama(sizes, args.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1, fused=True)
    tokens = torch.from_numpy(numpy.fromfile(args.data, dtype="<u4").astype(numpy.int64))
    count = (len(tokens) - 1) // args.length
    inputs = tokens[:count * args.length].view(count, args.length)
    targets = tokens[1:count * args.length + 1].view(count, args.length)
    order = torch.randperm(count)
    clock, loss = Clock(device), None
    for step in range(args.steps):
        clock.mark()
        first = step * args.batch % (count - args.batch)
        batch = order[first:first + args.batch]
        x, y = inputs[batch], targets[batch]
        if device.type == "cuda":
            x = x.pin_memory().to(device, non_blocking=True)
            y = y.pin_memory().to(device, non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast(device.type, torch.bfloat16):
            scores = model(x)
            loss = F.cross_entropy(scores.flatten(0, -2), y.flatten())
        del scores
        loss.backward()
        optimizer.step()
        if step % 10 == 9:
            loss.item()
    clock.mark()
    print(json.dumps({
        "starts_ns": clock.starts_ns(), "loss": loss.item(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "embedding_parameters": model.model.embed_tokens.weight.numel(),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "CPU",
        "torch": torch.__version__}))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="tokens of 32 bits, without a header")
    parser.add_argument("--preset", choices=llama.PRESETS, default="160m")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--length", type=int, default=1024, help="tokens of a sequence")
    parser.add_argument("--batch", type=int, default=32, help="sequences per step")
    parser.add_argument("--steps", type=int, default=30)
    train(parser.parse_args())


if __name__ == "__main__":
    main()
