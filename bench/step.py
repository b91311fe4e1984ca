"""Time of a training step: our trainer beside a Python DistributedDataParallel loop.

One thread per rank. ResNet-18 on 32x32 digits, batch 32, SGD with momentum; Llama with dim 256,
8 layers, 8 heads, sequences of 256 bytes, batch 8, fused AdamW. Runs of the two alternate, so
that a change of the machine's pace meets both alike.
"""
import sys

import training


def ways(runs):
    return {"": (lambda *run: runs.ours(*run)[0], lambda *run: runs.python(*run, "--fused")[0])}


if __name__ == "__main__":
    sys.exit(training.compare_steps("step", __doc__, ways, target=1.0))
