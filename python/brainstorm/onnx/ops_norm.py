"""ONNX normalisations, and losses, which are sums of logarithms."""

import math

import numpy as np

from .fused import Behind, scale_and_shift
from .ops_reduce import log_softmax
from .refused import Refused
from .table import op
from .tensors import broadcast, narrowed


def bare(shape):
    """A shape without the ones before it."""
    return next((shape[i:] for i, d in enumerate(shape) if d != 1), ())


def beside(x, *tensors):
    """Refuses a scale or bias that does not fit beside x."""
    for t in tensors:
        if t is not None and broadcast(t.shape, x.shape) != x.shape:
            raise Refused(f"a scale or bias {list(t.shape)} beside {list(x.shape)}")


def of_channels(n, x, *tensors):
    """Refuses what is no image, or has not a number for each channel."""
    if x.rank < 3 and n.op != "BatchNormalization" or x.rank < 2:
        raise Refused(f"{n.op} of {list(x.shape)}, which has no channels")
    for t in tensors:
        if t.shape != (x.shape[1],):
            raise Refused(f"numbers of shape {list(t.shape)} for {x.shape[1]} channels")


def line(t):
    """A constant scale or bias as one line of f32."""
    return narrowed("a scale", t.array).ravel()


@op("LayerNormalization")
def layer_norm(n):
    x, m, scale, bias = n[0], n.m, n[1], n.get(2)
    axis, epsilon = n.axis(-1), n.attr("epsilon", 1e-5)
    size, wanted = math.prod(x.shape[axis:]), x.shape[axis:]
    rest = [i for i in range(axis, x.rank)]
    beside(x, scale, bias)
    whole = all(t is None or t.constant and t.size == size and bare(t.shape) == bare(wanted) for t in (scale, bias))
    if whole and not any(n.outputs[1:]) and epsilon > 0 and size > 1:
        flat = m.reshape(x, (*x.shape[:axis], size))
        value, held = m.last(flat)
        shift = np.zeros(size, np.float32) if bias is None else line(bias)
        return m.made(m.g.layer_norm(value, m.names.fresh(n.stem), line(scale), shift, epsilon), held, x.shape, x.dtype)
    mean = m.reduce(x, "mean", rest)
    centred = m.sub(x, mean)
    variance = m.reduce(m.mul(centred, centred), "mean", rest)
    scaled = m.unary("rsqrt", m.affine(variance, 1, epsilon))
    out = m.mul(m.mul(centred, scaled), scale)
    out = out if bias is None else m.add(out, bias)
    return [out, mean, scaled][:len(n.outputs)]


@op("RMSNormalization", "SimplifiedLayerNormalization")
def rms_norm(n):
    x, m, scale = n[0], n.m, n[1]
    axis, epsilon = n.axis(-1), n.attr("epsilon", 1e-5)
    n.only()
    return rms_normed(m, n.stem, x, scale, axis, epsilon)


def rms_normed(m, stem, x, scale, axis, epsilon):
    size = math.prod(x.shape[axis:])
    beside(x, scale)
    if scale.constant and scale.size == size and bare(scale.shape) == bare(x.shape[axis:]) and epsilon > 0:
        value, held = m.last(m.reshape(x, (*x.shape[:axis], size)))
        return m.made(m.g.rms_norm(value, m.names.fresh(stem), line(scale), epsilon), held, x.shape, x.dtype)
    mean = m.reduce(m.mul(x, x), "mean", range(axis, x.rank))
    return m.mul(m.mul(x, m.unary("rsqrt", m.affine(mean, 1, epsilon))), scale)


@op("BatchNormalization")
def batch_norm(n):
    x, m = n[0], n.m
    if n.attr("training_mode", 0):
        raise Refused("BatchNormalization of a training run")
    n.only()
    of_channels(n, x, *(n[i] for i in range(1, 5)))
    factor, shift = scale_and_shift(n)
    behind = Behind(n, x.rank, len(factor), 1, activate=False)
    behind_factor = 1.0 if behind.factor is None else behind.factor
    factor, shift = factor * behind_factor, shift * behind_factor + (0.0 if behind.shift is None else behind.shift)
    shape = (-1,) + (1,) * (x.rank - 2)
    return m.add(m.mul(x, m.array(factor.reshape(shape))), m.array(shift.reshape(shape)))


def normed(m, x, axes, epsilon):
    centred = m.sub(x, m.reduce(x, "mean", axes))
    variance = m.reduce(m.mul(centred, centred), "mean", axes)
    return m.mul(centred, m.unary("rsqrt", m.affine(variance, 1, epsilon)))


@op("InstanceNormalization")
def instance_norm(n):
    x, m = n[0], n.m
    of_channels(n, x, n[1], n[2])
    shape = (x.shape[1],) + (1,) * (x.rank - 2)
    out = normed(m, x, range(2, x.rank), n.attr("epsilon", 1e-5))
    return m.add(m.mul(out, m.reshape(n[1], shape)), m.reshape(n[2], shape))


@op("GroupNormalization")
def group_norm(n):
    x, m, groups = n[0], n.m, n.attr("num_groups")
    of_channels(n, x)
    if groups < 1 or x.shape[1] % groups:
        raise Refused(f"{groups} groups of {x.shape[1]} channels")
    parts = m.reshape(x, (x.shape[0], groups, x.size // x.shape[0] // groups))
    out = m.reshape(normed(m, parts, [2], n.attr("epsilon", 1e-5)), x.shape)
    spread = lambda t: per_channel(m, t, x, groups)
    return m.add(m.mul(out, spread(n[1])), spread(n[2]))


def per_channel(m, t, x, groups):
    """A number a channel, or, before set 21, a group."""
    if t.size == groups != x.shape[1]:
        t = m.reshape(m.expand(m.reshape(t, (groups, 1)), (groups, x.shape[1] // groups)), (x.shape[1],))
    return m.reshape(t, (x.shape[1],) + (1,) * (x.rank - 2))


@op("MeanVarianceNormalization")
def mean_variance(n):
    x, m, axes = n[0], n.m, n.attr("axes", [0, 2, 3])
    centred = m.sub(x, m.reduce(x, "mean", axes))
    variance = m.reduce(m.mul(centred, centred), "mean", axes)
    return m.div(centred, m.affine(m.unary("sqrt", variance), 1, 1e-9))


@op("LpNormalization")
def lp_norm(n):
    x, m, p = n[0], n.m, n.attr("p", 2)
    if p not in (1, 2):
        raise Refused(f"p {p}")
    norm = m.reduce(x, "l2" if p == 2 else "l1", [n.axis(-1)])
    zero = m.pair("equal", norm, m.scalar(0))
    return m.where(zero, m.scalar(0), m.div(x, m.where(zero, m.scalar(1), norm)))


# ------------------------------------------------------------------------------------------------ losses

@op("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")
def loss(n):
    x, m, target, weight = n[0], n.m, n[1], n.get(2)
    probability = log_softmax(m, x, 1) if n.op == "SoftmaxCrossEntropyLoss" else x
    ignored, classes = n.attr("ignore_index"), x.shape[1]
    if target.constant:
        labels = target.array.astype(np.int64)
        if np.any((labels < 0) | (labels >= classes)) and ignored is None:
            raise Refused("a label that is no class")
    # The chosen class of each place: a sum over classes of what is not chosen times 0 would spread NaN.
    shape = target.shape[:1] + (1,) + target.shape[1:]
    target = m.reshape(target, shape)
    numbers = np.arange(classes).reshape((1, classes) + (1,) * (x.rank - 2))
    hot = m.pair("equal", target, m.array(numbers, target.dtype))
    if ignored is not None:
        hot = m.pair("and", hot, m.pair("not_equal", target, m.scalar(ignored, target.dtype)))
    factor = m.scalar(1.0)
    if weight is not None:
        factor = m.reshape(weight, (1, classes) + (1,) * (x.rank - 2))
    zero = m.scalar(0.0)
    each = m.reduce(m.where(hot, m.mul(probability, factor), zero), "sum", [1], keep=False)
    each = m.unary("neg", each)
    weights = m.reduce(m.where(hot, factor, zero), "sum", [1], keep=False)
    kind = n.attr("reduction", "mean")
    if kind == "none":
        out = each
    else:
        out = m.reduce(each, "sum", range(each.rank), keep=False)
        if kind == "mean":
            out = m.div(out, m.reduce(weights, "sum", range(weights.rank), keep=False))
    return [m.typed(out, x.dtype), probability][:len(n.outputs)]
