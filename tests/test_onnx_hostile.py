# tags: needs:onnx,numpy,gguf
"""ONNX files that are damaged, or lie: a message that names what is wrong, and no file left behind."""

import argparse
import contextlib
import io
import os
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig  # noqa: F401: it finds the package
import onnx_experts
import onnx_nets as nets
from brainstorm import session
from brainstorm.onnx import cli

FLIPS = 90  # damaged copies of one file


def command(*arguments):
    """(exit status, what it says)."""
    parser, said = argparse.ArgumentParser(), io.StringIO()
    cli.add_arguments(parser)
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = cli.main(parser.parse_args(arguments))
    return status, said.getvalue()


def model(nodes, inputs=None, weights=(), outputs=("y",), opset=18, **fields):
    ports = [helper.make_tensor_value_info(n, t, s) for n, (t, s) in
             (inputs or {"x": (TensorProto.FLOAT, [2, 3])}).items()]
    outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
    graph = helper.make_graph(nodes, "hostile", ports, outs, list(weights))
    sets = [helper.make_opsetid("", opset), helper.make_opsetid("odd", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10, **fields)


def external(location):
    """A weight whose bytes lie in a file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[3], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", location), ("offset", "0"), ("length", "12")):
        tensor.external_data.add(key=key, value=value)
    return model([helper.make_node("Add", ["x", "w"], ["y"])], weights=[tensor])


def lies():
    """(name, model, words of the message, arguments)."""
    node, i64 = helper.make_node, lambda name, *n: numpy_helper.from_array(np.array(n, np.int64), name)
    f32 = lambda name, array: numpy_helper.from_array(np.asarray(array, np.float32), name)
    yield "a cycle", model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"]), node("Relu", ["a"], ["y"])]), \
        ["sorted"], []
    yield "a missing initializer", model([node("Add", ["x", "nowhere"], ["y"])]), ["nowhere"], []
    yield "ops that do not exist", model([node("Frobnicate", ["x"], ["y"])]), ["Frobnicate"], []
    yield "two ops of another domain", model([node("Odd", ["x"], ["a"], domain="odd"),
                                              node("Even", ["a"], ["y"], domain="odd")]), ["odd", "Odd", "Even"], []
    yield "a tensor shorter than its shape", model([node("Add", ["x", "w"], ["y"])], weights=[
        TensorProto(name="w", data_type=1, dims=[1000], raw_data=b"1234")]), ["w"], []
    yield "a tensor of a type that does not exist", model([node("Add", ["x", "w"], ["y"])], weights=[
        TensorProto(name="w", data_type=77, dims=[1], raw_data=b"1234")]), ["w"], []
    yield "a dimension of 2^40", model([node("Relu", ["x"], ["y"])], {"x": (1, [2**40])}), ["1099511627776"], []
    yield "a constant of 2^50 bytes", model([node("ConstantOfShape", ["n"], ["c"]), node("Add", ["x", "c"], ["y"])],
                                            weights=[i64("n", 2**24, 2**24)]), \
        ["ConstantOfShape", "a tensor of shape"], []
    yield "an expansion of 2^50", model([node("Expand", ["x", "n"], ["y"])], weights=[i64("n", 2**48, 2, 3)]), \
        ["Expand", "a tensor of shape"], []
    yield "a tile of 2^50", model([node("Tile", ["x", "n"], ["y"])], weights=[i64("n", 2**48, 2)]), \
        ["Tile", "a tensor of shape"], []
    yield "a pad of 2^50", model([node("Pad", ["x", "n"], ["y"])], weights=[i64("n", 2**49, 0, 0, 0)]), \
        ["Pad", "a tensor of shape"], []
    yield "a range of 2^50", model(
        [node("Range", ["a", "b", "c"], ["r"]), node("Cast", ["r"], ["f"], to=1), node("Add", ["x", "f"], ["y"])],
        weights=[numpy_helper.from_array(np.int64(n), name) for name, n in zip("abc", (0, 2**50, 1))]), \
        ["Range", "a tensor of shape"], []
    yield "no dimension", model([node("Relu", ["x"], ["y"])], {"x": (1, ["rows", None])}), ["rows", "--shape"], []
    yield "a shape that does not fit", model([node("Relu", ["x"], ["y"])]), ["dimension 1", "5"], ["--shape", "x=2,5"]
    yield "a shape of no input", model([node("Relu", ["x"], ["y"])]), ["'z'", "'x'"], ["--shape", "z=2,5"]
    yield "a shape of no numbers", model([node("Relu", ["x"], ["y"])]), ["'two'"], ["--shape", "x=two,3"]
    yield "a whole number beyond i32", model([node("Add", ["x", "w"], ["y"])], {"x": (TensorProto.INT64, [1])},
                                             [i64("w", 2**40)]), ["beyond i32"], []
    yield "a number beyond f32", model([node("Add", ["x", "w"], ["y"])], {"x": (TensorProto.DOUBLE, [1])}, [
        numpy_helper.from_array(np.array([1e300]), "w")]), ["beyond f32"], []
    yield "an index beyond its table", model([node("Gather", ["x", "w"], ["y"])], weights=[i64("w", 7)]), \
        ["Gather", "beyond 2"], []
    yield "an axis beyond the rank", model([node("Softmax", ["x"], ["y"], axis=5)]), ["axis"], []
    yield "a kernel larger than its image", model([node("Conv", ["x", "w"], ["y"])], {"x": (1, [1, 1, 4, 4])},
                                                  [f32("w", np.zeros((1, 1, 9, 9)))]), ["Conv"], []
    yield "weights that are not numbers", model([node("Conv", ["x", "w"], ["y"])], {"x": (1, [1, 1, 4, 4])},
                                                [f32("w", np.full((1, 1, 3, 3), np.nan))]), ["Conv", "finite"], []
    yield "channels that do not fit", model([node("Conv", ["x", "w"], ["y"])], {"x": (1, [1, 5, 4, 4])},
                                            [f32("w", np.zeros((1, 3, 3, 3)))]), [], []
    yield "external data outside", external("../secret.bin"), ["secret"], []
    yield "external data of the whole machine", external("/etc/passwd"), [], []
    yield "external data that is not there", external("nowhere.bin"), ["nowhere"], []
    yield "an op set of the far future", model([node("Relu", ["x"], ["y"])], opset=9999), ["9999"], []


class Cases:
    def __init__(self, folder):
        self.folder, self.passed, self.failed = folder, 0, 0
        with open(os.path.join(folder, "..", "secret.bin"), "wb") as file:
            file.write(np.ones(3, np.float32).tobytes())

    def refused(self, name, path, words=(), arguments=(), may_pass=False):
        out = os.path.join(self.folder, "out.gguf")
        before = sorted(os.listdir(self.folder))
        why = None
        try:
            status, said = command(path, out, *arguments)
        except BaseException as error:  # a traceback is what must never be
            status, said, why = 1, "", f"{type(error).__name__}: {error}"
        if why is None and may_pass and status == 0:
            os.remove(out)
        elif why is None and (status != 1 or not said.strip()):
            why = f"exit status {status}, it says {said!r}"
        for word in words if why is None else ():
            why = why or (None if word in said else f"the message lacks {word!r}: {said.strip()}")
        if why is None and sorted(os.listdir(self.folder)) != before:
            why = f"it left {sorted(set(os.listdir(self.folder)) - set(before))}"
        self.failed, self.passed = self.failed + (why is not None), self.passed + (why is None)
        if why or not may_pass:
            print(f"FAIL {name}: {why}" if why else f"ok {name}")

    def saved(self, data):
        path = os.path.join(self.folder, "net.onnx")
        with open(path, "wb") as file:
            file.write(data)
        return path


def unsure():
    """(name, model, arguments) of what is only written when it was compared."""
    port = lambda name, *shape: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
    for name, shape, dims in (("a free batch", ("N", 5), ["N=..4"]), ("a free frame", (1, 2, "H", "W"),
                                                                      ["H=..90", "W=..90"])):
        ports = [port("x", *shape)], [port("y", *shape)]
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", *ports)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        yield name, made, [word for dim in dims for word in ("--dim", dim)]
    yield "a loop over experts", next(onnx_experts.taken())[1], []


def damaged(cases, what, made):
    data, random = made.SerializeToString(), np.random.default_rng(7)
    for cut in (0, 1, 10, len(data) // 3, len(data) - 1):
        cases.refused(f"{what}, cut to {cut} bytes", cases.saved(data[:cut]))
    before = cases.failed
    for number in range(FLIPS):
        copy = bytearray(data)
        for at in random.integers(0, len(copy) if number % 2 else min(3000, len(copy)), 3):
            copy[at] = random.integers(256)
        cases.refused(f"{what}, bytes changed, number {number}", cases.saved(bytes(copy)), may_pass=True)
    print(f"{'ok' if cases.failed == before else 'FAIL'} {FLIPS} copies of {what} with bytes changed")


def main():
    if session.opened() is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as above:
        folder = os.path.join(above, "models")
        os.mkdir(folder)
        cases = Cases(folder)
        cases.refused("no file", os.path.join(folder, "nowhere.onnx"), ["nowhere.onnx"])
        cases.refused("a folder", folder, [folder])
        cases.refused("text", cases.saved(b"this is no model\n"), ["net.onnx"])
        for name, made, words, arguments in lies():
            cases.refused(name, cases.saved(made.SerializeToString()), words, arguments)
        for name, made, arguments in unsure():
            path = cases.saved(made.SerializeToString())
            cases.refused(f"{name} without comparing", path, [f"{name} is only written when it was compared"],
                          [*arguments, "--no-check"])
        damaged(cases, "a mobile net", nets.mobile())
        damaged(cases, "a loop over experts", next(onnx_experts.taken())[1])
        damaged(cases, "a MoE", onnx_experts.moe("swiglu", 2, 1, 1))
    print(f"{cases.passed} passed, {cases.failed} failed")
    return cases.failed != 0


if __name__ == "__main__":
    sys.exit(main())
