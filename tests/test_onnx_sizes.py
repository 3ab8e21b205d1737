# tags: needs:onnx,numpy,gguf
"""Sizes that a run brings, by the ONNX importer: widths of text, lengths of sound, counts of steps, pictures and rows.
What is taken is right at sizes that it was not imported with; where the model fixes one, the node is named, and what
helps.
"""

import os
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig  # noqa: F401: it finds the package
import onnx_sized_nets as nets
from brainstorm import session
from brainstorm.onnx import compare, importing
from brainstorm.onnx.refused import Refused

LENGTHS = (24, 33, 61, 79, 103)
random = np.random.default_rng(11)


def taken():
    """(name, model, --dim, sizes: one or several, each of all that is free)."""
    for kind, layers in (("LSTM", 1), ("GRU", 2), ("RNN", 1)):
        yield f"a line of text, {layers} {kind}", nets.text_line(kind, layers), ["W=..200"], LENGTHS
    yield "attention over columns", nets.text_attention(), ["W=..200"], LENGTHS
    yield "attention over columns, in steps", nets.text_attention(), ["W=..200/4"], (8, 32, 60, 100, 200)
    for kind in ("trilu", "compared"):
        yield f"steps that see those before them, {kind}", nets.causal(kind), ["T=..120"], LENGTHS
    for mode in ("constant", "reflect", "edge"):
        yield f"sound, ends of {mode}", nets.sound(mode), ["samples=..900"], (80, 121, 333, 500, 900)
    yield "sound that is made again", nets.sound_and_back(), ["T=..200/4"], (8, 32, 60, 100, 200)
    yield "pictures, the last one's", nets.pictures(), ["T=..90"], (1, 2, 7, 33, 90)
    yield "pictures, of each", nets.pictures("LSTM", False), ["T=..90"], (1, 2, 7, 33, 90)
    yield "boxes of a free width", nets.boxes([1, 3, 16, "W"]), ["W=..200/4"], (8, 32, 60, 100, 200)
    yield "boxes of a free height", nets.boxes([1, 3, "H", 24]), ["H=..200/4"], (8, 32, 60, 100, 200)
    yield "boxes of one grid", nets.boxes([1, 3, "H", 24], 1), ["H=..120"], LENGTHS
    yield "norms of groups and channels", nets.grouped(), ["H=..90", "W=..90"], ((24, 33), (33, 61), (79, 80), (13, 90))
    yield "parts of an axis", nets.parts(), ["T=..120"], LENGTHS
    yield "what is as long", nets.made(), ["T=..120"], LENGTHS
    for mode in ("constant", "reflect", "edge"):
        yield f"borders of {mode}", nets.bordered(mode), ["H=..90", "W=..90"], ((24, 33), (33, 61), (79, 80), (13, 90))
    yield "blocks, in steps", nets.in_blocks(), ["T=..320/16"], (16, 32, 48, 208, 320)
    for kind in ("before", "behind", "between", "pads", "shifted"):
        yield f"rows, {kind}", nets.rows_with_constants(kind), ["N=..9"], (1, 2, 4, 7, 9)
    yield "a least size", nets.sound(), ["samples=400..900"], (400, 401, 555, 777, 900)


def refused():
    """(name, model, --dim, words)."""
    yield "boxes of both", nets.boxes([1, 3, "H", "W"]), ["H=..200/4", "W=..200/4"], \
        ["reshape of", "several free", "H=NUMBER or W=NUMBER"]
    yield "blocks", nets.in_blocks(), ["T=..320"], ["Pad", "another size", "T=..320/32"]
    yield "blocks of 3", nets.in_blocks(3), ["T=..320"], ["Pad", "another size"]
    yield "sound that is made again, of any length", nets.sound_and_back(), ["T=..200"], \
        ["Concat", "concatenation", "T=..200/8"]


def worst(runner, result, sizes):
    """The largest relative difference at these sizes."""
    reference, found = compare.Reference(result.model, result.ready), []
    _, dtype = result.shapes["x"]
    given = [d.dim_param or d.dim_value for d in result.model.graph.input[0].type.tensor_type.shape.dim]
    for size in sizes:
        free = iter(np.atleast_1d(size))
        x = random.standard_normal([next(free) if isinstance(d, str) else d for d in given]).astype(dtype)
        found += compare.differences(runner, result.walk, reference, {"x": x})[1]
    return max(found, key=lambda difference: difference.relative)


def wrong(runner, result, path, sizes):
    """What is wrong; None: nothing."""
    told = []
    if not importing.written(result, path, runner, say=told.append):
        return "\n".join(told)
    runner.open(path)
    found = worst(runner, result, sizes)
    return None if found.relative < 3e-5 else str(found)


def too_little(runner, path):
    """A run with less than the least size ends with an error."""
    result = importing.imported(nets.sound(), dims=["samples=400..900"])
    result.walk.graph.write(path)
    runner.open(path)
    try:
        compare.run_ours(runner, result.walk, {"x": np.zeros((1, 399), np.float32)})
    except session.Failed as why:
        return None if "samples" in str(why) else str(why)
    return "it ran"


def main():
    runner, counts = session.opened(), [0, 0]
    if runner is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0

    def said(name, why):
        counts[why is not None] += 1
        print(f"FAIL {name}: {why}" if why else f"ok {name}")

    with tempfile.TemporaryDirectory() as folder, runner:
        path = os.path.join(folder, "net.gguf")
        for name, model, dims, sizes in taken():
            try:
                said(name, wrong(runner, importing.imported(model, dims=dims), path, sizes))
            except (Refused, session.Failed) as why:
                said(name, str(why))
        said("less than the least size", too_little(runner, path))
        for name, model, dims, words in refused():
            try:
                importing.imported(model, dims=dims)
                said(name, "it was taken")
            except Refused as why:
                missing = [word for word in words if word not in str(why)]
                said(name, f"the message lacks {missing}: {why}" if missing else None)
    print(f"{counts[0]} passed, {counts[1]} failed")
    return counts[1] != 0


if __name__ == "__main__":
    sys.exit(main())
