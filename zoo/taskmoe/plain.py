"""TaskMoE: a text decoder of 6 layers whose experts are chosen by the task of a sequence, two of 16 by a table.

A cell is a whole sequence [tokens, 512]; an expert is a feed-forward net of 2048 with its norm, the vocabulary has
50358 entries.
"""

import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.inner, self.outer = nn.Linear(sizes.width, sizes.hidden), nn.Linear(sizes.hidden, sizes.width)
        self.norm = nn.LayerNorm(sizes.width, eps=1e-12)

    def forward(self, x):
        return self.norm(self.outer(nn.functional.gelu(self.inner(x))) + x)


class Attention(nn.Module):
    """Each token sees itself and those before it."""

    def __init__(self, sizes):
        super().__init__()
        self.heads, self.norm = sizes.heads, nn.LayerNorm(sizes.width, eps=1e-12)
        self.q, self.k, self.v, self.o = (nn.Linear(sizes.width, sizes.width) for _ in range(4))
        unseen = torch.ones(sizes.tokens, sizes.tokens, dtype=torch.bool).triu(1)
        self.register_buffer("unseen", unseen, persistent=False)

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, -1).transpose(1, 2)

    def forward(self, x):
        q, k, v = self.split(self.q(x)), self.split(self.k(x)), self.split(self.v(x))
        scores = (q @ k.transpose(2, 3) * q.shape[-1] ** -0.5).masked_fill(self.unseen, -1e9)
        return self.norm(x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(x.shape)))


def destinations(sizes):
    """[tasks, 2]: the experts of each task, by a hash of it."""
    task = torch.arange(sizes.experts)
    return torch.stack([task * 7 + 3, task * 3 + 5], 1) % sizes.experts


class Layer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.attention = Attention(sizes)
        self.experts = nn.ModuleList(Expert(sizes) for _ in range(sizes.experts))
        self.register_buffer("table", destinations(sizes), persistent=False)

    def forward(self, x, task):
        x, chosen = self.attention(x), self.table[task]
        y = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            rows = (chosen == e).any(1)
            if rows.any():
                y[rows] += expert(x[rows])
        return y


class TaskMoE(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.words, self.places = nn.Embedding(sizes.vocabulary, sizes.width), nn.Embedding(sizes.tokens, sizes.width)
        self.norm = nn.LayerNorm(sizes.width, eps=1e-12)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.layers))
        self.head = nn.Linear(sizes.width, sizes.vocabulary)

    def forward(self, text, task):
        """Token numbers [batch, tokens] and tasks [batch]: logits [batch, tokens, vocabulary]."""
        x = self.norm(self.words(text) + self.places.weight)
        for layer in self.layers:
            x = layer(x, task)
        return self.head(x)
