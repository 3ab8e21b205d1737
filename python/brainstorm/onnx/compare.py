"""Whether what was imported gives what the ONNX model gives: runs of both, and how far apart they are.

feeds.py has what both run with, reference.py what the model gives, check.py asks until they tell something. Differences
are relative to the largest magnitude of an output; whole numbers must be equal.
"""

import numpy as np

from . import extents
from .feeds import random_inputs  # noqa: F401
from .reference import Reference, Stopped  # noqa: F401
from .refused import Refused
from .tensors import narrowed

TOLERANCE = 1e-3  # what the onnx package's own tests allow an element


def converted(walk, port, array):
    """An input as our file takes it: a batch or a frame as it comes."""
    array = np.asarray(array)
    held = array.shape if walk.batch or walk.frame and port.onnx_name in walk.frame.inputs else port.held
    if port.held_dtype in ("u8", "i8"):
        return array.reshape(held)
    return narrowed(f"input {port.onnx_name!r}", array).reshape(held)


def run_ours(session, walk, feeds):
    """The outputs of an open file, under ONNX shapes and types. feeds: {ONNX input: array}."""
    given = [(p.name, converted(walk, p, feeds[p.onnx_name])) for p in walk.inputs]
    shapes = [shape_of(walk, port, dict(given)) for port in walk.outputs]
    made = session.run(given, [(p.name, held, p.held_dtype) for p, (held, _) in zip(walk.outputs, shapes)])
    fitted = [extents.fitted(p, a, of_run(walk, p)) if shape is None or any(p.open) else a.reshape(shape)
              for a, p, (_, shape) in zip(made, walk.outputs, shapes)]
    return [a.astype(p.dtype) for a, p in zip(fitted, walk.outputs)]


def of_run(walk, port):
    """Which extents of an output only a run knows."""
    return walk.followed[port.onnx_name] if walk.frame else port.open


def shape_of(walk, port, given):
    """(as our file has it, as the model has it) of an output, for these inputs; None where only the run knows."""
    if walk.batch:
        rows = given[walk.inputs[0].name].shape[0]
        return (rows, *port.held[1:]), (rows, *port.shape[1:])
    if walk.frame and any(of_run(walk, port)):
        return None, None
    return None if any(port.open) else port.held, port.shape


class Difference:
    """Of one output: the largest one, where it is, and what it is relative to."""

    def __init__(self, name, ours, theirs):
        self.name, self.shape, self.dtype = name, theirs.shape, theirs.dtype
        self.fits = ours.shape == theirs.shape
        if not self.fits:
            self.shape, self.relative, self.largest, self.where, self.top = ours.shape, np.inf, np.inf, (), np.inf
            return
        whole = theirs.dtype.kind in "iub"
        a, b = ours.astype(np.float64), theirs.astype(np.float64)
        with np.errstate(all="ignore"):
            apart = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        apart = np.where(np.isnan(apart), np.inf, apart)
        finite = np.abs(b[np.isfinite(b)])
        self.top = float(finite.max()) if finite.size else 0.0
        self.where = np.unravel_index(int(apart.argmax()), apart.shape) if apart.size else ()
        self.largest = float(apart.max()) if apart.size else 0.0
        self.relative = self.largest / self.top if self.top > 0 else self.largest
        self.relative = np.inf if whole and self.largest > 0 else self.relative

    def beside(self, top):
        """Relative to this magnitude, if it is larger."""
        if self.fits and np.isfinite(self.relative) and top > self.top:
            self.relative, self.top = self.largest / top, top

    def __str__(self):
        if not self.fits:
            return f"{self.name}: shape {list(self.shape)} is another"
        at = ",".join(str(int(i)) for i in self.where)
        return (f"{self.name} {list(self.shape)}: largest difference {self.largest:.3g} at [{at}], "
                f"{self.relative:.3g} of the largest magnitude {self.top:.3g}")


def differences(session, walk, reference, feeds):
    """(name of the reference, [Difference]). Of a patient reference it raises Stopped."""
    try:
        theirs = reference.run(feeds)
    except Stopped:
        raise
    except Exception as why:  # of the reference, of any kind
        raise Refused(f"{reference.name} does not run the model: {why}; --feed FILE.npz gives other inputs") from None
    ours = run_ours(session, walk, feeds)
    return reference.name, [Difference(p.onnx_name, a, np.asarray(b)) for p, a, b in zip(walk.outputs, ours, theirs)]
