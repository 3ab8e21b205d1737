"""brainstorm: dynamic neural networks on small machines, from Python.

    from brainstorm import Graph            # write a model file: needs numpy and gguf only
    import brainstorm
    model = brainstorm.open("tiny.gguf")    # run one: needs what `pip install` builds

`Graph` is the twin of the builder calls of brainstorm.h (graph.py). What runs a model is made when it is first asked
for (running.py), so that graphs can be written where nothing was built.
"""

from .error import Error
from .file import read_weights
from .graph import Graph
from .lists import ACTS
from .ops import DEPTHWISE, OPS, OPSET
from .running import Decision, Model, Plan, Port, Session, build, open, open_bytes, tiers

# `open` is left out: `from brainstorm import *` must not hide Python's.
__all__ = ["ACTS", "DEPTHWISE", "Decision", "Error", "Graph", "Model", "OPS", "OPSET", "Plan", "Port", "Session",
           "build", "open_bytes", "read_weights", "tiers"]
