# tags: needs:torch,onnxscript,onnx,gguf,numpy
"""test_torch_zoo_mixtures.py: the mixtures of the zoo need as few lines as zoo/README.md says, both forms give the
same, with rows beyond a capacity too, TaskMoE exported afresh is what tests/zoo holds, and zoo/planned.py plans what
the export of Switch does.

Where torch is not there (never in CI) it is skipped; test_zoo_mixtures.py runs what was exported. Must never leave a
file behind.
"""

import os
import re
import subprocess
import sys
import tempfile

from python_site import ROOT, check, end  # first: it finds the package

sys.path.insert(0, os.path.join(ROOT, "zoo"))
import brainstorm
import common
import mixtures
import numpy as np
import planned
import torch

ASKED = {"switch": 12, "taskmoe": 24, "swinmoe": 14}
COLUMNS = 100  # of a line that counts as one


def lines(name):
    folder = os.path.join(ROOT, "zoo", name)
    done = subprocess.run(["git", "diff", "--no-index", os.path.join(folder, "plain.py"),
                           os.path.join(folder, "dynamic.py")], capture_output=True, text=True)
    added = [line[1:] for line in done.stdout.splitlines() if line.startswith("+") and not line.startswith("+++")]
    with open(os.path.join(ROOT, "zoo", "README.md"), encoding="utf-8") as file:
        told = re.search(rf"\]\({name}\).*\| (\d+) \|", file.read())
    check(f"{name}: {len(added)} lines", 0 < len(added) <= ASKED[name] and int(told[1]) == len(added), told and told[1])
    check(f"{name}: lines are short", all(len(line) <= COLUMNS for line in added), added)


def forms(name):
    variant = common.variants(name)["small"]
    for number in range(4):
        plain, inputs = variant.plain(), variant.inputs(number)
        with torch.no_grad():
            wanted = plain(*inputs)
        made, _ = mixtures.watched(variant.dynamic(plain), inputs)
        apart = float((made - wanted).abs().max() / wanted.abs().max())
        check(f"{name}: both forms, inputs {number}", apart < 1e-6, f"{apart} apart")


def afresh():
    variant = common.variants("taskmoe")["small"]
    net, inputs = variant.dynamic(), variant.inputs()
    stored = np.load(os.path.join(ROOT, "tests", "zoo", "taskmoe.y.npy"))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net")
        common.written(common.exported(net, inputs, f"{path}.onnx"), f"{path}.gguf")
        model = brainstorm.open(f"{path}.gguf")
        made = model.run(common.fed(model, inputs))["y"]
    check("taskmoe: exported afresh, as tests/zoo", np.allclose(made, stored, rtol=1e-5, atol=1e-5))


def by_hand():
    """Constants apart, which the import stores otherwise."""
    mine, theirs = planned.same("small", os.path.join(ROOT, "tests", "zoo", "switch.gguf"))
    check("switch: a plan by hand has the bytes of the export", mine[:2] == theirs[:2]
          and abs(mine[2] - theirs[2]) <= 1024, (mine, theirs))


for each in ASKED:
    lines(each)
    forms(each)
afresh()
by_hand()
sys.exit(end())
