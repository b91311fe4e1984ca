"""Time of a step of transformers' Trainer as a session (paceline.hf) beside the Trainer itself.

The script is bench/peers/hf_step.py, either way: a GPT-2 of 8 layers on text, whose Trainer logs
each ten steps; the session saves a checkpoint every ten steps, the Trainer none. One thread per
rank. Runs of the two alternate.
"""
import sys

import training

PEER = training.paceline_bench.ROOT / "bench/peers/hf_step.py"
BATCH = 8
GPT2 = training.Case("gpt2", training.LLAMA.data, "",
                     ["--data", "{data}", "--batch", str(BATCH), "--length", "256"])


def ways(runs):
    return {"": (lambda *run: runs.session(*run, peer=PEER, batch=BATCH),
                 {"transformers": lambda *run: runs.python(*run, peer=PEER)[0]})}


if __name__ == "__main__":
    sys.exit(training.compare_steps("hf", __doc__, ways, target=1.005, of=(GPT2,)))
