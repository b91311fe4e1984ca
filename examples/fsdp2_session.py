"""A small language model, sharded by FSDP2, in a session: it learns this file. A rank that dies is
replaced by a spare, whatever part of the model it had, and the job goes on exactly. Its checkpoints
are those of any number of ranks and shards.

Start:      paceline dev up; paceline submit examples/fsdp2_session.yaml
Or alone, as one rank:   python examples/fsdp2_session.py

Needs paceline's wheel and torch (docs/session.md, "Sharded models").
"""

import pathlib

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset

import paceline

LENGTH, WIDTH, LAYERS = 32, 64, 3


class Text(Dataset):
    """Pieces of this file, and the same one byte later."""

    def __init__(self):
        self.bytes = torch.tensor(list(pathlib.Path(__file__).read_bytes()))

    def __len__(self):
        return len(self.bytes) - LENGTH

    def __getitem__(self, at):
        piece = self.bytes[at:at + LENGTH + 1]
        return piece[:-1], piece[1:]


class Model(nn.Module):
    """A transformer over bytes."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 2, 4 * WIDTH, dropout=0, batch_first=True,
                                       norm_first=True) for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, 256)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(LENGTH, device=tokens.device)
        x = self.tokens(tokens) + self.places(torch.arange(LENGTH, device=tokens.device))
        for layer in self.layers:
            x = layer(x, mask, is_causal=True)
        return self.head(x)


run = paceline.init(steps=100, batch_per_rank=8)
torch.manual_seed(run.seed)
model = Model().to(run.device)
for layer in model.layers:
    fully_shard(layer, mesh=run.mesh)
fully_shard(model, mesh=run.mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, run.total_steps)
run.attach(model, optimizer, scheduler)
loader = run.loader(Text())

for step in run.steps():
    with step:
        for inputs, targets in step.batches(loader):
            logits = model(inputs.to(run.device))
            step.backward(cross_entropy(logits.flatten(0, 1), targets.to(run.device).flatten()))
        step.update(clip=1.0)
        scheduler.step()
