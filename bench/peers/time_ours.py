"""Our side of networks with loops: model files by the Python writer, run by the program bench/networks, which see."""

import os

import numpy as np

import time_decide_ours
import time_trees_ours
from network_ours import Ours
from product_cases import LSTM
from time_forms import Attention, Blockdrop, Lstm, Nasrnn, Rows, Seq2seq, Trips


def new_graph(name):
    from brainstorm import Graph
    return Graph(name)


def lstm_weights(net, layer):
    return [net.weights[f"op{layer}.{name}"] for name in LSTM]


def lstm_before(g, net, x, zeros):
    """A loop a layer, behind one product for all its inputs."""
    for layer in range(net.layers):
        weight_ih, weight_hh, bias_ih, bias_hh = lstm_weights(net, layer)
        x = g.linear(x, f"op{layer}i", weight_ih, bias_ih)
        loop = g.loop(zeros, f"time{layer}", over=x)
        h, c = g.loop_carry(loop, zeros), g.loop_carry(loop, zeros)
        h_next, c_next = g.lstm(g.loop_slice(loop, x), h, c, f"op{layer}", None, weight_hh, None, bias_hh)
        g.loop_next(loop, h, h_next)
        g.loop_next(loop, c, c_next)
        x = g.loop_collect(loop, h_next)
        g.loop_end(loop)
    return x


def lstm_inside(g, net, x, zeros, length):
    """A trip goes through all layers."""
    loop = g.loop(zeros, "time", over=x, count=length)
    y = g.loop_slice(loop, x)
    for layer in range(net.layers):
        h, c = g.loop_carry(loop, zeros), g.loop_carry(loop, zeros)
        y, c_next = g.lstm(y, h, c, f"op{layer}", *lstm_weights(net, layer))
        g.loop_next(loop, h, y)
        g.loop_next(loop, c, c_next)
    y = g.loop_collect(loop, y)
    g.loop_end(loop)
    return y


def lstm_masked(g, net, x, zeros, length):
    """All rows make all trips; what a row has when it is done stays."""
    loop = g.loop(zeros, "time", over=x)
    h, c = g.loop_carry(loop, zeros), g.loop_carry(loop, zeros)
    y, c_next = g.lstm(g.loop_slice(loop, x), h, c, "op0", *lstm_weights(net, 0))
    goes_on = g.compare(g.loop_trip(loop), g.scatter(loop, 0, length), "less")
    kept = lambda new, old: g.where(goes_on, new, old)
    g.loop_next(loop, h, kept(y, h))
    g.loop_next(loop, c, kept(c_next, c))
    y = g.loop_collect(loop, kept(y, g.affine(h, 0.0, 0.0)))
    g.loop_end(loop)
    return y


def lstm_packed(g, net, x, zeros, length, start):
    """One layer. One product for the steps that rows have, which lie one after the other: no row computes padding."""
    weight_ih, weight_hh, bias_ih, bias_hh = lstm_weights(net, 0)
    projected = g.linear(x, "op0i", weight_ih, bias_ih)
    loop = g.loop(zeros, "time", bound=net.steps, count=length)
    h, c = g.loop_carry(loop, zeros), g.loop_carry(loop, zeros)
    at = g.add(g.scatter(loop, 0, start), g.loop_trip(loop))
    step = g.reshape(g.gather_rows(projected, at), [4 * net.units])
    h_next, c_next = g.lstm(step, h, c, "op0", None, weight_hh, None, bias_hh)
    g.loop_next(loop, h, h_next)
    g.loop_next(loop, c, c_next)
    y = g.loop_collect(loop, h_next)
    g.loop_end(loop)
    return y


def lstm_ragged(g, net, form):
    """Each row makes its own number of trips."""
    steps, rows, inputs, units = net.case.arguments[:4]
    length = g.rows(g.input("length", "i32", [rows, 1]))
    zeros = g.rows(g.constant("zeros", np.zeros((rows, units), np.float32)), length)
    lengths = np.array(net.lengths, np.int32)[:, None]
    given = {"length": lengths, "x": net.inputs["x"].swapaxes(0, 1)}
    if form == "Wx before":
        given["x"] = np.concatenate([x[:n] for x, n in zip(given["x"], net.lengths)])
        given["start"] = np.cumsum(lengths, 0, np.int32) - lengths
        x = g.input("x", "f32", list(given["x"].shape))
        start = g.rows(g.input("start", "i32", [rows, 1]), length)
        y = lstm_packed(g, net, x, zeros, length, start)
    else:
        x = g.rows(g.input("x", "f32", [rows, steps, inputs]), length)
        y = (lstm_masked if form == "rows stay" else lstm_inside)(g, net, x, zeros, length)
    g.output("y", g.collect(y))
    return given


def lstm(g, net, form):
    """One loop of the whole batch."""
    if net.lengths is not None:
        return lstm_ragged(g, net, form)
    steps, rows, inputs, units = net.case.arguments[:4]
    x = g.input("x", "f32", [steps, rows, inputs])
    zeros = g.constant("zeros", np.zeros((rows, units), np.float32))
    g.output("y", lstm_before(g, net, x, zeros) if form == "Wx before" else lstm_inside(g, net, x, zeros, None))
    return net.inputs


def nasrnn(g, net, form):
    """Gates of one activation lie side by side, so that one op makes them all: 0 2 5 7, 4 6, 1, 3."""
    units, rows = net.units, net.rows
    order = np.concatenate([np.arange(units) + gate * units for gate in (0, 2, 5, 7, 4, 6, 1, 3)])
    weight_ih, weight_hh = (net.weights[name][order] for name in ("weight_ih", "weight_hh"))
    zeros = g.constant("zeros", np.zeros((rows, units), np.float32))
    x = g.input("x", "f32", [net.steps, rows, units])
    if form == "Wx before":
        x = g.linear(x, "ih", weight_ih)
    loop = g.loop(zeros, "time", over=x)
    m, c = g.loop_carry(loop, zeros), g.loop_carry(loop, zeros)
    i = g.loop_slice(loop, x)
    i = i if form == "Wx before" else g.linear(i, "ih", weight_ih)
    h = g.linear(m, "hh", weight_hh)
    part = lambda v, first, count=1: g.slice(v, 1, first * units, count * units)
    both = g.add(part(i, 0, 7), part(h, 0, 7))
    rising, turning = g.activation(part(both, 0, 4), "sigmoid"), g.activation(part(both, 4, 2), "tanh")
    kept = g.activation(part(both, 6), "relu")
    product = g.activation(g.mul(part(i, 7), part(h, 7)), "relu")
    tanh = lambda v: g.activation(v, "tanh")
    left, right = tanh(g.mul(part(rising, 0), kept)), tanh(g.add(part(rising, 1), product))
    up = tanh(g.mul(part(turning, 0), part(rising, 2)))
    down = g.activation(g.add(part(turning, 1), part(rising, 3)), "sigmoid")
    c_next = g.mul(tanh(g.add(left, c)), right)
    m_next = tanh(g.mul(c_next, tanh(g.add(up, down))))
    g.loop_next(loop, m, m_next)
    g.loop_next(loop, c, c_next)
    y = g.loop_collect(loop, m_next)
    g.loop_end(loop)
    g.output("y", y)
    return net.inputs


def attention(g, net, _):
    """What the cache holds before stays outside; positions that trips write are carried, and written by their index.
    Keys are columns, so that products take whole lines of them. q is scaled, which is smaller than the scores. What has
    three dimensions in a body lies as an image, channels last: so x has four."""
    heads, rows, width, first, steps = net.HEADS, net.rows, net.WIDTH, net.first, net.steps
    inputs = {"x": net.inputs["x"], **{name: net.inputs[name][:, :, :first] for name in "kv"}}
    x0, k_old, v_old = (g.input(name, "f32", list(x.shape)) for name, x in inputs.items())
    k_old = g.transpose(k_old, [0, 1, 3, 2])
    zeros = [g.constant(name, np.zeros((heads, rows, *shape), np.float32))
             for name, shape in (("no keys", (width, steps)), ("no values", (steps, width)))]
    x0 = g.reshape(x0, [1, heads, rows, width])
    loop = g.loop(x0, "positions", bound=steps)
    x, k, v = (g.loop_carry(loop, value) for value in (x0, *zeros))
    qkv = g.reshape(g.matmul(x, g.constant("qkv", net.weights["qkv"][None])), [heads, rows, 1, 3 * width])
    q, k_new, v_new = (g.slice(qkv, 3, i * width, width) for i in range(3))
    k_next = g.scatter_rows(k, g.loop_trip(loop), g.reshape(k_new, [heads, rows, width, 1]), axis=3)
    v_next = g.scatter_rows(v, g.loop_trip(loop), v_new, axis=2)
    q = g.affine(q, width ** -0.5, 0.0)
    p = g.softmax(g.concat([g.matmul(q, keys) for keys in (k_old, k_next)], 3))
    read = g.add(g.matmul(g.slice(p, 3, 0, first), v_old), g.matmul(g.slice(p, 3, first, steps), v_next))
    read = g.reshape(read, [1, heads, rows, width])
    x_next = g.add(x, g.matmul(read, g.constant("o", net.weights["o"][None])))
    for carried, value in ((x, x_next), (k, k_next), (v, v_next)):
        g.loop_next(loop, carried, value)
    y = g.loop_collect(loop, g.reshape(x_next, [heads, rows * width]))
    g.loop_end(loop)
    g.output("y", g.reshape(y, [steps, heads, rows, width]))
    return inputs


def seq2seq(g, net, _):
    rows, units, w = net.rows, net.units, net.weights
    first = g.rows(g.input("first", "i32", [rows, 1]))
    h0, c0 = (g.rows(g.input(name, "f32", [rows, units]), first) for name in "hc")
    most = g.rows(g.constant("most", np.full((rows, 1), net.most, np.int32)), first)
    table, end = g.constant("embedding", w["embedding"]), g.constant("end", np.array([net.END], np.int32))
    loop = g.loop(first, "decode", bound=net.most, count=most)
    token, h, c = (g.loop_carry(loop, value) for value in (first, h0, c0))
    x = g.reshape(g.gather_rows(table, token), [units])
    h_next, c_next = g.lstm(x, h, c, "lstm", *(w[f"lstm.{name}"] for name in LSTM))
    word = g.argmax(g.linear(h_next, "words", w["words.weight"], w["words.bias"]))
    for carried, value in ((token, word), (h, h_next), (c, c_next)):
        g.loop_next(loop, carried, value)
    y = g.loop_collect(loop, word)
    g.loop_end(loop, g.compare(word, end, "not_equal"))
    g.output("y", g.reshape(g.collect(y), [rows, net.most]))
    return net.inputs


def trips(g, net, _):
    x0 = g.rows(g.input("x", "f32", [1, 1]))
    loop = g.loop(x0, "trips", bound=net.steps)
    x = g.loop_carry(loop, x0)
    y = g.loop_next(loop, x, g.add(x, g.constant("one", net.weights["one"])))
    g.loop_end(loop)
    g.output("y", g.collect(y))
    return net.inputs


def blockdrop(g, net, _):
    """A router a block: path 1 is the block, on the images whose policy keeps it; others stay as they are."""
    x = g.rows(g.input("x", "f32", [net.rows, 3, 32, 32]))
    policy = g.rows(g.input("policy", "i32", list(net.inputs["policy"].shape)), x)
    conv = lambda x, name, stride=1, act="none": g.conv2d(
        x, name, net.weights[f"{name}.weight"], net.weights[f"{name}.bias"], stride=stride, act=act,
        padding="explicit", pad=net.weights[f"{name}.weight"].shape[-1] // 2)
    x = conv(x, "first", act="relu")
    for number, name, stride, shortcut in net.blocks():
        kept = g.route(g.slice(policy, 0, number, 1), f"keep{number}", "label", 2)
        around = conv(x, shortcut, stride) if shortcut else x
        with g.branch(kept, 1, f"block{number}", x) as y:
            y = conv(conv(y, f"{name}.a", stride, "relu"), f"{name}.b")
            y = g.activation(g.add(y, g.scatter(kept, 1, around)), "relu")
        x = g.gather(kept, [None, y], g.activation(around, "relu") if shortcut else x)
    y = g.linear(g.pool2d(x, everything=1), "last", net.weights["last.weight"], net.weights["last.bias"])
    g.output("y", g.collect(y))
    return net.inputs


BUILD = {Blockdrop: blockdrop, Lstm: lstm, Rows: lstm, Nasrnn: nasrnn, Attention: attention, Seq2seq: seq2seq,
         Trips: trips, **time_trees_ours.BUILD, **time_decide_ours.BUILD}


class Form(Ours):
    """One of our forms of a network, in a process of its own."""

    def __init__(self, net, form, tier, folder):
        super().__init__()
        g = new_graph(type(net).__name__.lower())
        inputs = BUILD[type(net)](g, net, form)
        path = os.path.join(folder, "time.gguf")
        g.write(path)
        self.form, self.shape, self.type = form, net.result_shape, np.dtype(net.result_type)
        self.rows_first = net.rows_first
        if net.rows_first:
            self.shape = (self.shape[1], self.shape[0], *self.shape[2:])
        opened = self.ask(f"open {path} {tier} {getattr(net, 'order', '')}").split()
        self.arenas = sum(int(n) for n in opened)
        for name, x in inputs.items():
            self.ask(f"input {name} " + " ".join(map(str, x.shape)), np.ascontiguousarray(x).tobytes())
        self.ask("output y " + " ".join(map(str, self.shape)))

    def result(self):
        y = super().result().view(self.type)
        return y.swapaxes(0, 1) if self.rows_first else y
