"""From mixtures to graphs: an expert is a block with its own record, so that experts stream (docs/streaming.md).

Relies on layer.py and Graph. Must never read a file.
"""

import numpy as np

from .. import Graph
from .layer import Refused

ROWS = 64  # of a run, at most, where nothing else is said
OAI_SLOPE, OAI_LIMIT, LOWEST = 1.702, 7.0, -3.4e38  # of swiglu_oai


def _gated(g, gate, up, act):
    if act != "swiglu_oai":
        return g.mul(gate, up)
    gate = g.clip(gate, LOWEST, OAI_LIMIT)
    glu = g.mul(gate, g.activation(g.affine(gate, OAI_SLOPE, 0.0), "sigmoid"))
    return g.mul(glu, g.affine(g.clip(up, -OAI_LIMIT, OAI_LIMIT), 1.0, 1.0))


def _expert(g, rows, name, weights, act, biases=(None, None, None)):
    """weights, biases: of gate, up, down."""
    of = {what: (w, b) for what, w, b in zip(("gate", "up", "down"), weights, biases)}
    gate = g.linear(rows, f"{name}.gate", *of["gate"], act="none" if act == "swiglu_oai" else act)
    hidden = _gated(g, gate, g.linear(rows, f"{name}.up", *of["up"]), act)
    return g.linear(hidden, f"{name}.down", *of["down"])


def _shares(g, rows, name, mixture):
    scores = g.linear(rows, f"{name}.router", mixture.router, mixture.router_bias)
    return g.softmax(scores) if mixture.gating == "softmax" else g.activation(scores, "sigmoid")


def _normed(g, x, name, mixture, bare):
    if bare or mixture.norm is None:
        return x
    return g.rms_norm(x, f"{name}.norm", mixture.norm, mixture.epsilon)


def _shared(g, rows, name, mixture):
    shared = mixture.shared
    y = _expert(g, rows, f"{name}.shared", (shared["gate"], shared["up"], shared["down"]), mixture.act)
    if "router" in shared:
        y = g.mul(y, g.linear(rows, f"{name}.shared.router", shared["router"], act="sigmoid"))
    return y


def _choice(g, shares, name, mixture):
    """What experts are chosen by."""
    if mixture.choice_bias is None:
        return shares
    return g.add(shares, g.constant(f"{name}.choice", np.asarray(mixture.choice_bias, np.float32)))


def _experts(g, rows, router, shares, name, mixture):
    """What the chosen experts give together. The router weighs by what it chose by: where that is not the shares, rows
    take their share along to each expert."""
    columns = ([None] * mixture.experts if mixture.choice_bias is None else
               [g.slice(shares, -1, e, 1) for e in range(mixture.experts)])
    made, taken = [], []
    for e, column in enumerate(columns):
        biases = [None if b is None else b[e] for b in (mixture.gate_bias, mixture.up_bias, mixture.down_bias)]
        with g.branch(router, e, f"{name}.expert{e}", rows) as chosen:
            y = _expert(g, chosen, f"{name}.expert{e}", (mixture.gate[e], mixture.up[e], mixture.down[e]), mixture.act,
                        biases)
            if column is not None:
                taken.append(g.scatter(router, e, column))
                y = g.mul(y, taken[-1])
            made.append(y)
    if not taken:
        return g.gather(router, made, mode="weighted")
    y = g.gather(router, made, mode="add")
    return g.binary(y, g.gather(router, taken, mode="add"), "div") if mixture.normalise else y


def _times(g, x, factor):
    return x if factor == 1.0 else g.affine(x, factor, 0.0)


def add_mixture(g, x, mixture, bare=False, after=None):
    """The rows that the mixture makes of rows x. bare: without its norm, and what would be added to x. after: the
    mixture of the next layer, whose router is told early what it will probably choose."""
    name = f"layer{mixture.number}"
    rows = _normed(g, x, name, mixture, bare)
    shares = _shares(g, rows, name, mixture)
    router = g.route(_choice(g, shares, name, mixture), f"{name}.route", "topk", mixture.experts, k=mixture.k,
                     normalise=int(mixture.normalise and mixture.choice_bias is None))
    if after is not None:
        ahead = f"{name}.ahead"
        probably = _shares(g, _normed(g, x, ahead, after, bare), ahead, after)
        g.look_ahead(_choice(g, probably, ahead, after), f"layer{after.number}.route")
    y = _times(g, _experts(g, rows, router, shares, name, mixture), mixture.scale)
    if mixture.shared:
        y = g.add(y, _shared(g, rows, name, mixture))
    y = _times(g, y, mixture.residual)
    return y if bare or mixture.norm is None else g.add(x, y)


def mixture_graph(mixtures, name="mixture", rows=ROWS, bare=False):
    """One graph: input `x` f32 [n, d] with n up to `rows`, output `y` of that shape; several mixtures follow each
    other."""
    mixtures = list(mixtures)
    if not mixtures:
        raise Refused("there are no layers with experts")
    if len({m.width for m in mixtures}) != 1:
        raise Refused(f"layers are {', '.join(str(m.width) for m in mixtures)} wide: they cannot follow each other")
    if len({m.number for m in mixtures}) != len(mixtures):
        raise Refused("a layer is there twice")
    g = Graph(name)
    x = g.rows(g.input("x", "f32", [g.symbol("n", rows), mixtures[0].width]))
    for mixture, after in zip(mixtures, [*mixtures[1:], None]):
        x = add_mixture(g, x, mixture, bare, after)
    g.output("y", g.collect(x))
    return g
