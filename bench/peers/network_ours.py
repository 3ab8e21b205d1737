"""Our side of whole networks: a model file by the Python writer, run by the program bench/networks, which see."""

import os
import subprocess
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "python"))
import luma

ACT = {"": {"act": "none"}, "relu": {"act": "relu"}, "gelu": {"act": "gelu"},
       "relu6": {"act": "clip", "act_param": 6.0}}


class Writer:
    """most: {domain: (the most rows, the most sequences)} of a run."""

    def __init__(self, network, most):
        from brainstorm import Graph

        self.network, self.g, self.made, self.lengths = network, Graph(network.name), {}, {}
        self.symbols = {}
        for domain, (rows, sequences) in most.items():
            self.symbols[domain] = self.g.symbol(f"{domain}_rows", rows)
            count = self.g.symbol(f"{domain}_sequences", sequences)
            self.lengths[domain] = self.g.input(f"{domain}_lengths", "i32", [count])
        for layer in network.layers:
            self.made[layer.number] = getattr(self, layer.op)(layer, *(self.made[i.number] for i in layer.inputs))
        y = self.made[network.output.number]
        self.g.output("y", self.g.collect(y) if network.output.domain else y)

    def weight(self, layer, suffix):
        return self.network.weights[f"{layer.name}.{suffix}"]

    def input(self, layer):
        if layer.domain:
            x = self.g.input(layer.name, "f32", [self.symbols[layer.domain], *layer.shape])
            return self.g.segments(x, self.lengths[layer.domain])
        return self.g.input(layer.name, "f32", list(layer.shape))

    def activated(self, value, act):
        if act == "relu6":
            return self.g.clip(value, 0.0, 6.0)
        return self.g.activation(value, act) if act else value

    def conv(self, layer, x):
        return self.g.conv2d(x, layer.name, self.weight(layer, "weight"), self.weight(layer, "bias"),
                             stride=layer.stride, pad=layer.pad, groups=layer.groups, padding="explicit",
                             **ACT[layer.act])

    def linear(self, layer, x):
        return self.g.linear(x, layer.name, self.weight(layer, "weight"), self.weight(layer, "bias"),
                             **ACT[layer.act])

    def pool(self, layer, x):
        return self.g.pool2d(x, layer.kind, layer.kernel, layer.stride, layer.pad, padding="explicit",
                             count_pad=1 if layer.kind == "average" else 0)

    def global_pool(self, _, x):
        return self.g.pool2d(x, everything=1)

    def concat(self, _, *parts):
        return self.g.concat(list(parts), 0)

    def channels(self, layer, x):
        return self.g.slice(x, 0, layer.start, layer.shape[0])

    def shuffle(self, layer, x):
        """Channel i of a group comes to stand beside those of the others: a list of indices, where reshape, transpose
        and reshape would move everything three times."""
        order = np.arange(layer.shape[0], dtype=np.int32).reshape(layer.groups, -1).T.ravel()
        return self.g.select(x, self.g.constant(f"shuffle{layer.shape[0]}_{layer.groups}", order), 0)

    def add(self, layer, x, y):
        return self.activated(self.g.add(x, y), layer.act)

    def act(self, layer, x):
        return self.activated(x, layer.act)

    def norm(self, layer, x):
        return self.g.layer_norm(x, layer.name, self.weight(layer, "weight"), self.weight(layer, "bias"))

    def attention(self, layer, q, k, v):
        return self.g.attention(q, k, v, heads=layer.heads, bidirectional=0 if layer.causal else 1)


class Ours:
    """One process; open() takes the place of what was open."""
    name = "brainstorm"

    def __init__(self):
        command = [luma.program(os.path.join("bench", "networks"))]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.allocations = 0

    def ask(self, line, data=b""):
        try:
            self.process.stdin.write(line.encode() + b"\n" + data)
            self.process.stdin.flush()
        except BrokenPipeError:
            raise SystemExit("networks has stopped: it said why above") from None
        answer = self.process.stdout.readline().decode().strip()
        if not answer:
            raise SystemExit(f"networks gave no answer to '{line}': it said why above")
        return answer

    def open(self, network, most, tier, path):
        """Bytes of the session's arenas, and of what lies beside them."""
        Writer(network, most).g.write(path)
        self.network, self.allocations = network, 0
        return tuple(int(n) for n in self.ask(f"open {path} {tier}").split())

    def bind(self, inputs, lengths):
        """inputs: {name: array}, rows of all sequences one after the other; lengths: {domain: lengths}."""
        for domain, of_each in lengths.items():
            self.ask(f"input {domain}_lengths {len(of_each)}", np.asarray(of_each, np.int32).tobytes())
        for name, x in inputs.items():
            self.ask(f"input {name} " + " ".join(map(str, x.shape)), np.ascontiguousarray(x, np.float32).tobytes())
        last = self.network.output
        self.shape = (sum(lengths[last.domain]), *last.shape) if last.domain else last.shape
        self.ask("output y " + " ".join(map(str, self.shape)))

    def run(self, times):
        seconds, allocations = self.ask(f"run {times}").split()
        self.allocations = -1 if int(allocations) < 0 else max(self.allocations, int(allocations))
        return float(seconds)

    def result(self):
        self.process.stdin.write(b"result y\n")
        self.process.stdin.flush()
        data = self.process.stdout.read(4 * int(np.prod(self.shape)))
        return np.frombuffer(data, np.float32).reshape(self.shape)

    def end(self):
        self.process.stdin.close()
        self.process.wait()
