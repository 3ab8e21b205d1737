"""export(): from a module to a model file in one call, compared with eager mode.

Relies on: torch with its exporter (onnxscript), the ONNX importer beside it. Must never leave a file that does not give
what the module gives, nor change the module.
"""

import os
import tempfile

import numpy as np
import torch

from .. import session
from ..onnx import compare, imported
from ..outputs import Beside

OPSET = 20


def as_tuple(values):
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def to_onnx(net, inputs, path, names, rows):
    if rows and any(x.shape[0] < 2 for x in inputs):
        raise ValueError("rows are free: the inputs must have two at least, because one would be taken for a constant")
    free = tuple({0: torch.export.Dim("rows", min=2)} for _ in inputs) if rows else None
    program = torch.onnx.export(net, inputs, dynamo=True, opset_version=OPSET, verbose=False, input_names=names,
                                dynamic_shapes=free)
    program.save(path)


def difference(walk, path, inputs, wanted):
    """The largest difference to what eager mode gave, in parts of its largest magnitude."""
    runner = session.opened()
    if runner is None:
        raise RuntimeError("nothing that runs models is built, to compare with: pip install ./python, or check=False")
    with runner:
        runner.open(path)
        feeds = {port.onnx_name: x.numpy() for port, x in zip(walk.inputs, inputs)}
        made = compare.run_ours(runner, walk, feeds)
    found = [compare.Difference(port.onnx_name, ours, theirs.numpy())
             for port, ours, theirs in zip(walk.outputs, made, wanted)]
    return max((d.relative for d in found), default=0.0)


def export(net, inputs, path, *, names=None, rows=0, patches=0, blocks=None, tolerance=compare.TOLERANCE, check=True):
    """Writes what `net` computes in eval() to a model file, and compares it with that on these inputs.

    inputs: a tensor, or several. names: of the inputs, in order. rows: axis 0 of all inputs is free, up to so many; 0:
    it is as long as in the inputs. patches, blocks: as --patches and --block of the importer (docs/onnx.md). Returns
    the largest difference, in parts of the largest magnitude (None: not compared). What is above the tolerance is an
    error, and so is what the importer does not take (brainstorm.onnx.Refused); then no file is written, and one that
    was there before stays."""
    inputs, was = as_tuple(inputs), net.training
    net.eval()
    try:
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            wanted = as_tuple(net(*inputs))
            made = os.path.join(folder, "net.onnx")
            to_onnx(net, inputs, made, names, rows)
            result = imported(made, dims=[f"rows=..{rows}"] if rows else None, blocks=blocks, patches=patches)
        with Beside(path) as new:
            result.walk.graph.write(new.path)
            apart = difference(result.walk, new.path, inputs, wanted) if check else None
            if check and not apart <= tolerance:
                raise ValueError(f"{path} would differ from eager mode by {apart:.3g} of the largest magnitude, and "
                                 "was not kept")
            new.keep()
        return None if apart is None else float(np.float64(apart))
    finally:
        net.train(was)
