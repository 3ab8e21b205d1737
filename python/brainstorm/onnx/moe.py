"""com.microsoft.MoE, with the weights of all experts in one tensor: a router with a block an expert.

    y = sum of g_e fc2_e(act(fc1_e(x)))    over the k largest of g = softmax(router input), or of these made to sum to 1

The activation "swiglu" is G sigmoid(alpha G) (L + beta), G and L from fc1, clamped: every other number of it
(swiglu_fusion 1), its two halves (2), or L from fc3 (0). Other activations are multiplied with fc3 where there is one.
Each becomes products of constants and a marker Routed (paths.py). Must never: take an attribute for another.
"""

import math

import numpy as np
import onnx

from . import choices
from .paths import DOMAIN
from .refused import Refused

MICROSOFT = "com.microsoft"
KNOWN = {"k", "activation_type", "normalize_routing_weights", "use_sparse_mixer", "swiglu_fusion", "swiglu_limit",
         "activation_alpha", "activation_beta"}
ACTS = ("relu", "gelu", "silu", "identity", "swiglu")


class Expanded:
    """The nodes and weights that stand for one MoE."""

    def __init__(self, node, constants, number):
        self.node, self.constants, self.stem = node, constants, f"{node.output[0]}.moe{number}"
        self.nodes, self.weights = [], []
        get = lambda name, default: choices.attribute(node, name, default)
        self.act, self.fusion = get("activation_type", "relu"), get("swiglu_fusion", 0)
        self.alpha, self.beta = get("activation_alpha", 1.0), get("activation_beta", 0.0)
        self.limit, self.k = get("swiglu_limit", math.inf), get("k", 1)
        odd = {a.name for a in node.attribute} - KNOWN
        if odd or get("use_sparse_mixer", 0):
            raise Refused(f"MoE {node.name!r}: {', '.join(sorted(odd)) or 'use_sparse_mixer'} is not taken")
        if self.act not in ACTS or self.fusion not in (0, 1, 2):
            raise Refused(f"MoE {node.name!r}: activation {self.act!r}, swiglu_fusion {self.fusion}")
        self.normalise = int(bool(get("normalize_routing_weights", 0)))
        self.build()

    def stacked(self, index, rank):
        """Weights of all experts; None: left out."""
        if index >= len(self.node.input) or not self.node.input[index]:
            return None
        tensor = self.constants.get(self.node.input[index])
        try:
            array = None if tensor is None else onnx.numpy_helper.to_array(tensor)
        except (ValueError, TypeError, KeyError) as why:
            raise Refused(f"MoE {self.node.name!r}: input {index}: {why}") from None
        if array is None:
            raise Refused(f"MoE {self.node.name!r}: input {index} must be a constant")
        if array.ndim != rank or not is_floats(array):
            raise Refused(f"MoE {self.node.name!r}: input {index} is {array.dtype} {list(array.shape)}, expected "
                          f"{rank} axes")
        return array

    def layers(self):
        """[(weight [E, out, in], bias or None)] of fc1, fc2 and fc3, which may be None."""
        found = [(self.stacked(i, 3), self.stacked(i + 1, 2)) for i in (2, 4, 6)]
        (fc1, _), (fc2, _), (fc3, _) = found
        if fc1 is None or fc2 is None:
            raise Refused(f"MoE {self.node.name!r}: it has no weights")
        width = fc2.shape[2] * (2 if self.act == "swiglu" and self.fusion else 1)
        expected = [(fc2.shape[0], width, fc1.shape[2]), fc2.shape, (fc2.shape[0], fc2.shape[2], fc1.shape[2])]
        for number, ((weight, bias), shape) in enumerate(zip(found, expected)):
            if weight is not None and weight.shape != shape or bias is not None and bias.shape != shape[:2] or \
                    weight is None and bias is not None:
                raise Refused(f"MoE {self.node.name!r}: fc{number + 1} of shape "
                              f"{None if weight is None else list(weight.shape)}, expected {list(shape)}")
        if fc2.shape[0] < 1 or self.act == "swiglu" and (fc3 is None) == (self.fusion == 0):
            raise Refused(f"MoE {self.node.name!r}: swiglu_fusion {self.fusion} "
                          f"{'without' if fc3 is None else 'with'} fc3")
        return found

    def add(self, op, *inputs, domain="", **attributes):
        out = f"{self.stem}.{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, list(inputs), [out], domain=domain, **attributes))
        return out

    def weight(self, array):
        name = f"{self.stem}.w{len(self.weights)}"
        self.weights.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def linear(self, x, weight, bias):
        given = [] if bias is None else [self.weight(bias)]
        return self.add("Gemm", x, self.weight(weight), *given, transB=1)

    def of(self, layer, expert, part=slice(None)):
        weight, bias = layer
        return weight[expert][part], None if bias is None else bias[expert][part]

    def scalar(self, number):
        return self.weight(np.array(number, np.float32))

    def activated(self, x):
        if self.act == "relu":
            return self.add("Relu", x)
        if self.act == "gelu":
            return self.add("Gelu", x, approximate="tanh")
        return self.add("Mul", x, self.add("Sigmoid", x)) if self.act == "silu" else x

    def swiglu(self, gate, linear):
        if math.isfinite(self.limit):
            gate = self.add("Min", gate, self.scalar(self.limit))
            linear = self.add("Clip", linear, self.scalar(-self.limit), self.scalar(self.limit))
        turned = gate if self.alpha == 1 else self.add("Mul", gate, self.scalar(self.alpha))
        linear = linear if self.beta == 0 else self.add("Add", linear, self.scalar(self.beta))
        return self.add("Mul", self.add("Mul", gate, self.add("Sigmoid", turned)), linear)

    def expert(self, x, layers, e):
        fc1, fc2, fc3 = layers
        half = fc2[0].shape[2]
        if self.act == "swiglu":
            parts = {0: (slice(None), None), 1: (slice(0, None, 2), slice(1, None, 2)),
                     2: (slice(0, half), slice(half, None))}[self.fusion]
            gate = self.linear(x, *self.of(fc1, e, parts[0]))
            linear = self.linear(x, *(self.of(fc3, e) if parts[1] is None else self.of(fc1, e, parts[1])))
            hidden = self.swiglu(gate, linear)
        else:
            hidden = self.activated(self.linear(x, *self.of(fc1, e)))
            if fc3[0] is not None:
                hidden = self.add("Mul", hidden, self.linear(x, *self.of(fc3, e)))
        return self.linear(hidden, *self.of(fc2, e))

    def build(self):
        layers = self.layers()
        width, experts = layers[0][0].shape[2], layers[0][0].shape[0]
        lines = self.weight(np.array([-1, width], np.int64))
        x = self.add("Reshape", self.node.input[0], lines)
        scores = self.add("Softmax", self.node.input[1], axis=-1)
        values = [self.expert(x, layers, e) for e in range(experts)]
        y = self.add("Routed", x, scores, *values, domain=DOMAIN, k=self.k, normalise=self.normalise, weighted=1)
        self.nodes[-1].name = self.node.name or "moe"
        self.nodes[-1].metadata_props.extend(self.node.metadata_props)
        self.add("Reshape", y, self.add("Shape", self.node.input[0]))
        self.nodes[-1].output[0] = self.node.output[0]


def is_floats(array):
    return array.dtype.kind == "f" or array.dtype.name == "bfloat16"


def expanded(model):
    """The model with its MoEs as routers; itself where it has none."""
    if not any(node.domain == MICROSOFT and node.op_type == "MoE" for node in model.graph.node):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    constants, nodes = {t.name: t for t in copy.graph.initializer}, []
    for node in copy.graph.node:
        if node.op_type == "Constant" and node.output and choices.attribute(node, "value") is not None:
            constants[node.output[0]] = choices.attribute(node, "value")
    for number, node in enumerate(copy.graph.node):
        if (node.domain, node.op_type) != (MICROSOFT, "MoE"):
            nodes.append(node)
            continue
        if len(node.input) < 5 or not all(node.input[i] for i in (0, 1)) or len(node.output) != 1:
            raise Refused(f"MoE {node.name!r}: {len(node.input)} inputs and {len(node.output)} outputs")
        try:
            made = Expanded(node, constants, number)
        except (TypeError, ValueError, AttributeError) as why:
            if isinstance(why, Refused):
                raise
            raise Refused(f"MoE {node.name!r} is not well formed ({why})") from None
        nodes += made.nodes
        copy.graph.initializer.extend(made.weights)
    kept = [onnx.NodeProto() for _ in nodes]
    for one, node in zip(kept, nodes):
        one.CopyFrom(node)
    del copy.graph.node[:]
    copy.graph.node.extend(kept)
    if not any(o.domain == DOMAIN for o in copy.opset_import):
        copy.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return copy
