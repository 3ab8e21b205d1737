"""Whole networks by definition, in float64: what results are compared with where PyTorch is not installed."""

import numpy as np

from product_cases import APPLY, convolution


def activated(x, act):
    return np.clip(x, 0, 6) if act == "relu6" else APPLY[act](x) if act else x


def windows(x, layer, padding):
    k, p, s = layer.kernel, layer.pad, layer.stride
    padded = np.pad(x, ((0, 0), (p, p), (p, p)), constant_values=padding)
    return np.lib.stride_tricks.sliding_window_view(padded, (k, k), (1, 2))[:, ::s, ::s]


def attended(layer, q, k, v):
    """Of one sequence."""
    split = lambda x: x.reshape(len(x), layer.heads, -1).transpose(1, 0, 2)
    scores = split(q) @ split(k).transpose(0, 2, 1) / np.sqrt(q.shape[1] / layer.heads)
    if layer.causal:
        scores = np.where(np.tri(len(q), len(k), dtype=bool), scores, -np.inf)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True) @ split(v)).transpose(1, 0, 2).reshape(q.shape)


def by_sequence(layer, lengths, q, k, v):
    ends = {d: np.cumsum([0, *lengths[d]]) for d in lengths}
    a, b = ends[layer.domain], ends[layer.inputs[1].domain]
    return np.concatenate([attended(layer, q[a[i]:a[i + 1]], k[b[i]:b[i + 1]], v[b[i]:b[i + 1]])
                           for i in range(len(a) - 1)])


def made(layer, x, w, lengths):
    """x: what its operands are; w: its weights by suffix."""
    if layer.op == "conv":
        y = convolution(x[0], w["weight"], layer.stride, layer.groups, layer.pad)
        return activated(y + w["bias"][:, None, None], layer.act)
    if layer.op == "linear":
        return activated(x[0] @ w["weight"].T + w["bias"], layer.act)
    if layer.op == "pool":
        highest = layer.kind == "max"
        cut = windows(x[0], layer, -np.inf if highest else 0)
        return cut.max((3, 4)) if highest else cut.mean((3, 4))
    if layer.op == "norm":
        centred = x[0] - x[0].mean(-1, keepdims=True)
        return centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5) * w["weight"] + w["bias"]
    if layer.op == "attention":
        return by_sequence(layer, lengths, *x)
    if layer.op == "shuffle":
        return x[0].reshape(layer.groups, -1, *x[0].shape[1:]).swapaxes(0, 1).reshape(x[0].shape)
    return {"global_pool": lambda: x[0].mean((1, 2)), "concat": lambda: np.concatenate(x),
            "channels": lambda: x[0][layer.start:layer.start + layer.shape[0]],
            "add": lambda: activated(x[0] + x[1], layer.act), "act": lambda: activated(x[0], layer.act)}[layer.op]()


def definition(network, inputs, lengths):
    values = {}
    for layer in network.layers:
        w = {s: network.weights[f"{layer.name}.{s}"].astype(np.float64) for s in ("weight", "bias")
             if f"{layer.name}.{s}" in network.weights}
        values[layer.number] = (inputs[layer.name].astype(np.float64) if layer.op == "input" else
                                made(layer, [values[i.number] for i in layer.inputs], w, lengths))
    return values[network.output.number]
