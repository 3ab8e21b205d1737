"""ONNX ops that read and write by indices, and those that find places: gather, scatter, top k, boxes."""

import math

import numpy as np

from . import ranges
from .refused import Refused
from .sizes import is_open
from .table import op
from .tensors import Tensor, range_of, within


EXACT = 2**24


def whole(m, indices, size):
    """Indices of which negative ones count from the end, as i32 from 0 on."""
    if indices.constant:
        array = indices.array.astype(np.int64)
        if np.any((array < -size) | (array >= size)):
            raise Refused(f"an index is beyond {size}")
        out = Tensor(indices.shape, np.int32, np.where(array < 0, array + size, array).astype(np.int32))
        if indices.by_size is not None:
            sizes = getattr(size, "every", [size] * len(indices.by_size))
            out.by_size = [np.where(a < 0, a + n, a) for a, n in zip(indices.by_size, sizes)]
        return out
    m.exact(indices)
    x = m.typed(indices, np.int32)
    if x.natural:
        return x
    return m.where(m.pair("less", x, m.scalar(0, np.int32)), m.add(x, m.scalar(size, np.int32)), x)


@op("Gather")
def gather(n):
    x, m, axis = n[0], n.m, n.axis(0)
    if is_open(x.shape[axis]) and n[1].constant and n[1].size and n[1].array.max() < 0:
        last = -int(n[1].array.min())  # as many from the end on
        x = m.slice(x, axis, x.shape[axis] - last, last)
    indices = whole(m, n[1], x.shape[axis])
    out = m.select(x, m.reshape(indices, (indices.size,)), axis)
    return m.reshape(out, x.shape[:axis] + indices.shape + x.shape[axis + 1:])


def gather_elements_of(m, x, indices, axis):
    """indices: from 0 on, of x's shape but for the axis, or of less."""
    for i, (have, wanted) in enumerate(zip(x.shape, indices.shape)):
        if i != axis and wanted < have:
            x = m.slice(x, i, 0, wanted)
    post = math.prod(x.shape[axis + 1:])
    held = lambda t: (math.prod(t.shape[:axis]), t.shape[axis], post)
    value = m.g.gather_elements(m.held(x, held(x)), m.held(indices, held(indices)), 1)
    return m.made(value, held(indices), indices.shape, x.dtype)


@op("GatherElements")
def gather_elements(n):
    axis = n.axis(0)
    return gather_elements_of(n.m, n[0], whole(n.m, n[1], n[0].shape[axis]), axis)


def flat_index(m, indices, sizes):
    """Indices [..., k] into axes of these sizes as one number each, [...]."""
    parts = [m.slice(indices, indices.rank - 1, i, 1) for i in range(len(sizes))]
    total = None
    for part, size in zip(parts, sizes):
        part = whole(m, part, size)
        total = part if total is None else m.add(m.mul(total, m.scalar(size, np.int32)), part)
    return m.reshape(total, indices.shape[:-1])


@op("GatherND")
def gather_nd(n):
    x, m, indices, batch = n[0], n.m, n[1], n.attr("batch_dims", 0)
    k = indices.shape[-1]
    lead, sizes, rest = x.shape[:batch], x.shape[batch:batch + k], x.shape[batch + k:]
    flat = flat_index(m, indices, sizes)
    if batch:  # each batch has its own part of the lines
        step = math.prod(sizes)
        starts = (np.arange(math.prod(lead)) * step).reshape(lead + (1,) * (flat.rank - batch))
        flat = m.add(flat, m.array(starts, np.int32))
    lines = m.reshape(x, (math.prod(lead) * math.prod(sizes), *rest))
    out = m.select(lines, m.reshape(flat, (flat.size,)), 0)
    return m.reshape(out, indices.shape[:-1] + rest)


def constant_indices(n):
    n.constant(1)
    return n[1]


def combined(m, x, lines, updates, kind):
    """Lines of x, each with its updates, by max, min or mul: those that come to one line one after the other."""
    order, seen = np.zeros(len(lines), int), {}
    for i, line in enumerate(lines.tolist()):
        order[i] = seen[line] = seen.get(line, -1) + 1
    for turn in range(order.max(initial=-1) + 1):
        taken = np.flatnonzero(order == turn)
        index = m.array(lines[taken], np.int32)
        both = m.pair(kind, m.select(x, index, 0), m.take(updates, taken, 0))
        value = m.g.scatter_rows(m.held(x, x.shape), m.held(index, index.shape), m.held(both, both.shape), 0)
        x = m.made(value, x.shape, x.shape, x.dtype, both.wraps)
    return x


def scattered(n, out, x, updates, kind, again):
    """out: x with updates written into it, or added. again: does the same with f32 numbers."""
    m = n.m
    size = lambda t: m.unary("abs", m.to_float(t))
    if kind == "none":
        return out if out.floats else within(out, *ranges.hull(range_of(x), range_of(updates)))
    return ranges.kept(n, out, [x, updates], lambda a, b: ranges.add(a, ranges.total(updates.size, b)),
                       lambda: again(size(x), size(updates)))


def elements_combined(n, x, indices, updates, axis, kind):
    n.m.room(indices.size * (indices.rank + 1))
    places = np.indices(indices.shape)
    places[axis] = indices.array
    lines = np.ravel_multi_index(tuple(places), x.shape).ravel()
    out = combined(n.m, n.m.reshape(x, (x.size, 1)), lines, n.m.reshape(updates, (updates.size, 1)), kind)
    return n.m.reshape(out, x.shape)


@op("ScatterElements", "Scatter")
def scatter_elements(n):
    x, m, updates, axis = n[0], n.m, n[2], n.axis(0)
    kind = n.attr("reduction", "none")
    indices = whole(m, n[1], x.shape[axis])
    if kind not in ("none", "add"):
        return elements_combined(n, x, whole(m, constant_indices(n), x.shape[axis]), updates, axis, kind)
    if any(i != axis and a != b for i, (a, b) in enumerate(zip(x.shape, indices.shape))):
        raise Refused("indices that leave out a part of other axes")
    post = math.prod(x.shape[axis + 1:])
    held = lambda t: (math.prod(t.shape[:axis]), t.shape[axis], post)
    value = m.g.scatter_elements(m.held(x, held(x)), m.held(indices, held(indices)), m.held(updates, held(updates)), 1,
                                 "write" if kind == "none" else "add")
    out = m.made(value, held(x), x.shape, x.dtype, kind == "add" and x.dtype.itemsize < 4 and not x.floats)
    again = lambda at, more: m.made(m.g.scatter_elements(m.held(at, held(x)), m.held(indices, held(indices)),
                                                         m.held(more, held(updates)), 1, "add"), held(x), x.shape)
    return scattered(n, out, x, updates, kind, again)


@op("ScatterND")
def scatter_nd(n):
    x, m, indices, updates = n[0], n.m, n[1], n[2]
    kind, k = n.attr("reduction", "none"), n[1].shape[-1]
    lines, width = math.prod(x.shape[:k]), math.prod(x.shape[k:])
    if kind not in ("none", "add"):
        flat = flat_index(m, constant_indices(n), x.shape[:k])
        out = combined(m, m.reshape(x, (lines, width)), flat.array.ravel(), m.reshape(updates, (flat.size, width)),
                       kind)
        return m.reshape(out, x.shape)
    flat = flat_index(m, indices, x.shape[:k])
    value = m.g.scatter_rows(m.held(x, (lines, width)), m.held(flat, (flat.size,)),
                             m.held(updates, (flat.size, width)), 0, "write" if kind == "none" else "add")
    out = m.made(value, (lines, width), x.shape, x.dtype, kind == "add" and x.dtype.itemsize < 4 and not x.floats)
    again = lambda at, more: m.made(
        m.g.scatter_rows(m.held(at, (lines, width)), m.held(flat, (flat.size,)), m.held(more, (flat.size, width)), 0,
                         "add"), (lines, width), x.shape)
    return scattered(n, out, x, updates, kind, again)


@op("TensorScatter")
def tensor_scatter(n):
    cache, m, update = n[0], n.m, n[1]
    axis, batch, steps = n.axis(-2), cache.shape[0], n[1].shape[n.axis(-2)]
    m.room(update.size)
    starts = n.constant(2, np.zeros(batch, np.int64)).astype(np.int64)
    size, circular = cache.shape[axis], n.attr("mode", "linear") == "circular"
    places = starts[:, None] + np.arange(steps)
    if not circular and np.any(places >= size):
        raise Refused("an update beyond its cache")
    places = places % size
    shape = [batch if i == 0 else steps if i == axis else 1 for i in range(cache.rank)]
    indices = np.broadcast_to(places.reshape(shape), update.shape)
    post, held = math.prod(cache.shape[axis + 1:]), lambda t: (math.prod(t.shape[:axis]), t.shape[axis], post)
    index = Tensor(update.shape, np.int32, np.ascontiguousarray(indices, np.int32))
    value = m.g.scatter_elements(m.held(cache, held(cache)), m.held(index, held(index)),
                                 m.held(update, held(update)), 1)
    return m.made(value, held(cache), cache.shape, cache.dtype)


@op("OneHot")
def one_hot(n):
    indices, m, values = n[0], n.m, n[2]
    depth = int(np.ravel(n.constant(1))[0])
    axis = n.axis(-1, indices.rank + 1)
    m.room(max(depth, 0))
    indices = m.to_int(indices) if indices.floats else m.typed(m.exact(indices), np.int32)
    shape = indices.shape[:axis] + (1,) + indices.shape[axis:]
    lifted = m.reshape(indices, shape)
    lifted = m.where(m.pair("less", lifted, m.scalar(0, np.int32)), m.add(lifted, m.scalar(depth, np.int32)), lifted)
    numbers = np.arange(depth).reshape((depth,) + (1,) * (indices.rank - axis))
    off, on = m.slice(values, 0, 0, 1), m.slice(values, 0, 1, 1)
    return m.where(m.pair("equal", lifted, m.array(numbers, np.int32)), on, off)


@op("TopK")
def top_k(n):
    x, m, axis = n[0], n.m, n.axis(-1)
    k, largest = int(np.ravel(n.constant(1))[0]), n.attr("largest", 1)
    if not 1 <= k <= x.shape[axis]:
        raise Refused(f"the first {k} of {x.shape[axis]}")
    order = [i for i in range(x.rank) if i != axis] + [axis]
    back = [order.index(i) for i in range(x.rank)]
    moved = m.transpose(m.exact(x), order)
    if not x.floats:
        moved = m.to_float(moved)
        low, high = range_of(x)
        if low < -EXACT or high > EXACT:  # f32 orders no larger ones
            beyond = ranges.failing(n, m.pair("greater", m.unary("abs", moved), m.scalar(EXACT)), "2^24")
            moved = m.add(moved, m.to_float(beyond))
    moved = moved if largest else m.unary("neg", moved)
    size = x.shape[axis]
    values, indices = m.g.topk(m.held(moved, (x.size // size, size)), k)
    held, shape = (x.size // size, k), (*moved.shape[:-1], k)
    values = m.made(values, held, shape, np.float32)
    values = values if largest else m.unary("neg", values)
    values = m.typed(values, x.dtype) if x.floats else m.to_int(values, x.dtype)
    return [m.transpose(values, back), m.transpose(within(m.made(indices, held, shape, np.int64), 0, size - 1), back)]


@op("Col2Im")
def col2im(n):
    """Blocks are added where they came from, by indices that are known now."""
    x, m = n[0], n.m
    image, block = n.numbers(1), n.numbers(2)
    rank = len(image)
    stride, dilation = n.attr("strides", [1] * rank), n.attr("dilations", [1] * rank)
    pads = n.attr("pads", [0] * 2 * rank)
    counts = [(image[i] + pads[i] + pads[i + rank] - dilation[i] * (block[i] - 1) - 1) // stride[i] + 1
              for i in range(rank)]
    m.room(math.prod(block) * max(math.prod(counts), 0))
    wide = [image[i] + pads[i] + pads[i + rank] for i in range(rank)]
    at = np.zeros((*block, *counts), np.int64)
    for i in range(rank):
        place = np.arange(block[i])[:, None] * dilation[i] + np.arange(counts[i])[None] * stride[i]
        shape = [1] * (2 * rank)
        shape[i], shape[i + rank] = block[i], counts[i]
        at = at * wide[i] + place.reshape(shape)
    channels, lines = x.shape[1] // math.prod(block), x.shape[0] * (x.shape[1] // math.prod(block))
    flat = m.reshape(x, (lines, at.size))
    columns = m.transpose(flat, (1, 0))
    zeros = m.array(np.zeros((math.prod(wide), lines)))
    value = m.g.scatter_rows(m.held(zeros, zeros.shape), m.held(m.array(at.ravel(), np.int32), (at.size,)),
                             m.held(columns, columns.shape), 0, "add")
    out = m.transpose(m.made(value, zeros.shape), (1, 0))
    out = m.reshape(out, (x.shape[0], channels, *wide))
    for i in range(rank):
        out = m.slice(out, 2 + i, pads[i], image[i])
    return out
