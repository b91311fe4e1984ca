"""Time of a step in a session beside the same script with DistributedDataParallel.

The script is bench/peers/ddp_step.py, either way; the session saves a checkpoint every ten steps.
One thread per rank. Models as in step.py, as they are and compiled by torch.compile. Runs of the
two alternate.
"""
import sys

import training


def ways(runs):
    def with_options(*options):
        return (lambda *run: runs.session(*run, *options),
                {"python ddp": lambda *run: runs.python(*run, *options)[0]})

    return {"": with_options("--fused"), ", compiled": with_options("--fused", "--compile")}


if __name__ == "__main__":
    sys.exit(training.compare_steps("session", __doc__, ways, target=1.005))
