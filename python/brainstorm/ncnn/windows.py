"""Layers that move a window, or multiply by a matrix: convolutions, pooling, inner products; with what follows them.

What ncnn pads by itself: -233 and -234 are TensorFlow's "same". Relies on net.py. Must never know of files.
"""

from fractions import Fraction

import numpy as np

from .elements import activated
from .extents import derived, remainder
from .net import handler

SAME_UPPER, SAME_LOWER = -233, -234
MOST_DENSE = 2**24  # weights of a transposed convolution in groups, which is made a whole one
WINDOW = 2**15


class Window:
    """What the layer says of its window, of both axes: down, across."""

    def __init__(self, layer):
        pools = layer.kind == "Pooling"
        self.kernel = self._pair(layer, 1, 11, 0)
        self.dilation = (1, 1) if pools else self._pair(layer, 2, 12, 1)
        self.stride = self._pair(layer, 2, 12, 1) if pools else self._pair(layer, 3, 13, 1)
        left, right, top, bottom = (3, 14, 13, 15) if pools else (4, 15, 14, 16)
        self.left = layer.whole(left, 0, -234, WINDOW)
        self.right = layer.whole(right, self.left, -234, WINDOW)
        self.top = layer.whole(top, self.left, -234, WINDOW)
        self.bottom = layer.whole(bottom, self.top, -234, WINDOW)
        self.layer = layer

    @staticmethod
    def _pair(layer, across, down, default):
        w = layer.whole(across, default, 1, WINDOW)
        return layer.whole(down, w, 1, WINDOW), w

    def reach(self, i):
        return self.dilation[i] * (self.kernel[i] - 1)

    def pads(self, x, same=None):
        """(before, after) of both axes; those of "same" follow from the extents. same: which of them; 0: neither."""
        given = ((self.top, self.bottom), (self.left, self.right))
        if same is None and self.left in (SAME_UPPER, SAME_LOWER):
            same = self.left
        if not same:
            if any(side < 0 for pair in given for side in pair):
                raise self.layer.refuse(f"pads of {given}")
            return given
        made = []
        for i in range(2):
            stride = self.stride[i]
            over = remainder(derived(x.shape[i + 1], 1, -1, 1), stride) + 1 if stride > 1 else 1
            total = max(self.reach(i) + 1 - over, 0)
            half = total // 2
            made.append((half, total - half) if same == SAME_UPPER else (total - half, half))
        return tuple(made)

    def result(self, x, pads, channels):
        return [channels] + [derived(x.shape[i + 1], 1, sum(pads[i]) - self.reach(i) - 1 + self.stride[i],
                                     self.stride[i]) for i in range(2)]

    def stays(self, net, x, pads):
        """Fails where cells of patches would move in their frame."""
        if x.cells and any(not 0 <= sum(pads[i]) - self.reach(i) - 1 + self.stride[i] < self.stride[i]
                           for i in range(2)):
            reach = f"{self.reach(0)} x {self.reach(1)}"
            raise self.layer.refuse(f"pads {pads} with a window that reaches {reach} move the "
                                    "image: leave --patches out")
        if x.cells and self.stride[0] != self.stride[1]:
            raise self.layer.refuse("unequal strides: leave --patches out")


def explicit(pads):
    (top, bottom), (left, right) = pads
    return {"padding": "explicit", "pad": (top, left, bottom, right)} if top or left or bottom or right else \
        {"padding": "valid"}


def _weight(net, layer, *shape):
    weight = net.weights[layer]["weight"]
    if weight.size != np.prod(shape, dtype=object):
        raise layer.refuse(f"has {weight.size} weights, expected {list(shape)} for what it reads")
    return weight.reshape(shape)


def _fused(net, layer):
    """The activation that a node can do by itself, as arguments of it; what it cannot is left for `activated`."""
    kind, numbers = layer.whole(9, 0, 0, 6), layer.reals(10)
    if kind == 0:
        return _following(net, layer)
    if kind == 1:
        return {"act": "relu"}
    if kind == 2 and len(numbers) == 1 and numbers[0] != 0:
        return {"act": "leaky_relu", "act_param": numbers[0]}
    return {"act": "sigmoid"} if kind == 4 else {}


def _following(net, layer):
    """That of the next layer, if nobody else reads this one."""
    next_one = net.follower(layer)
    if next_one is None or len(next_one.outputs) != 1:
        return {}
    if next_one.kind == "PReLU" and net.weights[next_one]["slope"].size == layer.whole(0) > 1:
        return {"prelu": net.weights[next_one]["slope"], "of": next_one}
    if next_one.kind == "Sigmoid":
        return {"act": "sigmoid", "of": next_one}
    if next_one.kind == "ReLU":
        slope = next_one.real(0)
        return {"act": "leaky_relu", "act_param": slope, "of": next_one} if slope else {"act": "relu", "of": next_one}
    return {}


def _finish(net, layer, x, fused, next_one):
    if next_one is not None:
        net.done[next_one] = x
    if fused or layer.whole(9, 0, 0, 6) == 0:
        return x
    return activated(net, layer, x, layer.whole(9), layer.reals(10))


@handler("Convolution", "ConvolutionDepthWise")
def convolution(net, layer, x):
    window, channels, out = Window(layer), net.channels(layer, x), layer.whole(0, 0, 1, 2**20)
    net.image(layer, x)
    if layer.whole(19):
        raise layer.refuse("weights that are an input are not supported")
    groups = layer.whole(7, 1, 1, 2**20) if layer.kind == "ConvolutionDepthWise" else 1
    if channels % groups or out % groups:
        raise layer.refuse(f"{channels} channels to {out} in {groups} groups")
    weight = _weight(net, layer, out, channels // groups, *window.kernel)
    pads = window.pads(x)
    if layer.real(18) and any(sum(p) for p in pads):
        x, pads = _padded(net, layer, x, pads, layer.real(18)), ((0, 0), (0, 0))
    window.stays(net, x, pads)
    fused = _fused(net, layer)
    next_one = fused.pop("of", None)
    value = net.g.conv2d(x.value, net.name(layer), weight, net.weights[layer].get("bias"), window.stride,
                         dilation=window.dilation, groups=groups, **explicit(pads), **fused)
    made = net.like(x, value, window.result(x, pads, out), Fraction(1, window.stride[0]))
    return _finish(net, layer, made, fused, next_one)


def _padded(net, layer, x, pads, value):
    net.whole(layer, x)
    (top, bottom), (left, right) = pads
    shape = [x.shape[0], derived(x.shape[1], 1, top + bottom, 1), derived(x.shape[2], 1, left + right, 1)]
    return net.like(x, net.g.pad(x.value, top, bottom, left, right, value), shape)


def _dense(net, layer, weight, groups):
    """[in, out / groups, ...] -> [in, out, ...] with zeros between groups."""
    channels, each, *kernel = weight.shape
    if groups == 1:
        return weight
    if weight.size * groups > MOST_DENSE:
        raise layer.refuse(f"{groups} groups of so many weights are not supported")
    whole = np.zeros((channels, each * groups, *kernel), weight.dtype)
    for c in range(channels):
        group = c // (channels // groups)
        whole[c, group * each:(group + 1) * each] = weight[c]
    return whole


def _spread(weight, dilation):
    """A kernel with zeros between its taps."""
    height, width = ((weight.shape[i + 2] - 1) * dilation[i] + 1 for i in range(2))
    spread = np.zeros((*weight.shape[:2], height, width), weight.dtype)
    spread[:, :, ::dilation[0], ::dilation[1]] = weight
    return spread


@handler("Deconvolution", "DeconvolutionDepthWise")
def deconvolution(net, layer, x):
    window, channels, out = Window(layer), net.channels(layer, x), layer.whole(0, 0, 1, 2**20)
    net.image(layer, x)
    groups = layer.whole(7, 1, 1, 2**20) if layer.kind == "DeconvolutionDepthWise" else 1
    if channels % groups or out % groups:
        raise layer.refuse(f"{channels} channels to {out} in {groups} groups")
    if window.stride[0] != window.stride[1] or window.reach(0) != window.reach(1):
        raise layer.refuse("strides or kernels that are not square are not supported")
    if window.reach(0) > 254:
        raise layer.refuse(f"a kernel that reaches {window.reach(0) + 1} pixels, expected 255 at most")
    if layer.whole(20) or layer.whole(21) or layer.whole(28):
        raise layer.refuse("a size of the result, or weights that are an input, are not supported")
    # ncnn has [group, out of it, in of it]
    weight = _weight(net, layer, groups, out // groups, channels // groups, *window.kernel)
    weight = weight.transpose(0, 2, 1, 3, 4).reshape(channels, out // groups, *window.kernel)
    weight = _spread(_dense(net, layer, weight, groups), window.dilation)
    stride, kernel, pads = window.stride[0], window.reach(0) + 1, window.pads(x, 0)
    beyond = layer.whole(18, 0, 0, stride - 1)
    if layer.whole(19, beyond, 0, stride - 1) != beyond:
        raise layer.refuse("unequal output_pad is not supported")
    pad = pads[0][0] if len({side for pair in pads for side in pair}) == 1 else 0
    if x.cells and (kernel - stride - 2 * pad + beyond or pad == 0 < sum(map(sum, pads))):
        raise layer.refuse("the result is not a multiple of what it reads: leave --patches out")
    fused = _fused(net, layer)
    next_one = fused.pop("of", None)
    value = net.g.deconv2d(x.value, net.name(layer), weight, net.weights[layer].get("bias"), stride, pad, beyond,
                           padding="explicit" if pad else "default", **fused)
    shape = [out] + [derived(x.shape[i], stride, kernel - stride - 2 * pad + beyond, 1) for i in (1, 2)]
    made = net.like(x, value, shape, stride)
    for axis in (1, 2) if not pad else ():
        made = net.crop(layer, made, axis, *pads[axis - 1])
    return _finish(net, layer, made, fused, next_one)


@handler("Pooling")
def pooling(net, layer, x):
    channels, kind = net.image(layer, x), ("max", "average")[layer.whole(0, 0, 0, 1)]
    if layer.whole(4, 0, 0, 1):
        net.whole(layer, x)
        return net.like(x, net.g.pool2d(x.value, kind, everything=1), [channels])
    if layer.whole(7):
        raise layer.refuse("adaptive pooling is not supported")
    window, mode = Window(layer), layer.whole(5, 0, 0, 3)
    pads = window.pads(x, {2: SAME_UPPER, 3: SAME_LOWER}.get(mode))
    if mode == 0:  # what is left at the end counts as well
        pads = tuple((before, after + _tail(x.shape[i + 1], before + after, window, i))
                     for i, (before, after) in enumerate(pads))
    window.stays(net, x, pads)
    if any(side >= window.kernel[i] for i in range(2) for side in pads[i]):
        raise layer.refuse(f"pads {pads} of a window of {window.kernel}")
    value = net.g.pool2d(x.value, kind, window.kernel, window.stride,
                         count_pad=int(kind == "average" and layer.whole(6, 0, 0, 1)), **explicit(pads))
    return net.like(x, value, window.result(x, pads, channels), Fraction(1, window.stride[0]))


def _tail(extent, pads, window, i):
    over = remainder(derived(extent, 1, pads - window.kernel[i], 1), window.stride[i]) if window.stride[i] > 1 else 0
    return window.stride[i] - over if over else 0


@handler("InnerProduct")
def inner_product(net, layer, x):
    out = layer.whole(0, 0, 1, 2**24)
    size = net.weights[layer]["weight"].size
    if size % out:
        raise layer.refuse(f"has {size} weights for {out} results")
    wanted = size // out
    if not (x.rank == 2 and x.shape[1] == wanted):
        x = net.flat(layer, x)
    if x.shape[-1] != wanted:
        raise layer.refuse(f"reads {x}, expected {wanted} elements")
    fused = _fused(net, layer) if x.rank == 1 else _fused_rows(net, layer)
    next_one = fused.pop("of", None)
    value = net.g.linear(x.value, net.name(layer), _weight(net, layer, out, wanted),
                         net.weights[layer].get("bias"), **fused)
    return _finish(net, layer, net.like(x, value, [*x.shape[:-1], out]), fused, next_one)


def _fused_rows(net, layer):
    """Of rows a PReLU has a slope for each row, which is not what a linear layer has."""
    fused = _fused(net, layer)
    return {} if "prelu" in fused else fused
