"""A small language model, sharded by FSDP2, that learns this file; goes on from its newest checkpoint.

Start:      paceline run --ranks 2 --max-restarts 3 examples/fsdp2.py --checkpoints /tmp/fsdp2
On GPUs:    paceline run --ranks 8 --device cuda --max-restarts 3 examples/fsdp2.py --checkpoints DIR
Or:         torchrun --nproc-per-node 2 --max-restarts 3 examples/fsdp2.py --checkpoints /tmp/fsdp2
"""

import argparse
import os
import pathlib

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Text(Dataset):
    """Pieces of this file, and the same one byte later."""

    def __init__(self, length):
        self.bytes = torch.frombuffer(bytearray(pathlib.Path(__file__).read_bytes()), dtype=torch.uint8)
        self.length = length

    def __len__(self):
        return len(self.bytes) - self.length

    def __getitem__(self, at):
        piece = self.bytes[at:at + self.length + 1].long()
        return piece[:-1], piece[1:]


class Model(nn.Module):
    def __init__(self, dim, layers, length):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, dim), nn.Embedding(length, dim)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, dim // 32, 4 * dim, dropout=0, batch_first=True,
                                       norm_first=True) for _ in range(layers))
        self.head = nn.Linear(dim, 256)

    def forward(self, tokens):
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        x = self.tokens(tokens) + self.places(torch.arange(length, device=tokens.device))
        for layer in self.layers:
            x = layer(x, mask, is_causal=True)
        return self.head(x)


class State(dcp.stateful.Stateful):
    """What a checkpoint holds."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.step = model, optimizer, 0

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": self.step}

    def load_state_dict(self, state):
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"],
                       optim_state_dict=state["optimizer"])
        self.step = state["step"]


def newest(folder):
    """The newest checkpoint that is complete: its metadata are written last. None: there is none."""
    complete = [path.parent for path in folder.glob("step-*/.metadata")]
    return max(complete, key=lambda path: int(path.name.split("-")[1]), default=None)


def forever(loader):
    epoch = 0
    while True:
        loader.sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoints", type=pathlib.Path, required=True, help="folder of all ranks")
    parser.add_argument("--every", type=int, default=20, help="steps between checkpoints")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    args = parser.parse_args()

    dist.init_process_group()
    rank, kind = dist.get_rank(), "cuda" if torch.cuda.is_available() else "cpu"
    if kind == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    mesh = init_device_mesh(kind, (dist.get_world_size(),))
    torch.manual_seed(0)
    model = Model(args.dim, args.layers, args.length).to(kind)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    state = State(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
    # All ranks have to choose the same one.
    found = [newest(args.checkpoints) if rank == 0 else None]
    dist.broadcast_object_list(found)
    if found[0]:
        dcp.load({"training": state}, checkpoint_id=found[0])
    if rank == 0:
        print(f"begins at step {state.step}", flush=True)

    data = Text(args.length)
    loader = DataLoader(data, args.batch, sampler=DistributedSampler(data, seed=state.step))
    for inputs, targets in forever(loader):
        if state.step == args.steps:
            break
        loss = cross_entropy(model(inputs.to(kind)).flatten(0, 1), targets.to(kind).flatten())
        state.optimizer.zero_grad()
        loss.backward()
        state.optimizer.step()
        state.step += 1
        if state.step % args.every == 0 or state.step == args.steps:
            dcp.save({"training": state}, checkpoint_id=args.checkpoints / f"step-{state.step}")
            if rank == 0:
                print(f"step {state.step}: loss {loss.item():.3f}, saved", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
