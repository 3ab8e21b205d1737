# tags: needs:onnx,numpy,gguf
"""Shapes that are pinned for the ONNX importer, batches and frames that are free: what is refused, and why."""

import os
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig  # noqa: F401: it finds the package
import onnx_nets as nets
from brainstorm import session
from brainstorm.onnx import importing
from brainstorm.onnx.refused import Refused


def one(op, *shape, weights=(), **attributes):
    """A model of one node."""
    inputs = ["x", *(f"w{i}" for i in range(len(weights)))]
    node = helper.make_node(op, inputs, ["y"], **attributes)
    ports = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)]
             for name, dims in (("x", list(shape)), ("y", None))]
    arrays = [numpy_helper.from_array(np.asarray(array), f"w{i}") for i, array in enumerate(weights)]
    graph = helper.make_graph([node], "one", *ports, arrays)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)


def refusals():
    """(name, model, --shape, --dim, words)."""
    numbers = lambda *n: np.array(n, np.int64)
    yield ("a number of rows that is fixed", one("Reshape", "N", 4, weights=[numbers(1, 2, 2)]), [], ["N=..4"],
           ["2 rows"])
    yield "a frame that is flattened", one("Flatten", 1, 3, "H", "W"), [], ["H=..90", "W=..90"], ["reshape"]
    yield "a batch that is flattened with a length", one("Reshape", "N", 4, "T", weights=[numbers(-1)]), [], \
        ["N=..4", "T=..90"], ["reshape", "N=NUMBER or T=NUMBER"]
    yield "five dimensions of which one is free", one("Relu", 1, 2, 3, 4, "T"), [], ["T=..9"], ["'x'", "1 .. 4"]
    yield "a least size beyond the largest", one("Relu", 1, "T"), [], ["T=100..90"], ["at least 100", "90"]
    yield "a least size that is no number", one("Relu", 1, "T"), [], ["T=few..90"], ["'few'"]
    yield "a frame beside numbers of one size", one("Add", 1, 3, "H", 8, weights=[np.ones((64, 1), np.float32)]), [], \
        ["H=..100"], ["shapes"]
    yield "a frame that is resized to a size", one(
        "Resize", 1, 3, "H", "W", weights=[np.zeros(0, np.float32), np.zeros(0, np.float32), numbers(1, 3, 50, 50)],
        mode="linear"), [], ["H=..100", "W=..100"], []
    yield "a dimension that is not called so", one("Relu", 2, 3), [], ["rows=4"], ["'rows'"]
    yield "a maximum that is no number", one("Relu", "N", 3), [], ["N=..many"], ["'many'"]
    yield "a step beyond the maximum", one("Relu", 1, 1, "H", 3), [], ["H=..10/16"], ["16"]
    yield "an assignment without a name", one("Relu", "N", 3), [], ["4"], ["'4'"]
    yield "too few dimensions", one("Relu", "N", 3), ["x=3"], [], ["1 dimensions", "2"]


def agreements():
    """(name, model, --shape, --dim)."""
    yield "a softmax of each row", one("Softmax", "N", 5, axis=1), [], ["N=..7"]
    yield "a mean over a free batch", one("ReduceMean", "N", 4, weights=[np.array([0])], keepdims=1), [], ["N=..4"]
    yield "a batch that is moved", one("Transpose", "N", 4, perm=[1, 0]), [], ["N=..4"]
    yield "a dimension that is no batch", one("Relu", 3, "N"), [], ["N=..4"]
    yield "a frame whose size is computed with", nets.of_its_size(), [], ["H=..100", "W=..100"]
    yield "a batch by its shape", one("Softmax", None, 5, axis=1), ["x=..7,5"], []
    yield "a frame by its shape", one("Relu", 1, 2, None, None), ["x=1,2,..100,..120"], []
    yield "a frame in steps of 8", one("AveragePool", 1, 2, "H", "W", kernel_shape=[8, 8], strides=[8, 8]), [], \
        ["H=..100/8", "W=..100/8"]
    yield "the mean of a frame", one("ReduceMean", 1, 3, "H", "W", weights=[np.array([2, 3])], keepdims=0), [], \
        ["H=..100", "W=..100"]
    yield "the number of columns is not the frame's", one("Softmax", 1, 2, "H", 9), [], ["H=..100"]
    yield "a mobile net in frames", nets.mobile(), [], []


def why_not(make, shapes, dims, runner, path):
    """Why it is refused, or what is wrong; None: it agrees."""
    try:
        result = importing.imported(make, shapes, dims)
        return None if importing.written(result, path, runner, say=lambda line: None) else "it does not agree"
    except (Refused, session.Failed, ValueError) as why:
        return str(why)


def main():
    runner, failed, passed = session.opened(), 0, 0
    if runner is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder, runner:
        path = os.path.join(folder, "net.gguf")
        for name, *case, words in refusals():
            why = why_not(*case, runner, path)
            good = why is not None and all(word in why for word in words) and not os.listdir(folder)
            failed, passed = failed + (not good), passed + good
            print(f"ok {name}" if good else f"FAIL {name}: expected a refusal with {words}, got {why}")
        for name, *case in agreements():
            why = why_not(*case, runner, path)
            failed, passed = failed + (why is not None), passed + (why is None)
            print(f"FAIL {name}: {why}" if why else f"ok {name}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
