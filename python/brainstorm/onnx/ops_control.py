"""ONNX If, Loop and Scan: a router with two paths, and loops of the library.

What a subgraph reads of the graphs around it is scattered to its path when it is first asked for; constants stay values
of the root, which ops capture. Shapes are fixed: both branches give the same, and what a loop carries keeps its own.
"""

import math

import numpy as np
import onnx

from .ops_found import non_zero_of
from .refused import Refused
from .table import op
from .tensors import Tensor, axis_of, fitted, squeezed, within

MAX_TRIPS = 2**24


class Inner(dict):
    """Values inside a path or a loop's body: its own, and those around it, scattered."""

    def __init__(self, outer, scatter):
        super().__init__()
        self.outer, self.scatter = outer, scatter

    def __contains__(self, name):
        return dict.__contains__(self, name) or name in self.outer

    def __missing__(self, name):
        x = self.outer[name]
        if x is not None and not x.constant:
            x = self.scatter(x)
        self[name] = x
        return x

    def get(self, name, default=None):
        return self[name] if name in self else default


class Body:
    """While it stands, the walk is inside a subgraph. leader: a tensor of the rows that are there."""

    def __init__(self, n, graph, scatter, leader):
        self.n, self.graph, self.leader = n, graph, leader
        self.values = Inner(n.walk.values, scatter)

    def __enter__(self):
        walk = self.n.walk
        self.kept = walk.values, self.n.m.leader, self.n.m.domains, len(walk.troubles)
        walk.values, self.n.m.leader, self.n.m.domains = self.values, self.leader, {}
        for tensor in self.graph.initializer:
            self.values[tensor.name] = walk.initializer(tensor)
        return self

    def __exit__(self, *_):
        walk = self.n.walk
        walk.values, self.n.m.leader, self.n.m.domains, _ = self.kept

    def run(self):
        """The outputs of the subgraph."""
        walk = self.n.walk
        walk.body(self.graph, f"{self.n.op} {self.n.stem!r}, node")
        if len(walk.troubles) > self.kept[3]:
            raise Refused("what stands in it is not taken")
        missing = [v.name for v in self.graph.output if v.name not in self.values]
        if missing:
            raise Refused(f"its output {missing[0]!r} is given by no node")
        return [self.values[v.name] for v in self.graph.output]


def subgraph(n, name):
    graph = n.attr(name)
    if graph is None:
        raise Refused(f"it has no {name}")
    return graph


def scattered(n, router, path, like=None):
    """like: the one row of the root that the router decides on, which all values must be rows of."""
    def scatter(x):
        value, held = n.m.root(x)
        if like is not None:
            held = small(x.shape)
            value = n.m.g.rows(n.m.held(x, (1, *held)), like)
        return Tensor(x.shape, x.dtype, forms={(False, held): n.m.g.scatter(router, path, value)}, wraps=x.wraps)
    return scatter


def led(m, value):
    """A value of the body, where a constant is what it gives."""
    return m.led([value, next(iter(m.leader.forms.values()))])[0]


@op("If")
def if_else(n):
    m, g, condition = n.m, n.m.g, n[0]
    branches = [subgraph(n, "then_branch"), subgraph(n, "else_branch")]
    if condition.size != 1:
        raise Refused(f"a condition of shape {list(condition.shape)}")
    if condition.constant:
        return inlined(n, branches[0 if np.ravel(condition.array)[0] else 1])
    if n.walk.batch:
        raise Refused("a condition that one row of a free batch has: of several, ONNX has one for all")
    # Routers decide on cells: at the root there is one, a row.
    root = m.leader is None
    label = m.held(m.unary("not", condition), (1, 1) if root else (1,))
    label = g.rows(label) if root else label
    router = g.route(label, m.names.fresh(n.stem), "label", 2)
    results = []
    for path, graph in enumerate(branches):
        leader = Tensor((1,), np.int32, forms={(False, (1,)): g.scatter(router, path, label)})
        with Body(n, graph, scattered(n, router, path, label if root else None), leader) as body, \
                g.block(m.names.fresh(f"{n.stem}.{'else' if path else 'then'}")[-57:]):
            outputs = body.run()
            results.append([(x, led(m, m.held(x, small(x.shape)))) for x in outputs])
    made = []
    for (x, v), (y, w) in zip(*results, strict=True):
        if x.shape != y.shape or x.dtype != y.dtype:
            raise Refused(f"branches that give {x.dtype} {list(x.shape)} and {y.dtype} {list(y.shape)}")
        value, held = g.gather(router, [v, w]), small(x.shape)
        value, held = (g.collect(value), (1, *held)) if root else (value, held)
        made.append(m.made(value, held, x.shape, x.dtype, x.wraps or y.wraps))
    return made


def inlined(n, graph):
    """The branch that is always taken, in its place."""
    same = lambda x: x
    body = Body(n, graph, same, n.m.leader)
    with body:
        return body.run()


# ------------------------------------------------------------------------------------------------- loops

def small(shape):
    """A held shape to which a dimension can be added."""
    shape = fitted(shape)
    if len(shape) == 4:
        shape = squeezed(shape)
    return shape if len(shape) < 4 else (math.prod(shape[:2]), *shape[2:])


class Looping:
    """A loop that is being built: what it carries, the body, what it gives."""

    def __init__(self, n, graph, trips, **fields):
        self.n, self.m, self.g, self.graph, self.trips = n, n.m, n.m.g, graph, trips
        self.loop = self.g.loop(name=self.m.names.fresh(n.stem), **fields)
        self.carried = []

    def carry(self, x):
        held = small(x.shape)
        value = self.g.loop_carry(self.loop, self.m.held(x, held))
        self.carried.append((x, held, value))
        return Tensor(x.shape, x.dtype, forms={(False, held): value})

    def trip(self):
        return within(Tensor((), np.int64, forms={(False, (1,)): self.g.loop_trip(self.loop)}), 0, self.trips - 1)

    def body(self, leader):
        return Body(self.n, self.graph, scattered(self.n, self.loop, 0), leader)

    def next(self, outputs):
        """The carried values after the loop."""
        last = []
        for (x, held, value), y in zip(self.carried, outputs, strict=True):
            if y.shape != x.shape or y.dtype != x.dtype:
                raise Refused(f"it carries {x.dtype} {list(x.shape)}, and then {y.dtype} {list(y.shape)}")
            after = self.g.loop_next(self.loop, value, led(self.m, self.m.held(y, held)))
            last.append(self.m.made(after, held, x.shape, x.dtype, y.wraps))
        return last

    def collect(self, y):
        held = small(y.shape)
        value = self.g.loop_collect(self.loop, led(self.m, self.m.held(y, held)))
        return self.m.made(value, (self.trips, *held), (self.trips, *y.shape), y.dtype, y.wraps)


def trips_of(n):
    """(trips at most, the number of trips, a Tensor, or None: as many as its condition lets it make)."""
    given, most = n.get(0), n.walk.most_of(n)
    endless = given is not None and given.constant and int(np.ravel(given.array)[0]) > MAX_TRIPS
    if given is not None and given.constant and given.by_size is None and not endless:
        trips = int(np.ravel(given.array)[0])
        return trips, n.m.scalar(trips, np.int32)
    given = None if endless else given  # a number that stands for no limit
    if most is None:
        what = "any number of trips" if given is None else "trips that are computed in a run"
        raise Refused(f"a loop of {what}: --most says how many there can be")
    if most > MAX_TRIPS:
        raise Refused(f"a loop of {most} trips, expected 1 .. {MAX_TRIPS}")
    return most, None if given is None else n.m.reshape(n.m.typed(n.m.exact(given), np.int32), ())


@op("Loop")
def loop_op(n):
    m, g, graph = n.m, n.m.g, subgraph(n, "body")
    bound, count = trips_of(n)
    first, initial = n.get(1), [n.get(i) for i in range(2, len(n.inputs))]
    if bound < 1:
        return nothing(n, graph, initial)
    if n.walk.batch and not (count is not None and count.constant and (first is None or first.constant)):
        raise Refused("a loop whose trips one row of a free batch says: of several, ONNX has one number for all")
    if first is not None and first.constant and not np.ravel(first.array)[0]:
        return nothing(n, graph, initial)
    if (first is None or first.constant) and known(n, graph, graph.output[0].name) is False:
        return once(n, graph, initial)
    limit = m.scalar(bound, np.int32) if count is None else count
    if first is not None and not first.constant:
        limit = m.where(m.reshape(first, ()), limit, m.scalar(0, np.int32))
    fixed = limit.constant
    limit = m.held(limit, (1,))
    limit = limit if m.leader is None else led(m, limit)
    looping = Looping(n, graph, bound, like=limit, count=limit, bound=bound)
    inside = [looping.trip(), m.scalar(True, bool), *map(looping.carry, initial)]
    with looping.body(inside[0]) as body:
        for value, x in zip(graph.input, inside, strict=True):
            body.values[value.name] = x
        again, *outputs = body.run()
        ends = not again.constant
        if ends and n.walk.batch:
            raise Refused("a loop that one row of a free batch ends: ONNX ends it for all")
        if again.constant and not np.ravel(again.array)[0]:
            raise Refused("a loop that always ends after one trip")
        made = looping.next(outputs[:len(initial)])
        collected = [looping.collect(y) for y in outputs[len(initial):]]
        trips = g.loop_trips(looping.loop) if collected and (ends or not fixed) else None
        if count is None:
            again = within_bound(m, again, inside[0], bound)
        g.loop_end(looping.loop, m.held(again, (1,)) if ends or count is None else None)
    return made + (collected if trips is None else [made_in_run(n, y, trips) for y in collected])


def within_bound(m, again, trip, bound):
    """A condition that nothing else limits: of one that would go on beyond the bound NaN, which ends the run."""
    last = m.pair("equal", m.typed(trip, np.int32), m.scalar(bound - 1, np.int32))
    beyond = m.where(m.reshape(last, (1,)), m.array([np.nan]), m.array([1.0]))
    return m.where(m.reshape(again, (1,)), beyond, m.array([0.0]))


def made_in_run(n, collected, trips):
    """What the trips gave that a run made, of room for all there can be."""
    m, bound = n.m, collected.shape[0]
    here = m.pair("less", m.array(np.arange(bound), np.int32), m.made(trips, (1,), dtype=np.int32))
    rows = non_zero_of(n, here)
    return m.select(collected, m.typed(m.reshape(rows, (rows.size,)), np.int32), 0)


def known(n, graph, name):
    """What a condition of a loop's body is in every trip; None: that is not known."""
    made = {node.output[0]: node for node in graph.node if len(node.output) == 1}
    if name == graph.input[1].name:
        return True  # else there is no trip
    node = made.get(name)
    if node is not None and node.op_type in ("Identity", "Not"):
        value = known(n, graph, node.input[0])
        return value if value is None or node.op_type == "Identity" else not value
    array = next((onnx.numpy_helper.to_array(t) for t in graph.initializer if t.name == name), None)
    if node is not None and node.op_type == "Constant" and node.attribute[0].name == "value":
        array = onnx.numpy_helper.to_array(node.attribute[0].t)
    outer = n.walk.values.get(name) if node is None and array is None else None
    array = outer.array if outer is not None and outer.constant else array
    return None if array is None or array.size != 1 else bool(np.ravel(array)[0])


def once(n, graph, initial):
    """A loop that always ends after one trip: its body, in its place."""
    m = n.m
    with Body(n, graph, lambda x: x, m.leader) as body:
        for value, x in zip(graph.input, [m.scalar(0, np.int64), m.scalar(True, bool), *initial], strict=True):
            body.values[value.name] = x
        _, *outputs = body.run()
    collected = outputs[len(initial):]
    return outputs[:len(initial)] + [m.reshape(y, (1, *y.shape)) for y in collected]


def nothing(n, graph, initial):
    """A loop that makes no trip."""
    if len(graph.output) - 1 > len(initial):
        raise Refused("it collects values, and makes no trip")
    return initial


@op("Scan")
def scan(n):
    m, g, graph = n.m, n.m.g, subgraph(n, "body")
    if n.version < 9:
        raise Refused("Scan of a batch")
    count = n.attr("num_scan_inputs")
    states, given = n.inputs[:len(n.inputs) - count], n.inputs[len(n.inputs) - count:]
    axes = n.attr("scan_input_axes", [0] * count)
    backwards = n.attr("scan_input_directions", [0] * count)
    over = [moved(m, x, axis, 0, back) for x, axis, back in zip(given, axes, backwards)]
    trips = over[0].shape[0]
    values = [m.held(x, (trips, *small(x.shape[1:]))) for x in over]
    looping = Looping(n, graph, trips, like=values[0], over=values[0])
    inside = [looping.carry(x) for x in states]
    inside += [Tensor(x.shape[1:], x.dtype, forms={(False, small(x.shape[1:])): g.loop_slice(looping.loop, v)})
               for x, v in zip(over, values)]
    with looping.body(inside[-1]) as body:
        for value, x in zip(graph.input, inside, strict=True):
            body.values[value.name] = x
        outputs = body.run()
        made = looping.next(outputs[:len(states)])
        collected = [looping.collect(y) for y in outputs[len(states):]]
        g.loop_end(looping.loop)
    axes = n.attr("scan_output_axes", [0] * len(collected))
    backwards = n.attr("scan_output_directions", [0] * len(collected))
    return made + [moved(m, y, 0, axis, back) for y, axis, back in zip(collected, axes, backwards)]


def moved(m, x, at, to, back):
    """x with an axis elsewhere, turned round or not."""
    at, to = axis_of(at, x.rank), axis_of(to, x.rank)
    order = [i for i in range(x.rank) if i != at]
    order.insert(to, at)
    x = m.reversed(x, at) if back else x
    return m.transpose(x, order) if order != list(range(x.rank)) else x


