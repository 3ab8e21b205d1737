# tags: long needs:numpy,gguf
"""test_python_package.py: models that are written in Python run in Python, and compute what NumPy does.

Owns: small graphs and what NumPy makes of them. Relies on: python_site.py, which builds the package; docs/python.md,
whose example is run. Must never look at files that it did not write. What is refused: test_python_hostile.py.
"""

import os
import re
import subprocess
import sys
import tempfile

from python_site import ROOT, SITE, check, end  # first: it finds the package

import brainstorm
import numpy as np
from brainstorm import Graph

CLOSE = 1e-5  # of what the experts give in f32, beside f64: two sums of some 30 products, in parts of the largest


def random(*shape):
    return np.random.default_rng(sum(shape) + 7 * len(shape)).standard_normal(shape).astype(np.float32)


def near(a, b):
    return a.shape == b.shape and np.abs(a - b).max() <= CLOSE * np.abs(b).max()


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# --- experts: rows, decisions, free lengths, streaming, looking inside -----------------------------------------

GATE, UP, DOWN = random(4, 16), [random(32, 16) + e for e in range(4)], [random(16, 32) - e for e in range(4)]


def experts():
    g = Graph("experts")
    rows = g.rows(g.input("x", "f32", [g.symbol("n", 64), 16]))
    route = g.route(g.softmax(g.linear(rows, "gate", GATE)), "route", "topk", paths=4, k=2, normalise=1)
    out = []
    for e in range(4):
        with g.branch(route, e, f"expert{e}", rows) as y:
            y = g.linear(y, f"up{e}", UP[e], act="relu")
            out.append(g.linear(y, f"down{e}", DOWN[e]))
    g.output("y", g.collect(g.gather(route, out, mode="weighted")))
    return g


def experts_reference(x):
    """y, what each expert gives, the paths of each row from the best on."""
    x = x.astype(np.float64)
    scores = softmax(x @ GATE.T)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :2]
    each = [np.maximum(x @ UP[e].T, 0) @ DOWN[e].T for e in range(4)]
    gates = np.take_along_axis(scores, best, 1)
    gates /= gates.sum(1, keepdims=True)
    y = sum(gates[:, i:i + 1] * np.stack(each)[best[:, i], np.arange(len(x))] for i in range(2))
    return y, each, best


def test_experts(model):
    session = model.plan(threads=2).session()
    for n in (64, 1, 7):
        x = random(n, 16)
        y, _, best = experts_reference(x)
        gave = session.run({"x": x})["y"]
        check(f"{n} rows are as NumPy has them", near(gave, y), np.abs(gave - y).max())
        check(f"the short form gives the same of {n} rows", np.array_equal(model.run({"x": x})["y"], gave))
        went = session.decision("route")
        check(f"the decision about {n} rows is told",
              np.array_equal(went.counts, np.bincount(best.ravel(), minlength=4)) and len(went.chosen) == n and
              all(went.chosen[r] in best[r] for r in range(n)) and went.dropped == 0, went)
        check("the cells of a path", sorted(np.concatenate([went.cells_of(p) for p in range(4)])) == list(range(n)))
    check("runs are counted", session.stats.runs == 3 and session.stats.total_ns > 0)
    check("reports are texts", "transient" in model.plan().report() and "n<=64" in session.report(), session.report())
    forced = model.plan(force={"route": 2}).session().run({"x": x})["y"]
    check("a route that is forced", near(forced, experts_reference(x)[1][2]))


def test_facts(model):
    check("what a model says of itself",
          model.name == "experts" and model.inputs == {"x": brainstorm.Port("x", "f32", (64, 16))} and
          list(model.outputs) == ["y"] and [b.name for b in model.blocks] == ["main"] + [f"expert{e}" for e in range(4)]
          and model.weights["up2.weight"] == ("expert2", "f32", (32, 16)) and model.routers == {"route": 4},
          f"{model!r} {model.inputs} {model.blocks} {model.weights}")
    model.check()
    ask = model.plan(slots=2**63)
    all_bytes, least = ask.stream.all_bytes, ask.stream.least_bytes
    check("what streams is told", 0 < least < all_bytes and ask.stream.units == 4, f"{least} {all_bytes}")
    small, large = model.plan(extents={"x": (3, None)}).bytes, model.plan().bytes
    check("less rows at most, less memory", small["transient"] < large["transient"] and small["weights"] ==
          large["weights"] and set(large) >= {"persistent", "staging", "slots", "graph", "plan"}, f"{small} {large}")


def test_streaming(folder):
    path = os.path.join(folder, "experts.gguf")
    experts().write(path)
    model = brainstorm.open(path)
    plan = model.plan(slots=model.plan(slots=2**63).stream.least_bytes, lanes=1)
    profile = os.path.join(folder, "run.bsprof")
    with plan.session(policy="lru", guess=False, check=True, profile=profile, profile_ops=True) as session:
        for n in range(1, 9):
            x = random(n, 16)
            check(f"weights that come and go give the same, {n} rows",
                  np.array_equal(session.run({"x": x})["y"], model.run({"x": x})["y"]))
        stats = session.stream_stats
        check("reads are counted", stats.misses > 0 and stats.bytes_read > 0 and stats.guessed_loads == 0)
        check("nothing is lost of a profile", session.close() == 0 and os.path.getsize(profile) > 1000)


def test_peek(model):
    x = random(9, 16)
    y, each, best = experts_reference(x)
    number = next(node.values[0] for node in model.nodes if node.name == "up1")
    plan = model.plan(peek={"hidden": number, "scores": "gate", "third": "down2"})
    gave = plan.session().run({"x": x})
    took = (best == 1).any(1)
    hidden = np.where(took[:, None], np.maximum(x @ UP[1].T, 0), 0)
    check("a value of a path, zeros where it is not taken", near(gave["hidden"], hidden),
          np.abs(gave["hidden"] - hidden).max())
    check("a value of rows", near(gave["scores"], x @ GATE.T))
    third = np.where((best == 2).any(1)[:, None], each[2], 0)
    check("what an expert gives", near(gave["third"], third))
    check("looking changes nothing", np.array_equal(gave["y"], model.run({"x": x})["y"]))
    names = list(model.plan(peek=[number, "gate"]).outputs)
    check("values are named by what asks", names == ["y", str(number), "gate"], names)


# --- frames, states, types, extents from data ------------------------------------------------------------------


def frames():
    """Codes of 8 bits, cut in patches; how much a frame differs from the one before."""
    g = Graph("frames", scale=1)
    shape = [1, g.symbol("H", 40), g.symbol("W", 48)]
    frame, before = g.input("frame", "u8", shape), g.state("before", "u8", shape)
    cells = g.patches(frame, size=16)
    kernel = np.zeros((1, 1, 3, 3), np.float32)
    kernel[0, 0, 0, 1] = 1
    y = g.conv2d(g.convert(cells, "f32"), "shift", kernel)
    g.output("down", g.assemble(g.convert(y, "u8")))
    g.output("change", g.sub(g.convert(frame, "f32"), g.convert(before, "f32")))
    g.state_write(before, frame)
    return g


def test_frames():
    model = frames().open()
    floats = next(node.values[0] for node in model.nodes if node.op == "convert")
    session = model.plan(order="depth", threads=2, peek={"floats": floats}).session()
    picture = np.random.default_rng(5).integers(0, 256, (40, 48, 3), np.uint8)
    last = np.zeros((1, 40, 48), np.uint8)
    for view in (picture[..., 0][None], picture[::-1, ::-1, 1][None], picture[3:20, 5:40, 2][None]):
        gave = session.run({"frame": view})
        shifted = np.zeros_like(view)
        shifted[:, 1:] = view[:, :-1]
        check("strides are followed, whatever they are", np.array_equal(gave["down"], shifted))
        check("cells are assembled to be looked at", np.array_equal(gave["floats"], view.astype(np.float32)))
        kept = last if last.shape == view.shape else np.zeros_like(view)  # other extents: a state begins anew
        check("a state is what the run before left", np.array_equal(gave["change"], view.astype(np.float32) - kept))
        last = view
    check("a state is valid after a run", session.state_valid)
    session.reset()
    check("and zero after a reset", not session.state_valid and
          np.array_equal(session.run({"frame": last})["change"], last.astype(np.float32)))
    check("the short form begins with states of zero", all(
        np.array_equal(model.run({"frame": last})["change"], last.astype(np.float32)) for _ in range(2)))


def test_bound():
    """Arrays that are used in place, outputs and states among them."""
    session = frames().open().plan().session()
    frame, state = np.full((1, 4, 6), 3, np.uint8), np.full((1, 4, 6), 1, np.uint8)
    wide = np.zeros((1, 4, 12), np.float32)
    session.bind("frame", frame)
    session.bind("before", state)
    session.bind("change", wide[:, :, ::-2])
    first = session.run()
    check("a bound output is what a run gives", first["change"].base is wide and (first["change"] == 2).all() and
          (wide[..., 1::2] == 2).all() and (wide[..., ::2] == 0).all(), first["change"])
    check("a bound state is read and written", (state == 3).all())
    frame[:] = 9
    del frame
    check("what is bound is read again", (session.run()["change"] == 6).all() and (state == 9).all())
    check("outputs of earlier runs stay", np.array_equal(first["down"][0, 1], [3] * 6))


def test_types():
    g = Graph()
    for dtype in ("u8", "i8", "i32", "f16", "f32", "u16"):
        g.output(f"y_{dtype}", g.convert(g.input(dtype, dtype, [3]), "f32"))
    session = g.open().plan().session()
    names = {"u8": "uint8", "i8": "int8", "i32": "int32", "f16": "float16", "f32": "float32", "u16": "uint16"}
    values = [1, 0, 100]
    for given in (*names.values(), "float64", "int64", ">i4", "bool"):
        whole = np.array(values).astype(given)
        wanted = {name: whole for name, numpy in names.items() if numpy[0] == "f" or whole.dtype.kind != "f"}
        inputs = {name: wanted.get(name, np.array(values, numpy)) for name, numpy in names.items()}
        gave = session.run(inputs)
        check(f"{given} is taken where no value changes", all(
            np.array_equal(gave[f"y_{n}"], inputs[n].astype(np.float32)) for n in names), gave)
    check("lists become arrays", np.array_equal(session.run({n: values for n in names})["y_f16"], np.float32(values)))


def test_data_extents():
    g = Graph()
    x = g.input("x", "f32", [8])
    g.output("found", g.nonzero(x, maximum=8, name="N"))
    model = g.open()
    session = model.plan().session()
    for chosen in ([], [2], [0, 3, 7], range(8)):
        mask = np.zeros(8, np.float32)
        mask[list(chosen)] = 5
        gave = session.run({"x": mask})["found"]
        check(f"as long as data say: {len(chosen)}", gave.dtype == np.int32 and gave[:, 0].tolist() == list(chosen))
    whole = np.full((8, 1), -1, np.int32)
    session.bind("found", whole)
    check("a bound output keeps its maximum", session.run({"x": np.float32([0, 1] * 4)})["found"] is whole and
          session.output_extents("found") == (4, 1) and whole[:, 0].tolist() == [1, 3, 5, 7, -1, -1, -1, -1], whole)


def test_callback():
    g = Graph()
    rows = g.rows(g.input("x", "f32", [g.symbol("n", 9), 2]))
    route = g.route(rows, "ask", "callback", paths=2)
    outs = [g.affine(g.scatter(route, p, rows), 10 ** (p + 1), 0) for p in range(2)]
    g.output("y", g.collect(g.gather(route, outs)))
    session = g.open().plan().session()
    session.set_route("ask", lambda s: np.where(s[:, 0] == 5, -1, np.where(s[:, 0] > s[:, 1], 0, 1)))
    x = np.float32([[1, 2], [2, 1], [5, 0], [7, 6]])
    gave = session.run({"x": x})["y"]
    check("a function of Python decides", gave.tolist() == [[100, 200], [20, 10], [0, 0], [70, 60]], gave)


def test_peek_inside():
    """On a path inside a path of the cells of a frame; and in the body of a loop, where there is nothing to show."""
    g = Graph()
    cells = g.patches(g.input("frame", "f32", [1, 16, 24]), size=8)
    sums = g.pool2d(cells, "max", everything=1)
    outer = g.route(sums, "outer", "callback", paths=2)
    with g.branch(outer, 1, "deep", cells) as x:
        inner = g.route(g.scatter(outer, 1, sums), "inner", "callback", paths=2)
        with g.branch(inner, 0, "deeper", x) as y:
            y = g.affine(y, 10, 1)
        x = g.gather(inner, [y, None])
    g.output("out", g.assemble(g.gather(outer, [None, x])))
    model = g.open()
    inside = next(node.values[0] for node in model.nodes if node.op == "affine")
    session = model.plan(peek={"inside": inside}).session()
    session.set_route("outer", lambda s: np.arange(len(s)) % 2)
    session.set_route("inner", lambda s: (np.arange(len(s)) == 1).astype(int))
    frame = random(1, 16, 24)
    expected = np.zeros_like(frame)  # of 6 cells 1, 3 and 5 take the outer path, and of these 1 and 5 the inner one
    for cell in (1, 5):
        at = np.s_[:, cell // 3 * 8:cell // 3 * 8 + 8, cell % 3 * 8:cell % 3 * 8 + 8]
        expected[at] = 10 * frame[at] + 1
    gave = session.run({"frame": frame})
    check("cells on a path inside a path are put in their places", near(gave["inside"], expected) and
          np.array_equal(gave["inside"], gave["out"]), gave["inside"] - expected)

    g = Graph()
    x = g.rows(g.input("x", "f32", [4, 5, 2]))
    loop = g.loop(x, "steps", over=x)
    h = g.loop_carry(loop, g.constant("zeros", np.zeros(2, np.float32)))
    last = g.loop_next(loop, h, g.add(h, g.loop_slice(loop, x)))
    g.loop_end(loop)
    g.output("y", g.collect(last))
    model, x = g.open(), random(4, 5, 2)
    body, after = [next(n.values[0] for n in model.nodes if n.op == op) for op in ("add", "loop_next")]
    check("what a loop gives is shown", near(model.plan(peek={"sum": after}).session().run({"x": x})["sum"], x.sum(1)))
    try:
        model.plan(peek=[body])
        check("its body is not", False, "not refused")
    except brainstorm.Error as error:
        check("its body is not, and the error says so", "loop" in str(error), error)


def test_shared():
    model = experts().open()
    plan = model.plan()
    first = plan.session()
    second = plan.session(weights_of=first)
    x = random(5, 16)
    check("sessions share weights", np.array_equal(first.run({"x": x})["y"], second.run({"x": x})["y"]))
    del first, plan, model
    check("what a session needs lives as long as it", second.run({"x": x})["y"].shape == (5, 16))


def test_page():
    """The first example of docs/python.md is a whole program of some ten lines."""
    with open(os.path.join(ROOT, "docs", "python.md"), encoding="utf-8") as file:
        example = re.search(r"^```python\n(.*?)^```$", file.read(), re.M | re.S).group(1)
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([sys.executable, "-c", example], cwd=folder, capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": SITE})
    lines = [line for line in example.splitlines() if line and not line.startswith("#")]
    check("the page's example runs", done.returncode == 0 and "(3, 4)" in done.stdout, done.stdout + done.stderr)
    check("and is short", len(lines) <= 14, len(lines))


def main():
    model = experts().open()
    test_experts(model)
    test_facts(model)
    with tempfile.TemporaryDirectory() as folder:
        test_streaming(folder)
    test_peek(model)
    for test in (test_frames, test_bound, test_types, test_data_extents, test_callback, test_peek_inside, test_shared,
                 test_page):
        test()
    return end()


if __name__ == "__main__":
    sys.exit(main())
