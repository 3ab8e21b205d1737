"""What the tests of the ONNX importer share: a node test of the onnx package, imported, run and compared.

A case has no initializers: inputs that a handler wants to be constant are baked in, the first that is left is the
run's. A case that our graph computes nothing of a run's input for is not counted as passed.
"""

import os
import sys
import tempfile

import numpy as np
import onnx

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from brainstorm import session  # noqa: E402
from brainstorm.onnx import compare, extents, load, lower  # noqa: E402
from brainstorm.onnx.refused import Refused  # noqa: E402


class Runner:
    """Writes what was imported to a scratch file, and runs it."""

    def __init__(self):
        self.session = session.opened()
        self.folder = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.folder.name, "case.gguf")

    def run(self, walk, feeds):
        walk.graph.write(self.path)
        self.session.open(self.path)
        return compare.run_ours(self.session, walk, feeds)

    def close(self):
        self.session.__exit__()
        self.folder.cleanup()


def tried(runner, model, inputs, baked):
    """(outputs, None) or (None, why, what it wants constant)."""
    names = [v.name for v in model.graph.input]
    feeds = dict(zip(names, inputs))
    fixed = load.baked(model, {n: feeds[n] for n in baked})
    shapes = {n: (np.shape(feeds[n]), np.asarray(feeds[n]).dtype) for n in names if n not in baked}
    walk = extents.settled(lambda numbers: lower.Walk(fixed, shapes, extents=numbers, most={"": 100}).run())
    return runner.run(walk, feeds), walk


def choices(names, wanted):
    """Sets of inputs to bake: none, those that handlers want, all but one, the first one kept before others."""
    yield set()
    for keep in names:
        yield set(names) - {keep}


def attempt(runner, model, inputs):
    """(outputs, baked, walk): of the first choice that is taken; else raises the Refused of the one that came first."""
    names, seen, first = [v.name for v in model.graph.input], set(), None
    queue = list(choices(names, None))
    while queue:
        baked = frozenset(queue.pop(0))
        if baked in seen or names and len(baked) == len(names):
            continue
        seen.add(baked)
        try:
            return (*tried(runner, model, inputs, baked), baked)
        except lower.NotTaken as why:
            first = first or why
            needs = {t.needs for t in why.troubles if t.needs in names and t.needs not in baked}
            if needs:
                queue.insert(0, baked | needs)
            else:
                first = why if not any(t.needs for t in why.troubles) and any(t.needs for t in
                                                                             getattr(first, "troubles", [])) else first
        except (Refused, session.Failed, ValueError) as why:
            first = first if first is not None and not getattr(first, "troubles", None) else why
    raise first if first is not None else Refused("all inputs would be constant")
