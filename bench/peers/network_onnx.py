"""Whole networks as ONNX files, run by ONNX Runtime on one thread with every graph optimisation.

Rows are in the fused form that its transformer optimizer makes: Attention or MultiHeadAttention,
SkipLayerNormalization, BiasGelu (com.microsoft). Sequences of different lengths are padded, with a mask of lengths.
"""

import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from network_rows import padded

MICROSOFT = "com.microsoft"


class Writer:
    """fused: the op of attention to itself, "Attention" or "MultiHeadAttention". masked: sequences are padded."""

    def __init__(self, network, path, fused, masked):
        self.network, self.fused, self.masked = network, fused, masked
        self.nodes, self.constants, self.skipped = [], {}, set()
        self.users = {}
        for layer in network.layers:
            for x in layer.inputs:
                self.users.setdefault(x.number, []).append(layer)
        for layer in network.layers:
            if layer.op != "input" and layer.number not in self.skipped:
                getattr(self, layer.op)(layer, *(x.name for x in layer.inputs))
        self.save(path)

    def save(self, path):
        ins = []
        for layer in self.network.inputs:
            leading = [f"{layer.domain}_count", f"{layer.domain}_rows"] if layer.domain else [1]
            dims = [*leading, *layer.shape]
            ins.append(helper.make_tensor_value_info(layer.name, TensorProto.FLOAT, dims))
        if self.masked:
            ins += [helper.make_tensor_value_info(f"{d}_lengths", TensorProto.INT32, [f"{d}_count"])
                    for d in sorted({layer.domain for layer in self.network.inputs})]
        last = self.network.output
        out = helper.make_tensor_value_info(last.name, TensorProto.FLOAT, None)
        graph = helper.make_graph(self.nodes, self.network.name, ins, [out],
                                  [numpy_helper.from_array(np.ascontiguousarray(v), k)
                                   for k, v in self.constants.items()])
        sets = [helper.make_opsetid("", 20), helper.make_opsetid(MICROSOFT, 1)]
        onnx.save(helper.make_model(graph, opset_imports=sets, ir_version=9), path)

    def node(self, op, inputs, output, **attributes):
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))

    def constant(self, name, array):
        self.constants[name] = array
        return name

    def weight(self, layer, suffix):
        return self.network.weights[f"{layer.name}.{suffix}"]

    def activated(self, op, inputs, layer, **attributes):
        to = layer.name + "_before" if layer.act else layer.name
        self.node(op, inputs, to, **attributes)
        if layer.act == "relu6":
            bounds = [self.constant("zero", np.float32(0)), self.constant("six", np.float32(6))]
            self.node("Clip", [to, *bounds], layer.name)
        elif layer.act:
            self.node("Relu", [to], layer.name)

    def conv(self, layer, x):
        inputs = [x, *(self.constant(f"{layer.name}.{s}", self.weight(layer, s)) for s in ("weight", "bias"))]
        self.activated("Conv", inputs, layer, pads=[layer.pad] * 4, strides=[layer.stride] * 2, group=layer.groups)

    def pool(self, layer, x):
        more = {} if layer.kind == "max" else {"count_include_pad": 1}
        self.node("MaxPool" if layer.kind == "max" else "AveragePool", [x], layer.name, pads=[layer.pad] * 4,
                  kernel_shape=[layer.kernel] * 2, strides=[layer.stride] * 2, **more)

    def global_pool(self, layer, x):
        self.node("GlobalAveragePool", [x], layer.name + "_whole")
        self.node("Flatten", [layer.name + "_whole"], layer.name)

    def concat(self, layer, *parts):
        self.node("Concat", list(parts), layer.name, axis=1)

    def channels(self, layer, x):
        bounds = [self.constant(f"{layer.name}.{i}", np.array([n], np.int64))
                  for i, n in enumerate((layer.start, layer.start + layer.shape[0], 1))]
        self.node("Slice", [x, *bounds], layer.name)

    def shuffle(self, layer, x):
        c, h, w = layer.shape
        split = self.constant(f"{layer.name}.split", np.array([1, layer.groups, c // layer.groups, h, w], np.int64))
        whole = self.constant(f"{layer.name}.whole", np.array([1, c, h, w], np.int64))
        self.node("Reshape", [x, split], layer.name + "_split")
        self.node("Transpose", [layer.name + "_split"], layer.name + "_turned", perm=[0, 2, 1, 3, 4])
        self.node("Reshape", [layer.name + "_turned", whole], layer.name)

    def act(self, layer, x):
        self.activated("Identity", [x], layer)

    def add(self, layer, x, y):
        user = self.users.get(layer.number, [None])[0]
        if not (user and user.op == "norm" and len(self.users[layer.number]) == 1):
            return self.activated("Add", [x, y], layer)
        self.skipped.add(user.number)
        made = layer.inputs[1]
        bias = [self.constant(made.name + ".bias", self.weight(made, "bias"))] if made.op == "linear" else []
        gains = [self.constant(f"{user.name}.{s}", self.weight(user, s)) for s in ("weight", "bias")]
        return self.node("SkipLayerNormalization", [y, x, *gains, *bias], user.name, domain=MICROSOFT, epsilon=1e-5)

    def norm(self, layer, x):
        gains = [self.constant(f"{layer.name}.{s}", self.weight(layer, s)) for s in ("weight", "bias")]
        self.node("LayerNormalization", [x, *gains], layer.name, axis=-1, epsilon=1e-5)

    def linear(self, layer, x):
        weight, bias = self.weight(layer, "weight"), self.weight(layer, "bias")
        if not layer.domain:
            inputs = [x, self.constant(layer.name + ".weight", weight), self.constant(layer.name + ".bias", bias)]
            return self.activated("Gemm", inputs, layer, transB=1)
        user = self.users[layer.number][0] if layer.number in self.users else None
        fused_bias = user and (user.op == "attention" or user.op == "add")
        if user and user.op == "attention" and self.packed(user):
            return None
        weight = self.constant(layer.name + ".weight", np.ascontiguousarray(weight.T))
        if fused_bias:
            return self.node("MatMul", [x, weight], layer.name)
        self.node("MatMul", [x, weight], layer.name + "_product")
        bias = self.constant(layer.name + ".bias", bias)
        if layer.act == "gelu":
            return self.node("BiasGelu", [layer.name + "_product", bias], layer.name, domain=MICROSOFT)
        return self.activated("Add", [layer.name + "_product", bias], layer)

    def packed(self, layer):
        """Whether it is one node with its projections."""
        return self.fused == "Attention" and len({x.inputs[0].number for x in layer.inputs}) == 1

    def attention(self, layer, *projected):
        bias = self.constant(layer.name + ".bias", np.concatenate([self.weight(x, "bias") for x in layer.inputs]))
        mask = [f"{layer.inputs[1].domain}_lengths"] if self.masked else []
        more = {"domain": MICROSOFT, "num_heads": layer.heads}
        if layer.causal:
            more["unidirectional"] = 1
        if self.packed(layer):
            weight = np.concatenate([self.weight(x, "weight") for x in layer.inputs]).T
            inputs = [layer.inputs[0].inputs[0].name, self.constant(layer.name + ".weight", weight), bias, *mask]
            return self.node("Attention", inputs, layer.name, **more)
        return self.node("MultiHeadAttention", [*projected, bias, *mask], layer.name, **more)


class OnnxTimed:
    """What the session computes of `feed`, as often as asked for."""

    def run(self, times):
        since = time.process_time()
        for _ in range(times):
            self.y, = self.session.run(None, self.feed)
        return time.process_time() - since


class OnnxNetwork(OnnxTimed):
    def __init__(self, network, path, fused="Attention", masked=False):
        self.name, self.fused = "onnxruntime", fused
        self.network, self.masked = network, masked
        Writer(network, path, fused, masked)
        self.session = session(path)

    def bind(self, inputs, lengths):
        self.lengths, self.feed = lengths, {}
        for layer in self.network.inputs:
            x = inputs[layer.name]
            self.feed[layer.name] = padded(x, lengths[layer.domain]) if layer.domain else x[None].copy()
        if self.masked:
            self.feed.update({f"{d}_lengths": np.array(n, np.int32) for d, n in lengths.items()})

    def result(self):
        last = self.network.output
        if last.domain:
            return np.concatenate([self.y[i, :n] for i, n in enumerate(self.lengths[last.domain])])
        return self.y[0]


def session(path):
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
