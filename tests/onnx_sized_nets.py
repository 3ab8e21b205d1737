"""Networks for the tests of the ONNX importer whose sizes a run brings, as exporters write them: lines of text, sound,
steps, boxes on grids.
"""

import numpy as np
from onnx import TensorProto

from onnx_nets import Net


class Sized(Net):
    """An input x; what the last node gives, and others that are said, are outputs."""

    def extent(self, x, axis):
        """[1]: of a run."""
        return self.node("Shape", x, start=axis, end=axis + 1)

    def number(self, x, axis):
        return self.node("Squeeze", self.extent(x, axis))

    def recurrent(self, kind, x, inputs, units, outputs=2, **attributes):
        gates, both = {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 2 if "direction" in attributes else 1
        more = {"linear_before_reset": 1} if kind == "GRU" else {}
        draw = lambda *shape: self.array(self.random.standard_normal(shape) / 3)
        return self.node(kind, x, draw(both, gates * units, inputs), draw(both, gates * units, units),
                         draw(both, 2 * gates * units), outputs=outputs, hidden_size=units, **attributes, **more)

    def both_ways(self, kind, x, inputs, units):
        y = self.recurrent(kind, x, inputs, units, direction="bidirectional")[0]
        return self.node("Reshape", self.node("Transpose", y, perm=[0, 2, 1, 3]), self.numbers(0, 0, -1))

    def ends(self, shape, *outputs):
        outputs = outputs or (self.nodes[-1].output[0],)
        return self.model({"x": shape}, dict.fromkeys(outputs))


def text_line(kind="LSTM", layers=1):
    """Columns of an image as steps."""
    net, channels = Sized(1), 12
    x = net.node("MaxPool", net.node("Relu", net.conv("x", 8, 1, 3)), kernel_shape=[2, 2], strides=[2, 2])
    x = net.node("MaxPool", net.node("Relu", net.conv(x, channels, 8, 3)), kernel_shape=[2, 1], strides=[2, 1])
    x = net.node("Conv", x, net.weight(channels, channels, 4, 2), net.line(channels))
    x = net.node("Transpose", net.node("Squeeze", x, net.numbers(2)), perm=[2, 0, 1])
    for _ in range(layers):
        x, channels = net.both_ways(kind, x, channels, 6), 12
    return net.ends([1, 1, 16, "W"], net.node("Softmax", net.linear(x, 12, 9), axis=2))


def text_attention():
    """Columns of an image that see each other: queries, keys and values are cut out of one product."""
    net, heads, size = Sized(2), 3, 4
    x = net.node("Conv", "x", net.weight(12, 3, 8, 4), net.line(12), strides=[8, 4], pads=[0, 1, 0, 1])
    x = net.node("Transpose", net.node("Reshape", x, net.numbers(0, 12, -1)), perm=[0, 2, 1])
    three = net.node("Reshape", net.linear(x, 12, 36), net.numbers(0, -1, 3, heads, size))
    three = net.node("Transpose", three, perm=[2, 0, 3, 1, 4])
    q, k, v = (net.node("Gather", three, net.array(i, np.int64), axis=0) for i in range(3))
    scores = net.node("MatMul", net.node("Mul", q, net.array(0.5)), net.node("Transpose", k, perm=[0, 1, 3, 2]))
    y = net.node("MatMul", net.node("Softmax", scores, axis=3), v)
    y = net.node("Transpose", y, perm=[0, 2, 1, 3])
    shape = net.node("Concat", net.extent(y, 0), net.extent(y, 1), net.numbers(12), axis=0)
    return net.ends([1, 3, 8, "W"], net.node("Add", net.node("Reshape", y, shape), x))


def causal(kind):
    """Steps that see those before them, with a line for each place."""
    net = Sized(3)
    steps = net.number("x", 1)
    places = net.array(net.random.standard_normal((1, 130, 6)))
    x = net.node("Add", "x", net.node("Slice", places, net.numbers(0), net.extent("x", 1), net.numbers(1)))
    if kind == "trilu":
        square = net.node("Concat", net.extent("x", 1), net.extent("x", 1), axis=0)
        hidden = net.node("Trilu", net.node("Expand", net.array(-1e4), square), net.array(1, np.int64), upper=1)
    else:
        line = net.node("Range", net.array(0, np.int64), steps, net.array(1, np.int64))
        column = net.node("Unsqueeze", line, net.numbers(1))
        hidden = net.node("Where", net.node("Less", column, line), net.array(-1e4), net.array(0.0))
    scores = net.node("MatMul", x, net.node("Transpose", x, perm=[0, 2, 1]))
    y = net.node("Softmax", net.node("Add", scores, hidden), axis=2)
    return net.ends([1, "T", 6], net.node("MatMul", y, x))


def sound(mode="reflect"):
    """Windows over samples whose ends are made up, a recurrence, the mean of all and each."""
    net = Sized(4)
    x = net.node("Pad", net.node("Unsqueeze", "x", net.numbers(1)), net.numbers(0, 0, 7, 0, 0, 9), mode=mode)
    x = net.node("Conv", x, net.weight(10, 1, 16), strides=[5])
    power = net.node("Add", *(net.node("Mul", *[net.node("Slice", x, net.numbers(i), net.numbers(i + 5),
                                                           net.numbers(1))] * 2) for i in (0, 5)))
    x = net.node("Relu", net.node("Conv", power, net.weight(8, 5, 3), net.line(8)))
    steps = net.node("Transpose", x, perm=[2, 0, 1])
    each = net.both_ways("GRU", steps, 8, 4)
    mean = net.node("ReduceMean", each, net.numbers(0), keepdims=0)
    return net.ends([1, "samples"], mean, each)


def sound_and_back():
    net = Sized(5)
    narrow = net.node("Relu", net.node("Conv", "x", net.weight(6, 2, 4), net.line(6), strides=[2], pads=[1, 1]))
    x = net.node("Relu", net.node("Conv", narrow, net.weight(8, 6, 4), net.line(8), strides=[2], pads=[1, 1]))
    x = net.node("ConvTranspose", x, net.weight(8, 6, 4), net.line(6), strides=[2], pads=[1, 1])
    x = net.node("Concat", x, narrow, axis=1)
    return net.ends([1, 2, "T"], net.node("Resize", x, "", net.array([1, 1, 2]), mode="nearest", nearest_mode="floor",
                                          coordinate_transformation_mode="asymmetric"))


def pictures(kind="GRU", last=True):
    """A network for each picture, a recurrence over all of them."""
    net = Sized(6)
    x = net.node("Relu", net.conv("x", 8, 3, 3, strides=[2, 2]))
    x = net.node("Flatten", net.node("GlobalAveragePool", net.node("Relu", net.conv(x, 10, 8, 3))))
    x = net.node("Unsqueeze", x, net.numbers(1))
    y = net.node("Squeeze", net.recurrent(kind, x, 10, 6)[0], net.numbers(1))
    y = net.node("Gather", y, net.array(-1, np.int64), axis=0) if last else y
    return net.ends(["T", 3, 12, 10], net.node("Relu", net.linear(y, 6, 4)))


def boxes(shape, levels=2):
    """Numbers of places on grids beside what is computed there."""
    net, stride, x, parts = Sized(7), 2, "x", []
    for level in range(levels):
        x = net.node("Relu", net.conv(x, 6, 6 if level else 3, 3, strides=[2, 2]))
        high, wide = (net.node("Range", net.array(0, np.int64), net.number(x, axis), net.array(1, np.int64))
                      for axis in (2, 3))
        size = net.node("Concat", net.extent(x, 2), net.extent(x, 3), axis=0)
        rows = net.node("Expand", net.node("Unsqueeze", high, net.numbers(1)), size)
        columns = net.node("Expand", wide, size)
        grid = net.node("Concat", *(net.node("Unsqueeze", g, net.numbers(0)) for g in (columns, rows)), axis=0)
        grid = net.node("Cast", net.node("Reshape", grid, net.numbers(1, 2, -1)), to=TensorProto.FLOAT)
        flat = net.node("Reshape", x, net.node("Concat", net.extent(x, 0), net.numbers(6, -1), axis=0))
        near = net.node("Slice", flat, net.numbers(0), net.numbers(2), net.numbers(1))
        parts += [net.node("Mul", net.node("Add", near, grid), net.array(stride))]
        stride *= 2
    return net.ends(shape, net.node("Concat", *parts, axis=2))


def grouped():
    """A norm of groups of channels, written out as exporters do, and one of each channel."""
    net = Sized(8)
    x = net.conv("x", 8, 3, 3)
    flat = net.node("Reshape", x, net.numbers(0, 4, -1))
    flat = net.node("InstanceNormalization", flat, net.array(np.ones(4)), net.array(np.zeros(4)))
    x = net.node("Relu", net.node("Reshape", flat, net.node("Shape", x)))
    x = net.node("InstanceNormalization", x, net.line(8, 0.5, 1.5), net.line(8))
    return net.ends([1, 3, "H", "W"], net.conv(x, 3, 8, 3))


def parts():
    """Parts of an axis that begin or end with it."""
    net, far = Sized(9), 2**62
    part = lambda start, end, step=1: net.node("Slice", "x", net.numbers(start), net.numbers(end), net.numbers(2),
                                               net.numbers(step))
    outputs = [net.node("Sub", part(1, far), part(0, -1)), net.node("Concat", part(0, 2), part(-3, far), axis=2),
               part(far, -far, -1), part(1, far, 3), part(-5, -2)]
    last = net.node("Sub", net.extent("x", 2), net.numbers(1))
    return net.ends([1, 3, "T"], *outputs, net.node("Gather", "x", last, axis=2))


def made():
    """What is as long as x, and numbers that are its length."""
    net = Sized(10)
    size = net.node("Cast", net.number("x", 2), to=TensorProto.FLOAT)
    shape = net.node("Concat", net.numbers(2), net.extent("x", 2), axis=0)
    line = net.node("Range", net.array(3, np.int64), net.node("Add", net.number("x", 2), net.array(3, np.int64)),
                    net.array(1, np.int64))
    outputs = [net.node("Div", "x", size), net.node("Expand", net.array([[2.0], [3]]), shape),
               net.node("Add", net.node("ConstantOfShape", shape), net.array(1.5)), net.node("Mul", line, line),
               net.node("CumSum", "x", net.array(2, np.int64)),
               net.node("Mul", "x", net.node("Div", net.node("Cast", line, to=TensorProto.FLOAT), size))]
    return net.ends([1, 2, "T"], *outputs)


def bordered(mode):
    net = Sized(11)
    numbers = [net.array(0.5)] if mode == "constant" else []
    y = net.node("Pad", "x", net.numbers(0, 0, 2, 3, 0, 0, 1, 4), *numbers, mode=mode)
    y = net.node("Pad", y, net.numbers(0, 1, 0, -1, 0, 1, 0, 2), mode="constant")
    several = net.node("Pad", y, net.numbers(1, 0, 0, 0, 0, 0, 0, 0), net.array(2.0))
    return net.ends([1, 2, "H", "W"], net.node("Relu", y), several)


def in_blocks(block=16):
    """What is filled up to whole blocks, as of spectra."""
    net = Sized(12)
    length = net.number("x", 1)
    over = net.node("Mod", length, net.array(block, np.int64))
    more = net.node("Mod", net.node("Sub", net.array(block, np.int64), over), net.array(block, np.int64))
    pads = net.node("Concat", net.numbers(0, 0, 0), net.node("Unsqueeze", more, net.numbers(0)), axis=0)
    lines = net.node("Reshape", net.node("Pad", "x", pads), net.numbers(-1, block))
    return net.ends([1, "T"], net.linear(lines, block, 5))


def rows_with_constants(kind):
    """Of each row of a batch: what is as many as there are rows stands beside what is computed, before and behind."""
    net = Sized(13)
    ones = lambda *shape: net.node("Expand", net.array(net.random.standard_normal((1, *shape))), net.node(
        "Concat", net.extent("x", 0), net.numbers(*shape), axis=0))
    if kind == "before":
        y = net.node("Concat", ones(2, 7), net.node("Relu", "x"), axis=1)
    elif kind == "behind":
        y = net.node("Concat", net.node("Relu", "x"), ones(1, 7), ones(2, 7), axis=1)
    elif kind == "between":
        y = net.node("Concat", "x", ones(5, 1), net.node("Relu", "x"), axis=2)
    elif kind == "pads":
        y = net.node("Pad", net.node("Relu", "x"), net.numbers(0, 1, 2, 0, 2, 1), net.array(3.0))
    else:
        y = net.node("Concat", "x", net.node("Pad", "x", net.numbers(0, 0, 1, 0, 0, -1)), axis=1)
    return net.ends(["N", 5, 7], net.node("Mul", y, net.array(2.0)))
