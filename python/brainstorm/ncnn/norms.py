"""Layers that compute with many elements of a blob: normalisations, reductions, softmax.

Relies on net.py. Must never take a mean of a patch for that of the frame: what needs all pixels says so.
"""

import numpy as np

from .net import handler
from .shapes import axis_of

REDUCTIONS = {0: "sum", 1: "l1", 2: "sum_square", 3: "mean", 4: "max", 5: "min", 6: "prod", 7: "l1", 8: "l2",
              9: "sum", 10: "log_sum_exp"}


@handler("BatchNorm")
def batch_norm(net, layer, x):
    arrays = net.weights[layer]
    if arrays["slope"].size != net.channels(layer, x):
        raise layer.refuse(f"has {arrays['slope'].size} channels and reads {x}")
    with np.errstate(all="ignore"):
        divisor = np.sqrt(arrays["var"].astype(np.float64) + layer.real(1))
        factor = arrays["slope"] / np.where(divisor == 0, 1e-4, divisor)
        offset = arrays["bias"] - arrays["mean"] * factor
    column = lambda array: array.astype(np.float32).reshape(-1, *[1] * (x.rank - 1))
    value = net.g.mul(x.value, net.constant(layer, "", column(factor)))
    return net.like(x, net.g.add(value, net.constant(layer, ".offset", column(offset))))


@handler("InstanceNorm")
def instance_norm(net, layer, x):
    g, channels = net.g, net.image(layer, x)
    net.whole(layer, x)
    arrays = net.weights[layer]
    if arrays and arrays["gamma"].size != channels:
        raise layer.refuse(f"has {arrays['gamma'].size} channels and reads {x}")
    apart = g.sub(x.value, g.reduce(x.value, "mean", 1, keep=1, axes=2))
    variance = g.reduce(g.mul(apart, apart), "mean", 1, keep=1, axes=2)
    value = g.mul(apart, g.unary(g.affine(variance, 1.0, layer.real(1, 0.001)), "rsqrt"))
    if arrays:
        value = g.mul(value, net.constant(layer, "", arrays["gamma"].reshape(-1, 1, 1)))
        value = g.add(value, net.constant(layer, ".beta", arrays["beta"].reshape(-1, 1, 1)))
    return net.like(x, value)


@handler("LayerNorm")
def layer_norm(net, layer, x):
    size, arrays = layer.whole(0, 0, 1), net.weights[layer]
    if x.shape[-1] != size:
        raise layer.refuse(f"normalises {size} elements of {x}: only those of the last dimension are supported")
    net.whole(layer, x)
    gamma, beta = (arrays["gamma"], arrays["beta"]) if arrays else (np.ones(size, np.float32),
                                                                  np.zeros(size, np.float32))
    return net.like(x, net.g.layer_norm(x.value, net.name(layer), gamma, beta, layer.real(1, 0.001)))


@handler("LRN")
def lrn(net, layer, x):
    net.image(layer, x)
    if layer.whole(0, 0, 0, 1):
        raise layer.refuse("normalisation within channels is not supported")
    size = layer.whole(1, 5, 1, 2**20)
    if size % 2 == 0 or layer.real(4, 1.0) == 0 or layer.real(2, 1.0) == 0 or layer.real(3, 0.75) == 0:
        raise layer.refuse("an even size, or an alpha, a beta or a bias of 0, is not supported")
    return net.like(x, net.g.lrn(x.value, size, layer.real(2, 1.0), layer.real(3, 0.75), layer.real(4, 1.0)))


@handler("Softmax")
def softmax(net, layer, x):
    """Over another dimension than the last one it is made of its parts, which work in patches as well."""
    g, axis = net.g, axis_of(layer, x, layer.whole(0, 0, -4, 4))
    if axis != 0:
        net.whole(layer, x)
    if axis == x.rank - 1:
        return net.like(x, g.softmax(x.value))
    raised = g.unary(g.sub(x.value, g.reduce(x.value, "max", axis, keep=1)), "exp")
    return net.like(x, g.binary(raised, g.reduce(raised, "sum", axis, keep=1), "div"))


@handler("Reduction")
def reduction(net, layer, x):
    kind, keep, factor = layer.whole(0, 0, 0, 10), layer.whole(4, 0, 0, 1), layer.real(2, 1.0)
    everything = layer.whole(1, 1, 0, 1)
    axes = list(range(x.rank)) if everything else sorted(axis_of(layer, x, a) for a in layer.wholes(3))
    if not axes or axes != list(range(axes[0], axes[-1] + 1)):
        raise layer.refuse(f"over axes {axes}, expected some that follow each other")
    if axes != [0] or not keep:
        net.whole(layer, x)
    value = net.g.reduce(x.value, REDUCTIONS[kind], axes[0], keep=keep, axes=len(axes))
    if kind == 9:
        value = net.g.unary(value, "log")
    if factor != 1.0:
        value = net.g.affine(value, factor, 0.0)
    shape = [1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes] or [1]
    return net.like(x, value, shape)
