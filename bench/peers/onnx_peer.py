"""The net as an ONNX file, run by ONNX Runtime on one thread with every graph optimisation."""

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from nets import bicubic_filter
from stopwatch import Stopwatch


def write_onnx(path, layers):
    nodes, tensors = [], []

    def constant(name, array):
        tensors.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    y = "in"
    for i, (weight, bias, slopes) in enumerate(layers):
        pad = weight.shape[2] // 2
        nodes.append(helper.make_node("Conv", [y, constant(f"w{i}", weight), constant(f"b{i}", bias)], [f"c{i}"],
                                      pads=[pad] * 4))
        y = f"c{i}"
        if slopes is not None:
            nodes.append(helper.make_node("PRelu", [y, constant(f"s{i}", slopes.reshape(-1, 1, 1))], [f"p{i}"]))
            y = f"p{i}"
    pads = constant("pads", np.array([0, 0, 2, 2, 0, 0, 2, 2], np.int64))
    nodes += [helper.make_node("Pad", ["in", pads], ["padded"], mode="edge"),
              helper.make_node("Conv", ["padded", constant("bicubic", bicubic_filter())], ["base"]),
              helper.make_node("Add", [y, "base"], ["sum"]),
              helper.make_node("DepthToSpace", ["sum"], ["out"], blocksize=2, mode="CRD")]
    image = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, None, None])
    graph = helper.make_graph(nodes, "net", [image("in")], [image("out")], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


class OnnxPeer:
    def __init__(self, layers, path):
        write_onnx(path, layers)
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.name = f"onnxruntime {ort.__version__}"

    def run(self, x):
        with Stopwatch() as watch:
            y = self.session.run(None, {"in": x[None, None]})[0]
        return watch, y[0, 0]
