"""Frames: images whose height and width a run brings.

The model is imported twice, with other extents; what comes out must be the same graph, node for node, so that no extent
is in it but those of the inputs, which are symbols. How an output's extents follow is a line through both. Must never:
take a graph that knows a size.
"""

from fractions import Fraction

from .refused import Refused


def same(one, other, what="size of the frame"):
    """Refuses two walks whose graphs differ."""
    for a, b in zip(one.graph.nodes, other.graph.nodes):
        if (a.op, a.inputs, a.params) != (b.op, b.inputs, b.params):
            raise Refused(f"{a.op} {a.name!r} is another one for another {what}: the model fixes it")
    weights = [[(name, array.shape, array.tobytes()) for block in walk.graph.blocks for name, array, _ in block.weights]
               for walk in (one, other)]
    if len(one.graph.nodes) != len(other.graph.nodes) or weights[0] != weights[1]:
        raise Refused(f"the model is another one for another {what}")


class Extent:
    """An extent of an output as it follows from one of the inputs."""

    def __init__(self, name, slope, offset):
        self.name, self.slope, self.offset = name, slope, offset

    def at(self, sizes):
        return int(self.slope * sizes[self.name] + self.offset) if self.name else int(self.offset)


def extents(frame, one, other):
    """{output: [Extent]} of walks with the sizes of both probes."""
    first, second = frame.sizes(0), frame.sizes(1)
    found = {}
    for a, b in zip(one.outputs, other.outputs, strict=True):
        found[a.onnx_name] = []
        for axis, (x, y) in enumerate(zip(a.probed, b.probed, strict=True)):
            name = name_of(frame, axis) if x != y else None
            slope = Fraction(y - x, second[name] - first[name]) if name else Fraction(0)
            found[a.onnx_name].append(Extent(name, slope, x - slope * (first[name] if name else 0)))
    return found


def name_of(frame, axis):
    """The symbol of an axis: the first input's that has one there."""
    for pair in frame.inputs.values():
        if axis >= 2 and hasattr(pair[axis - 2], "name"):
            return pair[axis - 2].name
    raise Refused(f"dimension {axis} of an output follows the frame, and is neither height nor width")
