# tags: needs:torch,onnxscript,onnx,gguf,numpy
"""test_torch_markers.py: modules of brainstorm.torch are plain PyTorch in eager mode, gradients included; what is
exported afresh is what tests/markers holds, and runs as eager mode.

Where torch is not there (never in CI) it is skipped; test_markers.py runs what was exported. Relies on markers_nets.py.
Must never leave a file behind.
"""

import os
import sys
import tempfile

from model_rig import end, report  # first: it finds python/

import markers_nets
import numpy as np
import torch
from brainstorm import session
from brainstorm.onnx import compare, imported
from brainstorm.torch import Exit, Gated, Patches, Routed, calibrate, every_exit, export
from torch import nn


def dense(moe, x, score):
    """Every path for every row."""
    gates, chosen = score.topk(moe.k, -1)
    gates = gates / gates.sum(-1, keepdim=True) if moe.normalise else gates
    share = torch.zeros_like(score).scatter(1, chosen, gates)
    return sum(share[:, p:p + 1] * path(x) for p, path in enumerate(moe.paths))


def limited(x, score):
    """Row after row, by the rule in words."""
    moe = Routed([nn.Linear(6, 4) for _ in range(5)], k=2, capacity=0.9)
    room, taken, wanted = int(2 * int(0.9 * 4)), [0] * 5, torch.zeros(20, 4)
    gates, chosen = score.detach().topk(2, -1)
    for choice in range(2):
        for row in sorted(range(20), key=lambda n: (-float(gates[n, choice]), n)):
            path = int(chosen[row, choice])
            if taken[path] < room:
                taken[path] += 1
                wanted[row] += gates[row, choice] * moe.paths[path](x[row])
    report("Routed with a capacity: rows of the highest scores", torch.allclose(moe(x, score), wanted, atol=1e-6)
           and moe.dropped == 40 - sum(taken) > 0, f"{moe.dropped} dropped, {taken}")


def tabled(x):
    table, key = torch.tensor([[0, 2], [1, 0], [2, 1]]), torch.arange(20) % 3
    moe = Routed([nn.Linear(6, 4) for _ in range(3)], table=table)
    wanted = torch.stack([moe.paths[table[k, 0]](r) + moe.paths[table[k, 1]](r) for k, r in zip(key, x)])
    report("Routed by a table: the paths of a key", torch.allclose(moe(x, key), wanted, atol=1e-6))
    one = Routed([nn.Linear(6, 4) for _ in range(3)], table=range(3))
    wanted = torch.stack([one.paths[k](r) for k, r in zip(key, x)])
    report("Routed by a label", torch.allclose(one(x, key), wanted, atol=1e-6))
    for name, how in (("a path twice", dict(table=[[0, 0]])), ("a table that is weighted", dict(table=[0], k=2)),
                      ("a path that is not there", dict(table=[7])), ("no room", dict(capacity=0))):
        try:
            Routed([nn.Linear(6, 4) for _ in range(3)], **how)
            report(f"Routed, {name}: refused", False, "taken")
        except (ValueError, RuntimeError) as why:
            report(f"Routed, {name}: refused", str(why) != "")


def eager():
    torch.manual_seed(3)
    moe = Routed([nn.Linear(6, 4) for _ in range(5)], k=2, normalise=True)
    x, score = torch.randn(20, 6, requires_grad=True), torch.rand(20, 5, requires_grad=True)
    grads = []
    for function in (moe, lambda *a: dense(moe, *a)):
        moe.zero_grad()
        y = function(x, score)
        grads.append((y, *torch.autograd.grad(y.square().sum(), [x, score, *moe.parameters()])))
    report("Routed: results and gradients are those of all paths, weighted",
           all(torch.allclose(a, b, atol=1e-5) for a, b in zip(*grads)))
    one = Routed([nn.Linear(6, 4) for _ in range(3)], weighted=False)
    best = score[:, :3].argmax(-1)
    wanted = torch.stack([one.paths[p](x[n]) for n, p in enumerate(best)])
    report("Routed without weights: the path's result", torch.allclose(one(x, score[:, :3]), wanted, atol=1e-6))
    limited(x, score)
    tabled(x)
    head, rest = nn.Linear(6, 4), nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 4))
    net = Exit(head, rest, 0.4).eval()
    leaves = head(x).softmax(-1).max(-1).values >= 0.4
    report("Exit: some leave, some stay", 0 < int(leaves.sum()) < 20)
    report("Exit: each row is of its side",
           torch.allclose(net(x), torch.where(leaves[:, None], head(x), rest(x)), atol=1e-6))
    both = net.train()(x)
    report("Exit in training gives both", torch.equal(both[0], head(x)) and torch.equal(both[1], rest(x)))
    pair = Exit(lambda xs: head(xs[0]), lambda xs: rest(xs[0]) + xs[1], 0.4).eval()
    y = torch.randn(20, 4)
    report("Exit of two tensors", torch.allclose(pair([x, y]), torch.where(leaves[:, None], head(x), rest(x) + y),
                                                 atol=1e-6))
    gates = torch.rand(20, 3)
    gates[:4] = 0
    paths = [nn.Linear(6, 4) for _ in range(3)]
    shares = torch.where(gates > 0.5, gates, 0.0)
    wanted = sum(shares[:, p:p + 1] * path(x) for p, path in enumerate(paths))
    report("Gated: the paths above the threshold, weighted", torch.allclose(Gated(paths, 0.5)(x, gates), wanted,
                                                                            atol=1e-6))
    none = (gates > 0.5).any(1, keepdim=True)
    back = Gated(paths, 0.5, weighted=False, fallback=1)(x, gates)
    wanted = sum((gates > 0.5)[:, p:p + 1] * path(x) for p, path in enumerate(paths)) + ~none * paths[1](x)
    report("Gated: rows of no path take the fallback", torch.allclose(back, wanted, atol=1e-6))
    one = Gated(paths[0], 0.5, weighted=False)(x, gates[:, :1], y)
    report("Gated: rows of no path are as said", torch.allclose(one, torch.where(gates[:, :1] > 0.5, paths[0](x), y),
                                                                atol=1e-6))
    report("Gated: no row at all", not Gated(paths, 2.0)(x, gates).any())
    report("Patches is its body", torch.equal(Patches(rest)(x), rest(x)))


class Branch(nn.Module):
    """Two exits in each other, with something behind them and a batch norm before them."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(6)
        inner = Exit(nn.Linear(5, 4), nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 4)))
        self.outer = Exit(nn.Linear(6, 4), nn.Sequential(nn.Linear(6, 5), nn.Tanh(), inner))

    def forward(self, x):
        return 2 * self.outer(self.norm(x))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.rest = Exit(nn.Linear(6, 6), nn.Linear(6, 6))

    def forward(self, x):
        return self.rest(self.rest(x))


def told():
    """every_exit() gives the confidences of each exit for all rows, in eval mode, and changes nothing."""
    torch.manual_seed(5)
    net, x = Branch().train(), torch.randn(40, 6)
    net.norm(3 * torch.randn(50, 6) + 1)  # statistics that are not those of x
    before = {name: value.clone() for name, value in net.state_dict().items()}
    found = every_exit(net, x)
    report("every_exit: modes and statistics are as before", all(module.training for module in net.modules())
           and all(torch.equal(before[name], value) for name, value in net.state_dict().items()))
    outer = net.eval().outer
    rows, deep = net.norm(x), outer.rest[1](outer.rest[0](net.norm(x)))
    inner = outer.rest[2]
    wanted = [outer.head(rows), inner.head(deep), inner.rest(deep)]
    report("every_exit: logits of every row, the end last", len(found.logits) == 3 and all(
        torch.allclose(a, b, atol=1e-6) for a, b in zip(found.logits, wanted)))
    shares = torch.stack([logits.softmax(-1).amax(-1) for logits in wanted], 1)
    report("every_exit: confidences", torch.allclose(found.confidences, shares, atol=1e-6))
    outer.threshold, inner.threshold = shares[:, 0].quantile(0.6).item(), shares[:, 1].median().item()
    stays = shares[:, 0] < outer.threshold
    left = int((~stays).sum()), int((stays & (shares[:, 1] >= inner.threshold)).sum())
    report("every_exit: the result is the network's, some rows leave at each exit",
           torch.allclose(every_exit(net, x).result, net(x), atol=1e-6) and min(left) > 0 and sum(left) < 40, left)
    labels = torch.randint(0, 4, (40,))
    report("every_exit: which exits are right", torch.equal(
        found.correct(labels), torch.stack([logits.argmax(-1) == labels for logits in wanted], 1)))
    chosen = calibrate(found.confidences, found.correct(labels), [1, 2, 3], cost=2.0)
    report("every_exit: calibrate() takes what it gives", len(chosen.thresholds) == 2 and chosen.cost <= 2)
    pair = Exit(lambda xs: xs[0], lambda xs: xs[0] + xs[1], 0.4).eval()
    report("every_exit: an exit of two tensors", torch.equal(every_exit(pair, [x, x]).logits[1], 2 * x))
    for name, wrong in ("no exit", nn.Linear(6, 4)), ("an exit behind another", Twice()):
        try:
            every_exit(wrong, x)
            report(f"every_exit, {name}: refused", False, "taken")
        except ValueError as why:
            report(f"every_exit, {name}: refused", "Exit" in str(why), why)


def exports():
    runner = session.opened()
    with tempfile.TemporaryDirectory() as folder:
        for name, (net, x) in markers_nets.networks().items():
            y, counts = markers_nets.taken(net, x)
            stored = np.load(os.path.join("tests", "markers", f"{name}.npz"))
            report(f"{name}: tests/markers is of this network", np.allclose(stored["y"], y, atol=1e-5) and all(
                (stored[key] == count).all() for key, count in counts.items()))
            path = os.path.join(folder, f"{name}.onnx")
            markers_nets.export(net, x, path)
            if runner is None:
                continue
            result = imported(path, shapes=["x=" + ",".join(map(str, x.shape))])
            result.walk.graph.write(path + ".gguf")
            runner.open(path + ".gguf")
            made = compare.run_ours(runner, result.walk, {"x": x.numpy()})[0]
            report(f"{name}: exported afresh, as eager", np.allclose(made, y, rtol=1e-5, atol=1e-5))


def one_call():
    """export() writes what eager mode gives, free rows too; what it must refuse leaves no file, and the one before."""
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Dropout(0.5), nn.Linear(8, 3))
    x = torch.randn(5, 6)
    runner = session.opened()
    if runner is None:
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "net.gguf")
        apart = export(net, x, path, names=["x"], rows=9)
        report("export: in one call, as eager mode in eval()", apart < 1e-5 and net.training, apart)
        with runner:
            runner.open(path)
            y = runner.run([("x", x[:2].numpy())], [(runner_output(path), (2, 3), "f32")])[0]
        report("with fewer rows", np.allclose(y, net.eval()(x[:2]).detach().numpy(), atol=1e-5))
        before = open(path, "rb").read()
        for name, how in (("a tolerance of nothing", {"tolerance": -1.0}), ("one row that is free", {"rows": 9})):
            try:
                export(net, x[:1] if "rows" in how else x, path, **how)
                report(f"{name}: refused", False, "written")
            except ValueError as why:
                report(f"{name}: refused", str(why) != "" and open(path, "rb").read() == before
                       and os.listdir(folder) == ["net.gguf"], str(why))


def runner_output(path):
    from gguf import GGUFReader
    names = GGUFReader(path).get_field("brainstorm.node.name")
    return bytes(names.parts[names.data[-1]]).decode()


eager()
told()
exports()
one_call()
sys.exit(end())
