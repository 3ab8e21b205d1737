"""The two networks of the x2 luma model, and how they are trained and flattened.

Every exit gives 4 channels at input resolution; shuffled to x2 they are added to a bicubic
enlargement, so an untrained net starts as bicubic and a route can always fall back to it.
"""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

import data

SCALE = data.SCALE

# name: head kernel, channels, body kernels, after which body convolution the exits sit
SHAPES = {
    "large": (3, 32, (3, 3, 3, 3, 3, 3), (2, 4, 6)),
    "small": (3, 12, (3, 3, 3), (3,)),
    # candidates for `small` that were tried and lost, see README.md
    "small_shallow": (5, 16, (3,), (1,)),
    "small_mixed": (5, 16, (3, 1), (2,)),
    # the family that family.py trains: channels x body convolutions, one end each
    "n8x4": (3, 8, (3,) * 4, (4,)),
    "n16x5": (3, 16, (3,) * 5, (5,)),
    "n16x11": (3, 16, (3,) * 11, (11,)),
    "n24x5": (3, 24, (3,) * 5, (5,)),
    # what they learn from; never ships
    "teacher": (3, 32, (3,) * 12, (12,)),
}


def bicubic_filter():
    """The x2 bicubic enlargement as a 5x5 convolution to 4 channels in pixel-shuffle order."""
    taps = np.zeros((SCALE, 5), np.float64)
    for phase in range(SCALE):
        centre = 2 + (phase + 0.5) / SCALE - 0.5
        taps[phase] = data.cubic_kernel(np.arange(5) - centre)
    grid = np.einsum("ai,bj->abij", taps, taps).reshape(SCALE * SCALE, 1, 5, 5)
    return torch.tensor(grid, dtype=torch.float32)


class Convolution(nn.Module):
    """A 'same' convolution, optionally trained as base + narrow(1x1) * wide(kxk).

    The product is formed in the weights, not on the pixels, so it costs next to nothing and
    vanishes at export; it only makes gradient descent find better weights.
    """

    def __init__(self, width_in, width_out, kernel, identity=False, expand=0):
        super().__init__()
        self.padding = kernel // 2
        convolution = nn.Conv2d(width_in, width_out, kernel)
        weight = convolution.weight.data
        if identity:
            # Same as a skip connection folded into the weights: deep plain nets train.
            weight *= 0.5
            for channel in range(min(width_in, width_out)):
                weight[channel, channel, kernel // 2, kernel // 2] += 1.0
        self.weight = nn.Parameter(weight.clone())
        self.bias = nn.Parameter(torch.zeros(width_out))
        self.wide = self.narrow = None
        if expand:
            self.wide = nn.Parameter(nn.Conv2d(width_in, expand, kernel).weight.data.clone())
            self.narrow = nn.Parameter(torch.zeros(width_out, expand))

    def effective_weight(self):
        if self.wide is None:
            return self.weight
        with torch.autocast("cpu", enabled=False):
            product = self.narrow @ self.wide.flatten(1)
            return self.weight + product.view_as(self.weight)

    def forward(self, x):
        return F.conv2d(x, self.effective_weight(), self.bias, padding=self.padding)

    def set_plain(self, weight, bias):
        self.weight.data.copy_(weight)
        self.bias.data.copy_(bias)
        if self.narrow is not None:
            self.narrow.data.zero_()


class Block(nn.Module):
    """Convolution and PReLU, one slope per channel."""

    def __init__(self, *args, **keywords):
        super().__init__()
        self.convolution = Convolution(*args, **keywords)
        self.slope = nn.Parameter(torch.full((args[1],), 0.2))

    def forward(self, x):
        x = self.convolution(x)
        if x.dtype != torch.bfloat16:
            return F.prelu(x, self.slope)
        # PReLU, written so that its gradient is quick in bfloat16; in f32 PyTorch's is quicker.
        positive = F.relu(x)
        return positive + self.slope.to(x.dtype).view(1, -1, 1, 1) * (x - positive)


class ExitNet(nn.Module):
    def __init__(self, name, expand=0):
        super().__init__()
        head, width, body, exits = SHAPES[name]
        self.name = name
        self.exits = exits
        self.head = Block(1, width, head, expand=expand)
        self.body = nn.ModuleList(Block(width, width, k, identity=True, expand=expand) for k in body)
        self.tails = nn.ModuleList(Convolution(width, SCALE**2, 3, expand=expand) for _ in exits)
        for tail in self.tails:
            tail.weight.data *= 0.1
        self.register_buffer("bicubic", bicubic_filter(), persistent=False)

    def base(self, x):
        return F.conv2d(F.pad(x, (2, 2, 2, 2), mode="replicate"), self.bicubic)

    def corrections(self, x):
        """Per exit, what is added to the bicubic base."""
        x = self.head(x)
        out = []
        for depth, block in enumerate(self.body, 1):
            x = block(x)
            if depth in self.exits:
                out.append(self.tails[self.exits.index(depth)](x))
        return out

    def forward(self, x, low_precision=False):
        """One enlarged picture per exit, not clipped. bfloat16 costs under 0.001 dB here (the
        base stays exact) and nearly halves the time of a training step."""
        base = self.base(x)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=low_precision):
            corrections = self.corrections(x)
        return [F.pixel_shuffle(base + c.to(base.dtype), SCALE) for c in corrections]

    # ------------------------------------------------ flat weights, as exported

    def _named_parts(self):
        yield "head", self.head.convolution, self.head
        for number, block in enumerate(self.body):
            yield f"body{number}", block.convolution, block
        for number, tail in enumerate(self.tails):
            yield (f"tail{number}" if len(self.tails) > 1 else "tail"), tail, None

    def plain(self):
        """Tensors of the exported net, by their exported names without the model's prefix."""
        weights = {}
        for name, convolution, block in self._named_parts():
            weights[name + ".weight"] = convolution.effective_weight().detach().clone()
            weights[name + ".bias"] = convolution.bias.detach().clone()
            if block is not None:
                weights[name + ".prelu"] = block.slope.detach().clone()
        return weights

    def load_plain(self, weights):
        for name, convolution, block in self._named_parts():
            convolution.set_plain(
                torch.as_tensor(weights[name + ".weight"]), torch.as_tensor(weights[name + ".bias"])
            )
            if block is not None:
                block.slope.data.copy_(torch.as_tensor(weights[name + ".prelu"]))


def deepened(weights, name):
    """Plain weights of a shallower net as those of `name`, which gives the same pictures: layers that change nothing
    are put behind each old one in turn, and the last exit's tail is taken."""
    _, width, body, _ = SHAPES[name]
    old = sum(key.startswith("body") and key.endswith(".weight") for key in weights)
    tails = sorted(key[: -len(".weight")] for key in weights if key.startswith("tail") and key.endswith(".weight"))
    parts = [(part, part) for part in ("head.weight", "head.bias", "head.prelu")]
    parts += [(f"tail.{kind}", f"{tails[-1]}.{kind}") for kind in ("weight", "bias")]
    new = {to: np.asarray(weights[source], np.float32) for to, source in parts}
    one = np.zeros((width, width, 3, 3), np.float32)
    one[range(width), range(width), 1, 1] = 1
    # A slope of 1 lets negative values through as they are.
    nothing = {"weight": one, "bias": np.zeros(width, np.float32), "prelu": np.ones(width, np.float32)}
    sources = [layer for number in range(old) for layer in ([number, None] if number < len(body) - old else [number])]
    for number, source in enumerate(sources):
        for kind in nothing:
            new[f"body{number}.{kind}"] = nothing[kind] if source is None else weights[f"body{source}.{kind}"]
    return new


def guess_shape(prefix, weights):
    """The SHAPES name that a set of exported tensors fits."""
    for name, (head, width, body, exits) in SHAPES.items():
        if not name.startswith(prefix):
            continue
        body_kernels = tuple(
            weights[f"body{i}.weight"].shape[2] for i in range(9) if f"body{i}.weight" in weights
        )
        head_shape = tuple(weights["head.weight"].shape)
        if head_shape == (width, 1, head, head) and body_kernels == body:
            return name
    raise ValueError(f"no known shape fits the weights of '{prefix}'")


def plain_weights(path):
    """Of a file with one net, or of the large one of a file with two."""
    archive = dict(np.load(path))
    if "head.weight" in archive:
        return archive
    return {k[len("large.") :]: v for k, v in archive.items() if k.startswith("large.")}


def load_npz(path, prefix):
    """A plain net (no expansion) from an exported file."""
    archive = np.load(path)
    weights = {k[len(prefix) + 1 :]: archive[k] for k in archive.files if k.startswith(prefix + ".")}
    net = ExitNet(guess_shape(prefix, weights))
    net.load_plain(weights)
    return net
