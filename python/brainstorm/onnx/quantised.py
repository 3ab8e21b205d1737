"""Convolutions of numbers that are dequantised before: products of whole numbers by scales, one for each channel.

Their sums are whole, below 2^24, so they are computed of the whole numbers and rounded: nothing is lost, whatever way a
kernel takes (one by Winograd's transforms is a few millionths off, which is enough for the next rounding to a step to
go the other way). Must never: take sums that f32 does not hold.
"""

import numpy as np
import onnx

EXACT = 2**24


def of_constant(proto, given):
    """(whole numbers, scales) of a constant that was dequantised by one scale, or one for each of axis 0; None: it was
    not."""
    whole, scale = given[0].array, given[1].array
    zero = given[2].array if len(given) > 2 else np.zeros_like(scale, np.int8)
    at = {a.name: onnx.helper.get_attribute_value(a) for a in proto.attribute}
    each = scale.size > 1
    if whole.dtype.kind not in "iu" or at.get("block_size") or scale.ndim > 1 or zero.shape != scale.shape or \
            each and (at.get("axis", 1) % whole.ndim or scale.size != whole.shape[0]):
        return None
    line = lambda array: array.reshape((-1,) + (1,) * (whole.ndim - 1))
    return whole.astype(np.int64) - line(zero).astype(np.int64), np.ravel(scale)


def convolved(n, x, made):
    """A node's convolution of x; None: it is none of whole numbers. made: gives it of f32 numbers and a weight."""
    m, weight, bias = n.m, n[1], n.get(2)
    if x.steps is None or weight.steps is None:
        return None
    (whole, scale), (wide, scales) = x.steps, weight.steps
    most = 255 * int(np.abs(wide).reshape(len(wide), -1).sum(1).max(initial=0))
    if most >= EXACT or whole.dtype != np.int32:
        return None
    factor = np.broadcast_to(np.float64(scale) * scales.astype(np.float64), len(wide)).astype(np.float32)
    line = (len(wide),) + (1,) * (x.rank - 2)
    sums = m.unary("round", made(m.to_float(whole), wide.astype(np.float32)))
    out = m.mul(sums, m.array(factor.reshape(line)))
    return out if bias is None else m.add(out, m.reshape(bias, line))
