#!/usr/bin/env python3
# tags: plain
"""test_ops_tool.py - what tools/ops.py promises of an op that the library does not have: a method that Python can read,
whatever its fields are called, and no op that stands in no list.

Prints what failed and `N passed, N failed`. Must never: read or write the repository's sources.
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from ops import Op, method, refuse_unlisted

passed = failed = 0


def report(what, good):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAIL {what}")


def method_of(line, taken):
    """The method of an op of one result, of which brainstorm.c prints this line, and a graph that has it."""
    text = method(Op(line, 4, ("bs_value", taken)))
    scope = {"number_of": lambda kinds, kind, what: kinds[kind], "UNARIES": {"erf": 9}}
    exec("class Graph:\n    def node(self, op, inputs, **params):\n        return op, inputs, params\n\n" + text, scope)
    return text, scope["Graph"]()


def test_keywords():
    shrink = "erf_shrink 1 1 0 0 0 0 lambda:FLOAT:0:0 in:INT:0:0 kind:UNARY:0:20"
    text, graph = method_of(shrink, [("bs_value", "from"), ("const bs_erf_shrink_desc *", "desc")])
    report("fields and operands that are keywords have an underscore behind them, those that must be given come first",
           "def erf_shrink(self, from_, kind, lambda_=0.0, in_=0):" in text)
    report("the graph is told their own names", graph.erf_shrink("x", lambda_=0.5, in_=3, kind="erf") ==
           ("erf_shrink", ["x"], {"lambda": 0.5, "in": 3, "kind": 9}))


def test_names():
    text, graph = method_of("not 1 1 0 0 0 0 scale:FLOAT:0:0", [("bs_value", "x"), ("float", "scale")])
    report("so has an op", graph.not_("x", 2.0) == ("not", ["x"], {"scale": 2.0}))
    report("other names stay", "def not_(self, x, scale):" in text and "scale=scale" in text)


def refused(text):
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "src", "ops"))
        with open(os.path.join(root, "src", "ops", "erf.c"), "w", encoding="utf-8") as file:
            file.write(text)
        try:
            refuse_unlisted(root, {"add": 1})
        except SystemExit as refusal:
            return str(refusal)
    return None


def test_lists():
    report("an op is in a list, or refused by name", refused("const bs_op bs_op_erf = {0};\n") ==
           "ops: erf, of src/ops/erf.c, stands in no list of src/ops/list.h")
    report("one in a list is taken", refused("extern const bs_op bs_op_add;\nconst bs_op bs_op_add = {0};\n") is None)


test_keywords()
test_names()
test_lists()
print(f"{passed} passed, {failed} failed")
sys.exit(failed > 0)
