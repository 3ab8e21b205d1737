# needs: torch onnxscript onnx gguf numpy
"""test_torch_zoo.py: networks of zoo/, small: with markers they are what they are in plain PyTorch, with few lines
more; exported afresh they are what tests/zoo holds, and run as eager mode.

Where torch is not there (never in CI) it is skipped; test_zoo.py runs what was exported. Must never leave a file
behind.
"""

import os
import subprocess
import sys
import tempfile

from model_rig import end, report  # first: it finds python/

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "zoo"))

import common
import numpy as np
from brainstorm.onnx import compare, session

MOST_LINES = {"livesr": 6, "dynamic_routing": 18, "msdnet": 14, "switch": 12, "taskmoe": 24, "swinmoe": 14}


def lines_of(name):
    """Lines that make it dynamic."""
    files = [os.path.join(ROOT, "zoo", name, f"{part}.py") for part in ("plain", "dynamic")]
    done = subprocess.run(["git", "diff", "--no-index", "--numstat", *files], capture_output=True, text=True)
    widest = max(len(line.rstrip("\n")) for line in open(files[1]))
    return int(done.stdout.split()[0]), widest


def exported(name, net, variant, folder):
    path, (inputs, rows) = os.path.join(folder, f"{name}.onnx"), common.tried(variant)
    common.exported(net, inputs, path, rows=rows)
    result = common.written(path, path + ".gguf", rows)
    return result, path + ".gguf"


def network(name, folder):
    variant = common.variants(name)["small"]
    plain, one, (inputs, _) = variant.plain(), variant.inputs(), common.tried(variant)
    net = variant.dynamic(plain)
    report(f"{name}: with markers as without", common.apart(common.eager(net, one), common.eager(plain, one)) < 1e-6)
    y, counts = common.decisions(net, inputs)
    stored = np.load(os.path.join(ROOT, "tests", "zoo", f"{name}.npz"))
    report(f"{name}: tests/zoo is of this network", common.apart(y, stored["y"]) < 1e-5 and all(
        stored[f"of {module}"].tolist() == count for module, count in counts.items() if count is not None))
    added, widest = lines_of(name)
    report(f"{name}: {added} lines make it dynamic", 0 < added <= MOST_LINES[name] and widest <= 100, (added, widest))
    runner = session.opened()
    if runner is None:
        return
    result, path = exported(name, net, variant, folder)
    with runner:
        runner.open(path)
        feeds = {port.onnx_name: x.numpy() for port, x in zip(result.walk.inputs, inputs)}
        made = compare.run_ours(runner, result.walk, feeds)[0]
    report(f"{name}: exported afresh, as eager", common.apart(made, y) < 2e-5, common.apart(made, y))


with tempfile.TemporaryDirectory() as work:
    for each in common.IMAGES:
        network(each, work)
sys.exit(end())
