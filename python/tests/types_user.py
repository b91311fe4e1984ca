"""What a user's script may write: nothing runs it, type checkers read it (tools/check.sh types).

They fail where they take a line for an error, and where an expression has another type than
assert_type says.
"""

from typing import Any, Dict, List, Mapping, Tuple

import torch
from torch.amp.grad_scaler import GradScaler
from torch.optim.lr_scheduler import CosineAnnealingLR
from typing_extensions import assert_type

import paceline

Sample = Tuple[torch.Tensor, int]


class Average:
    """Has the two methods of what can be attached."""

    def state_dict(self) -> Dict[str, float]:
        return {"mean": 0.0}

    def load_state_dict(self, state: Dict[str, float]) -> None:
        del state


def train(run: paceline.Run, dataset: List[Sample]) -> int:
    """Each call with all that it takes."""
    model = torch.nn.Linear(4, 2).to(run.device)
    optimizer = torch.optim.AdamW(model.parameters())
    scheduler = CosineAnnealingLR(optimizer, run.total_steps)
    run.attach(model, optimizer, scheduler, Average(), GradScaler(), own=[Average()],
               unused_parameters=True)
    loader = run.loader(dataset, batch_size=None, shuffle=False, num_workers=2)
    assert_type(loader, paceline.Loader)
    assert_type((len(loader), loader.samples, loader.batch, loader.epoch),
                Tuple[int, int, int, int])

    @run.evaluation
    def evaluate(rank: int, world_size: int) -> paceline.Score:
        return paceline.Score(loss=0.5 * rank, correct=1, count=world_size)

    assert_type(evaluate(0, 1), paceline.Score)
    for step in run.steps(rehearse=True):
        assert_type(step, paceline.Step)
        with step as entered:
            assert_type(entered, paceline.Step)
            for inputs, targets in step.batches(loader):
                step.backward(torch.nn.functional.cross_entropy(model(inputs), targets))
            assert_type(step.update(clip=1.0), bool)
            scheduler.step()
            assert_type(run.process_group, torch.distributed.ProcessGroup)
            run.save()
            run.report(loss=0.5, **{"train/accuracy": torch.tensor(1.0)})
            run.artifact("model.bin", name="model")
        if step.done:
            assert_type((step.number, step.passes, step.rehearsal), Tuple[int, int, bool])
    return run.finish()


def train_two(run: paceline.Run, batches: List[torch.Tensor]) -> None:
    """Two models, and batches of an iterable, whose type the batches keep."""
    models = {"body": torch.nn.Linear(4, 4), "head": torch.nn.Linear(4, 2)}
    optimizer = torch.optim.SGD([p for one in models.values() for p in one.parameters()], lr=0.1)
    run.attach(models, optimizer)
    for step in run.steps():
        with step:
            for batch in step.batches(batches):
                assert_type(batch, torch.Tensor)
                step.backward(models["head"](models["body"](batch)).mean())
            step.update()


def read(run: paceline.Run) -> None:
    """What a run tells."""
    assert_type(run.spec, Mapping[str, Any])
    assert_type((run.rank, run.world_size, run.generation), Tuple[int, int, int])
    assert_type((run.data_rank, run.data_world_size), Tuple[int, int])
    assert_type((run.total_steps, run.batch_per_rank, run.seed), Tuple[int, int, int])
    assert_type(run.device, torch.device)


def number_of_first(run: paceline.Run) -> int:
    """A block may swallow what ends it, so that more may follow on it."""
    try:
        for step in run.steps():
            with step:
                return step.number
    except (paceline.Regroup, paceline.TrainingError):
        raise
    return -1


def main() -> None:
    run = paceline.init(mesh={"shard": 2, "tensor": 2}, steps=10, batch_per_rank=2, seed=1)
    assert_type(run, paceline.Run)
    train(run, [])
