"""From files of ncnn to a graph: what is not supported is found and named all at once, and nothing is written.

Owns: which frames are allowed. A frame's size is free where the network works for any; where it works only for
multiples of 2, 4, ... (it halves the frame, and joins what it has doubled again), for those. Relies on param.py,
weights.py, net.py and the handlers. Must never change what the network computes.
"""

import os

from . import elements, norms, windows  # noqa: F401: they, and shapes.py, register what they can do
from .extents import Disagree
from .net import HANDLERS, Net
from .param import MAX_NAME, Refused, read_param
from .weights import read_weights

MOST = (1080, 1920)                   # rows and columns of a frame, where nothing else is said
MULTIPLES = (1, 2, 4, 8, 16, 32, 64)  # of a frame's size, tried in turn
MOST_SIDE = 2**20


class Imported:
    """A graph, its blobs that go in and out, and what the size of a frame may be: {symbol: the most}, in multiples."""

    def __init__(self, net, inputs, outputs, multiple):
        self.graph, self.most, self.inputs, self.outputs, self.multiple = net.g, net.most_of, inputs, outputs, multiple

    def __str__(self):
        ports = [f"{name} {blob}" for name, blob in {**self.inputs, **self.outputs}.items()]
        return f"{len(self.graph.nodes)} nodes; " + ", ".join(ports)


def _unsupported(layers):
    """Fails with all kinds of layers that cannot be imported, and the names of those layers."""
    names = {}
    for layer in layers:
        if layer.kind != "Input" and layer.kind not in HANDLERS:
            names.setdefault(layer.kind, []).append(layer.name)
    if names:
        lines = [f"{kind}: {', '.join(those[:8])}{f' and {len(those) - 8} more' if len(those) > 8 else ''}"
                 for kind, those in sorted(names.items())]
        raise Refused("\n  ".join(["layers that are not supported:", *lines]))


def _channels(layers, blob):
    """Those that the first layer that tells wants of an input: through Splits and layers that keep channels."""
    found = {blob}
    for layer in layers:
        if not found & set(layer.inputs):
            continue
        if layer.kind in ("Convolution", "ConvolutionDepthWise"):
            across = layer.whole(1, 0, 1)
            each = layer.whole(0, 0, 1) * across * layer.whole(11, across, 1)
            channels, left = divmod(layer.whole(6, 0, 1) * max(layer.whole(7, 1), 1), each)
            return channels if channels and not left else None
        if layer.kind in ("Split", "Interp", "Padding", "PReLU", "ReLU", "BinaryOp", "Scale", "BatchNorm"):
            found.update(layer.outputs)
    return None


def _frame(layers, layer, given, most, multiple):
    """The shape of an input."""
    name = layer.outputs[0]
    if name in given:
        return given[name]
    width, height, channels = (layer.whole(key, 0, 0) for key in (0, 1, 2))
    if not channels and (width or height):  # a line or a table
        return [d for d in (height, width) if d]
    channels = channels or _channels(layers, name)
    if not channels:
        raise layer.refuse(f"how many channels it has is not known: --shape {name}=C,H,W")
    return [channels] + [(symbol, max(size // multiple, 1), multiple)
                         for symbol, size in zip(("height", "width"), most)]


def _attempt(name, layers, weights, given, most, multiple, patches, outputs):
    """The net, and why which layers did not work."""
    net, problems = Net(name, layers, weights, patches, outputs), []
    for layer in layers:
        try:
            if layer.kind == "Input":
                if len(layer.outputs) != 1:
                    raise layer.refuse(f"has {len(layer.outputs)} outputs, expected one")
                net.input(layer.outputs[0], _frame(layers, layer, given, most, multiple))
            else:
                net.build(layer)
        except TypeError as error:  # only a number of blobs that the handler does not take
            problems.append(layer.refuse(f"has {len(layer.inputs)} inputs, which it cannot have ({error})"))
        except (ValueError, OverflowError) as error:
            problems.append(error if str(layer) in str(error) else type(error)(f"{layer}: {error}")
                            if isinstance(error, Refused) else layer.refuse(str(error)))
    return net, problems


def _outputs(net, layers, wanted):
    names = wanted or [blob for layer in layers for blob in layer.outputs if blob not in net.readers]
    inputs = {layer.outputs[0] for layer in layers if layer.kind == "Input"}
    outputs = {}
    for name in names:
        blob = net.blobs.get(name)
        if blob is None or name in inputs:
            raise Refused(f"there is no blob {name!r} that could be an output")
        if len(name) > MAX_NAME:
            raise Refused(f"the output's name {name[:80]!r} has more than {MAX_NAME} characters")
        net.g.output(name, net.g.assemble(blob.value) if blob.cells else blob.value)
        outputs[name] = blob
    if not outputs:
        raise Refused("the network has no output")
    return outputs


def import_ncnn(param, bin, name="", shapes=None, most=MOST, multiple=0, patches=0, outputs=()):
    """The network of two files, as a graph. shapes: {input: [C, H, W]}, for sizes that are fixed; others are free, up
    to `most`, in steps of `multiple` (0: the smallest that works). patches: the size of the cells in which it runs; 0:
    whole. outputs: blobs; those that nothing reads, if there are none."""
    layers, shapes = read_param(param), {key: list(shape) for key, shape in (shapes or {}).items()}
    _unsupported(layers)
    inputs = [blob for layer in layers if layer.kind == "Input" for blob in layer.outputs]
    for unknown in set(shapes) - set(inputs):
        raise Refused(f"there is no input {unknown!r}: {', '.join(inputs)}")
    for key, shape in shapes.items():
        if not 1 <= len(shape) <= 3 or any(not 1 <= d <= MOST_SIDE for d in shape):
            raise Refused(f"the shape of {key!r} is {shape}, expected up to three numbers 1 .. {MOST_SIDE}")
    if any(not 1 <= size <= MOST_SIDE for size in most):
        raise Refused(f"frames of at most {most[0]} x {most[1]}, expected 1 .. {MOST_SIDE}")
    weights = read_weights(layers, bin)
    name, first = name or os.path.splitext(os.path.basename(param))[0][:MAX_NAME], None
    for step in (multiple,) if multiple else MULTIPLES:
        net, problems = _attempt(name, layers, weights, shapes, most, step, patches, outputs)
        if not problems:
            made = _outputs(net, layers, outputs)
            return Imported(net, {key: net.blobs[key] for key in inputs}, made, step if net.symbols else 1)
        first = first or problems
        if not all(isinstance(problem, Disagree) for problem in problems):
            break
    raise Refused("\n  ".join(["the network cannot be imported:", *map(str, first)]))
