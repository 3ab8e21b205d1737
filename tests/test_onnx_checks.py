# tags: needs:onnx,numpy,gguf
"""What the ONNX importer compares: numbers that tell something, or words that they did not; whole numbers as large as
the model takes them. A reference that dies, or gives something else, takes no import with it and leaves no file.
"""

import os
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig
from brainstorm import session
from brainstorm.onnx import compare, importing

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(onnx_rig.__file__)), "..", "python")
F32, I64, I32 = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32
N = helper.make_node
counts = [0, 0]


def said(name, why):
    counts[why is not None] += 1
    print(f"FAIL {name}: {why}" if why else f"ok {name}")


def model(nodes, kind=F32, shape=(4,), out=F32, **weights):
    port = helper.make_tensor_value_info
    arrays = [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items()]
    graph = helper.make_graph(nodes, "checked", [port("x", kind, list(shape))], [port("y", out, None)], arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def table(lines, **more):
    return model([N("Gather", ["t", "x"], ["y"])], I64, t=np.arange(1, lines + 1, dtype=np.float32), **more)


def told():
    """(name, model, lines that are said, lines that are not)."""
    zero = "0 everywhere, which tells nothing: --feed"
    yield "noise that gives nothing", model([N("ThresholdedRelu", ["x"], ["y"], alpha=40.0)]), ["0 to 255"], [zero]
    yield "small numbers that give something", model([N("Clip", ["x", "low", "high"], ["c"]), N("Sub", ["c", "high"], [
        "d"]), N("Relu", ["d"], ["y"])], low=np.float32(-1e9), high=np.float32(1e9)), [zero, "small numbers"], []
    yield "a mean above 20", model([N("ReduceMean", ["x"], ["m"]), N("Greater", ["m", "k"], ["g"]), N("Cast", [
        "g"], ["y"], to=F32)], shape=(50,), k=np.float32(20)), ["0 to 255"], [zero]
    yield "what is 0 always", model([N("Mul", ["x", "k"], ["y"])], k=np.float32(0)), [zero, "'y'"], []
    yield "noise that gives something", model([N("Relu", ["x"], ["y"])]), [], [zero, "0 to 255"]
    alone = "from 0 to 1 alone: --feed"
    yield "a table of 2 lines", table(2), [alone], ["0 .. 3:"]
    yield "a table of 5 lines", table(5), ["whole numbers 0 .. 3:"], [alone, "0 .. 6:"]
    yield "a table of 30 lines", table(30), ["whole numbers 0 .. 24:"], [alone, "1 .. 97:"]
    yield "a table of 40000 lines", table(40000), ["1 .. 97:", "-97 .. 97:", "0 .. 32768:"], [alone, "2147483647"]
    yield "32 bits", model([N("Add", ["x", "x"], ["y"])], I32, out=I32), ["-2147483647 .. 2147483647:"], [alone]
    yield "a sum beyond i32", model([N("Add", ["x", "x"], ["y"])], I64, out=I64), \
        ["a run ends with an error", "y.beyond_i32", "0 .. 32768:"], [alone]
    yield "a quotient, of which 0 is refused", model([N("Div", ["k", "x"], ["y"])], I64, out=I64,
                                                     k=np.arange(1000, 1004)), ["1 .. 97:"], [alone]
    yield "a remainder, of which 0 is refused", model([N("Mod", ["k", "x"], ["y"])], I32, out=I32,
                                                      k=np.arange(1000, 1004, dtype=np.int32)), ["1 .. 97:"], [alone]


RUNTIME = '''
import os, signal, sys
import numpy as np
__version__ = "0"
class SessionOptions:
    def add_session_config_entry(self, key, value): pass
class GraphOptimizationLevel:
    ORT_DISABLE_ALL = 0
class InferenceSession:
    def __init__(self, *_, **__):
        {opening}
    def run(self, names, feeds):
        {running}
'''
DIES = "os.kill(os.getpid(), signal.{})"


def runtimes():
    """(name, what opens, what runs, exit status, words)."""
    for signal in ("SIGSEGV", "SIGFPE", "SIGABRT", "SIGKILL"):
        yield f"it dies of {signal} in a run", "pass", DIES.format(signal), 0, ["onnx.reference"]
    yield "it dies when it opens a model", DIES.format("SIGSEGV"), "pass", 0, ["onnx.reference"]
    yield "it ends with a status", "pass", "os._exit(0)", 0, ["onnx.reference"]
    yield "it refuses", "pass", "raise RuntimeError('no')", 0, ["onnx.reference"]
    yield "it prints", "print('x' * 9999)", "print('y'); return [np.maximum(feeds['x'], 0)]", 0, ["onnxruntime 0"]
    yield "it gives something else", "pass", "return [feeds['x'] + 1]", 1, ["onnxruntime 0", "TOO MUCH", "not kept"]
    yield "it gives NaN", "pass", "return [feeds['x'] * np.nan]", 1, ["TOO MUCH"]
    yield "it gives another shape", "pass", "return [np.maximum(feeds['x'], 0)[None]]", 1, ["is another"]


def with_runtime(folder, name, opening, running, status, words):
    with open(os.path.join(folder, "onnxruntime.py"), "w", encoding="ascii") as file:
        file.write(RUNTIME.format(opening=opening, running=running))
    source, out = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.gguf")
    save(model([N("Relu", ["x"], ["y"])]), source)
    with open(out, "wb") as file:
        file.write(b"before")
    found = os.environ.get("PYTHONPATH")
    path = os.pathsep.join([folder, PACKAGE, *([found] if found else [])])
    p = subprocess.run([sys.executable, "-m", "brainstorm", "import", source, out], capture_output=True, text=True,
                       env={**os.environ, "PYTHONPATH": path}, check=False)
    text = p.stdout + p.stderr
    with open(out, "rb") as file:
        kept = file.read() == b"before"
    left = sorted(set(os.listdir(folder)) - {"onnxruntime.py", "m.onnx", "m.gguf", "__pycache__"})
    why = f"exit status {p.returncode}" if p.returncode != status else f"it left {left}" if left else \
        "what was there before is gone" if status and not kept else "it wrote nothing" if not status and kept else None
    missing = [word for word in words if word not in text]
    said(name, why and f"{why}: {text}" or (f"it lacks {missing}: {text}" if missing else None))


def after_death():
    """A reference lives on where another one died."""
    one, other = (compare.Reference(m, m) for m in (table(5), model([N("Relu", ["x"], ["y"])])))
    if not one.name.startswith("onnxruntime"):
        return
    from brainstorm.onnx import reference
    reference.RUNTIME.run(one.data, {"x": np.zeros(4, np.int64)}, False)
    reference.RUNTIME.process.process.kill()
    made = one.run({"x": np.arange(4)})[0]
    good = made.tolist() == [1, 2, 3, 4] and "onnx.reference" in one.name
    said("one that died is replaced", None if good else one.name)
    made = other.run({"x": np.array([1, -1, 2, -2], np.float32)})[0]
    said("the next one starts it again", None if made.tolist() == [1, 0, 2, 0] and "onnxruntime" in other.name else
         other.name)


def main():
    runner = session.opened()
    if runner is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder, runner:
        path = os.path.join(folder, "net.gguf")
        for name, made, words, others in told():
            lines = []
            good = importing.written(importing.imported(made), path, runner, say=lines.append)
            text = "\n".join(lines)
            bad = [w for w in words if w not in text] + [w for w in others if w in text]
            said(name, None if good and not bad else f"{bad}: {text}")
        for zeros in (0.0, -3.0):
            lines = []
            importing.written(importing.imported(model([N("Relu", ["x"], ["y"])])), path, runner, say=lines.append,
                              feed={"x": np.full(4, zeros, np.float32)})
            said(f"a feed of {zeros}", None if any("0 everywhere" in line for line in lines) else str(lines))
        for case in runtimes():
            with tempfile.TemporaryDirectory() as other:
                with_runtime(other, *case)
        after_death()
    print(f"{counts[0]} passed, {counts[1]} failed")
    return counts[1] != 0


if __name__ == "__main__":
    sys.exit(main())
