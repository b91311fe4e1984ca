"""A Llama in plain PyTorch: what worker/trainer/model/llama.cc is compared with.

Written from the definition, operation by operation, with the attention as a masked softmax and
without any of torch's fused operations, so that it shares nothing with what it checks.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


class RmsNorm(nn.Module):
    def __init__(self, dim, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.epsilon = epsilon

    def forward(self, x):
        return self.weight * x / torch.sqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon)


def rotate(x, theta):
    """x: [batch, heads, length, head_dim]; pairs are (i, i + head_dim / 2).

    The angles are rounded to fp32, whatever x is, as weights are trained with.
    """
    length, dim = x.shape[-2:]
    frequencies = 1 / theta ** (torch.arange(0, dim, 2).float() / dim)
    angles = (torch.arange(length).float()[:, None] * frequencies).to(x.dtype)
    first, second = x[..., : dim // 2], x[..., dim // 2:]
    return torch.cat((first * angles.cos() - second * angles.sin(),
                      second * angles.cos() + first * angles.sin()), -1)


class Attention(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.heads, self.kv_heads, self.theta = size["heads"], size["kv_heads"], size["theta"]
        self.head_dim = size["dim"] // self.heads
        kv_dim = self.head_dim * self.kv_heads
        self.q_proj = nn.Linear(size["dim"], size["dim"], bias=False)
        self.k_proj = nn.Linear(size["dim"], kv_dim, bias=False)
        self.v_proj = nn.Linear(size["dim"], kv_dim, bias=False)
        self.o_proj = nn.Linear(size["dim"], size["dim"], bias=False)

    def forward(self, x):
        batch, length, dim = x.shape
        q = self.q_proj(x).view(batch, length, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(batch, length, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = rotate(q, self.theta), rotate(k, self.theta)
        # Query head h reads key and value head h // (heads / kv_heads).
        k = k.repeat_interleave(self.heads // self.kv_heads, 1)
        v = v.repeat_interleave(self.heads // self.kv_heads, 1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.head_dim)
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(future, -math.inf).softmax(-1) @ v
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, dim))


class FeedForward(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gate_proj = nn.Linear(size["dim"], size["ffn_dim"], bias=False)
        self.up_proj = nn.Linear(size["dim"], size["ffn_dim"], bias=False)
        self.down_proj = nn.Linear(size["ffn_dim"], size["dim"], bias=False)

    def forward(self, x):
        gate = self.gate_proj(x)
        return self.down_proj(gate * torch.sigmoid(gate) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.self_attn = Attention(size)
        self.mlp = FeedForward(size)
        self.input_layernorm = RmsNorm(size["dim"], size["epsilon"])
        self.post_attention_layernorm = RmsNorm(size["dim"], size["epsilon"])

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Trunk(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.embed_tokens = nn.Embedding(size["vocab_size"], size["dim"])
        self.layers = nn.ModuleList(Block(size) for _ in range(size["layers"]))
        self.norm = RmsNorm(size["dim"], size["epsilon"])

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Llama(nn.Module):
    """`size`: dim, layers, heads, kv_heads, ffn_dim, vocab_size, theta, epsilon, tied."""

    def __init__(self, size):
        super().__init__()
        self.model = Trunk(size)
        self.lm_head = None
        if not size["tied"]:
            self.lm_head = nn.Linear(size["dim"], size["vocab_size"], bias=False)

    def forward(self, tokens):
        head = self.model.embed_tokens if self.lm_head is None else self.lm_head
        return F.linear(self.model(tokens), head.weight)
