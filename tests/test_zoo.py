# tags: needs:onnx,gguf,numpy
"""test_zoo.py: small variants of the networks of zoo/, as torch exported them, give what eager mode gave, by the same
decisions; streamed and resident, with one thread and two the same bytes.

Relies on tests/zoo (NAME.onnx, NAME.npz by zoo/make_vectors.py, which needs torch) and $BUILD/brainstorm; on the
extension module, where it is there, to ask for decisions. Must never leave a file behind. Fresh exports:
test_torch_zoo.py.
"""

import os
import re
import sys
import tempfile

from model_rig import brainstorm, end, report  # first: it finds python/

import numpy as np
from brainstorm import session
from brainstorm.onnx import imported

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zoo")
CLOSE = 2e-5  # of the largest magnitude


def run(folder, path, inputs, *options):
    """(output as bytes and array, what was said) of `brainstorm run`."""
    words, out = [], os.path.join(folder, "y.npy")
    for name, array in inputs.items():
        np.save(os.path.join(folder, f"{name}.npy"), array)
        words += ["--input", f"{name}={folder}/{name}.npy"]
    status, said = brainstorm("run", path, *words, "--output", f"{inputs.output}={out}", "--quiet", *options)
    if status != 0:
        return None, said
    with open(out, "rb") as file:
        return file.read(), said


class Inputs(dict):
    """By our names; output: the name of what is made."""


def decided(path, inputs, stored):
    """Differences of rows of each path to those in eager mode; None where nothing tells."""
    runner = session.opened()
    if not isinstance(runner, session.Native):
        return None
    import brainstorm as bm

    model, found = bm.open(path), []
    with model.plan(extents={name: x.shape for name, x in inputs.items()}).session() as opened:
        opened.run(inputs)
        for key in stored.files:
            if key.startswith("of "):
                went = opened.decision(key[3:][-40:]).counts.tolist()
                found += [] if went == stored[key].tolist() else [f"{key}: {went}, expected {stored[key].tolist()}"]
    return found


def network(name, folder):
    stored = np.load(os.path.join(HERE, f"{name}.npz"))
    rows = int(stored["rows"])
    result = imported(os.path.join(HERE, f"{name}.onnx"), dims=[f"rows=..{rows}"] if rows else None)
    path = os.path.join(folder, "net.gguf")
    result.walk.graph.write(path)
    kinds = {"f32": np.float32, "i32": np.int32}
    inputs = Inputs((p.name, stored[f"in{n}"].astype(kinds[p.held_dtype])) for n, p in enumerate(result.walk.inputs))
    inputs.output = result.walk.outputs[0].name
    plain, said = run(folder, path, inputs)
    report(f"{name} runs", plain is not None, said)
    if plain is None:
        return
    made, wanted = np.load(os.path.join(folder, "y.npy")), stored["y"]
    apart = np.abs(made.reshape(wanted.shape) - wanted).max() / np.abs(wanted).max()
    report(f"{name}: as in eager mode", apart < CLOSE, f"{apart} of the largest magnitude apart")
    found = decided(path, inputs, stored)
    if found is not None:
        report(f"{name}: decisions are eager mode's", found == [], found)
    blocks = [b for b in result.walk.graph.blocks[1:] if b.bytes]
    report(f"{name}: paths have records of their own", len(blocks) > 1, len(blocks))
    for options in (["--threads", "2"], ["--slots", "1"], ["--slots", "100%", "--threads", "2"],
                    ["--order", "breadth"], ["--order", "depth"]):
        again, said = run(folder, path, inputs, *options)
        if options == ["--slots", "1"]:  # it says how few will do
            least = re.search(r"needs (\d+) bytes", said)
            report(f"{name}, slots of a byte: refused", again is None and least, said)
            options[1] = least[1] if least else "100%"
            again, said = run(folder, path, inputs, *options)
        report(f"{name}, {' '.join(options)}: the same bytes", again == plain, said)


with tempfile.TemporaryDirectory() as work:
    for each in sorted(name[:-5] for name in os.listdir(HERE) if name.endswith(".onnx")):
        network(each, work)
sys.exit(end())
