"""recovery.py with FSDP2: one rank of a small perceptron that --shards ranks hold together.

    torchrun    replicas and shards are dimensions of one mesh; a checkpoint by
                torch.distributed.checkpoint every --save-every steps on a file system in memory,
                from which all ranks go on when torchrun has started them again.
    torchft     a rank of a replica group, with a manager and a store of the group; the other groups
                go on without one that has lost a rank, all of whose ranks torchrun starts again.
    session     a rank of a job of Paceline's with `session: true` and `shards`.
"""
import datetime
import os
import shutil

import torch
from torch import distributed, nn
from torch.distributed import checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard

import recovery

PATIENCE = datetime.timedelta(seconds=60)


def sharded_perceptron(args, mesh):
    model = recovery.perceptron(args)
    for layer in model[:-1]:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def make_optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def state_of(model, optimizer):
    return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))


def save(args, step, model, optimizer):
    dcp.save(state_of(model, optimizer), checkpoint_id=args.checkpoint / str(step))
    for folder in args.checkpoint.iterdir() if args.rank == 0 else ():
        if int(folder.name) < step:
            shutil.rmtree(folder)


def restore(args, model, optimizer):
    """Returns the step of the newest checkpoint that is complete; 0: there is none."""
    step = max((int(path.parent.name) for path in args.checkpoint.glob("*/.metadata")), default=0)
    if step > 0:
        state = state_of(model, optimizer)
        dcp.load(state, checkpoint_id=args.checkpoint / str(step))
        set_state_dict(model, optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])
    return step


def store_of(args, what):
    """A store of its own for each start: with the launcher's, no restart succeeds."""
    return distributed.FileStore(
        f"{args.checkpoint}.store.{what}.{os.environ['TORCHELASTIC_RESTART_COUNT']}",
        int(os.environ["WORLD_SIZE"]))


def under_torchrun(args):
    distributed.init_process_group("gloo", store=store_of(args, "all"), rank=args.rank,
                                   world_size=args.ranks, timeout=PATIENCE)
    model = sharded_perceptron(args, init_device_mesh(
        "cpu", (args.ranks // args.shards, args.shards), mesh_dim_names=("replica", "shard")))
    optimizer = make_optimizer(model)
    step = restore(args, model, optimizer)
    recorder = recovery.Recorder(args.steps)
    for inputs, targets in recovery.batches(args):
        recovery.train_step(model, optimizer, inputs, targets)
        step += 1
        if step % args.save_every == 0:
            save(args, step, model, optimizer)
        recorder.committed(step)


class Parts:
    """This rank's parts of the parameters and their momentum, which torchft sends as plain tensors.
    It does so beside a forward pass, in which the model shows other parameters, so they are listed
    beforehand."""

    def __init__(self, model, optimizer):
        self.tensors = []
        for parameter in model.parameters():
            momentum = torch.zeros_like(parameter, requires_grad=False)
            optimizer.state[parameter]["momentum_buffer"] = momentum
            self.tensors += [parameter, momentum]

    @torch.no_grad()
    def state(self):
        return {"parts": [tensor.to_local() for tensor in self.tensors]}

    @torch.no_grad()
    def load(self, state):
        for tensor, part in zip(self.tensors, state["parts"]):
            tensor.to_local().copy_(part)


def under_torchft(args):
    import torchft

    position = args.rank % args.shards
    met = store_of(args, args.replica)
    if position == 0:
        store = distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        met.set("port", str(store.port))
    distributed.init_process_group("gloo", store=met, rank=position, world_size=args.shards,
                                   timeout=PATIENCE)
    model = sharded_perceptron(args, init_device_mesh("cpu", (args.shards,)))
    optimizer = make_optimizer(model)
    parts = Parts(model, optimizer)
    timeout = datetime.timedelta(seconds=args.timeout)
    manager = torchft.Manager(
        pg=torchft.ProcessGroupGloo(timeout=timeout),
        min_replica_size=args.ranks // args.shards - 1, load_state_dict=parts.load,
        state_dict=parts.state, timeout=timeout,
        heartbeat_interval=datetime.timedelta(seconds=args.heartbeat),
        rank=position, world_size=args.shards, store_addr="localhost",
        store_port=int(met.get("port")), lighthouse_addr=args.lighthouse,
        replica_id=f"replica_{args.replica}")

    def mean_over_replicas(gradients):
        manager.allreduce(gradients).wait()

    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_all_reduce_hook(mean_over_replicas)
    recovery.train_under_torchft(args, manager, model, optimizer)


def in_session(args):
    recovery.train_session(args, lambda run: sharded_perceptron(args, run.mesh))


if __name__ == "__main__":
    recovery.run(__doc__, {"torchrun": under_torchrun, "torchft": under_torchft,
                           "session": in_session})
