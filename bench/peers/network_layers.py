"""A network as a list of layers with their shapes and seeded weights, from which every contender builds its own.

Owns: the layers, the weights. Relies on: NumPy. Must never: know of a runtime: network_ours.py, network_torch.py,
network_onnx.py, network_ncnn.py and network_numpy.py do.

A value is the layer that makes it. Images have the shape (C, H, W). Rows have the shape (features,): one for each token
of a sequence; `domain` says of which sequences, so that a decoder can attend to those of its encoder.
"""

from dataclasses import dataclass, field

import numpy as np


@dataclass
class Layer:
    number: int
    op: str
    name: str
    inputs: list
    shape: tuple
    domain: str
    flops: int  # of an image, or of a row; attention's products of rows with rows are left out
    at: dict = field(default_factory=dict)  # what the op is set to

    def __getattr__(self, key):
        if key.startswith("__"):
            raise AttributeError(key)
        return self.at[key]


class Network:
    def __init__(self, name, seed=1):
        self.name, self.layers, self.weights = name, [], {}
        self.noise = np.random.default_rng(seed)
        self.output = None

    def _layer(self, op, inputs, shape, flops=0, domain=None, **at):
        layer = Layer(len(self.layers), op, f"{op}{len(self.layers)}", inputs, tuple(shape),
                      domain or (inputs[0].domain if inputs else ""), flops, at)
        self.layers.append(layer)
        self.output = layer
        return layer

    def _weight(self, layer, suffix, shape, deviation, mean=0.0):
        values = mean + deviation * self.noise.standard_normal(shape)
        self.weights[f"{layer.name}.{suffix}"] = values.astype(np.float32)

    @property
    def weight_bytes(self):
        return sum(w.nbytes for w in self.weights.values())

    @property
    def inputs(self):
        return [layer for layer in self.layers if layer.op == "input"]

    # ------------------------------------------------------------------------------------------ images

    def image(self, c, h, w):
        return self._layer("input", [], (c, h, w))

    def conv(self, x, out, kernel, stride=1, pad=None, groups=1, act=""):
        """With a bias, into which a batch norm is folded as it is for inference."""
        pad = kernel // 2 if pad is None else pad
        c, h, w = x.shape
        each = c // groups
        sides = [(n + 2 * pad - kernel) // stride + 1 for n in (h, w)]
        layer = self._layer("conv", [x], (out, *sides), 2 * out * sides[0] * sides[1] * each * kernel * kernel,
                            kernel=kernel, stride=stride, pad=pad, groups=groups, act=act)
        self._weight(layer, "weight", (out, each, kernel, kernel),
                     np.sqrt((2 if act else 1) / (each * kernel * kernel)))
        self._weight(layer, "bias", (out,), 0.1)
        return layer

    def pool(self, x, kind, kernel, stride, pad=0):
        c, h, w = x.shape
        return self._layer("pool", [x], (c, *((n + 2 * pad - kernel) // stride + 1 for n in (h, w))), kind=kind,
                           kernel=kernel, stride=stride, pad=pad)

    def global_pool(self, x):
        return self._layer("global_pool", [x], x.shape[:1])

    def concat(self, parts):
        return self._layer("concat", parts, (sum(p.shape[0] for p in parts), *parts[0].shape[1:]))

    def channels(self, x, start, count):
        return self._layer("channels", [x], (count, *x.shape[1:]), start=start)

    def shuffle(self, x, groups):
        return self._layer("shuffle", [x], x.shape, groups=groups)

    # ---------------------------------------------------------------------------------- images and rows

    def add(self, x, y, act=""):
        return self._layer("add", [x, y], x.shape, act=act)

    def act(self, x, act):
        return self._layer("act", [x], x.shape, act=act)

    def linear(self, x, out, act=""):
        width = x.shape[-1]
        layer = self._layer("linear", [x], (*x.shape[:-1], out), 2 * width * out, act=act)
        self._weight(layer, "weight", (out, width), 1 / np.sqrt(width))
        self._weight(layer, "bias", (out,), 0.1)
        return layer

    # -------------------------------------------------------------------------------------------- rows

    def rows(self, width, domain):
        return self._layer("input", [], (width,), domain=domain)

    def norm(self, x):
        layer = self._layer("norm", [x], x.shape)
        self._weight(layer, "weight", x.shape, 0.1, 1.0)
        self._weight(layer, "bias", x.shape, 0.1)
        return layer

    def attention(self, q, k, v, heads, causal=False):
        """Every row of q to the rows of k in its sequence; causal: up to its own."""
        return self._layer("attention", [q, k, v], q.shape, heads=heads, causal=causal)


def lengths_flops(network, lengths):
    """Of sequences of these lengths, {domain: lengths}."""
    total = 0
    for layer in network.layers:
        total += layer.flops * sum(lengths.get(layer.domain, [1]))
        if layer.op == "attention":
            pairs = zip(lengths[layer.domain], lengths[layer.inputs[1].domain])
            total += sum(4 * layer.shape[0] * (n * (n + 1) // 2 if layer.at["causal"] else n * m) for n, m in pairs)
    return total
