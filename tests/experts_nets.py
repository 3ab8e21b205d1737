"""experts_nets.py - mixtures of experts as people write them in plain PyTorch: loops with torch.where, index_add_.

    python3 tests/experts_nets.py tests/experts      writes NAME.onnx and NAME.npz of each

so that tests without torch have them; of each the inputs, what eager mode gives and how many rows went to each expert.
Needs torch and onnxscript.
"""

import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from markers_nets import export
from torch import nn

WIDTH, EXPERTS = 8, 5


class Mixture(nn.Module):
    """The best k of all experts, by chances that are made to sum to 1."""

    def __init__(self, k=2):
        super().__init__()
        self.k, self.gate = k, nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(WIDTH, 12), nn.SiLU(), nn.Linear(12, WIDTH))
                                     for _ in range(EXPERTS))

    def chosen(self, x):
        weights, index = torch.topk(self.gate(x).softmax(-1), self.k, dim=-1)
        return weights / weights.sum(-1, keepdim=True), index

    def forward(self, x):
        (weights, index), y = self.chosen(x), torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            row, slot = torch.where(index == e)
            y.index_add_(0, row, expert(x[row]) * weights[row, slot, None])
        return y


class Masked(Mixture):
    """The same with a mask of one-hot numbers, and chances of the chosen logits alone."""

    def chosen(self, x):
        weights, index = torch.topk(self.gate(x), self.k, dim=-1)
        return weights.softmax(-1), index

    def forward(self, x):
        (weights, index), y = self.chosen(x), torch.zeros_like(x)
        mask = F.one_hot(index, num_classes=EXPERTS).permute(2, 1, 0)
        for e, expert in enumerate(self.experts):
            slot, row = torch.where(mask[e])
            y.index_add_(0, row, expert(x[row]) * weights[row, slot, None])
        return y


class Layers(nn.Module):
    """Two mixtures, each behind a norm and beside what it reads."""

    def __init__(self, *mixtures):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in mixtures)
        self.mixtures = nn.ModuleList(mixtures)

    def forward(self, x):
        for norm, mixture in zip(self.norms, self.mixtures):
            x = x + mixture(norm(x))
        return x


def networks():
    """{name: (network, inputs)}."""
    torch.manual_seed(12)
    return {"layers": (Layers(Mixture(), Masked()).eval(), torch.randn(21, WIDTH))}


def taken(net, x):
    """What eager mode gives, and {mixture: rows of each expert}."""
    counts = {}

    def see(name):
        return lambda module, inputs: counts.update({name: np.bincount(
            module.chosen(inputs[0])[1].ravel().numpy(), minlength=EXPERTS)})

    hooks = [m.register_forward_pre_hook(see(name)) for name, m in net.named_modules() if isinstance(m, Mixture)]
    with torch.no_grad():
        y = net(x)
    for hook in hooks:
        hook.remove()
    return y, counts


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for name, (net, x) in networks().items():
        y, counts = taken(net, x)
        export(net, x, os.path.join(folder, f"{name}.onnx"))
        np.savez(os.path.join(folder, f"{name}.npz"), x=x.numpy(), y=y.numpy(), **counts)
        print(name, {key: count.tolist() for key, count in counts.items()})


if __name__ == "__main__":
    main(sys.argv[1])
