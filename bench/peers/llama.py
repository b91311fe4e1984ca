"""A decoder-only transformer of the Llama family, written the way a PyTorch user would: the same
network, names and sizes as worker/trainer/model/llama (docs/models.md)."""
import dataclasses

import torch
from torch import nn
from torch.nn import functional as F


@dataclasses.dataclass
class Sizes:
    dim: int
    layers: int
    heads: int
    kv_heads: int
    ffn_dim: int
    vocab_size: int
    rope_theta: float = 1e4
    norm_epsilon: float = 1e-5
    tie_embeddings: bool = False


PRESETS = {
    "debug": Sizes(256, 6, 16, 16, 768, 2048, 5e5),
    "160m": Sizes(768, 12, 12, 12, 2048, 50304, 1e4),
    "1b": Sizes(2048, 16, 32, 8, 8192, 128256, 5e5, tie_embeddings=True),
    "8b": Sizes(4096, 32, 32, 8, 14336, 128256, 5e5),
}


def rotate(x, cos, sin):
    """Rotary embedding; x: [batch, heads, length, head_dim]."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.head_dim = sizes.dim // sizes.heads
        self.gqa = sizes.kv_heads != sizes.heads
        self.q_proj = nn.Linear(sizes.dim, sizes.heads * self.head_dim, bias=False)
        self.k_proj = nn.Linear(sizes.dim, sizes.kv_heads * self.head_dim, bias=False)
        self.v_proj = nn.Linear(sizes.dim, sizes.kv_heads * self.head_dim, bias=False)
        self.o_proj = nn.Linear(sizes.heads * self.head_dim, sizes.dim, bias=False)

    def forward(self, x, cos, sin):
        batch, length, _ = x.shape
        q, k, v = (projection(x).view(batch, length, -1, self.head_dim).transpose(1, 2)
                   for projection in (self.q_proj, self.k_proj, self.v_proj))
        y = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v,
                                           is_causal=True, enable_gqa=self.gqa)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.gate_proj = nn.Linear(sizes.dim, sizes.ffn_dim, bias=False)
        self.up_proj = nn.Linear(sizes.dim, sizes.ffn_dim, bias=False)
        self.down_proj = nn.Linear(sizes.ffn_dim, sizes.dim, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.input_layernorm = nn.RMSNorm(sizes.dim, eps=sizes.norm_epsilon)
        self.self_attn = Attention(sizes)
        self.post_attention_layernorm = nn.RMSNorm(sizes.dim, eps=sizes.norm_epsilon)
        self.mlp = FeedForward(sizes)

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.embed_tokens = nn.Embedding(sizes.vocab_size, sizes.dim)
        self.layers = nn.ModuleList(Block(sizes) for _ in range(sizes.layers))
        self.norm = nn.RMSNorm(sizes.dim, eps=sizes.norm_epsilon)


class Llama(nn.Module):
    """tokens [batch, length] -> scores [batch, length, vocabulary]."""

    def __init__(self, sizes, length):
        super().__init__()
        self.model = Decoder(sizes)
        self.lm_head = nn.Linear(sizes.dim, sizes.vocab_size, bias=False)
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
        if sizes.tie_embeddings:
            self.lm_head.weight = self.model.embed_tokens.weight
        head_dim = sizes.dim // sizes.heads
        wavelengths = sizes.rope_theta ** (torch.arange(0, head_dim, 2).float() / head_dim)
        angles = torch.outer(torch.arange(length).float(), 1 / wavelengths).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens):
        x = self.model.embed_tokens(tokens)
        cos, sin = self.cos.to(x.dtype), self.sin.to(x.dtype)
        for block in self.model.layers:
            x = block(x, cos, sin)
        return self.lm_head(self.model.norm(x))
