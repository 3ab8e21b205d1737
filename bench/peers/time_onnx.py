"""Networks with loops that ONNX Runtime has an op for: layers of an LSTM, with lengths where rows differ."""

import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from network_onnx import session
from product_onnx import OnnxCase, lstm_constants
from time_forms import Lstm


def write(net, path):
    nodes, made = [], "x"
    for i in range(net.layers):
        to = "y" if i + 1 == net.layers else f"h{i}"
        nodes += [helper.make_node("LSTM", [made, f"op{i}.W", f"op{i}.R", f"op{i}.B", "lengths"], [f"all{i}"],
                                   hidden_size=net.units),
                  helper.make_node("Squeeze", [f"all{i}", "directions"], [to])]
        made = to
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    constants = {**lstm_constants(net.case, net.weights), "lengths": np.array(net.lengths, np.int32)}
    graph = helper.make_graph(nodes, "lstm", [value("x", net.inputs["x"].shape)], [value("y", net.result_shape)],
                              [numpy_helper.from_array(np.ascontiguousarray(w), k) for k, w in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


class OnnxRagged:
    name = "onnxruntime"

    def __init__(self, net, path):
        write(net, path)
        self.session, self.x = session(path), net.inputs["x"]

    def run(self, times):
        since = time.process_time()
        for _ in range(times):
            self.y, = self.session.run(None, {"x": self.x})
        return time.process_time() - since

    def result(self):
        return self.y


def made(net, path):
    """None where there is no op for it."""
    if type(net) is not Lstm:
        return None
    return OnnxRagged(net, path) if net.lengths is not None else OnnxCase(net.case, [net.inputs["x"]], net.weights,
                                                                          path)
