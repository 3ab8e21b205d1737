"""Networks for the tests of the ONNX importer: the light models of the onnx package with weights, and small ones of our
own. Random weights of a size that keeps activations near 1; seeds make them the same every time.
"""

import glob
import os

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

LIGHT = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")


def light_names():
    return sorted(os.path.basename(path)[6:-5] for path in glob.glob(os.path.join(LIGHT, "light_*.onnx")))


def light(name, seed=1):
    """A light model: its nodes ConstantOfShape, which stand for weights, become random initializers."""
    model, random = onnx.load(os.path.join(LIGHT, f"light_{name}.onnx")), np.random.default_rng(seed)
    shapes = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    used = {name: node for node in model.graph.node for name in node.input}
    kept = []
    for node in model.graph.node:
        if node.op_type != "ConstantOfShape":
            kept.append(node)
            continue
        shape = shapes[node.input[0]]
        reader = used[node.output[0]]
        array = random.standard_normal(shape) * np.sqrt(2 / max(np.prod(shape[1:]), 1)) if len(shape) > 1 else \
            random.uniform(0.5, 1.5, shape)
        if len(shape) == 1 and reader.op_type in ("Conv", "Gemm"):
            array = array - 1
        model.graph.initializer.append(numpy_helper.from_array(array.astype(np.float32), node.output[0]))
    del model.graph.node[:]
    model.graph.node.extend(kept)
    model.ir_version = 8  # initializers need not be inputs
    if kept[-1].op_type == "Softmax":  # what it is made of tells more than a 1 among zeros
        model.graph.output.append(helper.make_tensor_value_info(kept[-1].input[0], TensorProto.FLOAT, None))
    return model


class Net:
    """Nodes one after the other; each method gives the name of what it makes."""

    def __init__(self, seed=1):
        self.nodes, self.weights, self.random, self.count = [], [], np.random.default_rng(seed), 0

    def node(self, op, *inputs, outputs=1, **attributes):
        self.count += 1
        names = [f"{op.lower()}_{self.count}.{i}" if outputs > 1 else f"{op.lower()}_{self.count}"
                 for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, f"/{op}_{self.count}", **attributes))
        return names[0] if outputs == 1 else names

    def array(self, array, dtype=np.float32):
        self.count += 1
        self.weights.append(numpy_helper.from_array(np.asarray(array, dtype), f"weight_{self.count}"))
        return f"weight_{self.count}"

    def numbers(self, *values):
        return self.array(values, np.int64)

    def weight(self, *shape):
        return self.array(self.random.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:])))

    def line(self, size, low=-0.5, high=0.5):
        return self.array(self.random.uniform(low, high, size))

    def conv(self, x, out, inputs, kernel, **attributes):
        pads = [kernel // 2] * 4
        return self.node("Conv", x, self.weight(out, inputs, kernel, kernel), self.line(out), pads=pads, **attributes)

    def norm(self, x, size):
        return self.node("BatchNormalization", x, self.line(size, 0.5, 1.5), self.line(size), self.line(size),
                         self.line(size, 0.5, 1.5))

    def linear(self, x, inputs, out):
        return self.node("Add", self.node("MatMul", x, self.array(self.random.standard_normal((inputs, out))
                                                                  / np.sqrt(inputs))), self.line(out))

    def model(self, inputs, outputs, opset=18):
        """inputs, outputs: {name: shape}, of f32."""
        ports = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in p.items()]
                 for p in (inputs, outputs)]
        graph = helper.make_graph(self.nodes, "net", *ports, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def mobile(batch=1, opset=18):
    """MobileNetV2's blocks: expand, depthwise, project, add."""
    net = Net(2)
    zero, six = net.array(0.0), net.array(6.0)
    relu6 = lambda x: net.node("Clip", x, zero, six)
    x = relu6(net.norm(net.conv("x", 8, 3, 3, strides=[2, 2]), 8))
    for inputs, out, stride in ((8, 8, 1), (8, 12, 2), (12, 12, 1)):
        wide = relu6(net.norm(net.conv(x, 4 * inputs, inputs, 1), 4 * inputs))
        deep = relu6(net.norm(net.conv(wide, 4 * inputs, 1, 3, group=4 * inputs, strides=[stride, stride]),
                              4 * inputs))
        y = net.norm(net.conv(deep, out, 4 * inputs, 1), out)
        x = net.node("Add", x, y) if inputs == out and stride == 1 else y
    if opset < 18:
        x = net.node("ReduceMean", x, axes=[2, 3], keepdims=0)
    else:
        x = net.node("ReduceMean", x, net.numbers(2, 3), keepdims=0)
    x = net.node("Gemm", x, net.weight(10, 12), net.line(10), transB=1)
    net.nodes[-1].output[0] = "y"
    return net.model({"x": [batch, 3, 32, 32]}, {"y": [batch, 10]}, opset)


def attention(net, x, width, heads, rows):
    """Written out, as exporters do: three products, heads apart, a scaled softmax."""
    parts = []
    for order in ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]):
        y = net.node("Reshape", net.linear(x, width, width), net.numbers(0, rows, heads, width // heads))
        parts.append(net.node("Transpose", y, perm=order))
    scores = net.node("Mul", net.node("MatMul", parts[0], parts[1]), net.array((width // heads) ** -0.5))
    y = net.node("MatMul", net.node("Softmax", scores, axis=-1), parts[2])
    y = net.node("Reshape", net.node("Transpose", y, perm=[0, 2, 1, 3]), net.numbers(0, rows, width))
    return net.linear(y, width, width)


def vision_transformer(batch=1):
    """Patches, a class token, two layers, the class token's line."""
    net, width, rows = Net(3), 32, 17
    y = net.node("Conv", "x", net.weight(width, 3, 8, 8), net.line(width), strides=[8, 8])
    y = net.node("Transpose", net.node("Reshape", y, net.numbers(0, width, -1)), perm=[0, 2, 1])
    shape = net.node("Shape", "x", start=0, end=1)
    shape = net.node("Concat", shape, net.numbers(1, width), axis=0)
    token = net.node("Expand", net.array(net.random.standard_normal((1, 1, width))), shape)
    y = net.node("Add", net.node("Concat", token, y, axis=1), net.array(net.random.standard_normal((1, rows, width))))
    for _ in range(2):
        normed = net.node("LayerNormalization", y, net.line(width, 0.5, 1.5), net.line(width), axis=-1)
        y = net.node("Add", y, attention(net, normed, width, 4, rows))
        normed = net.node("LayerNormalization", y, net.line(width, 0.5, 1.5), net.line(width), axis=-1)
        wide = net.linear(normed, width, 4 * width)
        erf = net.node("Erf", net.node("Div", wide, net.array(np.sqrt(2.0))))
        wide = net.node("Mul", net.node("Mul", wide, net.node("Add", erf, net.array(1.0))), net.array(0.5))
        y = net.node("Add", y, net.linear(wide, 4 * width, width))
    y = net.node("Gather", y, net.array(0, np.int64), axis=1)
    y = net.linear(y, width, 10)
    net.nodes[-1].output[0] = "y"
    return net.model({"x": [batch, 3, 32, 32]}, {"y": [batch, 10]})


def recurrent(kind="LSTM", batch=2, opset=18):
    """Two directions over steps, then a line for each step."""
    net, gates, units, inputs = Net(4), {"LSTM": 4, "GRU": 3, "RNN": 1}[kind], 6, 5
    attributes = {"linear_before_reset": 1} if kind == "GRU" else {}
    names = net.node(kind, "x", net.array(net.random.standard_normal((2, gates * units, inputs)) / 3),
                     net.array(net.random.standard_normal((2, gates * units, units)) / 3),
                     net.array(net.random.standard_normal((2, 2 * gates * units)) / 3), outputs=2,
                     hidden_size=units, direction="bidirectional", **attributes)
    y = net.node("Reshape", net.node("Transpose", names[0], perm=[0, 2, 1, 3]), net.numbers(0, 0, -1))
    y = net.linear(y, 2 * units, 3)
    net.nodes[-1].output[0] = "y"
    return net.model({"x": [7, batch, inputs]}, {"y": [7, batch, 3], names[1]: [2, batch, units]}, opset)


def super_resolution(height=40, width=48):
    """ESPCN's kind: convolutions, a shuffle by 2, beside a bilinear enlargement. Extents may be names."""
    net = Net(6)
    y = net.node("Tanh", net.conv("x", 16, 3, 5))
    y = net.node("PRelu", net.conv(y, 8, 16, 3), net.array(net.random.uniform(0, 0.5, (8, 1, 1))))
    y = net.node("DepthToSpace", net.conv(y, 12, 8, 3), blocksize=2, mode="CRD")
    large = net.node("Resize", "x", "", net.array([1, 1, 2, 2]), mode="linear")
    net.node("Add", y, large)
    net.nodes[-1].output[0] = "y"
    return net.model({"x": [1, 3, height, width]}, {"y": [1, 3, None, None]})


def scoped():
    """Two experts, as PyTorch names what stands in them; each module's nodes stand beside each other."""
    net = Net(7)
    parts = []
    for expert in range(2):
        first = len(net.nodes)
        parts.append(net.linear(net.node("Relu", net.linear("x", 6, 12)), 12, 6))
        for node in net.nodes[first:]:
            node.metadata_props.add(key="pkg.torch.onnx.name_scopes",
                                    value=repr(["", "moe", f"moe.paths.{expert}", f"moe.paths.{expert}.fc", "linear"]))
    net.node("Add", *parts)
    net.nodes[-1].output[0] = "y"
    return net.model({"x": [4, 6]}, {"y": [4, 6]})


def written_out():
    """A layer norm, a GELU and an RMS norm as exporters write them in nodes, twice in other orders."""
    net, width = Net(8), 24
    two, half, one, root = net.array(2.0), net.array(0.5), net.array(1.0), net.array(np.sqrt(2.0))
    epsilon, last, x = net.array(1e-5), net.numbers(-1), "x"
    for turn in range(2):
        centred = net.node("Sub", x, net.node("ReduceMean", x, last))
        square = net.node("Pow", centred, two) if turn else net.node("Mul", centred, centred)
        deviation = net.node("Sqrt", net.node("Add", net.node("ReduceMean", square, last), epsilon))
        y = net.node("Mul", net.line(width), net.node("Div", centred, deviation))
        y = net.linear(net.node("Add", y, net.line(width)), width, width)
        scaled = net.node("Mul", y, net.array(np.sqrt(0.5))) if turn else net.node("Div", y, root)
        bell = net.node("Add", net.node("Erf", scaled), one)
        y = net.node("Mul", net.node("Mul", y, half), bell) if turn else net.node("Mul", half, net.node("Mul", y, bell))
        mean = net.node("ReduceMean", net.node("Pow", y, two), last)
        size = net.node("Sqrt", net.node("Add", mean, epsilon))
        y = net.node("Mul", y, net.node("Reciprocal", size)) if turn else net.node("Div", y, size)
        x = net.node("Mul", y, net.line(width))
    net.nodes[-1].output[0] = "y"
    return net.model({"x": [2, 5, width]}, {"y": [2, 5, width]})


def scaled():
    """Scales and shifts in every order behind a convolution and a product; what is almost a GELU."""
    net = Net(9)
    side = lambda low=-0.5, high=0.5: net.array(net.random.uniform(low, high, (6, 1, 1)))
    y = net.node("Add", net.norm(net.conv("x", 6, 3, 3), 6), side())
    y = net.node("Sub", net.node("Mul", net.node("Div", y, side(0.5, 2)), side()), side())
    y = net.node("LeakyRelu", y, alpha=0.2)
    y = net.node("Mul", net.node("Add", net.norm(y, 6), side()), side())
    y = net.node("Add", net.linear(y, 8, 5), net.line(5))
    y = net.node("Mul", net.node("Add", net.node("Mul", y, net.line(5)), net.line(5)), net.line(5))
    bell = net.node("Add", net.node("Erf", net.node("Div", y, net.array(np.sqrt(2.0)))), net.array(1.0))
    net.node("Mul", net.node("Mul", y, bell), net.array(0.25))
    net.nodes[-1].output[0] = "y"
    return net.model({"x": [1, 3, 8, 8]}, {"y": [1, 6, 8, 5]})


def excited():
    """Squeeze and excitation as PyTorch exports it: means over both axes of an image, gates, and a head of maxima."""
    net, x = Net(11), "x"
    axes, away = net.numbers(2, 3), net.numbers(-2, -1)
    for _ in range(2):
        x = net.node("Relu", net.conv(x, 6, 3 if x == "x" else 6, 3))
        gate = net.node("Relu", net.conv(net.node("ReduceMean", x, axes, keepdims=1), 4, 6, 1))
        x = net.node("Mul", net.node("HardSigmoid", net.conv(gate, 6, 4, 1), alpha=1 / 6), x)
    net.node("ReduceMax", x, away, keepdims=0)
    net.nodes[-1].output[0] = "y"
    return net.model({"x": [1, 3, 9, 7]}, {"y": [1, 6]})


def gates():
    """x clip(x + 3, 0, 6) / 6 as exporters write it, scaled and moved; what is almost that; images that grow by nearest
    pixels; transposed convolutions of few and of many channels."""
    net = Net(12)
    three, zero, six, low = net.array(3.0), net.array(0.0), net.array(6.0), net.array(-2.0)
    x = net.conv("x", 5, 3, 3)
    y = net.node("Div", net.node("Mul", x, net.node("Clip", net.node("Add", x, three), zero, six)), six)
    x = net.conv(net.node("Add", net.node("Mul", y, net.array([0.7])), net.array([-0.2])), 6, 5, 1)
    y = net.node("Mul", net.node("Clip", net.node("Add", three, x), low, six), x)
    x = net.conv(net.node("Mul", net.node("Mul", y, net.array(-0.25)), net.array(np.linspace(0.5, 1, 9))), 5, 6, 1)
    y = net.node("Div", six, net.node("Add", net.node("Mul", x, net.node("Clip", net.node("Add", x, three), zero, six)),
                                      net.array(9.0)))  # divides by it: no scale
    x = net.node("Mul", net.node("Clip", net.node("Add", y, three), zero, six), x)  # gates another
    x = net.node("Resize", x, "", net.array([1.0, 1, 2, 2]), mode="nearest", nearest_mode="floor",
                 coordinate_transformation_mode="asymmetric")
    x = net.node("Relu", net.node("ConvTranspose", x, net.weight(5, 12, 2, 2), net.line(12), strides=[2, 2]))
    net.node("Sigmoid", net.node("ConvTranspose", x, net.weight(12, 2, 3, 3), net.line(2), strides=[3, 3]))
    net.nodes[-1].output[0] = "y"
    return net.model({"x": [1, 3, 7, 9]}, {"y": [1, 2, 84, 108]})


def attended():
    """Attention as PyTorch exports it: queries and turned keys are scaled by the root each."""
    net, rows, heads, width = Net(13), 7, 2, 6
    parts = net.numbers(1, rows, heads, width)
    q, k, v = (net.node("Transpose", net.node("Reshape", net.linear("x", 12, 12), parts), perm=[0, 2, 1, 3])
               for _ in range(3))
    root = net.array(width ** -0.25)
    scores = net.node("MatMul", net.node("Mul", q, root), net.node("Mul", net.node("Transpose", k, perm=[0, 1, 3, 2]),
                                                                   root))
    y = net.node("MatMul", net.node("Softmax", scores, axis=-1), v)
    net.node("Reshape", net.node("Transpose", y, perm=[0, 2, 1, 3]), net.numbers(1, rows, heads * width))
    net.nodes[-1].output[0] = "y"
    return net.model({"x": [1, rows, 12]}, {"y": [1, rows, 12]})


def of_its_size():
    """x times its height."""
    net = Net(10)
    height = net.node("Cast", net.node("Shape", "x", start=2, end=3), to=TensorProto.FLOAT)
    net.node("Mul", "x", height)
    net.nodes[-1].output[0] = "y"
    return net.model({"x": [1, 2, "H", "W"]}, {"y": [1, 2, "H", "W"]})
