"""What an import may make: nodes that functions are written out to, and bytes of constants. A file of some hundred
bytes asks for any number of both; here they are counted before anything is made.

Must never: refuse what a model needs that holds its own weights.
"""

import math

import onnx

from .refused import Refused

NODES = 2**18
BYTES = 2**29  # of constants, and TIMES as many as the model has itself: weights of 4 bits are folded to f32
TIMES = 16
SMALL = 1024   # elements of what shapes are worked out of


class Budget:
    """Bytes of constants that are left to an import."""

    def __init__(self, model):
        self.all = self.left = BYTES + TIMES * model.ByteSize()

    def charge(self, what, size):
        """Before `size` bytes are made."""
        if size > self.left:
            raise Refused(f"{what} of {size} bytes: an import makes {self.all} at most, of which {self.left} are left")
        self.left -= size


def subgraphs(node):
    for attribute in node.attribute:
        yield from [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs


class Written:
    """How many nodes and bytes there are where functions are written out."""

    def __init__(self, model):
        self.functions = {(f.domain, f.name, f.overload): f for f in model.functions}
        self.known, self.open = {}, set()

    def of_nodes(self, nodes):
        counts = [self.of_node(node) for node in nodes]
        return sum(c[0] for c in counts), sum(c[1] for c in counts)

    def of_node(self, node):
        key = node.domain, node.op_type, node.overload
        called = self.of_function(key) if key in self.functions else (1, node.ByteSize())
        inner = [self.of_nodes(graph.node) for graph in subgraphs(node)]
        return called[0] + sum(c[0] for c in inner), called[1] + sum(c[1] for c in inner)

    def of_function(self, key):
        if key in self.open:
            raise Refused(f"function {key[1]!r} calls itself")
        if key not in self.known:
            self.open.add(key)
            self.known[key] = self.of_nodes(self.functions[key].node)
            self.open.discard(key)
        return self.known[key]


def written_out(model):
    """Refuses functions that are written out to more than there may be."""
    try:
        nodes, size = Written(model).of_nodes(model.graph.node)
    except RecursionError:
        raise Refused("functions that call each other too deep") from None
    room = BYTES + TIMES * model.ByteSize()
    if nodes > NODES or size > room:
        raise Refused(f"functions are written out to {nodes} nodes of {size} bytes, expected {NODES} nodes of {room} "
                      "bytes at most")


def made_by(one, feeds):
    """Bytes that a model of one node will make of constants, as far as its shapes are known before it runs."""
    model = onnx.ModelProto()
    model.CopyFrom(one)
    for value in model.graph.input:
        array = feeds[value.name]
        kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        value.CopyFrom(onnx.helper.make_tensor_value_info(value.name, kind, array.shape))
        if array.size <= SMALL:
            model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
    try:
        found = onnx.shape_inference.infer_shapes(model).graph.output
    except Exception:  # of any kind: it then fails where it is folded
        return 0
    return sum(size_of(value.type.tensor_type) for value in found if value.type.HasField("tensor_type"))


def size_of(tensor):
    """Bytes of a tensor of known shape; 0 of others."""
    dims = tensor.shape.dim if tensor.HasField("shape") else []
    if not dims or not all(d.HasField("dim_value") and d.dim_value >= 0 for d in dims):
        return 0
    try:
        item = onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type).itemsize
    except KeyError:
        item = 8
    return item * math.prod(d.dim_value for d in dims)
