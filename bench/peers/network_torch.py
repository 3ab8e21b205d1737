"""Whole networks as PyTorch calls on one thread, eager, inside inference mode; in doubles what results are compared
with.

Projections that read the same rows are one product, as in its own modules. Sequences of different lengths are padded to
the longest, with a mask.
"""

import time

import numpy as np
import torch
import torch.nn.functional as F

from network_rows import padded

torch.set_num_threads(1)

ACT = {"": lambda x: x, "relu": F.relu, "gelu": F.gelu, "relu6": F.relu6}


class TorchTimed:
    """What once() computes, as often as asked for."""

    def run(self, times):
        with torch.inference_mode():
            since = time.process_time()
            for _ in range(times):
                self.y = self.once()
            return time.process_time() - since


class TorchNetwork(TorchTimed):
    name = "torch"

    def __init__(self, network, dtype=torch.float32):
        self.network, self.dtype, self.weights = network, dtype, {}
        groups = {}
        for layer in network.layers:
            w, b = (network.weights.get(f"{layer.name}.{s}") for s in ("weight", "bias"))
            if w is not None:
                self.weights[layer.number] = tuple(torch.from_numpy(x.copy()).to(dtype) for x in (w, b))
            if layer.op == "linear" and layer.domain and not layer.act:
                groups.setdefault(layer.inputs[0].number, []).append(layer)
        self.together = {group[0].number: group for group in groups.values() if len(group) > 1}
        for first, group in self.together.items():
            self.weights[first] = tuple(torch.cat([self.weights[m.number][i] for m in group]) for i in (0, 1))
            for m in group[1:]:
                del self.weights[m.number]
        self.last_use = {i.number: layer.number for layer in network.layers for i in layer.inputs}

    def bind(self, inputs, lengths):
        self.lengths, self.masks, self.inputs = lengths, {}, {}
        for layer in self.network.inputs:
            x = inputs[layer.name]
            self.inputs[layer.number] = torch.from_numpy(
                padded(x, lengths[layer.domain]) if layer.domain else x[None].copy()).to(self.dtype)
        for domain, of_each in lengths.items():
            if len(set(of_each)) > 1:
                there = torch.arange(max(of_each)) < torch.tensor(of_each)[:, None]
                self.masks[domain] = there[:, None, None]

    def attention(self, layer, q, k, v):
        split = lambda x: x.unflatten(-1, (layer.heads, -1)).transpose(1, 2)
        mask, causal = self.masks.get(layer.inputs[1].domain), layer.causal
        if mask is not None and causal:
            n = q.shape[1]
            mask, causal = mask & torch.ones(n, n, dtype=torch.bool).tril(), False
        y = F.scaled_dot_product_attention(split(q), split(k), split(v), attn_mask=mask, is_causal=causal)
        return y.transpose(1, 2).flatten(-2)

    def made(self, layer, x):
        w = self.weights.get(layer.number)
        if layer.op == "conv":
            return ACT[layer.act](F.conv2d(x[0], *w, layer.stride, layer.pad, 1, layer.groups))
        if layer.op == "linear":
            return ACT[layer.act](F.linear(x[0], *w))
        if layer.op == "pool":
            pool = F.max_pool2d if layer.kind == "max" else F.avg_pool2d
            return pool(x[0], layer.kernel, layer.stride, layer.pad)
        if layer.op == "norm":
            return F.layer_norm(x[0], layer.shape, *w)
        if layer.op == "attention":
            return self.attention(layer, *x)
        return {"global_pool": lambda: x[0].mean((2, 3)), "concat": lambda: torch.cat(x, 1),
                "channels": lambda: x[0][:, layer.start:layer.start + layer.shape[0]],
                "shuffle": lambda: F.channel_shuffle(x[0], layer.groups),
                "add": lambda: ACT[layer.act](x[0] + x[1]), "act": lambda: ACT[layer.act](x[0])}[layer.op]()

    def once(self):
        values = dict(self.inputs)
        for layer in self.network.layers:
            n = layer.number
            if n in values:
                continue
            group = self.together.get(n)
            x = [values[i.number] for i in layer.inputs]
            if group:
                for m, part in zip(group, F.linear(x[0], *self.weights[n]).chunk(len(group), -1)):
                    values[m.number] = part
            else:
                values[n] = self.made(layer, x)
            for i in layer.inputs:  # freed as a module's locals are
                if self.last_use[i.number] == n and not group:
                    values.pop(i.number, None)
        return values[self.network.output.number]

    def result(self):
        y, last = self.y.numpy(), self.network.output
        if last.domain:
            return np.concatenate([y[i, :n] for i, n in enumerate(self.lengths[last.domain])])
        return y[0]
