"""Frames: images whose height and width a run brings.

The model is imported several times, with extents that leave other remainders each time; what comes out must be the same
graph, node for node, so that no extent is in it but those of the inputs, which are symbols. Must never: take a graph
that knows a size, or that is right for multiples of a number alone.
"""

import itertools

from .refused import NotTaken, Refused

STEPS = "; where sizes are multiples of a number, say so: --dim NAME=..1080/32"


def same(one, other, what="size of the frame", hint=""):
    """Refuses two walks whose graphs differ."""
    for number, (a, b) in enumerate(itertools.zip_longest(one.graph.nodes, other.graph.nodes)):
        if a is None or b is None or (a.op, a.inputs, a.params) != (b.op, b.inputs, b.params):
            owner = one if number < len(one.makers) and one.makers[number] or b is None else other
            raise Refused(f"{owner.maker(number)} is another one for another {what}: the model fixes it{hint}")
    for (name, array), (other_name, other_array) in zip(weights(one), weights(other), strict=True):
        if name != other_name or array.shape != other_array.shape or array.tobytes() != other_array.tobytes():
            number = next(i for i, node in enumerate(one.graph.nodes) if name == node.name or
                          name.startswith(f"{node.name}."))
            raise Refused(f"numbers of {one.maker(number)} are others for another {what}: the model fixes it{hint}")


def weights(walk):
    return [(name, array) for block in walk.graph.blocks for name, array, _ in block.weights]


def settled(frame, make):
    """The walk of make(sizes), which is the same one for all of the frame's probes."""
    walk, first = make(frame.sizes(0)), frame.sizes(0)
    followed = {}
    for turn in range(1, frame.probes):
        sizes = frame.sizes(turn)
        if sizes == first:
            continue
        try:
            other = make(sizes)
        except NotTaken as why:
            raise Refused(f"with {words(first)} it is taken, with {words(sizes)} not{STEPS}\n{why}") from None
        same(walk, other, hint=STEPS)
        for port, again in zip(walk.outputs, other.outputs, strict=True):
            found = followed.setdefault(port.onnx_name, [False] * len(port.probed))
            followed[port.onnx_name] = [was or a != b for was, a, b in zip(found, port.probed, again.probed)]
    walk.followed = followed
    for name, axes in followed.items():
        if any(axes[:2]):
            raise Refused(f"dimension {axes.index(True)} of output {name!r} follows the frame, and is neither height "
                          "nor width")
    return walk


def words(sizes):
    return " and ".join(f"{name}={extent}" for name, extent in sizes.items())
