"""The walk: an ONNX graph, node by node, to our Graph.

What is constant is folded by onnx.reference, one node at a time, and shapes are known as tensors know them: what
depends on shapes alone is constant too. All nodes that are not taken are listed at once. Must never: leave a node out.
"""

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

from .. import Graph
from . import quantised
from .arithmetic import Tensors
from .blocks import Blocks
from .budget import Budget, made_by
from .extents import Extents
from .names import Names
from .patterns import rewritten
from .refused import NeedConstant, NotTaken, Refused
from .shapes import Batch, Frame, Free
from .sizes import Seen
from .table import REASONS, UNFOLDED, Node, load_handlers
from .tensors import Tensor, fitted, sized

PORTS = {"uint8": "u8", "int8": "i8"}  # types of inputs that our file holds as they are
LATE = ("QuantizeLinear", "DequantizeLinear")
TOLD = {"float64": "f32", "float16": "f32", "bfloat16": "f32", "int64": "i32", "uint64": "i32", "uint32": "i32",
        "int16": "i32", "uint16": "i32", "bool": "i32"}


class Trouble:
    """A node that is not taken."""

    def __init__(self, proto, where, why, needs=None):
        self.op, self.name, self.where, self.why, self.needs = proto.op_type, proto.name, where, why, needs

    def __str__(self):
        return f"{self.op} {self.name!r} ({self.where}): {self.why}" if self.name else \
            f"{self.op} ({self.where}): {self.why}"


class Port:
    """An input or output of the file: what the ONNX model calls it, and what it holds."""

    def __init__(self, onnx_name, name, shape, dtype, held, held_dtype):
        self.onnx_name, self.name, self.shape, self.dtype = onnx_name, name, tuple(shape), np.dtype(dtype)
        self.held, self.held_dtype, self.probed = tuple(held), held_dtype, tuple(shape)
        self.open = [False] * len(self.shape)  # which extents only a run knows


def bounded(proto, given):
    """Refuses constants that a file of a few bytes would make of any size."""
    numbers = [np.ravel(x.array).tolist() if x.size < 64 and x.array.dtype.kind in "iuf" else [] for x in given]
    if proto.op_type == "ConstantOfShape":
        sized(numbers[0])
    elif proto.op_type == "Expand":
        sized(np.broadcast_shapes(given[0].shape, sized(numbers[1])))
    elif proto.op_type == "Tile":
        sized(n * times for n, times in zip(given[0].shape, numbers[1]))
    elif proto.op_type == "Range" and len(given) == 3:
        start, limit, step = (n[0] for n in numbers)
        sized([max((limit - start) / step, 0) if step else 0])
    elif proto.op_type in ("Pad", "OneHot", "Resize", "Upsample", "CenterCropPad", "Col2Im"):
        sized([max(given[0].size, 1), *(max(abs(n), 1) for n in numbers[1] if np.isfinite(n))])


class Walk:
    def __init__(self, model, shapes, name="", free=None, progress=None, blocks=None, patches=0, extents=None,
                 most=None, seen=None):
        """shapes: {input: (shape, dtype)}, all of it known. free: a Batch, which is 1 in shapes, or a Frame, of which
        they have one size. seen: what walks of other sizes have seen. progress: called with the number of nodes that
        are done. blocks: patterns of scopes. patches: the size of cells that inputs, images, are cut into; 0: none.
        extents: numbers for those that only a run knows. most: {name: how many elements or trips, where that is
        computed in a run}; "": all others."""
        self.progress = progress or (lambda done: None)
        self.model, self.shapes = model, shapes
        self.versions = {o.domain if o.domain != "ai.onnx" else "": o.version for o in model.opset_import}
        self.table, self.names = load_handlers(), Names()
        self.graph = Graph(self.names.plain(name)[:63])
        self.blocks, self.patches = Blocks(self.graph, self.names, blocks), patches
        self.budget = Budget(model)
        self.m = Tensors(self.graph, self.names, self.budget)
        self.troubles, self.inputs, self.outputs, self.told = [], [], [], {}
        self.values, self.empty, self.symbols = {"": None}, [], {}
        self.batch = free if isinstance(free, Batch) else None
        self.frame = free if isinstance(free, Frame) else None
        self.symbol = self.cells = None
        self.extents, self.most = extents or Extents(), dict(most or {})
        self.seen = self.m.seen = seen or Seen()
        self.reshaped, self._reshape = {}, self.graph.reshape  # of reshapes by their number: (shape or None, shape)
        self.graph.reshape = self.reshape
        self.alive = []  # readers of graphs in nodes: `passed` knows nodes by what they are in memory
        self.readers, self.passed = {}, {}  # nodes by what they read; {id: value} of those that one before has done
        self.makers = []  # of each node of our graph, the node of the model that it was made for

    # ------------------------------------------------------------------------------------------------ walk

    def reshape(self, x, shape):
        """Of our graph."""
        value = self._reshape(x, self.extents.codes(list(shape)))
        if all(isinstance(d, int) for d in shape):
            value.held = tuple(shape)
            self.reshaped[len(self.graph.nodes) - 1] = x.held, value.held
        return value

    def run(self):
        graph = self.model.graph
        for tensor in graph.initializer:
            self.values[tensor.name] = self.initializer(tensor)
        if graph.sparse_initializer:
            raise Refused("sparse initializers")
        for value in graph.input:
            if value.name not in self.values:
                self.values[value.name] = self.port(self.input, "input", value.name, value.name)
        self.note_readers(graph)
        self.body(graph)
        if self.troubles:
            raise NotTaken(self.troubles)
        for value in graph.output:
            self.port(self.output, "output", value.name, value)
        self.still = all(self.values[v.name].constant for v in graph.output)
        return self

    def most_of(self, node, any_node=True):
        """Elements or trips that a node can have; None: nobody says. any_node: what is said of all is said of it."""
        names = (node.proto.name, *node.outputs)
        named = next((self.most[name] for name in names if name and name in self.most), None)
        return self.most.get("") if named is None and any_node else named

    def note_readers(self, graph, inner=False):
        for node in graph.node:
            for name in node.input:
                self.readers.setdefault(name, []).append(None if inner else node)
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    self.note_readers(attribute.g, True)
        for value in graph.output:
            self.readers.setdefault(value.name, []).append(None)

    def only_reader(self, name):
        """The node that is all that reads a value; None: there is none such."""
        readers = self.readers.get(name, [])
        if len(readers) != 1 or readers[0] is None or readers[0].domain not in ("", "ai.onnx"):
            return None
        inputs = [self.values.get(i) for i in readers[0].input]
        return Node(readers[0], inputs, self.m, self.versions.get("", 1), self)

    def replaced(self, gone, proto):
        """One node stands for several."""
        ids = {id(n) for n in gone}
        for name in {i for n in gone for i in n.input}:
            self.readers[name] = [r for r in self.readers[name] if r is None or id(r) not in ids]
        for name in proto.input:
            self.readers[name].append(proto)

    def done(self, node, name):
        """Another node has done what this one does: it gives on its input of that name."""
        self.done_by_name(node.proto, name)

    def done_by_name(self, proto, name):
        self.passed[id(proto)] = name

    def constants_first(self, graph):
        """Nodes of constants alone, so that what stands behind a layer is known when the layer comes."""
        left = []
        for number, proto in enumerate(graph.node):
            known = [self.values.get(name) for name in proto.input if name]
            plain = all(a.type != onnx.AttributeProto.GRAPH for a in proto.attribute)
            if plain and all(x is not None and x.constant for x in known):
                self.visit(proto, f"node {number}")
            else:
                left.append((number, proto))
        return left

    def body(self, graph, where="node"):
        for number, proto in rewritten(self, self.constants_first(graph)):
            if where == "node":
                self.blocks.at(proto)
            self.visit(proto, f"{where} {number}")
            self.progress(number + 1)
        if where == "node":
            self.blocks.end()

    def maker(self, number):
        """What to call a node of our graph."""
        node, maker = self.graph.nodes[number], (self.makers[number:number + 1] or [None])[0]
        ours = f"{node.op} {node.name!r}" if node.name else node.op
        return ours if maker is None else f"{ours} of {maker}"

    def made_by(self, proto, where):
        """Whose the nodes are that our graph has since it was asked last."""
        label = proto and (f"{proto.op_type} {proto.name!r} ({where})" if proto.name else f"{proto.op_type} ({where})")
        self.makers += [label] * (len(self.graph.nodes) - len(self.makers))

    def visit(self, proto, where):
        self.made_by(None, where)
        self.visited(proto, where)
        self.made_by(proto, where)

    def visited(self, proto, where):
        if any(name not in self.values for name in proto.input):
            key = (proto.domain if proto.domain != "ai.onnx" else "", proto.op_type)
            if key not in self.table:
                self.troubles.append(Trouble(proto, where, self.unknown(proto)))
            return  # what it needs was not taken
        if id(proto) in self.passed:
            self.values[proto.output[0]] = self.values[self.passed[id(proto)]]
            return
        try:
            outputs = self.node(proto, [self.values[name] for name in proto.input])
        except NeedConstant as why:
            self.troubles.append(Trouble(proto, where, str(why), proto.input[why.index]))
        except (Refused, ValueError) as why:
            self.troubles.append(Trouble(proto, where, self.extents.words(str(why))))
        except (TypeError, IndexError, KeyError, AttributeError, ArithmeticError, MemoryError, RuntimeError,
                StopIteration) as why:
            self.troubles.append(Trouble(proto, where, f"it is not well formed ({type(why).__name__}: {why})"))
        else:
            for name, value in zip(proto.output, outputs):
                if name:
                    self.values[name] = value
                    self.seen.mark(name, value, self.m.leader is not None)
                    if value is not None and not value.constant and value.dtype.name != "bool":
                        self.tell(None, value.dtype)

    def unknown(self, proto):
        if proto.domain not in ("", "ai.onnx"):
            return f"ops of domain {proto.domain!r} are not taken"
        return REASONS.get(proto.op_type, "this op is not taken")

    def node(self, proto, inputs):
        domain = proto.domain if proto.domain != "ai.onnx" else ""
        handler = self.table.get((domain, proto.op_type))
        node = Node(proto, inputs, self.m, self.versions.get(domain, 1), self)
        given = [x for x in inputs if x is not None]
        graphs = any(a.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for a in proto.attribute)
        whole = any(x.by_size is not None for x in given)
        follows = handler is not None and any(self.seen.follows(name, whole) for name in proto.output)
        if all(x.constant for x in given) and not graphs and proto.op_type not in UNFOLDED and not follows:
            return self.folded(proto, given)
        if handler is None:
            raise Refused(self.unknown(proto))
        outputs = handler(node)
        return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]

    def folded(self, proto, given):
        """A node of constants, by onnx.reference."""
        bounded(proto, given)
        names = [name for name in proto.input if name]
        sets = self.model.opset_import
        if proto.op_type in LATE:  # onnx.reference has them from set 19 on, as they were before
            sets = [onnx.helper.make_opsetid("", max(self.versions.get("", 1), 19))]
        one = onnx.helper.make_model(
            onnx.helper.make_graph([proto], "fold", [onnx.ValueInfoProto(name=n) for n in dict.fromkeys(names)],
                                   [onnx.ValueInfoProto(name=n) for n in proto.output if n]),
            opset_imports=sets, ir_version=self.model.ir_version)
        feeds = {name: x.array for name, x in zip(names, given)}
        self.budget.charge("constants", made_by(one, feeds))
        try:
            with np.errstate(all="ignore"):
                results = ReferenceEvaluator(one).run(None, feeds)
        except Exception as why:  # of any kind: it is the reference's own
            raise Refused(f"it cannot be folded ({type(why).__name__}: {why})") from None
        if any(not isinstance(r, (np.ndarray, np.generic)) for r in results):
            raise Refused("sequences, maps and optional values are not taken")
        results = iter(results)
        made = [self.array(next(results)) if name else None for name in proto.output]
        if proto.op_type == "DequantizeLinear":
            made[0].steps = quantised.of_constant(proto, given)
        return made

    def array(self, array):
        array = np.asarray(array)
        if array.dtype.kind in "OUSc":
            raise Refused(f"elements of type {array.dtype} are not taken")
        return Tensor(array.shape, array.dtype, array)

    def initializer(self, tensor):
        try:
            return self.array(onnx.numpy_helper.to_array(tensor))
        except (ValueError, TypeError, KeyError) as why:
            raise Refused(f"initializer {tensor.name!r}: {why}") from None

    # ----------------------------------------------------------------------------------------------- ports

    def port(self, make, what, name, given):
        """What make gives; our graph's own refusals are told with the name."""
        try:
            return make(given)
        except ValueError as why:
            raise Refused(f"{what} {name!r}: {why}") from None

    def tell(self, what, dtype):
        if dtype.name in TOLD:
            told = self.told.setdefault((dtype.name, TOLD[dtype.name]), [])
            if what:
                told.append(what)

    def input(self, name):
        shape, dtype = self.shapes[name]
        x = Tensor(self.seen.shape(name) or shape, dtype)
        if 0 in x.shape:
            self.empty.append(name)  # nothing can be computed of it: whoever tries is told
            return x
        if self.batch and name in self.batch.inputs:
            return self.batched_input(name, x)
        if self.frame and name in self.frame.inputs:
            self.framed_input(name, x)
            self.seen.mark(name, x, False)
            return x
        held = x.shape if 1 <= x.rank <= 4 else fitted(x.shape)
        kind = PORTS.get(dtype.name, "f32" if x.floats else "i32")
        port = Port(name, self.names.port(name), shape, dtype, held, kind)
        value = self.graph.input(port.name, kind, list(held))
        if dtype.name in PORTS:
            value = self.graph.convert(value, "i32")
        if self.patches:
            held, value = self.cut(name, x, value)
        x.forms[False, held] = value
        self.tell(f"input {name!r}", dtype)
        self.inputs.append(port)
        return x

    def framed_input(self, name, x):
        """An input some of whose extents are symbols, which no node but this one knows."""
        given = self.frame.inputs[name]
        image = x.rank == 4 and x.shape[0] == 1 and not isinstance(given[0], Free) and not isinstance(given[1], Free)
        if not 1 <= x.rank <= 4 or self.patches and not image:
            raise Refused(f"input {name!r} of shape {list(x.shape)} has a free size, expected " +
                          ("an image [1,C,H,W]" if self.patches else "1 .. 4 dimensions"))
        most, kind = tuple(d.maximum if isinstance(d, Free) else d for d in given), PORTS.get(
            x.dtype.name, "f32" if x.floats else "i32")
        port = Port(name, self.names.port(name), most, x.dtype, most, kind)
        value = self.graph.input(port.name, kind, [self.symbol_of(d) if isinstance(d, Free) else d for d in given])
        for axis, d in enumerate(given):
            if isinstance(d, Free) and d.least > d.step:
                self.graph.slice(value, axis, 0, d.least)  # a run with less ends with an error
        value = self.graph.convert(value, "i32") if x.dtype.name in PORTS else value
        value = self.graph.reshape(value, ["a1", "a2", "a3"]) if image else value
        x.forms[False, x.shape[1:] if image else x.shape] = self.patched(name, x, value) if self.patches else value
        self.tell(f"input {name!r}", x.dtype)
        self.inputs.append(port)

    def symbol_of(self, free):
        if free.name not in self.symbols:
            symbol = self.graph.symbol(self.names.plain(free.name)[:63], free.maximum // free.step)
            self.symbols[free.name] = symbol * free.step
        return self.symbols[free.name]

    def patched(self, name, x, image):
        """An image as cells of a patch domain: what follows is computed in them."""
        if x.rank != 4 or x.shape[0] != 1 or self.cells is not None:
            raise Refused(f"patches are of one input [1, C, H, W]; {name!r} is {list(x.shape)}")
        self.cells = self.graph.patches(image, self.patches)
        return self.cells

    def cut(self, name, x, value):
        return x.shape[1:], self.patched(name, x, self.graph.reshape(value, list(x.shape[1:])))

    def framed_output(self, value, x):
        """An image [1, C, H, W] of extents that the graph works out."""
        image = self.m.held(x, x.shape[1:])
        image = self.graph.assemble(image) if self.patches else image
        name, kind = self.names.port(value.name), "f32" if x.floats else "i32"
        self.graph.output(name, self.graph.reshape(image, [1, "a0", "a1", "a2"]))
        self.tell(f"output {value.name!r}", x.dtype)
        self.outputs.append(Port(value.name, name, x.shape, x.dtype, x.shape, kind))

    def assembled(self, value, x):
        """An output of cells: the whole image."""
        if x.rank != 4 or x.shape[0] != 1:
            raise Refused(f"patches give images [1, C, H, W]; output {value.name!r} is {list(x.shape)}")
        return self.graph.reshape(self.graph.assemble(self.m.held(x, x.shape[1:])), list(x.shape))

    def batched_input(self, name, x):
        """An input [N, ...] of which N is free: its rows are cells, and all that follows sees one of them."""
        cell = x.shape[1:]
        if not 1 <= len(cell) <= 3:
            raise Refused(f"input {name!r} of rank {x.rank} has a free leading dimension, expected rank 2 .. 4")
        if self.symbol is None:
            self.symbol = self.graph.symbol(self.names.plain(self.batch.symbol)[:63], self.batch.maximum)
        kind = PORTS.get(x.dtype.name, "f32" if x.floats else "i32")
        port = Port(name, self.names.port(name), (self.batch.maximum, *cell), x.dtype,
                    (self.batch.maximum, *cell), kind)
        value = self.graph.input(port.name, kind, [self.symbol, *cell])
        value = self.graph.rows(value) if self.cells is None else self.graph.rows(value, self.cells)
        self.cells = self.cells or value
        x.forms[False, cell] = self.graph.convert(value, "i32") if x.dtype.name in PORTS else value
        self.m.leader = self.m.leader or x
        self.tell(f"input {name!r}", x.dtype)
        self.inputs.append(port)
        return x

    def batched_output(self, value, x):
        """Rows again: [N, ...]."""
        if x.constant or x.shape[:1] != (1,) or not 2 <= x.rank <= 4:
            raise Refused(f"output {value.name!r} of shape {list(x.shape)} has no free leading dimension, or none of "
                          "rank 2 .. 4")
        name, kind = self.names.port(value.name), "f32" if x.floats else "i32"
        self.graph.output(name, self.graph.collect(self.m.held(x, x.shape[1:])))
        self.tell(f"output {value.name!r}", x.dtype)
        shape = (self.batch.maximum, *x.shape[1:])
        self.outputs.append(Port(value.name, name, shape, x.dtype, shape, kind))

    def output(self, value):
        x = self.values.get(value.name)
        if x is None:
            raise Refused(f"output {value.name!r} is given by no node")
        if x.size == 0:
            raise Refused(f"output {value.name!r} of shape {list(x.shape)} has no elements")
        if self.batch:
            return self.batched_output(value, x)
        if self.frame and x.rank == 4 and x.shape[0] == 1 and not x.constant:
            return self.framed_output(value, x)
        held = x.shape if 1 <= x.rank <= 4 else fitted(x.shape)
        out, made = self.assembled(value, x) if self.patches else self.m.held(x, held), set()
        name = self.names.port(value.name)
        if out.op in ("input", "constant") or x.constant:
            made.add(out.op)
        self.graph.output(name, self.graph.reshape(out, list(held)) if made else out)
        self.tell(f"output {value.name!r}", x.dtype)
        self.outputs.append(Port(value.name, name, x.shape, x.dtype, held, "f32" if x.floats else "i32"))
