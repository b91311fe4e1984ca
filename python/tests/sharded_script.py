"""A user's script that trains a sharded model (fsdp_net.py): AdamW, a schedule, dropout. At the end
each rank writes its shards and their optimizer's state to OUT, and the whole of both.

`AT` has, for each generation from the first on and separated by commas, what happens in it:
`phase step rank what`, several of them separated by `+`. What: kill; wait (until there is the file
OUT/go); deaf (behind the word, acts as if it had not got it). Phases: forward, backward (in the
middle of either), before_update, word (for deaf), updated. HABITS are words for what the script
does besides; `mesh=2x2`: its model is parallelized on a mesh of shard and tensor.
"""

import atexit
import os
import signal
import sys
import time

import torch
from torch import nn
from torch._C._distributed_c10d import HashStore
from torch.distributed.device_mesh import init_device_mesh

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import paceline  # noqa: E402
from fsdp_net import BLOCKS, ROWS, Net, build, build_parallel  # noqa: E402

settings = os.environ
habits = settings.get("HABITS", "").split()
if "handler" in habits:
    atexit.register(print, "the handler has run", flush=True)  # Behind the engine's.
sizes = [word.split("=")[1].split("x") for word in habits if word.startswith("mesh=")]
run = paceline.init(mesh=dict(zip(("shard", "tensor"), map(int, sizes[0]))) if sizes else None)
AT = [[moment.split() for moment in generation.split("+")]
      for generation in settings.get("AT", "").split(",")]


def is_at(phase, number, what):
    moments = AT[run.generation - 1] if 0 < run.generation <= len(AT) else []
    return [phase, str(number), str(run.rank), what] in moments


def at(phase, number):
    if is_at(phase, number, "kill"):
        os.kill(os.getpid(), signal.SIGKILL)
    while is_at(phase, number, "wait") and not os.path.exists(f"{settings['OUT']}/go"):
        time.sleep(0.001)


class Deaf:
    """An engine whose word does not arrive."""

    def __init__(self, engine):
        self._engine = engine

    def __getattr__(self, name):
        return getattr(self._engine, name)

    def before_update(self, clip):
        self._engine.before_update(clip)
        raise torch.distributed.DistBackendError("deaf")


if "whole" in habits:
    model = Net()
elif "own_mesh" in habits:
    torch.distributed.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    model = build(init_device_mesh("cpu", (1,)))
else:
    model = build_parallel(run.mesh) if sizes else build(run.mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.9)
run.attach(model, optimizer, scheduler)


def cannot_leave():
    raise RuntimeError("it cannot leave")


if "stuck" in habits:
    run._sharded.leave = cannot_leave
generator = torch.Generator().manual_seed(2)
data = torch.randint(0, ROWS, (203, 6), generator=generator)
loader = run.loader(data)
numbers = [0]  # Of the step under way.


def before_middle(*_):
    at("forward", numbers[0])


def after_middle(_module, _inputs, output):
    if output.requires_grad:
        output.register_hook(lambda _: at("backward", numbers[0]))


middle = model.blocks[BLOCKS // 2]
middle.register_forward_pre_hook(before_middle)
middle.register_forward_hook(after_middle)


def loss_of(tokens):
    return nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.roll(1, 1).flatten())


@run.evaluation
def evaluate(rank, _world_size):
    tokens = data[8 * rank:8 * rank + 8]  # As many batches on all ranks.
    return paceline.Score(loss=float(loss_of(tokens)) * len(tokens), count=len(tokens))


for step in run.steps():
    numbers[0] = step.number
    with step:
        torch.manual_seed(1000 * step.number + run.data_rank)  # Of the dropout.
        if is_at("word", step.number, "deaf"):
            step._engine = Deaf(step._engine)
        for tokens in step.batches(loader):
            step.backward(loss_of(tokens))
        at("before_update", step.number)
        if "save" in habits and step.number == 6:
            run.save()
        step.update(clip=0.5)
        at("updated", step.number)
        if "metric" in habits:
            model.head.weight.detach().full_tensor()
        if not ("lazy" in habits and step.number == 3):
            scheduler.step()

state = [*model.parameters()]
for p in model.parameters():
    state += [optimizer.state[p][name] for name in sorted(optimizer.state[p])]
state.append(torch.tensor(scheduler.get_last_lr()))


def write(name, tensors):
    with open(f"{settings['OUT']}/{name}.rank{run.rank}.safetensors", "wb") as file:
        for tensor in tensors:
            file.write(tensor.detach().double().contiguous().numpy().tobytes())


write("final", [getattr(t, "_local_tensor", t) for t in state])
if run.rank >= 0:
    write("whole", [t.full_tensor() if hasattr(t, "full_tensor") else t for t in state])
print("the script has ended", flush=True)
