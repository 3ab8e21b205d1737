# tags: needs:onnx,numpy,gguf
"""The node tests of the onnx package: which ops the importer takes, and that none gives a wrong result, but for those
in DISPUTED.

tests/onnx_nodes.txt lists the cases that pass. One of them that does not pass is a failure; so is a wrong result, a
crash or a refusal without a reason of any case. What passes and is not listed is told: the list may only grow.

    test_onnx_nodes.py [--table] [--write] [WORD...]     cases with a WORD in their name only; a table by op; the list
"""

import argparse
import collections
import os
import sys
import warnings

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig
from brainstorm import session
from brainstorm.onnx import load
from brainstorm.onnx.refused import Refused

# Of align_corners with a factor that gives a fraction of a pixel they say another thing than ONNX Runtime and PyTorch,
# with which models are trained and run.
DISPUTED = ("test_resize_downsample_scales_cubic_align_corners", "test_resize_downsample_scales_linear_align_corners")
LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "onnx_nodes.txt")


def cases():
    warnings.filterwarnings("ignore")
    return sorted((c for c in collect_testcases(None) if "_expanded" not in c.name), key=lambda c: c.name)


def plain(values):
    return all(isinstance(v, (np.ndarray, np.generic)) for v in values)


def array_of(value):
    return onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value


def wrong(case, got, expected):
    """What is wrong with the outputs, as the onnx package's own runner compares them; None: nothing."""
    for output, made, wanted in zip(case.model.graph.output, got, expected, strict=True):
        wanted = np.asarray(wanted)
        if made.dtype != wanted.dtype or made.shape != wanted.shape:
            return f"{output.name}: {made.dtype} {made.shape}, expected {wanted.dtype} {wanted.shape}"
        exact = wanted.dtype.kind in "iub"
        a, b = (made, wanted) if exact else (made.astype(np.float64), wanted.astype(np.float64))
        if not (np.array_equal(a, b) if exact else np.allclose(a, b, case.rtol, case.atol, equal_nan=True)):
            return f"{output.name}: {np.ravel(made)[:6]}, expected {np.ravel(wanted)[:6]}"
    return None


def judged(runner, case):
    """(verdict, why) of a case: passed, refused, wrong or crashed."""
    try:
        model = load.prepared(case.model)
        for inputs, expected in case.data_sets:
            inputs, expected = [list(map(array_of, values)) for values in (inputs, expected)]
            if not plain(inputs) or not plain(expected):
                raise Refused("sequences, maps and optional values are not taken")
            got, walk, baked = onnx_rig.attempt(runner, model, inputs)
            if model.graph.input and walk.still and model.graph.input[0].name in baked:
                raise Refused("its result is known without what it computes of")
            why = wrong(case, got, expected)
            if why:
                return ("refused" if case.name in DISPUTED else "wrong"), why
        return "passed", ""
    except (Refused, session.Failed, ValueError) as why:
        return ("refused", str(why)) if str(why) else ("crashed", "no reason is given")
    except Exception as why:  # whatever it is, it is a failure of ours
        return "crashed", f"{type(why).__name__}: {why}"


def table(results):
    rows = collections.defaultdict(collections.Counter)
    whys = collections.defaultdict(collections.Counter)
    for op, verdict, why in results:
        rows[op][verdict] += 1
        if verdict != "passed":
            whys[op][f"{verdict}: {load.first_line(why)}"] += 1
    for op, counts in sorted(rows.items(), key=lambda row: (row[1]["passed"] - sum(row[1].values()), row[0])):
        print(f"{op:28} {counts['passed']:3} of {sum(counts.values()):3}")
        for why, count in whys[op].most_common():
            print(f"        {count:3}  {why[:200]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    with open(LIST, encoding="ascii") as file:
        listed = set(file.read().split())
    if session.opened() is None:
        print("nothing that runs models is built: make build/bench/networks, or pip install ./python")
        print("0 passed, 0 failed, 1 skipped")
        return 0
    runner, results, failures, passed = onnx_rig.Runner(), [], 0, []
    for case in cases():
        if arguments.words and not any(word in case.name for word in arguments.words):
            continue
        verdict, why = judged(runner, case)
        results.append((case.model.graph.node[-1].op_type, verdict, why))
        if verdict == "passed":
            passed.append(case.name)
            if case.name not in listed and not arguments.write:
                print(f"new {case.name}: it passes, and {os.path.basename(LIST)} lacks it")
        elif verdict in ("wrong", "crashed") or case.name in listed:
            failures += 1
            print(f"FAIL {case.name}: {verdict}: {why}")
    runner.close()
    if arguments.table:
        table(results)
    if arguments.write:
        with open(LIST, "w", encoding="ascii") as file:
            file.write("\n".join(sorted(listed | set(passed))) + "\n")
    refused = len(results) - len(passed) - failures
    print(f"{len(results)} cases: {len(passed)} pass, {refused} are refused with a reason")
    print(f"{len(passed)} passed, {failures} failed")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
