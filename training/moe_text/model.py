"""The character model: four layers of attention and sixteen experts, two of them a character.

The shape is fixed, because examples/moe_text and the shipped weights share it.
"""

import torch
import torch.nn.functional as F
from torch import nn

CODES = 96
WIDTH = 96
LAYERS = 4
HEADS = 6
HEAD = WIDTH // HEADS
WINDOW = 128  # attention reaches this many positions, its own included
EXPERTS = 16
TOP = 2
HIDDEN = 192


def slopes():
    """ALiBi: what a head takes off a score for each position of distance."""
    return torch.tensor([2.0 ** (-8.0 * (h + 1) / HEADS) for h in range(HEADS)])


def distance_bias(length):
    """[heads, length, length]; -inf for the future and for what is out of the window."""
    place = torch.arange(length)
    distance = place[:, None] - place[None, :]
    bias = -slopes()[:, None, None] * distance
    return bias.masked_fill((distance < 0) | (distance >= WINDOW), float("-inf"))


class Mixed:
    """How the large products are computed: in float, or in bfloat16 with float weights."""

    low = False

    @classmethod
    def cast(cls, tensor):
        return tensor.bfloat16() if cls.low else tensor


def linear(x, weight, bias=None):
    return F.linear(Mixed.cast(x), Mixed.cast(weight), None if bias is None else Mixed.cast(bias))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Parameter(torch.randn(3 * WIDTH, WIDTH) * WIDTH**-0.5)
        self.out = nn.Parameter(torch.randn(WIDTH, WIDTH) * WIDTH**-0.5 / (2 * LAYERS) ** 0.5)

    def forward(self, x, bias):
        size, length, _ = x.shape
        qkv = linear(x, self.qkv).view(size, length, 3, HEADS, HEAD).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        score = q @ k.transpose(-1, -2) * HEAD**-0.5 + bias
        mixed = F.softmax(score, -1) @ v
        return linear(mixed.transpose(1, 2).reshape(size, length, WIDTH), self.out).float()


class Experts(nn.Module):
    """Top-2 of sixteen; rows are sorted by expert and padded, so that all experts are two batched products."""

    def __init__(self):
        super().__init__()
        self.router = nn.Parameter(torch.randn(EXPERTS, WIDTH) * 0.02)
        self.up = nn.Parameter(torch.randn(EXPERTS, HIDDEN, WIDTH) * WIDTH**-0.5)
        self.up_bias = nn.Parameter(torch.zeros(EXPERTS, HIDDEN))
        self.down = nn.Parameter(torch.randn(EXPERTS, WIDTH, HIDDEN) * HIDDEN**-0.5 / (2 * LAYERS) ** 0.5)
        self.down_bias = nn.Parameter(torch.zeros(EXPERTS, WIDTH))

    def route(self, x):
        """The scores stay float: two near scores must not be swapped by rounding."""
        share = F.softmax(x @ self.router.t(), -1)
        top, chosen = share.topk(TOP, -1)
        return share, chosen, top / top.sum(-1, keepdim=True)

    def forward(self, x):
        """x [rows, width] -> the sum, the chosen experts and the balance loss."""
        share, chosen, gate = self.route(x)
        flat = chosen.reshape(-1)
        order = flat.argsort(stable=True)
        load = torch.bincount(flat, minlength=EXPERTS)
        # Few different shapes: the products' set-up is kept per shape and costs more than the work.
        room = (int(load.max()) + 127) // 128 * 128
        first = F.pad(load.cumsum(0), (1, 0))[:-1]
        expert = flat[order]
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order)) - first[expert] + expert * room
        rows = torch.zeros(EXPERTS * room, dtype=torch.long).scatter_(0, place, torch.arange(len(flat)) // TOP)
        parts = Mixed.cast(x)[rows].view(EXPERTS, room, WIDTH)
        hidden = F.gelu(torch.baddbmm(Mixed.cast(self.up_bias).unsqueeze(1), parts,
                                      Mixed.cast(self.up).transpose(1, 2)))
        made = torch.baddbmm(Mixed.cast(self.down_bias).unsqueeze(1), hidden, Mixed.cast(self.down).transpose(1, 2))
        y = (made.view(-1, WIDTH)[place].float().view(-1, TOP, WIDTH) * gate.unsqueeze(-1)).sum(1)
        balance = EXPERTS * (load.float() / len(flat) * share.mean(0)).sum()
        return y, chosen, balance


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH, eps=1e-5)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH, eps=1e-5)
        self.experts = Experts()


class Text(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.embed = nn.Embedding(CODES, WIDTH)
        nn.init.normal_(self.embed.weight, std=0.5)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH, eps=1e-5)
        self.head = nn.Linear(WIDTH, CODES)
        nn.init.normal_(self.head.weight, std=0.02)
        self.dropout = dropout

    def drop(self, x):
        """Leaves out a branch's whole row, now and then: cheaper than single values, and enough."""
        if not self.dropout or not self.training:
            return x
        return x * (torch.rand(*x.shape[:2], 1) >= self.dropout) / (1 - self.dropout)

    def forward(self, codes, watch=None):
        """codes [sequences, length] -> logits and the balance loss of each layer.

        `watch(layer, x, chosen)` is told each router's own position of the stream, x after
        attention and before the experts, [sequences * length, width].
        """
        size, length = codes.shape
        bias = distance_bias(length)
        bias = Mixed.cast(bias)
        x = self.embed(codes)
        balance = []
        for index, layer in enumerate(self.layers):
            x = x + self.drop(layer.attention(layer.norm1(x), bias))
            y, chosen, loss = layer.experts(layer.norm2(x).view(-1, WIDTH))
            if watch:
                watch(index, x.reshape(-1, WIDTH), chosen)
            x = x + self.drop(y.view(size, length, WIDTH))
            balance.append(loss)
        return linear(self.norm(x), self.head.weight, self.head.bias).float(), balance
