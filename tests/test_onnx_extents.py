# tags: needs:onnx,numpy,gguf
"""ONNX ops that say how many elements there are when they run, and what is computed of these: as the reference does,
for none, some and all elements; where an extent would be fixed, refused.

Must never leave a file behind.
"""

import os
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig  # noqa: F401: it finds the package
from brainstorm import session
from brainstorm.onnx import compare, importing, report
from brainstorm.onnx.refused import Refused

ROWS, WIDTH = 9, 5
F32, I64 = TensorProto.FLOAT, TensorProto.INT64
results = {True: 0, False: 0}


def said(name, passed, why=""):
    results[bool(passed)] += 1
    print(f"ok {name}" if passed else f"FAIL {name}: {why}")


class Net:
    """x [ROWS, WIDTH], and what is computed of it."""

    def __init__(self, shape=(ROWS, WIDTH)):
        self.nodes, self.made, self.shape, self.number = [], {}, shape, 0

    def node(self, op, *inputs, outputs=1, **attributes):
        self.number += 1
        names = [f"v{self.number}.{i}" for i in range(outputs)]
        inputs = [i if isinstance(i, str) else self.constant(i) for i in inputs]
        self.nodes.append(helper.make_node(op, inputs, names, name=f"{op}{self.number}", **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, array):
        array = np.asarray(array)
        array = array.astype(np.float32 if array.dtype.kind == "f" else array.dtype)
        name = f"c{len(self.made)}"
        self.made[name] = array
        return name

    def rows(self):
        """[n, 1]: those whose sum is above 0."""
        sums = self.node("ReduceSum", "x", [1], keepdims=0)
        found = self.node("NonZero", self.node("Greater", sums, 0.0))
        return self.node("Transpose", found, perm=[1, 0])

    def model(self, *outputs, kinds=()):
        kinds = [*kinds, *[F32] * len(outputs)]
        names = [f"y{i}" for i in range(len(outputs))]
        nodes = self.nodes + [helper.make_node("Identity", [o], [n]) for o, n in zip(outputs, names)]
        graph = helper.make_graph(
            nodes, "found", [helper.make_tensor_value_info("x", F32, self.shape)],
            [helper.make_tensor_value_info(n, kind, None) for n, kind in zip(names, kinds)],
            [numpy_helper.from_array(a, n) for n, a in self.made.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def weights(*shape):
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def chosen(then):
    net = Net()
    at = net.rows()
    return net.model(*then(net, at, net.node("GatherND", "x", at)))


def layers(net, at, rows):
    hidden = net.node("Relu", net.node("Add", net.node("MatMul", rows, weights(WIDTH, 7)), weights(7)))
    return [net.node("Softmax", net.node("MatMul", hidden, weights(7, 3)), axis=-1), rows]


def put_back(net, at, rows):
    made = net.node("Tanh", net.node("MatMul", rows, weights(WIDTH, WIDTH)))
    return [net.node("ScatterND", "x", at, made), net.node("ScatterND", "x", at, made, reduction="add")]


def sums(net, at, rows):
    return [net.node("ReduceSum", net.node("Mul", rows, rows), [0], keepdims=0)]


def shaped(net, at, rows):
    shape = net.node("Concat", net.node("Shape", rows, end=1), [1, WIDTH], axis=0)
    tall = net.node("Reshape", rows, shape)
    return [net.node("Squeeze", tall, [1]), net.node("Transpose", tall, perm=[2, 0, 1]),
            net.node("Concat", rows, "x", axis=0), net.node("Slice", rows, [1], [4], [1])]


def taken():
    """(name, model, --most)."""
    for then in (layers, put_back, sums, shaped):
        yield f"rows, {then.__name__}", chosen(then), None
    net = Net((2, 3, 4))
    found = net.node("NonZero", net.node("Relu", "x"))
    yield "all that is not 0", net.model(found, net.node("GatherND", "x", net.node("Transpose", found)),
                                         kinds=[I64]), None
    net = Net()
    ahead = net.node("Greater", net.node("ReduceSum", "x", [0], keepdims=0), 0.0)
    parts = [net.node("Compress", "x", ahead, axis=1), net.node("Compress", "x", ahead, axis=0)]
    yield "columns by a computed condition, twice", net.model(
        *parts, net.node("MatMul", parts[0], net.node("Transpose", parts[0]))), None
    net = Net()
    flags = net.node("Reshape", net.node("Greater", "x", 0.0), [ROWS * WIDTH])
    yield "elements by a computed condition", net.model(net.node("Compress", "x", flags)), None
    for order in (0, 1):
        net = Net((24,))  # of more axes onnx.reference takes wrong ones
        each = net.node("Unique", net.node("Round", net.node("Mul", "x", 1.5)), outputs=4, sorted=order)
        yield f"different elements, sorted {order}", net.model(
            *each, net.node("Gather", each[0], each[2]), kinds=[F32, I64, I64, I64]), None
    net = Net()
    count = net.node("ReduceSum", net.node("Cast", net.node("Greater", "x", 0.0), to=I64), keepdims=0)
    numbers = net.node("Range", np.int64(0), count, np.int64(2))
    table = net.node("Gather", weights(60, 3), numbers)
    yield "a range of computed length", net.model(numbers, table, kinds=[I64]), ["50"]
    net = Net((1, 8, 4))
    boxes = net.node("Abs", "x")
    corner = net.node("Slice", boxes, [0], [2], [2])
    boxes = net.node("Concat", corner, net.node("Add", corner, net.node("Slice", boxes, [2], [4], [2])), axis=2)
    scores = net.node("Transpose", net.node("Sigmoid", "x"), perm=[0, 2, 1])
    kept = net.node("NonMaxSuppression", boxes, scores, [3], [0.3], [0.4])
    number = net.node("Gather", kept, np.int64(2), axis=1)
    yield "boxes that are kept", net.model(kept, net.node("Gather", net.node("Squeeze", boxes, [0]), number),
                                           kinds=[I64]), None


def inputs(shape):
    """With nothing above 0, with all, and mixed."""
    random = np.random.default_rng(4)
    yield "mixed", random.standard_normal(shape).astype(np.float32)
    yield "mixed again", random.standard_normal(shape).astype(np.float32)
    yield "one", np.where(np.arange(np.prod(shape)).reshape(shape) == 7, 3, -0.01).astype(np.float32)
    yield "all", np.full(shape, 0.75, np.float32)
    yield "none", np.full(shape, -0.5, np.float32)


def agrees(runner, path, name, model, most):
    result = importing.imported(model, most=most)
    result.walk.graph.write(path)
    told = report.ports(result.walk)
    said(f"{name}: it is only written when it was compared", result.unsure == "an extent that a run says" and
         ("put_back" in name or "sums" in name or any("a run finds" in line for line in told)), str(told))
    evaluator = ReferenceEvaluator(model)
    for kind, x in inputs(result.shapes["x"][0]):
        runner.open(path)
        wanted = evaluator.run(None, {"x": x})
        try:
            made = compare.run_ours(runner, result.walk, {"x": x})
        except session.Failed as why:  # what has no elements has no sum: the library says so
            good = kind == "none" and "sums" in name
            said(f"{name}, {kind}: a run that cannot be", good, str(why))
            continue
        good = all(a.shape == b.shape and a.dtype == b.dtype and np.allclose(a, b, 1e-4, 1e-5)
                   for a, b in zip(made, wanted, strict=True))
        said(f"{name}, {kind}", good, f"{[a.shape for a in made]}, expected {[b.shape for b in wanted]}")


def refused():
    """(name, model, options, words)."""
    spread = lambda net, at, rows: [net.node("Expand", [1.0], net.node("Shape", rows))]
    yield "an extent as a size", chosen(spread), {}, "extent"
    number = lambda net, at, rows: [net.node("Mul", rows, net.node("Cast", net.node("Size", rows), to=F32))]
    yield "an extent as a number", chosen(number), {}, "extent"
    last = lambda net, at, rows: [net.node("Slice", rows, [-1], [2**62], [0])]
    yield "the last one", chosen(last), {}, "extent"
    once = lambda net, at, rows: [net.node("Add", rows, weights(4, WIDTH))]
    yield "so many beside four", chosen(once), {}, "[?, 5], [4, 5] cannot be broadcast"
    long = next(m for name, m, most in taken() if most)
    yield "a range without a maximum", long, {}, "--most"
    yield "a maximum that is none", long, {"most": ["many"]}, "'many'"
    batch = chosen(sums)
    batch.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    yield "rows of a free batch", batch, {"dims": ["N=..7"]}, "free batch"


def main():
    runner = session.opened()
    if runner is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder, runner:
        path = os.path.join(folder, "net.gguf")
        for name, model, most in taken():
            agrees(runner, path, name, model, most)
        for name, model, options, word in refused():
            try:
                importing.imported(model, **options)
                said(f"refused: {name}", False, "it was taken")
            except Refused as why:
                said(f"refused: {name}", word in str(why), str(why))
        small = importing.imported(next(m for name, m, most in taken() if most), most=["3"])
        small.walk.graph.write(path)
        runner.open(path)
        try:
            compare.run_ours(runner, small.walk, {"x": np.ones((ROWS, WIDTH), np.float32)})
            said("a run beyond the maximum", False, "it ran")
        except session.Failed as why:
            said("a run beyond the maximum ends with words", "Range" in str(why), str(why))
    print(f"{results[True]} passed, {results[False]} failed")
    return results[False] != 0


if __name__ == "__main__":
    sys.exit(main())
