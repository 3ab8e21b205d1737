# tags: needs:onnx,numpy,gguf
"""Random graphs of ONNX: whatever is taken gives what the reference gives.

    test_onnx_random.py [FIRST [COUNT]]      seeds; the first one that fails is printed with its nodes
"""

import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig  # noqa: F401: it finds the package
from brainstorm import session
from brainstorm.onnx import compare, importing
from brainstorm.onnx.refused import Refused

COUNT, TAKEN = 250, 0.9  # graphs of a run, and the share of them that must be taken
UNARY = ("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Floor", "Softplus", "Erf", "Sin", "Elu", "HardSwish", "Softsign")
REDUCES = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceLogSumExp")


class Graph:
    """A chain of nodes, each of what came before; the values are known, so that shapes are."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.nodes, self.weights, self.values, self.count = [], [], {}, 0
        shape = [int(self.random.choice([1, 2, 3, 4, 6])) for _ in range(self.random.integers(1, 6))]
        while np.prod(shape) > 1500:
            shape.pop()
        self.first = self.random.standard_normal(shape).astype(np.float32)
        self.values["x"] = self.first
        self.last = "x"

    def pick(self, *choices):
        return choices[self.random.integers(len(choices))]

    def constant(self, array, dtype=np.float32):
        self.count += 1
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), f"w{self.count}"))
        return f"w{self.count}"

    def add(self, op, *inputs, outputs=1, keep=0, inner=False, **attributes):
        """A node, computed; dropped again where the reference refuses it or the result is large. inner: of a few nodes
        in a row, whose results may be of any type."""
        self.count += 1
        names = [f"v{self.count}.{i}" for i in range(outputs)]
        node = helper.make_node(op, list(inputs), names, **attributes)
        graph = helper.make_graph([node], "one", [onnx.ValueInfoProto(name=n) for n in dict.fromkeys(inputs) if n],
                                  [onnx.ValueInfoProto(name=n) for n in names])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
        known = {**{w.name: numpy_helper.to_array(w) for w in self.weights}, **self.values}
        try:
            made = ReferenceEvaluator(model).run(None, {n: known[n] for n in inputs if n})
        except Exception:  # the reference's own, of any kind: the node is none
            return
        if any(m.size == 0 or m.size > 2000 or not inner and (
                m.dtype != np.float32 or not np.isfinite(m).all() or np.abs(m).max() > 1e3) for m in made):
            return
        self.nodes.append(node)
        self.values.update(zip(names, made))
        self.last = names[keep]

    # ------------------------------------------------------------------------------------- kinds of nodes

    def unary(self, x, _):
        self.add(self.pick(*UNARY), x)

    def beside_constant(self, x, a):
        shape = [self.pick(1, n) for n in a.shape][self.random.integers(0, a.ndim + 1):]
        sides = [x, self.constant(self.random.uniform(0.5, 2, shape))]
        self.random.shuffle(sides)
        self.add(self.pick("Add", "Sub", "Mul", "Div", "Max", "Min"), *sides)

    def beside_value(self, x, _):
        self.add(self.pick("Add", "Sub", "Mul", "Max"), x, self.pick(*self.values))

    def transpose(self, x, a):
        self.add("Transpose", x, perm=[int(i) for i in self.random.permutation(a.ndim)])

    def reshape(self, x, a):
        left, shape = a.size, []
        while left > 1 and len(shape) < 5:
            divisors = [d for d in range(1, left + 1) if left % d == 0]
            shape.append(int(self.random.choice(divisors)))
            left //= shape[-1]
        self.add("Reshape", x, self.constant([*shape, left], np.int64))

    def slice(self, x, a):
        axis = int(self.random.integers(a.ndim))
        start, end = sorted(int(i) for i in self.random.integers(-a.shape[axis], a.shape[axis] + 1, 2))
        numbers = [self.constant([n], np.int64) for n in (start, end, axis, int(self.pick(1, 1, 2, -1)))]
        self.add("Slice", x, *numbers)

    def concat(self, x, a):
        others = [n for n, v in self.values.items() if v.shape == a.shape]
        self.add("Concat", x, self.pick(*others), x, axis=int(self.random.integers(-a.ndim, a.ndim)))

    def reduce(self, x, a):
        axes = [int(i) for i in self.random.permutation(a.ndim)[:self.random.integers(1, a.ndim + 1)]]
        self.add(self.pick(*REDUCES), x, self.constant(axes, np.int64), keepdims=int(self.random.integers(2)))

    def along(self, x, a):
        axis = int(self.random.integers(-a.ndim, a.ndim))
        op = self.pick("Softmax", "LogSoftmax", "CumSum", "LpNormalization", "Hardmax")
        self.add(op, x, self.constant(axis, np.int64)) if op == "CumSum" else self.add(op, x, axis=axis)

    def gather(self, x, a):
        axis = int(self.random.integers(a.ndim))
        shape = self.pick((), (2,), (3, 2))
        self.add("Gather", x, self.constant(self.random.integers(-a.shape[axis], a.shape[axis], shape), np.int64),
                 axis=axis)

    def pad(self, x, a):
        pads = self.random.integers(0, 3, 2 * a.ndim)
        self.add("Pad", x, self.constant(pads, np.int64), mode=self.pick("constant", "edge", "reflect", "wrap"))

    def repeat(self, x, a):
        if self.pick(True, False):
            self.add("Tile", x, self.constant(self.random.integers(1, 3, a.ndim), np.int64))
        else:
            shape = [n if n > 1 else self.pick(1, 3) for n in a.shape]
            self.add("Expand", x, self.constant(shape[self.random.integers(2):] or [1], np.int64))

    def matmul(self, x, a):
        if a.ndim > 1:
            k = a.shape[-1]
            shape = self.pick((k,), (k, 3), (a.shape[0], k, 2))
            self.add("MatMul", x, self.constant(self.random.standard_normal(shape)))
        else:
            self.add("MatMul", self.constant(self.random.standard_normal((3, a.shape[0]))), x)

    def split(self, x, a):
        axis = int(self.random.integers(a.ndim))
        self.add("Split", x, outputs=2, keep=int(self.random.integers(2)), axis=axis, num_outputs=2)

    def squeeze(self, x, a):
        if self.pick(True, False):
            self.add("Squeeze", x)
        else:
            self.add("Unsqueeze", x, self.constant([int(self.random.integers(a.ndim + 1))], np.int64))

    def image(self, x, a):
        if a.ndim != 4:
            return
        channels = a.shape[1]
        op = self.pick("Conv", "MaxPool", "AveragePool", "GlobalAveragePool", "InstanceNormalization")
        window = {"kernel_shape": [2, 2], "strides": [1, int(self.pick(1, 2))], "pads": [0, 1, 1, 0]}
        if op == "Conv":
            weight = self.constant(self.random.standard_normal((3, channels, 2, 2)))
            self.add(op, x, weight, self.constant(self.random.standard_normal(3)), **window)
        elif op == "InstanceNormalization":
            lines = [self.constant(self.random.uniform(0.5, 1.5, channels)) for _ in range(2)]
            self.add(op, x, *lines)
        else:
            self.add(op, x, **({} if op.startswith("Global") else window))

    def found(self, x, a):
        """What is above a number: as it is counted, or taken out, computed and put back."""
        before, count = dict(self.values), len(self.nodes)
        step = lambda op, *inputs, **more: (self.add(op, *inputs, inner=True, **more), self.last)[1]
        line = step("ReduceSum", x, self.constant(range(1, a.ndim), np.int64), keepdims=0) if a.ndim > 1 else x
        mask = step("Greater", self.pick(x, line), self.constant(self.random.uniform(-1, 1)))
        at = step("Transpose", step("NonZero", mask), perm=[1, 0])
        rows = step("GatherND", x, at)
        made = step(self.pick("Tanh", "Neg"), rows)
        if self.pick(True, False):
            made = step("Mul", made, rows)
        self.add("ScatterND", x, at, made, reduction=self.pick("none", "add"))
        last = self.last
        if last == made or len(self.nodes) < count + 6:  # one of them was dropped
            self.values, self.last = before, x
            del self.nodes[count:]
            return
        self.values = {**before, last: self.values[last]}

    def model(self):
        kinds = [self.unary, self.beside_constant, self.beside_value, self.transpose, self.reshape, self.slice,
                 self.concat, self.reduce, self.along, self.gather, self.pad, self.repeat, self.matmul, self.split,
                 self.squeeze, self.image, self.found]
        for _ in range(self.random.integers(3, 12)):
            value = self.values[self.last]
            kind = self.pick(*kinds) if value.ndim else self.pick(self.unary, self.beside_constant, self.squeeze)
            kind(self.last, value)
        if not self.nodes:
            self.add("Relu", "x")
        shown = dict.fromkeys([self.last, self.pick(*(n for n in self.values if n != "x"))])
        ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, self.values[n].shape)] for n in ("x", *shown)]
        graph = helper.make_graph(self.nodes, "random", ports[0], [p for part in ports[1:] for p in part], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def tried(runner, path, seed):
    """(verdict, why): taken, refused or wrong."""
    made = Graph(seed)
    model = made.model()
    try:
        walk = importing.imported(model).walk
        walk.graph.write(path)
        runner.open(path)
        ours = compare.run_ours(runner, walk, {"x": made.first})
    except (Refused, session.Failed, ValueError) as why:
        return "refused", str(why)
    for port, a in zip(walk.outputs, ours):
        wanted = made.values[port.onnx_name]
        if a.shape != wanted.shape or not np.allclose(a, wanted, 1e-3, 1e-4 * max(1, float(np.abs(wanted).max()))):
            nodes = "\n".join("    " + onnx.printer.to_text(n) for n in model.graph.node)
            return "wrong", f"{port.onnx_name} of x {list(made.first.shape)}\n{nodes}"
    return "taken", ""


def main():
    first, count = [*map(int, sys.argv[1:]), *(1, COUNT)[len(sys.argv) - 1:]][:2]
    runner, refused, failed = session.opened(), [], 0
    if runner is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder, runner:
        for seed in range(first, first + count):
            verdict, why = tried(runner, os.path.join(folder, "net.gguf"), seed)
            if verdict == "wrong":
                failed += 1
                print(f"FAIL graph of seed {seed}: {why}")
            elif verdict == "refused":
                refused.append(f"seed {seed}: {why}")
    if len(refused) > (1 - TAKEN) * count:
        failed += 1
        print("\n".join([f"FAIL {len(refused)} of {count} graphs are refused:", *refused[:10]]))
    print(f"graphs of seeds {first} .. {first + count - 1}: {count - len(refused)} taken, {len(refused)} refused")
    for why in refused[:5]:
        print(f"    {why.splitlines()[0]}")
    print(f"{count - len(refused) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
