# tags: needs:onnx,numpy,gguf
"""Convolutions of quantised numbers, by the ONNX importer: as exact as whole numbers are, layer upon layer, so that no
step is another one than arithmetic says, but where a number lies between two steps.
"""

import os
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig  # noqa: F401: it finds the package
from brainstorm import session
from brainstorm.onnx import compare, importing

node = helper.make_node
NEAR = 4e-7  # of a number of steps to a half, within which either of both is right: what f32 rounds to


class Quantised:
    """x, quantised, and layers of convolutions, quantised again; exact() is what they give."""

    def __init__(self, seed, shape, layers, **kind):
        self.random, self.shape, self.kind = np.random.default_rng(seed), shape, kind
        self.scales, self.layers, self.made = [np.float32(0.03)], [], {}
        self.nodes = [node("QuantizeLinear", ["x", "s0", "z"], ["q0"]),
                      node("DequantizeLinear", ["q0", "s0", "z"], ["d0"])]
        self.made.update(s0=self.scales[0], z=np.uint8(128))
        channels = shape[1]
        for number in range(1, layers + 1):
            channels = self.layer(number, channels, kind.get("channels", 24))

    def layer(self, number, inputs, channels):
        groups = inputs if self.kind.get("depthwise") else 1
        channels = inputs if groups > 1 else channels
        spatial, kernel = len(self.shape) - 2, self.kind.get("kernel", 3)
        taps = inputs // groups * kernel**spatial
        unsigned = self.kind.get("unsigned")
        w = self.random.integers(0 if unsigned else -127, 256 if unsigned else 128,
                                 (channels, inputs // groups, *[kernel] * spatial))
        zero = int(self.random.integers(100, 150)) if unsigned else 0
        each = self.random.uniform(0.5, 1.5, channels if self.kind.get("each") else ()) * 0.06 / np.sqrt(taps) / 4
        scale, out = each.astype(np.float32), np.float32(0.02 + 0.004 * number)
        bias = self.random.integers(-900, 900, channels) if self.kind.get("bias") else np.zeros(channels, int)
        kind = np.uint8 if unsigned else np.int8
        zeros = np.full(scale.shape, zero, kind)
        self.made.update({f"w{number}": w.astype(kind), f"ws{number}": scale, f"wz{number}": zeros, f"s{number}": out,
                          f"b{number}": bias.astype(np.int32), f"bs{number}": self.scales[-1] * scale})
        along = {"axis": 0} if self.kind.get("each") else {}
        inputs_of = [f"d{number - 1}", f"v{number}"] + [f"bd{number}"] * bool(self.kind.get("bias"))
        self.nodes += [
            node("DequantizeLinear", [f"w{number}", f"ws{number}", f"wz{number}"], [f"v{number}"], **along),
            node("DequantizeLinear", [f"b{number}", f"bs{number}"], [f"bd{number}"], **along),
            node("Conv", inputs_of, [f"c{number}"], pads=[kernel // 2] * 2 * spatial, group=groups),
            node("QuantizeLinear", [f"c{number}", f"s{number}", "z"], [f"q{number}"]),
            node("DequantizeLinear", [f"q{number}", f"s{number}", "z"], [f"d{number}"])]
        self.layers.append((w - zero, np.broadcast_to(scale, channels), bias, out, groups))
        self.scales.append(out)
        return channels

    def model(self):
        outputs = [helper.make_tensor_value_info(f"q{i}", TensorProto.UINT8, None) for i in range(len(self.layers) + 1)]
        graph = helper.make_graph(
            self.nodes, "steps", [helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)], outputs,
            [numpy_helper.from_array(np.asarray(a), name) for name, a in self.made.items()])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)

    def exact(self, number, steps):
        """Steps of a layer, before they are rounded, of those of the one before."""
        w, scale, bias, out, groups = self.layers[number - 1]
        q, spatial = steps.astype(np.int64)[0] - 128, len(self.shape) - 2
        reach = w.shape[-1] // 2
        padded = np.pad(q, [(0, 0)] + [(reach, reach)] * spatial)
        windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[2:], tuple(range(1, 1 + spatial)))
        per = len(w) // groups
        total = [np.tensordot(w[o], windows[o // per * w.shape[1]:][:w.shape[1]],
                              [range(w.ndim - 1), [0, *range(1 + spatial, 1 + 2 * spatial)]]) for o in range(len(w))]
        line = (-1,) + (1,) * spatial
        sums = np.stack(total) + bias.reshape(line)
        return sums * (scale.astype(np.float64) * float(self.scales[number - 1]) / float(out)).reshape(line)


def nets():
    yield "a scale for all", Quantised(1, (1, 3, 54, 55), 3)
    yield "a scale for each channel", Quantised(2, (1, 3, 56, 56), 4, each=True)
    yield "32 channels, biases", Quantised(3, (1, 3, 48, 48), 3, each=True, bias=True, channels=32)
    yield "unsigned weights with a zero point", Quantised(4, (1, 4, 43, 52), 3, unsigned=True)
    yield "each channel by itself", Quantised(5, (1, 24, 40, 40), 3, depthwise=True, each=True)
    yield "5 by 5", Quantised(6, (1, 3, 46, 42), 2, kernel=5, bias=True)
    yield "pixels by themselves", Quantised(7, (1, 24, 39, 39), 3, kernel=1, each=True)
    yield "sequences", Quantised(8, (1, 6, 900), 3, each=True, bias=True)


def wrong(runner, net, path):
    """What is wrong; None: nothing."""
    result = importing.imported(net.model())
    result.walk.graph.write(path)
    runner.open(path)
    x = net.random.standard_normal(net.shape).astype(np.float32)
    made = compare.run_ours(runner, result.walk, {"x": x})
    for number in range(1, len(net.layers) + 1):
        exact = net.exact(number, made[number - 1])
        rounded = np.clip(np.rint(exact) + 128, 0, 255)
        sure = np.abs(np.abs(exact - np.floor(exact)) - 0.5) > NEAR * np.maximum(np.abs(exact), 30)
        apart = (made[number][0] != rounded) & sure
        if apart.any() or np.unique(made[number]).size < 30:
            return f"layer {number}: {int(apart.sum())} of {apart.size} steps are others"
    return None


def main():
    runner, failed = session.opened(), 0
    if runner is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder, runner:
        cases = list(nets())
        for name, net in cases:
            why = wrong(runner, net, os.path.join(folder, "net.gguf"))
            failed += why is not None
            print(f"FAIL {name}: {why}" if why else f"ok {name}")
    print(f"{len(cases) - failed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
