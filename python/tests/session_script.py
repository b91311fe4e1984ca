"""A user's training script: its own model with statistics and dropout, AdamW, a schedule, random
numbers of Python and NumPy. It may be told, by its environment, to do something in a phase of a step,
as rank R of generation 1: `AT: phase step R what`. At the end it writes all that
it has trained to OUT."""

import os
import random
import signal
import socket
import sys
import threading

import numpy
import torch
from torch import nn

import paceline


def echo():
    """A connection of the script's own, to a thread that answers with what it gets."""
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    peer, _ = server.accept()
    threading.Thread(target=lambda: [peer.sendall(got) for got in iter(lambda: peer.recv(9), b"")],
                     daemon=True).start()
    return client


connection = echo()
run = paceline.init()
settings = os.environ
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.GELU(), nn.Dropout(0.2),
                      nn.Linear(16, 3)).to(run.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, run.total_steps)
run.attach(model, optimizer, scheduler)
# Equal on all ranks, and so they stay: a newcomer gets another rank's.
random.seed(5)
numpy.random.seed(6)

generator = torch.Generator().manual_seed(2)
inputs = torch.randn(203, 8, generator=generator)
loader = run.loader(torch.utils.data.TensorDataset(inputs, inputs[:, :3].argmax(1)),
                    num_workers=int(settings.get("WORKERS", 0)))
AT = (settings.get("AT", "") + " - - - -").split(" ")


def die(what):
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "exit":
        sys.exit(3)
    raise ValueError("a mistake of the script")


def at(phase, number):
    if AT[:3] == [phase, str(number), str(run.rank)] and run.generation == 1:
        die(AT[3])


class Dies(torch.autograd.Function):
    @staticmethod
    def forward(context, value, number):
        context.number = number
        return value.clone()

    @staticmethod
    def backward(context, gradient):
        at("backward", context.number)
        return gradient, None


@run.evaluation
def evaluate(rank, world_size):
    at("evaluation", 0)
    x = inputs[rank::world_size]
    y = x[:, :3].argmax(1)
    out = model(x)
    return paceline.Score(loss=float(nn.functional.cross_entropy(out, y, reduction="sum")),
                          correct=float((out.argmax(1) == y).sum()), count=len(x))


for step in run.steps():
    at("begin", step.number)
    with step:
        at("forward", step.number)
        for x, y in step.batches(loader):
            noise = random.random() * 0.1 + numpy.random.rand() * 0.1
            hidden = Dies.apply(model[0](x + noise), step.number)
            loss = nn.functional.cross_entropy(model[1:](hidden), y)
            loss.backward() if "PLAIN" in settings else step.backward(loss)
        at("before_update", step.number)
        if "PLAIN" in settings:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        else:
            step.update(clip=1.0)
        at("updated", step.number)
        scheduler.step()
    at("end", step.number)

if "OUT" in settings:
    state = [p.detach() for p in model.parameters()]
    for group in optimizer.state.values():
        state += [group[name] for name in sorted(group)]
    state += [torch.tensor(scheduler.get_last_lr()), torch.tensor([random.random()]),
              torch.tensor([numpy.random.rand()])]
    with open(f"{settings['OUT']}/final.rank{run.rank}.safetensors", "wb") as file:
        for tensor in state:
            file.write(tensor.double().numpy().tobytes())
connection.sendall(b"ping")
print("the connection answers", connection.recv(9).decode())
print("the script has ended", flush=True)
