"""One rank that trains a wide network by torch.optim.AdamW and saves it every few steps: in a session
of Paceline's, or with DistributedDataParallel and async_save of torch.distributed.checkpoint.

Tells, on standard output or in --out, {"blocked": [s of each save], "durable": [...]}; of a session only
the first, since its job tells the others. --way restore: a new process that reads the newest checkpoint of
async_save, {"restored": s}. A save blocks what lies behind its step and
what the next update takes, beyond what they take without one.
"""
import argparse
import itertools
import json
import os
import pathlib
import statistics
import time

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.state_dict_saver import AsyncCheckpointerType

KINDS = {"dcp-async-thread": AsyncCheckpointerType.THREAD,
         "dcp-async-process": AsyncCheckpointerType.PROCESS}


def make(args):
    """The network, its optimizer and its input."""
    torch.manual_seed(1)
    model = nn.Sequential(*(nn.Linear(args.width, args.width) for _ in range(args.layers)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    return model, optimizer, torch.rand(args.batch, args.width)


def blocked(updates, pauses, every):
    usual = statistics.median(updates) + statistics.median(pauses)
    return [max(0, pauses[save] + updates[save + 1] - usual)
            for save in range(every - 1, len(updates) - 1, every)]


class Clock:
    """What the updates take, and what lies between each and the next forward pass."""

    def __init__(self):
        self.updates, self.pauses, self.ended = [], [], None

    def begin_step(self):
        if self.ended is not None:
            self.pauses.append(time.monotonic() - self.ended)

    def update(self, make_update):
        began = time.monotonic()
        make_update()
        self.ended = time.monotonic()
        self.updates.append(self.ended - began)


def in_session(args):
    import paceline  # pylint: disable=import-outside-toplevel

    run = paceline.init()
    model, optimizer, inputs = make(args)
    run.attach(model, optimizer)
    clock, source = Clock(), itertools.repeat(inputs)
    for step in run.steps():
        clock.begin_step()
        with step:
            for batch in step.batches(source):
                step.backward(model(batch).square().mean())
            clock.update(step.update)
    if args.out:
        path = str(args.out).replace("{rank}", str(run.rank))
        pathlib.Path(path).write_text(json.dumps(
            {"blocked": blocked(clock.updates, clock.pauses, args.every)}), encoding="utf-8")


class Saves:
    """By async_save, one after the other."""

    def __init__(self, args):
        self.args, self.upload, self.durable = args, None, []
        # Its collectives go on beside those of the training.
        self.group = dist.new_group()

    def begin(self, number, model, optimizer):
        if self.upload is not None:
            self.upload.result()
        began = time.monotonic()
        state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
        self.upload = dcp.async_save(
            state, checkpoint_id=self.path(number), process_group=self.group,
            async_checkpointer_type=KINDS[self.args.way])
        self.upload.add_done_callback(
            lambda _: self.durable.append(time.monotonic() - began))

    def path(self, number):
        return self.args.directory / f"step-{number}"


def connect(args):
    dist.init_process_group("gloo", init_method=f"file://{args.store}", rank=args.rank,
                            world_size=args.ranks)


def with_dcp(args):
    connect(args)
    model, optimizer, inputs = make(args)
    wrapped = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    clock, saves = Clock(), Saves(args)
    for number in range(1, args.steps + 1):
        clock.begin_step()
        optimizer.zero_grad()
        wrapped(inputs).square().mean().backward()
        clock.update(optimizer.step)
        if number % args.every == 0:
            saves.begin(number, model, optimizer)
    saves.upload.result()
    dist.barrier()
    print(json.dumps({"blocked": blocked(clock.updates, clock.pauses, args.every),
                      "durable": saves.durable}), flush=True)
    dist.barrier()
    if args.way == "dcp-async-thread":
        os._exit(0)  # At an ordinary exit its thread sometimes makes the process abort.


def restore(args):
    """As a process that goes on from the newest checkpoint does."""
    connect(args)
    model, optimizer, _ = make(args)
    newest = max(args.directory.glob("step-*"), key=lambda path: int(path.name.removeprefix("step-")))
    dist.barrier()
    began = time.monotonic()
    state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))
    dcp.load(state, checkpoint_id=newest)
    set_state_dict(model, optimizer, model_state_dict=state["model"],
                   optim_state_dict=state["optimizer"])
    print(json.dumps({"restored": time.monotonic() - began}), flush=True)
    dist.barrier()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", choices=["session", "restore", *KINDS], required=True)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=21)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--every", type=int, required=True, help="steps from save to save")
    parser.add_argument("--steps", type=int, help="not of a session, whose job has them")
    parser.add_argument("--directory", type=pathlib.Path, help="for checkpoints; as --steps")
    parser.add_argument("--store", help="file where the ranks meet; as --steps")
    parser.add_argument("--rank", type=int, default=0)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--out", help="of a session; {rank} is replaced")
    args = parser.parse_args()
    torch.set_num_threads(1)
    {"session": in_session, "restore": restore}.get(args.way, with_dcp)(args)


if __name__ == "__main__":
    main()
