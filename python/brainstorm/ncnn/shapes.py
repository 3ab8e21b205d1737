"""Layers that move elements: joining, cutting, sizes of images, orders of dimensions.

Axes are those of the blob, outermost first, as everywhere in ncnn's parameters. Relies on net.py. Must never compute
with elements but where an image changes its size.
"""

from fractions import Fraction

import numpy as np

from ..ops import MAX_CONCAT
from .extents import derived, difference, number
from .net import Blob, handler
from .param import MAX_INTEGER

REST = -233
SIDE = 2**15


def axis_of(layer, x, axis):
    if not -x.rank <= axis < x.rank:
        raise layer.refuse(f"axis {axis} of {x}")
    return axis % x.rank


@handler("Split")
def split(net, layer, x):
    return [x] * len(layer.outputs)


@handler("MemoryData")
def memory_data(net, layer):
    w, h, c = (layer.whole(key, 0, 0) for key in (0, 1, 2))
    if layer.whole(11):
        raise layer.refuse("data of four dimensions are not supported")
    shape = [d for d in (c, h, w) if d]
    if not shape or (w == 0 or c and h == 0):
        raise layer.refuse(f"of {w} x {h} x {c}")
    return Blob(net.constant(layer, "", net.weights[layer]["data"].reshape(shape)), shape)


@handler("Concat")
def concat(net, layer, *inputs):
    if not inputs:
        raise layer.refuse("has no inputs")
    first = inputs[0]
    axis = axis_of(layer, first, layer.whole(0, 0, -4, 4))
    for x in inputs:
        if x.rank != first.rank or x.cells != first.cells or x.scale != first.scale and x.cells:
            raise layer.refuse(f"joins {first} and {x}")
        for i in range(x.rank):
            if i != axis and difference(x.shape[i], first.shape[i]) != 0:
                raise layer.refuse(f"joins {first} and {x} along axis {axis}")
    if axis != 0:
        net.whole(layer, *inputs)
    if any(not isinstance(x.shape[axis], int) for x in inputs) and len(inputs) > 1:
        raise layer.refuse(f"joins {', '.join(map(str, inputs))}: the size along axis {axis} must be known (--shape)")
    shape = [*first.shape]
    shape[axis] = sum(x.shape[axis] for x in inputs) if len(inputs) > 1 else first.shape[axis]
    values = [x.value for x in inputs]
    while len(values) > 1:  # so many at once
        values = [net.g.concat(values[:MAX_CONCAT], axis), *values[MAX_CONCAT:]]
    return net.like(first, values[0], shape)


@handler("Slice")
def slices(net, layer, x):
    axis = axis_of(layer, x, layer.whole(1, 0, -4, 4))
    whole = number(x.shape[axis], f"axis {axis} of what {layer} reads")
    sizes, points = layer.wholes(0), layer.wholes(2)
    if points:
        points = [p + whole if p < 0 else p for p in points] + [whole]
        sizes = [b - a for a, b in zip([0, *points], points)]
    made, at = [], 0
    for i, size in enumerate(sizes):
        size = (whole - at) // (len(sizes) - i) if size == REST else size
        if size < 1 or at + size > whole:
            raise layer.refuse(f"cuts {sizes} out of {x}")
        if axis != 0:
            net.whole(layer, x)
        made.append(net.like(x, net.g.slice(x.value, axis, at, size), [*x.shape[:axis], size, *x.shape[axis + 1:]]))
        at += size
    return made


@handler("Crop")
def crop(net, layer, x, reference=None):
    cuts = _cuts_of_arrays(layer, x) if layer.wholes(9) else _cuts_of_numbers(layer, x, reference)
    for axis, (before, after) in cuts.items():
        x = net.crop(layer, x, axis, before, after)
    return x


def _cuts_of_arrays(layer, x):
    """{axis: (before, after)}: starts, ends and axes as in NumPy."""
    starts, ends, axes = layer.wholes(9), layer.wholes(10), layer.wholes(11) or list(range(x.rank))
    if not len(starts) == len(ends) == len(axes):
        raise layer.refuse(f"starts {starts}, ends {ends}, axes {axes}")
    cuts = {}
    for start, end, axis in zip(starts, ends, axes):
        axis = axis_of(layer, x, axis)
        extent = x.shape[axis]
        if axis in cuts:
            raise layer.refuse(f"cuts axis {axis} twice")
        before = start if start >= 0 else number(extent, f"axis {axis} of what {layer} reads") + start
        after = -end if end <= 0 else max(difference(extent, end), 0) if isinstance(extent, int) else None
        if after is None:
            raise layer.refuse(f"ends at {end} of {extent}: give the size of the frame (--shape)")
        cuts[axis] = (before, after)
    return cuts


def _cuts_of_numbers(layer, x, reference):
    """Offsets, and sizes or what is cut off behind; sizes of a reference, if there is one."""
    cuts = {}
    for axis in range(x.rank):
        i = x.rank - 1 - axis  # the parameters begin with the width
        before = layer.whole(i, 0, 0)
        size, after = layer.whole(3 + i), layer.whole(6 + i, 0, 0)
        if reference is not None:
            channels = x.rank == 3 and axis == 0 and reference.rank != 3
            size = x.shape[axis] if channels else reference.shape[axis - x.rank + reference.rank]
            after = difference(x.shape[axis], size) - before
        elif size > 0:
            after = max(after, number(x.shape[axis], f"axis {axis} of what {layer} reads") - before - size)
        elif size != REST:
            raise layer.refuse(f"leaves {size} of axis {axis}")
        cuts[axis] = (before, after)
    return cuts


@handler("Padding")
def padding(net, layer, x):
    net.image(layer, x)
    net.whole(layer, x)
    top, bottom, left, right = (layer.whole(key, 0, 0, SIDE) for key in range(4))
    if layer.whole(6) or layer.whole(7) or layer.whole(8):
        raise layer.refuse("values of channels, and channels in front and behind, are not supported")
    kind = layer.whole(4, 0, 0, 2)
    if kind == 2 and any(side >= net.most(x.shape[1 + i // 2]) for i, side in enumerate((top, bottom, left, right))):
        raise layer.refuse(f"reflects more than {x} has")
    value = net.g.pad(x.value, top, bottom, left, right, layer.real(5), edge=kind)
    return net.like(x, value, [x.shape[0], derived(x.shape[1], 1, top + bottom, 1),
                               derived(x.shape[2], 1, left + right, 1)])


@handler("PixelShuffle", "Reorg")
def pixel_shuffle(net, layer, x):
    channels, r = net.channels(layer, x), layer.whole(0, 1, 1, 64)
    net.image(layer, x)
    mode = layer.whole(1, 0, 0, 1)
    if layer.kind == "Reorg":
        if mode:
            raise layer.refuse("mode 1 is not supported")
        shape = [channels * r * r] + [derived(x.shape[i], 1, 0, r) for i in (1, 2)]
        return net.like(x, net.g.pixel_unshuffle(x.value, r), shape, Fraction(1, r))
    if channels % (r * r):
        raise layer.refuse(f"{channels} channels for groups of {r} x {r} pixels")
    value = x.value
    if mode:  # the pixel of a group counts first, the channel last
        value = _reordered(net, layer, x, np.arange(channels).reshape(r * r, -1).T)
    shape = [channels // (r * r)] + [derived(x.shape[i], r, 0, 1) for i in (1, 2)]
    return net.like(x, net.g.pixel_shuffle(value, r), shape, r)


def _reordered(net, layer, x, order):
    net.whole(layer, x)
    order = net.constant(layer, "", np.ascontiguousarray(order.ravel(), np.int32))
    return net.g.select(x.value, order, 0)


@handler("ShuffleChannel")
def shuffle_channel(net, layer, x):
    channels, groups = net.channels(layer, x), layer.whole(0, 1, 1)
    if channels % groups:
        raise layer.refuse(f"{channels} channels in {groups} groups")
    groups = channels // groups if layer.whole(1) else groups
    return net.like(x, _reordered(net, layer, x, np.arange(channels).reshape(groups, -1).T))


KINDS = {1: "nearest", 2: "bilinear", 3: "bicubic"}


@handler("Interp")
def interp(net, layer, x, reference=None):
    net.image(layer, x)
    kind = layer.whole(0, 0, 0, 3)
    if kind == 0 or layer.whole(5) and reference is None:
        raise layer.refuse("a size that is not known before a run is not supported")
    fields = {"kind": KINDS[kind], "cubic_a": -0.75 if kind == 3 else 0.0,
              "centres": "align_corners" if layer.whole(6, 0, 0, 1) else "asymmetric" if kind == 1 else "half_pixel"}
    if kind == 1:
        fields["centres"] = "asymmetric"
    height, width = layer.whole(3, 0, 0), layer.whole(4, 0, 0)
    if reference is not None:
        height, width = (number(d, f"what {layer} reads") for d in reference.shape[-2:])
    if height or width:
        if not height or not width:
            raise layer.refuse(f"to {height} x {width} pixels")
        net.whole(layer, x)
        return net.like(x, net.g.resize(x.value, factor=0, height=height, width=width, **fields),
                        [x.shape[0], height, width])
    ratio = _ratio(layer)
    if ratio == 1:
        return x
    if fields["centres"] == "align_corners":
        net.whole(layer, x)
    if kind == 1 and ratio.denominator == 1:
        fields["centres"] = "half_pixel"  # the same pixels by a whole factor, and a kernel of its own
    value = net.g.resize(x.value, factor=ratio.numerator, den=ratio.denominator if ratio.denominator > 1 else 0,
                         **fields)
    shape = [x.shape[0]] + [derived(x.shape[i], ratio.numerator, 0, ratio.denominator) for i in (1, 2)]
    return net.like(x, value, shape, ratio)


def _ratio(layer):
    """That of the sizes: a float such as 0.75, or 0.333333, which stands for a third."""
    height, width = layer.real(1, 1.0), layer.real(2, 1.0)
    if height != width:
        raise layer.refuse(f"stretches by {height} x {width}: unequal factors are not supported")
    ratio = Fraction(height).limit_denominator(64)
    if not 0 < ratio <= 16 or abs(float(ratio) - height) > 1e-6 * height or ratio.numerator > 2**15:
        raise layer.refuse(f"a factor of {height}, expected a fraction up to 16 with a denominator up to 64")
    return ratio


# Of the result's width, height and channels (or width and height), which dimension each is.
PERMUTED = {0: "whc", 1: "hwc", 2: "wch", 3: "cwh", 4: "hcw", 5: "chw"}


@handler("Permute")
def permute(net, layer, x):
    kind = layer.whole(0, 0, 0, 23)
    if x.rank not in (2, 3) or kind > (5 if x.rank == 3 else 1):
        raise layer.refuse(f"order {kind} of {x}")
    if kind == 0:
        return x
    net.whole(layer, x)
    names = "hw" if x.rank == 2 else "chw"
    order = [names.index(c) for c in reversed("hw" if x.rank == 2 else PERMUTED[kind])]
    return net.like(x, net.g.transpose(x.value, order), [x.shape[i] for i in order])


@handler("Reshape")
def reshape(net, layer, x):
    w, h, c = (layer.whole(key, REST) for key in (0, 1, 2))
    if layer.whole(11, REST) != REST or layer.whole(3):
        raise layer.refuse("four dimensions, and elements in another order, are not supported")
    for key in (12, 13):  # of ncnn's batches
        if key in layer.params:
            raise layer.refuse(f"parameter {key} is not supported")
    if REST in (w, h) and c != REST or w == REST and h != REST:
        raise layer.refuse("a size without those within it")
    asked = [d for d in (c, h, w) if d != REST]
    names = [i for i, d in enumerate((c, h, w)) if d != REST]
    of_x = {i + 3 - x.rank: x.shape[i] for i in range(x.rank)}
    if x.rank == 2 and len(asked) == 3:
        of_x[0] = 1
    shape = [of_x.get(i) if d == 0 else d for i, d in zip(names, asked)]
    odd = None in shape or any(isinstance(d, int) and (d < -1 or d == 0) for d in shape)
    if odd or not shape or shape.count(-1) > 1:
        raise layer.refuse(f"{x} to {asked}")
    whole = [number(d, f"a dimension of what {layer} reads") for d in x.shape]
    elements, known = int(np.prod(whole, dtype=object)), int(np.prod([d for d in shape if d != -1], dtype=object))
    if -1 in shape:
        shape[shape.index(-1)] = elements // known
    if int(np.prod(shape, dtype=object)) != elements or elements > MAX_INTEGER:
        raise layer.refuse(f"{x} to {asked}")
    net.whole(layer, x)
    return net.like(x, net.g.reshape(x.value, shape), shape)


@handler("Flatten")
def flatten(net, layer, x):
    return net.flat(layer, x)


@handler("Squeeze", "ExpandDims")
def unit_dimensions(net, layer, x):
    """Dimensions of 1 that go or come: by axes, or by those that are named width, height, channels."""
    shape, axes = list(x.shape), layer.wholes(3)
    if layer.kind == "Squeeze":
        named = [i for i, key in ((x.rank - 1, 0), (x.rank - 2, 1), (x.rank - 3, 2)) if layer.whole(key) and i >= 0]
        axes = [axis_of(layer, x, a) for a in axes] or named
        shape = [d for i, d in enumerate(shape) if i not in axes or d != 1] or [1]
    else:
        for axis in sorted(a % (x.rank + len(axes)) for a in axes):
            shape.insert(axis, 1)
        if not axes:
            raise layer.refuse("axes that have names are not supported")
    if len(shape) > 3:
        raise layer.refuse(f"makes {shape}")
    net.whole(layer, x)
    codes = [code for code, d in zip(net.codes(x.shape), x.shape) if d != 1]
    return net.like(x, net.g.reshape(x.value, [1 if d == 1 else codes.pop(0) for d in shape]), shape)
