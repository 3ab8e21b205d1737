# tags: needs:onnx,onnxruntime,numpy,gguf
"""What the ONNX importer takes as ONNX Runtime does: images resized by rules of old sets, by factors that f32 rounds;
networks that were quantised in old sets; long sums of products of 8 bits; loops without a limit, of none and of one
trip; tensors without elements; sums of float16.
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

N, random = helper.make_node, np.random.default_rng(3)
KINDS = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "int64": TensorProto.INT64}


def i64(*numbers):
    return np.array(numbers, np.int64)


def model(nodes, shape, opset=18, kind="float32", **weights):
    port = helper.make_tensor_value_info
    arrays = [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items() if a is not None]
    graph = helper.make_graph(nodes, "lifted", [port("x", KINDS[kind], list(shape))], [port("y", KINDS[kind], None)],
                              arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)],
                             ir_version=8 if opset > 12 else 5 if opset > 9 else 4)


def factors(*numbers):
    return np.array(numbers, np.float32)


def resized():
    empty = np.zeros(0, np.float32)
    for mode in ("nearest", "linear"):
        for f in ((1, 1, 2, 2), (1, 1, 3, 1), (1, 1, 1.7, 2.6)):
            old = N("Upsample", ["x"], ["y"], mode=mode, scales=[float(s) for s in f])
            yield f"Upsample of set 8, {mode}, {f}", model([old], (1, 2, 5, 7), 8)
            later = N("Upsample", ["x", "f"], ["y"], mode=mode)
            yield f"Upsample of set 9, {mode}, {f}", model([later], (1, 2, 5, 7), 9, f=factors(*f))
        for f in ((1, 1, 2, 2), (1, 1, 0.4, 0.5), (1, 1, 0.8, 1.3)):
            yield f"Resize of set 10, {mode}, {f}", model([N("Resize", ["x", "f"], ["y"], mode=mode)], (1, 2, 5, 7), 10,
                                                          f=factors(*f))
    constant = N("Constant", [], ["f"], value=numpy_helper.from_array(factors(1, 1, 0.6, 0.6)))
    yield "Resize of set 10 by a node's factors", model([constant, N("Resize", ["x", "f"], ["y"])], (1, 2, 9, 7), 10)
    for f in (0.7, 1.1, 1.4, 0.29, 2.3, 1.9):
        for mode in ("nearest", "linear", "cubic"):
            yield f"{f} of 10 and 20 pixels, {mode}", model([N("Resize", ["x", "r", "f"], ["y"], mode=mode)],
                                                            (1, 2, 10, 20), r=empty, f=factors(1, 1, f, f))
    for nearest in ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil"):
        for f in (1.2, 3.6, 0.6, 1 / 3, 2.2):
            for centres in ("asymmetric", "half_pixel", "align_corners"):
                yield f"nearest, {nearest}, {centres}, {f:.3g}", model(
                    [N("Resize", ["x", "r", "f"], ["y"], nearest_mode=nearest, coordinate_transformation_mode=centres)],
                    (1, 1, 15, 9), r=empty, f=factors(1, 1, f, f))
    for f in (1.3, 0.45, 2.7):
        for mode in ("linear", "cubic"):
            yield f"align_corners, {mode}, {f}", model(
                [N("Resize", ["x", "r", "f"], ["y"], mode=mode, coordinate_transformation_mode="align_corners")],
                (1, 2, 11, 6), r=empty, f=factors(1, 1, f, f))
    for f in (2, 0.5, 3):
        yield f"tf_half_pixel_for_nn, {f}", model(
            [N("Resize", ["x", "r", "f"], ["y"], coordinate_transformation_mode="tf_half_pixel_for_nn",
               nearest_mode="floor")], (1, 2, 6, 8), 11, r=empty, f=factors(1, 1, f, f))


def quantised(opset, each=False):
    """A convolution of u8 by i8; each: a scale a channel."""
    scale = random.uniform(0.01, 0.02, 4).astype(np.float32) if each else np.float32(0.015625)
    along = {"axis": 0} if each else {}
    nodes = [N("QuantizeLinear", ["x", "s", "z"], ["q"]), N("DequantizeLinear", ["q", "s", "z"], ["d"]),
             N("DequantizeLinear", ["w", "ws", "wz"], ["wd"], **along), N("DequantizeLinear", ["b", "bs"], ["bd"]),
             N("Conv", ["d", "wd", "bd"], ["y"], pads=[1] * 4)]
    return model(nodes, (1, 3, 6, 6), opset, s=np.float32(0.0625), z=np.uint8(100), ws=scale,
                 w=random.integers(-30, 30, (4, 3, 3, 3)).astype(np.int8), wz=np.zeros(4 if each else (), np.int8),
                 b=np.arange(4, dtype=np.int32), bs=np.float32(0.5))


def products(rows, size, kind=np.int8):
    """A product of numbers that are quantised in a run."""
    low, high = (-63, 64) if kind == np.int8 else (64, 192)
    nodes = [N("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), N("MatMulInteger", ["q", "w", "z", "wz"], ["i"]),
             N("Cast", ["i"], ["f"], to=1), N("Mul", ["f", "s"], ["y"])]
    return model(nodes, (rows, size), w=random.integers(low, high, (size, 5)).astype(kind), wz=kind(3))


def images(channels, kernel):
    nodes = [N("DynamicQuantizeLinear", ["x"], ["q", "s", "z"]), N("ConvInteger", ["q", "w", "z", "wz"], ["i"]),
             N("Cast", ["i"], ["f"], to=1), N("Mul", ["f", "s"], ["y"])]
    return model(nodes, (1, channels, 6, 6), w=random.integers(64, 192, (3, channels, kernel, kernel)).astype(np.uint8),
                 wz=np.uint8(128))


def body(condition, collects=False):
    """Doubles what it carries."""
    port = helper.make_tensor_value_info
    values = [port("i", TensorProto.INT64, []), port("c", TensorProto.BOOL, []), port("v", TensorProto.FLOAT, [3])]
    outs = [port("go", TensorProto.BOOL, []), port("w", TensorProto.FLOAT, [3])]
    nodes = [N("Mul", ["v", "two"], ["w"]), *condition]
    return helper.make_graph(nodes + ([N("Neg", ["v"], ["n"])] if collects else []), "body", values,
                             outs + ([port("n", TensorProto.FLOAT, [3])] if collects else []))


SMALL = [N("ReduceMax", ["w"], ["top"], keepdims=0), N("Less", ["top", "limit"], ["go"])]
NO = numpy_helper.from_array(np.array(False))


def looped(condition, trips, collects=False, options=()):
    names = {"M": None if trips is None else np.int64(trips), "t": np.array(True), "two": np.float32(2),
             "limit": np.float32(50), "no": np.array(False), "yes": np.array(True)}
    outs = ["v", "all"] if collects else ["v"]
    nodes = [N("Abs", ["x"], ["a"]), N("Add", ["a", "two"], ["b"]),
             N("Loop", ["" if trips is None else "M", "t", "b"], outs, body=body(condition, collects)),
             N("Add", ["v", "x"], ["y" if not collects else "u"])]
    nodes += [N("ReduceSum", ["all", "axis"], ["s"], keepdims=0), N("Add", ["u", "s"], ["y"])] if collects else []
    return model(nodes, (3,), axis=i64(0), **names), options


def loops():
    for trips in (2**63 - 1, 2**31, 2**24 + 1, None):
        yield f"a loop of {trips} trips at most", *looped(SMALL, trips, options=["20"])
    yield "a loop of no limit that collects", *looped(SMALL, 2**62, True, ["20"])
    yield "a loop of no trip", *looped(SMALL, 0)
    yield "a loop of less than none", *looped(SMALL, -3)
    yield "one trip", *looped(SMALL, 1)
    for name, nodes in (("a constant around it", [N("Identity", ["no"], ["go"])]),
                        ("a constant in it", [N("Constant", [], ["go"], value=NO)]),
                        ("the other of a constant", [N("Not", ["yes"], ["go"])]),
                        ("the other of its own", [N("Not", ["c"], ["go"])])):
        for collects in (False, True):
            yield f"a loop that ends after one trip by {name}, collects {collects}", *looped(nodes, 7, collects)


def without_elements():
    none = [N("Slice", ["x", "zero", "zero", "one"], ["n"])]
    numbers = {"zero": i64(0), "one": i64(1)}
    yield "nothing joined", model([*none, N("Concat", ["n", "x", "n"], ["y"], axis=1)], (2, 3), **numbers)
    yield "nothing computed with, joined", model([*none, N("Relu", ["n"], ["m"]), N("Mul", ["m", "m"], ["k"]),
                                                  N("Concat", ["x", "k"], ["y"], axis=1)], (2, 3), **numbers)
    yield "nothing turned and joined", model([*none, N("Transpose", ["n"], ["m"]), N("Transpose", ["x"], ["t"]),
                                              N("Concat", ["m", "t"], ["y"], axis=0)], (2, 3), **numbers)
    yield "a product of nothing", model([*none, N("ReduceProd", ["n", "one"], ["p"]), N("Mul", ["x", "p"], ["y"])],
                                        (2, 3), **numbers)
    yield "nothing looked up", model([N("Gather", ["x", "i"], ["g"], axis=1), N("Concat", ["g", "x"], ["y"], axis=1)],
                                     (2, 3), i=np.zeros(0, np.int64))
    yield "parts of which one is nothing", model([N("Split", ["x", "p"], ["a", "b", "c"], axis=1), N(
        "Concat", ["c", "b", "a"], ["y"], axis=1)], (2, 5), p=i64(2, 0, 3))


def of_half():
    for op in ("Exp", "Sqrt", "Neg"):
        yield f"a running sum of float16 and its {op}", model(
            [N("Abs", ["x"], ["p"]), N("CumSum", ["p", "a"], ["c"]), N(op, ["c"], ["y"])], (2, 5), kind="float16",
            a=np.int64(1))
    yield "a running sum of float16 and its mean", model(
        [N("CumSum", ["x", "a"], ["c"]), N("ReduceMax", ["c"], ["y"])], (2, 5), kind="float16", a=np.int64(0))


def in_branches():
    """Images that a branch or a loop computes, several at once."""
    port, weight = helper.make_tensor_value_info, random.standard_normal((3, 3, 3, 3)).astype(np.float32) * 0.3
    layers = {"a convolution": N("Conv", ["x", "w"], ["t"], pads=[1] * 4),
              "a transposed one": N("ConvTranspose", ["x", "w"], ["t"], pads=[1] * 4),
              "one of groups": N("Conv", ["x", "g"], ["t"], pads=[1] * 4, group=3),
              "a pool": N("AveragePool", ["x"], ["t"], kernel_shape=[3, 3], pads=[1] * 4),
              "a norm of channels": N("LRN", ["x"], ["t"], size=3)}
    for name, layer in layers.items():
        for count in (2, 5):
            graph = lambda node, out: helper.make_graph([node], "g", [], [port(out, TensorProto.FLOAT, None)])
            nodes = [N("ReduceMax", ["x"], ["m"], keepdims=0), N("Less", ["m", "k"], ["c"]),
                     N("If", ["c"], ["y"], then_branch=graph(layer, "t"), else_branch=graph(
                         N("Relu", ["x"], ["e"]), "e"))]
            for most in (-9.0, 99.0):
                yield f"{name} of {count} images in a branch, {most}", model(
                    nodes, (count, 3, 6, 5), k=np.float32(most), w=weight, g=weight[:, :1].copy())
    inner = helper.make_graph([N("Conv", ["v", "w"], ["o"], pads=[1] * 4), N("Identity", ["c"], ["go"])], "b", [
        port("i", TensorProto.INT64, []), port("c", TensorProto.BOOL, []), port("v", TensorProto.FLOAT, [2, 3, 6, 5])],
        [port("go", TensorProto.BOOL, []), port("o", TensorProto.FLOAT, [2, 3, 6, 5])])
    yield "a convolution of two images in a loop", model([N("Loop", ["M", "", "x"], ["y"], body=inner)], (2, 3, 6, 5),
                                                         M=np.int64(3), w=weight)


def cases():
    """(name, model, --most, tolerance)."""
    for name, made in resized():
        yield name, made, (), 1e-4
    for opset in (10, 11, 13, 16, 18, 19, 21):
        yield f"a quantised convolution of set {opset}", quantised(opset), (), 1e-3
        if opset >= 13:
            yield f"a quantised convolution of set {opset}, a scale a channel", quantised(opset, True), (), 1e-3
    for size in (258, 259, 517, 1024):
        yield f"sums of {size} products", products(3, size), (), 1e-4
    yield "sums of products of bytes", products(2, 600, np.uint8), (), 1e-4
    for channels, kernel in ((28, 3), (29, 3), (64, 3), (300, 1)):
        yield f"a convolution of {channels} channels by {kernel}", images(channels, kernel), (), 1e-4
    for name, made, options in loops():
        yield name, made, options, 1e-5
    for name, made in (*without_elements(), *in_branches()):
        yield name, made, (), 1e-5
    for name, made in of_half():
        yield name, made, (), 5e-3
    yield "the largest of 64 bits", model([N("TopK", ["x", "k"], ["v", "y"])], (2, 5), kind="int64", k=i64(2)), (), 0


def main():
    runner, failed, passed = session.opened(), 0, 0
    if runner is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder, runner:
        path = os.path.join(folder, "net.gguf")
        for name, made, most, tolerance in cases():
            lines = []
            try:
                result = importing.imported(made, most=list(most))
                good = importing.written(result, path, runner, say=lines.append, tolerance=tolerance)
                good = good and "onnxruntime" in lines[0]
                held = sum(len(b.weights) for b in result.walk.graph.blocks)
                good = good and (held < 6 or "images in" not in name)  # all images have one weight
            except (Refused, session.Failed, ValueError) as why:
                good, lines = False, [str(why)]
            failed, passed = failed + (not good), passed + good
            print(f"ok {name}" if good else f"FAIL {name}: {'; '.join(lines)[:400]}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
