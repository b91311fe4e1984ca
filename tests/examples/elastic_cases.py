"""Cases of examples_test.py: sessions whose number of ranks follows the room in the cluster."""

import json
import pathlib
import sys

VENV = pathlib.Path(sys.prefix)
SAMPLES, BATCH, STEPS = 960, 8, 1500
# Tells of each step how many ranks there are, and this one's samples.
SCRIPT = f"""
import os, torch, paceline

class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return {SAMPLES}

    def __getitem__(self, index):
        return torch.full((4,), index / {SAMPLES}), index

run = paceline.init()
torch.manual_seed(run.seed)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
run.attach(model, optimizer)
loader = run.loader(Samples())
with open(f"{{os.environ['TOLD']}}.{{os.getpid()}}", "w", buffering=1) as told:
    for step in run.steps():
        with step:
            for inputs, numbers in step.batches(loader):
                step.backward(model(inputs).square().mean())
            step.update()
        if step.done:
            print(step.number, run.world_size, *numbers.tolist(), file=told)
"""


class ElasticCases:
    """Needs ExamplesTest's cluster of two slots."""

    def submit_elastic(self, name, ranks):
        """Of one or two ranks, which make five steps in a second until `release`."""
        (self.folder / "elastic.py").write_text(SCRIPT)
        (self.folder / f"{name}.json").write_text(json.dumps({
            "name": name, "ranks": ranks, "threads_per_rank": 1, "session": True,
            "command": ["python3", str(self.folder / "elastic.py")], "venv": str(VENV),
            "environment": {"TOLD": f"{self.folder}/{name}.told"},
            "steps": STEPS, "batch_per_rank": BATCH, "allow_chaos": True,
            "recovery": {"max_failures": 3, "min_ranks": 1, "max_ranks": 2,
                         "batch": "keep_rank_batch"},
            "chaos": [{"rank": -1, "steps": STEPS, "kind": "sleep", "seconds": 0.2,
                       "until_file": f"{self.folder}/{name}.released"}]}))
        self.paceline("submit", f"{name}.json")

    def release(self, name):
        (self.folder / f"{name}.released").touch()
        job = self.wait_for(name, lambda job: job["state"] in ("SUCCEEDED", "FAILED"))
        self.assertEqual((job["state"], int(job["progress"]["step"])), ("SUCCEEDED", STEPS), job)
        self.assertEqual(int(job.get("restarts", 0)), 0, job)

    def expect_each_sample_once(self, name, numbers_of_ranks):
        """In each epoch, but for less than a step at its end."""
        told = {}
        for path in self.folder.glob(f"{name}.told.*"):
            for line in path.read_text().splitlines():
                step, world_size, *samples = map(int, line.split())
                told.setdefault(step, []).append((world_size, samples))
        self.assertEqual(sorted(told), list(range(STEPS)))
        seen, numbers = set(), []
        for step in range(STEPS):
            ranks = len(told[step])
            self.assertEqual([world_size for world_size, _ in told[step]], [ranks] * ranks, step)
            if numbers[-1:] != [ranks]:
                numbers.append(ranks)
            taken = [sample for _, samples in told[step] for sample in samples]
            self.assertEqual(len(set(taken)), BATCH * ranks, step)
            if len(seen) + len(taken) > SAMPLES:
                seen = set()
            self.assertFalse(seen.intersection(taken), step)
            seen.update(taken)
        self.assertEqual(numbers, numbers_of_ranks)

    def test_elastic_sessions_grow_and_give_back_and_train_on_each_sample_once(self):
        def trains(ranks):
            return lambda job: (job["state"] == "RUNNING" and len(job.get("ranks", [])) == ranks
                                and int(job.get("progress", {}).get("step", 0)) > 0)

        self.submit_elastic("wide", ranks=1)
        self.wait_for("wide", lambda job: (
            job.get("reason") == "2 ranks train, 1 more than the 1 wanted"))
        self.submit_elastic("late", ranks=2)  # Begins with the slot that it is given back.
        self.wait_for("late", trains(ranks=1))
        self.assertIn("gives 1 extra rank back, of 2: job ", self.paceline("job", "events", "wide"))
        self.assertEqual(len(self.job("wide")["ranks"]), 1)
        self.release("wide")
        self.wait_for("late", trains(ranks=2))
        self.release("late")
        self.expect_each_sample_once("wide", [1, 2, 1])
        self.expect_each_sample_once("late", [1, 2])
