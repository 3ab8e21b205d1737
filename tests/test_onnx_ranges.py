# tags: needs:onnx,numpy,gguf
"""Whole numbers of 64 bits in the ONNX importer, which i32 holds: what would be beyond is refused where constants,
types, shapes and maxima say that it can be, and ends the run where only data say it; what is within is right, and what
cannot be beyond costs nothing.
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
from brainstorm.onnx import compare, importing
from brainstorm.onnx.refused import Refused

F32, I64, U32, U64, I32, U8, BOOL = (getattr(TensorProto, name) for name in
                                     "FLOAT INT64 UINT32 UINT64 INT32 UINT8 BOOL".split())
TYPES = {F32: np.float32, I64: np.int64, U32: np.uint32, U64: np.uint64, I32: np.int32, U8: np.uint8}
N = helper.make_node


def model(nodes, kind=I64, shape=(4,), out=F32, **weights):
    port = helper.make_tensor_value_info
    arrays = [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items()]
    graph = helper.make_graph(nodes, "whole", [port("x", kind, list(shape))], [port("y", out, None)], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def floats(*nodes):
    """Nodes of which the last gives v: y as f32."""
    return [*nodes, N("Cast", ["v"], ["y"], to=F32)]


def i64(*numbers):
    return np.array(numbers, np.int64)


def looped():
    """A sum that a loop makes, of trips that are known."""
    port = helper.make_tensor_value_info
    body = helper.make_graph([N("Add", ["s", "x"], ["t"]), N("Identity", ["c"], ["d"])], "body",
                             [port("i", I64, []), port("c", BOOL, []), port("s", I64, [4])],
                             [port("d", BOOL, []), port("t", I64, [4])])
    return floats(N("Loop", ["M", "go", "x"], ["v"], body=body))


def chosen():
    """A product in a branch."""
    port = helper.make_tensor_value_info
    one = helper.make_graph([N("Mul", ["x", "x"], ["a"])], "then", [], [port("a", I64, [4])])
    two = helper.make_graph([N("Identity", ["x"], ["b"])], "else", [], [port("b", I64, [4])])
    return floats(N("ReduceMax", ["x"], ["m"], keepdims=0), N("Greater", ["m", "k"], ["q"]),
                  N("If", ["q"], ["v"], then_branch=one, else_branch=two))


def in_runs():
    """(name, model, an x that is within, one that is beyond)."""
    yield "a product with a constant", model(floats(N("Mul", ["x", "k"], ["v"])), k=i64(65537)), \
        i64(1, -2, 3, 32766), i64(0, 0, 0, 32769)
    yield "a hash", model([N("Mul", ["x", "k"], ["a"]), N("Mod", ["a", "n"], ["i"]), N("Gather", ["t", "i"], ["y"])],
                          k=i64(40503), n=i64(13), t=np.arange(13, dtype=np.float32)), i64(1, 2, 50000, 3), \
        i64(1, 2, 60000, 3)
    yield "a difference", model(floats(N("Sub", ["x", "k"], ["v"])), k=i64(2**30, 0, 5, 1)), \
        i64(-2**29, 7, 8, 9), i64(-2**31, 7, 8, 9)
    yield "a sum of itself", model(floats(N("Sum", ["x", "x", "x"], ["v"]))), i64(1, -7, 9, 2**29), i64(1, 2, 3, 2**30)
    yield "a cube", model(floats(N("Pow", ["x", "e"], ["v"])), e=i64(3)), i64(-1000, 3, 1289, 0), i64(-1300, 3, 0, 0)
    yield "powers", model(floats(N("Pow", ["x", "e"], ["v"])), e=i64(0, 1, 9, 30)), i64(9, 9, 10, 2), i64(9, 9, 9, 3)
    yield "a sum of all", model(floats(N("ReduceSum", ["x"], ["v"]))), i64(2**28, 2**28, -5, 2**29), i64(*[2**29] * 4)
    yield "a sum of squares", model(floats(N("ReduceSumSquare", ["x"], ["v"]))), i64(20000, 100, 3, -4), \
        i64(40000, 0, 0, 40000)
    yield "a sum of magnitudes", model(floats(N("ReduceL1", ["x"], ["v"]))), i64(-9, 8, -7, 6), i64(*[-2**30] * 4)
    yield "a product of all", model(floats(N("ReduceProd", ["x"], ["v"]))), i64(9, 10, -100, 1000), \
        i64(99, 999, 999, 999)
    yield "a running sum", model(floats(N("CumSum", ["x", "a"], ["v"])), a=np.int64(0)), i64(1, 2, 3, 2**30), \
        i64(2**30, 2**30, 1, -2**31 + 1)
    yield "a shift of 32 bits", model(floats(N("BitShift", ["x", "s"], ["v"], direction="LEFT")), U32,
                                      s=np.array([20], np.uint32)), np.array([1, 2, 2047, 0], np.uint32), \
        np.array([1, 2, 2049, 0], np.uint32)
    yield "below none without a sign", model(floats(N("Sub", ["x", "k"], ["v"])), U32, k=np.array([10], np.uint32)), \
        np.array([10, 11, 12, 13], np.uint32), np.array([9, 11, 12, 13], np.uint32)
    yield "a product of 64 bits without a sign", model(floats(N("Mul", ["x", "x"], ["v"])), U64), \
        np.array([1, 2, 46000, 0], np.uint64), np.array([1, 2, 47000, 0], np.uint64)
    yield "a cast to no sign", model(floats(N("Cast", ["x"], ["v"], to=U64))), i64(1, 2, 3, 0), i64(1, -2, 3, 0)
    yield "a cast of a float", model(floats(N("Cast", ["x"], ["v"], to=I64)), F32), \
        np.array([1.5, -2e9, 2e9, -0.5], np.float32), np.array([1, 2, -2.2e9, 3], np.float32)
    yield "a product of a cast", model(floats(N("Cast", ["x"], ["w"], to=I64), N("Mul", ["w", "w"], ["v"])), F32), \
        np.array([46000.9, 1, 2, 3], np.float32), np.array([1, 2, 3, 70000], np.float32)
    yield "a product of 32 bits in 64", model(floats(N("Cast", ["x"], ["w"], to=I64), N("Mul", ["w", "w"], ["v"])),
                                              I32), \
        np.array([46000, 1, -2, 3], np.int32), np.array([1, 2, 3, 70000], np.int32)
    yield "what is added to lines", model(floats(N("ScatterElements", ["x", "i", "x"], ["v"], reduction="add")),
                                          i=i64(0, 0, 0, 1)), i64(1, 2, 3, 4), i64(2**30, 2**30, 2**30, 4)
    yield "a sum in a loop", model(looped(), M=np.int64(5), go=np.array(True)), i64(1, 2, 3, 2**28), i64(1, 2, 3, 2**29)
    yield "a product in a branch", model(chosen(), k=i64(50)), i64(1, 2, 3, 46000), i64(1, 2, 3, 47000)
    yield "a square in two axes", model(floats(N("Mul", ["x", "x"], ["v"])), shape=(2, 3)), \
        i64(1, 2, 3, 4, 5, 46000).reshape(2, 3), i64(1, 2, 3, 4, -65536, 6).reshape(2, 3)


def refused():
    """(name, model): their constants, types and shapes say it."""
    wide = N("Cast", ["x"], ["w"], to=I64)
    yield "bytes of 64 bits", model(floats(wide, N("Mul", ["w", "k"], ["v"])), U8, k=i64(2**24))
    yield "a clipped number", model(floats(N("Clip", ["x", "low", "high"], ["w"]), N("Mul", ["w", "w"], ["v"])),
                                    low=np.int64(0), high=np.int64(50000))
    yield "a remainder", model(floats(N("Mod", ["x", "n"], ["w"]), N("Pow", ["w", "e"], ["v"])), n=i64(2000), e=i64(3))
    yield "a place", model(floats(N("ArgMax", ["x"], ["w"], axis=1), N("Mul", ["w", "k"], ["v"])), F32, (2, 300),
                           k=i64(10**7))
    yield "a sum of many bytes", model(floats(wide, N("Mul", ["w", "k"], ["u"]), N("ReduceSum", ["u"], ["v"])), U8,
                                       (1000,), k=i64(10000))
    yield "a product of bytes", model(floats(wide, N("ReduceProd", ["w"], ["v"])), U8)
    yield "a shift", model(floats(N("Cast", ["x"], ["w"], to=U32), N("BitShift", ["w", "s"], ["v"], direction="LEFT")),
                           U8, s=np.array([25], np.uint32))


def taken():
    """(name, model, x): nothing is to be checked."""
    wide = N("Cast", ["x"], ["w"], to=I64)
    yield "places that are added", model([N("ArgMax", ["x"], ["w"], axis=1), N("Mul", ["w", "k"], ["u"]), N("Add", [
        "u", "w"], ["v"]), N("Gather", ["t", "v"], ["y"])], F32, (2, 3), k=i64(3), t=np.arange(9, dtype=np.float32)), \
        np.array([[1, 3, 2], [0, 1, 2]], np.float32)
    yield "a mean of bytes", model(floats(wide, N("ReduceSum", ["w"], ["u"]), N("Div", ["u", "k"], ["v"])), U8,
                                   k=i64(4)), np.array([9, 255, 0, 8], np.uint8)
    yield "a remainder of anything", model(floats(N("Mod", ["x", "n"], ["u"]), N("Mul", ["u", "k"], ["v"])),
                                           n=i64(100), k=i64(10**7)), i64(-7, 2**31 - 1, 99, 100)
    yield "the lesser of two", model(floats(N("Min", ["x", "k"], ["u"]), N("Max", ["u", "z"], ["w"]), N("Mul", [
        "w", "w"], ["v"])), k=i64(46000), z=i64(0)), i64(-2**31, 2**31 - 1, 5, 46001)
    yield "quotients", model(floats(N("Div", ["x", "k"], ["v"])), k=i64(7)), i64(-2**31 + 1, 2**31 - 1, 5, -1)
    yield "a product with one", model(floats(N("Mul", ["x", "k"], ["v"])), k=i64(1)), i64(-2**31 + 1, 2**31 - 1, 5, -1)


def checks(walk):
    return [node for node in walk.graph.nodes if "beyond_i32" in node.name]


class Judge:
    def __init__(self, runner, path):
        self.runner, self.path, self.counts = runner, path, [0, 0]

    def said(self, name, why):
        self.counts[why is not None] += 1
        print(f"FAIL {name}: {why}" if why else f"ok {name}")

    def imported(self, made, **options):
        result = importing.imported(made, **options)
        result.walk.graph.write(self.path)
        self.runner.open(self.path)
        return result.walk

    def wrong(self, walk, made, x):
        """Why a run differs from the reference; None: it does not."""
        wanted = ReferenceEvaluator(made).run(None, {"x": x})[0]
        got = compare.run_ours(self.runner, walk, {"x": x})[0]
        good = got.shape == wanted.shape and np.allclose(got, wanted, 1e-6)
        return None if good else f"{got.tolist()}, expected {np.asarray(wanted).tolist()}"

    def ends(self, name, walk, x):
        try:
            got = compare.run_ours(self.runner, walk, {"x": x})
            self.said(f"{name}, beyond", f"it gives {got[0].tolist()}")
        except session.Failed as why:
            self.said(f"{name}, beyond", None if "beyond_i32" in str(why) else str(why))


def main():
    runner = session.opened()
    if runner is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder, runner:
        judge = Judge(runner, os.path.join(folder, "net.gguf"))
        for name, made, good, bad in in_runs():
            walk = judge.imported(made)
            judge.said(name, judge.wrong(walk, made, good))
            judge.ends(name, walk, bad)
        for name, made in refused():
            try:
                importing.imported(made)
                judge.said(f"refused: {name}", "it was taken")
            except Refused as why:
                judge.said(f"refused: {name}", None if "numbers can be" in str(why) else str(why))
        for name, made, x in taken():
            walk = judge.imported(made)
            judge.said(name, judge.wrong(walk, made, x) or (f"{len(checks(walk))} checks" if checks(walk) else None))
        of_runs(judge)
    print(f"{judge.counts[0]} passed, {judge.counts[1]} failed")
    return judge.counts[1] != 0


def of_runs(judge):
    """What is infinite becomes what it became; rows of a batch and frames are checked too."""
    walk = judge.imported(model(floats(N("Cast", ["x"], ["w"], to=I64), N("Min", ["w", "k"], ["v"])), F32, k=i64(7)))
    got = compare.run_ours(judge.runner, walk, {"x": np.array([np.inf, np.inf, 3, 9], np.float32)})[0]
    judge.said("infinite numbers pass", None if got.tolist() == [7, 7, 3, 7] else str(got))
    made = model(floats(N("Mul", ["x", "k"], ["v"])), shape=("rows", 3), k=i64(1000))
    walk = judge.imported(made, dims=["rows=..5"])
    x = np.arange(12).reshape(4, 3)
    judge.said("rows of a batch", judge.wrong(walk, made, x))
    judge.ends("rows of a batch", walk, x * 10**6)
    made = model(floats(N("Cast", ["x"], ["w"], to=I64), N("Add", ["w", "k"], ["v"])), F32, (1, 2, "H", "W"), k=i64(7))
    walk = judge.imported(made, dims=["H=..90", "W=..90"])
    x = np.random.default_rng(1).uniform(-99, 99, (1, 2, 31, 47)).astype(np.float32)
    judge.said("a frame", judge.wrong(walk, made, x))
    judge.ends("a frame", walk, x * 10**8)


if __name__ == "__main__":
    sys.exit(main())
