"""ONNX Resize and Upsample, along one axis after the other: each is linear, with weights known now.

The library's own resize takes images by whole factors; all else is a selection (nearest) or a product with a constant
matrix. The weights are those of the specification (onnx.reference's op_resize says the same).
"""

import math

import numpy as np

from .refused import Refused
from .sizes import is_open
from .tensors import axes_of


SIMPLE = "simple"  # nearest_mode of sets before 11: up where an image shrinks
HALF = 1e-6  # below a half ONNX Runtime takes a place for one
TAPS = 64  # numbers that working out a place is worth


class Axis:
    """How one axis is resized."""

    def __init__(self, n, size, scale, out, roi):
        self.n, self.size, self.scale, self.out, self.roi = n, size, scale, out, roi
        self.transform = n.attr("coordinate_transformation_mode", "half_pixel" if n.op == "Resize" else "asymmetric")

    def place(self, i, kind):
        """Where number i of the result lies. The nearest is that of a place in f32, as all others compute it."""
        size, out, scale = self.size, self.out, self.scale
        if kind == "nearest":
            i, scale = np.float32(i), np.float32(scale)
        wanted = size * scale  # may be a fraction
        if self.transform == "half_pixel":
            return (i + 0.5) / scale - 0.5
        if self.transform == "pytorch_half_pixel":
            return (i + 0.5) / scale - 0.5 if out > 1 else -0.5
        if self.transform == "half_pixel_symmetric":
            return size / 2 * (1 - out / wanted) + (i + 0.5) / scale - 0.5
        if self.transform == "align_corners":  # of what there is: so ONNX Runtime and PyTorch, unlike onnx.reference
            return i * (size - 1) / (out - 1) if out > 1 else 0.0
        if self.transform == "asymmetric":
            return i / scale
        if self.transform == "tf_half_pixel_for_nn":
            return (i + 0.5) / scale
        if self.transform == "tf_crop_and_resize":
            start, end = self.roi
            if out > 1:
                return start * (size - 1) + i * (end - start) * (size - 1) / (wanted - 1)
            return 0.5 * (start + end) * (size - 1)
        raise Refused(f"coordinate_transformation_mode {self.transform!r}")

    def nearest(self, x):
        """The index of the nearest, as nearest_mode says."""
        mode = self.n.attr("nearest_mode", "round_prefer_floor" if self.n.op == "Resize" else "floor")
        if mode == "round_prefer_floor":
            return math.ceil(x - 0.5)
        if mode == "round_prefer_ceil":
            return math.floor(float(x) + 0.5 + HALF)
        if mode == SIMPLE:
            return math.ceil(x) if self.scale < 1 else math.floor(x)
        return math.floor(x) if mode == "floor" else math.ceil(x)

    def taps(self, x, kind):
        """(index, weight) of what stands at place x."""
        if kind == "nearest":
            return [(self.nearest(x), 1.0)]
        shrink = min(self.scale, 1.0) if self.n.attr("antialias", 0) else 1.0
        reach = (1 if kind == "linear" else 2) / shrink
        a = self.n.attr("cubic_coeff_a", -0.75)
        weights = [(i, self.weight((x - i) * shrink, kind, a))
                   for i in range(math.floor(x - reach), math.ceil(x + reach) + 1)]
        weights = [(i, w) for i, w in weights if w != 0]
        if self.n.attr("exclude_outside", 0) or shrink != 1.0 and False:
            weights = [(i, w) for i, w in weights if 0 <= i < self.size]
            total = sum(w for _, w in weights)
            weights = [(i, w / total) for i, w in weights]
        elif shrink != 1.0:
            total = sum(w for _, w in weights)
            weights = [(i, w / total) for i, w in weights]
        return weights

    def weight(self, d, kind, a):
        d = abs(d)
        if kind == "linear":
            return max(1.0 - d, 0.0)
        if d <= 1:
            return (a + 2) * d**3 - (a + 3) * d**2 + 1
        return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0

    def matrix(self, kind):
        """Weights [out, size], and which lines lie outside."""
        matrix, outside = np.zeros((self.out, self.size)), np.zeros(self.out, bool)
        for i in range(self.out):
            x = self.place(i, kind)
            if self.transform == "tf_crop_and_resize" and not 0 <= x <= self.size - 1:
                outside[i] = True
                continue
            for at, w in self.taps(x, kind):
                matrix[i, min(max(at, 0), self.size - 1)] += w
        return matrix, outside


def scales_of(n, x):
    """(axes, scales, extents) of the node."""
    axes = axes_of(n.attr("axes", list(range(x.rank))), x.rank)
    if n.op == "Upsample":
        scales = n.constant(1)
        scales = [float(s) for s in (n.attr("scales") if scales is None else scales)]
        sizes = None
    else:
        scales, sizes = n.constant(2), n.numbers(3)
        scales = [float(s) for s in scales] if scales is not None and np.size(scales) else None
    if len(axes) != len(sizes if scales is None else scales):
        raise Refused(f"{len(sizes if scales is None else scales)} sizes of {len(axes)} axes")
    if scales is not None:
        return axes, scales, [math.floor(np.float32(x.shape[a]) * np.float32(s)) for a, s in zip(axes, scales)]
    scales = [s / x.shape[a] for a, s in zip(axes, sizes)]
    policy = n.attr("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        one = min(scales) if policy == "not_larger" else max(scales)
        scales = [one] * len(axes)
        sizes = [math.floor(x.shape[a] * one + 0.5) for a in axes]
    return axes, scales, sizes


def resize(n):
    x, m = n[0], n.m
    kind = {"nearest": "nearest", "linear": "linear", "cubic": "cubic"}.get(n.attr("mode", "nearest"))
    if kind is None or not x.floats and kind != "nearest":
        raise Refused(f"Resize of mode {n.attr('mode')!r} of {x.dtype}")
    axes, scales, sizes = scales_of(n, x)
    crops = n.op == "Resize" and n.attr("coordinate_transformation_mode") == "tf_crop_and_resize"
    roi = n.constant(1) if crops else None
    own = whole_factor(n, x, kind, axes, scales) or of_lines(n, x, kind, axes, scales)
    if own is not None:
        return own
    for i, (axis, scale, size) in enumerate(zip(axes, scales, sizes)):
        if scale == 1 and roi is None and size == x.shape[axis]:
            continue
        m.room(size * max(x.shape[axis], TAPS))
        part = None if roi is None else (float(roi[i]), float(roi[i + len(axes)]))
        matrix, outside = Axis(n, x.shape[axis], scale, size, part).matrix(kind)
        x = along(m, n, x, axis, matrix)
        if outside.any():
            shape = [len(outside) if a == axis else 1 for a in range(x.rank)]
            number = n.attr("extrapolation_value", 0.0)
            x = m.where(m.array(outside.reshape(shape), bool), m.scalar(number, x.dtype), x)
    return x


def along(m, n, x, axis, matrix):
    """x, one of whose axes goes through a matrix."""
    times = len(matrix) // x.shape[axis]
    if is_open(x.shape[axis]) and np.array_equal(matrix, np.repeat(np.eye(x.shape[axis]), times, 0)):
        wide = x.shape[axis] * times
        x = m.reshape(x, x.shape[:axis + 1] + (1,) + x.shape[axis + 1:])
        x = m.take(x, np.zeros(times, np.int32), axis + 1)
        return m.reshape(x, x.shape[:axis] + (wide,) + x.shape[axis + 2:])
    if np.all((matrix == 0) | (matrix == 1)) and np.all(matrix.sum(1) == 1):
        return m.take(x, matrix.argmax(1), axis)
    order = [i for i in range(x.rank) if i != axis] + [axis]
    moved = m.linear(m.transpose(x, order), matrix.astype(np.float32), stem=n.stem)
    return m.transpose(moved, [order.index(i) for i in range(x.rank)])


def of_lines(n, x, kind, axes, scales):
    """Sequences whose length follows a free size as images of a height of 1, of which one line is taken; else None."""
    by = dict(zip(axes, scales))
    if x.rank != 3 or not is_open(x.shape[2]) or by.get(0, 1) != 1 or by.get(1, 1) != 1 or kind == "nearest":
        return None
    image = n.m.reshape(x, (x.shape[0], x.shape[1], 1, x.shape[2]))
    made = whole_factor(n, image, kind, (2, 3), (by.get(2), by.get(2)))
    if made is None:
        return None
    return n.m.reshape(n.m.slice(made, 2, 0, 1), (*x.shape[:2], made.shape[3]))


def whole_factor(n, x, kind, axes, scales):
    """Images that grow by 2, 3 ... in both axes as the library does it; else None."""
    by = dict(zip(axes, scales))
    factor, centres = by.get(2), n.attr("coordinate_transformation_mode", "half_pixel")
    centres = "asymmetric" if n.op == "Upsample" else centres
    nearest = n.attr("nearest_mode", "round_prefer_floor" if n.op == "Resize" else "floor")
    if x.rank != 4 or factor != by.get(3) or by.get(0, 1) != 1 or by.get(1, 1) != 1 or not x.floats:
        return None
    if factor not in range(2, 17) or n.attr("exclude_outside", 0) or centres not in ("half_pixel", "asymmetric"):
        return None
    if kind == "nearest" and (centres, nearest) != ("asymmetric", "floor"):
        return None
    if kind == "nearest" and not n.walk.frame and not n.walk.patches:
        return None  # selections are many times faster, where no cell need know its neighbours
    name = {"nearest": "nearest", "linear": "bilinear", "cubic": "bicubic"}[kind]
    a = n.attr("cubic_coeff_a", -0.75) if kind == "cubic" else 0.0
    held = (x.shape[1], x.shape[2] * int(factor), x.shape[3] * int(factor))
    return n.m.images(x, x.shape[1:], held, (x.shape[0], *held),
                      lambda image: n.m.g.resize(image, name, int(factor), a, centres=centres))
