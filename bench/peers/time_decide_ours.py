"""Our side of networks that decide while they run: graphs by the Python writer. time_ours.py runs them."""

import numpy as np

from product_cases import LSTM
from time_decide import Beam, Grows
from time_skipnet import Skipnet


def best_of(g, net, score, more):
    """Of all words behind all beams the best: their scores, from which beam they come, and the words. Their numbers are
    exact in f32; halves keep the quotients away from whole numbers."""
    total = g.reshape(g.add(more, g.reshape(score, [net.BEAMS, 1])), [net.BEAMS * net.words])
    score, number = g.topk(total, net.BEAMS)
    real = g.convert(number, "f32")
    beam = g.unary(g.affine(real, 1 / net.words, 0.5 / net.words), "floor")
    word = g.sub(real, g.affine(beam, float(net.words), 0.0))
    return score, g.convert(beam, "i32"), g.convert(word, "i32")


def beam(g, net, _):
    rows, units, k, w = net.rows, net.units, net.BEAMS, net.weights
    first = g.rows(g.input("first", "i32", [rows, 1]))
    state = [g.reshape(g.rows(g.input(name, "f32", [rows, units]), first), [1, units]) for name in "hc"]
    most = g.rows(g.constant("most", np.full((rows, 1), net.most, np.int32)), first)
    table, end = g.constant("embedding", w["embedding"]), g.constant("end", np.array([net.END], np.int32))
    ends, none = g.constant("ends", net.ends), g.constant("none", np.zeros((k, net.most), np.int32))
    begins, goes_on = g.constant("begins", net.begins), g.constant("goes on", np.zeros(k, np.int32))
    loop = g.loop(first, "decode", bound=net.most, count=most)
    token = g.loop_carry(loop, g.concat(k * [first], 0))
    h, c = (g.loop_carry(loop, g.concat(k * [v], 0)) for v in state)
    score, ended, words = (g.loop_carry(loop, value) for value in (begins, goes_on, none))
    h_next, c_next = g.lstm(g.gather_rows(table, token), h, c, "lstm", *(w[f"lstm.{name}"] for name in LSTM))
    logits = g.linear(h_next, "words", w["words.weight"], w["words.bias"])
    more = g.sub(logits, g.reduce(logits, "log_sum_exp", axis=1, keep=1))
    more = g.where(g.reshape(ended, [k, 1]), ends, more)
    score_next, beam, word = best_of(g, net, score, more)
    ended_next = g.compare(g.select(ended, beam), g.compare(word, end, "equal"), "or")
    words_next = g.scatter_rows(g.select(words, beam), g.loop_trip(loop), g.reshape(word, [k, 1]), axis=1)
    for carried, value in ((token, word), (h, g.select(h_next, beam)), (c, g.select(c_next, beam)),
                           (score, score_next), (ended, ended_next)):
        g.loop_next(loop, carried, value)
    y = g.loop_next(loop, words, words_next)
    g.loop_end(loop, g.affine(g.reduce(g.convert(ended_next, "f32"), "min", axis=0), -1.0, 1.0))
    g.output("y", g.reshape(g.collect(g.slice(y, 0, 0, 1)), [rows, net.most]))
    return net.inputs


def by_path(g, net, made, child, above, was):
    """A router sends a row to the product of the child that it is; a root stays as it is."""
    u, b = np.split(net.weights["u"], 2), net.weights["b"]
    none, one = g.sub(child, child), g.constant("one", np.array([1], np.int32))
    router, states = g.route(g.where(made, g.add(child, one), none), "child", "label", 3), [None]
    for k in range(2):
        with g.branch(router, k + 1, f"child{k}", above) as x:
            states.append(g.linear(x, f"u{k}", u[k], b, act="tanh"))
    return g.gather(router, states, was)


def by_both(g, net, made, child, above, was):
    """A row takes one of the products for both children."""
    both = g.reshape(g.linear(above, "u", net.weights["u"]), [2, net.STATE])
    state = g.add(g.reshape(g.select(both, child), [net.STATE]), g.constant("b", net.weights["b"]))
    return g.where(made, g.activation(state, "tanh"), was)


def grows(g, net, form):
    """Rows of all vertices that there may be."""
    given = {"x": np.zeros(net.result_shape, np.float32), "roots": np.zeros((net.room, 1), np.int32)}
    given["x"][: net.roots], given["roots"][: net.roots] = net.inputs["x"], 1
    x0 = g.rows(g.input("x", "f32", [net.room, net.STATE]))
    roots = g.rows(g.input("roots", "i32", [net.room, 1]), x0)
    none, last = (g.constant(name, np.array([n], np.int32)) for name, n in (("none", 0), ("last", net.depth - 1)))
    loop = g.loop(x0, "grows", bound=net.depth, count=roots, grows=1)
    was, parent = g.loop_carry(loop, x0), g.loop_parent(loop)
    above = g.reshape(g.loop_rows(loop, was, parent), [net.STATE])
    made = g.compare(parent, none, "greater_equal")
    state = (by_path if form == "a path a child" else by_both)(g, net, made, g.loop_child(loop), above, was)
    makes = g.argmax(g.linear(state, "count", net.weights["count.weight"], net.weights["count.bias"]))
    y = g.loop_next(loop, was, state)
    g.loop_end(loop, g.where(g.compare(g.loop_trip(loop), last, "less"), makes, none))
    g.output("y", g.collect(y))
    return given


def skipnet(g, net, _):
    """A router with one path a gate: images whose probability is above a half take it, others stay as they are."""
    w = net.weights
    linear = lambda x, name: g.linear(x, name, w[f"{name}.weight"], w[f"{name}.bias"])
    conv = lambda x, name, stride=1, act="none": g.conv2d(
        x, name, w[f"{name}.weight"], w[f"{name}.bias"], stride=stride, act=act, padding="explicit",
        pad=w[f"{name}.weight"].shape[-1] // 2)

    def block(x, name, stride):
        y = conv(conv(conv(x, f"{name}.a", act="relu"), f"{name}.b", stride, "relu"), f"{name}.c")
        return g.activation(g.add(y, conv(x, f"{name}.shortcut", stride) if name.endswith(".0") else x), "relu")

    x = g.rows(g.input("x", "f32", list(net.inputs["x"].shape)))
    h = c = g.rows(g.constant("zeros", np.zeros((net.rows, net.EMBED), np.float32)), x)
    x = g.pool2d(conv(x, "first", 2, "relu"), "max", 3, 2, 1, padding="explicit")
    for name, _, stride, gated in net.blocks():
        if not gated:
            x = block(x, name, stride)
            continue
        h, c = g.lstm(linear(g.pool2d(x, everything=1), f"{name}.gate"), h, c, "lstm",
                      *(w[f"lstm.{part}"] for part in LSTM))
        kept = g.route(g.activation(linear(h, "gate"), "sigmoid"), f"keep {name}", "threshold", 1, threshold=0.5)
        with g.branch(kept, 0, f"block {name}", x) as y:
            y = block(y, name, stride)
        x = g.gather(kept, [y], x)
    g.output("y", g.collect(linear(g.pool2d(x, everything=1), "last")))
    return net.inputs


BUILD = {Beam: beam, Grows: grows, Skipnet: skipnet}
