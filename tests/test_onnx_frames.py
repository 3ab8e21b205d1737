# tags: needs:onnx,numpy,gguf
"""Frames by the ONNX importer: what is taken is right at sizes that divide nothing, and what depends on a remainder of
the size is refused with the node's name; in steps that make it the same it is taken.
"""

import os
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig  # noqa: F401: it finds the package
from brainstorm import session
from brainstorm.onnx import compare, importing
from brainstorm.onnx.refused import Refused

SIZES = [(33, 34), (35, 61), (47, 48), (49, 90), (50, 51), (53, 37), (65, 63), (89, 89)]
random = np.random.default_rng(5)
ONES = np.zeros(0, np.float32)


class Net:
    """An image x, and nodes one after the other."""

    def __init__(self):
        self.nodes, self.made = [], {}

    def __call__(self, op, *inputs, name="", **attributes):
        inputs = [i if isinstance(i, str) else self.constant(i) for i in inputs]
        out = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name or f"{op.lower()}.{len(self.nodes)}", **attributes))
        return out

    def constant(self, array):
        array = np.asarray(array)
        self.made[f"c{len(self.made)}"] = array.astype(np.float32) if array.dtype.kind == "f" else array
        return f"c{len(self.made) - 1}"

    def model(self, y):
        port = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        graph = helper.make_graph(self.nodes, "framed", [port("x", [1, 3, "H", "W"])], [port(y, None)],
                                  [numpy_helper.from_array(a, n) for n, a in self.made.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=10)

    def conv(self, x, kernel=3, **attributes):
        attributes = attributes or {"pads": [kernel // 2] * 4}
        return self("Conv", x, random.standard_normal((3, 3, kernel, kernel)) / kernel, **attributes)


def rounded_and_cropped():
    net = Net()
    big = doubled(net, net("MaxPool", "x", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1), "x")
    return net.model(net("Slice", big, np.array([0, 0]), net("Shape", "x", start=2), np.array([2, 3]), name="the crop"))


def of(op, **attributes):
    net = Net()
    return net.model(net(op, "x", name="the one", **attributes))


def pyramid(levels, up):
    """Down and up again; up: how the way back finds its size."""
    net, x, skips = Net(), "x", []
    for _ in range(levels):
        skips.append(x)
        x = net("MaxPool", net.conv(x), kernel_shape=[2, 2], strides=[2, 2])
    for skip in reversed(skips):
        x = up(net, x, skip)
        x = net("Add", x, skip, name="the join")
    return net.model(net.conv(x))


def doubled(net, x, skip):
    return net("Resize", x, ONES, np.array([1.0, 1, 2, 2]), mode="nearest", nearest_mode="floor",
               coordinate_transformation_mode="asymmetric")


def to_the_size_of(net, x, skip):
    return net("Resize", x, ONES, ONES, net("Shape", skip), name="the resize", mode="linear")


def cropped(net, x, skip):
    size = net("Shape", skip, start=2)
    return net("Slice", doubled(net, net("Pad", x, np.array([0, 0, 0, 0, 0, 0, 1, 1])), skip), np.array([0, 0]), size,
               np.array([2, 3]), name="the crop")


def down_by(k, stride, **attributes):
    net = Net()
    return net.model(net.conv(net.conv("x", k, strides=[stride] * 2, **attributes), 3))


def taken():
    """(name, model, maximum of H and W)."""
    for k, s, pads, dilation in ((2, 2, 0, 1), (3, 2, 0, 1), (3, 2, 1, 1), (3, 3, 0, 1), (5, 3, 2, 1), (2, 2, 0, 2)):
        for op in ("MaxPool", "AveragePool"):
            yield f"{op} of {k} by {s}, pads {pads}, dilation {dilation}, rounded up", of(
                op, kernel_shape=[k, k], strides=[s, s], pads=[pads] * 4, ceil_mode=1, dilations=[dilation] * 2), "..90"
    yield "pools rounded up, four deep", four_deep(1), "..90"
    yield "pools rounded down, four deep", four_deep(0), "..90"
    yield "a convolution of stride 2 with pads", down_by(3, 2, pads=[1] * 4), "..90"
    yield "a convolution of 4 by 3", down_by(4, 3, pads=[1, 0, 1, 2]), "..90"
    yield "SAME of stride 1", down_by(3, 1, auto_pad="SAME_UPPER"), "..90"
    yield "SAME of stride 2 in steps", down_by(3, 2, auto_pad="SAME_LOWER"), "..90/2"
    yield "rounded up, doubled and cropped", rounded_and_cropped(), "..200"
    yield "a pyramid that is cropped", pyramid(1, cropped), "..200"
    yield "a pyramid that is cropped, two deep", pyramid(2, cropped), "..90"
    yield "a pyramid in steps", pyramid(3, doubled), "..96/8"
    yield "a pyramid to sizes, in steps", pyramid(2, to_the_size_of), "..96/4"


def four_deep(ceil):
    net, x = Net(), "x"
    for _ in range(4):
        x = net("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=ceil)
    return net.model(x)


def refused():
    """(name, model, maximum, words)."""
    yield "a convolution of stride 2, SAME_UPPER", down_by(3, 2, auto_pad="SAME_UPPER"), "..200", ["conv.0", "another"]
    yield "a convolution of stride 3, SAME_LOWER", down_by(4, 3, auto_pad="SAME_LOWER"), "..200", ["conv.0"]
    yield "a pool of stride 2, SAME_UPPER", of("MaxPool", kernel_shape=[3, 3], strides=[2, 2],
                                               auto_pad="SAME_UPPER"), "..77", ["'the one'"]
    yield "windows that may begin behind the image", of("MaxPool", kernel_shape=[2, 2], strides=[3, 3],
                                                        ceil_mode=1), "..200", ["'the one'"]
    yield "SAME of stride 4 in steps of 2", down_by(5, 4, auto_pad="SAME_UPPER"), "..200/2", ["conv.0", "/32"]
    yield "a pyramid to sizes", pyramid(1, to_the_size_of), "..200", ["'the resize'"]
    yield "a pyramid to sizes, three deep", pyramid(3, to_the_size_of), "..70", ["'the resize'"]
    yield "a pyramid that doubles", pyramid(2, doubled), "..200", ["'the join'", "/32"]
    yield "a small one that doubles", pyramid(1, doubled), "..20", ["'the join'"]


def differs(runner, result, path, most):
    """What is wrong at sizes of all kinds; None: nothing."""
    if not importing.written(result, path, runner, say=lambda line: None):
        return "it does not agree"
    runner.open(path)
    reference, step = compare.Reference(result.model, result.ready), int((most.split("/") + ["1"])[1])
    for size in SIZES:
        h, w = (n // step * step for n in size)
        x = random.standard_normal((1, 3, h, w)).astype(np.float32)
        _, found = compare.differences(runner, result.walk, reference, {"x": x})
        if not found[0].relative < 1e-5:
            return f"{h} x {w}: {found[0]}"
    return None


def main():
    runner, counts = session.opened(), [0, 0]
    if runner is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0

    def said(name, why):
        counts[why is not None] += 1
        print(f"FAIL {name}: {why}" if why else f"ok {name}")

    with tempfile.TemporaryDirectory() as folder, runner:
        path = os.path.join(folder, "net.gguf")
        for name, model, most in taken():
            try:
                said(name, differs(runner, importing.imported(model, dims=[f"H={most}", f"W={most}"]), path, most))
            except (Refused, session.Failed) as why:
                said(name, str(why))
        for name, model, most, words in refused():
            try:
                importing.imported(model, dims=[f"H={most}", f"W={most}"])
                said(name, "it was taken")
            except Refused as why:
                missing = [word for word in words if word not in str(why)]
                said(name, f"the message lacks {missing}: {why}" if missing else None)
    print(f"{counts[0]} passed, {counts[1]} failed")
    return counts[1] != 0


if __name__ == "__main__":
    sys.exit(main())
