"""ONNX LSTM, GRU and RNN: a loop over the steps, in which one of the library's cells, or what a cell is, stands.

The products of all inputs are one layer before the loop. A batch is an axis of the values, all of one length.
"""

import numpy as np

from .refused import Refused
from .table import op
from .tensors import Tensor, narrowed

ACTS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
RNN_ACTS = {"Tanh": "tanh", "Relu": "relu", "Sigmoid": "sigmoid"}


class Layer:
    """One direction of a node."""

    def __init__(self, n, number, x, acts):
        self.n, self.m, self.g, self.acts, self.x = n, n.m, n.m.g, acts, x
        self.steps, self.batch, _ = x.shape
        self.units = n.constant(2).shape[-1]
        self.w, self.r = (narrowed("a weight", n.constant(i))[number] for i in (1, 2))
        bias = n.constant(3)
        gates = len(self.r)
        bias = np.zeros(2 * gates, np.float32) if bias is None else narrowed("a bias", bias)[number]
        self.wb, self.rb = bias[:gates], bias[gates:]
        self.number = number

    def initial(self, index):
        """h or c before the first step: [B, H]."""
        m, shape = self.m, (self.batch, self.units)
        x = self.n.get(index)
        if x is None:
            return m.held(m.array(np.zeros(shape)), shape)
        if self.n.attr("layout", 0):
            x = m.transpose(x, (1, 0, 2))
        return m.held(m.slice(x, 0, self.number, 1), shape)

    def order(self, array, gates):
        parts = np.split(array, len(gates))
        return np.ascontiguousarray(np.concatenate([parts[i] for i in gates]))

    def run(self, projection, bias, states, cell, reverse):
        """States after the last step, and the first of them after each: [T, B, H]."""
        m, g = self.m, self.g
        x = m.reversed(self.x, 0) if reverse else self.x
        name = m.names.fresh(self.n.stem)
        known = m.linear(x, projection, bias, stem=f"{name}.x")
        known = m.held(known, (self.steps, self.batch, len(projection)))
        loop = g.loop(known, name, over=known)
        carried = [g.loop_carry(loop, s) for s in states]
        after = cell(name, g.loop_slice(loop, known), *carried)
        last = [g.loop_next(loop, c, a) for c, a in zip(carried, after)]
        every = g.loop_collect(loop, after[0]) if self.n.wants(0) else None
        g.loop_end(loop)
        if every is None:
            return last, None
        every = m.made(every, (self.steps, self.batch, self.units))
        return last, m.reversed(every, 0) if reverse else every


def lstm(layer):
    order = (0, 2, 3, 1)  # ONNX: i o f c; ours: i f g o
    r, rb = layer.order(layer.r, order), layer.order(layer.rb, order)

    def cell(name, x, h, c):
        return layer.g.lstm(x, h, c, f"{name}.cell", None, r, None, rb)

    peepholes = layer.n.constant(7)
    if peepholes is not None:
        cell = with_peepholes(layer, narrowed("a weight", peepholes)[layer.number], r, rb)
    return (layer.order(layer.w, order), layer.order(layer.wb, order), [layer.initial(5), layer.initial(6)], cell)


def with_peepholes(layer, peepholes, r, rb):
    """The cell written out: gates see c as well. Order of peepholes: i o f."""
    g, units = layer.g, layer.units
    line = lambda number: g.constant(layer.m.names.fresh("constant"),
                                     peepholes[number * units:(number + 1) * units].reshape(1, units))
    p_i, p_o, p_f = line(0), line(1), line(2)

    def cell(name, x, h, c):
        all_gates = g.add(x, g.linear(h, f"{name}.cell", r, rb))
        i, f, new, o = (g.slice(all_gates, 1, k * units, units) for k in range(4))
        i, f = g.activation(g.add(i, g.mul(c, p_i)), "sigmoid"), g.activation(g.add(f, g.mul(c, p_f)), "sigmoid")
        c = g.add(g.mul(f, c), g.mul(i, g.activation(new, "tanh")))
        o = g.activation(g.add(o, g.mul(c, p_o)), "sigmoid")
        return g.mul(o, g.activation(c, "tanh")), c

    return cell


def gru(layer):
    order, g, units = (1, 0, 2), layer.g, layer.units  # ONNX: z r h; ours: r z n
    w, wb, r, rb = (layer.order(a, order) for a in (layer.w, layer.wb, layer.r, layer.rb))

    def cell(name, x, h):
        return (g.gru(x, h, f"{name}.cell", None, r, None, rb),)

    def reset_before(name, x, h):
        """n is made of r h, before its product."""
        gates = g.add(g.slice(x, 1, 0, 2 * units), g.linear(h, f"{name}.gates", r[:2 * units], rb[:2 * units]))
        gates = g.activation(gates, "sigmoid")
        reset, keep = g.slice(gates, 1, 0, units), g.slice(gates, 1, units, units)
        new = g.linear(g.mul(reset, h), f"{name}.new", r[2 * units:], rb[2 * units:])
        new = g.activation(g.add(g.slice(x, 1, 2 * units, units), new), "tanh")
        return (g.add(g.mul(g.affine(keep, -1.0, 1.0), new), g.mul(keep, h)),)

    return w, wb, [layer.initial(5)], cell if layer.n.attr("linear_before_reset", 0) else reset_before


def rnn(layer):
    g, act = layer.g, RNN_ACTS[layer.acts[0]]
    return layer.w, layer.wb, [layer.initial(5)], lambda name, x, h: (
        g.activation(g.add(x, g.linear(h, f"{name}.cell", layer.r, layer.rb)), act),)


def checked(n, directions):
    """Activations of each direction; refuses what a cell of ours is not."""
    each = len(ACTS[n.op])
    acts = n.attr("activations") or ACTS[n.op] * directions
    for name in ("clip", "input_forget", "activation_alpha", "activation_beta"):
        if n.attr(name):
            raise Refused(f"{name} of {n.op}")
    if n.op == "RNN" and all(a in RNN_ACTS for a in acts):
        return [acts[i:i + 1] for i in range(directions)]
    if acts != ACTS[n.op] * directions:
        raise Refused(f"activations {acts} of {n.op}")
    return [acts[i * each:(i + 1) * each] for i in range(directions)]


@op("LSTM", "GRU", "RNN")
def recurrent(n):
    m, layout, x = n.m, n.attr("layout", 0), n[0]
    if x.rank != 3:
        raise Refused(f"{n.op} of {list(x.shape)}, expected three axes")
    x = m.transpose(x, (1, 0, 2)) if layout else x
    n.constant(1), n.constant(2), n.constant(3)
    lengths = n.numbers(4)
    if lengths is not None and any(length != x.shape[0] for length in lengths):
        raise Refused("sequences of different lengths")
    direction = n.attr("direction", "forward")
    directions = 2 if direction == "bidirectional" else 1
    acts, lasts, everything = checked(n, directions), [], []
    for number in range(directions):
        layer = Layer(n, number, x, acts[number])
        last, every = layer.run(*{"LSTM": lstm, "GRU": gru, "RNN": rnn}[n.op](layer),
                                direction == "reverse" or number == 1)
        lasts.append([m.made(v, (layer.batch, layer.units)) for v in last])
        everything.append(every)
    batch, units = layer.batch, layer.units
    outputs = [None] * 3
    if n.wants(0):
        y = m.concat([m.reshape(e, (x.shape[0], 1, batch, units)) for e in everything], 1)
        outputs[0] = m.typed(m.transpose(y, (2, 0, 1, 3)) if layout else y, n[0].dtype)
    for state in range(len(lasts[0])):
        y = m.concat([m.reshape(each[state], (1, batch, units)) for each in lasts], 0)
        y = m.transpose(y, (1, 0, 2)) if layout else y
        outputs[1 + state] = Tensor(y.shape, n[0].dtype, None, y.forms)
    return outputs[:len(n.outputs)]
