"""The peer of BatchLoader: a plain PyTorch DataLoader over the same file, mapped by numpy.

Prints one JSON object: {"loader": samples per second}.
"""
import argparse
import json
import struct
import time

import numpy as np
import torch
import torch.utils.data

SETTLING_BATCHES = 20


class Tokens(torch.utils.data.Dataset):
    """Sequences out of a token file (docs/token-files.md)."""

    def __init__(self, path, length):
        self.tokens = np.memmap(path, dtype="<u2", mode="r", offset=64)
        self.length = length

    def __len__(self):
        return (len(self.tokens) - 1) // self.length

    def __getitem__(self, index):
        start = index * self.length
        tokens = torch.from_numpy(self.tokens[start:start + self.length + 1].astype(np.int64))
        return tokens[:-1], tokens[1:]


class Images(torch.utils.data.Dataset):
    """Images out of a shard (docs/image-shards.md)."""

    def __init__(self, path):
        with open(path, "rb") as file:
            header = struct.unpack("<8sIIQIIIIQQQ", file.read(64))
        count, channels, height, width = header[3:7]
        labels_offset, pixels_offset = header[8:10]
        self.labels = np.memmap(path, dtype="<u4", mode="r", offset=labels_offset, shape=count)
        self.pixels = np.memmap(path, dtype=np.uint8, mode="r", offset=pixels_offset,
                                shape=(count, channels, height, width))

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        pixels = torch.from_numpy(self.pixels[index].astype(np.float32))
        return (pixels / 255 - 0.5) / 0.5, int(self.labels[index])


def batches(loader):
    while True:
        yield from loader


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", required=True)
    parser.add_argument("--sequence-length", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    args = parser.parse_args()

    with open(args.file, "rb") as file:
        is_tokens = file.read(8) == b"PCLTOKEN"
    dataset = Tokens(args.file, args.sequence_length) if is_tokens else Images(args.file)
    source = batches(torch.utils.data.DataLoader(
        dataset, batch_size=args.batch, shuffle=True, drop_last=True, num_workers=args.workers,
        persistent_workers=args.workers > 0))
    for _ in range(SETTLING_BATCHES):
        next(source)
    count, start = 0, time.monotonic()
    while (elapsed := time.monotonic() - start) < args.seconds:
        next(source)
        count += 1
    print(json.dumps({"loader": count * args.batch / elapsed}))


if __name__ == "__main__":
    main()
