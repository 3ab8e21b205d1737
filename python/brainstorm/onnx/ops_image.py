"""ONNX ops of images [N, C, H, W], and of sequences [N, C, L]: convolutions, pools, resizing.

Cells are [C, H, W]: one image is a value of the root domain, several are rows.
"""

import math

import numpy as np

from . import quantised
from .fused import Behind
from .refused import Refused
from .table import op
from .tensors import narrowed


FEW = 8  # channels that fill no vector


class Window:
    """Kernel, strides, dilations and pads of a node, of both axes: a sequence is an image of height 1."""

    def __init__(self, n, x, kernel, ceil=False):
        self.spatial = x.rank - 2
        if self.spatial not in (1, 2):
            raise Refused(f"{n.op} of {self.spatial} dimensions")
        get = lambda name, default: [int(v) for v in n.attr(name) or [default] * self.spatial]
        self.kernel, self.stride, self.dilation = list(kernel), get("strides", 1), get("dilations", 1)
        pads = n.attr("pads") or [0] * (2 * self.spatial)
        self.low, self.high = list(pads[:self.spatial]), list(pads[self.spatial:])
        self.sizes = list(x.shape[2:])
        auto = n.attr("auto_pad", "NOTSET")
        if auto.startswith("SAME"):
            self._same(auto)
        elif auto == "VALID":
            self.low, self.high = [0] * self.spatial, [0] * self.spatial
        if self.spatial == 1:
            self.kernel, self.stride, self.dilation = [1, *self.kernel], [1, *self.stride], [1, *self.dilation]
            self.low, self.high, self.sizes = [0, *self.low], [0, *self.high], [1, *self.sizes]
        if min(self.low + self.high) < 0:
            raise Refused("negative pads")
        self.ceil, self.free = ceil, bool(n.walk.frame)
        self.out = [self._extent(i) for i in range(2)]
        if min(self.out) < 1:
            raise Refused(f"{n.op} that leaves nothing of {list(x.shape)}")

    def reach(self, i):
        return self.dilation[i] * (self.kernel[i] - 1) + 1

    def _same(self, auto):
        for i, size in enumerate(self.sizes):
            total = max((-(-size // self.stride[i]) - 1) * self.stride[i] + self.reach(i) - size, 0)
            self.low[i] = total // 2 if auto == "SAME_UPPER" else -(-total // 2)
            self.high[i] = total - self.low[i]

    def _extent(self, i):
        span = self.sizes[i] + self.low[i] + self.high[i] - self.reach(i)
        if not self.ceil:
            return span // self.stride[i] + 1
        out = -(-span // self.stride[i]) + 1
        if (out - 1) * self.stride[i] >= self.sizes[i] + self.low[i]:
            out -= 1  # a window that begins behind the image is none
        return out

    def beyond(self):
        """What rounding up adds at the ends: of a frame, where no window begins behind the image whatever its size, as
        much as any size needs."""
        needed = [max((self.out[i] - 1) * self.stride[i] + self.reach(i)
                      - self.sizes[i] - self.low[i] - self.high[i], 0) for i in range(2)]
        if not (self.free and self.ceil):
            return needed
        return [self.stride[i] - 1 if self.high[i] + self.stride[i] <= self.reach(i) else needed[i] for i in range(2)]

    def pads(self, beyond=(0, 0)):
        return (self.low[0], self.low[1], self.high[0] + beyond[0], self.high[1] + beyond[1])

    def image(self, m, x):
        """x as cells, which are images."""
        return m.cells(x, (x.shape[1], *self.sizes))

    def made(self, m, x, channels, function):
        """What a function gives of each image of x."""
        shape = (x.shape[0], channels, *self.out[2 - self.spatial:])
        return m.images(x, (x.shape[1], *self.sizes), (channels, *self.out), shape, function)


def weight_of(n, index, spatial, bias_index=2):
    weight = narrowed("a weight", n.constant(index))
    weight = weight.reshape(*weight.shape[:2], *((1,) * (2 - spatial)), *weight.shape[2:])
    bias = n.constant(bias_index)
    return np.ascontiguousarray(weight), None if bias is None else narrowed("a bias", bias)


@op("Conv")
def conv(n):
    x = n[0]
    if not x.floats:
        raise Refused(f"Conv of {x.dtype}")
    n.constant(1)
    if x.rank - 2 not in (1, 2):
        raise Refused(f"a convolution of {x.rank - 2} dimensions")
    exact = quantised.convolved(n, x, lambda whole, weight: convolved(
        n, whole, weight.reshape(*weight.shape[:2], *((1,) * (4 - x.rank)), *weight.shape[2:])))
    if exact is not None:
        return exact
    weight, bias = weight_of(n, 1, x.rank - 2)
    behind = Behind(n, x.rank, weight.shape[0], 1)
    weight, bias = behind.weights(weight, bias)
    return convolved(n, x, weight, bias, behind.act)


def convolved(n, x, weight, bias=None, act=None):
    """x by a weight [out, in / groups, kh, kw], with the window of the node."""
    window = Window(n, x, weight.shape[4 - (x.rank - 2):])
    if of_few_pixels(n, x, window, weight, act):
        return multiplied(n, x, window, weight, bias, act)
    name = n.m.names.fresh(n.stem)  # one for all images: so they have one weight
    return window.made(n.m, x, weight.shape[0], lambda image: n.m.g.conv2d(
        image, name, weight, bias, stride=tuple(window.stride), dilation=tuple(window.dilation),
        groups=n.attr("group", 1), padding="explicit", pad=window.pads(), **(act or {})))


def of_few_pixels(n, x, window, weight, act):
    """Whether images are so small that a product of all pixels with all pixels takes no longer: all rows go through it
    together, where a convolution reads its weights for each. Of one row it must not have more weights."""
    pairs, taps = math.prod(window.sizes) * math.prod(window.out), math.prod(weight.shape[2:])
    rows = max(x.shape[0], n.walk.batch.maximum if n.walk.batch else 1)
    small = taps > 1 and pairs <= (2 * taps if rows > 1 else taps)
    return small and n.attr("group", 1) == 1 and not (act or {}).get("prelu") is not None and not n.walk.patches and \
        not n.walk.frame and not n.m.tiles


def multiplied(n, x, window, weight, bias, act):
    """The convolution as a product."""
    (height, width), (out_h, out_w), channels = window.sizes, window.out, weight.shape[:2]
    whole = np.zeros((channels[0], out_h, out_w, channels[1], height, width), np.float32)
    for ky, kx, oy, ox in np.ndindex(*weight.shape[2:], out_h, out_w):
        y = oy * window.stride[0] + ky * window.dilation[0] - window.low[0]
        z = ox * window.stride[1] + kx * window.dilation[1] - window.low[1]
        if 0 <= y < height and 0 <= z < width:
            whole[:, oy, ox, :, y, z] = weight[:, :, ky, kx]
    g, size, wide = n.m.g, channels[1] * height * width, channels[0] * out_h * out_w
    bias = None if bias is None else np.repeat(bias, out_h * out_w)
    layer = lambda pixels: g.linear(pixels, n.m.names.fresh(n.stem), whole.reshape(wide, -1), bias, **(act or {}))
    if x.shape[0] > 1:
        shape = (x.shape[0], channels[0], *window.out[2 - window.spatial:])
        return n.m.made(layer(n.m.held(x, (x.shape[0], size))), (x.shape[0], wide), shape, x.dtype)
    pixels, cells = g.reshape(window.image(n.m, x), [size]), n.walk.cells
    if n.walk.batch and n.walk.batch.maximum > 1 and cells.op == "rows":  # images go one by one, a matrix not
        made = g.rows(layer(g.collect(pixels)), cells)
    else:
        made = layer(pixels)
    return window.made(n.m, x, channels[0], lambda image: g.reshape(made, [channels[0], out_h, out_w]))


@op("ConvTranspose")
def conv_transpose(n):
    x, m = n[0], n.m
    n.constant(1)
    spatial = x.rank - 2
    if spatial not in (1, 2):
        raise Refused(f"a convolution of {spatial} dimensions")
    weight, bias = weight_of(n, 1, spatial)
    groups, get = n.attr("group", 1), lambda name, default: list(n.attr(name) or [default] * spatial)
    strides, dilations, extra = get("strides", 1), get("dilations", 1), get("output_padding", 0)
    kernel = list(n.constant(1).shape[2:])
    reach = [d * (k - 1) + 1 for d, k in zip(dilations, kernel)]
    pads = list(n.attr("pads") or [0] * 2 * spatial)
    wanted, auto = n.attr("output_shape"), n.attr("auto_pad", "NOTSET")
    sizes = x.shape[2:]
    if auto.startswith("SAME") and not wanted:
        wanted = [s * t for s, t in zip(sizes, strides)]
    if wanted:
        for i in range(spatial):
            total = strides[i] * (sizes[i] - 1) + extra[i] + reach[i] - wanted[i]
            total, extra[i] = max(total, 0), extra[i] + max(-total, 0)
            small = total // 2
            pads[i], pads[i + spatial] = (small, total - small) if auto == "SAME_UPPER" else (total - small, small)
    out = [strides[i] * (sizes[i] - 1) + extra[i] + reach[i] - pads[i] - pads[i + spatial] for i in range(spatial)]
    behind = Behind(n, x.rank, weight.shape[1] * groups, 1)
    plain = spatial == 2 and groups == 1 and dilations == [1, 1] and len(set(pads)) == 1 and extra[0] < strides[0]
    if plain and all(len(set(pair)) == 1 for pair in (kernel, strides, extra)) and strides[0] <= 16:
        weight, bias = behind.weights(weight.swapaxes(0, 1), bias)
        if kernel == strides and not any(pads) and not any(extra) and len(weight) < FEW and "prelu" not in behind.act:
            return phases(n, x, weight, bias, strides[0], behind.act)
        name, held = m.names.fresh(n.stem), (weight.shape[0], *out)
        return m.images(x, x.shape[1:], held, (x.shape[0], *held), lambda image: m.g.deconv2d(
            image, name, weight.swapaxes(0, 1).copy(), bias, strides[0], pads[0], extra[0], padding="explicit",
            **behind.act))
    # As a convolution of an image with zeros between its pixels, by the kernel turned round.
    group_in = x.shape[1] // groups
    turned = weight.reshape(groups, group_in, *weight.shape[1:]).swapaxes(1, 2)[..., ::-1, ::-1]
    turned, bias = behind.weights(np.ascontiguousarray(turned.reshape(-1, group_in, *weight.shape[2:])), bias)
    lift = lambda values, one: [one] * (2 - spatial) + list(values)
    spread = x
    for i in range(spatial):
        spread = spaced(m, spread, 2 + i, strides[i])
    before = [reach[i] - 1 - pads[i] for i in range(spatial)]
    after = [out[i] + reach[i] - 1 - before[i] - spread.shape[2 + i] for i in range(spatial)]
    for i in range(spatial):
        if before[i] < 0 or after[i] < 0:
            low, high = max(-before[i], 0), max(-after[i], 0)
            spread = m.slice(spread, 2 + i, low, spread.shape[2 + i] - low - high)
            before[i], after[i] = max(before[i], 0), max(after[i], 0)
    name, held = m.names.fresh(n.stem), (x.shape[1], *lift(spread.shape[2:], 1))
    return m.images(spread, held, (turned.shape[0], *lift(out, 1)), (x.shape[0], turned.shape[0], *out),
                    lambda image: m.g.conv2d(image, name, turned, bias, dilation=tuple(lift(dilations, 1)),
                                             groups=groups, padding="explicit",
                                             pad=(*lift(before, 0), *lift(after, 0)), **behind.act))


def phases(n, x, weight, bias, r, act):
    """A transposed convolution whose windows lie beside each other: what they give, as channels, is shuffled. Of few
    channels it is faster so."""
    m, channels = n.m, len(weight)
    weight = np.ascontiguousarray(weight.transpose(0, 2, 3, 1).reshape(channels * r * r, -1, 1, 1))
    bias = None if bias is None else np.repeat(bias, r * r)
    name, held = m.names.fresh(n.stem), (channels, x.shape[2] * r, x.shape[3] * r)
    return m.images(x, x.shape[1:], held, (x.shape[0], *held), lambda image: m.g.pixel_shuffle(
        m.g.conv2d(image, name, weight, bias, padding="explicit", pad=0, **act), r))


def spaced(m, x, axis, stride):
    """Zeros between the elements of an axis."""
    if stride == 1:
        return x
    lifted = m.reshape(x, x.shape[:axis + 1] + (1,) + x.shape[axis + 1:])
    sides = [[0] * lifted.rank, [0] * lifted.rank]
    sides[1][axis + 1] = stride - 1
    wide = m.pad(lifted, *sides)
    size = x.shape[axis]
    wide = m.reshape(wide, x.shape[:axis] + (size * stride,) + x.shape[axis + 1:])
    return m.slice(wide, axis, 0, (size - 1) * stride + 1)


# ------------------------------------------------------------------------------------------------- pools

@op("MaxPool", "AveragePool", "LpPool")
def pool(n):
    x, m = n[0], n.m
    n.only()
    if n.attr("storage_order", 0):
        raise Refused("storage_order of MaxPool")
    if not x.floats:
        x = m.to_float(x)
        if n.op != "MaxPool":
            raise Refused(f"{n.op} of {n[0].dtype}")
    if x.rank == 5:
        out = pool_3d(n, x)
        return out if n[0].floats else m.to_int(out, n[0].dtype)
    if n.op == "LpPool":
        return lp_pool(n, x)
    window = Window(n, x, n.attr("kernel_shape"), bool(n.attr("ceil_mode", 0)))
    out = pooled(n, x, window)
    return out if n[0].floats else m.to_int(out, n[0].dtype)


def pooled(n, x, window):
    m, average, beyond = n.m, n.op != "MaxPool", window.beyond()
    counts_pads = average and n.attr("count_include_pad", 0)
    if counts_pads and any(beyond):
        raise Refused("ceil_mode and count_include_pad together")
    low, high = window.low, [h + b for h, b in zip(window.high, beyond)]
    if any(p > window.dilation[i] * (window.kernel[i] - 1) for i in range(2) for p in (low[i], high[i])):
        raise Refused("a pad that is wider than the kernel")
    return window.made(m, x, x.shape[1], lambda image: m.g.pool2d(
        image, "average" if average else "max", tuple(window.kernel), tuple(window.stride), (*low, *high),
        padding="explicit", count_pad=int(bool(counts_pads)), dilation=tuple(window.dilation)))


class Part:
    """A node as some of its axes see it."""

    def __init__(self, n, axes):
        self.n, self.axes, self.m, self.op, self.walk = n, axes, n.m, n.op, n.walk

    def attr(self, name, default=None):
        value = self.n.attr(name, default)
        if name in ("strides", "dilations", "kernel_shape") and value:
            return [value[i] for i in self.axes]
        if name == "pads" and value:
            return [value[i] for i in self.axes] + [value[i + len(value) // 2] for i in self.axes]
        return value


def pool_3d(n, x):
    """Over height and width, then over depth: the largest of the largest, the mean of means of as many."""
    m, ceil = n.m, bool(n.attr("ceil_mode", 0))
    if n.op == "LpPool":
        raise Refused("LpPool of 3 dimensions")
    kernel = n.attr("kernel_shape")
    batch, channels, depth, height, width = x.shape
    flat = m.reshape(x, (batch, channels * depth, height, width))
    part = Part(n, (1, 2))
    flat = pooled(part, flat, Window(part, flat, kernel[1:], ceil))
    height, width = flat.shape[2:]
    part = Part(n, (0,))
    columns = m.transpose(m.reshape(flat, (batch, channels, depth, height * width)), (0, 1, 3, 2))
    columns = m.reshape(columns, (batch, channels * height * width, depth))
    columns = pooled(part, columns, Window(part, columns, kernel[:1], ceil))
    depth = columns.shape[2]
    out = m.transpose(m.reshape(columns, (batch, channels, height * width, depth)), (0, 1, 3, 2))
    return m.reshape(out, (batch, channels, depth, height, width))


def lp_pool(n, x):
    """The p-th root of the sum of |x|^p: a mean that counts its pads, times the size of the kernel."""
    m, p = n.m, n.attr("p", 2)
    window = Window(n, x, n.attr("kernel_shape"), bool(n.attr("ceil_mode", 0)))
    if any(window.beyond()):
        raise Refused("ceil_mode of LpPool")
    raised = m.unary("abs", x) if p == 1 else m.mul(x, x) if p == 2 else m.pair("pow", m.unary("abs", x), m.scalar(p))
    mean = window.made(m, raised, x.shape[1], lambda image: m.g.pool2d(
        image, "average", tuple(window.kernel), tuple(window.stride), window.pads(), padding="explicit", count_pad=1,
        dilation=tuple(window.dilation)))
    total = m.affine(mean, math.prod(window.kernel))
    return total if p == 1 else m.unary("sqrt", total) if p == 2 else m.pair("pow", total, m.scalar(1 / p))


@op("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(n):
    x, m = n[0], n.m
    if x.rank < 3:
        raise Refused(f"{n.op} of {list(x.shape)}, which is no image")
    if n.op == "GlobalLpPool":
        if n.attr("p", 2) not in (1, 2):
            raise Refused("GlobalLpPool of another p than 1 and 2")
        return m.reduce(x, "l2" if n.attr("p", 2) == 2 else "l1", range(2, x.rank))
    if x.rank != 4:
        return m.reduce(x, "mean" if n.op == "GlobalAveragePool" else "max", range(2, x.rank))
    kind = "average" if n.op == "GlobalAveragePool" else "max"
    return m.images(x, x.shape[1:], x.shape[1:2], (*x.shape[:2], 1, 1),
                    lambda image: m.g.pool2d(image, kind, everything=1))


# ---------------------------------------------------------------------------------------------- resizing

@op("Resize", "Upsample")
def resize(n):
    """Along each axis a product with a matrix of weights, made here, or a selection where each line has one of 1;
    whole factors of images by the library's own op."""
    from . import interpolation
    return interpolation.resize(n)


@op("LRN")
def lrn(n):
    x, m = n[0], n.m
    if x.rank != 4:
        raise Refused(f"LRN of rank {x.rank}")
    return m.images(x, x.shape[1:], x.shape[1:], x.shape, lambda image: m.g.lrn(
        image, n.attr("size"), n.attr("alpha", 1e-4), n.attr("beta", 0.75), n.attr("bias", 1.0)))
