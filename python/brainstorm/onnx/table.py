"""The table of ONNX ops that are taken, and what a handler sees of its node.

A handler is a function of a Node that gives its outputs, a Tensor or a list of them; @op names the ONNX ops that it is
for. The modules ops_*.py hold them by family. Must never: know of one model.
"""

import numpy as np
import onnx

from .refused import NeedConstant, Refused
from .sizes import of_sizes
from .tensors import axis_of

TABLE = {}      # (domain, ONNX op): handler
UNFOLDED = {"RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli", "Multinomial"}
REASONS = {     # why whole families of ops are not taken
    **dict.fromkeys(UNFOLDED, "random numbers"),
    **dict.fromkeys(("SequenceMap", "SequenceInsert", "SequenceErase", "SequenceAt", "SequenceConstruct",
                     "SequenceEmpty", "SequenceLength", "SplitToSequence", "ConcatFromSequence", "ReverseSequence_"),
                    "sequences of tensors"),
    **dict.fromkeys(("Optional", "OptionalHasElement", "OptionalGetElement"), "optional values"),
    **dict.fromkeys(("StringConcat", "StringSplit", "StringNormalizer", "RegexFullMatch", "TfIdfVectorizer",
                     "LabelEncoder"), "strings"),
    **dict.fromkeys(("Adam", "Adagrad", "Momentum", "Gradient"), "training"),
    "ImageDecoder": "decoding of image files"}


def op(*names, domain=""):
    def add(handler):
        for name in names:
            TABLE[domain, name] = handler
        return handler
    return add


def number_of(value):
    return value.decode() if isinstance(value, bytes) else value


class Node:
    """A node while it is imported."""

    def __init__(self, proto, inputs, tensors, version, walk):
        self.proto, self.op, self.inputs, self.m, self.version = proto, proto.op_type, inputs, tensors, version
        self.walk = walk  # for subgraphs
        self.attributes = {a.name: a for a in proto.attribute}
        self.stem = proto.name or next((o for o in proto.output if o), proto.op_type)
        self.outputs = list(proto.output)

    def has(self, index):
        return index < len(self.inputs) and self.inputs[index] is not None

    def get(self, index, default=None):
        return self.inputs[index] if self.has(index) else default

    def __getitem__(self, index):
        if not self.has(index):
            raise Refused(f"input {index} is missing")
        return self.inputs[index]

    def constant(self, index, default=None):
        """The array of an input that must be known now."""
        if not self.has(index):
            return default
        if not self.inputs[index].constant:
            raise NeedConstant(index, f"input {index} ({self.proto.input[index]!r})")
        return self.inputs[index].array

    def numbers(self, index, attribute=None):
        """Whole numbers from a constant input, or from the attribute that it was in older op sets; None if neither."""
        if self.has(index):
            return [int(n) for n in np.ravel(self.constant(index))]
        if attribute in self.attributes:
            return [int(n) for n in np.ravel(self.attr(attribute))]
        return None

    def extents(self, index):
        """Whole numbers from a constant input: open ones where they are others for another size."""
        given = self.numbers(index)
        if not self.has(index) or self[index].by_size is None:
            return given
        return [of_sizes(every, self.walk.seen.turn) for every in zip(*(np.ravel(a) for a in self[index].by_size))]

    def attr(self, name, default=None):
        if name not in self.attributes:
            return default
        value = onnx.helper.get_attribute_value(self.attributes[name])
        return [number_of(v) for v in value] if isinstance(value, list) else number_of(value)

    def axis(self, default, rank=None, name="axis"):
        return axis_of(self.attr(name, default), self[0].rank if rank is None else rank)

    def only(self, count=1):
        """Refuses a node more of whose outputs are used than the first `count`."""
        if any(self.outputs[count:]):
            raise Refused(f"output {count} ({next(o for o in self.outputs[count:] if o)!r}) is not taken")

    def shape(self, index=0):
        """Of an output, where extents follow a free size; None: nothing is known of it."""
        return self.walk.seen.shape(self.outputs[index])

    def wants(self, index):
        return index < len(self.outputs) and bool(self.outputs[index])


def load_handlers():
    """Fills the table."""
    from . import (  # noqa: F401
        ops_attention, ops_control, ops_elementwise, ops_found, ops_image, ops_index, ops_linear, ops_markers, ops_norm,
        ops_quantized, ops_recurrent, ops_reduce, ops_sample, ops_shape, ops_states)
    return TABLE
