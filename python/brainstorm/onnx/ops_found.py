"""ONNX ops that say how many elements there are when they have run: NonZero, Unique, NonMaxSuppression, Range of
computed limits, Compress by a computed condition. extents.py has what stands for that number meanwhile.
"""

import math

import numpy as np

from .extents import found
from .refused import NeedConstant, Refused
from .table import op
from .tensors import MAX_RANK, Tensor, natural


def non_zero_of(n, x):
    """The indices [n, rank] of a tensor's elements that are not 0: one list for one tensor, however often."""
    if not 1 <= x.rank <= MAX_RANK:
        raise Refused(f"{n.op} of a tensor of rank {x.rank}, expected 1 .. {MAX_RANK}")
    m, lists, key = n.m, n.walk.extents.lists, (id(x.forms), x.shape)
    if key not in lists:
        count = found(n, n.op)
        value = m.g.nonzero(m.held(m.exact(x), x.shape), n.walk.most_of(n, False) or 0, name=m.names.fresh(n.stem))
        lists[key] = x, natural(m.made(value, (count, x.rank), dtype=np.int64))  # x is held: the key is its own
    return lists[key][1]


@op("NonZero")
def non_zero(n):
    return n.m.transpose(non_zero_of(n, n[0]), (1, 0))


@op("Compress")
def compress(n):
    x, m, condition = n[0], n.m, n[1]
    axis = n.axis(0) if "axis" in n.attributes else None
    x = m.reshape(x, (x.size,)) if axis is None else x
    axis = axis or 0
    if condition.constant:
        return m.take(x, np.flatnonzero(condition.array), axis)
    if condition.rank != 1 or condition.shape[0] > x.shape[axis]:
        raise Refused(f"a condition of shape {list(condition.shape)} for {x.shape[axis]} elements")
    rows = non_zero_of(n, condition)
    return m.select(x, m.typed(m.reshape(rows, (rows.size,)), np.int32), axis)


@op("Unique")
def unique(n):
    x, m = n[0], n.m
    if "axis" in n.attributes and x.rank != 1:
        raise Refused("Unique of slices along an axis")
    if x.dtype.itemsize > 4 and x.floats:
        raise Refused(f"Unique of {x.dtype}")
    count = found(n, "Unique")
    held = x.shape if 1 <= x.rank <= MAX_RANK else (x.size,)
    values = m.g.unique(m.held(m.exact(x), held), n.walk.most_of(n, False) or 0, name=m.names.fresh(n.stem))
    shapes, types = [(count,), (count,), held, (count,)], (x.dtype, np.int64, np.int64, np.int64)
    made = [m.made(v, s, dtype=t) for v, s, t in zip(values, shapes, types)]
    if not n.attr("sorted", 1):
        made = by_place(n, made, x.size)
    made[2] = m.reshape(made[2], (x.size,))
    for indices in made[1:]:
        natural(indices)
    return made[:len(n.outputs)]


def by_place(n, made, size):
    """In the order in which elements come first in x: where one does is marked, and marks are found in their order."""
    m, (y, first, inverse, counts) = n.m, made
    count, empty = y.shape[0], m.array(np.zeros(size), np.int32)
    whole = lambda t: m.typed(t, np.int32)
    put = lambda what: m.made(m.g.scatter_rows(m.held(empty, (size,)), m.held(whole(first), (count,)),
                                               m.held(what, (count,)), 0), (size,), dtype=np.int32)
    mark = put(m.add(m.mul(whole(first), m.scalar(0, np.int32)), m.scalar(1, np.int32)))
    places = non_zero_of(n, mark)
    places = m.typed(m.reshape(places, (places.shape[0],)), np.int32)
    flat = m.reshape(whole(inverse), (size,))
    old = m.select(flat, places, 0)  # which of the sorted ones each is
    m.room(size * size)
    earlier = m.array(np.tri(size, k=-1))
    rank = m.matmul(earlier, m.reshape(m.to_float(mark), (size, 1)))  # marks before each place
    rank = m.to_int(m.reshape(rank, (size,)), np.int32)
    turned = m.select(m.select(rank, whole(first), 0), flat, 0)
    return [m.select(y, old, 0), m.typed(places, np.int64), m.typed(m.reshape(turned, inverse.shape), np.int64),
            m.typed(m.select(whole(counts), old, 0), np.int64)]


@op("NonMaxSuppression")
def suppression(n):
    boxes, scores, m = n[0], n[1], n.m
    number = lambda index, default: float(np.ravel(n.constant(index, np.array(default)))[0])
    each, overlap, above = int(number(2, 0)), number(3, 0.0), number(4, -math.inf)
    if boxes.rank != 3 or scores.rank != 3 or boxes.shape[2] != 4:
        raise Refused(f"boxes of shape {list(boxes.shape)} with scores of {list(scores.shape)}")
    if each < 1:
        raise Refused("a maximum of no box")
    if not 0 <= overlap <= 1 or math.isnan(above):
        raise Refused(f"an overlap of {overlap}, scores above {above}")
    count = found(n, "NonMaxSuppression")
    value = m.g.nms(m.held(boxes, boxes.shape), m.held(scores, scores.shape), n.walk.most_of(n, False) or 0,
                    name=m.names.fresh(n.stem), max_each=min(each, scores.shape[2]), iou_threshold=overlap,
                    score_above=above, centre=int(bool(n.attr("center_point_box", 0))))
    return natural(m.made(value, (count, 3), dtype=np.int64))


@op("Range")
def arange(n):
    """Where its limits are known it is folded, but for what counts along an axis that follows a free size."""
    m, most = n.m, n.walk.most_of(n)
    if n.shape() and n[0].constant and n[2].constant:
        return counted(n, m.counted(n.shape()[0]))
    if most is None:
        for i in range(3):
            try:
                n.constant(i)
            except NeedConstant as why:
                raise NeedConstant(i, f"input {i} is computed in a run; --most says how many elements there can be; "
                                      "without, it") from why
    dtype = n[0].dtype
    if any(t.size != 1 for t in n.inputs) or dtype.itemsize > 4 and n[0].floats:
        raise Refused(f"Range of {dtype} {[list(t.shape) for t in n.inputs]}")
    start, limit, step = (m.held(m.exact(t), (1,)) for t in n.inputs)
    count = found(n, "Range")
    value = m.g.arange(limit, most, start, step, name=m.names.fresh(n.stem))
    return Tensor((count,), dtype, forms={(False, (count,)): value})


def counted(n, places):
    """start + step times 0, 1, 2 ..."""
    m, dtype = n.m, n[0].dtype
    start, step = (np.ravel(n[i].array)[0] for i in (0, 2))
    out = m.to_float(places, dtype) if n[0].floats else m.typed(places, dtype)
    out = out if step == 1 else m.mul(out, m.scalar(step, dtype))
    return out if start == 0 else m.add(out, m.scalar(start, dtype))
