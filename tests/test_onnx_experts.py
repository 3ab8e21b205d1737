# tags: needs:onnx,numpy,gguf
"""Loops over experts, as exporters write them out, and com.microsoft.MoE become routers with a block an expert:
results, decisions, records of their own, streamed as resident; what only looks like such a loop is not taken for one.

Relies on tests/experts (a network as torch exported it, by experts_nets.py, with its inputs, what eager mode gave and
how many rows went to each expert), on onnx_experts.py, on what runs models. Must never leave a file behind.
"""

import importlib.util
import os
import sys
import tempfile

import numpy as np
import onnx

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from onnx_experts import EXPERTS, left, mixing, moe, moes, taken

import onnx_rig  # noqa: F401: it finds the package
from brainstorm import session
from brainstorm.onnx import compare, importing
from brainstorm.onnx.refused import Refused

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "experts")
results = {True: 0, False: 0}


def report(name, passed, why=""):
    results[bool(passed)] += 1
    print(f"ok {name}" if passed else f"FAIL {name}: {why}")


def routers(walk):
    return [n for n in walk.graph.nodes if n.op == "route"]


def agrees(runner, path, result, seed=3):
    """(differences are small, words)."""
    result.walk.graph.write(path)
    runner.open(path)
    reference = compare.Reference(result.model, result.ready)
    name, found = compare.differences(runner, result.walk, reference, compare.random_inputs(result.shapes, seed))
    return all(d.relative < 1e-5 for d in found), f"{name}: {'; '.join(map(str, found))}"


def decided(path, feeds, counts, name):
    """Rows of each expert, and the bytes of a run that streams, where the extension module is there to ask."""
    import brainstorm as bm

    model = bm.open(path)
    with model.plan().session() as opened:
        made = opened.run(feeds)
        for module, wanted in counts.items():
            went = opened.decision(module).counts
            report(f"{name}: rows of each expert of {module}", (went == wanted).all(), f"{went}, expected {wanted}")
    plan = model.plan(slots=model.plan(slots=2**40).stream.least_bytes)
    with plan.session() as streamed:
        again = streamed.run(feeds)
        same = all(made[key].tobytes() == again[key].tobytes() for key in made)
        report(f"{name}: streamed gives the same bytes", same and streamed.stream_stats.bytes_read > 0)


def exported(runner, path):
    """As torch has exported it."""
    stored = np.load(os.path.join(HERE, "layers.npz"))
    x, y = stored["x"], stored["y"]
    counts = {key: stored[key] for key in stored.files if key not in ("x", "y")}
    for way, options in {"fixed": {"shapes": ["x=21,8"]}, "free rows": {"dims": ["n=..32"]}}.items():
        result = importing.imported(os.path.join(HERE, "layers.onnx"), **options)
        result.walk.graph.write(path)
        runner.open(path)
        made = compare.run_ours(runner, result.walk, {"x": x})[0]
        report(f"exported, {way}: as eager", np.allclose(made, y, rtol=1e-5, atol=1e-5), f"{np.abs(made - y).max()}")
        wanted = [f"mixtures.{layer}.path{e}" for layer in (0, 1) for e in range(EXPERTS + 1)]
        blocks = [b.name for b in result.walk.graph.blocks[1:] if b.bytes]
        report(f"exported, {way}: a record an expert", blocks == wanted, str(blocks))
        if isinstance(runner, session.Native):
            decided(path, {"x": x}, counts, f"exported, {way}")


def loops(runner, path):
    for name, model in taken():
        result = importing.imported(model)
        good, why = agrees(runner, path, result)
        report(f"{name}: as its nodes say", good, why)
        blocks = [b for b in result.walk.graph.blocks[1:] if b.bytes]
        wanted = EXPERTS * len(routers(result.walk)) - (name == "an expert that does nothing")
        report(f"{name}: a record an expert", 0 < len(blocks) == wanted, str([b.name for b in blocks]))
        if isinstance(runner, session.Native):
            feeds = compare.random_inputs(result.shapes, 3)
            decided(path, feeds, choices_of(model, feeds, result.walk), name)


def choices_of(model, feeds, walk):
    """{router: rows of each expert}, by what the model itself chooses."""
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    nodes = [n for n in model.graph.node if n.op_type in ("TopK", "ArgMax")]
    shown.graph.output.extend(onnx.helper.make_tensor_value_info(n.output[-1], onnx.TensorProto.INT64, None)
                              for n in nodes)
    made = onnx.reference.ReferenceEvaluator(shown).run(None, feeds)[-len(nodes):]
    return {r.name: np.bincount(np.ravel(m), minlength=EXPERTS) for r, m in zip(routers(walk), made, strict=True)}


def not_taken(runner, path):
    """They are computed as they stand, without a router, or refused."""
    for name, model in left():
        try:
            result = importing.imported(model)
            good, why = agrees(runner, path, result)
            report(f"no router: {name}", good and not routers(result.walk), why)
        except Refused as why:
            report(f"no router: {name}", "broadcast" in str(why) and "another expert" in name, str(why))
    os.remove(path)
    lines, result = [], importing.imported(mixing())
    good = importing.written(result, path, runner, say=lines.append)
    report("experts whose rows meet are found by comparing", not good and not os.path.exists(path), "; ".join(lines))
    report("a loop is not written without comparing", result.unsure == "a loop over experts", str(result.unsure))


def mixtures(runner, path):
    for name, model, known in moes():
        result = importing.imported(model)
        defined, other = compare.Reference(model, model), compare.Reference(model, model)
        good, why = agrees(runner, path, result)
        report(f"MoE, {name}: as onnxruntime or its definition", good, why)
        defined.fall_back()
        feeds = compare.random_inputs(result.shapes, 5)
        wanted = defined.run(feeds)[0]
        made = compare.run_ours(runner, result.walk, feeds)[0]
        report(f"MoE, {name}: as its definition", np.allclose(made, wanted, 1e-4, 1e-5),
               str(np.abs(made - wanted).max()))
        report(f"MoE, {name}: a record an expert", sum(b.bytes > 0 for b in result.walk.graph.blocks[1:]) == EXPERTS)
        theirs = other.run(feeds)[0]
        if importlib.util.find_spec("onnxruntime"):
            report(f"MoE, {name}: whether onnxruntime has it",
                   other.name.startswith("onnxruntime") == known, other.name)
            report(f"MoE, {name}: its definition is onnxruntime's", np.allclose(theirs, wanted, 1e-4, 1e-5))


def hostile():
    cases = {"an attribute nobody knows": moe(surprise=3), "a sparse mixer": moe(use_sparse_mixer=1),
             "an activation nobody knows": moe("sine"), "swiglu of one layer": moe("swiglu"),
             "swiglu that is interleaved and of two layers": moe("swiglu", fusion=1, third=True),
             "fusion 7": moe("swiglu", fusion=7), "5 of 4": moe(k=5), "0 of 4": moe(k=0),
             "a text that is no text": moe(3), "k that is no number": moe(k="two"),
             "alpha that is no number": moe("swiglu", fusion=1, activation_alpha="x")}
    for name, how in {"weights of two axes": ("fc1", (3, 4)), "another number of experts": ("fc2", (3, 6, 5)),
                      "a bias of another width": ("b1", (4, 4)), "no experts": ("fc2", (0, 6, 5))}.items():
        cases[name] = moe()
        for tensor in cases[name].graph.initializer:
            if tensor.name == how[0]:
                tensor.CopyFrom(onnx.numpy_helper.from_array(np.zeros(how[1], np.float32), how[0]))
    cases["weights of a run"] = moe()
    del cases["weights of a run"].graph.initializer[0]
    cases["whole weights"] = moe()
    cases["whole weights"].graph.initializer[0].data_type = onnx.TensorProto.INT32
    cases["no weights"] = moe()
    del cases["no weights"].graph.node[0].input[2:]
    cases["no router input"] = moe()
    cases["no router input"].graph.node[0].input[1] = ""
    cases["a circle"] = next(taken())[1]
    cases["a circle"].graph.node[0].input[0] = cases["a circle"].graph.node[-1].output[0]
    cases["an Equal of nothing"] = next(taken())[1]
    del next(n for n in cases["an Equal of nothing"].graph.node if n.op_type == "Equal").input[:]
    for name, model in cases.items():
        try:
            importing.imported(model)
            report(f"refused: {name}", False, "it was taken")
        except Refused as why:
            report(f"refused: {name}", "not well formed" not in str(why) or any(
                word in name for word in (" number", "text", "of nothing")),
                   str(why))
        except Exception as error:
            report(f"refused: {name}", False, repr(error))


def main():
    runner = session.opened()
    if runner is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder, runner:
        path = os.path.join(folder, "net.gguf")
        for part in (exported, loops, mixtures):
            part(runner, path)
        not_taken(runner, path)
    hostile()
    print(f"{results[True]} passed, {results[False]} failed")
    return results[False] != 0


if __name__ == "__main__":
    sys.exit(main())
