# tags: needs:onnx,onnxruntime,numpy,gguf
"""Whole networks by the ONNX importer: each gives what its reference gives.

    test_onnx_models.py [--all] [NAME...]      --all: every light model of the onnx package, some of half a gigabyte
"""

import argparse
import os
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig  # noqa: F401: it finds the package
import onnx_control as control
import onnx_nets as nets
from brainstorm import ACTS
from brainstorm.ops import OPS
from brainstorm import session
from brainstorm.onnx import importing

SMALL = ("squeezenet", "shufflenet")


def cases(every):
    """(name, model, dims that are given, further arguments)."""
    for name in nets.light_names() if every else SMALL:
        yield f"light {name}", lambda name=name: nets.light(name), []
    yield "mobile", nets.mobile, []
    yield "mobile of op set 13", lambda: nets.mobile(opset=13), []
    yield "mobile of three images", lambda: nets.mobile(3), []
    yield "mobile of a free batch", lambda: nets.mobile("batch"), ["batch=..5"]
    yield "mobile of a batch by its name", lambda: nets.mobile("batch"), ["batch=2"]
    yield "vision transformer", nets.vision_transformer, []
    yield "vision transformer of a free batch", lambda: nets.vision_transformer("N"), ["N=..4"]
    for kind in ("LSTM", "GRU", "RNN"):
        yield kind, lambda kind=kind: nets.recurrent(kind), []
    yield "super-resolution", nets.super_resolution, []
    yield "super-resolution in patches", nets.super_resolution, [], {"patches": 16}
    frame = lambda: nets.super_resolution("H", "W")
    yield "super-resolution of any frame", frame, ["H=..200", "W=..320"]
    yield "super-resolution of any frame in patches", frame, ["H=..200", "W=..320"], {"patches": 32}
    yield "super-resolution of any width", frame, ["H=30", "W=..50"]
    yield "experts as blocks", nets.scoped, [], {"blocks": ["moe.paths.*"]}
    yield "scales and shifts", nets.scaled, []
    yield ("norms and GELU written out", nets.written_out, [],
           {"ops": dict.fromkeys(("gelu", "layer_norm", "rms_norm"), 2)})
    yield "squeeze and excitation", nets.excited, [], {"ops": {"pool2d": 3, "reduce": 0, "affine": 0}}
    yield "gates", nets.gates, [], {"ops": {"clip": 4, "affine": 6, "resize": 0, "deconv2d": 1}}
    yield "attention", nets.attended, [], {"ops": {"matmul": 2, "transpose": 4, "affine": 0}}
    yield "If", control.choice, []
    yield "Loop until 1.5", lambda: control.refinement(1.5), []
    yield "Loop that data do not end", lambda: control.refinement(1000.0), []
    yield "Loop that collects", control.steps, []
    yield "Scan", control.sums, []


def needed(graph):
    """Nodes that outputs need: others are not planned."""
    last, wanted, found = graph.n_values, set(), []
    for node in reversed(graph.nodes):
        values = range(last - OPS[node.op][1] + 1, last + 1)
        last -= len(values)
        if not values or wanted & set(values):
            wanted.update(node.inputs)
            found.append(node)
    return found


def tried(runner, folder, seeds, make, dims, more=None):
    """What went wrong; None: nothing."""
    path, lines = os.path.join(folder, "net.gguf"), []
    try:
        more = dict(more or {})
        wanted = more.pop("ops", {})
        result = importing.imported(make(), dims=dims, **more)
        agrees = all(importing.written(result, path, runner, seed=seed, say=lines.append) for seed in seeds)
    except (importing.Refused, session.Failed, ValueError) as why:
        return str(why)
    for op, count in wanted.items():
        nodes = needed(result.walk.graph)
        acts = [n.params[0] for n in nodes if n.op == "activation"]
        acts += [n.params[2] for n in nodes if n.op == "linear" and len(n.params) > 2]
        found = acts.count(ACTS.get(op)) + [n.op for n in nodes].count(op)
        if found != count:
            return f"of {op} there are {found}, not {count}"
    if "blocks" in more:
        names = [block.name for block in result.walk.graph.blocks]
        if names != ["main", "moe.paths.0", "moe.paths.1"] or result.walk.graph.blocks[1].bytes < 4 * 2 * 6 * 12:
            return f"its blocks are {names}"
    for line in lines if not agrees else lines[-1:]:
        print(f"    {line.strip()}")
    return None if agrees else "it does not agree with its reference"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    runner, passed, failed = session.opened(), 0, 0
    if runner is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder, runner:
        for name, *case in cases(arguments.all):
            if arguments.names and not any(word in name for word in arguments.names):
                continue
            since = time.monotonic()
            seeds = (1,) if name.startswith("light") else (1, 2, 3, 4)  # an If takes either branch
            why = tried(runner, folder, seeds, *case)
            failed, passed = failed + (why is not None), passed + (why is None)
            print(f"FAIL {name}: {why}" if why else f"ok {name} ({time.monotonic() - since:.1f} s)", flush=True)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
