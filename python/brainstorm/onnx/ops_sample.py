"""ONNX ops that sample: GridSample, AffineGrid, and transforms to frequencies, which are products with a matrix."""

import itertools
import math

import numpy as np

from .refused import Refused
from .table import op
from .tensors import axis_of

A = -0.75  # of cubic interpolation


class Line:
    """Places along one axis of an image: [N, P], in pixels."""

    def __init__(self, m, size, place, padding, corners):
        self.m, self.size, self.padding = m, size, padding
        self.low, self.high = (0.0, size - 1.0) if corners else (-0.5, size - 0.5)
        scale, offset = (size - 1) / 2 if corners else size / 2, (size - 1) / 2
        self.place = m.affine(place, scale, offset)
        if padding == "reflection" and self.high == self.low:
            raise Refused("a reflection of one pixel")

    def bounded(self, x):
        """Places outside the image, as the padding says; those between its edge and the middle of its first pixel
        stay."""
        m = self.m
        outside = m.pair("or", m.pair("less", x, m.scalar(self.low)), m.pair("greater", x, m.scalar(self.high)))
        if self.padding == "border":
            return m.where(outside, self.clipped(x), x)
        return m.where(outside, self.reflected(x), x) if self.padding == "reflection" else x

    def clipped(self, x):
        return self.m.each(x, lambda v: self.m.g.clip(v, 0.0, self.size - 1.0))

    def reflected(self, x):
        m, span = self.m, self.high - self.low
        below = m.pair("less", x, m.scalar(self.low))
        beyond = m.where(below, m.affine(x, -1, self.low), m.affine(x, 1, -self.high))
        turns = m.unary("floor", m.div(beyond, m.scalar(span)))
        left = m.sub(beyond, m.affine(turns, span))
        odd = m.pair("not_equal", m.affine(turns, 1), m.affine(m.unary("floor", m.affine(turns, 0.5)), 2))
        return m.where(m.pair("xor", below, odd), m.affine(left, 1, self.low), m.affine(left, -1, self.high))

    def pixel(self, x):
        """(index of the pixel at whole place x, 1 where there is one or None)."""
        m, there = self.m, None
        if self.padding == "zeros":
            there = m.pair("and", m.pair("greater_equal", x, m.scalar(0.0)),
                           m.pair("less_equal", x, m.scalar(self.size - 1.0)))
        elif self.padding == "reflection":
            outside = m.pair("or", m.pair("less", x, m.scalar(self.low)), m.pair("greater", x, m.scalar(self.high)))
            x = m.where(outside, self.reflected(x), x)
        return m.to_int(m.unary("floor", self.clipped(x))), there

    def taps(self, mode):
        """[(index, there, weight or None)]."""
        m = self.m
        if mode == "nearest":
            return [(*self.pixel(self.bounded(m.unary("round", self.place))), None)]
        x = self.bounded(self.place)
        first = m.unary("floor", x)
        part = m.sub(x, first)
        if mode == "linear":
            weights = [(0, m.affine(part, -1, 1)), (1, part)]
        else:
            weights = [(i - 1, self.cubic(m.affine(part, 1 if i < 2 else -1, 1 - i if i < 2 else i - 1), i in (1, 2)))
                       for i in range(4)]
        return [(*self.pixel(m.affine(first, 1, i)), w) for i, w in weights]

    def cubic(self, d, near):
        """The weight of a pixel at distance d: below 1, or of 1 to 2."""
        m = self.m
        if near:
            return m.affine(m.mul(m.mul(m.affine(d, A + 2, -(A + 3)), d), d), 1, 1)
        return m.affine(m.mul(m.affine(m.mul(m.affine(d, A, -5 * A), d), 1, 8 * A), d), 1, -4 * A)


@op("GridSample")
def grid_sample(n):
    x, grid, m = n[0], n[1], n.m
    mode = {"bilinear": "linear", "bicubic": "cubic"}.get(n.attr("mode", "linear"), n.attr("mode", "linear"))
    sizes, rank = x.shape[2:], x.rank - 2
    batch, channels, places = x.shape[0], x.shape[1], math.prod(grid.shape[1:-1])
    flat = m.reshape(grid, (batch, places, rank))
    column = lambda i: m.reshape(m.slice(flat, 2, i, 1), (batch, places))
    lines = [Line(m, size, column(rank - 1 - i), n.attr("padding_mode", "zeros"), n.attr("align_corners", 0))
             for i, size in enumerate(sizes)]
    pixels, total = m.reshape(x, (batch, channels, math.prod(sizes))), None
    for taps in itertools.product(*(line.taps(mode) for line in lines)):
        part = sampled(m, pixels, sizes, taps)
        total = part if total is None else m.add(total, part)
    return m.reshape(total, (batch, channels, *grid.shape[1:-1]))


def sampled(m, pixels, sizes, taps):
    """The pixel of one tap of each axis, times its weights."""
    index = weight = there = None
    for size, (at, is_there, part) in zip(sizes, taps):
        index = at if index is None else m.add(m.mul(index, m.scalar(size, np.int32)), at)
        weight = part if weight is None or part is None else m.mul(weight, part)
        there = is_there if there is None or is_there is None else m.pair("and", there, is_there)
    batch, places = index.shape
    shape = (batch, pixels.shape[1], places)
    wide = m.expand(m.reshape(index, (batch, 1, places)), shape)
    out = m.made(m.g.gather_elements(m.held(pixels, pixels.shape), m.held(wide, shape), 2), shape)
    if there is not None:
        out = m.where(m.reshape(there, (batch, 1, places)), out, m.scalar(0.0))
    return out if weight is None else m.mul(out, m.reshape(weight, (batch, 1, places)))


@op("AffineGrid")
def affine_grid(n):
    theta, m = n[0], n.m
    batch, _, *sizes = n.numbers(1)
    m.room((len(sizes) + 1) * math.prod(max(s, 0) for s in sizes))
    lines = [np.linspace(-1, 1, s) if n.attr("align_corners", 0) else (2 * np.arange(s) + 1) / s - 1 for s in sizes]
    grid = np.stack([*np.meshgrid(*lines, indexing="ij")[::-1], np.ones(sizes)], -1).reshape(-1, len(sizes) + 1)
    points = m.matmul(theta, m.array(grid.T))
    return m.reshape(m.transpose(points, (0, 2, 1)), (batch, *sizes, len(sizes)))


# ------------------------------------------------------------------------------------------- frequencies

def transform(length, size, parts, inverse, one_sided):
    """What a transform of `size` numbers of `parts` parts is, as a matrix [out, size parts], and the parts of its
    result. Inverse ones are still to be divided by `length`: numbers that cancel are the same then."""
    columns = []
    for at in range(size * parts):
        signal = np.zeros(size, complex)
        signal[at // parts] = 1j if at % parts else 1
        if inverse and one_sided:
            columns.append(np.fft.irfft(signal, length, norm="forward")[:, None])
            continue
        made = np.fft.ifft(signal, length, norm="forward") if inverse else np.fft.fft(signal, length)
        made = made[:length // 2 + 1] if one_sided else made
        columns.append(np.stack([made.real, made.imag], -1))
    return np.stack([c.ravel() for c in columns], -1).astype(np.float32), columns[0].shape


@op("DFT")
def dft(n):
    x, m = n[0], n.m
    axis = n.numbers(2)
    axis = axis_of(axis[0] if axis else n.attr("axis", 1 if n.version < 20 else -2), x.rank)
    inverse, one_sided = n.attr("inverse", 0), n.attr("onesided", 0)
    size, parts = x.shape[axis], x.shape[-1]
    length = n.numbers(1)
    length = length[0] if length else 2 * (size - 1) if inverse and one_sided else size
    if axis == x.rank - 1 or not x.floats or size * length > 2**22:
        raise Refused(f"a transform of {size} numbers of {x.dtype} along axis {axis}")
    if inverse and not one_sided:
        raise Refused("an inverse transform to complex numbers, whose sums do not cancel to 0 in f32")
    order = [i for i in range(x.rank - 1) if i != axis] + [axis, x.rank - 1]
    matrix, made = transform(length, size, parts, inverse, one_sided)
    moved = m.transpose(x, order)
    lead = moved.shape[:-2]
    out = m.reshape(m.linear(m.reshape(moved, (*lead, size * parts)), matrix, stem=n.stem), (*lead, *made))
    out = m.affine(out, 1 / length) if inverse else out
    return m.transpose(out, [order.index(i) for i in range(x.rank)])
