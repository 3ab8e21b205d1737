"""ONNX ops that work element by element: functions, arithmetic, comparisons, types."""

import functools
import math

import numpy as np
import onnx

from . import ranges
from .refused import Refused
from .table import op
from .tensors import Tensor, broadcast

UNARY = {"Abs": "abs", "Neg": "neg", "Sign": "sign", "Floor": "floor", "Ceil": "ceil", "Round": "round",
         "Sqrt": "sqrt", "Reciprocal": "reciprocal", "Exp": "exp", "Log": "log", "Erf": "erf", "Sin": "sin",
         "Cos": "cos", "Tan": "tan", "Asin": "asin", "Acos": "acos", "Atan": "atan", "Not": "not"}
ACTS = {"Relu": "relu", "Sigmoid": "sigmoid", "Tanh": "tanh"}
COMPARES = {"Equal": "equal", "Less": "less", "LessOrEqual": "less_equal", "Greater": "greater",
            "GreaterOrEqual": "greater_equal", "And": "and", "Or": "or", "Xor": "xor"}


def number(n, index, attribute, default):
    """A scalar from a constant input or an attribute."""
    array = n.constant(index)
    return float(np.ravel(array)[0]) if array is not None else n.attr(attribute, default)


@op(*UNARY)
def unary(n):
    kind = UNARY[n.op]
    if kind in ("floor", "ceil", "round") and not n[0].floats:
        return n[0]
    if kind in ("sqrt", "reciprocal", "exp", "log", "erf") and not n[0].floats:
        raise Refused(f"{n.op} of {n[0].dtype}")
    out = n.m.unary(kind, n[0])
    of_range = {"neg": ranges.neg, "abs": ranges.magnitude}.get(kind)
    if of_range is None:
        return out
    return ranges.kept(n, out, [n[0]], of_range, lambda: n.m.unary(kind, n.m.to_float(n[0])))


@op(*ACTS)
def act(n):
    if not n[0].floats:
        if n.op == "Relu":
            zero = n.m.scalar(0, n[0].dtype)
            return ranges.pair(n, "max", n.m.pair("max", n[0], zero), n[0], zero)
        raise Refused(f"{n.op} of {n[0].dtype}")
    return n.m.act(ACTS[n.op], n[0])


@op("Identity", "Dropout")
def identity(n):
    if n.op == "Dropout":
        training, ratio = n.constant(2), n.constant(1)
        if training is not None and np.ravel(training)[0] and (ratio is None or np.ravel(ratio)[0] != 0):
            raise Refused("dropout of a training run is random")
        if not n.wants(1):
            return n[0]
        n.m.room(n[0].size)
        return [n[0], n.m.array(np.ones(n[0].shape, bool), bool)]
    return n[0]


@op("Add", "Sub", "Mul")
def ring(n):
    kind = n.op.lower()
    return ranges.pair(n, kind, n.m.pair(kind, n[0], n[1]), n[0], n[1])


@op("Div")
def div(n):
    if not n[0].floats:
        return ranges.kept(n, n.m.int_div(n[0], n[1]), [n[0], n[1]], ranges.quotient,
                           lambda: n.m.div(*ranges.as_floats(n.m, n[0], n[1])))
    return n.m.div(n[0], n[1])


@op("Pow")
def power(n):
    a, b = n[0], n[1]
    if a.floats:
        b = n.m.to_float(b)
        if b.constant and b.size == 1 and b.rank <= a.rank and float(np.ravel(b.array)[0]) == 2.0:
            return n.m.mul(a, a)
        return n.m.typed(n.m.pair("pow", a, b), a.dtype)
    if not (b.constant and b.size and np.all((b.array == np.floor(b.array)) & (b.array >= 0) & (b.array <= 30))):
        raise Refused(f"a power of {a.dtype}")
    exponents = np.asarray(b.array, np.int64)
    if b.size == 1 and 1 <= exponents.max() <= 4:
        out = functools.reduce(n.m.mul, [a] * int(exponents.max()))
    else:
        out = int_power(n, a, exponents, b.shape)
    sizes = lambda: n.m.pair("pow", n.m.unary("abs", n.m.to_float(a)), n.m.to_float(b))
    return ranges.kept(n, out, [a], lambda r: ranges.power(r, exponents.max()), sizes)


def int_power(n, a, exponents, shape):
    """By repeated squares, i32, as whole numbers wrap."""
    total, square = n.m.scalar(1, a.dtype), a
    for bit in range(int(exponents.max()).bit_length() or 1):
        taken = Tensor(shape, bool, (exponents >> bit & 1).astype(bool))
        total = n.m.mul(total, n.m.where(taken, square, n.m.scalar(1, a.dtype)))
        square = n.m.mul(square, square)
    return total


@op("Mod")
def mod(n):
    m, (a, b) = n.m, (n[0], n[1])
    fmod = n.attr("fmod", 0)
    if a.floats:
        left = float_mod(m, a, b)
        zero = m.scalar(0)
        odd = m.pair("and", m.pair("not_equal", left, zero),
                     m.pair("xor", m.pair("less", left, zero), m.pair("less", b, zero)))
        return left if fmod else m.typed(m.where(odd, m.add(left, b), left), a.dtype)
    left = m.sub(a, m.mul(m.typed(m.int_div(a, b), a.dtype), b))
    left.wraps = False
    if fmod:
        return ranges.kept(n, left, [a, b], ranges.of_dividend, None)
    zero = m.scalar(0, a.dtype)
    odd = m.pair("and", m.pair("not_equal", left, zero),
                 m.pair("xor", m.pair("less", left, zero), m.pair("less", b, zero)))
    out = m.where(odd, m.add(left, b), left)
    out.wraps = False
    return ranges.kept(n, out, [a, b], ranges.remainder, None)


def float_mod(m, a, b):
    """a - b trunc(a/b); a quotient that was rounded up to a whole number is one too large."""
    left, zero, side = m.sub(a, m.mul(m.truncated(m.div(a, b)), b)), m.scalar(0), m.unary("abs", b)
    wrong = m.pair("less", m.mul(left, a), zero)
    back = m.where(m.pair("less", left, zero), side, m.unary("neg", side))
    left = m.where(wrong, m.add(left, back), left)
    return m.typed(m.where(m.pair("equal", side, m.scalar(np.inf)), a, left), a.dtype)


@op("Min", "Max", "Sum", "Mean")
def several(n):
    kind = {"Min": "min", "Max": "max"}.get(n.op, "add")
    total = functools.reduce(lambda a, b: ranges.pair(n, kind, n.m.pair(kind, a, b), a, b),
                             [n[i] for i in range(len(n.inputs))])
    if n.op == "Mean" and len(n.inputs) > 1:
        return n.m.div(total, n.m.scalar(len(n.inputs), total.dtype))
    return total


@op(*COMPARES)
def compare(n):
    return n.m.pair(COMPARES[n.op], n[0], n[1])


@op("Where")
def where(n):
    return ranges.kept(n, n.m.where(n[0], n[1], n[2]), [n[1], n[2]], ranges.hull, None)


@op("IsNaN")
def is_nan(n):
    return n.m.pair("not_equal", n[0], n[0])


@op("IsInf")
def is_inf(n):
    m, top = n.m, float(np.finfo(np.float32).max)
    high = m.pair("greater", n[0], m.scalar(top))
    low = m.pair("less", n[0], m.scalar(-top))
    signs = n.attr("detect_positive", 1), n.attr("detect_negative", 1)
    if signs == (1, 1):
        return m.pair("or", high, low)
    return high if signs[0] else low if signs[1] else m.pair("and", high, low)


@op("Clip")
def clip(n):
    x, m = n[0], n.m
    low = n.get(1) or ("min" in n.attributes and m.scalar(n.attr("min"), x.dtype)) or None
    high = n.get(2) or ("max" in n.attributes and m.scalar(n.attr("max"), x.dtype)) or None
    numbers = [None if t is None else float(np.ravel(t.array)[0]) if t.constant else "run" for t in (low, high)]
    if x.floats and "run" not in numbers and None not in numbers and -np.inf < numbers[0] <= numbers[1] < np.inf:
        return m.each(x, lambda v: m.g.clip(v, *(float(np.float32(f)) for f in numbers)))
    if low is not None:
        x = ranges.pair(n, "max", m.pair("max", x, low), x, low)
    return ranges.pair(n, "min", m.pair("min", x, high), x, high) if high is not None else x


@op("LeakyRelu")
def leaky_relu(n):
    alpha = n.attr("alpha", 0.01)
    if alpha == 0:
        return n.m.act("relu", n[0])
    return n.m.act("leaky_relu", n[0], alpha)


@op("PRelu")
def prelu(n):
    x, slope, m = n[0], n[1], n.m
    if broadcast(slope.shape, x.shape) != x.shape:
        raise Refused(f"a slope {list(slope.shape)} beside {list(x.shape)}")
    return m.where(m.pair("less", x, m.scalar(0, x.dtype)), m.mul(x, slope), x)


@op("Elu", "Selu", "Celu")
def elu(n):
    x, m = n[0], n.m
    alpha = n.attr("alpha", {"Selu": 1.67326319217681884765625}.get(n.op, 1.0))
    if n.op == "Celu" and alpha == 0:
        raise Refused("alpha 0")
    low = m.pair("min", x, m.scalar(0))
    inner = m.affine(low, 1 / alpha) if n.op == "Celu" and alpha != 1 else low
    below = m.affine(exp_minus_1(m, inner), alpha)
    out = m.add(m.act("relu", x), below)
    return m.affine(out, n.attr("gamma", 1.05070102214813232421875)) if n.op == "Selu" else out


def exp_minus_1(m, x):
    """e^x - 1, near 0 as a series, where the difference would lose its digits."""
    near = m.each(x, lambda v: m.g.clip(v, -0.1, 0.1))
    series = m.scalar(1 / 120)
    for k in (24, 6, 2, 1):
        series = m.add(m.mul(near, series), m.scalar(1 / k))
    return m.where(m.pair("equal", x, near), m.mul(near, series), m.affine(m.unary("exp", x), 1, -1))


@op("ThresholdedRelu")
def thresholded(n):
    return n.m.where(n.m.pair("greater", n[0], n.m.scalar(n.attr("alpha", 1.0))), n[0], n.m.scalar(0))


@op("Shrink")
def shrink(n):
    x, m = n[0], n.m
    bias, bound = n.attr("bias", 0.0), n.attr("lambd", 0.5)
    if not x.floats:
        raise Refused(f"Shrink of {x.dtype}")
    high = m.where(m.pair("greater", x, m.scalar(bound)), m.affine(x, 1, -bias), m.scalar(0))
    return m.where(m.pair("less", x, m.scalar(-bound)), m.affine(x, 1, bias), high)


@op("HardSigmoid", "HardSwish")
def hard(n):
    alpha, beta = (n.attr("alpha", 0.2), n.attr("beta", 0.5)) if n.op == "HardSigmoid" else (1 / 6, 0.5)
    gate = n.m.each(n[0], lambda v: n.m.g.clip(n.m.g.affine(v, alpha, beta), 0.0, 1.0))
    return gate if n.op == "HardSigmoid" else n.m.mul(n[0], gate)


@op("Gated", domain="brainstorm.import")
def gated(n):
    """x clip(x + offset, low, high) scale + shift, which patterns.py found."""
    offset, scale, m = n.attr("offset"), n.attr("scale"), n.m
    low, high = sorted((n.attr("low") * scale, n.attr("high") * scale))
    gate = m.each(n[0], lambda v: m.g.clip(m.g.affine(v, scale, offset * scale), low, high))
    out = m.mul(n[0], gate)
    return m.affine(out, 1.0, n.attr("shift")) if n.attr("shift") else out


def softplus_of(m, x):
    """max(x, 0) + log(1 + e^-|x|), the logarithm near 0 as a series."""
    e = m.unary("exp", m.unary("neg", m.unary("abs", x)))
    near = m.mul(e, m.affine(m.mul(e, m.affine(m.mul(e, m.affine(e, -0.25, 1 / 3)), -1, 0.5)), -1, 1))
    log = m.where(m.pair("less", e, m.scalar(0.01)), near, m.unary("log", m.affine(e, 1, 1)))
    return m.add(m.act("relu", x), log)


@op("Softplus")
def softplus(n):
    return softplus_of(n.m, n[0])


@op("Mish")
def mish(n):
    return n.m.mul(n[0], n.m.act("tanh", softplus_of(n.m, n[0])))


@op("Softsign")
def softsign(n):
    return n.m.div(n[0], n.m.affine(n.m.unary("abs", n[0]), 1, 1))


@op("Swish")
def swish(n):
    alpha = n.attr("alpha", 1.0)
    if alpha == 1:
        return n.m.act("silu", n[0])
    return n.m.mul(n[0], n.m.act("sigmoid", n.m.affine(n[0], alpha)))


@op("Gelu")
def gelu(n):
    x, m = n[0], n.m
    if n.attr("approximate", "none") == "none":
        return m.act("gelu", x)
    inner = m.mul(x, m.affine(m.mul(x, x), 0.044715 * math.sqrt(2 / math.pi), math.sqrt(2 / math.pi)))
    return m.mul(m.affine(x, 0.5), m.affine(m.act("tanh", inner), 1, 1))


@op("Sinh", "Cosh", "Asinh", "Acosh", "Atanh")
def hyperbolic(n):
    """By exp and log; near 0, where these lose their digits, by a series."""
    x, m = n[0], n.m
    a = m.unary("abs", x)
    square = m.mul(x, x)
    if n.op in ("Sinh", "Cosh"):
        half = m.affine(m.unary("exp", m.affine(a, 1, -math.log(2))), 1)
        other = m.affine(m.unary("exp", m.unary("neg", a)), 0.5)
        if n.op == "Cosh":
            return m.add(half, other)
        far, series = m.mul(m.unary("sign", x), m.sub(half, other)), (1 / 120, 1 / 6, 1)
    elif n.op == "Acosh":
        low = m.affine(x, 1, -1)  # log1p(t), t = (x - 1) + sqrt((x - 1)(x + 1))
        root = m.mul(m.unary("sqrt", low), m.unary("sqrt", m.affine(x, 1, 1)))
        return log_1_plus(m, m.add(low, root))
    elif n.op == "Asinh":
        big = m.pair("greater", a, m.scalar(1e9))
        inner = m.add(a, m.unary("sqrt", m.affine(square, 1, 1)))
        log = m.where(big, m.affine(m.unary("log", a), 1, math.log(2)), m.unary("log", inner))
        far, series = m.mul(m.unary("sign", x), log), (3 / 40, -1 / 6, 1)
    else:
        far = m.affine(m.unary("log", m.div(m.affine(x, 1, 1), m.affine(x, -1, 1))), 0.5)
        series = (1 / 5, 1 / 3, 1)
    near = m.scalar(series[0])
    for c in series[1:]:
        near = m.add(m.mul(square, near), m.scalar(c))
    return m.where(m.pair("less", a, m.scalar(0.1)), m.mul(x, near), far)


def log_1_plus(m, t):
    near = m.mul(t, m.affine(m.mul(t, m.affine(t, 1 / 3, -0.5)), 1, 1))
    return m.where(m.pair("less", t, m.scalar(0.01)), near, m.unary("log", m.affine(t, 1, 1)))


# ------------------------------------------------------------------------------------------------- types

def dtype_of(number):
    try:
        return np.dtype(onnx.helper.tensor_dtype_to_np_dtype(number))
    except KeyError:
        raise Refused(f"element type {number}") from None


TAKEN = ("float32", "float64", "float16", "bfloat16", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
         "uint32", "uint64")


def whole_bounds(dtype):
    info = np.iinfo(dtype)
    return max(info.min, -2**31), min(info.max, 2**31 - 1)


def cast(n, x, dtype):
    m = n.m
    if dtype.name not in TAKEN or x.dtype.name not in TAKEN:
        raise Refused(f"a cast from {x.dtype} to {dtype}")
    if x.dtype == dtype:
        return x
    if dtype == bool:
        return m.truth(x)
    if m.exact(x).floats and dtype.kind in "iu":
        out = ranges.cast(n, m.to_int(m.truncated(x), dtype), x)
        return wrapped(m, out, dtype)
    if x.floats:
        return m.typed(x, dtype)  # f16 and bf16 are computed in f32, which the report says
    if not (dtype.kind in "iub"):
        return m.to_float(x, dtype)
    low, high = whole_bounds(x.dtype) if x.dtype != bool else (0, 1)
    fits = whole_bounds(dtype)
    if low >= fits[0] and high <= fits[1]:
        return m.typed(x, dtype)
    out = wrapped(m, m.typed(x, dtype), dtype)
    if out.wraps:
        out.range = None
        return out
    return ranges.kept(n, out, [x], lambda a: a, lambda: m.to_float(x))


def wrapped(m, x, dtype):
    """Marks what may be beyond a small type: the runner wraps an output, and nothing else takes it."""
    out = m.typed(x, dtype)
    out.wraps = dtype.itemsize < 4
    return out


@op("Cast")
def cast_op(n):
    return cast(n, n[0], dtype_of(n.attr("to")))


@op("CastLike")
def cast_like(n):
    return cast(n, n[0], n[1].dtype)
