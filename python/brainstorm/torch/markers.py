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
    Gradients reach scores through what rows are weighted with."""

    def __init__(self, paths, k=1, normalise=False, weighted=True):
        super().__init__()
        self.paths, self.k, self.normalise, self.weighted = nn.ModuleList(paths), k, normalise, weighted
        if not 1 <= k <= len(self.paths) or (k > 1 and not weighted):
            raise ValueError(f"{k} of {len(self.paths)} paths, weighted {weighted}")

    def forward(self, x, score):
        if torch.compiler.is_exporting():
            made = [path(x) for path in self.paths]
            return symbolic("Routed", (x, score, *made),
                            {"k": self.k, "normalise": int(self.normalise), "weighted": int(self.weighted)}, made[0])
        gates, chosen = score.topk(self.k, dim=-1)
        if self.normalise:
            gates = gates / gates.sum(-1, keepdim=True)
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


class Exit(nn.Module):
    """A row leaves with head(x), which are logits, where the largest of their softmax is at least the threshold; else
    it goes on through `rest`, whose result has the same shape. In training each row goes through both: (head, rest).
    x: a tensor, or a list of several that belong together, as of several scales: head and rest get them as they
    came."""

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
        if stays.all():
            return self.rest(x)
        if stays.any():
            logits = logits.clone()
            logits[stays] = self.rest(x[stays] if torch.is_tensor(x) else type(x)(flow[stays] for flow in flows))
        return logits


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
