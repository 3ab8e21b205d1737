# tags: emulated needs:onnx,gguf,numpy
"""test_cuda_zoo.py: small forms of the networks of zoo/ on a GPU give what eager mode gave, and the same bytes with
each optimisation on and off.

Without a GPU the emulation of the tests computes. Without the CUDA backend in this build everything is skipped. Relies
on tests/zoo (zoo/make_vectors.py, zoo/mixture_vectors.py). Must never leave a file behind.
"""

import os
import re
import sys
import tempfile

from model_rig import brainstorm, end, report  # first: it finds python/

import numpy as np
from brainstorm.onnx import imported

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "zoo")
CLOSE = 2e-5  # of the largest magnitude: roundings of f32; a decision that differs is far more
WAYS = ("--dataflow off", "--fusion off", "--dataflow off --fusion off", "--launch stream", "--launch graph")


def image_network(name, folder):
    """(file, words of its inputs, name of its output, what eager mode gave) of what torch exported."""
    stored = np.load(os.path.join(HERE, f"{name}.npz"))
    rows, words = int(stored["rows"]), []
    walk = imported(os.path.join(HERE, f"{name}.onnx"), dims=[f"rows=..{rows}"] if rows else None).walk
    path = os.path.join(folder, f"{name}.gguf")
    walk.graph.write(path)
    kinds = {"f32": np.float32, "i32": np.int32}
    for n, port in enumerate(walk.inputs):
        file = os.path.join(folder, f"{name}.{port.name}.npy")
        np.save(file, stored[f"in{n}"].astype(kinds[port.held_dtype]))
        words += ["--input", f"{port.name}={file}"]
    return path, words, walk.outputs[0].name, stored["y"]


def mixture(name, *inputs):
    def file(port):
        return os.path.join(HERE, f"{name}.{port}.npy")

    words = [word for port in inputs for word in ("--input", f"{port}={file(port)}")]
    return os.path.join(HERE, f"{name}.gguf"), words, "y", np.load(file("y"))


def network(name, folder, path, words, output, wanted):
    file = os.path.join(folder, "y.npy")

    def made(*options):
        """(bytes of what a GPU made, or None; what was said)."""
        status, said = brainstorm("run", path, *words, "--output", f"{output}={file}", "--quiet", "--device", "cuda",
                                  *options)
        with open(file, "rb") as written:
            return (None if status else written.read()), said

    first, said = made()
    report(f"{name} runs", first is not None, said)
    if first is None:
        return
    y = np.load(file)
    apart = np.abs(y.reshape(wanted.shape) - wanted).max() / np.abs(wanted).max()
    report(f"{name}: as in eager mode", apart < CLOSE, f"{apart} of the largest magnitude apart")
    for way in WAYS:
        again, said = made(*way.split())
        report(f"{name}, {way}: the same bytes", again == first, said)
    half, said = made("--half")
    report(f"{name}, in half: otherwise, and not empty", half not in (None, first), said)
    for way in WAYS[:3]:
        again, said = made("--half", *way.split())
        report(f"{name}, in half, {way}: the same bytes", again == half, said)
    again, said = made("--slots", "1")  # it says how few will do
    least = re.search(r"needs (\d+) bytes", said)
    report(f"{name}, slots of a byte: refused", again is None and least, said)
    again, said = made("--slots", least[1] if least else "100%")
    report(f"{name}, in as few slots as will do: the same bytes", again == first, said)


def main():
    status, said = brainstorm("device")
    if status != 0:
        print(f"skipped: {said.strip()}\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as work:
        for name in ("livesr", "msdnet", "dynamic_routing"):
            network(name, work, *image_network(name, work))
        for name, *inputs in (("switch", "text", "answer"), ("taskmoe", "text", "task"), ("swinmoe", "images")):
            network(name, work, *mixture(name, *inputs))
    return end()


sys.exit(main())
