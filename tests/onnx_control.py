"""Networks with If, Loop and Scan, for the tests of the ONNX importer."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def port(name, shape, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, weights):
    made = [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "control", inputs, outputs, made)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def choice():
    """If the mean of an image is above 0 a convolution of 3x3, else 1 less one of 1x1."""
    weight = np.random.default_rng(5).standard_normal((4, 3, 3, 3)).astype(np.float32)
    node = helper.make_node
    high = helper.make_graph([node("Conv", ["x", "w3"], ["c"], pads=[1, 1, 1, 1]), node("Relu", ["c"], ["high"])],
                             "then", [], [port("high", [1, 4, 8, 8])])
    low = helper.make_graph([node("Conv", ["x", "w1"], ["d"]), node("Sub", ["one", "d"], ["low"])],
                            "else", [], [port("low", [1, 4, 8, 8])])
    nodes = [node("ReduceMean", ["x"], ["mean"], keepdims=0), node("Greater", ["mean", "zero"], ["above"]),
             node("If", ["above"], ["y"], "choose", then_branch=high, else_branch=low)]
    return model(nodes, [port("x", [1, 3, 8, 8])], [port("y", [1, 4, 8, 8])],
                 {"w3": weight, "w1": weight[:, :, 1:2, 1:2].copy(), "one": np.float32(1), "zero": np.float32(0)})


def refinement(until):
    """Until the largest number is beyond `until`, 9 times at most, s = tanh(s w) + x."""
    node = helper.make_node
    body = helper.make_graph(
        [node("MatMul", ["s", "w"], ["p"]), node("Tanh", ["p"], ["t"]), node("Add", ["t", "x"], ["after"]),
         node("ReduceMax", ["after"], ["top"], keepdims=0), node("Less", ["top", "until"], ["again"])], "body",
        [port("i", [], TensorProto.INT64), port("before", [], TensorProto.BOOL), port("s", [2, 5])],
        [port("again", [], TensorProto.BOOL), port("after", [2, 5])])
    weight = np.random.default_rng(6).standard_normal((5, 5)).astype(np.float32)
    return model([node("Loop", ["trips", "", "x"], ["y"], "refine", body=body)], [port("x", [2, 5])],
                 [port("y", [2, 5])], {"trips": np.int64(9), "until": np.float32(until), "w": weight})


def steps():
    """Nine trips; each gives what it has, and its number."""
    node = helper.make_node
    body = helper.make_graph(
        [node("MatMul", ["s", "w"], ["p"]), node("Tanh", ["p"], ["after"]), node("Cast", ["i"], ["number"], to=1),
         node("Add", ["after", "number"], ["each"]), node("Identity", ["before"], ["again"])], "body",
        [port("i", [], TensorProto.INT64), port("before", [], TensorProto.BOOL), port("s", [2, 5])],
        [port("again", [], TensorProto.BOOL), port("after", [2, 5]), port("each", [2, 5])])
    weight = np.random.default_rng(7).standard_normal((5, 5)).astype(np.float32)
    return model([node("Loop", ["trips", "", "x"], ["y", "all"], "steps", body=body)], [port("x", [2, 5])],
                 [port("y", [2, 5]), port("all", [9, 2, 5])], {"trips": np.int64(9), "w": weight})


def sums():
    """Running sums along axis 1 of x, from its end."""
    node = helper.make_node
    body = helper.make_graph([node("Add", ["s", "row"], ["after"]), node("Relu", ["after"], ["each"])], "body",
                             [port("s", [4]), port("row", [4])], [port("after", [4]), port("each", [4])])
    return model([node("Scan", ["zero", "x"], ["last", "y"], "sums", body=body, num_scan_inputs=1, scan_input_axes=[1],
                       scan_input_directions=[1], scan_output_axes=[1])],
                 [port("x", [4, 6])], [port("last", [4]), port("y", [4, 6])], {"zero": np.zeros(4, np.float32)})
