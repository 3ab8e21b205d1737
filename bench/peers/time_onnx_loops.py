"""Networks with loops that ONNX has no op for, as Scan and Loop, whose bodies are graphs; by ONNX Runtime.

Weights that a body uses lie in the body, where ONNX Runtime packs them ahead.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from product_cases import LSTM
from product_onnx import gates_in_order
from time_forms import Attention, Nasrnn, Seq2seq, Trips

TYPES = {np.dtype(np.float32): TensorProto.FLOAT, np.dtype(np.int32): TensorProto.INT32,
         np.dtype(np.int64): TensorProto.INT64, np.dtype(bool): TensorProto.BOOL}


class Body:
    """Nodes and constants of a graph, or of a body within one."""
    count = 0  # of all names made

    def __init__(self):
        self.nodes, self.constants = [], []

    def __call__(self, op, *inputs, outputs=1, **attributes):
        Body.count += outputs
        names = [f"{op.lower()}{Body.count - i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, array):
        Body.count += 1
        self.constants.append(numpy_helper.from_array(np.array(array, order="C"), f"constant{Body.count}"))
        return self.constants[-1].name

    def whole(self, *numbers):
        return self.constant(np.array(numbers, np.int64))

    def graph(self, inputs, outputs):
        """Both {name: type}, or {name: (type, shape)}."""
        told = lambda values: [helper.make_tensor_value_info(name, *(of if isinstance(of, tuple) else (of, None)))
                               for name, of in values.items()]
        return helper.make_graph(self.nodes, "body", told(inputs), told(outputs), self.constants)


def loop(top, body, start, end, collected, most, goes_on="true", types=None):
    """A Loop of `most` trips at most. start: {name in the body: name outside}; end: names in the body."""
    given = types or dict.fromkeys(start, TensorProto.FLOAT)
    inputs = {"trip": (TensorProto.INT64, []), "true": (TensorProto.BOOL, []), **given}
    if goes_on == "true":
        goes_on = body("Identity", "true")
    outputs = dict(zip(end, given.values()))
    outputs.update({name: TYPES[np.dtype(of)] for name, of in collected.items()})
    graph = body.graph(inputs, {goes_on: TensorProto.BOOL, **outputs})
    limit, begins = top.constant(np.array(most, np.int64)), top.constant(np.array(True))
    made = top("Loop", limit, begins, *start.values(), body=graph, outputs=len(end) + len(collected))
    return made if isinstance(made, list) else [made]


def nasrnn(top, net):
    body, parts = Body(), net.GATES
    ih = top("MatMul", "x", top.constant(net.weights["weight_ih"].T))
    zeros = top.constant(np.zeros((net.rows, net.units), np.float32))
    h = body("MatMul", "m", body.constant(net.weights["weight_hh"].T))
    i, h = (body("Split", value, outputs=parts, axis=1, num_outputs=parts) for value in ("i", h))
    both = [body("Mul" if gate == 3 else "Add", i[gate], h[gate]) for gate in range(parts)]
    acts = ("Sigmoid", "Relu", "Sigmoid", "Relu", "Tanh", "Sigmoid", "Tanh", "Sigmoid")
    g = [body(act, gate) for act, gate in zip(acts, both)]
    left, right = body("Tanh", body("Mul", g[0], g[1])), body("Tanh", body("Add", g[2], g[3]))
    up, down = body("Tanh", body("Mul", g[4], g[5])), body("Sigmoid", body("Add", g[6], g[7]))
    c = body("Mul", body("Tanh", body("Add", left, "c")), right)
    m = body("Tanh", body("Mul", c, body("Tanh", body("Add", up, down))))
    state = (TensorProto.FLOAT, [net.rows, net.units])
    y = body("Identity", m)
    graph = body.graph({"m": state, "c": state, "i": (TensorProto.FLOAT, [net.rows, parts * net.units])},
                       {m: state, c: state, y: state})
    return top("Scan", zeros, zeros, ih, body=graph, num_scan_inputs=1, outputs=3)[2]


def attention(top, net):
    """A cache is what is before a position, the new row, and what is behind it."""
    body = Body()
    qkv = body("Unsqueeze", body("MatMul", "hx", body.constant(net.weights["qkv"])), body.whole(2))
    q, k_new, v_new = body("Split", qkv, outputs=3, axis=3, num_outputs=3)
    axis, one = body.whole(2), body.whole(1)
    at = body("Add", body("Reshape", "trip", one), body.whole(net.first))
    behind = body("Add", at, one)
    written = [body("Concat", body("Slice", old, body.whole(0), at, axis), new,
                    body("Slice", old, behind, body.whole(net.last), axis), axis=2)
               for old, new in (("hk", k_new), ("hv", v_new))]
    q = body("Mul", q, body.constant(np.float32(net.WIDTH ** -0.5)))
    p = body("Softmax", body("MatMul", q, body("Transpose", written[0], perm=[0, 1, 3, 2])), axis=-1)
    read = body("Squeeze", body("MatMul", p, written[1]), body.whole(2))
    x = body("Add", "hx", body("MatMul", read, body.constant(net.weights["o"])))
    y = body("Identity", x)
    return loop(top, body, {"hx": "x", "hk": "k", "hv": "v"}, [x, *written], {y: np.float32}, net.steps)[-1]


def seq2seq(top, net):
    body, w = Body(), net.weights
    x = body("Unsqueeze", body("Gather", body.constant(w["embedding"]), "token"), body.whole(0))
    weights = gates_in_order(*(w[f"lstm.{name}"] for name in LSTM))
    _, h, c = body("LSTM", x, *(body.constant(each) for each in weights), "", "h_was", "c_was", outputs=3,
                   hidden_size=net.units)
    scores = body("Gemm", body("Squeeze", h, body.whole(0)), body.constant(w["words.weight"]),
                  body.constant(w["words.bias"]), transB=1)
    token = body("Cast", body("ArgMax", scores, axis=1, keepdims=0), to=TensorProto.INT32)
    end = body.constant(np.int32(net.END))
    written = body("Where", "open", token, end)
    still = body("And", "open", body("Not", body("Equal", token, end)))
    goes_on = body("Cast", body("ReduceMax", body("Cast", still, to=TensorProto.INT32), keepdims=0),
                   to=TensorProto.BOOL)
    start = {"token": top("Squeeze", "first", top.whole(1)), "h_was": top("Unsqueeze", "h", top.whole(0)),
             "c_was": top("Unsqueeze", "c", top.whole(0)), "open": top.constant(np.ones(net.rows, bool))}
    types = dict(zip(start, (TensorProto.INT32, TensorProto.FLOAT, TensorProto.FLOAT, TensorProto.BOOL)))
    return loop(top, body, start, [token, h, c, still], {written: np.int32}, net.most, goes_on, types)[-1]


def trips(top, net):
    body = Body()
    return loop(top, body, {"was": "x"}, [body("Add", "was", body.constant(net.weights["one"]))], {}, net.steps)[0]


WRITE = {Nasrnn: nasrnn, Attention: attention, Seq2seq: seq2seq, Trips: trips}


def write(net, path):
    top = Body()
    y = WRITE[type(net)](top, net)
    graph = top.graph({name: (TYPES[x.dtype], x.shape) for name, x in net.inputs.items()},
                      {y: TYPES[np.dtype(net.result_type)]})
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
