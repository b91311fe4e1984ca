"""What the data pipeline delivers: BatchLoader beside a plain PyTorch DataLoader, and memcpy.

Samples in shuffled order out of a file of 256 MB that is in the page cache, with one thread or
worker process, to a consumer that does nothing with them. memcpy copies the same samples from
the mapped file as they lie there: the pipeline turns 2 bytes of a token into twice 8 (input and
target), and a pixel into 4.

Then tokens out of an object of S3, in moto's server on this machine: once in the order of the file
while nothing is kept yet, beside ranges that boto3 fetches with as many threads, and shuffled from
blocks that are on the disk, beside the same file without a store.
"""
import argparse
import json
import os
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np

import paceline_bench

PEER = paceline_bench.ROOT / "bench/peers/loader.py"
OBJECTS_PEER = paceline_bench.ROOT / "bench/peers/objects.py"
FILE_BYTES = 256 * 10**6
SETTLING_BATCHES = 20  # Of loader_benchmark.
SIDE = 32  # Pixels, of three colours.
SERVE = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
UPLOAD = """
import sys
import boto3
s3 = boto3.client("s3")
s3.create_bucket(Bucket="bench")
with open(sys.argv[1], "rb") as file:
    s3.put_object(Bucket="bench", Key="tokens", Body=file)
"""


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


class ObjectServer:
    """moto's S3 with one file as s3://bench/tokens, in a process of its own while `with` lasts.

    variables: those by which programs find it.
    """

    def __init__(self, file):
        self.file = file
        self.variables = {}

    def __enter__(self):
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            self.variables = {
                "AWS_ENDPOINT_URL": f"http://127.0.0.1:{int(self._process.stdout.readline())}",
                "AWS_REGION": "us-east-1", "AWS_DEFAULT_REGION": "us-east-1",
                "AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench",
                "no_proxy": "127.0.0.1"}
            subprocess.run([sys.executable, "-c", UPLOAD, self.file], check=True,
                           env={**os.environ, **self.variables})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self._process.stdin.close()  # Which ends it.
        self._process.wait()


def measure(command, **variables):
    return json.loads(subprocess.run([str(word) for word in command], check=True,
                                     env={**os.environ, **variables},
                                     stdout=subprocess.PIPE, text=True).stdout)


def object_rows(program, tokens, folder, args):
    """The server has a process of its own, and so has each of those that are compared."""
    with ObjectServer(tokens) as server:
        length, batch = 1024, 32
        shape = ["--sequence-length", length, "--batch", batch, "--threads", args.workers]
        timed = [*shape, "--seconds", args.seconds]
        # One pass over the file, as far as it fills batches.
        whole = (FILE_BYTES // 2 - 1) // length // batch
        once = ["--sequential", "--most-batches", whole - SETTLING_BATCHES]
        cold, boto, warm, local = [], [], [], []
        for number in range(args.rounds):
            def source(name, number=number):
                kept = folder / f"{name}{number}"
                return [program, "--file", "s3://bench/tokens", "--object-cache", kept]

            first = measure([*source("cold"), *timed, *once], **server.variables)
            cold.append(first["loader"] * length * 2 / 1e6)
            peer = measure([sys.executable, OBJECTS_PEER, "--bucket", "bench", "--key", "tokens",
                            "--seconds", args.seconds], **server.variables)
            boto.append(peer["loader"])
            measure([*source("warm"), *shape, *once, "--seconds", 3600], **server.variables)
            result = measure([*source("warm"), *timed], **server.variables)
            warm.append(result["loader"] * length / 1e6)
            local.append(measure([program, "--file", tokens, *timed])["loader"] * length / 1e6)
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
