"""Networks with loops in ONNX Runtime: an LSTM by its op, with lengths where rows differ; others by
time_onnx_loops.py."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import time_onnx_loops
from network_onnx import OnnxTimed, session
from product_onnx import OnnxCase, lstm_constants
from time_forms import Lstm, Seq2seq


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


class OnnxLoop(OnnxTimed):
    """A network that `write` has made a file of."""
    name = "onnxruntime"

    def __init__(self, net, path):
        self.session, self.net = session(path), net
        self.feed = {name: np.ascontiguousarray(x) for name, x in net.inputs.items()}

    def result(self):
        return self.y


class OnnxWords(OnnxLoop):
    def result(self):
        words = np.zeros(self.net.result_shape, np.int32)
        words[:, :len(self.y)] = self.y.T
        return words


def made(net, path):
    """None: it has not been written for it."""
    if type(net) is Lstm and net.lengths is None:
        return OnnxCase(net.case, [net.inputs["x"]], net.weights, path)
    if type(net) is not Lstm and type(net) not in time_onnx_loops.WRITE:
        return None
    (write if type(net) is Lstm else time_onnx_loops.write)(net, path)
    return (OnnxWords if type(net) is Seq2seq else OnnxLoop)(net, path)
