"""Mixtures of experts in ONNX, for test_onnx_experts.py: loops in the forms that exporters give them, and MoEs."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper

ROWS, WIDTH, EXPERTS = 17, 6, 4
SEEDS = 12


def weights(*shape, seed=0):
    return (np.random.default_rng([seed, *shape]).standard_normal(shape) * 0.6).astype(np.float32)


class Loop:
    """x [ROWS, WIDTH] to y, by a loop over experts. Each method writes nodes and gives the name of the last value."""

    def __init__(self, k=2, rows=ROWS):
        self.k, self.rows, self.nodes, self.made, self.count = k, rows, [], {}, 0

    def node(self, op, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"v{self.count}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def number(self, array, dtype=np.int64):
        array = np.asarray(array, dtype)
        name = f"c{len(self.made)}"
        self.made[name] = array
        return name

    def scores(self, act="Softmax"):
        logits = self.node("MatMul", "x", self.number(weights(WIDTH, EXPERTS, seed=1), np.float32))
        return self.node(act, logits, **({"axis": -1} if act == "Softmax" else {})) if act else logits

    def choice(self, scores):
        self.values, self.index = self.node("TopK", scores, self.number([self.k]), outputs=2, axis=-1)

    def summed(self, values):
        return self.node("Div", values, self.node("ReduceSum", values, self.number([-1]), keepdims=1))

    def where(self, e):
        """(rows, slots) of an expert as columns."""
        found = self.node("NonZero", self.node("Equal", self.index, self.number(e)))
        lines = self.node("Transpose", found, perm=[1, 0])
        cut = lambda i: self.node("Slice", lines, self.number([i]), self.number([i + 1]), self.number([1]))
        return cut(0), cut(1)

    def expert(self, e, rows):
        hidden = self.node("MatMul", rows, self.number(weights(WIDTH, 9, seed=10 + e), np.float32))
        hidden = self.node("Relu", hidden)
        return self.node("MatMul", hidden, self.number(weights(9, WIDTH, seed=20 + e), np.float32))

    def gate(self, gates, row, slot):
        both = self.node("Concat", row, slot, axis=-1)
        return self.node("Unsqueeze", self.node("GatherND", gates, both), self.number([1]))

    def zeros(self):
        return self.number(np.zeros((self.rows, WIDTH)), np.float32)

    def loop(self, gates, base=None, order=range(EXPERTS), expert=None, of=lambda e: e):
        y = base or self.zeros()
        for e in order:
            row, slot = self.where(e)
            made = (expert or self.expert)(e, self.node("GatherND", "x", row))
            if gates:
                row_of, slot_of = (row, slot) if of(e) == e else self.where(of(e))
                made = self.node("Mul", self.gate(gates, row_of, slot_of), made)
            y = self.node("ScatterND", y, row, made, reduction="add" if self.k > 1 or gates else "none")
        return y

    def model(self, y, more=()):
        """x to y, and to more values."""
        self.nodes.append(helper.make_node("Identity", [y], ["y"]))
        tensors = [numpy_helper.from_array(a, n) for n, a in self.made.items()]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [self.rows, WIDTH])]
        outputs += [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in more]
        graph = helper.make_graph(self.nodes, "experts", [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [self.rows, WIDTH])], outputs, tensors)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def started(k=2, act="Softmax"):
    loop = Loop(k)
    loop.choice(loop.scores(act))
    return loop


def taken():
    """(name, model) of loops that become routers."""
    loop = started()
    yield "chances that sum to 1", loop.model(loop.loop(loop.summed(loop.values)))
    loop = started()
    yield "chances as they are", loop.model(loop.loop(loop.values))
    loop = started(3, None)
    yield "chances of the chosen", loop.model(loop.loop(loop.node("Softmax", loop.values, axis=-1)))
    loop = started(2, None)
    gates = loop.summed(loop.node("Sigmoid", loop.values))
    yield "scaled sigmoids that sum to 1", loop.model(loop.loop(loop.node("Mul", gates, loop.number(2.5, np.float32))))
    loop = started()
    total = loop.node("ReduceSum", loop.values, loop.number([-1]), keepdims=1)
    gates = loop.node("Div", loop.values, loop.node("Add", total, loop.number(1e-20, np.float32)))
    yield "a sum that is kept from 0", loop.model(loop.loop(gates))
    loop = started()
    yield "experts in another order, added to x", loop.model(loop.loop(loop.values, "x", (2, 0, 3, 1)))
    loop = started(1)
    yield "the best, as it is", loop.model(loop.loop(None))
    yield "ArgMax and rows by a mask", by_mask()
    loop = started()
    yield "an expert that does nothing", loop.model(loop.loop(
        loop.values, expert=lambda e, rows: rows if e == 1 else loop.expert(e, rows)))
    loop = started()
    first = loop.loop(loop.values)
    loop.choice(loop.scores("Sigmoid"))
    for seed in range(SEEDS):
        yield f"a random loop, seed {seed}", any_loop(seed)
    yield "two loops", loop.model(loop.node("Add", first, loop.loop(loop.summed(loop.values))))


def any_loop(seed):
    """A loop of a random form."""
    random = np.random.default_rng(seed)
    k, act = int(random.integers(1, EXPERTS + 1)), (None, "Softmax", "Sigmoid")[random.integers(3)]
    loop = started(k, act)
    gates = loop.node("Softmax", loop.values, axis=-1) if act is None else loop.values
    gates = loop.summed(gates) if random.integers(2) and act else gates
    if random.integers(2):
        gates = loop.node("Mul", gates, loop.number(random.uniform(0.5, 2), np.float32))
    base = (None, "x")[random.integers(2)]
    first = random.permutation(EXPERTS)
    y = loop.loop(gates if k > 1 or random.integers(2) else None, base if k > 1 else None, first.tolist())
    return loop.model(loop.node("Tanh", y))


def by_mask():
    """y[index == e] = expert(x[index == e]) * the largest chance of these rows."""
    loop = Loop(1)
    scores, y = loop.scores(), loop.zeros()
    index = loop.node("ArgMax", scores, axis=-1, keepdims=0)
    best = loop.node("ReduceMax", scores, loop.number([-1]), keepdims=1)
    for e in range(EXPERTS):
        mask = loop.node("Equal", index, loop.number(e))
        rows = loop.node("Transpose", loop.node("NonZero", mask), perm=[1, 0])
        made = loop.node("Mul", loop.expert(e, loop.node("GatherND", "x", rows)), loop.node("GatherND", best, rows))
        y = loop.node("ScatterND", y, rows, made)
    return loop.model(y)


def left():
    """(name, model) of what looks like such a loop and is none, or of experts that are not all there."""
    loop = started()
    yield "an expert is missing", loop.model(loop.loop(loop.values, order=(0, 1, 3)))
    loop = started()
    yield "an expert comes twice", loop.model(loop.loop(loop.values, order=(0, 1, 2, 3, 1)))
    loop = started()
    yield "gates of another expert", loop.model(loop.loop(loop.values, of=lambda e: 1 if e == 2 else e))
    loop, kept = started(), []
    y = loop.loop(loop.values, expert=lambda e, rows: kept.append(rows) or loop.expert(e, rows))
    yield "an expert's rows are an output", loop.model(y, kept[:1])
    loop, kept = started(), []
    y = loop.loop(loop.values, expert=lambda e, rows: kept.append(loop.expert(e, rows)) or kept[-1])
    y = loop.node("Add", y, loop.node("ReduceMean", kept[2], loop.number([0]), keepdims=1))
    yield "an expert's rows are read elsewhere", loop.model(y)
    loop = started()
    yield "two of which none has a gate", loop.model(loop.loop(None))
    loop = Loop(2)
    loop.values, loop.index = loop.node("TopK", loop.scores(), loop.number([2]), outputs=2, axis=-1, largest=0)
    yield "the worst experts", loop.model(loop.loop(loop.values))


def mixing():
    """An expert that compares its rows with each other."""
    loop = started()
    return loop.model(loop.loop(loop.values, expert=lambda e, rows: loop.node("Softmax", loop.expert(e, rows), axis=0)))


# ----------------------------------------------------------------------------------------------------- MoE

def moe(activation="relu", k=1, normalise=0, fusion=0, biases=True, third=False, shape=(ROWS, WIDTH), hidden=5, **more):
    """com.microsoft.MoE of x and its router input g."""
    wide = 2 * hidden if fusion else hidden
    arrays = {"fc1": weights(EXPERTS, wide, WIDTH, seed=3), "b1": weights(EXPERTS, wide, seed=4),
              "fc2": weights(EXPERTS, WIDTH, hidden, seed=5), "b2": weights(EXPERTS, WIDTH, seed=6),
              "fc3": weights(EXPERTS, hidden, WIDTH, seed=7), "b3": weights(EXPERTS, hidden, seed=8)}
    names = ["x", "g", *arrays][:8 if third else 6]
    names = [n if biases or n[0] != "b" else "" for n in names]
    more = {**({"swiglu_fusion": fusion} if fusion else {}), **more}
    node = helper.make_node("MoE", names, ["y"], "the mixture", domain="com.microsoft", k=k, activation_type=activation,
                            normalize_routing_weights=normalise, **more)
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (
        ("x", shape), ("g", [int(np.prod(shape[:-1])), EXPERTS]), ("y", shape))]
    graph = helper.make_graph([node], "moe", ports[:2], ports[2:],
                              [numpy_helper.from_array(a, n) for n, a in arrays.items() if n in names])
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20),
                                                                  helper.make_opsetid("com.microsoft", 1)])


def moes():
    """(name, model), whether onnxruntime's kernel for CPUs takes it."""
    for activation in ("relu", "gelu", "silu", "identity"):
        for k, normalise in ((1, 0), (2, 0), (3, 1)):
            yield f"{activation}, {k} of {EXPERTS}, normalised {normalise}", moe(activation, k, normalise), True
    yield "no biases", moe("silu", 2, biases=False), True
    yield "rows of sequences", moe("gelu", 2, 1, shape=(3, 5, WIDTH)), True
    yield "swiglu, interleaved", moe("swiglu", 2, 1, 1), True
    yield "swiglu, clamped and scaled", moe("swiglu", 2, 0, 1, activation_alpha=1.702, activation_beta=1.0,
                                            swiglu_limit=0.5), True
    yield "swiglu, halves", moe("swiglu", 2, 1, 2, swiglu_limit=0.7), False
    yield "swiglu, of two layers", moe("swiglu", 2, 1, third=True), False
    yield "silu times a third layer", moe("silu", 2, 1, third=True, biases=False), False
