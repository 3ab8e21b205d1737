"""SkipNet's ResNet-101 (Wang et al. 2018): seeded weights and images, and what it is by definition (NumPy, float64).

Must never: know of a runtime: time_decide_ours.py and time_decide_torch.py do.
"""

import functools

import numpy as np

from product_cases import convolution, sigmoid
from time_decide import Deciding, lstm_cell
from time_forms import Looped


class Skipnet(Deciding):
    """Bottleneck blocks, of which all but the first of a stage have a gate: the mean of each channel, a linear layer of
    the gate's own, a step of one LSTM that all gates share, and a probability; a block whose gate says no more than a
    half is skipped. Batch norms are folded. `bias`: of the probability, by which more or fewer are skipped. Images
    differ in contrast, or all would skip the same."""
    EMBED, CONTRASTS = 10, (1.0, 0.3, 3.0, 0.7)

    def __init__(self, name, rows, bias, side=224, width=64, blocks=(3, 4, 23, 3), classes=1000):
        self.name, self.rows, self.bias, self.steps = name, rows, bias, 1
        self.side, self.width, self.depths, self.classes = side, width, blocks, classes
        self.result_shape = (rows, classes)

    def blocks(self):
        """(name, channels, stride, whether it has a gate) of each, one after the other."""
        for stage, count in enumerate(self.depths):
            for i in range(count):
                yield f"{stage}.{i}", self.width << stage, 2 if stage and not i else 1, i > 0

    @functools.cached_property
    def weights(self):
        shared = drawn(self.side, self.width, self.depths, self.classes)[0]
        return {**shared, "gate.bias": np.array([self.bias], np.float32)}

    @functools.cached_property
    def inputs(self):
        return {"x": drawn(self.side, self.width, self.depths, self.classes)[1][: self.rows]}

    def conv(self, x, name, stride=1):
        return (convolution(x, self.exact(f"{name}.weight"), stride, 1)
                + self.exact(f"{name}.bias")[:, None, None])

    def block(self, x, name, stride):
        y = np.maximum(self.conv(x, f"{name}.a"), 0)
        y = self.conv(np.maximum(self.conv(y, f"{name}.b", stride), 0), f"{name}.c")
        shortcut = self.conv(x, f"{name}.shortcut", stride) if name.endswith(".0") else x
        return np.maximum(y + shortcut, 0)

    def one(self, x):
        """The result of an image, and {block: what its gate says, a half taken off}."""
        lstm, said = self.exact_lstm("lstm"), {}
        h = c = np.zeros(self.EMBED)
        x = pooled(np.maximum(self.conv(x, "first", 2), 0))
        for name, _, stride, gated in self.blocks():
            if gated:
                seen = self.exact(f"{name}.gate.weight") @ x.mean((1, 2)) + self.exact(f"{name}.gate.bias")
                h, c = lstm_cell(lstm, seen, h, c)
                said[name] = float(sigmoid(self.exact("gate.weight") @ h + self.exact("gate.bias"))[0]) - 0.5
            if not gated or said[name] > 0:
                x = self.block(x, name, stride)
        return self.exact("last.weight") @ x.mean((1, 2)) + self.exact("last.bias"), said

    @functools.cached_property
    def found(self):
        return [self.one(x.astype(np.float64)) for x in self.inputs["x"]]

    @property
    def truth(self):
        return np.stack([y for y, _ in self.found])

    @property
    def margin(self):
        return min(abs(said) for _, all_said in self.found for said in all_said.values())

    def kept(self, name):
        """By how many images."""
        return sum(said.get(name, 1) > 0 for _, said in self.found)

    def sizes(self, name):
        return sum(w.size for key, w in self.weights.items() if key.startswith(f"{name}.") and w.ndim == 4)

    @property
    def flops(self):
        pixels = (self.side // 2) ** 2
        total = self.rows * (pixels * self.sizes("first") + self.weights["last.weight"].size)
        pixels //= 4
        for name, _, stride, _ in self.blocks():
            before = pixels * self.weights[f"{name}.a.weight"].size
            pixels //= stride ** 2
            rest = self.sizes(name) - self.weights[f"{name}.a.weight"].size
            total += self.kept(name) * (before + pixels * rest)
        return int(2 * total)

    @property
    def reads(self):
        """Of blocks that an image keeps."""
        skipped = [name for name, *_ in self.blocks() if not self.kept(name)]
        of_blocks = 4 * sum(self.sizes(name) for name in skipped)
        return sum(w.nbytes for w in self.weights.values()) - of_blocks, 1


def pooled(x):
    """The largest of 3 x 3, every second one."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)), constant_values=-np.inf)
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (1, 2))[:, ::2, ::2].max((3, 4))


@functools.lru_cache(1)
def drawn(side, width, depths, classes):
    """Weights, which are those of all networks of these sizes, and as many images as a network may have."""
    net = Looped("")
    w, embed = net.weights, Skipnet.EMBED

    def conv(name, inputs, out, kernel, spread=1.0):
        spread *= (inputs * kernel ** 2) ** -0.5
        w[f"{name}.weight"] = net.normal(out, inputs, kernel, kernel, spread=spread)
        w[f"{name}.bias"] = net.normal(out, spread=0.1)

    conv("first", 3, width, 7, 1.4)
    before = width
    for name, channels, _, gated in Skipnet("", 0, 0, side, width, depths, classes).blocks():
        conv(f"{name}.a", before, channels, 1, 1.4)
        conv(f"{name}.b", channels, channels, 3, 1.4)
        conv(f"{name}.c", channels, 4 * channels, 1, 0.5)
        if gated:
            w[f"{name}.gate.weight"] = net.normal(embed, before, spread=before ** -0.5)
            w[f"{name}.gate.bias"] = net.normal(embed, spread=0.5)
        else:
            conv(f"{name}.shortcut", before, 4 * channels, 1)
        before = 4 * channels
    for part in ("ih", "hh"):
        w[f"lstm.weight_{part}"] = net.normal(4 * embed, embed, spread=2 * embed ** -0.5)
        w[f"lstm.bias_{part}"] = net.normal(4 * embed, spread=0.1)
    w["gate.weight"] = net.normal(1, embed, spread=2.0)
    w["last.weight"] = net.normal(classes, before, spread=before ** -0.5)
    w["last.bias"] = net.normal(classes, spread=0.1)
    images = net.normal(len(Skipnet.CONTRASTS), 3, side, side)
    return w, images * np.array(Skipnet.CONTRASTS, np.float32)[:, None, None, None]
