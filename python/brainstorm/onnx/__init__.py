"""ONNX models, written as files of this library.

    from brainstorm.onnx import imported

    result = imported("net.onnx", shapes=["x=1,3,224,224"])
    result.walk.graph.write("net.gguf")

Needs the onnx package, numpy and gguf. load.py opens and checks, shapes.py pins what is not known, lower.py walks the
nodes and table.py has the handlers (ops_*.py), which work with tensors (tensors.py, elements.py, arithmetic.py);
compare.py runs both, cli.py is the command. experts.py and moe.py make markers of mixtures, paths.py gives these their
paths.
"""

from .cli import add_arguments, main
from .importing import imported
from .refused import Refused

__all__ = ["Refused", "add_arguments", "imported", "main"]
