"""ONNX ops that move elements or give shapes: nothing is computed of the elements themselves."""

import math

import numpy as np
import onnx

from .ops_index import gather_elements_of
from .refused import Refused
from .sizes import alike, is_open
from .table import op
from .tensors import Tensor, axes_of, sized


def resolved(shape, x, zeros_copy=True):
    """A Reshape's target, with its 0 (a copy of x's extent) and -1 (what is left) worked out."""
    shape = [x.shape[i] if d == 0 and zeros_copy and i < x.rank else d for i, d in enumerate(shape)]
    if -1 in shape:
        rest = math.prod(d for d in shape if d != -1)
        if rest == 0 or x.size % rest:
            raise Refused(f"{list(x.shape)} is reshaped to {shape}")
        shape[shape.index(-1)] = x.size // rest
    return shape


@op("Reshape")
def reshape(n):
    return n.m.reshape(n[0], resolved(n.numbers(1, "shape"), n[0], not n.attr("allowzero", 0)))


@op("Flatten")
def flatten(n):
    axis = n.attr("axis", 1)
    axis = axis if axis == n[0].rank else n.axis(1)  # behind the last one there is nothing
    return n.m.reshape(n[0], (math.prod(n[0].shape[:axis]), math.prod(n[0].shape[axis:])))


@op("Squeeze")
def squeeze(n):
    axes = n.numbers(1, "axes")
    x = n[0]
    axes = [i for i, d in enumerate(x.shape) if d == 1] if axes is None else axes_of(axes, x.rank)
    if any(x.shape[a] != 1 for a in axes):
        raise Refused(f"Squeeze of axes {axes} of {list(x.shape)}")
    return n.m.reshape(x, [d for i, d in enumerate(x.shape) if i not in axes])


@op("Unsqueeze")
def unsqueeze(n):
    axes = n.numbers(1, "axes")
    rank = n[0].rank + len(axes)
    axes, rest = axes_of(axes, rank), iter(n[0].shape)
    return n.m.reshape(n[0], [1 if i in axes else next(rest) for i in range(rank)])


@op("Transpose")
def transpose(n):
    order = n.attr("perm", list(range(n[0].rank))[::-1])
    if sorted(order) != list(range(n[0].rank)):
        raise Refused(f"order {order} of {n[0].rank} axes")
    return n.m.transpose(n[0], order)


@op("Expand")
def expand(n):
    return n.m.expand(n[0], n.shape() or n.numbers(1))


@op("Tile")
def tile(n):
    x, m = n[0], n.m
    sized(d * times for d, times in zip(x.shape, n.numbers(1), strict=True))
    for axis, times in enumerate(n.numbers(1)):
        if times != 1:
            m.budget.charge("indices", 8 * x.shape[axis] * times)
            x = m.take(x, np.tile(np.arange(x.shape[axis]), times), axis)
    return x


@op("Concat")
def concat(n):
    return n.m.concat(n.inputs, n.axis(0))


@op("Split")
def split(n):
    axis = n.axis(0)
    sizes, count = n.numbers(1, "split"), len(n.outputs)
    if sizes is None:
        each = -(-n[0].shape[axis] // (n.attr("num_outputs") or count))
        sizes = [min(each, n[0].shape[axis] - i * each) for i in range(count)]
    if sum(sizes) != n[0].shape[axis] or len(sizes) != count or min(sizes) < 0:
        raise Refused(f"{n[0].shape[axis]} split into {sizes}, {count} outputs")
    starts = np.cumsum([0, *sizes])
    return [n.m.slice(n[0], axis, int(start), size) for start, size in zip(starts, sizes)]


@op("Slice")
def slice_op(n):
    x = n[0]
    starts, ends = n.numbers(1, "starts"), n.numbers(2, "ends")
    axes = axes_of(n.numbers(3, "axes") or range(len(starts)), x.rank)
    steps = n.numbers(4) or [1] * len(starts)
    made = n.shape()
    starts = n.extents(1) if made and n.has(1) else starts
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        extent = x.shape[axis]
        taken = range(*slice(start, min(max(end, -2**62), 2**62), step).indices(extent))
        if made and is_open(extent, made[axis]):
            x = slice_open(n, x, axis, start, step, made[axis])
        else:
            x = x if taken == range(extent) else n.m.take(x, taken, axis)
    return x


def slice_open(n, x, axis, start, step, length):
    """Along an axis that follows a free size, or as far as one reaches."""
    extent = x.shape[axis]
    if step == -1 and alike(length, extent):
        return n.m.reversed(x, axis)
    if step == 1:
        return n.m.slice(x, axis, start if start >= 0 else max(extent + start, extent * 0), length)
    if step > 1 and start >= 0 and is_open(extent):
        return every_nth(n.m, n.m.slice(x, axis, start, extent - start) if start else x, axis, step, length)
    raise Refused(f"steps of {step} along an axis that is another one for another size")


def every_nth(m, x, axis, step, length):
    """Elements that are `step` apart, from the first on: windows of one."""
    if not x.floats:
        raise Refused(f"steps of {step} along an axis of {x.dtype} that is another one for another size")
    before, behind = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1:])
    image = m.held(x, (before, x.shape[axis], behind))
    value = m.g.pool2d(image, "max", (1, 1), (step, 1))
    return m.made(value, (before, length, behind), x.shape[:axis] + (length,) + x.shape[axis + 1:], x.dtype)


@op("Pad")
def pad(n):
    x, m = n[0], n.m
    pads, mode = n.numbers(1, "pads"), n.attr("mode", "constant")
    axes = axes_of(n.numbers(3) if n.has(3) else range(x.rank), x.rank)
    if len(pads) != 2 * len(axes):
        raise Refused(f"{len(pads)} pads of {len(axes)} axes")
    number = np.ravel(n.constant(2, np.zeros(1)))
    number = number[0] if number.size and n.has(2) else n.attr("value", 0)
    for i, axis in enumerate(axes):
        low, high = pads[i], pads[i + len(axes)]
        if low < 0 or high < 0:
            x = m.slice(x, axis, max(-low, 0), x.shape[axis] - max(-low, 0) - max(-high, 0))
            low, high = max(low, 0), max(high, 0)
        sized([x.size // max(x.shape[axis], 1), x.shape[axis] + low + high])
        if mode == "constant":
            sides = [[0] * x.rank, [0] * x.rank]
            sides[0][axis], sides[1][axis] = low, high
            x = m.pad(x, *sides, number)
        elif is_open(x.shape[axis]) and (low or high):
            x = padded_open(m, x, axis, mode, low, high)
        elif low or high:
            m.room(4 * (low + x.shape[axis] + high))
            x = m.take(x, padded_places(mode, np.arange(-low, x.shape[axis] + high), x.shape[axis]), axis)
    return x


def padded_open(m, x, axis, mode, low, high):
    """Of an axis that follows a free size: what is beside it is made of its ends."""
    size = x.shape[axis]
    reach = max(low, high) + 1 if mode == "reflect" else max(low, high)
    if min(size.every) < max(reach, 1):
        raise Refused(f"{low} and {high} places beside an axis of {min(size.every)}")
    far = 2 * reach  # as an axis of so many is padded, whose halves are the ends of this one
    places = padded_places(mode, np.arange(-low, far + high), far)
    before, behind = places[:low], places[low + far:]
    end = {False: m.slice(x, axis, 0, reach), True: m.slice(x, axis, size - reach, reach)}
    of_end = lambda far_one, at: m.take(end[far_one], at - (far - reach if far_one else 0), axis)
    parts = [of_end(mode == "wrap", before)] * bool(low) + [x] + [of_end(mode != "wrap", behind)] * bool(high)
    return m.concat(parts, axis)


def padded_places(mode, places, size):
    if mode == "edge":
        return np.clip(places, 0, size - 1)
    if mode == "wrap":
        return places % size
    if mode != "reflect":
        raise Refused(f"padding of mode {mode}")
    period = max(2 * (size - 1), 1)
    around = places % period
    return np.where(around < size, around, period - around)


@op("CenterCropPad")
def center_crop_pad(n):
    x, shape = n[0], n.numbers(1)
    axes = axes_of(n.attr("axes", list(range(x.rank))), x.rank)
    for axis, wanted in zip(axes, shape, strict=True):
        have = x.shape[axis]
        if wanted < have:
            x = n.m.slice(x, axis, (have - wanted) // 2, wanted)
        elif wanted > have:
            sides = [[0] * x.rank, [0] * x.rank]
            sides[0][axis] = (wanted - have) // 2
            sides[1][axis] = wanted - have - sides[0][axis]
            x = n.m.pad(x, *sides)
    return x


@op("DepthToSpace", "SpaceToDepth")
def depth(n):
    r, (b, c, h, w), m = n.attr("blocksize"), n[0].shape, n.m
    if n.op == "SpaceToDepth":
        x = m.reshape(n[0], (b, c, h // r, r, w // r, r))
        if n.attr("mode", "DCR") == "CRD":
            return m.reshape(m.transpose(x, (0, 1, 3, 5, 2, 4)), (b, c * r * r, h // r, w // r))
        return m.reshape(m.transpose(x, (0, 3, 5, 1, 2, 4)), (b, c * r * r, h // r, w // r))
    if n.attr("mode", "DCR") == "CRD" and n[0].floats and r <= 64:
        held = (c // r // r, h * r, w * r)
        return m.images(n[0], (c, h, w), held, (b, *held), lambda image: m.g.pixel_shuffle(image, r))
    if n.attr("mode", "DCR") == "CRD":
        x, order = m.reshape(n[0], (b, c // r // r, r, r, h, w)), (0, 1, 4, 2, 5, 3)
    else:
        x, order = m.reshape(n[0], (b, r, r, c // r // r, h, w)), (0, 3, 4, 1, 5, 2)
    return m.reshape(m.transpose(x, order), (b, c // r // r, h * r, w * r))


# ------------------------------------------------------------------------------------- from shapes alone

@op("Shape")
def shape(n):
    return n.m.array(n[0].shape[slice(n.attr("start", 0), n.attr("end", None))], np.int64)


@op("Size")
def size(n):
    return n.m.scalar(n[0].size, np.int64)


@op("EyeLike")
def eye_like(n):
    from .ops_elementwise import dtype_of
    dtype = dtype_of(n.attr("dtype")) if n.has(0) and n.attr("dtype") else n[0].dtype
    n.m.room(n[0].size)
    return n.m.array(np.eye(*n[0].shape, k=n.attr("k", 0), dtype=np.float32), dtype)


@op("ConstantOfShape", "Constant")
def constant_of_shape(n):
    if n.op == "ConstantOfShape" and n.shape():
        value = n.attr("value")
        number = np.zeros(1, np.float32) if value is None else onnx.numpy_helper.to_array(value)
        return n.m.expand(n.m.array(number.reshape((1,) * len(n.shape())), number.dtype), n.shape())
    raise_constant = n.constant(0)  # what is constant was folded before
    raise Refused(f"{n.op} of {raise_constant}")


@op("Trilu")
def trilu(n):
    x, m, upper = n[0], n.m, n.attr("upper", 1)
    k = int(np.ravel(n.constant(1, np.zeros(1, np.int64)))[0])
    rows, columns = x.shape[-2:]
    if is_open(rows, columns):
        row, column = (m.counted(d) if is_open(d) else m.array(np.arange(d), np.int32) for d in (rows, columns))
        row = m.add(m.reshape(row, (rows, 1)), m.scalar(k - 1 if upper else k, np.int32))
        mask = m.pair("less" if upper else "greater_equal", row, m.reshape(column, (1, columns)))
        return m.where(mask, x, m.scalar(0, x.dtype))
    m.room(rows * columns)
    below = np.tri(rows, columns, k - 1 if upper else k, dtype=bool)
    mask = m.array(~below if upper else below, bool)
    return m.where(mask, x, m.scalar(0, x.dtype))


@op("ReverseSequence")
def reverse_sequence(n):
    x, m = n[0], n.m
    lengths = n.numbers(1)
    time, batch = n.axis(0, name="time_axis"), n.axis(1, name="batch_axis")
    if time == batch or len(lengths) != x.shape[batch] or not all(0 <= length <= x.shape[time] for length in lengths):
        raise Refused(f"lengths {lengths} along axes {time} and {batch} of {list(x.shape)}")
    m.room(x.size)
    indices = np.broadcast_to(np.arange(x.shape[time]).reshape([-1 if a == time else 1 for a in range(x.rank)]),
                              x.shape).copy()
    for row, length in enumerate(lengths):
        at = [slice(None)] * x.rank
        at[batch] = row
        moved = np.moveaxis(indices[tuple(at)], time - (batch < time), 0)
        moved[:length] = moved[:length][::-1].copy()
    return gather_elements_of(m, x, Tensor(x.shape, np.int32, indices.astype(np.int32)), time)
