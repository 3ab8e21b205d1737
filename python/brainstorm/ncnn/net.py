"""The network while it is imported: its graph, what each blob has become, and what does not work.

Handlers of layers (windows.py, elements.py, shapes.py, norms.py) register themselves in HANDLERS and are called with
the net, the layer and its blobs; they give the blobs that the layer makes, or raise Refused. Must never read a file.
"""

import math
from fractions import Fraction

from .. import Graph
from .extents import Extent, derived, number
from .param import MAX_NAME, Refused

HANDLERS = {}  # of a kind of layer: function(net, layer, *blobs) -> blob or list of them


def handler(*kinds):
    def register(function):
        HANDLERS.update({kind: function for kind in kinds})
        return function
    return register


class Blob:
    """A value, its shape as far as it is known (numbers and Extents, outermost first), and whether it is in patches;
    scale: its frame's against that of the input."""

    def __init__(self, value, shape, cells=False, scale=Fraction(1)):
        self.value, self.shape, self.cells, self.scale = value, list(shape), cells, scale

    @property
    def rank(self):
        return len(self.shape)

    def __str__(self):
        return str(self.shape)


class Net:
    """weights: {layer: {name: array}}. patches: size of a cell, or 0. outputs: blobs that are asked for."""

    def __init__(self, name, layers, weights, patches, outputs=()):
        self.layers, self.weights, self.patches = layers, weights, patches
        self.g = Graph(name)
        self.blobs, self.symbols, self.most_of, self.names = {}, {}, {}, set()
        self.readers = {}
        for layer in layers:
            for blob in layer.inputs:
                self.readers.setdefault(blob, []).append(layer)
        for blob in outputs:
            self.readers.setdefault(blob, []).append(None)
        self.done = {}  # layers whose work an earlier one does: {layer: blob}

    # ------------------------------------------------------------------------------------------- for handlers

    def name(self, layer, suffix=""):
        """A name for a node with weights, that no other one has."""
        base, number = layer.name + suffix, 1
        name = base[:MAX_NAME]
        while name in self.names:
            number += 1
            name = f"{base[:MAX_NAME - 8]}_{number}"
        self.names.add(name)
        return name

    def constant(self, layer, suffix, array):
        return self.g.constant(self.name(layer, suffix), array)

    def like(self, x, value, shape=None, scale=1):
        """A blob of the same kind as x. Fails where cells would not be whole pixels."""
        blob = Blob(value, x.shape if shape is None else shape, x.cells, x.scale * scale)
        if blob.cells and (blob.scale * self.patches).denominator != 1:
            raise Refused(f"patches of {self.patches} pixels have no whole ones at {blob.scale} of the size: take a "
                          "multiple (--patches)")
        return blob

    def whole(self, layer, *blobs):
        """Fails in patches, of which a layer sees one at a time."""
        if any(blob.cells for blob in blobs):
            raise layer.refuse("needs all pixels, or moves them, and cannot be cut into patches: leave --patches out")

    def image(self, layer, x):
        if x.rank != 3:
            raise layer.refuse(f"reads {x}, expected an image [C, H, W]")
        return x.shape[0]

    def channels(self, layer, x):
        """Extent 0, which is a number in every network that works."""
        if not isinstance(x.shape[0], int):
            raise layer.refuse(f"reads {x}, expected a known number of channels")
        return x.shape[0]

    def follower(self, layer):
        """The layer that alone reads the only output of this one, which is not asked for, or None."""
        readers = self.readers.get(layer.outputs[0], []) if len(layer.outputs) == 1 else []
        return readers[0] if len(readers) == 1 else None

    def crop(self, layer, x, axis, before, after):
        """Without the first and the last ones of a dimension. With a size that is free there is no slice that ends
        before the end: so the last ones are rolled to the front and cut there."""
        if before == 0 and after == 0:
            return x
        if axis != 0:
            self.whole(layer, x)
        extent = derived(x.shape[axis], 1, -before - after, 1)
        most = extent if isinstance(extent, int) else self.most(extent)
        if before < 0 or after < 0 or most < 1:
            raise layer.refuse(f"cuts {before} and {after} off dimension {axis} of {x}")
        if isinstance(extent, int):
            value = self.g.slice(x.value, axis, before, extent)
        else:
            value = self.g.roll(x.value, axis, after) if after else x.value
            value = self.g.slice(value, axis, before + after, 0)
        return self.like(x, value, x.shape[:axis] + [extent] + x.shape[axis + 1:])

    def flat(self, layer, x):
        """As one line."""
        if x.rank == 1:
            return x
        self.whole(layer, x)
        elements = math.prod(number(d, f"a dimension of what {layer} reads") for d in x.shape)
        return self.like(x, self.g.reshape(x.value, [elements]), [elements])

    def most(self, extent):
        """The most that an extent is."""
        if isinstance(extent, int):
            return extent
        return (extent.times * self.most_of[extent.symbol] + extent.add) // extent.over

    def codes(self, shape):
        """A shape for Graph.reshape: free extents are those of the operand's dimension of that number."""
        return [f"a{i}" if isinstance(d, Extent) else d for i, d in enumerate(shape)]

    # ------------------------------------------------------------------------------------------------ the way

    def input(self, name, shape):
        """shape: of numbers and (symbol, most, multiple): a multiple of a symbol, which is at most so much."""
        extents, dims = [], []
        for d in shape:
            if isinstance(d, tuple):
                symbol, most, multiple = d
                if symbol not in self.most_of:
                    self.most_of[symbol], self.symbols[symbol] = most, self.g.symbol(symbol, most)
                dims.append(self.symbols[symbol] * multiple)
                extents.append(Extent(symbol, multiple, 0, 1))
            else:
                dims.append(d)
                extents.append(d)
        value = self.g.input(name, "f32", dims)
        cells = bool(self.patches) and len(shape) == 3 and list(shape[1:]) != [1, 1]
        if cells:
            value = self.g.patches(value, self.patches)
        self.blobs[name] = Blob(value, extents, cells)

    def build(self, layer):
        """Makes the blobs of a layer; nothing where those that it reads could not be made."""
        inputs = [self.blobs.get(name) for name in layer.inputs]
        if any(x is None for x in inputs):
            return
        if layer in self.done:
            made = self.done[layer]
        else:
            made = HANDLERS[layer.kind](self, layer, *inputs)
        made = made if isinstance(made, list) else [made]
        if len(made) != len(layer.outputs):
            raise layer.refuse(f"has {len(layer.outputs)} outputs, expected {len(made)}")
        for name, blob in zip(layer.outputs, made):
            for d in blob.shape:
                if self.most(d) < 1:
                    raise layer.refuse(f"makes {blob}, which is empty at the most that the frame is")
            self.blobs[name] = blob
