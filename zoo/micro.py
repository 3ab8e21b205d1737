"""micro.py - what a decision itself costs: 2 to 256 branches, and a layer of 64 experts, token by token and grouped.

Branches are measured by build/bench/branches (bench/branches.c), if it is built. The layer is that of Switch-base: 64
tokens, a best expert each. Serial: a run for each token. Grouped: one run, in which the tokens of an expert are one
product. The limit beside both is the memory's: as many bytes as the experts have that tokens chose, read once.
Needs what bench.py needs. Must never: compare results that differ.
"""

import os
import re
import statistics
import subprocess
import time

import common
import numpy as np
import torch
from torch import nn

EXPERTS, TOKENS, WIDTH, HIDDEN = 64, 64, 768, 3072
PROGRAM = os.path.join(common.HERE, "..", os.environ.get("BUILD", "build"), "bench", "branches")
APART = 1e-5  # of the largest magnitude, at most


def feed_forward():
    return nn.Sequential(nn.Linear(WIDTH, HIDDEN, bias=False), nn.ReLU(), nn.Linear(HIDDEN, WIDTH, bias=False))


class Layer(nn.Module):
    """The best of 64 experts for each row."""

    def __init__(self):
        super().__init__()
        from brainstorm.torch import Routed
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.experts = Routed([feed_forward() for _ in range(EXPERTS)])

    def forward(self, x):
        return self.experts(x, self.router(x).softmax(-1))


def loop(layer, x):
    """As it is written in PyTorch: expert after expert."""
    chances = layer.router(x).softmax(-1)
    gates, best = chances.max(-1)
    y = torch.zeros_like(x)
    for number, expert in enumerate(layer.experts.paths):
        rows = (best == number).nonzero().squeeze(-1)
        if len(rows):
            y[rows] = expert(x[rows]) * gates[rows, None]
    return y


def seconds(run):
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def experts(folder, turns=9):
    """{what: milliseconds} of the layer."""
    import brainstorm
    torch.manual_seed(1)
    layer, x = Layer().eval(), torch.randn(TOKENS, WIDTH)
    with torch.no_grad():
        layer.router.weight.mul_(30)
    path = os.path.join(folder, "micro.experts.gguf")
    if not os.path.exists(path):
        common.exported(layer, [x], f"{path}.onnx", rows=TOKENS)
        common.written(f"{path}.onnx", f"{path}.part", TOKENS)
        os.remove(f"{path}.onnx")
        os.replace(f"{path}.part", path)
    model = brainstorm.open(path)
    given = x.numpy()
    tokens = [given[n:n + 1] for n in range(TOKENS)]
    with torch.no_grad(), model.plan().session() as all_at_once, model.plan(extents={"x": (1, WIDTH)}).session() as one:
        wanted = loop(layer, x).numpy()
        serial = np.concatenate([one.run({"x": token})["y"].copy() for token in tokens])
        grouped = all_at_once.run({"x": given})["y"].copy()
        for made in (serial, grouped):
            if common.apart(made, wanted) > APART:
                raise SystemExit(f"a layer of experts: {common.apart(made, wanted)} apart")
        used = int((all_at_once.decision("experts").counts > 0).sum())
        memory = np.ones(used * 2 * WIDTH * HIDDEN, np.float32)
        ways = {"PyTorch, loop over experts": lambda: loop(layer, x),
                "serial": lambda: [one.run({"x": token}) for token in tokens],
                "grouped": lambda: all_at_once.run({"x": given}), "memory alone": memory.max}
        times = {name: [] for name in ways}
        for _ in range(turns):
            for name, run in ways.items():
                times[name].append(seconds(run))
    found = {name: 1e3 * statistics.median(of[1:]) for name, of in times.items()}
    return {"used": used, "ms": found}


def branches():
    """{branches: times one alone}, or why there is nothing."""
    if not os.path.exists(PROGRAM):
        return f"{os.path.relpath(PROGRAM)} is not built"
    done = subprocess.run([PROGRAM, "9", "256"], capture_output=True, text=True)
    found = re.findall(r"(\d+) branches: +([\d.]+) us each, ([\d.]+)", done.stdout)
    return {number: float(ratio) for number, _, ratio in found} or f"it ended with {done.returncode}: {done.stderr}"


def measured(folder):
    return {"branches": branches(), "experts": experts(folder)}


def told(small):
    if not small:
        return ""
    if isinstance(small["branches"], str):
        lines = [f"branches: {small['branches']}"]
    else:
        lines = ["branches, each beside one alone: " + ", ".join(
            f"{number}: {ratio:.2f}" for number, ratio in small["branches"].items())]
    lines.append(f"{EXPERTS} experts, {TOKENS} tokens on {small['experts']['used']} of them: " + ", ".join(
        f"{name} {ms:.1f} ms" for name, ms in small["experts"]["ms"].items()))
    return "\n".join(lines)
