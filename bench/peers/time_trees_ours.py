"""Our side of networks over trees and graphs: graphs by the Python writer. time_ours.py runs them."""

import numpy as np

from time_trees import Ablation, Counted, Dag, TreeFc, TreeLstm


def structure(g, net):
    """children of all vertices as rows, and how often each goes round: what the lists say, which a run brings."""
    lengths, indices = net.lists
    lists = g.input("lengths", "i32", [net.vertices]), g.input("indices", "i32", [len(indices)])
    children = g.children(*lists, net.slots)
    return {"lengths": lengths, "indices": indices}, g.rows(children), g.rows(g.levels(children))


def begun(g, net, leaves):
    """Rows of all vertices: what the leaves have, zeros for others."""
    rest = g.constant(f"none{leaves}", np.zeros((len(net.below), net.units), np.float32))
    return g.rows(g.concat([leaves, rest], 0))


def inner(g, level):
    """How often a vertex goes round that has its value before, if it is a leaf."""
    return g.sub(level, g.constant("one", np.array([1], np.int32)))


def one_by_one(g, net, given, level):
    """Turns of their own, in the order of their numbers; of leaves that of others, which is none."""
    given["turn"] = np.arange(net.vertices, dtype=np.int32)[:, None] - (net.leaves - 1)
    given["turn"][: net.leaves] = 0
    return g.rows(g.input("turn", "i32", [net.vertices, 1]), level), len(net.below)


def around(g, net, level, carried, turns=0, no_lift=0):
    loop = g.loop(level, "vertices", bound=max(turns or net.steps, 1), count=level, in_turn=1, no_lift=no_lift)
    return loop, [g.loop_carry(loop, value) for value in carried]


def ended(g, loop, carried, value):
    """`value` is what is carried on, and the result."""
    y = g.loop_next(loop, carried, value)
    g.loop_end(loop)
    g.output("y", g.collect(y))


def sums(g, loop, carried, children):
    return g.reduce(g.loop_rows(loop, carried, g.scatter(loop, 0, children)), "sum", axis=0)


def gates(g, net, form, sums):
    """Of i, o and u: a product for all, or one for each."""
    w = net.weights["u_iou"]
    if form != "gates apart":
        return g.linear(sums, "u_iou", w)
    return g.concat([g.linear(sums, f"u_{name}", part) for name, part in zip("iou", np.split(w, 3))], 0)


def tree_lstm(g, net, form):
    units, w = net.units, net.weights
    bias = g.constant("bias", w["b"])
    part = lambda v, first, count=1, axis=0: g.slice(v, axis, first * units, count * units)
    given, children, level = structure(g, net)
    given["x"] = net.inputs["x"]
    if form not in ("leaves in the loop", "products in the loop"):
        wx = g.linear(g.input("x", "f32", list(given["x"].shape)), "w", w["w"], w["b"])
        c = g.mul(g.activation(part(wx, 0, axis=1), "sigmoid"), g.activation(part(wx, 2, axis=1), "tanh"))
        h = g.mul(g.activation(part(wx, 1, axis=1), "sigmoid"), g.activation(c, "tanh"))
        turns = inner(g, level), 0
        turns = one_by_one(g, net, given, level) if form == "vertex by vertex" else turns
        loop, (h, c) = around(g, net, turns[0], [begun(g, net, h), begun(g, net, c)], turns[1])
        iou, forget = part(bias, 0, 3), part(bias, 3)
    else:
        given["x"] = np.concatenate([given["x"], np.zeros((len(net.below), given["x"].shape[1]), np.float32)])
        x = g.rows(g.input("x", "f32", list(given["x"].shape)))
        product = lambda x: g.linear(x, "w", w["w"], w["b"])
        zeros = g.constant("zeros", np.zeros(units, np.float32))
        own = product(x) if form == "leaves in the loop" else x
        loop, (h, c) = around(g, net, level, [zeros, zeros], no_lift=form == "products in the loop")
        own = g.scatter(loop, 0, own)
        own = own if form == "leaves in the loop" else product(own)
        iou, forget = part(own, 0, 3), part(own, 3)
    who = g.scatter(loop, 0, children)
    h_below, c_below = g.loop_rows(loop, h, who), g.loop_rows(loop, c, who)
    total = lambda v: g.reduce(v, "sum", axis=0)
    iou = g.add(gates(g, net, form, total(h_below)), iou)
    f = g.activation(g.add(g.linear(h_below, "u_f", w["u_f"]), forget), "sigmoid")
    c_next = g.add(g.mul(g.activation(part(iou, 0), "sigmoid"), g.activation(part(iou, 2), "tanh")),
                   total(g.mul(f, c_below)))
    h_next = g.mul(g.activation(part(iou, 1), "sigmoid"), g.activation(c_next, "tanh"))
    g.loop_next(loop, c, c_next)
    ended(g, loop, h, h_next)
    return given


def tree_fc(g, net, _):
    given, children, level = structure(g, net)
    given["x"] = net.inputs["x"]
    leaves = g.input("x", "f32", list(given["x"].shape))
    loop, (h,) = around(g, net, inner(g, level), [begun(g, net, leaves)])
    both = g.reshape(g.loop_rows(loop, h, g.scatter(loop, 0, children)), [2 * net.units])
    ended(g, loop, h, g.linear(both, "w", net.weights["w"], net.weights["b"], act="tanh"))
    return given


def dag(g, net, _):
    given, children, level = structure(g, net)
    given["x"] = net.inputs["x"]
    wx = g.linear(g.rows(g.input("x", "f32", list(given["x"].shape))), "w", net.weights["w"])
    loop, (h,) = around(g, net, level, [g.constant("zeros", np.zeros(net.units, np.float32))])
    own = g.add(g.linear(sums(g, loop, h, children), "u", net.weights["u"]), g.scatter(loop, 0, wx))
    ended(g, loop, h, g.activation(own, "tanh"))
    return given


def counted(g, net, _):
    given, children, level = structure(g, net)
    given["x"] = net.inputs["x"]
    x = g.rows(g.input("x", "f32", list(given["x"].shape)))
    loop, (h,) = around(g, net, level, [x])
    ended(g, loop, h, g.add(sums(g, loop, h, children), g.scatter(loop, 0, x)))
    return given


BUILD = {TreeLstm: tree_lstm, Ablation: tree_lstm, TreeFc: tree_fc, Dag: dag, Counted: counted}
