"""One rank of a small perceptron: under torchrun or torchft, the peers of our recovery, or in a
session.

    torchrun    started by torchrun; a checkpoint every --save-every steps on a file system in
                memory, from which all ranks go on when torchrun has started them again.
    torchft     one replica group of one rank, with its manager and store; survivors go on without
                the lost one.
    session     a rank of a job of Paceline's with `session: true`, whose ring has the steps.

sharded_recovery.py is the same with FSDP2.

The first two append a line "STEP NANOSECONDS PID" (CLOCK_MONOTONIC) to --steps after each committed
step.
"""
import argparse
import contextlib
import datetime
import os
import pathlib
import time

import torch
from torch import distributed, nn

THREADS = 1


class Recorder:
    def __init__(self, path):
        self.file = open(path, "a", buffering=1, encoding="ascii")

    def committed(self, step):
        self.file.write(f"{step} {time.monotonic_ns()} {os.getpid()}\n")


def perceptron(args):
    widths = [args.inputs, *args.hidden, args.classes]
    layers = []
    for before, after in zip(widths, widths[1:]):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train_step(model, optimizer, inputs, targets):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), targets).backward()
    optimizer.step()


def batches(args):
    generator = torch.Generator().manual_seed(args.rank)
    while True:
        yield (torch.rand(args.batch, args.inputs, generator=generator),
               torch.randint(args.classes, (args.batch,), generator=generator))


def save(path, step, model, optimizer):
    torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()},
               path.with_suffix(".new"))
    os.replace(path.with_suffix(".new"), path)


def under_torchrun(args):
    # A store of its own: with the launcher's store no restart succeeds (torchrun --standalone).
    attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    store = distributed.FileStore(f"{args.checkpoint}.store{attempt}", args.ranks)
    distributed.init_process_group("gloo", store=store, rank=args.rank, world_size=args.ranks,
                                   timeout=datetime.timedelta(seconds=60))
    inner = perceptron(args)
    model = nn.parallel.DistributedDataParallel(inner)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    step = 0
    if args.checkpoint.exists():
        state = torch.load(args.checkpoint, weights_only=True)
        step = state["step"]
        inner.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    recorder = Recorder(args.steps)
    for inputs, targets in batches(args):
        train_step(model, optimizer, inputs, targets)
        step += 1
        if args.rank == 0 and step % args.save_every == 0:
            save(args.checkpoint, step, inner, optimizer)
        recorder.committed(step)


def under_torchft(args):
    import torchft

    store = distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    inner = perceptron(args)
    optimizer = torch.optim.SGD(inner.parameters(), lr=0.01, momentum=0.9)
    timeout = datetime.timedelta(seconds=args.timeout)
    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=timeout), min_replica_size=args.ranks - 1,
        load_state_dict=lambda state: (inner.load_state_dict(state["model"]),
                                       optimizer.load_state_dict(state["optimizer"])),
        state_dict=lambda: {"model": inner.state_dict(), "optimizer": optimizer.state_dict()},
        timeout=timeout, heartbeat_interval=datetime.timedelta(seconds=args.heartbeat),
        rank=0, world_size=1, store_addr="localhost", store_port=store.port,
        lighthouse_addr=args.lighthouse, replica_id=f"replica_{args.replica}")
    train_under_torchft(args, manager, torchft.DistributedDataParallel(manager, inner), optimizer)


def train_under_torchft(args, manager, model, optimizer):
    import torchft

    wrapped = torchft.Optimizer(manager, optimizer)
    recorder = Recorder(args.steps)
    done = 0
    for inputs, targets in batches(args):
        train_step(model, wrapped, inputs, targets)
        if manager.current_step() > done:
            done = manager.current_step()
            recorder.committed(done)


def in_session(args):
    train_session(args, lambda _: perceptron(args))


def train_session(args, make_model):
    import paceline

    run = paceline.init()
    model = make_model(run)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    run.attach(model, optimizer)
    args.rank = max(run.rank, 0)
    drawn = batches(args)
    for step in run.steps():
        with step:
            for inputs, targets in step.batches(drawn):
                step.backward(nn.functional.cross_entropy(model(inputs), targets))
            step.update()


def run(doc, ways):
    """ways: what a way of the command line calls with the options."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("way", choices=ways)
    parser.add_argument("--inputs", type=int, default=1024)
    parser.add_argument("--hidden", type=int, nargs="*", default=[])
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--shards", type=int, default=1, help="ranks of a replica")
    parser.add_argument("--replica", type=int, default=0, help="of torchft")
    parser.add_argument("--steps", type=pathlib.Path, help="{rank} is replaced; not of a session")
    parser.add_argument("--checkpoint", type=pathlib.Path,
                        help="of torchrun; stores have names that begin with it")
    parser.add_argument("--save-every", type=int, default=1, help="of torchrun, steps")
    parser.add_argument("--lighthouse", help="of torchft")
    parser.add_argument("--timeout", type=float, default=60, help="of torchft, seconds")
    parser.add_argument("--heartbeat", type=float, default=0.1, help="of torchft, seconds")
    args = parser.parse_args()
    # Under torchft, torchrun counts the ranks of a replica.
    args.rank = args.replica * args.shards + int(os.environ.get("RANK", 0))
    args.steps = pathlib.Path(str(args.steps).replace("{rank}", str(args.rank)))
    torch.set_num_threads(THREADS)
    torch.manual_seed(0)
    with contextlib.suppress(KeyboardInterrupt):
        ways[args.way](args)


if __name__ == "__main__":
    run(__doc__, {"torchrun": under_torchrun, "torchft": under_torchft, "session": in_session})
