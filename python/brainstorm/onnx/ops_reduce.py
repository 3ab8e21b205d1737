"""ONNX reductions: sums, means, extremes and their places, running sums."""

import numpy as np

from . import ranges
from .refused import Refused
from .table import op
from .tensors import Tensor, axes_of, axis_of, range_of, within

KINDS = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "max", "ReduceMin": "min", "ReduceProd": "prod",
         "ReduceSumSquare": "sum_square", "ReduceL1": "l1", "ReduceL2": "l2", "ReduceLogSumExp": "log_sum_exp",
         "ReduceLogSum": "sum"}
OF_NOTHING = {"sum": 0, "prod": 1, "sum_square": 0, "l1": 0, "l2": 0, "log_sum_exp": -np.inf, "max": -np.inf,
              "min": np.inf}


@op(*KINDS)
def reduce(n):
    x, m, kind = n[0], n.m, KINDS[n.op]
    axes, keep = n.numbers(1, "axes"), n.attr("keepdims", 1)
    if not axes:
        if n.attr("noop_with_empty_axes", 0):
            axes = []
            if kind in ("sum", "mean", "max", "min", "prod"):
                return m.unary("log", x) if n.op == "ReduceLogSum" else x
        else:
            axes = list(range(x.rank))
    if x.size == 0:
        return of_nothing(n, kind, axes, keep)
    if x.dtype == bool and kind in ("max", "min"):
        x = m.typed(x, np.int32)
        return m.typed(m.reduce(x, kind, axes, keep), bool)
    if kind == "l2" and not x.floats or kind in ("mean", "log_sum_exp") and not x.floats:
        raise Refused(f"{n.op} of {x.dtype}")
    if images_whole(n, x, kind, axes):
        return m.reshape(pooled(m, x, kind), (*x.shape[:2], 1, 1) if keep else x.shape[:2])
    out = m.reduce(m.exact(x), kind, axes, keep)
    return m.unary("log", out) if n.op == "ReduceLogSum" else ranged(n, out, x, kind, axes, keep)


def ranged(n, out, x, kind, axes, keep):
    """out, of whole numbers, where it fits into i32."""
    m, count = n.m, x.size // max(out.size, 1)
    sizes = lambda: m.unary("abs", m.to_float(x))
    if kind in ("max", "min"):
        return out if out.constant or out.floats else within(out, *range_of(x))
    if kind == "prod":
        return ranges.kept(n, out, [x], lambda a: ranges.power(a, count),
                           lambda: m.reduce(sizes(), "prod", axes, keep))
    of_one = {"sum": lambda a: a, "l1": ranges.magnitude, "sum_square": lambda a: ranges.power(a, 2)}.get(kind)
    return out if of_one is None else ranges.kept(
        n, out, [x], lambda a: ranges.total(count, of_one(a)),
        lambda: m.reduce(sizes(), "sum_square" if kind == "sum_square" else "sum", axes, keep))


def images_whole(n, x, kind, axes):
    """Whether one value a channel is made of an image that our graph has as such."""
    axes = sorted(axes_of(axes, x.rank))
    return (kind in ("mean", "max") and x.floats and axes == [2, 3] and x.rank == 4 and x.shape[0] == 1
            and (False, x.shape[1:]) in x.forms and not n.walk.patches)


def pooled(m, x, kind):
    """The pool of a whole image [1, C, H, W], whose kernel knows how an image lies: many times faster than a reduction
    along axes."""
    value = m.g.pool2d(m.held(x, x.shape[1:]), "average" if kind == "mean" else "max", everything=1)
    return m.of_cells(value, 1, x.shape[1:2], x.shape[:2])


def of_nothing(n, kind, axes, keep):
    """An input without elements: what it gives is known now."""
    if kind not in OF_NOTHING:
        raise Refused(f"{n.op} of nothing")
    axes = axes_of(axes, n[0].rank)
    shape = [1 if i in axes else d for i, d in enumerate(n[0].shape) if keep or i not in axes]
    number = -np.inf if n.op == "ReduceLogSum" else OF_NOTHING[kind]
    if not n[0].floats and np.isinf(number):
        limits = (False, True) if n[0].dtype == bool else (np.iinfo(n[0].dtype).min, np.iinfo(n[0].dtype).max)
        number = limits[number > 0]
    return Tensor(shape, n[0].dtype, np.full(shape, number, n[0].dtype))


@op("ArgMax", "ArgMin")
def arg(n):
    x, m, axis = n[0], n.m, n.axis(0)
    keep, size = n.attr("keepdims", 1), n[0].shape[n.axis(0)]
    order = [i for i in range(x.rank) if i != axis] + [axis]
    moved = m.transpose(m.exact(x), order)
    if n.attr("select_last_index", 0):
        moved = m.take(moved, range(size)[::-1], x.rank - 1)
    held = (x.size // size, size)
    value = (m.g.argmax if n.op == "ArgMax" else m.g.argmin)(m.held(moved, held))
    shape = [1 if i == axis else d for i, d in enumerate(x.shape) if keep or i != axis]
    out = m.made(value, held[:1], shape, np.int64)
    if n.attr("select_last_index", 0):
        out = m.sub(m.scalar(size - 1, np.int64), out)
    return within(out, 0, size - 1)


@op("CumSum", "CumProd")
def cumsum(n):
    x, m = n[0], n.m
    axis = axis_of(int(np.ravel(n.constant(1))[0]), x.rank)
    exclusive, reverse = n.attr("exclusive", 0), n.attr("reverse", 0)
    if n.op == "CumProd":
        return ranges.kept(n, cumulated(m, x, axis, exclusive, reverse), [x],
                           lambda a: ranges.power(a, x.shape[axis]),
                           lambda: cumulated(m, m.unary("abs", m.to_float(x)), axis, exclusive, reverse))
    value, held, at = m.around(x, axis)
    out = m.made(m.g.cumsum(value, at, exclusive, reverse), held, x.shape, x.dtype)
    out.wraps = x.dtype.itemsize < 4 and not x.floats
    return ranges.of_all(n, out, x, x.shape[axis], lambda sizes: m.made(
        m.g.cumsum(*m.around(sizes, axis)[::2], exclusive, reverse), m.around(sizes, axis)[1], x.shape))


def cumulated(m, x, axis, exclusive, reverse):
    """Running products, by as many doublings as the axis has bits."""
    size = x.shape[axis]
    m.room(x.size)
    ones = lambda count: Tensor(x.shape[:axis] + (count,) + x.shape[axis + 1:], x.dtype,
                                np.ones(x.shape[:axis] + (count,) + x.shape[axis + 1:], x.dtype))
    if reverse:
        x = m.take(x, range(size)[::-1], axis)
    if exclusive:
        x = m.concat([ones(1), m.slice(x, axis, 0, size - 1)], axis) if size > 1 else ones(1)
    step = 1
    while step < size:
        x = m.mul(x, m.concat([ones(step), m.slice(x, axis, 0, size - step)], axis))
        step *= 2
    return m.take(x, range(size)[::-1], axis) if reverse else x


@op("Softmax", "LogSoftmax", "Hardmax")
def softmax(n):
    x, m = n[0], n.m
    axis = n.axis(-1)
    if not x.floats:
        raise Refused(f"{n.op} of {x.dtype}")
    if n.op == "Softmax":
        return m.softmax(x, axis)
    if n.op == "LogSoftmax":
        return log_softmax(m, x, axis)
    size, order = x.shape[axis], [i for i in range(x.rank) if i != axis] + [axis]
    moved = m.transpose(x, order)
    best = m.made(m.g.argmax(m.held(moved, (x.size // size, size))), (x.size // size,), (*moved.shape[:-1], 1),
                  np.int32)
    hot = m.where(m.pair("equal", best, m.array(np.arange(size), np.int32)), m.scalar(1, x.dtype),
                  m.scalar(0, x.dtype))
    return m.transpose(hot, [order.index(i) for i in range(x.rank)])


def log_softmax(m, x, axis):
    return m.sub(x, m.reduce(x, "log_sum_exp", [axis]))
