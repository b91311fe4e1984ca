"""What the data pipeline delivers: BatchLoader beside a plain PyTorch DataLoader, and memcpy.

Samples in shuffled order out of a file of 256 MB that is in the page cache, with one thread or
worker process, to a consumer that does nothing with them. memcpy copies the same samples from
the mapped file as they lie there: the pipeline turns 2 bytes of a token into twice 8 (input and
target), and a pixel into 4.

Then tokens out of an object of S3, in moto's server on this machine: in the order of the file while
nothing is kept yet, beside ranges that boto3 fetches with as many threads, and shuffled from blocks
that are on the disk, beside the same file without a store.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

import boto3
import numpy as np
from moto.server import ThreadedMotoServer

import paceline_bench

PEER = paceline_bench.ROOT / "bench/peers/loader.py"
FILE_BYTES = 256 * 10**6
SIDE = 32  # Pixels, of three colours.


def write_tokens(path, random):
    """A token file (docs/token-files.md)."""
    count = FILE_BYTES // 2
    header = struct.pack("<8sIIQQQ24x", b"PCLTOKEN", 1, 2, count, 50304, 64)
    tokens = random.integers(0, 50304, count, dtype=np.uint16)
    path.write_bytes(header + tokens.tobytes())


def write_images(path, random):
    """An image shard (docs/image-shards.md)."""
    count = FILE_BYTES // (3 * SIDE * SIDE) // 2 * 2
    header = struct.pack("<8sIIQIIIIQQQ", b"PCLIMAGE", 1, 1, count, 3, SIDE, SIDE, 10, 64,
                         64 + 4 * count, 0)
    labels = random.integers(0, 10, count, dtype=np.uint32)
    path.write_bytes(header + labels.tobytes() + random.bytes(count * 3 * SIDE * SIDE))


def measure(command, **variables):
    return json.loads(subprocess.run([str(word) for word in command], check=True,
                                     env={**os.environ, **variables},
                                     stdout=subprocess.PIPE, text=True).stdout)


def fetch_rate(s3, seconds):
    """MB/s of blocks that boto3 fetches for nobody, with as many threads as a trainer has."""
    block = 4 << 20
    blocks = FILE_BYTES // block

    def fetch(number):
        begin = number % blocks * block
        answer = s3.get_object(Bucket="bench", Key="tokens",
                               Range=f"bytes={begin}-{begin + block - 1}")
        return len(answer["Body"].read())

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        start, fetched, number = time.monotonic(), 0, 0
        while time.monotonic() - start < seconds:
            fetched += sum(pool.map(fetch, range(number, number + 4)))
            number += 4
        return fetched / (time.monotonic() - start) / 1e6


def object_rows(program, tokens, folder, args):
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://%s:%d" % server.get_host_and_port()
    variables = {"AWS_ENDPOINT_URL": endpoint, "AWS_REGION": "us-east-1",
                 "AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"}
    s3 = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1",
                      aws_access_key_id="bench", aws_secret_access_key="bench")
    s3.create_bucket(Bucket="bench")
    with open(tokens, "rb") as file:
        s3.put_object(Bucket="bench", Key="tokens", Body=file)
    length, batch = 1024, 32
    shape = ["--sequence-length", length, "--batch", batch, "--threads", args.workers,
             "--seconds", args.seconds]
    cold, boto, warm, local = [], [], [], []
    for number in range(args.rounds):
        kept = folder / f"objects{number}"
        source = ["--file", "s3://bench/tokens", "--object-cache", kept]
        first = measure([program, *source, "--sequential", *shape], **variables)
        cold.append(first["loader"] * length * 2 / 1e6)
        boto.append(fetch_rate(s3, args.seconds))
        # Until all blocks are there.
        measure([program, *source, *shape[:-1], 10], **variables)
        warm.append(measure([program, *source, *shape], **variables)["loader"] * length / 1e6)
        local.append(measure([program, "--file", tokens, *shape])["loader"] * length / 1e6)
    server.stop()
    return [
        paceline_bench.Row(case="object of S3, nothing kept, in order", metric="rate", unit="MB/s",
                           ours=cold, better="higher", peers={"boto3, 4 threads": boto}),
        paceline_bench.Row(case="object of S3, blocks kept, shuffled", metric="rate",
                           unit="million tokens/s", ours=warm, better="higher",
                           peers={"ours from a local file": local}),
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="runs of each program and case")
    parser.add_argument("--seconds", type=float, default=1, help="of each measurement")
    parser.add_argument("--workers", type=int, default=1, help="threads, and worker processes")
    args = parser.parse_args()

    program = paceline_bench.build("//bench:loader_benchmark") / "bench/loader_benchmark"
    rows = []
    with tempfile.TemporaryDirectory(prefix="paceline-bench.") as folder:
        random = np.random.default_rng(1)
        tokens, images = pathlib.Path(folder) / "tokens.bin", pathlib.Path(folder) / "images.shard"
        write_tokens(tokens, random)
        write_images(images, random)
        for case, file, length, batch in [("tokens, sequence 1024, batch 32", tokens, 1024, 32),
                                          ("tokens, sequence 256, batch 8", tokens, 256, 8),
                                          ("images, 3x32x32, batch 64", images, 1, 64)]:
            scale = length / 1e6 if file == tokens else 1e-3
            unit = "million tokens/s" if file == tokens else "thousand images/s"
            ours, share, python = [], [], []
            for _ in range(args.rounds):
                common = ["--file", file, "--sequence-length", length, "--batch", batch,
                          "--seconds", args.seconds]
                result = measure([program, *common, "--threads", args.workers])
                ours.append(result["loader"] * scale)
                share.append(100 * result["loader"] / result["memcpy"])
                peer = measure([sys.executable, PEER, *common, "--workers", args.workers])
                python.append(peer["loader"] * scale)
            rows.append(paceline_bench.Row(
                case=case, metric="rate", unit=unit, ours=ours, better="higher",
                peers={"python dataloader": python}, target=1.0))
            rows.append(paceline_bench.Row(
                case=case, metric="samples of memcpy", unit="%", ours=share, better="higher"))
        rows += object_rows(program, tokens, pathlib.Path(folder), args)
    return paceline_bench.report("loader", rows)


if __name__ == "__main__":
    sys.exit(main())
