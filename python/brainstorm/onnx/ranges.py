"""Whole numbers of 64 bits, and unsigned ones of 32, which our graph holds as i32: whether they fit.

An end of a range that nothing says is infinite. Where constants, types, shapes and maxima say that a result can be
beyond i32 it is refused; where the range of an operand is not known, a run checks it and ends with an error. Must
never: let a number wrap that the model does not wrap.
"""

import functools
import math

import numpy as np

from .refused import Refused
from .tensors import Tensor, range_of

WIDE = ("int64", "uint64", "uint32")
TOP = 2**31 - 1   # what the caller's numbers are at most, either way
NEAR = 2.0**31 - 512  # beyond it a number of f32 that was computed of rounded ones may stand for 2^31
CAP = 2**70       # no bound is worked out beyond


def capped(number):
    return number if math.isinf(number) else max(min(number, CAP), -CAP)


def product(a, b):
    return 0 if a == 0 or b == 0 else capped(a * b)


def mul(a, b):
    ends = [product(x, y) for x in a for y in b]
    return min(ends), max(ends)


def add(a, b):
    return a[0] + b[0], a[1] + b[1]


def sub(a, b):
    return a[0] - b[1], a[1] - b[0]


def neg(a):
    return -a[1], -a[0]


def magnitude(a):
    return (0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))), max(abs(a[0]), abs(a[1]))


def low_of_two(a, b):
    return min(a[0], b[0]), min(a[1], b[1])


def high_of_two(a, b):
    return max(a[0], b[0]), max(a[1], b[1])


def hull(*ranges):
    return min(r[0] for r in ranges), max(r[1] for r in ranges)


def quotient(a, b):
    """Towards zero."""
    least, most = max(magnitude(b)[0], 1), magnitude(a)[1]
    most = most if math.isinf(most) else most // least if not math.isinf(least) else 0
    return (0 if a[0] >= 0 and b[0] >= 0 else -most), most


def remainder(a, b):
    """With the sign of b."""
    most = max(magnitude(b)[1] - 1, 0)
    return (0 if b[0] >= 0 else -most), (0 if b[1] <= 0 else most)


def of_dividend(a, b):
    """A remainder with the sign of a."""
    most = max(min(magnitude(b)[1] - 1, magnitude(a)[1]), 0)
    return (0 if a[0] >= 0 else -most), (0 if a[1] <= 0 else most)


def power(a, exponent):
    """exponent: the largest one."""
    most = 1
    for _ in range(min(int(exponent), 71)):
        most = product(most, max(magnitude(a)[1], 1))
    return (0 if a[0] >= 0 else -most), most


def total(count, a):
    """Of count numbers, or of fewer."""
    return min(product(count, a[0]), 0), max(product(count, a[1]), 0)


def limits(dtype):
    """What i32 holds of a type."""
    return (0 if dtype.kind == "u" else -TOP - 1), TOP


def said(low_high):
    return " .. ".join("any number" if math.isinf(n) else "more than 2^70" if abs(n) >= CAP else str(int(n))
                       for n in low_high)


def kept(n, out, operands, of_ranges, shadow):
    """out, which i32 has computed of operands. of_ranges: its range by theirs. shadow: what it is as f32, of them as
    f32, for a check."""
    if out.constant or out.floats or out.dtype == bool:
        return out
    ranges = [range_of(x) for x in operands]
    found, (least, most) = of_ranges(*ranges), limits(out.dtype)
    fits = lambda r: least <= r[0] and r[1] <= most
    if fits(found):
        out.range = found
    if out.dtype.name not in WIDE or fits(found):
        return out
    if not any(math.isinf(end) for r in ranges for end in r):
        raise Refused(f"numbers can be {said(found)} here; {out.dtype} is held as i32")
    out_range = max(found[0], least if least == 0 else -math.inf), found[1]
    if not fits(of_ranges(*([max(r[0], -TOP), min(r[1], TOP)] for r in ranges))):
        out = checked(n, out, shadow)
    out.range = out_range if any(not math.isinf(end) for end in out_range) else None
    return out


def checked(n, out, shadow):
    """out, where a run ends with an error unless the f32 numbers of the shadow are within i32."""
    m = n.m
    made = shadow()
    beyond = m.pair("greater_equal", m.unary("abs", made), m.scalar(NEAR))
    if out.dtype.kind == "u":
        beyond = m.pair("or", beyond, m.pair("less", made, m.scalar(0.0)))
    return m.typed(m.add(out, failing(n, beyond)), out.dtype)


def failing(n, beyond, limit="i32"):
    """0, where nothing is true; else the run ends, as there is no such line of a table."""
    m = n.m
    ones, held = m.root(m.where(beyond, m.scalar(1.0), m.scalar(0.0)))
    index = m.to_int(m.reduce(m.made(ones, held), "max", range(len(held)), keep=False), np.int32)
    table = m.held(m.scalar(0, np.int32), (1,))
    name = m.names.fresh(f"{n.stem}.beyond_{limit}")
    value = m.g.node("select", [table, m.held(index, (1,))], name, axis=0)
    return Tensor((), np.int32, forms={(False, (1,)): value})


def cast(n, out, x):
    """out, which x, f32, was cast to: infinite numbers and NaN, of which ONNX does not say what they become, pass."""
    m = n.m
    if out.constant or out.dtype.name not in WIDE or x.dtype == np.float16:
        return out
    size = m.unary("abs", x)
    beyond = m.pair("and", m.pair("greater_equal", size, m.scalar(2.0**31)),
                    m.pair("less_equal", size, m.scalar(float(np.finfo(np.float32).max))))
    return m.typed(m.add(out, failing(n, beyond)), out.dtype)


def as_floats(m, *tensors):
    return [m.to_float(x) for x in tensors]


def pair(n, kind, out, a, b):
    """out = a kind b."""
    of_ranges = {"add": add, "sub": sub, "mul": mul, "min": low_of_two, "max": high_of_two}[kind]
    return kept(n, out, [a, b], of_ranges, lambda: n.m.pair(kind, *as_floats(n.m, a, b)))


def of_all(n, out, x, count, reduced):
    """out: sums of at most count numbers of x. reduced: a function that sums magnitudes as out was summed."""
    return kept(n, out, [x], functools.partial(total, count),
                lambda: reduced(n.m.unary("abs", n.m.to_float(x))))
