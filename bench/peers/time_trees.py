"""Networks over trees and graphs: seeded structures, and what each is by definition (NumPy, float64), vertex by vertex.

Vertices of many trees are numbered together, the leaves of all of them first, children before their vertex. Owns: the
structures. Must never: know of a runtime: time_trees_ours.py and time_trees_torch.py do.
"""

import numpy as np

from product_cases import sigmoid
from time_forms import Looped


def random_splits(leaves, noise):
    """Inner vertices of a random binary tree, lowest first, as pairs: 0 .. leaves - 1 are the leaves."""
    pairs, next_of, due = [], leaves, [(0, leaves, None)]
    parts = []
    while due:  # from the top down, without recursion
        first, end, up = due.pop()
        if end - first > 1:
            at = first + 1 + int(noise.integers(end - first - 1))
            parts.append((first, at, end, up))
            due += [(first, at, len(parts) - 1), (at, end, len(parts) - 1)]
    number = {}
    for first, at, end, _ in reversed(parts):
        name = lambda a, b: a if b - a == 1 else number[a, b]
        pairs.append((name(first, at), name(at, end)))
        number[first, end] = next_of
        next_of += 1
    return pairs


def skewed(leaves, noise):
    """A chain: each inner vertex has the one below and a leaf."""
    return [(leaves + i - 1 if i else 0, i + 1) for i in range(leaves - 1)]


def complete(leaves, noise):
    return [(2 * i, 2 * i + 1) for i in range(leaves - 1)]


def forest(shape, sizes, noise):
    """children [inner vertices, 2] of trees with so many leaves each."""
    all_leaves, rows, leaf, inner = sum(sizes), [], 0, sum(sizes)
    for leaves in sizes:
        name = lambda v: leaf + v if v < leaves else inner + v - leaves
        rows += [[name(a), name(b)] for a, b in shape(leaves, noise)]
        leaf, inner = leaf + leaves, inner + leaves - 1
    return all_leaves, np.array(rows, np.int32)


def dag(vertices, fan_in, noise):
    """Up to fan_in different ones of the vertices before."""
    rows = np.full((vertices - fan_in, fan_in), -1, np.int32)
    for v, row in enumerate(rows, fan_in):
        count = int(noise.integers(1, fan_in + 1))
        row[:count] = noise.choice(np.arange(max(0, v - 4 * fan_in), v), count, replace=False)
    return fan_in, rows


class Vertices(Looped):
    """below: children [inner vertices, slots], -1 behind the last one."""

    def __init__(self, name, leaves, below, units):
        super().__init__(name)
        self.leaves, self.below, self.units = leaves, below, units
        self.vertices, self.slots = leaves + len(below), below.shape[1]
        self.level = np.ones(self.vertices, np.int32)
        for v, row in enumerate(below, leaves):
            self.level[v] = 1 + self.level[row[row >= 0]].max()
        self.steps = int(self.level.max())
        self.result_shape = (self.vertices, units)

    @property
    def lists(self):
        """Children of all vertices, as a run brings them: how many each has, and which."""
        return (np.concatenate([np.zeros(self.leaves, np.int32), (self.below >= 0).sum(1, dtype=np.int32)]),
                self.below[self.below >= 0])

    def definition(self):
        h = np.zeros((self.vertices, self.units))
        state = self.begin(h)
        for v, row in enumerate(self.below, self.leaves):
            self.step(state, v, row[row >= 0])
        return h


class TreeLstm(Vertices):
    """Child-sum Tree-LSTM (Tai et al. 2015) over binary trees with a word a leaf."""
    forms = ("leaves before", "leaves in the loop")

    def __init__(self, name, shape, sizes, inputs, units):
        noise = np.random.default_rng(5)
        super().__init__(name, *forest(shape, sizes, noise), units)
        self.inputs["x"] = self.normal(self.leaves, inputs)
        shapes = {"w": (4 * units, inputs), "u_iou": (3 * units, units), "u_f": (units, units)}
        for each, (out, of) in shapes.items():
            self.weights[each] = self.normal(out, of, spread=of ** -0.5)
        self.weights["b"] = self.normal(4 * units, spread=0.1)
        self.flops = 2 * (self.leaves * 4 * inputs * units + len(self.below) * 5 * units * units)

    @property
    def reads(self):
        return self.weights["u_iou"].nbytes + self.weights["u_f"].nbytes, self.steps - 1

    def begin(self, h):
        c, units = np.zeros_like(h), self.units
        given = self.inputs["x"].astype(np.float64) @ self.exact("w").T + self.exact("b")
        i, o, u = (given[:, n * units : (n + 1) * units] for n in range(3))
        c[: self.leaves] = sigmoid(i) * np.tanh(u)
        h[: self.leaves] = sigmoid(o) * np.tanh(c[: self.leaves])
        return h, c, *(self.exact(name) for name in ("u_iou", "u_f", "b"))

    def step(self, state, v, row):
        h, c, u_iou, u_f, b = state
        i, o, u = np.split(u_iou @ h[row].sum(0) + b[: 3 * self.units], 3)
        f = sigmoid(h[row] @ u_f.T + b[3 * self.units :])
        c[v] = sigmoid(i) * np.tanh(u) + (f * c[row]).sum(0)
        h[v] = sigmoid(o) * np.tanh(c[v])


class Ablation(TreeLstm):
    """All that makes it fast, and one thing less. From the second on: leaves make a trip, too, in which they multiply
    zeros; besides, products of words are made in that trip; gates are products of their own; each vertex makes its
    trip alone."""
    forms, ablation = ("all", "leaves in the loop", "products in the loop", "gates apart", "vertex by vertex"), True


class TreeFc(Vertices):
    """tanh of a product of both children side by side: Cavs' Tree-FC, and a recursive autoencoder's encoder."""

    def __init__(self, name, shape, sizes, units):
        super().__init__(name, *forest(shape, sizes, np.random.default_rng(5)), units)
        self.inputs["x"] = self.normal(self.leaves, units)
        self.weights = {"w": self.normal(units, 2 * units, spread=(2 * units) ** -0.5),
                        "b": self.normal(units, spread=0.1)}
        self.flops = 4 * len(self.below) * units * units

    @property
    def reads(self):
        return self.weights["w"].nbytes, self.steps - 1

    def begin(self, h):
        h[: self.leaves] = self.inputs["x"]
        return h, self.exact("w"), self.exact("b")

    def step(self, state, v, row):
        h, w, b = state
        h[v] = np.tanh(w @ h[row].reshape(-1) + b)


class Dag(Vertices):
    """tanh(W x + U of the sum of up to `slots` vertices before)."""

    def __init__(self, name, vertices, slots, units):
        super().__init__(name, *dag(vertices, slots, np.random.default_rng(5)), units)
        self.inputs["x"] = self.normal(self.vertices, units)
        self.weights = {name: self.normal(units, units, spread=units ** -0.5) for name in "wu"}
        self.flops = 2 * units * units * (self.vertices + len(self.below))

    @property
    def reads(self):
        return self.weights["u"].nbytes, self.steps

    def begin(self, h):
        given = self.inputs["x"].astype(np.float64) @ self.exact("w").T
        h[: self.leaves] = np.tanh(given[: self.leaves])
        return h, given, self.exact("u")

    def step(self, state, v, row):
        h, given, u = state
        h[v] = np.tanh(given[v] + u @ h[row].sum(0))


class Counted(Vertices):
    """One number a vertex: its own and the sum of its children's. What a structure costs by itself."""

    def __init__(self, name, shape, sizes):
        super().__init__(name, *forest(shape, sizes, np.random.default_rng(5)), 1)
        self.inputs["x"] = self.noise.integers(0, 3, (self.vertices, 1)).astype(np.float32)
        self.flops, self.elements = 0, self.vertices

    @property
    def reads(self):
        return 4 * self.vertices * (self.slots + 3), 1  # lists, levels, x

    def begin(self, h):
        h[:] = self.inputs["x"]
        return h

    def step(self, h, v, row):
        h[v] += h[row].sum(0)
