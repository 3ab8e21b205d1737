"""Layers that work element by element: activations, functions, two operands.

Relies on net.py. Every formula is that of ncnn's layer of that name. Must never move an element.
"""

import math

import numpy as np

from .extents import difference
from .net import handler


def slope_of(net, value, slope):
    return net.g.activation(value, "leaky_relu", slope) if slope else net.g.activation(value, "relu")


def hard_sigmoid(net, value, alpha, beta):
    return net.g.clip(net.g.affine(value, alpha, beta), 0.0, 1.0)


def softplus(net, value):
    """max(x, 0) + log(1 + e^-|x|), which does not overflow."""
    g = net.g
    small = g.unary(g.affine(g.unary(value, "abs"), -1.0, 0.0), "exp")
    return g.add(g.activation(value, "relu"), g.unary(g.affine(small, 1.0, 1.0), "log"))


def mish(net, value):
    return net.g.mul(value, net.g.activation(softplus(net, value), "tanh"))


def elu(net, value, alpha):
    """Where x < 0, alpha (e^x - 1): of min(x, 0), so that what is not taken does not overflow."""
    g = net.g
    below = g.affine(g.activation(g.affine(value, -1.0, 0.0), "relu"), -1.0, 0.0)
    return g.add(g.activation(value, "relu"), g.affine(g.unary(below, "exp"), alpha, -alpha))


def activated(net, layer, x, kind, numbers):
    """What stands in a layer as parameters 9 and 10."""
    wanted = {2: 1, 3: 2, 6: 2}.get(kind, 0)
    if len(numbers) < wanted:
        raise layer.refuse(f"activation {kind} has the numbers {numbers}, expected {wanted}")
    if kind == 2:
        value = slope_of(net, x.value, numbers[0])
    elif kind == 3:
        value = clipped(net, layer, x.value, *numbers[:2])
    elif kind == 5:
        value = mish(net, x.value)
    elif kind == 6:
        value = net.g.mul(x.value, hard_sigmoid(net, x.value, *numbers[:2]))
    else:
        value = net.g.activation(x.value, {1: "relu", 4: "sigmoid"}[kind])
    return net.like(x, value)


def clipped(net, layer, value, low, high):
    if not low <= high:
        raise layer.refuse(f"clips to {low} .. {high}")
    return net.g.clip(value, low, high)


@handler("PReLU")
def prelu(net, layer, x):
    slopes = net.weights[layer]["slope"]
    if slopes.size == 1:
        return net.like(x, slope_of(net, x.value, float(slopes[0])))
    if slopes.size != net.channels(layer, x):
        raise layer.refuse(f"{slopes.size} slopes for {x}")
    if x.rank == 3:
        return net.like(x, net.g.prelu(x.value, net.name(layer), slopes))
    table = net.constant(layer, "", slopes.reshape(-1, *[1] * (x.rank - 1)))
    below = net.g.sub(x.value, net.g.activation(x.value, "relu"))
    return net.like(x, net.g.add(net.g.activation(x.value, "relu"), net.g.mul(below, table)))


@handler("ReLU")
def relu(net, layer, x):
    return net.like(x, slope_of(net, x.value, layer.real(0)))


@handler("Clip")
def clip(net, layer, x):
    return net.like(x, clipped(net, layer, x.value, layer.real(0, -np.finfo(np.float32).max),
                               layer.real(1, np.finfo(np.float32).max)))


@handler("HardSigmoid", "HardSwish")
def hard(net, layer, x):
    value = hard_sigmoid(net, x.value, layer.real(0, 0.2), layer.real(1, 0.5))
    return net.like(x, net.g.mul(x.value, value) if layer.kind == "HardSwish" else value)


@handler("Sigmoid", "TanH", "Swish", "AbsVal", "Softplus", "Mish", "Noop", "Dropout", "ELU", "SELU", "GELU")
def simple(net, layer, x):
    g, kind = net.g, layer.kind
    if kind == "Noop" or kind == "Dropout" and layer.real(0, 1.0) == 1.0:
        return x
    if kind == "Dropout":
        value = g.affine(x.value, layer.real(0), 0.0)
    elif kind == "ELU":
        value = elu(net, x.value, layer.real(0, 0.1))
    elif kind == "SELU":
        value = g.affine(elu(net, x.value, layer.real(0, 1.67326324)), layer.real(1, 1.050700987), 0.0)
    elif kind == "GELU":
        value = gelu_tanh(net, x.value) if layer.whole(0, 0, 0, 1) else g.activation(x.value, "gelu")
    elif kind in ("Softplus", "Mish"):
        value = {"Softplus": softplus, "Mish": mish}[kind](net, x.value)
    elif kind == "AbsVal":
        value = g.unary(x.value, "abs")
    else:
        value = g.activation(x.value, {"Sigmoid": "sigmoid", "TanH": "tanh", "Swish": "silu"}[kind])
    return net.like(x, value)


def gelu_tanh(net, value):
    g = net.g
    inner = g.mul(value, g.affine(g.mul(value, value), 0.044715, 1.0))
    return g.mul(g.affine(value, 0.5, 0.0),
                 g.affine(g.activation(g.affine(inner, math.sqrt(2 / math.pi), 0.0), "tanh"), 1.0, 1.0))


UNARY = {0: "abs", 1: "neg", 2: "floor", 3: "ceil", 5: "sqrt", 6: "rsqrt", 7: "exp", 8: "log", 9: "sin", 10: "cos",
         11: "tan", 12: "asin", 13: "acos", 14: "atan", 15: "reciprocal", 18: "round"}


@handler("UnaryOp")
def unary(net, layer, x):
    g, kind = net.g, layer.whole(0, 0, 0, 19)
    if kind == 4:
        value = g.mul(x.value, x.value)
    elif kind == 16:
        value = g.activation(x.value, "tanh")
    elif kind == 17:
        value = g.affine(g.unary(x.value, "log"), 1 / math.log(10), 0.0)
    elif kind == 19:  # towards 0
        value = g.mul(g.unary(x.value, "sign"), g.unary(g.unary(x.value, "abs"), "floor"))
    else:
        value = g.unary(x.value, UNARY[kind])
    return net.like(x, value)


# ------------------------------------------------------------------------------------------------ two operands


def beside(net, layer, x, rank, other):
    """x with the dimensions that ncnn gives it beside `other`, which has more: those of a line stand for channels where
    there are as many, else for columns; of a table for channels and rows."""
    if x.rank == rank:
        return x
    codes, ones = net.codes(x.shape), [1] * (rank - x.rank)
    columns = x.rank == 1 and x.shape[0] != other.shape[0]
    value = net.g.reshape(x.value, ones + codes if columns else codes + ones)
    return net.like(x, value, ones + x.shape if columns else x.shape + ones)


def broadcast(layer, a, b):
    shape = []
    for m, n in zip(a.shape, b.shape):
        if m == 1 or n == 1:
            shape.append(n if m == 1 else m)
        elif m == n:
            shape.append(m)
        elif difference(m, n) != 0:
            raise layer.refuse(f"reads {a} and {b}, which do not fit")
    return shape


def two(net, layer, a, b, kind):
    """One of add, sub, mul, div, max, min, pow of blobs that may be of different shapes."""
    rank = max(a.rank, b.rank)
    a, b = beside(net, layer, a, rank, b), beside(net, layer, b, rank, a)
    shape = broadcast(layer, a, b)
    g, x, y, of = net.g, a.value, b.value, a
    if b.cells and not a.cells:  # the first operand says which domain it is
        if kind in ("sub", "div"):
            y = g.unary(y, {"sub": "neg", "div": "reciprocal"}[kind])
            kind = {"sub": "add", "div": "mul"}[kind]
        elif kind == "pow":
            net.whole(layer, b)
        x, y, of = y, x, b
    elif a.cells and b.cells and a.scale != b.scale:
        raise layer.refuse("reads frames of two scales")
    if a.cells != b.cells and (b if a.cells else a).shape[1:] != [1, 1]:
        net.whole(layer, of)
    make = {"add": g.add, "sub": g.sub, "mul": g.mul}.get(kind)
    return net.like(of, make(x, y) if make else g.binary(x, y, kind), shape)


BINARY = {0: "add", 1: "sub", 2: "mul", 3: "div", 4: "max", 5: "min", 6: "pow", 7: "sub", 8: "div", 9: "pow"}


@handler("BinaryOp")
def binary(net, layer, *inputs):
    number = layer.whole(0, 0, 0, 11)
    if number not in BINARY:
        raise layer.refuse(f"function {number} is not supported")
    if layer.whole(1, 0, 0, 1):
        if len(inputs) != 1:
            raise layer.refuse(f"has a number and {len(inputs)} inputs, expected one")
        return with_number(net, layer, inputs[0], number, layer.real(2))
    if len(inputs) != 2:
        raise layer.refuse(f"has {len(inputs)} inputs, expected two")
    a, b = inputs if number < 7 else inputs[::-1]
    return two(net, layer, a, b, BINARY[number])


def with_number(net, layer, x, number, b):
    g = net.g
    if number == 3 and b == 0:
        raise layer.refuse("divides by 0")
    if number in (0, 1, 2, 3, 7):
        scale, offset = {0: (1.0, b), 1: (1.0, -b), 2: (b, 0.0), 3: (1 / (b or 1), 0.0), 7: (-1.0, b)}[number]
        return net.like(x, g.affine(x.value, scale, offset))
    if number == 8:
        return net.like(x, g.affine(g.unary(x.value, "reciprocal"), b, 0.0))
    if number == 6 and b == 2:
        return net.like(x, g.mul(x.value, x.value))
    if number == 9:
        net.whole(layer, x)
    table = net.constant(layer, "", np.full([1] * x.rank, b, np.float32))
    pair = (table, x.value) if number == 9 else (x.value, table)
    return net.like(x, g.binary(*pair, BINARY[number]))


@handler("Eltwise")
def eltwise(net, layer, *inputs):
    kind, factors = layer.whole(0, 0, 0, 2), layer.reals(1)
    if len(inputs) < 2:
        raise layer.refuse("has fewer than two inputs")
    if factors and (kind != 1 or len(factors) != len(inputs)):
        raise layer.refuse(f"has {len(factors)} factors for {len(inputs)} inputs")
    if any(x.rank != inputs[0].rank for x in inputs):
        raise layer.refuse(f"reads {', '.join(map(str, inputs))}, which do not fit")
    terms = [net.like(x, net.g.affine(x.value, f, 0.0)) if f != 1 else x
             for x, f in zip(inputs, factors or [1.0] * len(inputs))]
    made = terms[0]
    for term in terms[1:]:
        made = two(net, layer, made, term, ("mul", "add", "max")[kind])
    return made


@handler("Scale")
def scale(net, layer, *inputs):
    if len(inputs) != (2 if layer.whole(0) == -233 else 1):
        raise layer.refuse(f"has {len(inputs)} inputs")
    if len(inputs) == 2:
        return two(net, layer, *inputs, "mul")
    arrays, x = net.weights[layer], inputs[0]
    if arrays["scale"].size != net.channels(layer, x):
        raise layer.refuse(f"has {arrays['scale'].size} factors for {x}")
    column = lambda array: array.reshape(-1, *[1] * (x.rank - 1))
    value = net.g.mul(x.value, net.constant(layer, "", column(arrays["scale"])))
    if "bias" in arrays:
        value = net.g.add(value, net.constant(layer, ".bias", column(arrays["bias"])))
    return net.like(x, value)


@handler("Power", "Exp", "Log")
def power(net, layer, x):
    """(shift + scale x)^power; base^(shift + scale x); log of (shift + scale x) to a base. Base -1 is e."""
    g, first = net.g, layer.real(0, 1.0 if layer.kind == "Power" else -1.0)
    value = g.affine(x.value, layer.real(1, 1.0), layer.real(2, 0.0))
    if layer.kind != "Power" and first != -1.0 and (first <= 0 or first == 1):
        raise layer.refuse(f"has the base {first}")
    factor = 1.0 if first == -1.0 else math.log(first) if layer.kind != "Power" else 0.0
    if layer.kind == "Exp":
        value = g.unary(value if factor == 1.0 else g.affine(value, factor, 0.0), "exp")
    elif layer.kind == "Log":
        value = g.unary(value, "log")
        value = value if factor == 1.0 else g.affine(value, 1 / factor, 0.0)
    elif first == 2.0:
        value = g.mul(value, value)
    elif first != 1.0:
        value = g.binary(value, net.constant(layer, "", np.full([1] * x.rank, first, np.float32)), "pow")
    return net.like(x, value)
