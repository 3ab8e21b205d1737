"""Gated: a marker of paths that are taken where their score is above a threshold: none, one or several.

As those of markers.py: plain PyTorch in eager mode, one symbolic op in an export. Rows are axis 0. Must never: decide
otherwise than the library does (BS_ROUTE_THRESHOLD in brainstorm.h).
"""

import torch
from torch import nn

from .markers import symbolic


class Gated(nn.Module):
    """Each row of x goes to every path whose score [rows, paths] is above the threshold, or to none; the results are
    summed, each times its score (weighted=False: as they are). A row of no path goes to path `fallback`; without that
    its result is zero, or its row of `otherwise`, which is for one path that is not weighted. paths: a module, or
    several whose results have one shape."""

    def __init__(self, paths, threshold=0.0, weighted=True, fallback=None):
        super().__init__()
        self.paths = nn.ModuleList([paths] if isinstance(paths, nn.Module) else paths)
        self.threshold, self.weighted, self.fallback = threshold, weighted, fallback
        if not (fallback is None or 0 <= fallback < len(self.paths)):
            raise ValueError(f"path {fallback} of {len(self.paths)} paths")

    def chosen(self, score):
        """[rows, paths]: which rows take which path."""
        chosen = score > self.threshold
        if self.fallback is not None:
            chosen[:, self.fallback] |= ~chosen.any(-1)
        return chosen

    def forward(self, x, score, otherwise=None):
        if otherwise is not None and (self.weighted or len(self.paths) > 1 or self.fallback is not None):
            raise ValueError("otherwise is for one path, not weighted, without a fallback")
        if torch.compiler.is_exporting():
            made = [path(x) for path in self.paths]
            told = {"threshold": float(self.threshold), "weighted": int(self.weighted),
                    "fallback": 0 if self.fallback is None else self.fallback + 1,
                    "otherwise": int(otherwise is not None)}
            return symbolic("Gated", (x, score, *([] if otherwise is None else [otherwise]), *made), told, made[0])
        y, chosen = otherwise, self.chosen(score)
        for number, path in enumerate(self.paths):
            rows = chosen[:, number].nonzero().squeeze(-1)
            if rows.numel() == 0:
                continue
            every = len(rows) == len(x)
            made = path(x if every else x[rows])
            if self.weighted:
                made = made * score[rows, number].reshape(-1, *[1] * (made.dim() - 1)).to(made.dtype)
            if otherwise is not None:
                return made if every else otherwise.index_copy(0, rows, made)
            if every:
                y = made if y is None else y + made
            else:
                y = (made.new_zeros((len(x), *made.shape[1:])) if y is None else y).index_add(0, rows, made)
        if y is None:  # what none takes still has a shape
            made = self.paths[0](x[:0])
            y = made.new_zeros((len(x), *made.shape[1:]))
        return y
