# tags: uses:bench/products,bench/networks needs:gguf,numpy
"""test_ncnn_layers.py: each layer of ncnn that is imported computes what it does there: with its size fixed, free, and
in patches, from f32 and f16 weights.

Relies on ncnn_layers.py and ncnn_shapes.py (cases with their definitions in NumPy), bench/networks, which `make test`
builds for it. Where the `ncnn` package is there, it must agree as well. Must never leave a file behind.
"""

import sys

from ncnn_rig import layer, param_text, raw, report, run_whole, save, tagged  # first: it finds python/

import networks_runner
import numpy as np
import ncnn_shapes  # noqa: F401: it adds to CASES
from brainstorm.ncnn import Refused, compare, import_ncnn
from model_rig import end
from ncnn_layers import CASES

try:
    import ncnn
except ImportError:
    ncnn = None
if networks_runner.program() is None:
    print("skipped: no bench/networks (make build/bench/networks)\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)

random = np.random.default_rng(7)


def files_of(case):
    ins, outs = [f"in{i}" for i in range(len(case.shapes))], [f"out{i}" for i in range(case.outputs)]
    lines = [layer("Input", name, [], [name], {0: shape[-1], **({1: shape[-2]} if len(shape) > 1 else {}),
                                               **({2: shape[0]} if len(shape) > 2 else {})})
             for name, shape in zip(ins, case.shapes)]
    lines.append(layer(case.kind, "layer", ins * case.again, outs, case.params))
    return save(param_text(lines), case.data)


def inputs_of(case):
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in case.shapes]
    if getattr(case, "positive", False):
        arrays = [abs(a) + np.float32(0.1) for a in arrays]
    return {f"in{i}": a for i, a in enumerate(arrays)}


def apart(made, wanted):
    """Why results differ, or nothing. Beside 1 there is room for sums of a few dozen products in f32."""
    for name, y in wanted.items():
        if made[name].shape != y.shape:
            return f"{name} is {made[name].shape}, expected {y.shape}"
        if not np.allclose(made[name], y, rtol=2e-5, atol=2e-5):
            return f"{name}: {np.abs(made[name] - y).max()}"
    return ""


def check(case):
    files, inputs = files_of(case), inputs_of(case)
    y = case.reference(*inputs.values())
    wanted = {f"out{i}": np.asarray(a) for i, a in enumerate(y if isinstance(y, list) else [y])}
    ways = {"fixed": {}}
    if case.free and all(len(shape) == 3 for shape in case.shapes[:1]):
        ways["free"] = {"most": (24, 30)}
    if case.patches and len(case.shapes[0]) == 3:
        ways["in patches"] = {"patches": 4}
    for way, options in ways.items():
        try:
            why = apart(run_whole(files, inputs, **options), wanted)
        except ValueError as error:
            why = str(error)
        report(f"{case.name}, {way}", not why, why)
    if not case.patches and case.shapes and len(case.shapes[0]) == 3:
        refuses(case, files)
    if ncnn and case.shapes and case.again == 1:  # what ncnn reads twice it wants split
        theirs = compare.ncnn_run(compare.ncnn_net(*files), inputs, list(wanted))
        why = apart(theirs, wanted)
        report(f"{case.name}, by ncnn", not why, why)


def refuses(case, files):
    """What cannot be in patches is refused, and not made into something else."""
    try:
        import_ncnn(*files, shapes={f"in{i}": shape for i, shape in enumerate(case.shapes)}, patches=4)
        report(f"{case.name}, in patches", False, "not refused")
    except Refused as error:
        report(f"{case.name} is refused in patches", "'layer'" in str(error), str(error))


def outputs_inside():
    """A blob within the network is what its layer makes, also where the next layer would have become part of it."""
    slopes, weight = np.array([0.25, 0.5], np.float32), random.standard_normal((2, 2, 1, 1))
    lines = [layer("Input", "in", [], ["in0"], {0: 4, 1: 3, 2: 2}),
             layer("Convolution", "conv", ["in0"], ["a"], {0: 2, 1: 1, 6: 4}),
             layer("PReLU", "slopes", ["a"], ["b"], {0: 2}), layer("Sigmoid", "last", ["b"], ["c"])]
    x = random.standard_normal((2, 3, 4)).astype(np.float32)
    files = save(param_text(lines), tagged(weight.astype(np.float32)) + raw(slopes))
    a = np.einsum("oi,ihw->ohw", weight[:, :, 0, 0].astype(np.float32), x)
    b = np.where(a < 0, a * slopes.reshape(-1, 1, 1), a)
    wanted = {"a": a, "b": b, "c": 1 / (1 + np.exp(-b))}
    for names in (["c"], ["a"], ["b"], ["c", "a", "b"]):
        why = apart(run_whole(files, {"in0": x}, outputs=names), {name: wanted[name] for name in names})
        report(f"outputs {names}", not why, why)


for case in CASES:
    check(case)
outputs_inside()
sys.exit(end())
