"""Time of a training step: our trainer beside a Python DistributedDataParallel loop.

One thread per rank. ResNet-18 on 32x32 digits, batch 32, SGD with momentum; Llama with dim 256,
8 layers, 8 heads, sequences of 256 bytes, batch 8, fused AdamW: those built in, and the peer's own
networks compiled by `python -m paceline.export` (docs/compiled.md), beside the loop in eager mode
and with torch.compile. Runs take turns, so that a change of the machine's pace meets all alike.
"""
import dataclasses
import functools
import json
import os
import re
import subprocess
import sys

import training

EXPORTED = training.PEER.with_name("exported.py")


def ways(runs):
    @functools.lru_cache(maxsize=None)
    def compiled(name):
        """The case by that name, its network exported."""
        case = next(case for case in (training.RESNET18, training.LLAMA) if case.name == name)
        package = runs.directory / f"{name}.pt2"
        options = dict(zip(case.options[::2], case.options[1::2]))
        environment = dict(os.environ, PYTHONPATH=str(training.package()),
                           OMP_NUM_THREADS=str(training.THREADS))
        if name == "llama":
            environment["LLAMA"] = json.dumps(
                {"sizes": json.loads(options["--sizes"]), "length": int(options["--length"])})
        subprocess.run(
            [sys.executable, "-m", "paceline.export", f"{EXPORTED}:{name}", "--batch",
             options["--batch"], "--out", package],
            check=True, env=environment, stdout=sys.stderr)
        spec, replaced = re.subn(r"model \{ \w+ \{[^}]*\} \}",
                                 f'model {{ compiled {{ file: "{package}" }} }}', case.spec)
        assert replaced == 1
        return dataclasses.replace(case, spec=spec)

    def eager(*run):
        return runs.python(*run, "--fused")[0]

    return {
        "": (lambda *run: runs.ours(*run)[0], {"python ddp": eager}),
        ", compiled": (
            lambda case, *run: runs.ours(compiled(case.name), *run)[0],
            {"python ddp": eager,
             "python ddp, torch.compile":
                 lambda *run: runs.python(*run, "--fused", "--compile")[0]}),
    }


if __name__ == "__main__":
    sys.exit(training.compare_steps("step", __doc__, ways, target=1.0))
