"""ONNX ops of quantised numbers, as arithmetic; shifts and bits.

What is computed of 8-bit numbers stays below 2^24, where f32 is exact, or is refused.
"""

import math

import numpy as np

from . import ranges
from .ops_elementwise import dtype_of
from .ops_image import convolved
from .ops_linear import matmul_of
from .refused import Refused
from .table import op
from .tensors import Tensor

RANGES = {name: (np.iinfo(name).min, np.iinfo(name).max) for name in ("uint8", "int8", "uint16", "int16")}
EXACT = 2**24


def along(n, x, t, axis_default=1):
    """Scales or zero points beside x: one number, one for each of an axis, or one for each block of it."""
    m = n.m
    if t.size == 1:
        return m.reshape(t, ())
    axis, block = n.axis(axis_default, x.rank), n.attr("block_size", 0)
    if block:
        t = m.take(t, np.minimum(np.arange(x.shape[axis]) // block, t.shape[axis] - 1), axis)
        return t
    if t.rank != 1 or t.size != x.shape[axis]:
        raise Refused(f"scales of shape {list(t.shape)} beside {list(x.shape)}")
    return m.reshape(t, (t.size,) + (1,) * (x.rank - 1 - axis))


def saturated(m, x, zero, dtype):
    """f32 numbers, rounded, with a zero point, as a small type."""
    if dtype.name not in RANGES:
        raise Refused(f"numbers of type {dtype}")
    low, high = RANGES[dtype.name]
    x = m.unary("round", x)
    x = x if zero is None else m.add(x, m.to_float(zero))
    return m.to_int(m.each(x, lambda v: m.g.clip(v, float(low), float(high))), dtype)


@op("QuantizeLinear")
def quantize(n):
    x, m, zero = n.m.to_float(n[0]), n.m, n.get(2)
    wanted = n.attr("output_dtype", 0)
    dtype = zero.dtype if zero is not None else dtype_of(wanted) if wanted else np.dtype(np.uint8)
    if dtype.name not in RANGES:
        raise Refused(f"numbers of type {dtype}")
    scaled = m.div(x, m.to_float(along(n, x, n[1])))
    return saturated(m, scaled, None if zero is None else along(n, x, zero), dtype)


@op("DequantizeLinear")
def dequantize(n):
    x, m = n[0], n.m
    if x.dtype.name not in (*RANGES, "int32"):
        raise Refused(f"numbers of type {x.dtype}")
    if n.has(2) and x.dtype != np.int32:
        zero = along(n, x, n[2])
        whole = m.sub(m.typed(x, np.int32), m.typed(zero, np.int32))
    else:
        whole = m.typed(x, np.int32)
    out = m.typed(m.mul(m.to_float(whole), m.to_float(along(n, x, n[1]))), n[1].dtype)
    if n[1].constant and n[1].size == 1 and x.dtype.itemsize == 1:
        out.steps = whole, np.ravel(n[1].array)[0]
    return out


@op("DynamicQuantizeLinear")
def dynamic_quantize(n):
    x, m = n[0], n.m
    every = range(x.rank)
    zero = m.scalar(0.0)
    high = m.pair("max", m.reduce(x, "max", every, keep=False), zero)
    low = m.pair("min", m.reduce(x, "min", every, keep=False), zero)
    scale = m.div(m.sub(high, low), m.scalar(255.0))
    point = saturated(m, m.div(m.unary("neg", low), scale), None, np.dtype(np.uint8))
    return [saturated(m, m.div(x, scale), point, np.dtype(np.uint8)), scale, point][:len(n.outputs)]


def at_once(a, b):
    """How many products f32 sums up exactly."""
    if a.dtype.itemsize > 1 or b.dtype.itemsize > 1:
        raise Refused(f"sums of products of {a.dtype} and {b.dtype}, which f32 does not hold")
    return EXACT // (255 * 255)


def in_parts(m, size, step, made):
    """The i32 sum of made(first, count) over parts of `size`, each of which f32 holds."""
    total = None
    for first in range(0, size, step):
        part = m.to_int(made(first, min(step, size - first)), np.int32)
        total = part if total is None else m.add(total, part)
    return total


def centred(m, x, zero, axis):
    """x minus its zero point, as f32; zero points of an axis stand along it."""
    m.exact(x)
    x = m.to_float(x)
    if zero is None:
        return x
    zero = m.to_float(zero)
    if zero.size > 1 and zero.rank == 1:
        zero = m.reshape(zero, (zero.size,) + (1,) * (-1 - axis))
    return m.sub(x, zero)


@op("MatMulInteger")
def matmul_integer(n):
    a, b, m = n[0], n[1], n.m
    left, right = centred(m, a, n.get(2), -2), centred(m, b, n.get(3), -1)
    if left.shape[-1] != right.shape[-min(right.rank, 2)]:
        raise Refused(f"a product of {list(a.shape)} and {list(b.shape)}")
    return in_parts(m, left.shape[-1], at_once(a, b), lambda first, count: matmul_of(
        n, m.slice(left, left.rank - 1, first, count), m.slice(right, max(right.rank - 2, 0), first, count)))


def centred_weight(n, index, zero_index):
    """A convolution's whole weights, less their zero point: of all, or of each channel."""
    weight = n.constant(index).astype(np.float64)
    zero = np.ravel(n.constant(zero_index, np.zeros(1))).astype(np.float64)
    weight = weight - zero.reshape(-1, *(1,) * (weight.ndim - 1))
    return weight.reshape(*weight.shape[:2], *(1,) * (4 - weight.ndim), *weight.shape[2:]).astype(np.float32)


@op("ConvInteger")
def conv_integer(n):
    x, m, weight = n[0], n.m, centred_weight(n, 1, 3)
    channels, step = weight.shape[1], at_once(x, n[1]) // math.prod(weight.shape[2:])
    if step < 1 or step < channels and n.attr("group", 1) != 1:
        raise Refused(f"a sum of {math.prod(weight.shape[1:])} products of {x.dtype} and {n[1].dtype} in groups, which "
                      "f32 does not hold")
    image = centred(m, x, n.get(2), -1)
    if n.attr("group", 1) != 1:
        return m.to_int(convolved(n, image, weight), np.int32)
    return in_parts(m, channels, step, lambda first, count: convolved(
        n, m.slice(image, 1, first, count), np.ascontiguousarray(weight[:, first:first + count])))


@op("QLinearConv")
def qlinear_conv(n):
    """Sums are of f32, and then rounded: to 8 bits that is the same but where it was half a step."""
    x, m, weight = n[0], n.m, centred_weight(n, 3, 5)
    scale = n.constant(1).astype(np.float64) * np.ravel(n.constant(4)).astype(np.float64) / n.constant(6)
    bias = n.constant(8)
    out = convolved(n, centred(m, x, m.reshape(n[2], ()), -1), weight,
                    None if bias is None else bias.astype(np.float32))
    out = m.mul(out, m.array(np.ravel(scale).reshape(-1, *(1,) * (x.rank - 2))))
    return saturated(m, out, m.reshape(n[7], ()), n[7].dtype)


@op("QLinearMatMul")
def qlinear_matmul(n):
    a, b, m = n[0], n[3], n.m
    scale_a, scale_b, scale_y = (m.to_float(n[i]) for i in (1, 4, 6))
    if any(t.size != 1 for t in (scale_a, scale_b, scale_y, n[2], n[5], n[7])):
        raise Refused("scales of rows or columns")
    one = lambda t: m.reshape(t, ())
    out = matmul_of(n, centred(m, a, one(n[2]), -2), centred(m, b, one(n[5]), -1))
    out = m.mul(out, one(m.div(m.mul(scale_a, scale_b), scale_y)))
    return saturated(m, out, one(n[7]), n[7].dtype)


# -------------------------------------------------------------------------------------- shifts and bits

@op("BitShift")
def shift(n):
    x, m = n[0], n.m
    by = n.constant(1).astype(np.int64)
    if np.any((by > 30) | (by < 0)):
        raise Refused("a shift by more than 30 bits, or by less than none")
    factor = Tensor(by.shape, x.dtype, (1 << by).astype(np.int64))
    if n.attr("direction") == "LEFT":
        if x.dtype.itemsize >= 8:
            raise Refused(f"a shift of {x.dtype} to the left, which i32 would cut")
        return ranges.pair(n, "mul", m.typed(m.mul(x, factor), x.dtype), x, factor)
    out = m.int_div(x, factor)
    if x.dtype.kind == "i":  # towards zero; a shift rounds down
        left = m.sub(x, m.mul(out, factor))
        left.wraps = False
        lower = m.sub(out, m.scalar(1, x.dtype))
        out = m.where(m.pair("less", left, m.scalar(0, x.dtype)), lower, out)
        out.wraps = False
    return m.typed(out, x.dtype)


@op("BitwiseNot")
def bitwise_not(n):
    x, m = n[0], n.m
    if x.dtype.kind == "u":
        if x.dtype.itemsize > 2:
            raise Refused(f"BitwiseNot of {x.dtype}, which is beyond i32")
        return m.typed(m.sub(m.scalar(np.iinfo(x.dtype).max, np.int32), m.typed(x, np.int32)), x.dtype)
    return m.typed(m.sub(m.scalar(-1, np.int32), m.typed(m.exact(x), np.int32)), x.dtype)


@op("BitwiseAnd", "BitwiseOr", "BitwiseXor")
def bitwise(n):
    """Bit by bit, of small types."""
    m, dtype = n.m, n[0].dtype
    if dtype.itemsize > 2:
        raise Refused(f"{n.op} of {dtype}: i32 has no ops on bits")
    width, total = 8 * dtype.itemsize, None
    for i in range(width):
        a, b = (bit(m, x, i, width) for x in (n[0], n[1]))
        both = m.mul(a, b)
        if n.op == "BitwiseOr":
            both = m.sub(m.add(a, b), both)
        elif n.op == "BitwiseXor":
            both = m.sub(m.add(a, b), m.affine(both, 2))
        part = m.affine(both, float(2**i if i < width - 1 or dtype.kind == "u" else -2**i))
        total = part if total is None else m.add(total, part)
    return m.to_int(total, dtype)


def bit(m, x, i, width):
    x = m.to_float(x)
    x = m.where(m.pair("less", x, m.scalar(0.0)), m.affine(x, 1, float(2**width)), x)
    low, high = (m.unary("floor", m.affine(x, 0.5**k)) for k in (i, i + 1))
    return m.sub(low, m.affine(high, 2))


