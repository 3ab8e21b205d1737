"""The cases of bench/peers/products.py: their arguments, inputs and weights, and what they are by definition (NumPy).

A case knows its kind in bench/products.c, and the shapes; product_onnx.py and product_torch.py say how each peer spells
a kind.
"""

from dataclasses import dataclass, replace

import numpy as np

GEMM_ROWS = [1, 2, 4, 8, 16, 24, 32, 48, 64, 128, 256]
GEMM_SHAPES = [(768, 3072), (3072, 768), (300, 2048), (512, 2048), (64, 64)]
ACTS = {"relu": 1, "sigmoid": 4, "tanh": 5, "gelu": 6, "silu": 7}  # bs_act


def erf(x):
    from math import erf as of_one
    return np.vectorize(of_one, otypes=[np.float64])(x)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


APPLY = {"relu": lambda x: np.maximum(x, 0), "gelu": lambda x: x * (1 + erf(x / np.sqrt(2))) / 2, "sigmoid": sigmoid,
         "tanh": np.tanh, "silu": lambda x: x * sigmoid(x)}


@dataclass
class Case:
    name: str
    kind: str
    arguments: tuple
    count: int = 64
    spread: float = 1.0  # of the inputs
    stream: bool = False  # peers too get chunks, one after the other

    @property
    def input_shape(self):
        a = self.arguments
        return {"matmul": a[:3], "conv": (a[0], a[1], a[1]), "lstm": a[:3]}.get(self.kind, a[:2])

    @property
    def result_shape(self):
        a = self.arguments
        if self.kind == "linear":
            return a[0], a[2]
        if self.kind == "matmul":
            return a[0], a[1], a[3]
        if self.kind == "lstm":
            return a[0], a[1], a[3]
        if self.kind == "heads":
            return a[2], a[0], a[1] // a[2]
        if self.kind == "conv":
            side = (a[1] + 2 * (a[3] // 2) - a[3]) // a[4] + 1
            return a[2], side, side
        return a[:2]

    @property
    def elements(self):
        return int(np.prod(self.result_shape))

    @property
    def flops(self):
        a = self.arguments
        inner = {"lstm": lambda: 4 * (a[2] + a[3] + (a[4] - 1) * 2 * a[3]),
                 "linear": lambda: a[1], "matmul": lambda: a[2], "conv": lambda: a[0] // a[5] * a[3] * a[3]}
        return 2 * self.elements * inner.get(self.kind, lambda: 0)()

    def inputs(self, noise):
        return [(self.spread * noise.standard_normal(self.input_shape)).astype(np.float32) for _ in range(self.count)]

    def weights(self, noise):
        a = self.arguments
        shapes = {"linear": lambda: {"op.weight": (a[2], a[1]), "op.bias": (a[2],)},
                  "layer_norm": lambda: {"op.weight": (a[1],), "op.bias": (a[1],)},
                  "matmul": lambda: {"op.weight": (a[0], a[3], a[2]) if a[4] else (a[0], a[2], a[3])},
                  "lstm": lambda: dict(pair for i in range(a[4]) for pair in lstm_shapes(f"op{i}", a[3] if i else a[2],
                                                                                         a[3])),
                  "conv": lambda: {"op.weight": (a[2], a[0] // a[5], a[3], a[3]), "op.bias": (a[2],)}}
        made = shapes.get(self.kind, dict)()
        return {k: (noise.standard_normal(s) / np.sqrt(max(1, np.prod(s[1:])))).astype(np.float32)
                for k, s in made.items()}

    def sent(self, weights):
        """As our program calls them: in chunks of an LSTM what inputs give is a product of its own."""
        if self.kind != "lstm" or self.arguments[5] == 1:
            return weights
        return {k.replace(".weight_ih", "i.weight").replace(".bias_ih", "i.bias"): w for k, w in weights.items()}

    def reads(self, weights):
        """Bytes of weights that one of it has to read, and how often: an LSTM those of the recurrence at each step."""
        if self.kind == "lstm":
            return sum(w.nbytes for k, w in weights.items() if k.endswith("weight_hh")), self.arguments[0]
        return (sum(w.nbytes for w in weights.values()), 1) if self.flops else (0, 1)

    def activation(self):
        """Its name, or None."""
        at = {"linear": 3, "activation": 2, "conv": 6}.get(self.kind)
        number = self.arguments[at] if at is not None else 0
        return next((name for name, n in ACTS.items() if n == number), None)

    def laid_out(self, x):
        """As our program wants it: images channels last."""
        return np.ascontiguousarray(np.moveaxis(x, 0, -1) if self.kind == "conv" else x, np.float32)

    def taken(self, data):
        if self.kind == "conv":
            c, h, w = self.result_shape
            return np.moveaxis(data.reshape(h, w, c), -1, 0)
        return data.reshape(self.result_shape)

    def definition(self, x, weights):
        a = self.arguments
        if self.kind == "linear":
            y = x @ weights["op.weight"].T + weights["op.bias"]
        elif self.kind == "matmul":
            w = weights["op.weight"]
            y = x @ (np.swapaxes(w, 1, 2) if a[4] else w)
        elif self.kind == "softmax":
            e = np.exp(x - x.max(-1, keepdims=True))
            y = e / e.sum(-1, keepdims=True)
        elif self.kind == "layer_norm":
            centred = x - x.mean(-1, keepdims=True)
            y = centred / np.sqrt((centred ** 2).mean(-1, keepdims=True) + 1e-5)
            y = y * weights["op.weight"] + weights["op.bias"]
        elif self.kind == "lstm":
            y = x
            for layer in range(a[4]):
                y = lstm_layer(y, *(weights[f"op{layer}.{w}"] for w in LSTM))
        elif self.kind == "heads":
            y = x.reshape(a[0], a[2], -1).transpose(1, 0, 2)
        elif self.kind == "conv":
            y = convolution(x, weights["op.weight"], a[4], a[5]) + weights["op.bias"][:, None, None]
        else:
            y = x
        name = self.activation()
        return APPLY[name](y) if name else y


LSTM = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def lstm_shapes(name, inputs, units):
    return zip([f"{name}.{w}" for w in LSTM], [(4 * units, inputs), (4 * units, units), (4 * units,), (4 * units,)])


def lstm_layer(x, weight_ih, weight_hh, bias_ih, bias_hh):
    h = c = np.zeros((x.shape[1], weight_hh.shape[1]))
    out = []
    for step in x:
        i, f, g, o = np.split(step @ weight_ih.T + h @ weight_hh.T + bias_ih + bias_hh, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out.append(h)
    return np.stack(out)


def convolution(x, w, stride, groups, pad=None):
    """pad: on each side; None: half a kernel."""
    k = w.shape[2]
    p = k // 2 if pad is None else pad
    padded = np.pad(x, ((0, 0), (p, p), (p, p)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (k, k), (1, 2))[:, ::stride, ::stride]
    each = x.shape[0] // groups
    return np.concatenate([np.einsum("chwij,ocij->ohw", windows[g * each:(g + 1) * each], part, optimize=True)
                           for g, part in enumerate(np.split(w, groups))])


def gemm():
    for k, n in GEMM_SHAPES:
        for m in GEMM_ROWS:
            yield Case(f"gemm {m}x{k}x{n}", "linear", (m, k, n, 0))


def matmul():
    for b, m, k, n, transposed in [(1, 64, 64, 64, 0), (1, 128, 64, 128, 0), (12, 128, 64, 128, 1),
                                   (12, 128, 128, 64, 0), (12, 32, 64, 32, 1), (12, 8, 64, 8, 1)]:
        yield Case(f"matmul {b}x{m}x{k}x{n}" + (" b transposed" if transposed else ""), "matmul",
                   (b, m, k, n, transposed))


def rows():
    for m, n in [(128, 128), (128, 768), (1536, 128)]:
        yield Case(f"softmax {m}x{n}", "softmax", (m, n))
    for act in ("gelu", "tanh", "sigmoid", "silu"):
        yield Case(f"{act} 128x3072", "activation", (128, 3072, ACTS[act]), count=16)
    for m, n in [(128, 768), (32, 768)]:
        yield Case(f"layer_norm {m}x{n}", "layer_norm", (m, n))
    yield Case("heads 128x768 to 12", "heads", (128, 768, 12))


CONVOLUTIONS = [("1x1 64->128 @56", 64, 56, 128, 1, 1, 1), ("1x1 256->64 @28", 256, 28, 64, 1, 1, 1),
                ("depthwise 3x3 64 @56", 64, 56, 64, 3, 1, 64),
                ("depthwise 3x3 64 @56 stride 2", 64, 56, 64, 3, 2, 64),
                ("8 groups 3x3 128->128 @28", 128, 28, 128, 3, 1, 8),
                ("3x3 stride 2 64->128 @56", 64, 56, 128, 3, 2, 1),
                ("7x7 stride 2 3->64 @224", 3, 224, 64, 7, 2, 1), ("3x3 8->8 @32", 8, 32, 8, 3, 1, 1),
                ("5x5 16->16 @64", 16, 64, 16, 5, 1, 1), ("3x3 64->64 @56", 64, 56, 64, 3, 1, 1)]


def conv():
    for name, c, side, out, k, stride, groups in CONVOLUTIONS:
        yield Case("conv " + name, "conv", (c, side, out, k, stride, groups, ACTS["relu"]), count=16)


def lstm():
    """Ours in runs of one step, of eight and of all; peers get the whole sequence at once, or chunks with a state."""
    for layers in (1, 2):
        for rows_ in (1, 32):
            name = f"lstm {layers} of 300 to 512, "
            for steps in (8, 32, 128):
                yield Case(f"{name}{steps} steps of {rows_}", "lstm", (steps, rows_, 300, 512, layers, 1), count=1)
            for steps in (8, 32, 128):
                yield Case(f"{name}{steps} of {rows_}, 8 a run", "lstm", (steps, rows_, 300, 512, layers, 8), count=1)
            for steps in (32, 128):
                yield Case(f"{name}{steps} of {rows_}, one run", "lstm", (steps, rows_, 300, 512, layers, steps),
                           count=1)
            yield Case(f"{name}128 of {rows_}, stream of 8s", "lstm", (128, rows_, 300, 512, layers, 8), count=1,
                       stream=True)


GROUPS = {"gemm": gemm, "matmul": matmul, "rows": rows, "conv": conv, "lstm": lstm}


def cases(only, tiny=False):
    """(group, case): all, or those of the groups named and those whose name has such a part. tiny: the first of each
    group, once."""
    for group, make in GROUPS.items():
        for i, case in enumerate(make()):
            if not only or group in only or any(part in case.name for part in only if part not in GROUPS):
                if tiny and i > 0:
                    break
                yield group, replace(case, count=1) if tiny else case
