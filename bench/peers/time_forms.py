"""Networks with loops: seeded weights and inputs, and what each is by definition (NumPy, float64).

Owns: shapes, weights, inputs, and what a network has to do at least: multiply-adds, bytes of weights in each step. Must
never: know of a runtime: time_ours.py, time_torch.py and time_onnx.py do.
"""

import numpy as np

from product_cases import Case, convolution, sigmoid


class Looped:
    """forms: ours, by name. A result is f32 or i32, `result_shape`."""
    forms = ("",)
    result_shape = ()
    result_type = np.float32
    rows_first = False  # whether ours is [rows, steps, ...], not [steps, rows, ...]
    elements = 0        # where the rate is a time for each
    repeated = False    # beside our own runs of a step each
    bare = False        # beside our kernels without anything around them
    ablation = False    # forms leave out one thing each, but for the first: all give the same bytes
    limit_us = None     # asked for, where the machine's is not what matters

    def __init__(self, name):
        self.name, self.noise = name, np.random.default_rng(1)
        self.weights, self.inputs = {}, {}

    def normal(self, *shape, spread=1.0):
        return (spread * self.noise.standard_normal(shape)).astype(np.float32)

    def exact(self, name):
        return self.weights[name].astype(np.float64)

    @property
    def reads(self):
        """Bytes of weights, and how often they must be read: once a step."""
        return sum(w.nbytes for w in self.weights.values()), self.steps


class Lstm(Looped):
    """Layers of an LSTM over a batch. lengths: of each row, where they differ. Products of the inputs are made for all
    steps before a loop, or inside it."""
    forms = ("Wx before", "Wx inside")

    def __init__(self, name, steps, rows, inputs, units, layers=1, lengths=None, **more):
        super().__init__(name)
        self.steps, self.rows, self.units, self.layers, self.lengths = steps, rows, units, layers, lengths
        self.rows_first = lengths is not None
        self.__dict__.update(more)
        self.case = Case(name, "lstm", (steps, rows, inputs, units, layers, 1), count=1)
        self.inputs["x"] = self.case.inputs(self.noise)[0]
        self.weights = self.case.weights(self.noise)
        self.result_shape = self.case.result_shape

    def there(self):
        """Which steps a row has: [steps, rows, 1]."""
        lengths = np.full(self.rows, self.steps) if self.lengths is None else np.asarray(self.lengths)
        return (np.arange(self.steps)[:, None] < lengths)[..., None]

    @property
    def flops(self):
        return int(self.case.flops * self.there().mean())

    @property
    def reads(self):
        return self.case.reads(self.weights)

    def definition(self):
        weights = {name: self.exact(name) for name in self.weights}
        return np.where(self.there(), self.case.definition(self.inputs["x"].astype(np.float64), weights), 0)


class Rows(Lstm):
    """Rows that are done leave, or stay and are masked."""
    forms, ablation = ("rows leave", "rows stay"), True


class Nasrnn(Looped):
    """The cell that a search found (Zoph & Le 2017), as TensorFlow's NASCell and Cocktailer have it: eight gates."""
    forms = ("Wx before", "Wx inside")
    GATES = 8

    def __init__(self, name, steps, rows, units):
        super().__init__(name)
        self.steps, self.rows, self.units = steps, rows, units
        self.inputs["x"] = self.normal(steps, rows, units)
        for each in ("weight_ih", "weight_hh"):
            self.weights[each] = self.normal(self.GATES * units, units, spread=units ** -0.5)
        self.result_shape = (steps, rows, units)
        self.flops = 2 * steps * rows * 2 * self.GATES * units * units

    @property
    def reads(self):
        return self.weights["weight_hh"].nbytes, self.steps

    def definition(self):
        m = c = np.zeros((self.rows, self.units))
        given, out = self.inputs["x"].astype(np.float64) @ self.exact("weight_ih").T, []
        weight = self.exact("weight_hh").T
        for step in given:
            i, h = (np.split(v, self.GATES, axis=1) for v in (step, m @ weight))
            left = np.tanh(sigmoid(i[0] + h[0]) * np.maximum(i[1] + h[1], 0))
            right = np.tanh(sigmoid(i[2] + h[2]) + np.maximum(i[3] * h[3], 0))
            up = np.tanh(np.tanh(i[4] + h[4]) * sigmoid(i[5] + h[5]))
            down = sigmoid(np.tanh(i[6] + h[6]) + sigmoid(i[7] + h[7]))
            c = np.tanh(left + c) * right
            m = np.tanh(c * np.tanh(up + down))
            out.append(m)
        return np.stack(out)


class Attention(Looped):
    """A decoder layer of many heads, position after position: its keys and values go into a cache that all positions
    lie in from the start. Those not yet written are zeros and take part, as everyone computes it."""
    HEADS, WIDTH = 12, 64

    def __init__(self, name, rows, first, last):
        super().__init__(name)
        self.rows, self.first, self.last, self.steps = rows, first, last, last - first
        heads, width = self.HEADS, self.WIDTH
        self.inputs["x"] = self.normal(heads, rows, width)
        for cache in "kv":
            self.inputs[cache] = self.normal(heads, rows, last, width)
            self.inputs[cache][:, :, first:] = 0
        self.weights["qkv"] = self.normal(heads, width, 3 * width, spread=width ** -0.5)
        self.weights["o"] = self.normal(heads, width, width, spread=width ** -0.5)
        self.result_shape = (self.steps, heads, rows, width)
        self.flops = 2 * self.steps * heads * rows * width * (4 * width + 2 * last)

    @property
    def reads(self):
        cache = 2 * self.inputs["k"].nbytes
        return cache + sum(w.nbytes for w in self.weights.values()), self.steps

    def definition(self):
        x, k, v = (self.inputs[name].astype(np.float64) for name in "xkv")
        qkv, o, out = self.exact("qkv"), self.exact("o"), []
        for at in range(self.first, self.last):
            q, k[:, :, at], v[:, :, at] = np.split(x @ qkv, 3, axis=-1)
            scores = np.einsum("hrpw,hrw->hrp", k, q) / np.sqrt(self.WIDTH)
            e = np.exp(scores - scores.max(-1, keepdims=True))
            x = x + np.einsum("hrp,hrpw->hrw", e / e.sum(-1, keepdims=True), v) @ o
            out.append(x)
        return np.stack(out)


class Seq2seq(Looped):
    """The decoder of a translator: an LSTM that writes words, each from the one before, until a row writes the last
    one, or as many as it may."""
    result_type = np.int32
    END, SPREAD, LIKELY = 0, 6.0, 4.0  # spread of the scores, and what the end has more than others

    def __init__(self, name, rows, units, words, most):
        super().__init__(name)
        self.rows, self.units, self.words, self.most = rows, units, words, most
        self.weights = {"embedding": self.normal(words, units),
                        "lstm.weight_ih": self.normal(4 * units, units, spread=2 * units ** -0.5),
                        "lstm.weight_hh": self.normal(4 * units, units, spread=units ** -0.5),
                        "lstm.bias_ih": self.normal(4 * units, spread=0.1),
                        "lstm.bias_hh": self.normal(4 * units, spread=0.1),
                        "words.weight": self.normal(words, units, spread=self.SPREAD * units ** -0.5),
                        "words.bias": self.normal(words, spread=0.1)}
        self.weights["words.bias"][self.END] += self.LIKELY
        self.inputs = {"first": self.noise.integers(1, words, (rows, 1), np.int32), "h": self.normal(rows, units),
                       "c": self.normal(rows, units)}
        self.result_shape = (rows, most)
        self.written = self.definition()

    @property
    def lengths(self):
        """Words of each row."""
        ended = self.written == self.END
        return np.where(ended.any(1), ended.argmax(1) + 1, self.most)

    @property
    def steps(self):
        return int(self.lengths.max())

    @property
    def flops(self):
        return int(2 * self.lengths.sum() * self.units * (8 * self.units + self.words))

    @property
    def reads(self):
        return sum(w.nbytes for name, w in self.weights.items() if name != "embedding"), self.steps

    def definition(self):
        h, c = (self.inputs[name].astype(np.float64) for name in "hc")
        w = {name: self.exact(name) for name in self.weights}
        words, token = np.zeros(self.result_shape, np.int32), self.inputs["first"][:, 0]
        goes_on = np.ones(self.rows, bool)
        for at in range(self.most):
            gates = (w["embedding"][token] @ w["lstm.weight_ih"].T + w["lstm.bias_ih"]
                     + h @ w["lstm.weight_hh"].T + w["lstm.bias_hh"])
            i, f, g, o = np.split(gates, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            token = (h @ w["words.weight"].T + w["words.bias"]).argmax(1)
            words[goes_on, at] = token[goes_on]
            goes_on &= token != self.END
            if not goes_on.any():
                break
        return words


class Trips(Looped):
    """Nothing but trips: one number, to which each adds one."""
    flops = 0

    def __init__(self, name, steps, order, limit_us):
        super().__init__(name)
        self.steps = self.elements = steps
        self.order, self.limit_us = order, limit_us * steps
        self.inputs["x"] = self.normal(1, 1)
        self.weights["one"] = np.ones(1, np.float32)
        self.result_shape = (1, 1)

    def definition(self):
        return self.inputs["x"].astype(np.float64) + self.steps


class Blockdrop(Looped):
    """BlockDrop's network (Wu et al. 2018): a ResNet of 32x32 images whose blocks a policy keeps or skips, image by
    image; here a share of them at random. Batch norms are folded; the policy is an input."""
    STAGES, BLOCKS = (16, 32, 64), 5

    def __init__(self, name, rows, skipped):
        super().__init__(name)
        self.rows, self.steps = rows, 1
        self.conv("first", 3, 16, 3)
        for width, first in zip(self.STAGES, (16, *self.STAGES)):
            for i in range(self.BLOCKS):
                self.conv(f"{width}.{i}.a", width if i else first, width, 3)
                self.conv(f"{width}.{i}.b", width, width, 3)
            if first != width:
                self.conv(f"{width}.shortcut", first, width, 1)
        self.weights["last.weight"], self.weights["last.bias"] = self.normal(10, 64, spread=0.3), self.normal(10)
        blocks = len(self.STAGES) * self.BLOCKS
        kept = np.arange(rows * blocks) >= rows * blocks * skipped
        self.inputs = {"x": self.normal(rows, 3, 32, 32),
                       "policy": self.noise.permutation(kept).astype(np.int32).reshape(rows, blocks)}
        self.result_shape = (rows, 10)

    def conv(self, name, inputs, out, kernel):
        self.weights[f"{name}.weight"] = self.normal(out, inputs, kernel, kernel, spread=(inputs * kernel ** 2) ** -0.5)
        self.weights[f"{name}.bias"] = self.normal(out, spread=0.1)

    def blocks(self):
        """(number of the decision, name, stride, whether it has a shortcut) of each, one after the other."""
        for number in range(len(self.STAGES) * self.BLOCKS):
            width, i = self.STAGES[number // self.BLOCKS], number % self.BLOCKS
            enters = i == 0 and width != 16
            yield number, f"{width}.{i}", 2 if enters else 1, f"{width}.shortcut" if enters else None

    @property
    def flops(self):
        pixels, kept = 1024, self.inputs["policy"].sum(0)
        total = self.rows * (pixels * self.weights["first.weight"].size + 640)
        for number, name, stride, shortcut in self.blocks():
            pixels //= stride ** 2
            total += kept[number] * pixels * sum(self.weights[f"{name}.{part}.weight"].size for part in "ab")
            total += self.rows * pixels * self.weights[f"{shortcut}.weight"].size if shortcut else 0
        return int(2 * total)

    def one(self, x, policy):
        conv = lambda x, name, stride=1: (convolution(x, self.exact(f"{name}.weight"), stride, 1)
                                          + self.exact(f"{name}.bias")[:, None, None])
        x = np.maximum(conv(x, "first"), 0)
        for number, name, stride, shortcut in self.blocks():
            y = conv(x, shortcut, stride) if shortcut else x
            if policy[number]:
                y = y + conv(np.maximum(conv(x, f"{name}.a", stride), 0), f"{name}.b")
            x = np.maximum(y, 0)
        return x.mean((1, 2)) @ self.exact("last.weight").T + self.exact("last.bias")

    def definition(self):
        return np.stack([self.one(x.astype(np.float64), p) for x, p in zip(*self.inputs.values())])
