# tags: needs:onnx,numpy,gguf
"""Axes that a tensor does not have, ranks and shapes that an op does not take, in the ONNX importer: refused with the
node's name, as its own comparison may be left out. The same nodes with sound ones are taken and right.
"""

import os
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig  # noqa: F401: it finds the package
from brainstorm import session
from brainstorm.onnx import importing
from brainstorm.onnx.refused import Refused


def model(op, shape, *inputs, outputs=1, **attributes):
    """One node of x and constants."""
    names = [f"w{i}" for i in range(len(inputs))]
    node = helper.make_node(op, ["x", *(n if a is not None else "" for n, a in zip(names, inputs))],
                            ["y", *(f"z{i}" for i in range(1, outputs))], "odd", **attributes)
    arrays = [numpy_helper.from_array(np.asarray(a), n) for n, a in zip(names, inputs) if a is not None]
    port = helper.make_tensor_value_info
    graph = helper.make_graph([node], "g", [port("x", TensorProto.FLOAT, list(shape))],
                              [port("y", TensorProto.FLOAT, None)], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def i64(*numbers):
    return np.array(numbers, np.int64)


def f32(*shape):
    return (np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + 1) / 7


def with_axis(a):
    """(name, model) of [2, 3, 4] along an axis."""
    for op in ("ReduceSum", "ReduceMean", "ReduceMin", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "CumSum"):
        yield op, model(op, (2, 3, 4), np.int64(a) if op == "CumSum" else i64(a))
    yield "Slice", model("Slice", (2, 3, 4), i64(0), i64(2), i64(a))
    yield "Pad", model("Pad", (2, 3, 4), i64(1, 1), None, i64(a))
    yield "Resize", model("Resize", (2, 3, 4), None, np.array([2.0], np.float32), axes=[a])
    yield "CenterCropPad", model("CenterCropPad", (2, 3, 4), i64(5), axes=[a])
    yield "MeanVarianceNormalization", model("MeanVarianceNormalization", (2, 3, 4), axes=[a])
    for op in ("Softmax", "LogSoftmax", "Hardmax", "LpNormalization", "ArgMax"):
        yield op, model(op, (2, 3, 4), axis=a)
    yield "Gather", model("Gather", (2, 3, 4), i64(1, 0), axis=a)
    yield "Split", model("Split", (2, 3, 4), i64(*{0: (1, 1), 1: (1, 2), 2: (1, 3)}[a % 3]), outputs=2, axis=a)
    yield "Concat", model("Concat", (2, 3, 4), f32(2, 3, 4), axis=a)


def refused():
    """(name, model)."""
    for a in (3, -4, 7, 2**40):
        for name, made in with_axis(a):
            yield f"{name} along axis {a}", made
    for a in (4, -5, 11):
        yield f"Unsqueeze {a}", model("Unsqueeze", (2, 3, 4), i64(a))
        yield f"Flatten {a}", model("Flatten", (2, 3, 4), axis=a)
        yield f"Squeeze {a}", model("Squeeze", (1, 3, 1), i64(a))
    yield "an axis twice", model("Slice", (2, 3, 4), i64(0, 0), i64(1, 1), i64(1, -2))
    yield "an axis that is added twice", model("Unsqueeze", (2, 3), i64(0, -4))
    yield "an order that lacks an axis", model("Transpose", (2, 3, 4), perm=[0, 1, 1])
    yield "an order of fewer axes", model("Transpose", (2, 3, 4), perm=[1, 0])
    yield "more starts than ends", model("Slice", (2, 3, 4), i64(0, 0), i64(1), i64(0, 1))
    yield "pads of two axes", model("Pad", (2, 3, 4), i64(1, 1, 1, 1))
    yield "three factors of four axes", model("Resize", (1, 2, 3, 4), None, np.array([1, 2, 2], np.float32))
    yield "parts that are not the whole", model("Split", (2, 6), i64(1, 4), outputs=2, axis=1)
    yield "more parts than outputs", model("Split", (2, 6), i64(1, 2, 3), outputs=2, axis=1)
    yield "a sequence longer than its axis", model("ReverseSequence", (4, 2), i64(3, 5))
    yield "Gemm of three axes", model("Gemm", (2, 3, 4), f32(4, 5))
    yield "Gemm by three axes", model("Gemm", (2, 4), f32(1, 4, 5))
    yield "Gemm of one", model("Gemm", (4,), f32(4, 5))
    yield "Gemm whose sum is larger", model("Gemm", (1, 4), f32(4, 5), f32(3, 5))
    yield "Gemm whose sum has more axes", model("Gemm", (2, 4), f32(4, 5), f32(1, 2, 5))
    for op in ("GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"):
        yield f"{op} of a matrix", model(op, (2, 3))
        yield f"{op} of a line", model(op, (3,))
    for scale in ((4, 1), (1, 2, 4), (3, 1, 4), (5,), (2, 3, 1, 4)):
        yield f"LayerNormalization of a scale {scale}", model("LayerNormalization", (3, 4), f32(*scale))
    yield "InstanceNormalization of a matrix", model("InstanceNormalization", (2, 3), f32(3), f32(3))
    yield "InstanceNormalization of a number", model("InstanceNormalization", (2, 3, 4), f32(1), f32(1))
    yield "GroupNormalization of groups that do not fit", model("GroupNormalization", (2, 6, 4), f32(4), f32(4),
                                                                num_groups=4)
    yield "BatchNormalization of a line", model("BatchNormalization", (3,), f32(3), f32(3), f32(3), f32(3))
    yield "a slope that is larger", model("PRelu", (1, 3), f32(4, 3))
    for alpha in (0.0,):
        yield f"Celu of {alpha}", model("Celu", (5,), alpha=alpha)
    for to in ((0, 3, 4), (2, 0, 4), (0,) * 3):
        yield f"an expansion to {to}", model("Expand", (1, 1, 1) if to == (0,) * 3 else (1, 1, 4), i64(*to))


def taken():
    for a in (0, 2, -1, -3):
        for name, made in with_axis(a):
            yield f"{name} along axis {a}", made
    for a in (3, -4):
        yield f"Unsqueeze {a}", model("Unsqueeze", (2, 3, 4), i64(a))
    for a in (3, -3, 0):
        yield f"Flatten {a}", model("Flatten", (2, 3, 4), axis=a)
    yield "Gemm and a column", model("Gemm", (2, 4), f32(4, 5), f32(2, 1))
    yield "Gemm and a number", model("Gemm", (2, 4), f32(4, 5), f32())
    yield "Gemm of turned ones", model("Gemm", (4, 2), f32(5, 4), f32(5), transA=1, transB=1)
    for scale in ((4,), (1, 4)):
        yield f"LayerNormalization of a scale {scale}", model("LayerNormalization", (3, 4), f32(*scale))
    yield "LayerNormalization of two axes", model("LayerNormalization", (2, 3, 4), f32(3, 4), f32(3, 4), axis=1)
    yield "GlobalMaxPool of a sequence", model("GlobalMaxPool", (2, 3, 5))
    yield "BatchNormalization of a matrix", model("BatchNormalization", (2, 3), f32(3), f32(3), f32(3), f32(3))
    yield "a slope a channel", model("PRelu", (2, 3, 4), f32(3, 1))
    for alpha in (-2.0, -1.0, -0.3, 0.2, 1.0, 3.0):
        yield f"Celu of {alpha}", model("Celu", (50,), alpha=alpha)
        yield f"Elu of {alpha}", model("Elu", (50,), alpha=alpha)


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
        for name, made in refused():
            try:
                importing.imported(made)
                said(f"refused: {name}", "it was taken")
            except Refused as why:
                said(f"refused: {name}", None if "'odd'" in str(why) or "'y'" in str(why) else str(why))
        for name, made in taken():
            lines = []
            try:
                good = importing.written(importing.imported(made), path, runner, say=lines.append)
                said(name, None if good else "; ".join(lines))
            except (Refused, session.Failed) as why:
                said(name, str(why))
    print(f"{counts[0]} passed, {counts[1]} failed")
    return counts[1] != 0


if __name__ == "__main__":
    sys.exit(main())
