"""The trainer computes what Python's model averagers and post-local-SGD hook compute, and what an
outer optimizer makes of their means, and torchft's DiLoCo.

The Python side is the program of docs/hsgd.md, with eight or 16 ranks forked from this process. Both
begin with the same weights, read the same samples, and every rank's parameters after 50 steps
must agree: to the bit, except where the three numbers that ride along with our mean over all
ranks move a boundary of Gloo's segments, so that sums are taken in another order.
"""

import itertools
import os
import re
import subprocess
import sys
import tempfile
import unittest
from collections import OrderedDict

import numpy as np
import safetensors.torch
import torch
import torch.distributed as dist
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.algorithms.model_averaging.hierarchical_model_averager import (
    HierarchicalModelAverager)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import reference  # noqa: E402

TRAINER, RUN_JOB, DOCUMENT = (os.path.abspath(path) for path in sys.argv[1:4])
BATCH = 4
STEPS = 50
# Limit of a parameter's error relative to its tensor's largest, if the order of sums differs.
LIMIT = 3e-6
# The same of an outer step with Nesterov momentum: AdamW divides small differences by small numbers.
OUTER_LIMIT = 1e-5
# Hidden widths for which our three extra numbers do and do not fit into Gloo's last segment.
ALIGNED, SHIFTED = 16, 18

CASES = {
    "hsgd_2_4_8": dict(ladder={2: 2, 4: 4, 8: 8}, warmup=0, group=1, rule="sgd", hidden=ALIGNED),
    "hsgd_2_4_8_warm_pairs_adamw":
        dict(ladder={2: 2, 4: 4, 8: 8}, warmup=10, group=2, rule="adamw", hidden=ALIGNED),
    "hsgd_2_8_warm_fours":
        dict(ladder={2: 2, 4: 8}, warmup=13, group=4, rule="sgd", hidden=ALIGNED),
    "hsgd_8_warm_alone": dict(ladder={4: 8}, warmup=13, group=1, rule="sgd", hidden=SHIFTED),
    "local_sgd_warm_pairs": dict(ladder=4, warmup=13, group=2, rule="sgd", hidden=ALIGNED),
    "local_sgd_adamw": dict(ladder=4, warmup=0, group=1, rule="adamw", hidden=ALIGNED),
    "diloco": dict(ladder={8: 8}, warmup=1, group=1, rule="adamw", hidden=ALIGNED,
                   outer=dict(kind="nesterov", learning_rate=0.7, momentum=0.9)),
    "slowmo_above_pairs":
        dict(ladder={2: 2, 8: 8}, warmup=5, group=2, rule="sgd", hidden=ALIGNED,
             outer=dict(kind="slowmo", learning_rate=1.0, momentum=0.5)),
    # Of the four tensors the first has most values, and is a fragment.
    "streaming_diloco":
        dict(ladder={8: 8}, warmup=1, group=1, rule="adamw", hidden=ALIGNED,
             outer=dict(kind="nesterov", learning_rate=0.7, momentum=0.9,
                        fragments=2, delay=2, alpha=0.5), cut=((0,), (1, 2, 3))),
    "overlapped_diloco_pairs":
        dict(ladder={8: 8}, warmup=5, group=2, rule="sgd", hidden=ALIGNED,
             outer=dict(kind="nesterov", learning_rate=0.7, momentum=0.9,
                        fragments=1, delay=5, alpha=0.25), cut=((0, 1, 2, 3),)),
}


# The published ladder 1:4, 2:16, 4:64, 8:256 for 16 ranks: pairs average at each step.
CASES_OF_16 = {
    "hsgd_1_2_4_8": dict(ladder={1: 2, 2: 4, 4: 8, 8: 16}, warmup=0, group=1, rule="sgd",
                         hidden=ALIGNED),
}


def documented_program():
    with open(DOCUMENT, encoding="utf-8") as file:
        program = re.search(r"```python\n(.*?)```", file.read(), re.DOTALL).group(1)
    names = {"__name__": "documented"}
    exec(compile(program, "<docs/hsgd.md>", "exec"), names)  # pylint: disable=exec-used
    return names


def python_rank(rank, ranks, cases, directory, program):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    dist.init_process_group("gloo", init_method=f"file://{directory}/store", rank=rank,
                            world_size=ranks)
    images, labels = program["read_shard"](f"{directory}/train.shard")
    for name, case in cases.items():
        model = program["Mlp"](64, case["hidden"], 10)
        model.load_state_dict(
            safetensors.torch.load_file(f"{directory}/initial.{case['hidden']}.safetensors"))
        if case["rule"] == "sgd":
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, fused=True)
        else:
            optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01, fused=True)
        outer = case.get("outer", {})
        if outer.get("kind") == "nesterov":
            averager = reference.DiLoCoAverager(max(case["ladder"]), case["warmup"], model,
                                                optimizer, outer, case.get("cut"))
        elif outer:
            averager = reference.OuterAverager(case["ladder"], case["warmup"], model, outer)
        elif isinstance(case["ladder"], dict):
            averager = HierarchicalModelAverager(OrderedDict(case["ladder"]), case["warmup"])
        else:
            averager = PeriodicModelAverager(case["ladder"], case["warmup"])
        program["train"](model, optimizer, averager, case["warmup"], case["group"], images, labels,
                         BATCH, STEPS)
        state = {key: value.contiguous().clone() for key, value in model.state_dict().items()}
        safetensors.torch.save_file(state, f"{directory}/{name}.python.rank{rank}.safetensors")
    dist.barrier()


def spec_of(name, case, ranks, directory):
    if isinstance(case["ladder"], dict):
        last = max(case["ladder"])
        levels = " ".join(f"ladder {{ period: {period} size: {size} "
                          f"{reference.outer_text(case.get('outer')) if period == last else ''} }}"
                          for period, size in case["ladder"].items())
        kind = f"hsgd {{ {levels} }}"
    else:
        kind = f"local_sgd {{ period: {case['ladder']} }}"
    rule = ("sgd { momentum: 0.9 } learning_rate: 0.05" if case["rule"] == "sgd"
            else "adamw {} learning_rate: 0.002 weight_decay: 0.01")
    return f"""
      name: "parity" ranks: {ranks} model {{ mlp {{ hidden: {case["hidden"]} }} }}
      data {{ train: "{directory}/train.shard" order: SEQUENTIAL }}
      batch_per_rank: {BATCH} steps: {STEPS} optimizer {{ {rule} }}
      strategy {{ {kind} warmup_steps: {case["warmup"]} gradient_group_size: {case["group"]} }}
      init_from: "{directory}/initial.{case["hidden"]}.safetensors"
      export_final: "{directory}/{name}.safetensors"
    """


class Parity:
    """Runs CASES with RANKS ranks."""

    @classmethod
    def setUpClass(cls):
        cls.directory = cls.enterClassContext(tempfile.TemporaryDirectory())
        torch.set_num_threads(1)
        generator = np.random.default_rng(3)
        labels = generator.integers(0, 10, 300)
        centres = generator.integers(0, 256, (10, 1, 8, 8))
        images = np.clip(centres[labels] + generator.normal(0, 50, (300, 1, 8, 8)), 0, 255)
        reference.write_shard(f"{cls.directory}/train.shard", images.astype(np.uint8), labels, 10)
        program = documented_program()
        torch.manual_seed(17)
        for hidden in (ALIGNED, SHIFTED):
            safetensors.torch.save_file(program["Mlp"](64, hidden, 10).state_dict(),
                                        f"{cls.directory}/initial.{hidden}.safetensors")
        ranks = []
        for rank in range(cls.RANKS):
            ranks.append(os.fork())
            if ranks[-1] == 0:
                code = 1
                try:
                    python_rank(rank, cls.RANKS, cls.CASES, cls.directory, program)
                    code = 0
                finally:
                    os._exit(code)
        assert all(os.waitpid(pid, 0)[1] == 0 for pid in ranks), "the Python ranks failed"

    def compare(self, name):
        case = self.CASES[name]
        work = f"{self.directory}/{name}"
        os.mkdir(work)
        with open(f"{work}/spec", "w", encoding="utf-8") as out:
            out.write(spec_of(name, case, self.RANKS, self.directory))
        subprocess.run([RUN_JOB, "--trainer", TRAINER, "--spec", f"{work}/spec", "--dir", work],
                       check=True)
        initial = safetensors.torch.load_file(
            f"{self.directory}/initial.{case['hidden']}.safetensors")
        worst, moved, ours = 0.0, 0.0, []
        for rank in range(self.RANKS):
            ours.append(safetensors.torch.load_file(
                f"{self.directory}/{name}.rank{rank}.safetensors"))
            expected = safetensors.torch.load_file(
                f"{self.directory}/{name}.python.rank{rank}.safetensors")
            self.assertEqual(set(ours[-1]), set(expected))
            for key, value in expected.items():
                scale = value.abs().max().item()
                worst = max(worst, (ours[-1][key] - value).abs().max().item() / scale)
                moved = max(moved, (initial[key] - value).abs().max().item() / scale)
        apart = max((a[key] - b[key]).abs().max().item()
                    for a, b in itertools.pairwise(ours) for key in a)
        print(f"{name}: largest error {worst:.2g}, weights moved {moved:.2g}, "
              f"ranks are {apart:.2g} apart")
        self.assertGreater(moved, 0.1)
        # Step 49 does not average over all ranks, except for local SGD after 13 steps of warm-up.
        self.assertEqual(apart == 0, name == "local_sgd_warm_pairs")
        limit = LIMIT if case["hidden"] == SHIFTED else 0
        # SGD rounds once where a product is added, our outer step twice. With a learning rate of 1
        # and plain momentum there is no such product.
        if case.get("outer", {}).get("kind") == "nesterov":
            limit = OUTER_LIMIT
        self.assertLessEqual(worst, limit)


class HsgdParityTest(Parity, unittest.TestCase):
    RANKS = 8
    CASES = CASES


class HsgdParityOf16Test(Parity, unittest.TestCase):
    RANKS = 16
    CASES = CASES_OF_16


for test in (HsgdParityTest, HsgdParityOf16Test):
    for case_name in test.CASES:
        setattr(test, f"test_{case_name}", lambda self, name=case_name: self.compare(name))

if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
