"""What stands behind a convolution or a product and can be done in it: scales, shifts, an activation.

A chain of nodes each of which is all that reads the one before: batch norms, products and sums with one constant a
channel, then an activation that the library's layers have. Such nodes are marked as done, and give on what they read.
Must never: take a node whose input something else reads.
"""

import numpy as np

from .tensors import narrowed

ACTS = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh", "Gelu": "gelu"}


def scale_and_shift(n):
    """What a batch norm with constant statistics does to each channel."""
    scale, bias, mean, var = (narrowed("a norm", n.constant(i)).astype(np.float64) for i in range(1, 5))
    factor = scale / np.sqrt(var + n.attr("epsilon", 1e-5))
    return factor, bias - mean * factor


class Behind:
    """factor, shift: [channels] or None; act: arguments of a layer."""

    def __init__(self, n, rank, channels, axis, activate=True):
        self.n, self.rank, self.channels, self.axis = n, rank, channels, axis
        self.factor, self.shift, self.act = None, None, {}
        name = n.proto.output[0]
        while True:
            node = n.walk.only_reader(name)
            pair = None if node is None else self.scaled(node, name)
            if pair is None:
                break
            self.add(*pair)
            n.walk.done(node, name)
            name = node.outputs[0]
        if activate:
            self.activate(node, name)

    def add(self, factor, shift):
        if factor is not None:
            self.factor = factor if self.factor is None else self.factor * factor
            self.shift = None if self.shift is None else self.shift * factor
        if shift is not None:
            self.shift = shift if self.shift is None else self.shift + shift

    def line(self, t):
        """A constant as one number a channel; None if it is none such."""
        if t is None or not t.constant or not t.floats or t.rank > self.rank:
            return None
        shape = (1,) * (self.rank - t.rank) + t.shape
        if any(d != (self.channels if i == self.axis else 1) and d != 1 for i, d in enumerate(shape)):
            return None
        numbers = np.broadcast_to(np.ravel(narrowed("a scale", t.array)), self.channels).astype(np.float64)
        return numbers if np.isfinite(numbers).all() else None

    def scaled(self, node, name):
        """(factor, shift) of a node, or None."""
        if node.op == "BatchNormalization":
            good = self.axis == 1 and not node.attr("training_mode", 0) and all(
                node.has(i) and node[i].constant and node[i].size == self.channels for i in range(1, 5))
            return scale_and_shift(node) if good and not any(node.outputs[1:]) else None
        if node.op not in ("Add", "Sub", "Mul", "Div"):
            return None
        at = list(node.proto.input).index(name)
        line = self.line(node.get(1 - at))
        if line is None or at == 1 and node.op in ("Sub", "Div") or node.op == "Div" and not np.all(line):
            return None
        if node.op == "Div":
            return 1 / line, None
        return {"Add": (None, line), "Sub": (None, -line), "Mul": (line, None)}[node.op]

    def activate(self, node, name):
        if node is None:
            return self.silu(name)
        if node.op in ACTS and node.attr("approximate", "none") == "none":
            self.act = {"act": ACTS[node.op]}
        elif node.op == "LeakyRelu" and node.attr("alpha", 0.01) != 0:
            self.act = {"act": "leaky_relu", "act_param": node.attr("alpha", 0.01)}
        elif node.op == "Clip" and all(node.has(i) and node[i].constant and node[i].size == 1 for i in (1, 2)):
            low, high = (float(np.ravel(node[i].array)[0]) for i in (1, 2))
            if low == 0 and 0 < high < np.inf:
                self.act = {"act": "clip", "act_param": high}
        elif node.op == "HardSigmoid":
            alpha, beta = node.attr("alpha", 0.2), node.attr("beta", 0.5)
            self.add(np.full(self.channels, alpha), np.full(self.channels, beta))
            self.act = {"act": "clip", "act_param": 1.0}
        elif node.op == "PRelu" and node.proto.input[0] == name:
            slopes = self.line(node.get(1))
            self.act = {} if slopes is None else {"prelu": slopes.astype(np.float32)}
        if self.act:
            self.n.walk.done(node, name)

    def silu(self, name):
        """x sigmoid(x)."""
        readers = self.n.walk.readers.get(name, [])
        if len(readers) != 2 or None in readers or {r.op_type for r in readers} != {"Sigmoid", "Mul"}:
            return
        sigmoid, mul = sorted(readers, key=lambda r: r.op_type, reverse=True)
        product = self.n.walk.only_reader(sigmoid.output[0])
        if product is None or product.proto is not mul or set(mul.input) != {name, sigmoid.output[0]}:
            return
        self.act = {"act": "silu"}
        self.n.walk.done_by_name(sigmoid, name)
        self.n.walk.done_by_name(mul, name)

    def weights(self, weight, bias):
        """Of a layer [out, ...], with scales and shifts in them."""
        if self.factor is not None:
            weight = weight * self.factor.reshape(-1, *(1,) * (weight.ndim - 1))
            bias = None if bias is None else bias * self.factor
        if self.shift is not None:
            bias = self.shift if bias is None else bias + self.shift
        return weight.astype(np.float32), None if bias is None else bias.astype(np.float32)
