"""ncnn_layers.py - cases of test_ncnn_layers.py: layers with their parameters and weights, and what they compute, in
NumPy and float64. The definitions are ncnn's; where that package is there the test compares with it, too.
"""

import itertools
import math

import numpy as np

from ncnn_rig import indexed, raw, tagged

random = np.random.default_rng(26)
CASES = []


class Case:
    def __init__(self, name, kind, params, shapes, reference, data=b"", outputs=1, patches=True, free=True, again=1):
        """reference: function of the inputs -> result, or list of them. patches, free: works so as well.
        again: how often its inputs stand in the layer."""
        self.name, self.kind, self.params, self.shapes, self.reference = name, kind, params, shapes, reference
        self.data, self.outputs, self.patches, self.free, self.again = data, outputs, patches, free, again
        CASES.append(self)


def numbers(*shape, half=False):
    return random.standard_normal(shape).astype(np.float16 if half else np.float32)


sigmoid = lambda x: 1 / (1 + np.exp(-x))
softplus = lambda x: np.log1p(np.exp(-abs(x))) + np.maximum(x, 0)
erf = np.vectorize(math.erf)


def act(kind, numbers):
    return {0: lambda x: x, 1: lambda x: np.maximum(x, 0), 2: lambda x: np.where(x < 0, x * numbers[0], x),
            3: lambda x: np.clip(x, *numbers), 4: sigmoid, 5: lambda x: x * np.tanh(softplus(x)),
            6: lambda x: x * np.clip(numbers[0] * x + numbers[1], 0, 1)}[kind]


def conv(x, weight, bias, stride, dilation, pads, groups=1, value=0.0):
    top, bottom, left, right = pads
    x = np.pad(x.astype(np.float64), ((0, 0), (top, bottom), (left, right)), constant_values=value)
    out, each, kh, kw = weight.shape
    h = (x.shape[1] - (kh - 1) * dilation[0] - 1) // stride[0] + 1
    w = (x.shape[2] - (kw - 1) * dilation[1] - 1) // stride[1] + 1
    y = np.zeros((out, h, w)) + bias.reshape(-1, 1, 1)
    for o, i, ky, kx in itertools.product(range(out), range(each), range(kh), range(kw)):
        c = o // (out // groups) * each + i
        y[o] += weight[o, i, ky, kx].astype(np.float64) * x[c, ky * dilation[0]:, kx * dilation[1]:][
            :(h - 1) * stride[0] + 1:stride[0], :(w - 1) * stride[1] + 1:stride[1]]
    return y


def deconv(x, weight, bias, stride, dilation, pads, groups=1, beyond=0):
    """weight: [out, in / groups, k, k], as stored."""
    out, each, k, _ = weight.shape
    reach = (k - 1) * dilation
    h, w = (n * stride - stride + reach + 1 + beyond for n in x.shape[1:])
    y = np.zeros((out, h, w)) + bias.reshape(-1, 1, 1)
    for o, i, ky, kx in itertools.product(range(out), range(each), range(k), range(k)):
        c = o // (out // groups) * each + i
        y[o, ky * dilation:, kx * dilation:][:(x.shape[1] - 1) * stride + 1:stride,
                                             :(x.shape[2] - 1) * stride + 1:stride] += (
            weight[o, i, ky, kx].astype(np.float64) * x[c])
    top, bottom, left, right = pads
    return y[:, top:h - bottom, left:w - right]


def pool(x, largest, kernel, stride, pads, count_pad=False):
    top, bottom, left, right = pads
    x = x.astype(np.float64)
    wide = np.pad(x, ((0, 0), (top, bottom), (left, right)), constant_values=-np.inf if largest else 0)
    there = np.pad(np.ones_like(x), ((0, 0), (top, bottom), (left, right)))
    h, w = ((wide.shape[i + 1] - kernel[i]) // stride[i] + 1 for i in range(2))
    y = np.zeros((x.shape[0], h, w))
    for j, i in itertools.product(range(h), range(w)):
        of = (slice(None), slice(j * stride[0], j * stride[0] + kernel[0]),
              slice(i * stride[1], i * stride[1] + kernel[1]))
        count = kernel[0] * kernel[1] if count_pad else there[of].sum((1, 2))
        y[:, j, i] = wide[of].max((1, 2)) if largest else wide[of].sum((1, 2)) / count
    return y


def convolutions():
    def case(name, out, channels, kernel, stride=(1, 1), dilation=(1, 1), pads=(0, 0, 0, 0), groups=1, half=False,
             bias=True, kind=0, extra=(), value=0.0, same=0, shape=(9, 12), **how):
        weight, b = numbers(out, channels // groups, *kernel, half=half), numbers(out) if bias else np.zeros(out)
        top, bottom, left, right = pads
        params = {0: out, 1: kernel[1], 11: kernel[0], 2: dilation[1], 12: dilation[0], 3: stride[1], 13: stride[0],
                  4: same or left, 15: same or right, 14: same or top, 16: same or bottom, 5: int(bias),
                  6: weight.size}
        params.update({9: kind} if kind else {})
        params.update({10: list(extra)} if extra else {})
        params.update({7: groups} if groups > 1 else {})
        params.update({18: value} if value else {})
        data = tagged(weight) + (raw(b) if bias else b"")
        Case(name, "ConvolutionDepthWise" if groups > 1 else "Convolution", params, [(channels, *shape)],
             lambda x: act(kind, extra)(conv(x, weight, b, stride, dilation, pads, groups, value)), data, **how)

    case("conv 3x3", 4, 3, (3, 3), pads=(1, 1, 1, 1))
    case("conv 3x3 in f16", 4, 3, (3, 3), pads=(1, 1, 1, 1), half=True)
    case("conv of an odd number of f16 weights", 3, 1, (1, 3), half=True, bias=False, patches=False)
    case("conv without padding", 4, 3, (3, 3), patches=False)
    case("conv 1x5 with strides 2 and 1", 3, 2, (1, 5), stride=(2, 1), pads=(0, 0, 2, 2), patches=False)
    case("conv of stride 2", 3, 2, (3, 3), stride=(2, 2), pads=(1, 1, 1, 1), patches=True)
    case("conv with dilation 2 and 3", 3, 2, (3, 2), dilation=(2, 3), pads=(2, 2, 1, 2))
    case("conv with unequal pads", 3, 2, (3, 3), pads=(2, 0, 1, 0), patches=False)
    case("conv that pads with ones", 3, 2, (3, 3), pads=(1, 1, 1, 1), value=1.0, patches=False)
    case("conv same upper", 3, 2, (4, 4), pads=(1, 2, 1, 2), same=-233)
    case("conv same lower", 3, 2, (4, 4), pads=(2, 1, 2, 1), same=-234)
    case("conv same upper, stride 2", 3, 2, (3, 3), stride=(2, 2), pads=(0, 1, 0, 1), same=-233, shape=(8, 12))
    case("conv in groups", 6, 4, (3, 3), pads=(1, 1, 1, 1), groups=2)
    case("conv depthwise", 4, 4, (3, 3), pads=(1, 1, 1, 1), groups=4, half=True)
    for kind, extra in ((1, ()), (2, (0.1,)), (3, (-0.5, 0.75)), (4, ()), (5, ()), (6, (0.2, 0.5))):
        case(f"conv with activation {kind}", 3, 2, (3, 3), pads=(1, 1, 1, 1), kind=kind, extra=extra)
    table, indices = numbers(256), random.integers(0, 256, 3 * 2 * 9)
    weight, bias = table[indices].reshape(3, 2, 3, 3), numbers(3)
    Case("conv with a table of weights", "Convolution", {0: 3, 1: 3, 4: 1, 5: 1, 6: weight.size}, [(2, 6, 7)],
         lambda x: conv(x, weight, bias, (1, 1), (1, 1), (1, 1, 1, 1)), indexed(table, indices) + raw(bias))


def deconvolutions():
    def case(name, out, channels, k, stride, dilation=1, pads=(0, 0, 0, 0), groups=1, beyond=0, half=False, kind=0,
             extra=(), **how):
        weight, bias = numbers(out, channels // groups, k, k, half=half), numbers(out)
        top, bottom, left, right = pads
        params = {0: out, 1: k, 2: dilation, 3: stride, 4: left, 15: right, 14: top, 16: bottom, 5: 1, 6: weight.size}
        params.update({7: groups} if groups > 1 else {})
        params.update({9: kind} if kind else {})
        params.update({10: list(extra)} if extra else {})
        params.update({18: beyond, 19: beyond} if beyond else {})
        Case(name, "DeconvolutionDepthWise" if groups > 1 else "Deconvolution", params, [(channels, 5, 7)],
             lambda x: act(kind, extra)(deconv(x, weight, bias, stride, dilation, pads, groups, beyond)),
             tagged(weight) + raw(bias), **how)

    case("deconv 2x2 of stride 2", 3, 4, 2, 2)
    case("deconv 4x4 of stride 2, f16", 3, 4, 4, 2, pads=(1, 1, 1, 1), half=True)
    case("deconv that crops as waifu2x does", 3, 4, 4, 2, pads=(3, 3, 3, 3), patches=False)
    case("deconv with unequal pads", 2, 3, 4, 2, pads=(0, 1, 2, 3), patches=False)
    case("deconv with output_pad", 2, 3, 3, 2, pads=(1, 1, 1, 1), beyond=1)
    case("deconv with dilation", 2, 3, 3, 1, dilation=2, pads=(2, 2, 2, 2))
    case("deconv in groups", 6, 4, 4, 2, pads=(1, 1, 1, 1), groups=2)
    case("deconv depthwise with an activation", 4, 4, 2, 2, groups=4, kind=2, extra=(0.1,))


def poolings():
    def case(name, largest, kernel, stride, pads=(0, 0, 0, 0), mode=1, counts=0, wanted=None, shape=(8, 12), **how):
        top, bottom, left, right = pads
        params = {0: int(not largest), 1: kernel[1], 11: kernel[0], 2: stride[1], 12: stride[0], 3: left, 14: right,
                  13: top, 15: bottom, 5: mode, 6: counts}
        Case(name, "Pooling", params, [(3, *shape)],
             lambda x: pool(x, largest, kernel, stride, wanted or pads, counts), **how)

    case("max pool 2x2", True, (2, 2), (2, 2))
    case("average pool 3x3 with pads", False, (3, 3), (1, 1), (1, 1, 1, 1))
    case("average pool that counts pads", False, (3, 3), (1, 1), (1, 1, 1, 1), counts=1)
    case("pool 1x3 of strides 1 and 2", True, (1, 3), (1, 2), patches=False)
    case("pool in full mode", True, (3, 3), (2, 2), mode=0, wanted=(0, 1, 0, 1))
    case("average pool in full mode", False, (3, 3), (2, 2), mode=0, wanted=(0, 1, 0, 1))
    case("pool same upper", True, (2, 2), (1, 1), mode=2, wanted=(0, 1, 0, 1))
    Case("global average pool", "Pooling", {0: 1, 4: 1}, [(5, 6, 7)], lambda x: x.mean((1, 2)), patches=False)
    Case("global max pool", "Pooling", {0: 0, 4: 1}, [(5, 6, 7)], lambda x: x.max((1, 2)), patches=False)


def products():
    for shape, half in (((24,), False), ((2, 3, 4), True)):
        weight, bias = numbers(6, 24, half=half), numbers(6)
        Case(f"inner product of {list(shape)}", "InnerProduct", {0: 6, 1: 1, 2: weight.size, 9: 1}, [shape],
             lambda x, w=weight, b=bias: np.maximum(w.astype(np.float64) @ x.ravel() + b, 0),
             tagged(weight) + raw(bias), patches=False, free=False)
    weight = numbers(6, 4)
    Case("inner product of rows", "InnerProduct", {0: 6, 1: 0, 2: weight.size}, [(5, 4)],
         lambda x: x.astype(np.float64) @ weight.T, tagged(weight), patches=False, free=False)


def elements():
    image = [(4, 5, 6)]
    slopes = numbers(4)
    Case("PReLU of channels", "PReLU", {0: 4}, image,
         lambda x: np.where(x < 0, x * slopes.reshape(-1, 1, 1), x), raw(slopes))
    Case("PReLU of one slope", "PReLU", {0: 1}, image, lambda x: np.where(x < 0, x * np.float32(0.3), x), raw([0.3]))
    Case("PReLU of rows", "PReLU", {0: 4}, [(4, 6)], lambda x: np.where(x < 0, x * slopes.reshape(-1, 1), x),
         raw(slopes), patches=False, free=False)
    swish = lambda x: x * sigmoid(x)
    elu = lambda x, a: np.where(x < 0, a * np.expm1(x), x)
    for kind, params, function in (
            ("ReLU", {}, act(1, ())), ("ReLU", {0: 0.2}, act(2, (0.2,))),
            ("Clip", {0: -0.5, 1: 0.75}, act(3, (-0.5, 0.75))),
            ("Sigmoid", {}, sigmoid), ("TanH", {}, np.tanh), ("Swish", {}, swish), ("Mish", {}, act(5, ())),
            ("Softplus", {}, softplus), ("HardSwish", {}, act(6, (0.2, 0.5))),
            ("HardSwish", {0: 1 / 6, 1: 0.5}, act(6, (1 / 6, 0.5))),
            ("HardSigmoid", {0: 0.25, 1: 0.4}, lambda x: np.clip(0.25 * x + 0.4, 0, 1)),
            ("ELU", {0: 0.7}, lambda x: elu(x, 0.7)), ("AbsVal", {}, abs), ("Dropout", {}, lambda x: x),
            ("Dropout", {0: 0.5}, lambda x: x * 0.5), ("Noop", {}, lambda x: x),
            ("SELU", {}, lambda x: 1.050700987 * elu(x, 1.67326324)),
            ("GELU", {}, lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2)))),
            ("GELU", {0: 1}, lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))),
            ("Power", {0: 2.0, 1: 0.5, 2: 0.25}, lambda x: (0.25 + 0.5 * x)**2),
            ("Exp", {0: 2.0, 1: 0.5}, lambda x: 2**(0.5 * x))):
        Case(f"{kind} {params or ''}".strip(), kind, params, image, function)
    for number, function in {0: abs, 1: np.negative, 2: np.floor, 3: np.ceil, 4: np.square, 7: np.exp, 9: np.sin,
                             10: np.cos, 14: np.arctan, 16: np.tanh, 18: np.rint, 19: np.trunc}.items():
        Case(f"UnaryOp {number}", "UnaryOp", {0: number}, image, function)
    for number, function in {5: np.sqrt, 6: lambda x: 1 / np.sqrt(x), 8: np.log, 15: lambda x: 1 / x,
                             17: np.log10}.items():
        Case(f"UnaryOp {number} of what is positive", "UnaryOp", {0: number}, image,
             lambda x, f=function: f(x), patches=True).positive = True


PAIRS = {0: np.add, 1: np.subtract, 2: np.multiply, 3: np.divide, 4: np.maximum, 5: np.minimum, 6: np.power,
         7: lambda a, b: b - a, 8: lambda a, b: b / a, 9: lambda a, b: b**a}


def beside(a, b):
    """a as it stands beside b of more dimensions."""
    if a.ndim == 1 and b.ndim > 1:
        return a.reshape(-1, *[1] * (b.ndim - 1)) if len(a) == b.shape[0] else a.reshape(*[1] * (b.ndim - 1), -1)
    return a[..., None] if a.ndim == 2 and b.ndim == 3 else a


def pairs():
    for number, function in PAIRS.items():
        Case(f"BinaryOp {number} with a number", "BinaryOp", {0: number, 1: 1, 2: 1.5}, [(4, 5, 6)],
             lambda x, f=function: f(x.astype(np.float64), 1.5), patches=number != 9).positive = True
        Case(f"BinaryOp {number}", "BinaryOp", {0: number}, [(4, 5, 6), (4, 5, 6)],
             lambda x, y, f=function: f(x.astype(np.float64), y)).positive = True
    for a, b in (((4, 5, 6), (4,)), ((4,), (4, 5, 6)), ((4, 5, 6), (6,)), ((4, 5, 6), (4, 5)), ((4, 6), (4,)),
                 ((4, 6), (6,)), ((4, 5, 6), (4, 1, 1)), ((4, 5, 6), (1, 5, 6))):
        Case(f"BinaryOp of {list(a)} and {list(b)}", "BinaryOp", {0: 1}, [a, b],
             lambda x, y: beside(x.astype(np.float64), y) - beside(y, x), free=False,
             patches=len(a) == 3 and b not in ((6,), (4, 5)))
    image = (4, 5, 6)
    for kind, function in enumerate((lambda *x: x[0] * x[1] * x[2], lambda *x: x[0] + x[1] + x[2],
                                     lambda *x: np.maximum(np.maximum(x[0], x[1]), x[2]))):
        Case(f"Eltwise {kind}", "Eltwise", {0: kind}, [image] * 3, function)
    Case("Eltwise with factors", "Eltwise", {0: 1, 1: [0.2, 1.0]}, [image] * 2, lambda x, y: 0.2 * x + y)


def norms():
    image, factor, offset, mean = [(4, 5, 6)], numbers(4), numbers(4), numbers(4)
    var, column = abs(numbers(4)) + 0.5, lambda a: a.astype(np.float64).reshape(-1, 1, 1)
    Case("Scale", "Scale", {0: 4, 1: 1}, image, lambda x: x * column(factor) + column(offset),
         raw(factor) + raw(offset))
    Case("Scale by an input", "Scale", {0: -233}, [(4, 5, 6), (4,)], lambda x, s: x * column(s))
    Case("BatchNorm", "BatchNorm", {0: 4, 1: 1e-3}, image,
         lambda x: (x - column(mean)) / np.sqrt(column(var) + 1e-3) * column(factor) + column(offset),
         raw(factor) + raw(mean) + raw(var) + raw(offset))
    Case("InstanceNorm", "InstanceNorm", {0: 4, 1: 1e-3}, image,
         lambda x: (x - x.mean((1, 2), keepdims=True)) / np.sqrt(x.var((1, 2), keepdims=True) + 1e-3) * column(factor) +
         column(offset), raw(factor) + raw(offset), patches=False)
    gamma, beta = numbers(6), numbers(6)
    Case("LayerNorm", "LayerNorm", {0: 6, 1: 1e-3}, [(5, 6)],
         lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-3) * gamma + beta,
         raw(gamma) + raw(beta), patches=False, free=False)

    def lrn(x):
        squares = np.pad(x.astype(np.float64)**2, ((1, 1), (0, 0), (0, 0)))
        return x / (2.0 + 0.3 / 3 * (squares[:-2] + squares[1:-1] + squares[2:]))**0.75
    Case("LRN", "LRN", {0: 0, 1: 3, 2: 0.3, 3: 0.75, 4: 2.0}, image, lrn)

    def softmax(x, axis):
        raised = np.exp(x - x.max(axis, keepdims=True))
        return raised / raised.sum(axis, keepdims=True)
    for axis in range(3):
        Case(f"Softmax over {axis}", "Softmax", {0: axis, 1: 1}, image, lambda x, a=axis: softmax(x, a),
             patches=axis == 0)
    for number, function in {0: np.sum, 1: lambda x, **k: np.sum(abs(x), **k), 2: lambda x, **k: np.sum(x * x, **k),
                             3: np.mean, 4: np.max, 5: np.min, 6: np.prod,
                             8: lambda x, **k: np.sqrt(np.sum(x * x, **k)),
                             10: lambda x, **k: np.log(np.sum(np.exp(x), **k))}.items():
        Case(f"Reduction {number} of channels", "Reduction", {0: number, 1: 0, 3: [0], 4: 1, 5: 1}, image,
             lambda x, f=function: f(x.astype(np.float64), axis=0, keepdims=True))
        Case(f"Reduction {number} of pixels", "Reduction", {0: number, 1: 0, 2: 0.5, 3: [1, 2], 4: 0, 5: 1}, image,
             lambda x, f=function: 0.5 * f(x.astype(np.float64), axis=(1, 2)), patches=False)


convolutions()
deconvolutions()
poolings()
products()
elements()
pairs()
norms()
