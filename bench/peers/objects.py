"""The peer of objects that trainers read: boto3 fetches blocks of the same size for nobody, with as
many threads as a trainer has.

Endpoint and credentials are in the environment. Prints one JSON object: {"loader": MB/s}.
"""
import argparse
import concurrent.futures
import json
import time

import boto3

THREADS = 4
BLOCK = 4 << 20


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bucket", required=True)
    parser.add_argument("--key", required=True)
    parser.add_argument("--seconds", type=float, default=1)
    args = parser.parse_args()

    s3 = boto3.client("s3")
    size = s3.head_object(Bucket=args.bucket, Key=args.key)["ContentLength"]
    blocks = -(-size // BLOCK)

    def fetch(first):
        """Every THREADS-th block, again and again, until the end; returns the bytes."""
        fetched, number = 0, first
        while time.monotonic() < end:
            begin = number % blocks * BLOCK
            answer = s3.get_object(Bucket=args.bucket, Key=args.key,
                                   Range=f"bytes={begin}-{begin + BLOCK - 1}")
            fetched += len(answer["Body"].read())
            number += THREADS
        return fetched

    start = time.monotonic()
    end = start + args.seconds
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        fetched = sum(pool.map(fetch, range(THREADS)))
    print(json.dumps({"loader": fetched / (time.monotonic() - start) / 1e6}))


if __name__ == "__main__":
    main()
