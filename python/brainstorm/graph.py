"""Build brainstorm graphs in Python and write them as model files (GGUF version 3).

    from brainstorm import Graph

    g = Graph("tiny", scale=2)
    frame = g.input("frame", "u8", [1, g.symbol("H", 1080), g.symbol("W", 1920)])
    cells = g.patches(frame, size=64)
    ...
    g.output("frame_2x", g.assemble(out))
    g.write("tiny.gguf")

Every method is the twin of a builder function of brainstorm.h and makes the same nodes and value numbers in the
same order. Shapes are not worked out here: `brainstorm inspect FILE` (or `check`), which builds the graph from the
file, finds what does not fit. What is checked here is what can be told without them: operands, routers and symbols of
other graphs, doubled names, numbers that the library refuses, weights of odd types.

Needs numpy and gguf (tools/requirements.txt), and the files beside it: kernels.py has the ops that compute,
loops.py loops, ops.py says what the library takes, file.py writes. The format is
described in docs/format.md.
"""

import contextlib
import math
import struct

import numpy as np

from .file import Block, read_weights, stored_array, write  # noqa: F401: read_weights is for others
from .kernels import Kernels
from .lists import ACTS, DTYPES, GATHERS, SEGMENTS  # noqa: F401: ACTS is for others
from .loops import Loops
from .ops import (  # noqa: F401: DEPTHWISE, OPSET are for others
    DEPTHWISE, INT32, MAX_ALL_PATHS, MAX_ELEMENTS, MAX_ENTRIES, MAX_EXTENT, MAX_FACTOR, MAX_FLOOR, MAX_NAME,
    MAX_OPERANDS, MAX_PATHS, MAX_RANK, MAX_SCALE, MAX_SYMBOLS, NONE_STANDS, OPS, OPSET, OPSET_OF, OPSET_OF_NUMBER,
    OPSET_OF_PARAM, PROTOCOLS, RANGES, all_within, number_of, within)


class Value:
    """What a node gives. Only the graph that made it can use it."""

    held = None  # its shape, where an importer knows it

    def __init__(self, graph, number, op):
        self.graph, self.number, self.op = graph, number, op

    def __add__(self, other):
        return self.graph.add(self, other)

    def __sub__(self, other):
        return self.graph.sub(self, other)

    def __mul__(self, other):
        return self.graph.mul(self, other)

    def __repr__(self):
        return f"<value {self.number}>"


class Router:
    def __init__(self, graph, number, paths, score, protocol, most):
        self.graph, self.number, self.paths, self.score, self.protocol = graph, number, paths, score, protocol
        self.most = most  # paths of a cell


class Symbol:
    """A dimension that a run binds, or an integer multiple of one."""

    def __init__(self, graph, number, factor=1):
        self.graph, self.number, self.factor = graph, number, factor

    def __mul__(self, factor):
        return Symbol(self.graph, self.number, self.factor * factor)

    __rmul__ = __mul__


class Node:
    def __init__(self, op, name, inputs, params, block):
        self.op, self.name, self.inputs, self.params, self.block = op, name, inputs, params, block
        self.opset = OPSET_OF.get(op, 1)
        fields = OPS[op][0].split()
        while self.params and (op, fields[len(self.params) - 1]) in OPSET_OF_PARAM and self.params[-1] == 0:
            self.params = self.params[:-1]
        for field, number in zip(fields, self.params):
            most, beyond = OPSET_OF_NUMBER.get((op, field), (number, 1))
            self.opset = max(self.opset, OPSET_OF_PARAM.get((op, field), 1), beyond if number > most else 1)


class Graph(Kernels, Loops):
    def __init__(self, name="", scale=0):
        self._check_name(name)
        self.name, self.scale = name, within("the model's scale", scale, 0, MAX_SCALE)
        self.nodes, self.symbols = [], []
        self.blocks = [Block("main", 0)]
        self.n_values = self.n_routers = self.n_paths = self.n_operands = 0
        self.open_blocks = [0]  # numbers of the blocks we are in
        self.open_loops = []    # those that have not ended
        self._weights = {}     # by name
        self._taken = set()    # of inputs, states and outputs; (name,) of routers
        self._written = set()  # numbers of states

    # ------------------------------------------------------------------------------------------ primitives

    def node(self, op, inputs=(), name="", weights=None, **params):
        """One node, as bs_graph_add makes it: its value (a tuple if there are several; None if there is none).
        weights: {suffix: array}; None arrays are left out."""
        fields, outputs = OPS[op]
        self._check_name(name)
        within("the number of nodes", len(self.nodes) + 1, 1, MAX_ENTRIES)
        numbers = [0 if v is None and op in NONE_STANDS else self._operand(v) for v in inputs]
        self.n_operands = within("the number of operands", self.n_operands + len(numbers), 0, MAX_OPERANDS)
        self.nodes.append(Node(op, name, numbers, self._pack(op, name, fields.split(), params), self.open_blocks[-1]))
        for suffix, array in (weights or {}).items():
            if array is not None:
                self._weight(f"{name}.{suffix}" if suffix else name, array, whole=op in ("constant", "route"))
        values = tuple(Value(self, self.n_values + 1 + i, op) for i in range(outputs))
        self.n_values += outputs
        return values[0] if outputs == 1 else values or None

    def _operand(self, value):
        if not isinstance(value, Value) or value.graph is not self:
            raise ValueError(f"{value!r} is not a value of this graph")
        return value.number

    def _made_by(self, op, value, what):
        self._operand(value)
        if value.op != op:
            raise ValueError(f"{what} is made by {value.op}, expected {op}")

    def _router(self, router):
        if not hasattr(router, "paths") or router.graph is not self:
            raise ValueError(f"{router!r} is not a router of this graph")
        return router

    def _check_name(self, name):
        if len(name) > MAX_NAME or not all(32 <= ord(c) < 127 for c in name):
            raise ValueError(f"the name {name!r} is not plain ASCII of at most {MAX_NAME} bytes")

    def _take_name(self, name, key):
        if not name or key in self._taken:
            raise ValueError(f"the name {name!r} is taken by an earlier one, or empty")
        self._taken.add(key)

    def _pack(self, op, name, fields, params):
        packed, where = [], f"{op} {name!r}" if name else op
        for field in fields:
            value = params.pop(field.rstrip("~"), 0)
            if field.endswith("~"):
                packed += struct.unpack("<i", struct.pack("<f", value))
            else:
                packed.append(within(f"{field} of {where}", value, *RANGES.get((op, field), INT32)))
        if params:
            raise ValueError(f"{op} has no parameter {', '.join(params)}")
        return packed

    def _weight(self, name, array, whole):
        """What several nodes of one name use is stored once, in the block of the first. whole: it may be of whole
        numbers."""
        stored, known = stored_array(name, array), self._weights.get(name)
        if not whole and stored.dtype.kind != "f":
            raise ValueError(f"weight {name}: {stored.dtype}, expected f32 or f16")
        if known is None:
            within("the number of weights", len(self._weights) + 1, 1, MAX_ENTRIES)
            self._weights[name] = stored
            self.blocks[self.open_blocks[-1]].add(name, stored)
        elif known.dtype != stored.dtype or known.shape != stored.shape or known.tobytes() != stored.tobytes():
            raise ValueError(f"two different weights are called {name!r}")

    @contextlib.contextmanager
    def block(self, name):
        """What is built inside belongs to the block, with its own record of weights."""
        self._check_name(name)
        if not name or len(name) > MAX_NAME - len("block."):
            raise ValueError(f"the block name {name!r} is empty or too long")
        within("the number of blocks", len(self.blocks) + 1, 1, MAX_ENTRIES)
        block = Block(name, len(self.nodes))
        self.blocks.append(block)
        self.open_blocks.append(len(self.blocks) - 1)
        yield block
        self.open_blocks.pop()
        block.end_node = len(self.nodes)
        if block.end_node == block.first_node:
            raise ValueError(f"block {name!r} is empty")

    # -------------------------------------------------------------------------------- inputs, outputs, state

    def symbol(self, name, maximum):
        self._check_name(name)
        within("the number of symbols", len(self.symbols) + 1, 1, MAX_SYMBOLS)
        self.symbols.append((name, within(f"the maximum of {name!r}", maximum, 1, MAX_EXTENT)))
        return Symbol(self, len(self.symbols))

    def _most(self, name, d):
        """The most that a dimension of input or state `name` is."""
        if not isinstance(d, Symbol):
            return within(f"an extent of {name!r}", d, 1, MAX_EXTENT)
        if d.graph is not self:
            raise ValueError(f"a symbol in {name!r} is of another graph")
        factor = within(f"a factor in {name!r}", d.factor, 1, MAX_FACTOR)
        return within(f"the maximum of an extent of {name!r}", factor * self.symbols[d.number - 1][1], 1, MAX_EXTENT)

    def _source(self, op, name, dtype, shape):
        within(f"the rank of {name!r}", len(shape), 1, MAX_RANK)
        within(f"the number of elements of {name!r}", math.prod(self._most(name, d) for d in shape), 1, MAX_ELEMENTS)
        self._take_name(name, name)
        codes = [-(d.number + 65536 * (int(d.factor) - 1)) if isinstance(d, Symbol) else int(d) for d in shape]
        dims = {f"dim{i}": code for i, code in enumerate(codes)}
        return self.node(op, name=name, dtype=number_of(DTYPES, dtype, "type"), rank=len(codes), **dims)

    def input(self, name, dtype, shape):
        return self._source("input", name, dtype, shape)

    def state(self, name, dtype, shape):
        return self._source("state", name, dtype, shape)

    def _write(self, state):
        self._made_by("state", state, "what is written")
        if state.number in self._written:
            raise ValueError("a state is written twice")
        self._written.add(state.number)

    def state_write(self, state, value):
        self._write(state)
        self.node("state_write", [state, value])

    def output(self, name, value):
        self._take_name(name, name)
        self.node("output", [value], name)

    # ---------------------------------------------------------------------------------- cells and routers

    def patches(self, frame, size=64, like=None, name=""):
        return self.node("patches", [frame] if like is None else [frame, like], name, size=size)

    def assemble(self, cells):
        return self.node("assemble", [cells])

    def rows(self, x, like=None):
        return self.node("rows", [x] if like is None else [x, like])

    def collect(self, cells):
        return self.node("collect", [cells])

    def segments(self, x, lengths):
        """Rows of x, grouped. lengths: an input i32 [s], the rows of each segment in a run."""
        self._made_by("input", lengths, "lengths")
        return self.node("segments", [x, lengths])

    def segment_index(self, like, cache_lengths=None):
        """cache_lengths: an input i32, one for each segment."""
        return self.node("segment_index", [like] if cache_lengths is None else [like, cache_lengths])

    def rope(self, x, positions, heads=0, dims=0, base=0.0, interleaved=0, name=""):
        if base != 0 and not 1 <= base < np.inf:
            raise ValueError(f"rope: base is {base}, expected 1 or more")
        return self.node("rope", [x, positions], name, heads=heads, dims=dims, base=base, interleaved=interleaved)

    def segment_spread(self, parent, like):
        return self.node("segment_spread", [parent, like])

    def segment_reduce(self, x, mode="last", name="", to_rows=0):
        return self.node("segment_reduce", [x], name, mode=number_of(SEGMENTS, mode, "segment mode"), to_rows=to_rows)

    def attention(self, q, k, v, cache_k=None, cache_v=None, cache_lengths=None, heads=0, alibi=0, name="", mask=None,
                  kv_heads=0, bidirectional=0, scale=0.0):
        """cache_k, cache_v: the cache [s, window, d]; cache_lengths: an input i32 [s]. All three, or none: no cache.
        mask: [] or [1] of each key, or a root value f32 [1 or heads, positions, positions of keys]; None: none."""
        cache = [cache_k, cache_v, cache_lengths]
        if any(v is None for v in cache) != all(v is None for v in cache):
            raise ValueError("attention: cache_k, cache_v and cache_lengths are given all three or none")
        if cache_lengths is not None:
            self._made_by("input", cache_lengths, "cache_lengths")
        given = [q, k, v] + [v for v in [*cache, mask] if v is not None]
        value = self.node("attention", given, name, heads=heads, alibi=alibi, kv_heads=kv_heads,
                          bidirectional=bidirectional, scale=scale)
        if mask is not None:
            self.nodes[-1].opset = max(self.nodes[-1].opset, 4)
        return value

    def state_append(self, state, value, cache_lengths):
        self._write(state)
        self._made_by("input", cache_lengths, "cache_lengths")
        self.node("state_append", [state, value, cache_lengths])

    def route(self, score, name, protocol, paths, knob=None, k=0, threshold=0.0, fallback=0, capacity=0, normalise=0,
              floor=0, cost=None, table=None, path=None, spill=0, baseline=0):
        """capacity: for "capacity", most cells of a path; spill: path + 1 that takes what the others have no room for.
        fallback: for "threshold", path + 1 of cells that no score sends anywhere. cost, path: i32 [variants], for
        "budget" (path None: one variant a path); baseline: variant + 1 that the budget is counted from. table:
        i32 [keys], for "table"."""
        protocol = number_of(PROTOCOLS, protocol, "protocol")
        if (cost is None) != (protocol != PROTOCOLS["budget"]) or (path is not None and cost is None):
            raise ValueError(f"{name!r}: cost, and path if there is one, are for protocol budget, which needs cost")
        if (table is None) != (protocol != PROTOCOLS["table"]):
            raise ValueError(f"{name!r}: table is for protocol table, which needs it")
        two = protocol in (PROTOCOLS["binary"], PROTOCOLS["residual_threshold"])
        within(f"paths of {name!r}", paths, 2 if two else 1, 2 if two else MAX_PATHS)
        if table is not None:
            table = np.asarray(table, np.int32)
            capacity = table.size
            all_within(f"a path in the table of {name!r}", table, 0, paths - 1)
        if cost is not None:
            cost = np.asarray(cost, np.int32)
            path = np.arange(paths, dtype=np.int32) if path is None else np.asarray(path, np.int32)
            capacity = cost.size
            if cost.shape != path.shape:
                raise ValueError(f"{name!r}: costs of shape {cost.shape}, paths of {path.shape}")
            all_within(f"a variant's path of {name!r}", path, 0, paths - 1)
        within(f"k of {name!r}", k, 0, paths)
        budget = protocol == PROTOCOLS["budget"]
        within(f"capacity of {name!r}", capacity, 1 if protocol == PROTOCOLS["capacity"] else 0,
                MAX_PATHS if budget else 2**31 - 1)
        within(f"fallback of {name!r}", fallback, 0, 0 if budget else paths)
        within(f"baseline of {name!r}", baseline, 0, capacity if budget else 0)
        within(f"floor of {name!r}", floor, 0, MAX_FLOOR if budget else 0)
        within(f"spill of {name!r}", spill, 0, paths if protocol == PROTOCOLS["capacity"] else 0)
        self.n_paths = within("the number of all paths", self.n_paths + paths, 1, MAX_ALL_PATHS)
        self._take_name(name, (name,))
        # In files the number of keys or variants is `capacity`, and the baseline `fallback`.
        self.node("route", [score] if knob is None else [score, knob], name,
                  {"cost": cost, "path": path, "table": table},
                  protocol=protocol, paths=paths, k=k, threshold=threshold,
                  fallback=fallback or baseline, capacity=capacity, normalise=normalise, floor=floor, spill=spill)
        self.n_routers += 1
        most = {PROTOCOLS["topk"]: k or 1, PROTOCOLS["capacity"]: k or 1, PROTOCOLS["threshold"]: paths}.get(
            protocol, 1)
        return Router(self, self.n_routers, paths, score, protocol, most)

    def scatter(self, router, path, x):
        within("the path", path, 0, self._router(router).paths - 1)
        return self.node("scatter", [x], router=router.number, path=path)

    @contextlib.contextmanager
    def branch(self, router, path, name, x):
        """Opens block `name` and gives the rows of x that went to `path`."""
        with self.block(name):
            yield self.scatter(router, path, x)

    def gather(self, router, values, residual=None, mode="place", name=""):
        if len(values) != self._router(router).paths:
            raise ValueError(f"gather: {len(values)} values for {router.paths} paths")
        if all(v is None for v in [*values, residual]):
            raise ValueError("gather: no path gives anything, and there is no residual")
        mode = number_of(GATHERS, mode, "gather mode")
        if mode == GATHERS["place"] and router.most > 1:
            raise ValueError(f"gather: place takes at most one path a cell, the router gives up to {router.most}")
        return self.node("gather", [*values, residual], name, router=router.number, mode=mode)

    def route_price(self, router):
        if self._router(router).protocol != PROTOCOLS["budget"]:
            raise ValueError("route_price: the router's protocol is not budget")
        return self.node("route_price", router=router.number)

    def look_ahead(self, score, router):
        """score: what the router of that name, which is yet to come, will probably see."""
        if not router:
            raise ValueError("look_ahead: the name of a router is needed")
        self.node("look_ahead", [score], router)

    def route_score(self, router):
        return self.node("route_score", [self._router(router).score], router=router.number)

    def write(self, path):
        """Writes beside `path` and renames: what is at `path` is whole."""
        write(self, path)

    def open(self):
        """The model, ready to run, without a file: needs what `pip install ./python` builds."""
        from .running import build
        return build(self)
