"""Switch-base: 12 layers that encode and 12 that decode, every second one with experts of which each token takes one.

Shapes are those of switch-base-8 .. switch-base-256: at most 64 tokens of a sequence an expert, first come, first
served. Token numbers come in, logits of the vocabulary come out.
"""

import torch
from torch import nn

BUCKETS, FARTHEST = 32, 128  # of relative positions


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6))


class FeedForward(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.wi = nn.Linear(sizes.width, sizes.hidden, bias=False)
        self.wo = nn.Linear(sizes.hidden, sizes.width, bias=False)

    def forward(self, x):
        return self.wo(self.wi(x).relu())


class Sparse(nn.Module):
    """Each token goes to the expert of its largest score; those beyond the capacity add nothing."""

    def __init__(self, sizes):
        super().__init__()
        self.capacity = sizes.capacity
        self.router = nn.Linear(sizes.width, sizes.experts, bias=False)
        self.experts = nn.ModuleList(FeedForward(sizes) for _ in range(sizes.experts))

    def route(self, x):
        """[batch, tokens, experts]: the chance of the expert that a token takes, else 0."""
        chances = self.router(x).softmax(-1)
        best = nn.functional.one_hot(chances.argmax(-1), chances.shape[-1])
        kept = best * (best.cumsum(1) <= self.capacity)
        return chances * kept

    def forward(self, x):
        gates = self.route(x)
        y = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows = gates[..., e] > 0
            if rows.any():
                y[rows] = expert(x[rows])
        return y * gates.sum(-1, keepdim=True)


class Attention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.heads = sizes.heads
        self.q, self.k, self.v, self.o = (nn.Linear(sizes.width, sizes.width, bias=False) for _ in range(4))

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x, memory, bias):
        """bias: [heads, tokens, tokens], or none."""
        q, k, v = self.split(self.q(x)), self.split(self.k(memory)), self.split(self.v(memory))
        scores = q @ k.transpose(2, 3)
        weights = (scores if bias is None else scores + bias).softmax(-1)
        return self.o((weights @ v).transpose(1, 2).reshape(x.shape))


class Positions(nn.Module):
    """What is added to scores for the distance of two tokens."""

    def __init__(self, sizes, causal):
        super().__init__()
        self.bias, self.causal = nn.Embedding(BUCKETS, sizes.heads), causal
        distance = torch.arange(sizes.tokens)[None, :] - torch.arange(sizes.tokens)[:, None]
        self.register_buffer("bucket", self.buckets(distance), persistent=False)
        self.register_buffer("unseen", distance > 0, persistent=False)

    def buckets(self, distance):
        count = BUCKETS if self.causal else BUCKETS // 2
        offset = torch.zeros_like(distance) if self.causal else (distance > 0) * count
        far = (-distance).clamp(min=0) if self.causal else distance.abs()
        exact = count // 2
        log = torch.log(far.clamp(min=1) / exact) / torch.log(torch.tensor(FARTHEST / exact)) * (count - exact)
        return offset + torch.where(far < exact, far, (exact + log.long()).clamp(max=count - 1))

    def forward(self):
        bias = self.bias(self.bucket).permute(2, 0, 1)
        return bias.masked_fill(self.unseen, -1e9) if self.causal else bias


class Layer(nn.Module):
    def __init__(self, sizes, sparse, decodes):
        super().__init__()
        self.norms = nn.ModuleList(RMSNorm(sizes.width) for _ in range(3 if decodes else 2))
        self.attention = Attention(sizes)
        self.cross = Attention(sizes) if decodes else None
        self.feed = Sparse(sizes) if sparse else FeedForward(sizes)

    def forward(self, x, bias, memory=None):
        y = self.norms[0](x)
        x = x + self.attention(y, y, bias)
        if self.cross is not None:
            x = x + self.cross(self.norms[1](x), memory, None)
        return x + self.feed(self.norms[-1](x))


class Stack(nn.Module):
    def __init__(self, sizes, decodes):
        super().__init__()
        self.positions = Positions(sizes, decodes)
        self.layers = nn.ModuleList(Layer(sizes, n % 2 == 1, decodes) for n in range(sizes.layers))
        self.norm = RMSNorm(sizes.width)

    def forward(self, x, memory=None):
        bias = self.positions()
        for layer in self.layers:
            x = layer(x, bias, memory)
        return self.norm(x)


class Switch(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocabulary, sizes.width)
        self.encoder, self.decoder = Stack(sizes, False), Stack(sizes, True)

    def forward(self, text, answer):
        """Token numbers [batch, tokens] twice: logits [batch, tokens, vocabulary]."""
        memory = self.encoder(self.embedding(text))
        y = self.decoder(self.embedding(answer), memory)
        return (y * y.shape[-1] ** -0.5) @ self.embedding.weight.T
