"""A user's training script: its own model with statistics and dropout, AdamW, a schedule, random
numbers of Python and NumPy. At the end it writes all that it has trained to OUT.

It may be told, by its environment, to do something in a phase of a step, as rank R. `AT` has it for
each generation from the first on: `phase step R what, phase step R what`. What: kill, kill:N (in N
microseconds, wherever the process is by then), wait (until it is killed), exit, raise.

`DIES: take` kills the process that first hands its state to a newcomer, in the middle; `DIES: put`
the one that first takes over another's; `DIES: rehearsal` the spare that is first in a rehearsal.
HABITS are words for what scripts do besides.
"""

import os
import random
import signal
import socket
import sys
import threading
import time
import traceback

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


class Witness:
    """Attached as well; it sees when state is handed over."""

    def state_dict(self):
        self._die_in("take")
        return {}

    def load_state_dict(self, _state):
        self._die_in("put")

    def _die_in(self, function):
        callers = traceback.extract_stack(limit=4) if settings.get("DIES") == function else []
        if any(frame.name == function for frame in callers):
            die_first()


def die_first():
    try:
        open(f"{settings['OUT']}/died", "x", encoding="utf-8").close()
    except FileExistsError:  # Another process has.
        return
    die("kill")


def count_compiled(graph, _inputs):
    """A compiler that leaves everything as it is."""
    print("compiles", flush=True)
    return graph.forward


class Positioned:
    """A loader of the script's own that tells its position: the interface of torchdata's
    StatefulDataLoader."""

    def __init__(self):
        self.at = 0

    def __iter__(self):
        while (self.at + 1) * 12 <= len(inputs):
            first = self.at * 12 + run.rank * 4
            self.at += 1
            yield torch.utils.data.default_collate([Samples()[first + i] for i in range(4)])
        self.at = 0

    def state_dict(self):
        return {"at": self.at}

    def load_state_dict(self, loaded):
        self.at = loaded["at"]


connection = echo()
run = paceline.init()
settings = os.environ
torch.manual_seed(1)
width = int(settings.get("WIDTH", 16))
model = nn.Sequential(nn.Linear(8, width), nn.BatchNorm1d(width), nn.GELU(), nn.Dropout(0.2),
                      nn.Linear(width, 3)).to(run.device)
kind = getattr(torch.optim, settings.get("OPTIMIZER", "AdamW"))
optimizer = kind(model.parameters(), lr=0.01)
habits = settings.get("HABITS", "").split()
# Used by every third step, if at all.
aside = nn.Linear(8, 8).to(run.device)
if "unused" in habits:
    optimizer.add_param_group({"params": list(aside.parameters())})
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, run.total_steps)
positioned = Positioned()
run.attach({"net": model, "aside": aside} if "unused" in habits else model, optimizer, scheduler,
           Witness(), own=[positioned], unused_parameters="unused" in habits)
# Equal on all ranks, and so they stay: a newcomer gets another rank's.
random.seed(5)
numpy.random.seed(6)

generator = torch.Generator().manual_seed(2)
inputs = torch.randn(int(settings.get("SAMPLES", 203)), 8, generator=generator)
drawn = []  # Indices, of the step under way.


class Samples(torch.utils.data.Dataset):
    """The inputs, perhaps with noise, and which of their first numbers is the greatest."""

    def __len__(self):
        return len(inputs)

    def __getitem__(self, index):
        drawn.append(index)
        noise = torch.randn(8) * 0.1 if "augment" in habits else 0
        return inputs[index] + noise, inputs[index, :3].argmax()


def loss_of(out, y):
    return nn.functional.cross_entropy(out, y)


if "compile" in habits:
    loss_of = torch.compile(loss_of, backend=count_compiled)


def draw():
    """Batches of samples that are drawn at random, without end."""
    while True:
        yield torch.utils.data.default_collate(
            [Samples()[i] for i in torch.randint(len(inputs), (run.batch_per_rank,))])


loader = run.loader(Samples(), num_workers=int(settings.get("WORKERS", 0)))
if "draw" in habits:
    loader = draw()
elif "own" in habits:
    loader = positioned
AT = [moment.split() for moment in settings.get("AT", "").split(",")]
tried = set()  # Steps.
doomed_step = None  # In which the process was told to die in a moment.
own_trace = None  # A torch.profiler of the script's own,
own_end = None    # and in which step it ends.


def die(what):
    what, _, microseconds = what.partition(":")
    if microseconds:
        signal.setitimer(signal.ITIMER_REAL, int(microseconds) / 1e6)  # Python does not handle it.
    elif what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "wait":
        signal.pause()
    elif what == "exit":
        sys.exit(3)
    else:
        raise ValueError("a mistake of the script")


def at(phase, number):
    global doomed_step
    if doomed_step is not None and number > doomed_step + 1:
        signal.pause()
    moment = AT[run.generation - 1] if 0 < run.generation <= len(AT) else []
    if moment[:3] == [phase, str(number), str(run.rank)]:
        doomed_step = number
        die(moment[3])


def trace(number):
    """`own_profile`: from the first step on until there is the file OUT/end. `meets_profile`: three
    steps, once Paceline traces. `dies_profiled`: rank 1 dies instead."""
    global own_trace, own_end
    traced = torch.autograd._profiler_enabled()
    if "dies_profiled" in habits and traced and run.rank == run.generation == 1:
        die("kill")
    if own_trace is None and ("own_profile" in habits or "meets_profile" in habits and traced):
        own_trace = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        own_trace.start()
        own_end = number + 3
    elif own_end is not None and number >= own_end and (
            "meets_profile" in habits or os.path.exists(f"{settings['OUT']}/end")):
        own_trace.stop()
        own_end = None
        events = own_trace.profiler.kineto_results.events()
        print("its own trace has", sum(event.name() == "aten::linear" for event in events),
              "linears", flush=True)


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


def rehearse():
    print("rehearses as rank", run.rank, "of", run.world_size, flush=True)
    if settings.get("DIES") == "rehearsal":
        die_first()
    if "stumble" in habits:
        raise ValueError("a mistake in the rehearsal")
    while "linger" in habits and not os.path.exists(f"{settings['OUT']}/needed"):
        time.sleep(0.001)


def train(step):
    trace(step.number)
    at("forward", step.number)
    if "report" in habits:
        run.report(newest=torch.tensor(step.number))
        if step.number < 10 and step.number not in tried:
            run.report(first_try=step.number)
        tried.add(step.number)
    for x, y in step.batches(draw() if "draw_by_step" in habits else loader):
        if step.rehearsal:
            rehearse()
        if "unused" in habits and step.number % 3 == 0:
            x = aside(x)
        noise = random.random() * 0.1 + numpy.random.rand() * 0.1
        hidden = Dies.apply(model[0](x + noise), step.number)
        if "group" in habits:
            whole = hidden.detach().sum().reshape(1)
            at("collective", step.number)
            torch.distributed.all_reduce(whole, group=run.process_group)
            hidden = hidden + 1e-3 * whole
        loss = loss_of(model[1:](hidden), y)
        loss.backward() if "plain" in habits else step.backward(loss)
    at("before_update", step.number)
    if "save" in habits and step.number == 6 or "saves" in habits:
        run.save()
    if "fork" in habits and step.number == 5:
        child = os.fork() or sys.exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    if "plain" in habits:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    else:
        step.update(clip=1.0)
    at("updated", step.number)
    scheduler.step()


for step in run.steps(rehearse="rehearse" in habits):
    drawn.clear()
    at("begin", step.number)
    with step:
        try:
            train(step)
        except BaseException:
            if "swallow" not in habits:
                raise
    if "tell" in habits and step.done:
        print("trained on", step.number, *drawn, flush=True)
    at("end", step.number)
    if "break" in habits and step.number + 1 == run.total_steps:
        break

if "OUT" in settings:
    state = [p.detach() for p in (*model.parameters(), *aside.parameters())]
    for group in optimizer.state.values():
        state += [group[name] for name in sorted(group)]
    state += [torch.tensor(scheduler.get_last_lr()), torch.tensor([random.random()]),
              torch.tensor([numpy.random.rand()])]
    with open(f"{settings['OUT']}/final.rank{run.rank}.safetensors", "wb") as file:
        for tensor in state:
            file.write(tensor.double().numpy().tobytes())
    with open(f"{settings['OUT']}/model.rank{run.rank}", "wb") as file:
        for parameter in model.parameters():
            file.write(parameter.detach().numpy().tobytes())
    if "artifact" in habits:
        run.artifact(f"{settings['OUT']}/model.rank{run.rank}", name="model")
        run.artifact(settings["OUT"])
connection.sendall(b"ping")
print("the connection answers", connection.recv(9).decode())
print("the schedule has made", scheduler.last_epoch, "steps")
print("the script has ended", flush=True)
