"""SwinV2-MoE: Swin Transformer V2, small, in whose last two stages every second block has 16 experts.

Images of 192 x 192, windows of 12 x 12; of a batch an expert takes so many tokens at most (its capacity factor), those
of the highest scores.
"""

import math

import torch
from brainstorm.torch import Routed
from torch import nn


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.outer(nn.functional.gelu(self.inner(x)))


class Mixture(nn.Module):
    """Each token goes to the expert of its largest score while that has room: tokens of high scores are served first,
    those beyond add nothing."""

    def __init__(self, width, sizes):
        super().__init__()
        self.gate = nn.Linear(width, sizes.experts, bias=False)
        self.experts = Routed([FeedForward(width) for _ in range(sizes.experts)],
                              capacity=sizes.factor)

    def forward(self, x):
        rows = x.flatten(0, 1)
        return self.experts(rows, self.gate(rows).softmax(-1)).view(x.shape)


class Positions(nn.Module):
    """What is added to scores for the places of two tokens in a window, by a small net."""

    def __init__(self, window, heads, sizes):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, sizes.position), nn.ReLU(), nn.Linear(sizes.position, heads, bias=False))
        steps = torch.arange(-(window - 1), window) * 8.0 / (window - 1)
        steps = steps.sign() * torch.log2(steps.abs() + 1) / 3
        place = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"), -1).view(-1, 2)
        apart = place[:, None] - place[None] + window - 1
        self.register_buffer("steps", torch.cartesian_prod(steps, steps), persistent=False)
        self.register_buffer("pair", apart[..., 0] * (2 * window - 1) + apart[..., 1], persistent=False)

    def forward(self):
        return 16 * self.net(self.steps)[self.pair].permute(2, 0, 1).sigmoid()


class Attention(nn.Module):
    def __init__(self, width, heads, window, sizes):
        super().__init__()
        self.heads, self.positions = heads, Positions(window, heads, sizes)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.q_bias, self.v_bias = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))
        self.scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))

    def forward(self, x, mask):
        """x: [windows, tokens, width]; mask: [windows of an image, tokens, tokens], or none."""
        windows, tokens, width = x.shape
        bias = torch.cat([self.q_bias, torch.zeros_like(self.v_bias), self.v_bias])
        qkv = nn.functional.linear(x, self.qkv.weight, bias).view(windows, tokens, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        q, k = nn.functional.normalize(q, dim=-1), nn.functional.normalize(k, dim=-1)
        scores = q @ k.transpose(2, 3) * self.scale.clamp(max=math.log(100.0)).exp() + self.positions()
        if mask is not None:
            scores = scores.view(-1, len(mask), self.heads, tokens, tokens) + mask[None, :, None]
            scores = scores.view(windows, self.heads, tokens, tokens)
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape))


class Block(nn.Module):
    def __init__(self, width, heads, side, shifted, mixed, sizes):
        super().__init__()
        self.side, self.window = side, min(side, sizes.window)
        self.shift = self.window // 2 if shifted and side > self.window else 0
        self.attention = Attention(width, heads, self.window, sizes)
        self.feed = Mixture(width, sizes) if mixed else FeedForward(width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.register_buffer("mask", self.apart() if self.shift else None, persistent=False)

    def apart(self):
        """Tokens of a window do not see each other across the edge that a shift has moved inside."""
        part = torch.zeros(self.side)
        part[-self.window:], part[-self.shift:] = 1, 2
        parts = self.windows((part[:, None] * 3 + part[None]).view(1, -1, 1)).squeeze(-1)
        return (parts[:, :, None] != parts[:, None]) * -100.0

    def windows(self, x):
        n, w = self.side // self.window, self.window
        return x.view(-1, n, w, n, w, x.shape[-1]).transpose(2, 3).reshape(-1, w * w, x.shape[-1])

    def image(self, x):
        n, w = self.side // self.window, self.window
        return x.view(-1, n, n, w, w, x.shape[-1]).transpose(2, 3).reshape(-1, self.side ** 2, x.shape[-1])

    def moved(self, x, by):
        return x.view(-1, self.side, self.side, x.shape[-1]).roll((by, by), (1, 2)).view(x.shape) if self.shift else x

    def forward(self, x):
        y = self.windows(self.moved(x, -self.shift))
        x = x + self.norm1(self.moved(self.image(self.attention(y, self.mask)), self.shift))
        return x + self.norm2(self.feed(x))


class Merging(nn.Module):
    """Four neighbours are one token of twice the width."""

    def __init__(self, width, side):
        super().__init__()
        self.side, self.reduction = side, nn.Linear(4 * width, 2 * width, bias=False)
        self.norm = nn.LayerNorm(2 * width)

    def forward(self, x):
        x = x.view(-1, self.side // 2, 2, self.side // 2, 2, x.shape[-1]).permute(0, 1, 3, 4, 2, 5)
        return self.norm(self.reduction(x.reshape(len(x), self.side ** 2 // 4, -1)))


class SwinMoE(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.patches, self.norm = nn.Conv2d(3, sizes.width, 4, 4), nn.LayerNorm(sizes.width)
        layers, side, width = [], sizes.image // 4, sizes.width
        for stage, (depth, heads) in enumerate(zip(sizes.depths, sizes.heads)):
            layers += [Block(width, heads, side, n % 2 == 1, stage >= 2 and n % 2 == 1, sizes) for n in range(depth)]
            if stage < len(sizes.depths) - 1:
                layers.append(Merging(width, side))
                side, width = side // 2, 2 * width
        self.layers, self.last, self.head = nn.Sequential(*layers), nn.LayerNorm(width), nn.Linear(width, sizes.classes)

    def forward(self, images):
        """[batch, 3, side, side]: logits."""
        x = self.layers(self.norm(self.patches(images).flatten(2).transpose(1, 2)))
        return self.head(self.last(x).mean(1))
