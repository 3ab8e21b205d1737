"""Networks with loops in turns: which, in what sizes, beside whom.

A case is a network of time_forms.py; a row of it one of our forms, and all forms and contenders take their turns
together. What computes something else than the definition is not timed. Owns: the sizes; what counts as wrong.
"""

import numpy as np

import time_ours
from time_decide import Beam, Deciding, Grows
from time_forms import Attention, Blockdrop, Lstm, Nasrnn, Rows, Seq2seq, Trips
from time_skipnet import Skipnet
from time_trees import Ablation, Counted, Dag, TreeFc, TreeLstm, Vertices, complete, random_splits, skewed
from turns import in_turns, ratios, relative_error

ROUNDING = 1e-6  # an error that needs no comparison


def lstm():
    for layers in (1, 2):
        for rows in (1, 32):
            for steps in (8, 32, 128):
                yield Lstm(f"lstm {layers} of 300 to 512, {steps} of {rows}", steps, rows, 300, 512, layers,
                           repeated=True)


def deep():
    for rows in (1, 64):
        yield Lstm(f"deep lstm 10 of 256, 64 of {rows}", 64, rows, 256, 256, 10)


def nasrnn():
    for rows in (1, 64):
        yield Nasrnn(f"nasrnn 256, 1000 of {rows}", 1000, rows, 256)


def attention():
    for rows in (1, 64):
        yield Attention(f"attention 12 x 64, 32 to 64 of {rows}", rows, 32, 64)


def sentence_lengths(rows):
    """As of the Penn Treebank: 21 words on average, 83 at most. The longest first, as PyTorch packs them."""
    return sorted(np.clip(np.random.default_rng(3).gamma(4.4, 4.8, rows).astype(int), 1, 83).tolist(), reverse=True)


def ptb():
    for units in (64, 256, 512, 1024):
        for rows in (20, 256):
            yield Lstm(f"ptb fixed {units}, 64 of {rows}", 64, rows, units, units)
            lengths = sentence_lengths(rows)
            yield Lstm(f"ptb var {units}, up to {max(lengths)} of {rows}", max(lengths), rows, units, units,
                       lengths=lengths)


def seq2seq():
    for rows in (1, 64):
        yield Seq2seq(f"seq2seq 256, 3797 words, up to 50 of {rows}", rows, 256, 3797, 50)


def skip():
    """A share of the rows ends after its first step."""
    for share in (0, 25, 50, 75, 100):
        done = 64 * share // 100
        yield Lstm(f"skip {share} %: lstm 256, 64 of 64", 64, 64, 256, 256, lengths=[64] * (64 - done) + [1] * done)


def trips():
    yield Trips("trip of one add, top level", 4096, "breadth", 1.0)
    yield Trips("trip of one add, in a tile", 4096, "depth", 0.2)
    for rows in (1, 32):
        yield Lstm(f"lstm step of 32 to 32, 256 of {rows}", 256, rows, 32, 32, forms=("Wx inside",), bare=True)


def blockdrop():
    for rows in (1, 64):
        for share in (0, 25, 50, 75, 100):
            yield Blockdrop(f"blockdrop of {rows}, skip {share} %", rows, share / 100)


def beam():
    for rows in (1, 64):
        yield Beam(f"beam of 4: 256, 3797 words, up to 50 of {rows}", rows, 256, 3797, 50)


def grows():
    for roots in (1, 64):
        for depth in (4, 8):
            yield Grows(f"grows of 64, up to {2 ** depth - 1} of {roots}", roots, depth)


def skipnet():
    """By the bias of its gates a share of the gated blocks is skipped."""
    for rows in (1, 4):
        for share, bias in ((0, 20.0), (50, -1.0), (75, -2.1)):
            yield Skipnet(f"skipnet-101 of {rows}, skip {share} %", rows, bias)


def words_of(sentences):
    """As of the Stanford Sentiment Treebank: 19 words on average, 2 to 56."""
    return np.clip(np.random.default_rng(4).gamma(4.2, 4.6, sentences).astype(int), 2, 56).tolist()


def treelstm():
    for shape in (random_splits, skewed):
        word = "random" if shape is random_splits else "skewed"
        yield TreeLstm(f"tree-lstm 300 to 150, 24 {word} of 56", shape, 24 * [56], 300, 150)
        yield TreeLstm(f"tree-lstm 300 to 150, 64 {word} of 2 to 56", shape, words_of(64), 300, 150)
        yield TreeLstm(f"tree-lstm 300 to 150, 1 {word} of 28", shape, [28], 300, 150)


def treefc():
    for leaves in (128, 256):
        for trees in (1, 20):
            yield TreeFc(f"tree-fc 256, {trees} of {leaves} leaves", complete, trees * [leaves], 256)
    for trees in (1, 20):
        yield TreeFc(f"rae 1024 to 512, {trees} of 127 nodes", random_splits, trees * [64], 512)


def graphs():
    for vertices in (100, 2000):
        yield Dag(f"dag 256, fan-in 5, {vertices} vertices", vertices, 5, 256)


def structure():
    for leaves in (5, 64, 512, 4096, 32768, 262144):
        yield Counted(f"structure of {2 * leaves - 1} vertices", complete, [leaves])
    yield Counted("structure of 2047 vertices, a chain", skewed, [1024])


def ablations():
    """What each thing is worth, where it is worth most, and where it costs."""
    for shape, sizes in ((random_splits, 24 * [56]), (random_splits, [28]), (skewed, 24 * [56]), (skewed, [28])):
        word = "random" if shape is random_splits else "skewed"
        yield Ablation(f"tree-lstm 300 to 150, {len(sizes)} {word} of {sizes[0]}", shape, sizes, 300, 150)
    for share in (0, 25, 75):
        done = 64 * share // 100
        yield Rows(f"skip {share} %: lstm 256, 64 of 64", 64, 64, 256, 256, lengths=[64] * (64 - done) + [1] * done)


TINY = {"lstm": lambda: [Lstm("lstm 2 of 5 to 6, 4 of 3", 4, 3, 5, 6, 2, repeated=True)],
        "deep": lambda: [Lstm("deep lstm 3 of 6, 4 of 3", 4, 3, 6, 6, 3)],
        "nasrnn": lambda: [Nasrnn("nasrnn 16, 5 of 3", 5, 3, 16)],
        "attention": lambda: [Attention("attention, 2 to 4 of 2", 2, 2, 4)],
        "ptb": lambda: [Lstm("ptb var 8, up to 5 of 4", 5, 4, 8, 8, lengths=[5, 3, 2, 1])],
        "seq2seq": lambda: [Seq2seq("seq2seq 16, 40 words, up to 12 of 5", 5, 16, 40, 12)],
        "skip": lambda: [Lstm("skip 50 %: lstm 8, 4 of 4", 4, 4, 8, 8, lengths=[4, 4, 1, 1])],
        "blockdrop": lambda: [Blockdrop("blockdrop of 2, skip 50 %", 2, 0.5)],
        "beam": lambda: [Beam("beam of 4: 16, 40 words, up to 12 of 5", 5, 16, 40, 12)],
        "grows": lambda: [Grows("grows of 64, up to 7 of 3", 3, 3)],
        "skipnet": lambda: [Skipnet("skipnet of 2", 2, 0.0, side=32, width=8, blocks=(2, 2, 3, 1), classes=10)],
        "treelstm": lambda: [TreeLstm("tree-lstm 5 to 4, 2 random of 5", random_splits, [5, 4], 5, 4),
                             TreeLstm("tree-lstm 5 to 4, 1 skewed of 4", skewed, [4], 5, 4)],
        "treefc": lambda: [TreeFc("tree-fc 6, 2 of 8 leaves", complete, [8, 4], 6)],
        "graphs": lambda: [Dag("dag 6, fan-in 3, 14 vertices", 14, 3, 6)],
        "structure": lambda: [Counted("structure of 15 vertices", complete, [8])],
        "ablations": lambda: [Ablation("tree-lstm 5 to 4, 2 random of 5", random_splits, [5, 4], 5, 4),
                              Rows("skip 50 %: lstm 8, 4 of 4", 4, 4, 8, 8, lengths=[4, 4, 1, 1])],
        "trips": lambda: [Trips("trip of one add", 16, "depth", 0.2),
                          Lstm("lstm step of 8 to 8", 4, 2, 8, 8, forms=("Wx inside",), bare=True)]}
GROUPS = {"lstm": lstm, "deep": deep, "nasrnn": nasrnn, "attention": attention, "ptb": ptb, "seq2seq": seq2seq,
          "skip": skip, "blockdrop": blockdrop, "beam": beam, "grows": grows, "skipnet": skipnet,
          "treelstm": treelstm, "treefc": treefc, "graphs": graphs,
          "structure": structure, "ablations": ablations, "trips": trips}


def cases(only, tiny=False):
    """(group, network): all, or those of the groups named and those whose name has such a part."""
    for group, make in (TINY if tiny else GROUPS).items():
        for net in make():
            if not only or group in only or any(part in net.name for part in only if part not in GROUPS):
                yield group, net


class Repeated:
    """Our runs of a step each, by bench/products."""
    name = "runs"

    def __init__(self, run, net):
        self.products = run.products
        self.products.open(net.case, run.tier, [net.inputs["x"]], net.weights)

    def run(self, times):
        return self.products.run(times)

    def result(self):
        return self.products.result()


class Bare:
    """Our kernel, called for each step without anything around it. Gives no result."""
    name = "kernels"

    def __init__(self, run, net):
        steps, rows, inputs, units = net.case.arguments[:4]
        self.products, self.line = run.products, f"bare {run.tier} {inputs} {units} {rows} {steps}"

    def run(self, times):
        return float(self.products.ask(f"{self.line} {times}"))


def others(run, net):
    """Who stands beside our forms; of an ablation they stand beside each other."""
    made = []
    if net.ablation:
        return made
    if "onnxruntime" in run.peers:
        import time_onnx
        made.append(time_onnx.made(net, run.file("time.onnx")))
    if "torch" in run.peers:
        import time_decide_torch
        import time_torch
        import time_trees_torch
        made += (time_trees_torch.made(net) if isinstance(net, Vertices)
                 else time_decide_torch.made(net) if isinstance(net, Deciding) else [time_torch.made(net)])
    made += [Repeated(run, net)] if net.repeated else []
    made += [Bare(run, net)] if net.bare else []
    return [r for r in made if r is not None]


class Whole:
    """The first form beside the others."""
    name = "whole"


def errors_of(runners, truth):
    """{runner: how far it is from the truth}"""
    off = {}
    for r in runners:
        if not isinstance(r, Bare):
            r.run(1)
            off[r] = relative_error(r.result(), truth)
    return off


def wrong(off):
    """What is further off than twice PyTorch's error (where it is not there: than rounding explains), in words."""
    theirs = [e for r, e in off.items() if r.name == "torch"]
    most = max(2 * theirs[0], ROUNDING) if theirs else 10 * ROUNDING
    return ", ".join(f"{r.name} {getattr(r, 'form', '')} is off by {e:.1e}" for r, e in off.items()
                     if not e <= (10 * most if r.name in ("torch", "recursion", "onnxruntime") else most))


def other_bytes(net, forms):
    """Which forms of an ablation do not give the bytes of the first, in words."""
    first = forms[0].result().tobytes() if net.ablation else b""
    return ", ".join(f"{f.form} gives other bytes" for f in forms[1:] if net.ablation and f.result().tobytes() != first)


def rows_of_case(run, net):
    """A row for each of our forms."""
    forms = [time_ours.Form(net, form, run.tier, run.folder) for form in net.forms]
    beside = others(run, net)
    runners = [*forms, *beside]
    off = errors_of(runners, net.definition())
    bad = wrong(off) or other_bytes(net, forms)
    times = None if bad else in_turns(runners, run.turns, run.seconds)
    limit = net.limit_us or run.limits.us(net.flops, *net.reads)
    for i, ours in enumerate(forms):
        row = {"case": ", ".join(filter(None, (net.name, ours.form))), "flops": net.flops, "elements": net.elements,
               "arenas": ours.arenas, "allocations": ours.allocations, "limit": limit, "error": off[ours]}
        row.update({"theirs": off[r] for r in beside if r.name == "torch"})
        if bad:
            row["wrong"] = bad
        else:
            whole = [0] if net.ablation else []
            ratios(row, [ours, *beside, *(Whole for _ in whole)],
                   times[:, [i, *range(len(forms), len(runners)), *whole]])
        yield row
    for ours in forms:
        ours.end()
