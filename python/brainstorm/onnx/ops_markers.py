"""Markers: what decides, with its paths as blocks of their own (paths.py has put them inside).

Rows are axis 0. Outside a marker they become cells, and a root value again behind it; within one, and with a free
batch, all values are cells already. Must never: leave in the graph's tables what a path has made of a value from
outside.
"""

import contextlib
import math

import onnx

from .paths import DOMAIN, flows_of, number_of, scope_of
from .refused import Refused
from .table import op
from .tensors import Tensor

MOST_PATHS = 32767
MOST_ROWS = 2**31 - 1  # of a capacity


class Rows:
    """The rows of a marker's x as cells, and what they are: alone, of a batch, or of a marker around this one."""

    def __init__(self, node):
        self.walk, self.m, x = node.walk, node.m, node[0]
        if not 1 <= x.rank <= 4:
            raise Refused(f"rows of a tensor of rank {x.rank}, expected 1 .. 4")
        if self.walk.patches or self.walk.frame:
            raise Refused("rows that decide, and a frame that is free or cut into patches")
        self.count, self.inside = x.shape[0], self.walk.cells is not None
        if self.inside and self.count != 1:
            raise Refused(f"{self.count} rows in a path, expected one")
        self.x = self.cells = None
        self.x = self.of(x)

    def of(self, x):
        """A tensor of these rows as cells."""
        if x.rank == 0 or x.shape[0] != self.count:
            raise Refused(f"a tensor of shape {list(x.shape)} beside {self.count} rows")
        held = tuple(x.shape[1:]) or (1,)
        if self.inside:
            return self.m.held(x, held)
        whole = self.m.held(x, (self.count, *held))
        made = self.m.g.rows(whole) if self.cells is None else self.m.g.rows(whole, self.cells)
        self.cells = self.cells or made
        return made

    def back(self, value, shape, dtype):
        """Cells as the marker's result."""
        held = tuple(shape[1:]) or (1,)
        if self.inside:
            return Tensor(shape, dtype, forms={(False, held): value})
        whole = (self.count, *held)
        if len(held) == 2:  # of rank 3 the library would store an image, channels last, which no product reads fast
            lines = self.m.g.collect(self.m.g.reshape(value, (held[0] * held[1],)))
            value = self.m.g.reshape(lines, whole)
        else:
            value = self.m.g.collect(value)
        return Tensor((self.count, *shape[1:]), dtype, forms={(False, whole): value})


@contextlib.contextmanager
def scoped(walk, values, leader, cells):
    """The walk inside a path: names stand for these tensors, and nothing that is made there is left behind."""
    kept = walk.values, walk.readers, walk.cells, walk.m.leader, walk.m.domains, walk.m.roots
    walk.values, walk.readers, walk.cells = values, {}, cells
    walk.m.leader, walk.m.domains, walk.m.roots = leader, {}, set(walk.m.roots)
    try:
        yield
    finally:
        walk.values, walk.readers, walk.cells, walk.m.leader, walk.m.domains, walk.m.roots = kept


def body(node, graph, path, x_cells, show):
    """What path `path`, a graph, makes of its rows: its outputs by name. show(tensor): a value from outside as the path
    sees it."""
    walk, x = node.walk, node[0]
    leader = Tensor((1, *x.shape[1:]), x.dtype, forms={(False, tuple(x.shape[1:]) or (1,)): x_cells})
    values = {"": None}
    for name in walk.values:
        values.setdefault(name, None)  # a name that nobody reads here
    for name, tensor in zip(node.proto.input, node.inputs):
        values[name] = leader if name == node.proto.input[0] else show(tensor)
    troubles = len(walk.troubles)
    with scoped(walk, values, leader, x_cells):
        walk.note_readers(graph)
        walk.alive.append(walk.readers)
        walk.body(graph, f"path {path} of {scope_of(node.proto)}, node")
        made = {output.name: values.get(output.name) for output in graph.output}
    if len(walk.troubles) > troubles or None in made.values():
        raise Refused(f"path {path} is not taken: see there")
    return made


def outside(tensor):
    """A constant with forms of its own: what a path makes of it belongs to the path's block."""
    return Tensor(tensor.shape, tensor.dtype, tensor.array)


def graph_of(node, path):
    return node.attributes[f"path_{path}"].g


def branch(node, rows, router, path, name):
    """(value in the path's rows, tensor): built in a block of its own; nothing where the path does nothing."""
    graph = graph_of(node, path)
    return built(node, rows, router, path, name, graph, True)[graph.output[0].name]


def built(node, rows, router, path, name, graph, constants):
    """The same of all outputs of the path, a graph, by name. constants: they are values, too; else None."""
    g, shown = node.m.g, {}

    def show(tensor):
        if tensor.constant:
            return outside(tensor)
        if id(tensor) not in shown:
            held = tuple(tensor.shape[1:]) or (1,)
            if rows.inside or (tensor.rank and tensor.shape[0] == rows.count):
                value = g.scatter(router, path, rows.of(tensor))
                shown[id(tensor)] = Tensor((1, *tensor.shape[1:]), tensor.dtype, forms={(False, held): value})
            else:
                shown[id(tensor)] = Tensor(tensor.shape, tensor.dtype, forms=dict(tensor.forms))
                node.m.roots.update(tensor.forms.values())
        return shown[id(tensor)]

    for tensor in node.inputs[1:]:  # rows of what is outside, before the block begins
        if not tensor.constant and (rows.inside or (tensor.rank and tensor.shape[0] == rows.count)):
            rows.of(tensor)
    with g.block(f"{name}.path{path}"):
        made = body(node, graph, path, g.scatter(router, path, rows.x), show)
        return {key: (None if t.constant and not constants else row_of(node, path, t), t) for key, t in made.items()}


def row_of(node, path, tensor):
    """The value of what a path gives."""
    if tensor.shape[:1] != (1,):
        raise Refused(f"path {path} gives a tensor of shape {list(tensor.shape)}, expected rows along axis 0")
    return node.m.held(tensor, tuple(tensor.shape[1:]) or (1,))


def name_of(node):
    """Of the marker: that of its module, as our names of blocks and routers can be; each once."""
    stem = node.m.names.plain(scope_of(node.proto))[-40:]
    return node.m.names.fresh(stem)


def scores_of(node, rows, width, at=1):
    scores = node[at]
    if scores.constant or not scores.floats or math.prod(scores.shape[1:]) != width:
        raise Refused(f"scores of shape {list(scores.shape)}, expected {width} f32 for each row")
    return rows.of(node.m.reshape(scores, (scores.shape[0], width)))


def paths_of(node):
    return sum(name.startswith("path_") for name in node.attributes)


@op("Routed", domain=DOMAIN)
def routed(node):
    rows, g, paths = Rows(node), node.m.g, paths_of(node)
    k, normalise, weighted, capacity = (node.attr(a, d) for a, d in (("k", 1), ("normalise", 0), ("weighted", 1),
                                                                     ("capacity", 0)))
    if not all(isinstance(n, int) for n in (k, normalise, weighted, capacity)) or \
            not 1 <= k <= paths <= MOST_PATHS or (k > 1 and not weighted):
        raise Refused(f"{k} of {paths} paths, weighted {weighted}")
    if not 0 <= capacity <= MOST_ROWS or (capacity and (rows.inside or node.walk.cells is not None)):
        raise Refused(f"a capacity of {capacity} rows, expected 0 .. {MOST_ROWS}, not in a path or a free batch")
    name, scores = name_of(node), scores_of(node, rows, paths)
    router = g.route(scores, name, "capacity" if capacity else "topk", paths, k=k, normalise=int(bool(normalise)),
                     capacity=capacity)
    values, made = branches(node, rows, router, name)
    y = g.gather(router, values, mode="weighted" if weighted else "place")
    return rows.back(y, made.shape, made.dtype)


def branches(node, rows, router, name):
    """All paths: their values, and a tensor of what each gives."""
    values, made = zip(*(branch(node, rows, router, path, name) for path in range(paths_of(node))))
    if any(m.shape != made[0].shape or m.dtype != made[0].dtype for m in made):
        raise Refused("paths give " + ", ".join(str(list(m.shape)) for m in made))
    return list(values), made[0]


@op("Gated", domain=DOMAIN)
def gated(node):
    rows, g, paths, more = Rows(node), node.m.g, paths_of(node), number_of(node.proto, "otherwise", 0)
    threshold, weighted, fallback = (node.attr(a, d) for a, d in (("threshold", 0.0), ("weighted", 1), ("fallback", 0)))
    if not isinstance(threshold, float) or not abs(threshold) < 1e30:
        raise Refused(f"threshold {threshold}")
    if not all(isinstance(n, int) for n in (weighted, fallback)) or not 0 <= fallback <= paths <= MOST_PATHS or \
            more > 1 or more and (weighted or fallback or paths > 1):
        raise Refused(f"{paths} paths, weighted {weighted}, fallback {fallback}, otherwise {more}")
    name, scores = name_of(node), scores_of(node, rows, paths)
    otherwise = rows.of(node[2]) if more else None
    router = g.route(scores, name, "threshold", paths, threshold=threshold, fallback=fallback)
    values, made = branches(node, rows, router, name)
    if more and tuple(made.shape[1:]) != tuple(node[2].shape[1:]):
        raise Refused(f"rows of no path have {list(node[2].shape)}, others {list(made.shape)}")
    mode = "weighted" if weighted else "add" if paths > 1 else "place"
    return rows.back(g.gather(router, values, residual=otherwise, mode=mode), made.shape, made.dtype)


@op("Exit", domain=DOMAIN)
def leave(node):
    rows, g = Rows(node), node.m.g
    threshold = node.attr("threshold", 0.9)
    if not isinstance(threshold, float) or not abs(threshold) < 1e30:
        raise Refused(f"threshold {threshold}")
    flows = flows_of(node.proto)
    name, score = name_of(node), scores_of(node, rows, 1, flows)
    early = rows.of(node[flows + 1])
    router = g.route(score, name, "binary", 2, threshold=threshold)
    node.attributes["path_1"] = node.attributes["path_0"]  # rows that stay take path 1 of the router
    if following(graph_of(node, 1)) is not None:
        return left_later(node, rows, router, name, score, early)
    value, made = branch(node, rows, router, 1, name)
    if tuple(made.shape[1:]) != tuple(node[flows + 1].shape[1:]):
        raise Refused(f"rows leave with {list(node[flows + 1].shape)} and stay with {list(made.shape)}")
    return rows.back(g.gather(router, [None, value], residual=early), made.shape, made.dtype)


LEFT = 3e38  # the confidence of rows that have left before


def following(graph):
    """The Exit whose result a path gives; None: there is none."""
    exits = [n for n in graph.node if n.domain == DOMAIN and n.op_type == "Exit"]
    found = [n for n in exits if n.output[0] == graph.output[0].name]
    return found[0] if found else None


def left_later(node, rows, router, name, score, early):
    """Exits one behind the other decide beside each other, about all rows, and each part of the network between two of
    them is a path by itself: nested, the first one would be all that can be streamed. Rows that have left go on without
    a path, with what they left with."""
    walk, g, graph = node.walk, node.m.g, onnx.GraphProto()
    graph.CopyFrom(graph_of(node, 1))
    last = following(graph)
    flows = flows_of(last)
    kept, inner = [n for n in graph.node if n is not last], onnx.NodeProto()
    inner.CopyFrom(last)
    of_path = {n for other in kept for n in other.output}
    wanted = [n for n in dict.fromkeys(last.input) if n in of_path]
    part = onnx.helper.make_graph(kept, graph.name, [], [onnx.ValueInfoProto(name=n) for n in wanted])
    gone = {inner.input[flows]: g.affine(score, 0.0, LEFT), inner.input[flows + 1]: early}
    if not set(gone) <= of_path:
        raise Refused(f"{inner.op_type} {inner.name!r} decides by what is known before it")
    for key, (value, made) in built(node, rows, router, 1, name, part, False).items():
        if value is not None:
            made = rows.back(g.gather(router, [None, value], residual=gone.get(key)), made.shape, made.dtype)
        walk.values[key] = made
    walk.alive.append(inner)
    walk.visit(inner, f"path 1 of {scope_of(node.proto)}, last node")
    if inner.output[0] not in walk.values:
        raise Refused("the exit behind it is not taken: see there")
    return walk.values[inner.output[0]]


@op("Patches", domain=DOMAIN)
def patches(node):
    x, m, size = node[0], node.m, node.attr("size", 64)
    if x.rank != 4 or x.shape[0] != 1 or node.walk.cells is not None:
        raise Refused(f"patches of {list(x.shape)}, expected one image [1, C, H, W], not in a path or a batch")
    inner = {n.op_type for n in node.attributes["path_0"].g.node if n.domain == DOMAIN}
    if inner:
        raise Refused(f"{', '.join(sorted(inner))} in Patches: what decides for a frame in PyTorch would decide for "
                      "tiles")
    cells, first = m.g.patches(m.held(x, x.shape[1:]), size), len(m.g.nodes)

    def show(tensor):
        if not tensor.constant:
            node.m.roots.update(tensor.forms.values())
        return outside(tensor) if tensor.constant else Tensor(tensor.shape, tensor.dtype, forms=dict(tensor.forms))

    graph, m.tiles = graph_of(node, 0), True
    try:
        made = body(node, graph, 0, cells, show)[graph.output[0].name]
    finally:
        m.tiles = False
    if any(n.op == "pool2d" and n.params[4:5] == [1] for n in m.g.nodes[first:]):  # the library means a tile's pixels
        raise Refused("a pool over the whole frame in Patches")
    if made.rank != 4 or made.shape[0] != 1:
        raise Refused(f"what is done in patches gives {list(made.shape)}, expected an image [1, C, H, W]")
    return m.made(m.g.assemble(m.held(made, made.shape[1:])), made.shape[1:], made.shape, made.dtype)
