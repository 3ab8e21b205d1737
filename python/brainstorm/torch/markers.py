"""Modules that decide. In eager mode, training included, they are plain PyTorch; in an export each is one symbolic op
whose operands are what came in, what decides, and what each path makes of all rows: what lies between the first and a
path's result is that path (../onnx/paths.py, which puts it back into a block of its own).

Rows are axis 0 everywhere. Must never: decide otherwise than the library does (bs_route in brainstorm.h).
"""

import torch
from torch import nn

VERSION = 1  # of the ops of domain "brainstorm"


def symbolic(op, operands, attributes, like, shape=None):
    return torch.onnx.ops.symbolic(f"brainstorm::{op}", operands, attributes, dtype=like.dtype,
                                   shape=like.shape if shape is None else shape, version=VERSION)


class Routed(nn.Module):
    """Each row of x goes to the k paths with the highest scores [rows, paths]; their results are summed, each times its
    score, or its share of the scores of those chosen (normalise). weighted=False, with k=1: the path's result as it is.
    Gradients reach scores through what rows are weighted with.

    capacity: a path takes so many rows at most, those of the highest weights first, and of equal ones the first; a row
    that no path takes gives zeros. A float is a factor, of k * ceil(rows / paths). First choices come before second
    ones. table: [keys] or [keys, k], paths: then a score is an integer [rows], a key into it, and its results are
    summed; it must not have a path twice in a row."""

    def __init__(self, paths, k=1, normalise=False, weighted=True, capacity=None, table=None):
        super().__init__()
        self.paths, self.k, self.normalise, self.weighted = nn.ModuleList(paths), k, normalise, weighted
        self.capacity = capacity
        if table is not None:
            self._tabled(torch.as_tensor(table))
        if not 1 <= self.k <= len(self.paths) or (self.k > 1 and not self.weighted):
            raise ValueError(f"{self.k} of {len(self.paths)} paths, weighted {self.weighted}")
        if capacity is not None and not capacity > 0:
            raise ValueError(f"a capacity of {capacity}")
        self.dropped = 0  # choices beyond the capacity, in the last run in eager mode

    def _tabled(self, table):
        """Scores of each key: 1 of its paths."""
        table = table.reshape(len(table), -1)
        ones = nn.functional.one_hot(table.long(), len(self.paths)).sum(1)
        if self.k != 1 or self.normalise or not self.weighted or ones.max() > 1:
            raise ValueError("a table says by itself how many paths a row takes, each once, and weighs none")
        self.k, self.weighted = table.shape[1], table.shape[1] > 1
        self.register_buffer("scores", ones.to(torch.get_default_dtype()), persistent=False)

    def room(self, rows):
        """How many rows a path takes."""
        if isinstance(self.capacity, float):
            return max(self.k * int(self.capacity * -(-rows // len(self.paths))), 1)
        return self.capacity or 0

    def forward(self, x, score):
        if not score.is_floating_point():
            score = self.scores[score]
        if torch.compiler.is_exporting():
            made = [path(x) for path in self.paths]
            return symbolic("Routed", (x, score, *made),
                            {"k": self.k, "normalise": int(self.normalise), "weighted": int(self.weighted),
                             "capacity": self.room(x.shape[0])}, made[0])
        gates, chosen = score.topk(self.k, dim=-1)
        if self.normalise:
            gates = gates / gates.sum(-1, keepdim=True)
        chosen = self.within(chosen, gates) if self.capacity else chosen
        y = None
        for number, path in enumerate(self.paths):
            rows, place = (chosen == number).nonzero(as_tuple=True)
            if rows.numel() == 0:
                continue
            made = path(x[rows])
            if self.weighted:
                made = made * gates[rows, place].reshape(-1, *[1] * (made.dim() - 1)).to(made.dtype)
            if y is None:
                y = made.new_zeros((x.shape[0], *made.shape[1:]))
            y = y.index_add(0, rows, made)
        return y

    def within(self, chosen, gates):
        """Choices, with -1 for those that a path has no room for."""
        room, taken = self.room(len(chosen)), chosen.new_zeros(len(self.paths))
        kept = chosen.clone()
        for choice in range(self.k):
            order = gates[:, choice].sort(descending=True, stable=True).indices
            ones = nn.functional.one_hot(chosen[order, choice], len(self.paths))
            before = (ones.cumsum(0) * ones).sum(-1) + taken[chosen[order, choice]]
            kept[order[before > room], choice] = -1
            taken = (taken + ones.sum(0)).clamp(max=room)
        self.dropped = int((kept < 0).sum())
        return kept


class Exit(nn.Module):
    """A row leaves with head(x), which are logits, where the largest of their softmax is at least the threshold; else
    it goes on through `rest`, whose result has the same shape. In training each row goes through both: (head, rest).
    x: a tensor, or a list of several that belong together, as of several scales: head and rest get them as they
    came. In eval mode every_exit() tells what both say of every row."""

    told = None  # while every_exit() asks: a list of (exit, logits), the network's end behind its last exit

    def __init__(self, head, rest, threshold=0.9):
        super().__init__()
        self.head, self.rest, self.threshold = head, rest, threshold

    def confidence(self, logits):
        return logits.softmax(-1).amax(-1, keepdim=True)

    def forward(self, x):
        logits, flows = self.head(x), [x] if torch.is_tensor(x) else list(x)
        if torch.compiler.is_exporting():
            return symbolic("Exit", (*flows, self.confidence(logits), logits, self.rest(x)),
                            {"threshold": float(self.threshold), "flows": len(flows)}, logits)
        if self.training:
            return logits, self.rest(x)
        stays = (self.confidence(logits) < self.threshold).squeeze(-1)
        if self.told is not None:
            return self._tell(x, logits, stays)
        if stays.all():
            return self.rest(x)
        if stays.any():
            logits = logits.clone()
            logits[stays] = self.rest(x[stays] if torch.is_tensor(x) else type(x)(flow[stays] for flow in flows))
        return logits

    def _tell(self, x, logits, stays):
        """Every row through both; the result is what it is otherwise."""
        self.told.append((self, logits))
        before = len(self.told)
        result = self.rest(x)
        if len(self.told) == before:
            self.told.append((self, result))
        return torch.where(stays.reshape(-1, *[1] * (logits.dim() - 1)), result, logits)


class Patches(nn.Module):
    """body(frame), which runs in tiles of size x size pixels once it is imported: the same result, fewer bytes."""

    def __init__(self, body, size=64):
        super().__init__()
        self.body, self.size = body, size

    def forward(self, x):
        y = self.body(x)
        if torch.compiler.is_exporting():
            return symbolic("Patches", (x, y), {"size": self.size}, y)
        return y
