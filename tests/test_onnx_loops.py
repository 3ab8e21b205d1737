# tags: needs:onnx,numpy,gguf
"""ONNX loops whose number of trips a run computes, what they collect, and loops of each row of a free batch: as they
are defined; a run that would make more trips than there is room for ends with words.

Must never leave a file behind.
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

F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
node, port = helper.make_node, helper.make_tensor_value_info
results = {True: 0, False: 0}
WEIGHT = (np.random.default_rng(8).standard_normal((4, 4)) * 0.5).astype(np.float32)


def said(name, passed, why=""):
    results[bool(passed)] += 1
    print(f"ok {name}" if passed else f"FAIL {name}: {why}")


def model(nodes, x, outputs, weights, opset=18):
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "loops", [port("x", F32, x)], [port(n, F32, s) for n, s in outputs], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def body(until=None, collects=False, shape=(2, 4)):
    """s = tanh(s w) + x, again while the largest number is below `until`; each trip gives s."""
    nodes = [node("MatMul", ["s", "w"], ["p"]), node("Tanh", ["p"], ["t"]), node("Add", ["t", "x"], ["after"])]
    nodes += [node("Identity", ["before"], ["again"])] if until is None else [
        node("ReduceMax", ["after"], ["top"], keepdims=0), node("Less", ["top", "until"], ["again"])]
    outputs = [port("again", BOOL, []), port("after", F32, shape)]
    if collects:
        nodes.append(node("Neg", ["after"], ["each"]))
        outputs.append(port("each", F32, shape))
    return helper.make_graph(nodes, "body", [port("i", I64, []), port("before", BOOL, []), port("s", F32, shape)],
                             outputs)


COUNTED = [node("Greater", ["x", "zero"], ["above"]), node("Cast", ["above"], ["ones"], to=I64),
           node("ReduceSum", ["ones"], ["count"], keepdims=0)]  # trips: numbers of x above 0
SMALL = [node("ReduceMax", ["x"], ["most"], keepdims=0), node("Less", ["most", "until"], ["go"])]
WEIGHTS = {"w": WEIGHT, "zero": np.float32(0), "until": np.float32(1.1)}


def computed():
    """(name, model, whether it collects)."""
    outputs = [("y", None)]
    loop = lambda trips, go, collects=False, until=None: node(
        "Loop", [trips, go, "x"], ["y", "all"][:1 + collects], "the_loop", body=body(until, collects))
    yield "a computed number of trips", model([*COUNTED, loop("count", "")], [2, 4], outputs, WEIGHTS)
    yield "a computed number of trips, collected", model(
        [*COUNTED, loop("count", "", True)], [2, 4], [*outputs, ("all", None)], WEIGHTS)
    yield "a condition alone", model([*SMALL, loop("", "go", False, 1)], [2, 4], outputs, WEIGHTS)
    yield "a condition alone, collected", model(
        [*SMALL, loop("", "go", True, 1)], [2, 4], [*outputs, ("all", None)], WEIGHTS)
    yield "a number and a condition, collected", model(
        [*COUNTED, *SMALL, loop("count", "go", True, 1)], [2, 4], [*outputs, ("all", None)], WEIGHTS)


def inputs():
    random = np.random.default_rng(9)
    for i in range(6):
        yield random.standard_normal((2, 4)).astype(np.float32) * 0.4
    yield np.full((2, 4), -0.1, np.float32)
    yield np.full((2, 4), 2.0, np.float32)


def runs(runner, path):
    trips = set()
    for name, made in computed():
        result = importing.imported(made, most=["the_loop=60"])
        result.walk.graph.write(path)
        runner.open(path)
        for number, x in enumerate(inputs()):
            wanted = None
            try:
                wanted = defined(made, x)
                ours = compare.run_ours(runner, result.walk, {"x": x})
            except session.Failed as why:
                said(f"{name}, run {number}: beyond its room", wanted is None and "the_loop" in str(why), str(why))
                runner.open(path)
                continue
            good = wanted is not None and all(a.shape == b.shape and np.allclose(a, b, 1e-4, 1e-5)
                                              for a, b in zip(ours, wanted, strict=True))
            said(f"{name}, run {number}", good, f"{[a.shape for a in ours]}, "
                 f"{'more trips' if wanted is None else [b.shape for b in wanted]}")
            trips.add(ours[-1].shape[0] if "collected" in name else -1)
    said("loops made no trip, one, several", {0, 1} < trips and len(trips) > 4, str(trips))


def defined(made, x):
    """What the loop is by its definition; None: it would make more trips than 60. onnx.reference makes none where a
    condition is left out, and lays what trips give side by side."""
    loop = next(n for n in made.graph.node if n.op_type == "Loop")
    until = np.float32(1.1)
    trips = int((x > 0).sum()) if loop.input[0] else None
    go, s, each = not loop.input[1] or x.max() < until, x, []
    while go and (trips is None or len(each) < trips):
        if len(each) == 60:
            return None
        s = np.tanh(s @ WEIGHT) + x
        each.append(-s)
        go = "until" not in {i for n in loop.attribute[0].g.node for i in n.input} or s.max() < until
    every = np.stack(each) if each else np.zeros((0, *x.shape), np.float32)
    return [every if v.name == "all" else s for v in made.graph.output]


def batches():
    """(name, model, what it gives) of loops in a network of which the batch is free."""
    def stepped(x):
        each = [x]
        for _ in range(5):
            each.append(np.tanh(each[-1] @ WEIGHT) + x)
        return [each[-1], -np.stack(each[1:], 1)]

    def scanned(x):
        each = [x.mean(1)]
        for row in x.transpose(1, 0, 2):
            each.append(np.tanh(each[-1] @ WEIGHT + row))
        return [each[-1], np.stack(each[1:], 1)]

    loop = node("Loop", ["five", "", "x"], ["y", "all"], "steps", body=body(None, True, ("N", 4)))
    turned = node("Transpose", ["all"], ["z"], perm=[1, 0, 2])
    yield "a loop of five trips", model([loop, turned], ["N", 4], [("y", ["N", 4]), ("z", ["N", 5, 4])],
                                        {**WEIGHTS, "five": np.int64(5)}), stepped
    step = helper.make_graph([node("MatMul", ["s", "w"], ["p"]), node("Add", ["p", "row"], ["q"]),
                              node("Tanh", ["q"], ["after"]), node("Identity", ["after"], ["each"])], "body",
                             [port("s", F32, ["N", 4]), port("row", F32, ["N", 4])],
                             [port("after", F32, ["N", 4]), port("each", F32, ["N", 4])])
    scan = node("Scan", ["start", "x"], ["last", "y"], "sums", body=step, num_scan_inputs=1, scan_input_axes=[1],
                scan_output_axes=[1])
    start = node("ReduceMean", ["x", "axis"], ["start"], keepdims=0)
    yield "a scan over time", model([start, scan], ["N", 6, 4], [("last", ["N", 4]), ("y", ["N", 6, 4])],
                                    {**WEIGHTS, "axis": np.array([1])}), scanned


def refused():
    """(name, model, options, words)."""
    every = dict((name, made) for name, made in computed())
    yield "no room is said", every["a computed number of trips"], {}, "--most"
    yield "no room is said, of a condition", every["a condition alone"], {}, "--most"
    yield "too much room", every["a condition alone"], {"most": [str(2**25)]}, "16777216"
    made = every["a computed number of trips"]
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "N"
    yield "a computed number of trips, of a free batch", made, {"dims": ["N=..4"], "most": ["9"]}, "one number for all"


def main():
    runner = session.opened()
    if runner is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder, runner:
        path = os.path.join(folder, "net.gguf")
        runs(runner, path)
        for name, made, wanted in batches():
            result = importing.imported(made, dims=["N=..5"])
            result.walk.graph.write(path)
            runner.open(path)
            for rows in (1, 2, 5):
                x = np.random.default_rng(rows).standard_normal((rows, *result.shapes["x"][0][1:])).astype(np.float32)
                ours = compare.run_ours(runner, result.walk, {"x": x})
                good = all(a.shape == b.shape and np.allclose(a, b, 1e-4, 1e-5)
                           for a, b in zip(ours, wanted(x), strict=True))
                said(f"{name}, of a free batch, {rows} rows", good, str([a.shape for a in ours]))
        for name, made, options, words in refused():
            try:
                importing.imported(made, **options)
                said(f"refused: {name}", False, "it was taken")
            except Refused as why:
                said(f"refused: {name}", words in str(why), str(why))
    print(f"{results[True]} passed, {results[False]} failed")
    return results[False] != 0


if __name__ == "__main__":
    sys.exit(main())
