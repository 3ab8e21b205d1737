# tags: needs:onnx,numpy,gguf
"""ONNX files of some hundred bytes that ask for gigabytes or minutes: constants, functions that call each other, arrays
as large as an extent says. Refused by name, in a process that may not have much memory; and what a model of that kind
may well ask for is taken.
"""

import argparse
import os
import resource
import sys
import tempfile
import time
import traceback

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig  # noqa: F401: it finds the package
from brainstorm.onnx import cli

N = helper.make_node
MEGABYTES, SECONDS = 900, 60  # that an import may have: NumPy and onnx take 200 of these


def i64(*numbers):
    return np.array(numbers, np.int64)


def model(nodes, shape=(2, 3), functions=(), kind=TensorProto.FLOAT, **weights):
    port = helper.make_tensor_value_info
    arrays = [numpy_helper.from_array(np.asarray(a), name) for name, a in weights.items()]
    graph = helper.make_graph(nodes, "large", [port("x", kind, list(shape))],
                              [port("y", TensorProto.FLOAT, None)], arrays)
    sets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=10, functions=list(functions))


def added(nodes, name):
    """Their sum is added to x."""
    return [*nodes, N("ReduceSum", [name], ["s"], keepdims=0), N("Add", ["x", "s"], ["y"])]


def calls(name, inner, *, times=2, leaf=None):
    """A function that calls another so many times, one after the other."""
    names = ["a", *(f"t{i}" for i in range(times - 1)), "b"]
    domain = "" if leaf else "own"
    nodes = [N(leaf or inner, [names[i]], [names[i + 1]], domain=domain) for i in range(times)]
    return helper.make_function("own", name, ["a"], ["b"], nodes,
                                [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)])


def tower(depth, times=2):
    return model([N("f0", ["x"], ["y"], domain="own")], functions=[
        calls(f"f{i}", f"f{i + 1}", times=times, leaf="Relu" if i + 1 == depth else None) for i in range(depth)])


def heavy_function():
    """Constants that 2^20 calls would copy."""
    value = numpy_helper.from_array(np.ones(1000, np.float32))
    nodes = [N("Constant", [], ["c"], value=value), N("ReduceSum", ["c"], ["s"]), N("Add", ["a", "s"], ["b"])]
    leaf = helper.make_function("own", "leaf", ["a"], ["b"], nodes, [helper.make_opsetid("", 18)])
    return model([N("f0", ["x"], ["y"], domain="own")],
                 functions=[*(calls(f"f{i}", f"f{i + 1}" if i < 16 else "leaf") for i in range(17)), leaf])


def in_branches():
    """Functions that are called in branches."""
    port = helper.make_tensor_value_info("b", TensorProto.FLOAT, [2, 3])
    graph = lambda: helper.make_graph([N("f0", ["x"], ["b"], domain="own")], "g", [], [port])
    made = tower(30)
    nodes = [N("ReduceMax", ["x"], ["m"], keepdims=0), N("Cast", ["m"], ["c"], to=TensorProto.BOOL),
             N("If", ["c"], ["y"], then_branch=graph(), else_branch=graph())]
    return model(nodes, functions=made.functions)


def refused():
    """(name, model, words)."""
    yield "a constant of 2^30", model(added([N("ConstantOfShape", ["n"], ["c"])], "c"), n=i64(2**30)), ["4294967296"]
    many = [N("ConstantOfShape", ["n"], [f"c{i}"]) for i in range(20)]
    yield "many constants", model(added([*many, N("Sum", [f"c{i}" for i in range(20)], ["c"])], "c"), n=i64(2**25)), \
        ["bytes", "ConstantOfShape"]
    doubles = [N("Concat", [f"c{i}", f"c{i}"], [f"c{i + 1}"], axis=0) for i in range(31)]
    yield "a constant that is joined with itself", model(added(doubles, "c31"), c0=np.ones(1, np.float32)), ["Concat"]
    long, wide = np.ones((2**16, 1), np.float32), np.ones((1, 2**16), np.float32)
    yield "a sum of a column and a line", model(added([N("Add", ["a", "b"], ["c"])], "c"), a=long, b=wide), ["Add"]
    yield "a product of a column and a line", model(added([N("MatMul", ["a", "b"], ["c"])], "c"), a=long, b=wide), \
        ["MatMul"]
    yield "a column that is spread", model(added([N("Expand", ["a", "n"], ["c"])], "c"), a=long, n=i64(2**16, 2**14)), \
        ["Expand"]
    yield "tiles", model(added([N("Tile", ["a", "n"], ["c"])], "c"), a=long, n=i64(1, 2**14)), ["Tile"]
    zeros = N("ConstantOfShape", ["n"], ["i"], value=numpy_helper.from_array(np.zeros(1, np.int64)))
    yield "a line that is looked up often", model(added([zeros, N("Gather", ["a", "i"], ["c"])], "c"), n=i64(2**15),
                                                  a=wide), ["Gather"]
    yield "one of many", model(added([N("OneHot", ["i", "d", "v"], ["c"])], "c"), i=i64(*range(512)), d=i64(2**21),
                               v=np.array([0, 1], np.float32)), ["OneHot"]
    yield "an image that grows", model(added([N("Resize", ["a", "", "f"], ["c"])], "c"),
                                       a=np.ones((1, 1, 64, 64), np.float32), f=np.float32([1, 1, 300, 300])), \
        ["Resize"]
    yield "numbers in a row", model(added([N("Range", ["a", "b", "c"], ["r"]), N("Cast", ["r"], ["c1"], to=1)], "c1"),
                                    a=np.int64(0), b=np.int64(2**29), c=np.int64(1)), ["Range"]
    yield "an input that is spread", model([N("Expand", ["x", "n"], ["y"])], n=i64(2**28, 2, 3)), ["Expand"]
    yield "an input in tiles", model([N("Tile", ["x", "n"], ["y"])], n=i64(2**27, 1)), ["Tile"]
    yield "an input with a border", model([N("Pad", ["x", "p"], ["y"])], p=i64(2**28, 0, 0, 0)), ["Pad"]
    yield "an input of 2^30 turned round", model([N("Slice", ["x", "s", "e", "a", "t"], ["y"])], (2**30,), s=i64(-1),
                                                 e=i64(-2**40), a=i64(0), t=i64(-1)), ["Slice"]
    yield "an input of 2^30, its triangle", model([N("Trilu", ["x"], ["y"])], (2**15, 2**15)), ["Trilu"]
    yield "an input that grows", model([N("Resize", ["x", "", "f"], ["y"], mode="linear")], (1, 1, 4, 4),
                                       f=np.array([1, 1, 1, 2**24], np.float32)), ["Resize"]
    yield "functions that double", tower(40), ["functions", "nodes"]
    yield "functions of ten calls", tower(9, 10), ["functions", "1000000000 nodes"]
    yield "functions with constants", heavy_function(), ["functions", "bytes"]
    yield "functions in branches", in_branches(), ["functions"]
    yield "a function that calls itself", model([N("f", ["x"], ["y"], domain="own")], functions=[calls("f", "f")]), []
    yield "extents beyond 2^30", model([N("Relu", ["x"], ["y"])], (2**30 + 1,)), ["'x'", "1073741825"]
    yield "an extent beyond 2^30 of bytes", model([N("Cast", ["x"], ["y"], to=1)], (2**31,),
                                                  kind=TensorProto.UINT8), ["'x'"]
    yield "an output beyond 2^30", model([N("Flatten", ["x"], ["y"], axis=0)], (2**16, 2**15)), ["'y'"]


def taken():
    yield "functions", tower(5)
    yield "a mask of 1000 x 1000", model(added([N("ConstantOfShape", ["n"], ["c"]), N("Trilu", ["c"], ["d"])], "d"),
                                         n=i64(1000, 1000))
    yield "a constant that is joined often", model(added([N("Concat", ["a"] * 64, ["c"], axis=0)], "c"),
                                                   a=np.ones(1000, np.float32))
    yield "an input that is spread", model([N("Expand", ["x", "n"], ["y"])], n=i64(500, 2, 3))
    yield "an extent of 2^30", model([N("Relu", ["x"], ["y"])], (2**30,))


def command(source, out, log):
    """The importer in a process of its own: its number."""
    process = os.fork()
    if process:
        return process
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(1, 2)
    status = 2
    try:
        parser = argparse.ArgumentParser()
        cli.add_arguments(parser)
        status = cli.main(parser.parse_args([source, out, "--no-check", "--quiet"]))
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(status)


def judged(process, status, words, out, log):
    """What is wrong; None: nothing."""
    _, ended, used = os.wait4(process, 0)
    code = os.waitstatus_to_exitcode(ended)
    with open(log, encoding="utf-8") as file:
        text = file.read()
    missing = [word for word in words if word not in text]
    if code != status or "Traceback" in text or missing:
        return f"exit status {code}, it lacks {missing}: {text[-300:]}"
    if used.ru_maxrss >> 10 > MEGABYTES or used.ru_utime > SECONDS:
        return f"{used.ru_maxrss >> 10} MB, {used.ru_utime:.0f} s"
    return f"it left {out}" if status and os.path.exists(out) else None


def main():
    failed = passed = 0
    resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))  # of each process, whatever it is refused for
    cases = [(name, made, 1, words) for name, made, words in refused()]
    cases += [(name, made, 0, []) for name, made in taken()]
    with tempfile.TemporaryDirectory() as folder:
        for name, made, status, words in cases:
            source, out = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.gguf")
            onnx.save(made, source)
            since = time.monotonic()
            sys.stdout.flush()
            why = judged(command(source, out, f"{source}.log"), status, words, out, f"{source}.log")
            failed, passed = failed + (why is not None), passed + (why is None)
            print(f"FAIL {name}: {why}" if why else f"ok {name} ({time.monotonic() - since:.1f} s)", flush=True)
            if os.path.exists(out):
                os.remove(out)
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
