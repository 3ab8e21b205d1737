"""A case of product_cases.py as an ONNX graph, run by ONNX Runtime on one thread, inputs and outputs bound."""

import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from product_cases import LSTM

SPELT = {"relu": "Relu", "gelu": "Gelu", "sigmoid": "Sigmoid", "tanh": "Tanh"}


def nodes_of(case, x, y):
    """The nodes from x to y; constants are named as our weights."""
    a, act = case.arguments, case.activation()
    last = y if act is None or case.kind == "activation" else y + "_before"
    nodes = []
    if case.kind == "linear":
        nodes.append(helper.make_node("Gemm", [x, "op.weight", "op.bias"], [last], transB=1))
    elif case.kind == "matmul":
        nodes.append(helper.make_node("MatMul", [x, "op.weight"], [last]))
    elif case.kind == "softmax":
        nodes.append(helper.make_node("Softmax", [x], [last], axis=-1))
    elif case.kind == "layer_norm":
        nodes.append(helper.make_node("LayerNormalization", [x, "op.weight", "op.bias"], [last], axis=-1))
    elif case.kind == "heads":
        nodes += [helper.make_node("Reshape", [x, "split"], [y + "_split"]),
                  helper.make_node("Transpose", [y + "_split"], [last], perm=[1, 0, 2])]
    elif case.kind == "lstm":
        for i in range(a[4]):
            made = x if i == 0 else f"h{i}"
            to = last if i + 1 == a[4] else f"h{i + 1}"
            given = ["", f"h{i}_in", f"c{i}_in"] if case.stream else []
            left = [f"h{i}_out", f"c{i}_out"] if case.stream else []
            nodes += [helper.make_node("LSTM", [made, f"op{i}.W", f"op{i}.R", f"op{i}.B", *given], [f"all{i}", *left],
                                       hidden_size=a[3]),
                      helper.make_node("Squeeze", [f"all{i}", "directions"], [to])]
    elif case.kind == "conv":
        nodes.append(helper.make_node("Conv", [x, "op.weight", "op.bias"], [last], pads=[a[3] // 2] * 4,
                                      strides=[a[4]] * 2, group=a[5]))
    else:
        last = x
    if act == "silu":
        nodes += [helper.make_node("Sigmoid", [last], [y + "_gate"]), helper.make_node("Mul", [last, y + "_gate"], [y])]
    elif act:
        nodes.append(helper.make_node(SPELT[act], [last], [y]))
    return nodes


def gates_in_order(*weights):
    """W, R and B of ONNX' LSTM, gates in the order i, o, f, c."""
    w, r, *biases = (np.concatenate([np.split(each, 4)[gate] for gate in (0, 3, 1, 2)]) for each in weights)
    return w[None], r[None], np.concatenate(biases)[None]


def lstm_constants(case, weights):
    constants = {"directions": np.array([1], np.int64)}
    for i in range(case.arguments[4]):
        made = gates_in_order(*(weights[f"op{i}.{k}"] for k in LSTM))
        constants.update(zip((f"op{i}.W", f"op{i}.R", f"op{i}.B"), made))
    return constants


def states_of(case):
    _, rows, _, units, layers, _ = case.arguments
    return [(f"{letter}{i}", (1, rows, units)) for i in range(layers) for letter in "hc"]


def write(case, weights, path):
    constants = dict(weights)
    if case.kind == "matmul" and case.arguments[4]:
        constants["op.weight"] = np.ascontiguousarray(np.swapaxes(weights["op.weight"], 1, 2))
    if case.kind == "lstm":
        constants = lstm_constants(case, weights)
    if case.kind == "heads":
        rows, width, heads = case.arguments
        constants["split"] = np.array([rows, heads, width // heads], np.int64)
    batch = (1,) if case.kind == "conv" else ()
    given, made = batch + tuple(case.input_shape), batch + tuple(case.result_shape)
    value = lambda name, shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    nodes, ins, outs = [], [], []
    if case.stream:
        chunk = case.arguments[5]
        given, made = (chunk, *given[1:]), (chunk, *made[1:])
        ins += [value(name + "_in", shape) for name, shape in states_of(case)]
        outs += [value(name + "_out", shape) for name, shape in states_of(case)]
    for i in range(case.count):
        nodes += nodes_of(case, f"x{i}", f"y{i}")
        ins.append(value(f"x{i}", given))
        outs.append(value(f"y{i}", made))
    graph = helper.make_graph(nodes, "case", ins, outs, [numpy_helper.from_array(np.ascontiguousarray(w), k)
                                                         for k, w in constants.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)


class OnnxCase:
    name = "onnxruntime"

    def __init__(self, case, inputs, weights, path):
        write(case, weights, path)
        options = ort.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.log_severity_level = 3
        self.session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.binding = self.session.io_binding()
        batch = (1,) if case.kind == "conv" else ()
        self.results = [np.empty(batch + tuple(case.result_shape), np.float32) for _ in inputs]
        self.inputs = [np.ascontiguousarray(x.reshape(batch + x.shape)) for x in inputs]
        self.case = case
        for i, (x, y) in enumerate(zip(self.inputs, self.results)):
            if case.stream:
                continue
            self.binding.bind_input(f"x{i}", "cpu", 0, np.float32, x.shape, x.ctypes.data)
            self.binding.bind_output(f"y{i}", "cpu", 0, np.float32, y.shape, y.ctypes.data)

    def stream(self):
        chunk, feed = self.case.arguments[5], {f"{n}_in": np.zeros(s, np.float32) for n, s in states_of(self.case)}
        names = [f"{n}_out" for n, _ in states_of(self.case)]
        for at in range(0, len(self.inputs[0]), chunk):
            feed["x0"] = self.inputs[0][at:at + chunk]
            self.results[0][at:at + chunk], *states = self.session.run(["y0", *names], feed)
            feed.update({name.replace("_out", "_in"): s for name, s in zip(names, states)})

    def run(self, times):
        since = time.process_time()
        for _ in range(times):
            self.stream() if self.case.stream else self.session.run_with_iobinding(self.binding)
        return time.process_time() - since

    def result(self, index=0):
        return self.results[index].reshape(self.results[index].shape[-3:])
