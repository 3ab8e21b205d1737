# tags: needs:torch,onnxscript,onnx,gguf,numpy
"""test_torch_zoo.py: networks of zoo/ that look at images, small: with markers they are what they are in plain
PyTorch, with few lines more; exported afresh they are as near to float64 as eager mode, decide as it does, and give the
same bytes whatever is switched off; tests/zoo is of these networks.

Where torch is not there (never in CI) it is skipped; test_zoo.py runs what was exported. Must never leave a file
behind.
"""

import os
import subprocess
import sys
import tempfile

from python_site import ROOT, check, end  # first: it finds the package

sys.path.insert(0, os.path.join(ROOT, "zoo"))
import common
import equal
import numpy as np
import truth

MOST_LINES = {"livesr": 6, "dynamic_routing": 18, "msdnet": 14}


def lines_of(name):
    """Lines that make it dynamic."""
    files = [os.path.join(ROOT, "zoo", name, f"{part}.py") for part in ("plain", "dynamic")]
    done = subprocess.run(["git", "diff", "--no-index", "--numstat", *files], capture_output=True, text=True)
    with open(files[1], encoding="utf-8") as file:
        widest = max(len(line.rstrip("\n")) for line in file)
    return int(done.stdout.split()[0]), widest


def network(name, folder):
    variant = common.variants(name)["small"]
    plain, one, (inputs, _) = variant.plain(), variant.inputs(), common.tried(variant)
    net = variant.dynamic(plain)
    check(f"{name}: with markers as without", common.apart(common.eager(net, one), common.eager(plain, one)) < 1e-6)
    y, counts = common.decisions(net, inputs)
    stored = np.load(os.path.join(ROOT, "tests", "zoo", f"{name}.npz"))
    check(f"{name}: tests/zoo is of this network", common.apart(y, stored["y"]) < 1e-5 and all(
        stored[f"of {module}"].tolist() == count for module, count in counts.items() if count is not None))
    added, widest = lines_of(name)
    check(f"{name}: {added} lines make it dynamic", 0 < added <= MOST_LINES[name] and widest <= 100, (added, widest))
    check(f"{name}: exported afresh, as float64", truth.judged(name, "small", folder, 2))
    check(f"{name}: the same bytes in all ways", equal.compared(name, "small", folder))


with tempfile.TemporaryDirectory() as work:
    for each in common.IMAGES:
        network(each, work)
sys.exit(end())
