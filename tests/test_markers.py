# tags: uses:bench/products,bench/networks needs:onnx,gguf,numpy
"""test_markers.py: networks that brainstorm.torch made dynamic, as torch exported them, run with eager's decisions; and
markers that are wrong are refused.

Relies on tests/markers (files by markers_nets.py, which needs torch: a network each, its inputs, what eager mode gave
and how many rows took each path); on what runs models (brainstorm.open), else bench/networks: then decisions are seen
in results alone. Must never leave a file behind. Fresh exports: test_torch_markers.py.
"""

import copy
import os
import sys
import tempfile

from model_rig import end, report  # first: it finds python/

import numpy as np
from brainstorm import session
from brainstorm.onnx import Refused, compare, imported
from onnx import TensorProto, helper

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "markers")
runner = session.opened()
if runner is None:
    print("skipped: nothing that runs models (pip install ./python, or make build/bench/networks)\n"
          "0 passed, 0 failed, 1 skipped")
    sys.exit(0)


def ran(walk, feeds, path):
    walk.graph.write(path)
    runner.open(path)
    return compare.run_ours(runner, walk, feeds)[0]


def decided(path, feeds, counts, name, free):
    """Rows of each path, where the extension module is there to ask."""
    if not isinstance(runner, session.Native):
        return
    import brainstorm as bm

    model = bm.open(path)
    with model.plan().session() as opened:
        opened.run({key: x for key, x in feeds.items()})
        for module, wanted in counts.items():
            went = opened.decision(module).counts
            if len(wanted) == 2:  # an exit: who left at one before it counts as leaving
                wanted = np.array([len(feeds["x"]) - wanted[1], wanted[1]])
            report(f"{name}, {free}: rows of each path of {module}", (went == wanted).all(),
                   f"{went}, expected {wanted}")
    if sum(b.bytes for b in model.blocks[1:]) == 0:
        return
    stream = model.plan(slots=2**40).stream
    with model.plan().session() as resident, model.plan(slots=stream.least_bytes).session() as streamed:
        same = [a.tobytes() == b.tobytes() for a, b in zip(resident.run(feeds).values(), streamed.run(feeds).values())]
        report(f"{name}, {free}: streamed gives the same bytes", all(same) and streamed.stream_stats.bytes_read > 0)


def network(name, folder):
    stored = np.load(os.path.join(HERE, f"{name}.npz"))
    counts = {key: stored[key] for key in stored.files if key not in ("x", "y")}
    x, y = stored["x"], stored["y"]
    ways = {"fixed": {"shapes": ["x=" + ",".join(map(str, x.shape))]}}
    if counts:
        ways["of free rows"] = {"dims": ["n=..32"]}
    for way, options in ways.items():
        result = imported(os.path.join(HERE, f"{name}.onnx"), **options)
        path = os.path.join(folder, "net.gguf")
        made = ran(result.walk, {"x": x}, path)
        report(f"{name}, {way}: as eager", np.allclose(made, y, rtol=1e-5, atol=1e-5),
               f"{np.abs(made - y).max()} apart")
        if way == "of free rows":
            few = compare.run_ours(runner, result.walk, {"x": x[3:8]})[0]
            report(f"{name}, of fewer rows", np.allclose(few, y[3:8], rtol=1e-5, atol=1e-5))
        decided(path, {"x": x}, counts, name, way)
        blocks = [b.name for b in result.walk.graph.blocks[1:] if b.bytes]
        wanted = sum(len(c) if len(c) > 2 else 1 for c in counts.values())
        report(f"{name}, {way}: paths have records of their own", len(blocks) == wanted, str(blocks))


def tiled(folder):
    result = imported(os.path.join(HERE, "tiles.onnx"))
    ops = [n.op for n in result.walk.graph.nodes]
    inside = ops[ops.index("patches"):ops.index("assemble")]
    report("what Patches holds runs in tiles", inside.count("conv2d") == 3, str(ops))


# ------------------------------------------------------------------------------------------------- hostile


def marked(op="Routed", inputs=("x", "s", "a", "b"), attributes=None, nodes=None, outputs=("y",), width=2):
    """x [6, 4], scores s [6, width], paths a and b; what a case says otherwise."""
    weight = lambda name, *shape: helper.make_tensor(name, TensorProto.FLOAT, shape,
                                                     np.linspace(-1, 1, int(np.prod(shape))))
    default = [helper.make_node("MatMul", ["x", "ws"], ["s"]), helper.make_node("MatMul", ["x", "wa"], ["a"]),
               helper.make_node("MatMul", ["x", "wb"], ["b"])]
    node = helper.make_node(op, list(inputs), list(outputs), name="the marker", domain="brainstorm",
                            **({"k": 1} if attributes is None else attributes))
    graph = helper.make_graph([*(default if nodes is None else nodes), node], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [6, 4])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
                              [weight("ws", 4, width), weight("wa", 4, 3), weight("wb", 4, 3), weight("wide", 4, 5)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("brainstorm", 1)])


def refusals():
    wide = helper.make_node("MatMul", ["x", "wide"], ["b"])
    two = marked().graph.node[:2]
    cases = {"no paths": dict(inputs=("x", "s")), "nothing at all": dict(inputs=()),
             "an input that is missing": dict(inputs=("x", "", "a", "b")),
             "k of 3 of 2": dict(attributes={"k": 3}), "k of 0": dict(attributes={"k": 0}),
             "k that is a text": dict(attributes={"k": "one"}), "k of 2 that are not weighted": dict(
                 attributes={"k": 2, "weighted": 0}),
             "more scores than paths": dict(width=3), "paths of two widths": dict(nodes=[*two, wide]),
             "a capacity of less than nothing": dict(attributes={"k": 1, "capacity": -1}),
             "a capacity that is a text": dict(attributes={"k": 1, "capacity": "all"}),
             "two outputs": dict(outputs=("y", "z")), "a marker nobody knows": dict(op="Guess"),
             "an exit without a rest": dict(op="Exit", inputs=("x", "s", "a"), attributes={}),
             "an exit by two scores": dict(op="Exit", attributes={}),
             "a threshold that is infinite": dict(op="Exit", attributes={"threshold": float("inf")}, width=1),
             "an exit of no flows": dict(op="Exit", inputs=("x", "s", "a", "b"), attributes={"flows": 0}, width=1),
             "an exit of more flows than inputs": dict(op="Exit", inputs=("x", "s", "a", "b"), attributes={"flows": 9},
                                                       width=1),
             "flows that are a text": dict(op="Exit", inputs=("x", "s", "a", "b"), attributes={"flows": "two"},
                                           width=1),
             "a gate by too many scores": dict(op="Gated", attributes={}, width=3),
             "a gate with an infinite threshold": dict(op="Gated", attributes={"threshold": float("inf")}),
             "a gate with a fallback beyond its paths": dict(op="Gated", attributes={"fallback": 3}),
             "otherwise of two paths": dict(op="Gated", inputs=("x", "s", "a", "a", "b"), width=2,
                                            attributes={"otherwise": 1, "weighted": 0}),
             "otherwise beside a weight": dict(op="Gated", inputs=("x", "s", "a", "b"), width=1,
                                               attributes={"otherwise": 1}),
             "otherwise of another width": dict(op="Gated", inputs=("x", "s", "x", "b"), width=1,
                                                attributes={"otherwise": 1, "weighted": 0}),
             "otherwise that is a text": dict(op="Gated", attributes={"otherwise": "x"}),
             "patches of rows": dict(op="Patches", inputs=("x", "a"), attributes={"size": 8}),
             "patches of no image": dict(op="Patches", inputs=("x", "a"), attributes={"size": "big"})}
    for name, how in cases.items():
        refused(name, marked(**how))
    holds = marked()
    holds.graph.node[-1].attribute.append(helper.make_attribute("path_0", copy.deepcopy(holds.graph)))
    refused("a marker that holds a graph already", holds)
    itself = marked(inputs=("x", "s", "a", "y"))
    refused("a marker that reads itself", itself)
    deep = marked(nodes=[*marked().graph.node[:3]])
    report("what the cases change is taken", taken(deep) == "", taken(deep))


def taken(model):
    try:
        imported(model)
        return ""
    except Refused as why:
        return str(why) or "no message"


def refused(name, model):
    try:
        why = taken(model)
        report(f"refused: {name}", why not in ("", "no message"), why or "taken")
    except Exception as error:
        report(f"refused: {name}", False, repr(error))


def flows():
    """Exits of two values that belong together, one behind the other: the second one's values are of the path alone."""
    twice = [helper.make_node("Neg", ["x"], ["n"])]
    given = marked().graph.node[:3]
    one = [*given, *twice, helper.make_node("Add", ["x", "n"], ["z"]), helper.make_node("Relu", ["n"], ["m"]),
           helper.make_node("MatMul", ["m", "wa"], ["c"]), helper.make_node("Add", ["c", "z3"], ["r"]),
           helper.make_node("MatMul", ["z", "wb"], ["z3"])]
    one = [*one[:-2], one[-1], one[-2]]
    yield "an exit of two flows", marked("Exit", inputs=("x", "n", "s", "a", "r"), width=1, nodes=one,
                                         attributes={"threshold": 0.1, "flows": 2})
    rest = [helper.make_node("Tanh", ["m"], ["t"]), helper.make_node("MatMul", ["t", "ws"], ["s2"]),
            helper.make_node("MatMul", ["t", "wb"], ["a2"]), helper.make_node("MatMul", ["m", "wa"], ["r2"]),
            helper.make_node("Add", ["r2", "z4"], ["r3"]), helper.make_node("MatMul", ["t", "wb"], ["z4"]),
            helper.make_node("Exit", ["m", "t", "s2", "a2", "r3"], ["e"], name="second", domain="brainstorm",
                             threshold=0.05, flows=2)]
    rest = [*rest[:4], rest[5], rest[4], rest[6]]
    yield "an exit behind another one", marked("Exit", inputs=("x", "n", "s", "a", "e"), width=1,
                                               nodes=[*given, *twice, one[5], *rest],
                                               attributes={"threshold": 0.1, "flows": 2})


def shared():
    """What two paths need is computed before them, and a path may be what came in; what a path has no room for."""
    relu = helper.make_node("Relu", ["x"], ["r"])
    nodes = [marked().graph.node[0], relu, helper.make_node("MatMul", ["r", "wa"], ["a"]),
             helper.make_node("MatMul", ["r", "wb"], ["b"])]
    same = [marked().graph.node[0], helper.make_node("Neg", ["x"], ["b"])]
    with tempfile.TemporaryDirectory() as folder, runner:
        for name, model in (("a value of two paths", marked(nodes=nodes)),
                            ("a path that does nothing", marked(nodes=same, inputs=("x", "s", "x", "b"))),
                            ("one path twice", marked(inputs=("x", "s", "a", "a"))),
                            ("room for two rows", marked(attributes={"k": 1, "capacity": 2})),
                            ("room for four rows of both", marked(attributes={"k": 2, "capacity": 4})),
                            ("room for all rows", marked(attributes={"k": 2, "capacity": 6, "normalise": 1})),
                            ("an exit", marked("Exit", width=1, attributes={"threshold": 0.0})),
                            ("gates", marked("Gated", attributes={"threshold": 0.1})),
                            ("gates that are not weighted", marked("Gated", attributes={"weighted": 0})),
                            ("gates with a fallback", marked("Gated", attributes={"threshold": 0.9, "fallback": 2})),
                            ("a gate that none takes", marked("Gated", inputs=("x", "s", "b"), width=1,
                                                              attributes={"threshold": 1e9})),
                            ("a gate, otherwise something else", marked("Gated", width=1,
                                                                        attributes={"otherwise": 1, "weighted": 0})),
                            *flows()):
            result = imported(model)
            path = os.path.join(folder, "net.gguf")
            result.walk.graph.write(path)
            runner.open(path)
            feeds = compare.random_inputs(result.shapes, seed=4)
            against = compare.Reference(model, result.ready)
            reference, found = compare.differences(runner, result.walk, against, feeds)
            report(f"{name}, beside {reference}", found[0].relative < 1e-5, str(found[0]))


with tempfile.TemporaryDirectory() as work:
    for each in ("mixture", "exits", "tiles"):
        network(each, work)
    tiled(work)
refusals()
shared()
sys.exit(end())
