# tags: uses:bench/products,bench/networks needs:numpy,gguf,onnx
"""test_bench_imports.py: make bench-imports measures a network right, and says what it cannot have.

Owns: a folder that goes when the program ends. Relies on: $BUILD/bench/networks and brainstorm, which `make test`
builds for it; the light models of the onnx package. Must never: look at a time, or fetch anything.
"""
import importlib.util
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEERS = os.path.join(ROOT, "bench", "peers")
sys.path[:0] = [PEERS, os.path.join(ROOT, "python"), os.path.join(ROOT, "tests")]
results = {True: 0, False: 0}


def check(name, good, why=""):
    results[bool(good)] += 1
    print(f"ok {name}" if good else f"FAIL {name}: {why}", flush=True)


def imports(*words):
    done = subprocess.run([sys.executable, os.path.join(PEERS, "imports.py"), *words], capture_output=True, text=True,
                          env={**os.environ, "PIP_NO_INDEX": "1"})
    return done.returncode, done.stdout + done.stderr


def measured(folder):
    figures = os.path.join(folder, "figures.json")
    peer = "onnxruntime" if importlib.util.find_spec("onnxruntime") else ""
    status, text = imports("--cache", os.path.join(folder, "cache"), "--turns", "1", "--turn-ms", "0", "--peers", peer,
                           "--json", figures, "light squeezenet")
    check("a network is measured", status == 0, text)
    with open(figures) as f:
        row, = json.load(f)["rows"]
    check("its result is that of float64, but for rounding", 0 < row["error"] < 1e-5, row)
    check("it has a time and bytes, and allocates nothing",
          row["us"] > 0 and row["bytes"] > 4e6 and row["allocations"] in (0, -1), row)
    check("ops take a share of its run", row["ops"] and 0 < row["ops"] <= 1, row["report"])
    if peer:
        check("the peer has a time and an error", row[peer] > 0 and 0 < row["theirs"] < 1e-5, row)
    status, text = imports("--cache", os.path.join(folder, "cache"), "--turns", "1", "--peers", "", "by its If")
    check("a row that cannot be had says why, and the program fails",
          status == 1 and text.count("pip cannot fetch silero-vad") == 2, text)


def told():
    status, text = imports("--list")
    groups = {line.split()[0] for line in text.splitlines()}
    check("each group has a network", status == 0 and groups == {"light", "silero", "ocr", "exported", "video"}, text)
    status, text = imports("--cache", "nowhere", "nothing-of-this-name")
    check("a word that names nothing is refused", status == 2 and "nothing-of-this-name" in text, text)
    status, text = imports()
    check("a cache must be named", status == 2 and "--cache" in text, text)


def truths():
    import import_truth
    import onnx_nets
    from brainstorm.onnx import load
    model = load.prepared(onnx_nets.mobile())
    port = model.graph.input[0]
    shape = [d.dim_value for d in port.type.tensor_type.shape.dim]
    feeds = {port.name: np.random.default_rng(1).standard_normal(shape).astype(np.float32)}
    y = import_truth.of_onnx(model, feeds)[0]
    check("what is right is in float64", y.dtype == np.float64 and np.any(y != y.astype(np.float32)), y.dtype)
    x = np.arange(1.0, 7.0).reshape(1, 6, 1, 1)
    y = import_truth.normed(x, 3, 0.3, 0.5, 2.0).ravel()
    want = [c / np.sqrt(2 + 0.1 * sum(d * d for d in range(max(c - 1, 1), min(c + 1, 6) + 1))) for c in range(1, 7)]
    check("channels beside each other are normalised", np.allclose(y, want, rtol=1e-14), (y, want))


with tempfile.TemporaryDirectory() as scratch:
    measured(scratch)
told()
truths()
print(f"{results[True]} passed, {results[False]} failed")
sys.exit(results[False] != 0)
