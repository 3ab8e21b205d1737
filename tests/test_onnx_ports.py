# tags: needs:onnx,numpy,gguf
"""Inputs and outputs of the ONNX importer: names, shapes and types that our files cannot hold as they are, and what is
told of them; inputs that nobody reads, outputs that are inputs or constants.
"""

import os
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig  # noqa: F401: it finds the package
from brainstorm import session
from brainstorm.onnx import importing, report
from brainstorm.onnx.refused import Refused

F32, F64, F16, I64, U8, I8, BOOL = (getattr(TensorProto, name) for name in
                                    "FLOAT DOUBLE FLOAT16 INT64 UINT8 INT8 BOOL".split())


def model(nodes, inputs, outputs, weights=()):
    """inputs, outputs: [(name, type, shape)]."""
    ports = [[helper.make_tensor_value_info(*p) for p in part] for part in (inputs, outputs)]
    graph = helper.make_graph(nodes, "ports", *ports, list(weights))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def relu(name_in, name_out, shape, kind=F32):
    return model([helper.make_node("Relu", [name_in], [name_out])], [(name_in, kind, shape)], [(name_out, kind, shape)])


def cases():
    """(name, model, words that are told)."""
    node, long = helper.make_node, "a" * 80
    yield "names that are not ASCII", relu("entrée", "größe", [2, 3]), ["'entrée' is called 'entr_e'", "gr__e"]
    yield "names with spaces", relu("the input", "the output", [2]), ["'the input' is called 'the_input'"]
    yield "names that are too long", model(
        [node("Relu", [long + "1"], [long + "3"]), node("Relu", [long + "2"], [long + "4"])],
        [(long + "1", F32, [2]), (long + "2", F32, [2])], [(long + "3", F32, [2]), (long + "4", F32, [2])]), \
        [f"'{'a' * 63}'", f"'{'a' * 61}.2'", f"'{'a' * 61}.4'"]
    yield "numbers alone", relu("x", "y", []), ["'x' of shape [] is held as [1]", "'y' of shape [] is held as [1]"]
    yield "five axes", relu("x", "y", [2, 3, 1, 2, 3]), ["'x' of shape [2, 3, 1, 2, 3] is held as [2, 3, 2, 3]"]
    yield "six axes", relu("x", "y", [2, 2, 2, 2, 2, 2]), ["held as [8, 2, 2, 2]"]
    yield "double", relu("x", "y", [4], F64), ["float64 is f32: input 'x', output 'y'"]
    yield "half", relu("x", "y", [4], F16), ["float16 is f32"]
    yield "long", model([node("Add", ["x", "x"], ["y"])], [("x", I64, [4])], [("y", I64, [4])]), ["int64 is i32"]
    yield "bytes", model([node("Cast", ["x"], ["y"], to=F32)], [("x", U8, [3, 4])], [("y", F32, [3, 4])]), []
    yield "signed bytes", model([node("Cast", ["x"], ["y"], to=F32)], [("x", I8, [3, 4])], [("y", F32, [3, 4])]), []
    yield "bytes as output", model([node("Max", ["x", "x"], ["y"])], [("x", U8, [3, 4])], [("y", U8, [3, 4])]), []
    yield "truth", model([node("Not", ["x"], ["y"])], [("x", BOOL, [5])], [("y", BOOL, [5])]), ["bool is i32"]
    yield "an input that nobody reads", model([node("Relu", ["x"], ["y"])], [("x", F32, [2]), ("z", F32, [3])],
                                              [("y", F32, [2])]), []
    yield "an output that is an input", model([node("Identity", ["x"], ["y"])], [("x", F32, [2, 3])],
                                              [("y", F32, [2, 3])]), []
    yield "an output that is a constant", model(
        [node("Shape", ["x"], ["y"]), node("Relu", ["x"], ["z"])], [("x", F32, [2, 3])],
        [("y", I64, [2]), ("z", F32, [2, 3])]), []
    yield "one value as two outputs", model(
        [node("Relu", ["x"], ["y"]), node("Identity", ["y"], ["z"])], [("x", F32, [2, 3])],
        [("y", F32, [2, 3]), ("z", F32, [2, 3])]), []
    yield "a value that is read on and given", model(
        [node("Conv", ["x", "w"], ["y"]), node("Relu", ["y"], ["z"])], [("x", F32, [1, 2, 3, 3])],
        [("z", F32, [1, 3, 3, 3]), ("y", F32, [1, 3, 3, 3])],
        [numpy_helper.from_array(np.random.default_rng(1).standard_normal((3, 2, 1, 1)).astype(np.float32), "w")]), []
    yield from before_what_is_fused()
    yield "an initializer that is an input too", model(
        [node("Add", ["x", "w"], ["y"])], [("x", F32, [2]), ("w", F32, [2])], [("y", F32, [2])],
        [numpy_helper.from_array(np.array([1, 2], np.float32), "w")]), []
    yield "an output before the others", model(
        [node("Relu", ["x"], ["a"]), node("Neg", ["x"], ["b"])], [("x", F32, [2])],
        [("b", F32, [2]), ("a", F32, [2])]), []
    yield "an infinite constant", model(
        [node("Max", ["x", "w"], ["y"])], [("x", F32, [2, 2])], [("y", F32, [2, 2])],
        [numpy_helper.from_array(np.array([[-np.inf, 0], [np.inf, -np.inf]], np.float32), "w")]), []


def before_what_is_fused():
    """Outputs that are values before what a layer takes into itself: they stay what the model says, at every place."""
    node, random = helper.make_node, np.random.default_rng(2)
    array = lambda name, *shape: numpy_helper.from_array(random.uniform(0.5, 2, shape).astype(np.float32), name)
    weights = [array("w", 3, 2, 1, 1), array("wt", 2, 3, 2, 2), array("m", 2, 3), array("c", 1, 3, 1, 1), array("l", 3),
               *(array(name, 3) for name in ("scale", "shift", "mean", "var"))]
    layers = {"Conv": ([1, 2, 3, 3], "w", "c"), "ConvTranspose": ([1, 2, 3, 3], "wt", "c"),
              "MatMul": ([4, 2], "m", "l"), "Gemm": ([4, 2], "m", "l")}
    for layer, (shape, weight, line) in layers.items():
        chain = [node(layer, ["x", weight], ["a"], **({"strides": [2, 2]} if layer == "ConvTranspose" else {}))]
        norm = len(shape) == 4
        chain += [node("Mul", ["a", line], ["b"]), node("Add", ["b", line], ["c1"]),
                  node("BatchNormalization", ["c1", "scale", "shift", "mean", "var"], ["d"]) if norm else
                  node("Sub", ["c1", line], ["d"]), node("Sigmoid", ["d"], ["e"]), node("Mul", ["d", "e"], ["f"])]
        ends = {"silu": chain, "relu": [*chain[:4], node("Relu", ["d"], ["f"])],
                "clip": [*chain[:4], node("Clip", ["d", "zero", "top"], ["f"])]}
        for act, nodes in ends.items():
            made = [n.output[0] for n in nodes]
            more = [numpy_helper.from_array(np.float32(n), name) for n, name in ((0, "zero"), (1, "top"))]
            for number, value in enumerate(made[:-1]):
                yield f"{layer}, {act}: value {number} before its end", model(
                    nodes, [("x", F32, shape)], [("f", F32, None), (value, F32, None)], [*weights, *more]), []


def tried(runner, path, made, words):
    """What went wrong; None: nothing."""
    lines = []
    try:
        result = importing.imported(made)
        if not importing.written(result, path, runner, say=lines.append):
            return "; ".join(lines)
    except (Refused, session.Failed, ValueError) as why:
        return str(why)
    names = [p.onnx_name for p in result.walk.outputs]
    if names != [v.name for v in made.graph.output]:
        return f"its outputs are {names}"
    plain = [p.onnx_name for p in result.walk.outputs if len(p.onnx_name) < 10 and p.onnx_name.isidentifier()
             and p.onnx_name.isascii()]
    if any(p.name != p.onnx_name for p in result.walk.outputs if p.onnx_name in plain):
        return f"its outputs are called {[p.name for p in result.walk.outputs]}"
    told = "\n".join([*report.ports(result.walk), *report.narrowed(result.walk)])
    lacking = [word for word in words if word not in told]
    return f"it does not tell {lacking}, but {told!r}" if lacking else None


def main():
    runner, failed, passed = session.opened(), 0, 0
    if runner is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder, runner:
        for name, made, words in cases():
            why = tried(runner, os.path.join(folder, "net.gguf"), made, words)
            failed, passed = failed + (why is not None), passed + (why is None)
            print(f"FAIL {name}: {why}" if why else f"ok {name}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
