"""Running models: Model (a file), Plan (what a run does, and its bytes), Session (what runs).

    model = brainstorm.open("experts.gguf")
    model.run({"x": x})                            # one run: {"y": array}
    session = model.plan(threads=4).session()      # many
    session.run({"x": x})

Relies on: numpy, arrays.py, and the extension module _native, which `pip install ./python` builds; it is
loaded when it is first asked for. Must never run with an array that the library could not hold to: arrays.py decides
what is used in place and what is copied.
"""

import contextlib
import importlib
import operator
from builtins import open as io_open
import os
import tempfile
import threading
import weakref
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import arrays, outputs
from .error import Error

Arrays = Mapping[str, Any]
Extents = Mapping[str, Sequence[Optional[int]]]
Peeks = Union[Iterable[Union[int, str]], Mapping[str, Union[int, str]]]


def native():
    """The extension module."""
    try:
        return importlib.import_module("brainstorm._native")
    except ImportError as missing:
        raise ImportError(
            f"brainstorm can write models here, but not run them: its extension module is not built ({missing}). "
            "In the repository: pip install ./python") from missing


@dataclass(frozen=True)
class Port:
    """An input or output. shape: its maxima; what varies from run to run is at most that."""

    name: str
    dtype: str
    shape: Tuple[int, ...]

    @property
    def numpy_dtype(self) -> np.dtype:
        return arrays.NUMPY[self.dtype]


@dataclass(frozen=True)
class Decision:
    """What a router decided in the last run: bs_decision."""

    counts: np.ndarray  # cells per path; of a loop those of all trips together
    chosen: np.ndarray  # of each cell the (first) path it took, -1: none or not reached
    ns: np.ndarray      # time in the tiles of each path, where the plan goes depth first; else 0
    dropped: int        # choices beyond the capacity, dropped or spilled

    def cells_of(self, path: int) -> np.ndarray:
        """The numbers of the cells whose first path this is."""
        return np.flatnonzero(self.chosen == path)


def _ports(graph):
    """(inputs, outputs) of a native graph, in the order of its nodes."""
    ports: Tuple[Dict[str, Port], Dict[str, Port]] = ({}, {})
    for name in graph.ports:
        output, dtype, shape = graph.port(name)
        ports[output][name] = Port(name, dtype, tuple(shape))
    return ports


def _port(ports, what, name):
    if name in ports:
        return ports[name]
    raise Error(f'there is no {what} "{name}", expected of: {", ".join(ports)}')


def _whole(what, value, least=-2**31, most=2**31 - 1):
    """A whole number that the library can be given."""
    try:
        number = operator.index(value)
    except TypeError:
        raise Error(f"{what} is {value!r}, expected a whole number") from None
    if not least <= number <= most:
        raise Error(f"{what} is {number}, expected {least} .. {most}", "BS_ERROR_LIMIT")
    return number


def _value_of(nodes, wanted):
    """The number of a value: itself, or of the (first) one that the node of that name gives."""
    if not isinstance(wanted, str):
        return _whole("a value's number", wanted)
    found = [node for node in nodes if node.name == wanted and node.values]
    if len(found) == 1:
        return found[0].values[0]
    which = ", ".join(f"{node.values[0]} ({node.op})" for node in found[:8])
    raise Error(f'peek "{wanted}": ' + (f"{len(found)} nodes have that name: take a number, {which}" if found else
                                       "no node that gives a value has that name"))


class Model:
    """An open model file: brainstorm.open. It stays open as long as plans and sessions of it are there."""

    def __init__(self, opened, source: str, path: Optional[str] = None):
        self._native, self.source, self._path = opened, source, path
        self.facts = opened.facts
        self.name: str = self.facts.name
        self.blocks: list = opened.blocks
        self._graph = native().Graph(opened, [], [])
        self.inputs, self.outputs = _ports(self._graph)
        self._kept: Tuple[Any, Optional["Session"]] = (None, None)
        self._lock = threading.Lock()

    def __repr__(self):
        return f"<Model {self.name or self.source!r}: {', '.join(self.inputs)} -> {', '.join(self.outputs)}>"

    @property
    def weights(self) -> Dict[str, Tuple[str, str, Tuple[int, ...]]]:
        """{name: (block, type, shape)}; brainstorm.read_weights reads them."""
        return {name: (self.blocks[block].name, dtype, tuple(shape))
                for name, block, dtype, shape in self._native.weights}

    @property
    def nodes(self) -> list:
        """Every node: number, op, name, values, what it costs, and the line that `brainstorm inspect` shows."""
        return self._graph.nodes

    @property
    def routers(self) -> Dict[str, int]:
        """{name: paths}, loops among them."""
        return self._graph.routers

    def check(self) -> None:
        """Reads every record and compares its checksum: brainstorm.Error says which is damaged."""
        self._native.check()

    def _peeked(self, peek: Peeks, extents, more):
        """[(name of the output, value, add)]. Whether rows of a path are put in place or added is tried: the library
        knows."""
        wanted = list(peek.items()) if isinstance(peek, Mapping) else [(str(what), what) for what in peek]
        known, found = self.nodes if wanted else [], []
        for name, what in wanted:
            value, refused = _value_of(known, what), None
            for add in (False, True):
                try:
                    native().Graph(self._native, extents, [(name, value, add)], self._graph, **more)
                    found.append((name, value, add))
                    break
                except Error as error:
                    refused = refused or error
            else:
                raise Error(f"peek {what!r}: {refused}", refused.status)
        return found

    def plan(self, *, threads: int = 1, extents: Optional[Extents] = None, peek: Peeks = (), tier: str = "auto",
             order: str = "auto", conv: str = "auto", slots: int = 0, lanes: int = 0, chunk_bytes: int = 0,
             patch_size: int = 0, force: Optional[Mapping[str, int]] = None, code_bits: int = 0,
             floor: int = 0, dataflow: bool = True, fusion: bool = True) -> "Plan":
        """What a run does, made ahead; zero is the default everywhere (bs_plan_desc).

        extents: {input: its largest shape}, None in it for the model's own maximum: less than the model's maxima is
        less memory. peek: values that are given as further outputs, by number or name of node ({output: which} names
        them); of rows that do not take the path that a value is on: zeros. tier: what computes ("auto", or one of
        brainstorm.tiers()). order: "auto", "breadth", "depth". conv: "auto", "direct", "winograd", "reference". slots:
        bytes for weights that come and go; 0: all stay. lanes, chunk_bytes: of reading them. force: {router: path}
        decides ahead. code_bits, floor: bs_model_build_desc. dataflow: False leaves all work where the model has it.
        fusion: False gives every op a kernel of its own."""
        most = 2**62
        sizes = [(name, [_whole(f'an extent of "{name}"', n or 0, -most, most) for n in shape])
                 for name, shape in (extents or {}).items()]
        more = {"code_bits": _whole("code_bits", code_bits), "floor": _whole("floor", floor)}
        forces = [(router, _whole(f'the path of "{router}"', path)) for router, path in (force or {}).items()]
        looks = self._peeked(peek, sizes, more)
        graph = self._graph if not (sizes or looks or code_bits or floor) else native().Graph(
            self._native, sizes, looks, self._graph, **more)
        made = native().Plan(graph, _whole("threads", threads), tier, order, conv, _whole("patch_size", patch_size),
                             forces, _whole("slots", slots, 0, 2**64 - 1), _whole("lanes", lanes),
                             _whole("chunk_bytes", chunk_bytes), bool(dataflow), bool(fusion))
        return Plan(self, graph, made)

    def run(self, inputs: Arrays, *, threads: int = 1) -> Dict[str, np.ndarray]:
        """One run from states of zero, planned for the extents of these inputs. The session is kept for further calls
        with the same extents; for more than that, make a plan."""
        given = {name: arrays.as_input(name, value, _port(self.inputs, "input", name).numpy_dtype)
                 for name, value in inputs.items()}
        key = (threads, tuple(sorted((name, array.shape) for name, array in given.items())))
        with self._lock:
            if self._kept[0] != key:
                plan = self.plan(threads=threads, extents={name: array.shape for name, array in given.items()})
                self._kept = (key, plan.session())
            session = self._kept[1]
            session.reset()
            return session.run(given)


class Plan:
    """One fixed sequence of instructions and the bytes that it needs: Model.plan."""

    def __init__(self, model: Model, graph, made):
        self.model, self._graph, self._native = model, graph, made
        self.inputs, self.outputs = _ports(graph)

    @property
    def bytes(self) -> Dict[str, int]:
        """The bytes of each arena of a session, and of what is made once: index, graph, plan."""
        return self._native.bytes

    @property
    def stream(self):
        """Of plans with slots: units, phases, slot_bytes, least_bytes, all_bytes."""
        return self._native.stream

    def report(self) -> str:
        """Arenas, blocks, instructions; and what the maxima cost."""
        return self._native.report()

    def session(self, *, policy: str = "reuse", guess: bool = True, check: bool = False,
                profile: Optional[Union[str, os.PathLike]] = None, profile_events: int = 65536,
                profile_ops: bool = False, weights_of: Optional["Session"] = None) -> "Session":
        """Takes memory, loads the weights, starts threads. policy, guess, check: of streaming (bs_stream_desc).
        profile: a file that events are written to, of ops as well with profile_ops: of short runs not of all, so that
        they take about 1 % of the time. weights_of: a session of this plan whose weights are used."""
        if profile is not None:
            outputs.check([self.model._path], [os.fsdecode(profile)])
        events = _whole("profile_events", profile_events, 0)
        with contextlib.ExitStack() as undone:
            beside = undone.enter_context(outputs.Beside(profile)) if profile is not None else None
            path = os.fsencode(beside.path) if beside else b""
            opened = native().Session(self._native, policy, guess, check, path, events, profile_ops,
                                      weights_of._native if weights_of else None)
            undone.pop_all()
        return Session(self, opened, beside)


def _complete(opened, beside) -> int:
    """Ends a session whose profile then takes its name; one that could not be written goes."""
    try:
        lost = opened.close()
    except Error as error:
        if error.status != "BS_ERROR_ARGUMENT":  # it is in use, and goes on
            beside.drop()
        raise
    beside.keep()
    return lost


class Session:
    """A running network. One thread at a time runs it: another one waits. `with` closes it."""

    def __init__(self, plan: Plan, opened, beside: Optional[outputs.Beside] = None):
        self.plan, self._native, self._beside = plan, opened, beside
        self._left = weakref.finalize(self, _complete, opened, beside) if beside else None  # by who never closes it
        self._lock = threading.RLock()
        self._bound: Dict[str, np.ndarray] = {}   # by the caller, until bound anew
        self._lent: set = set()                   # inputs of the run before
        self._routes: Dict[str, Callable] = {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def bind(self, name: str, array: np.ndarray) -> None:
        """Every run from now on reads or writes this array of input, output or state `name` where it is, strides and
        all. The type is the model's; nothing is copied. An array that is written lies apart from all others."""
        port = self.plan.inputs.get(name) or self.plan.outputs.get(name)
        with self._lock:
            self._native.bind(name, arrays.as_bound(name, array, port and port.numpy_dtype,
                                                    name not in self.plan.inputs))
            self._bound[name] = array
            self._lent.discard(name)

    def run(self, inputs: Optional[Arrays] = None) -> Dict[str, np.ndarray]:
        """Runs once; gives every output. inputs: {name: array} for this run; those that were bound need not be given.
        An array of another type is narrowed if no value changes. What is given is not copied where its strides allow,
        and must not be changed meanwhile. Outputs are new arrays, or those that were bound."""
        with self._lock:
            self._lend(inputs or {})
            given = {name: self._output(port) for name, port in self.plan.outputs.items()}
            self._native.run(self._routes)
            return {name: self._trimmed(name, array) for name, array in given.items()}

    def _lend(self, inputs):
        for name, value in inputs.items():
            port = _port(self.plan.inputs, "input", name)
            self._native.bind(name, arrays.as_input(name, value, port.numpy_dtype))
            self._bound.pop(name, None)
            self._lent.add(name)
        missing = self._lent - set(inputs)  # those of the run before are still bound
        if missing:
            raise Error(f'input "{min(missing)}" is not given', "BS_ERROR_UNBOUND")

    def _output(self, port):
        if port.name in self._bound:
            return self._bound[port.name]
        shape = self._native.needed_extents(port.name)[:len(port.shape)]
        array = np.empty(shape, port.numpy_dtype)
        self._native.bind(port.name, array)
        return array

    def _trimmed(self, name, array):
        """Without what lies beyond extents that come from data."""
        if name in self._bound:
            return array
        made = tuple(self._native.made_extents(name)[:array.ndim])
        return array if made == array.shape else array[tuple(slice(n) for n in made)].copy()

    def output_extents(self, name: str) -> Tuple[int, ...]:
        """The extents that an output had in the last run: of a bound array whose extents come from data."""
        rank = len(_port(self.plan.outputs, "output", name).shape)
        with self._lock:
            return tuple(self._native.made_extents(name)[:rank])

    def reset(self) -> None:
        """States are zero in the next run."""
        with self._lock:
            self._native.reset()

    @property
    def state_valid(self) -> bool:
        """Whether states hold what a run has written."""
        with self._lock:
            return self._native.state_valid

    def decision(self, router: str) -> Decision:
        """What a router decided in the last run."""
        with self._lock:
            counts, ns, chosen, _, dropped = self._native.decision(router)
        return Decision(np.frombuffer(counts, np.int32), np.frombuffer(chosen, np.int16), np.frombuffer(ns, np.uint64),
                        dropped)

    def set_route(self, router: str, function: Callable[[np.ndarray], Any]) -> None:
        """Of protocol "callback": function(scores [rows, paths]) gives the path of each row, -1: none. What it raises
        is what run() raises."""
        def decide(scores, dtype, rows, width):
            paths = function(np.frombuffer(scores, arrays.NUMPY[dtype]).reshape(rows, width))
            what = f'router "{router}"'
            return arrays.narrowed(what, arrays.as_array(what, paths), np.dtype(np.int32)).tobytes()

        with self._lock:
            self._native.set_route(router)
            self._routes[router] = decide

    @property
    def stats(self):
        """Runs so far, total_ns and routing_ns of the last one."""
        with self._lock:
            return self._native.stats

    @property
    def stream_stats(self):
        """Hits, misses, bytes read, time stood still: of sessions with slots."""
        with self._lock:
            return self._native.stream_stats

    def report(self) -> str:
        """The plan's report, and what the last run had and used."""
        with self._lock:
            return self._native.report()

    def close(self) -> int:
        """Ends its threads, gives its memory back and completes its profile, which then takes its name; tells how many
        events that lost."""
        with self._lock:
            if not self._left or not self._left.alive:
                return self._native.close()
            try:
                lost = _complete(self._native, self._beside)
            except Error as error:
                if error.status != "BS_ERROR_ARGUMENT":
                    self._left.detach()
                raise
            self._left.detach()
            return lost


def open(path: Union[str, os.PathLike]) -> Model:
    """Opens a model file, which is checked; its graph is built."""
    return Model(native().Model.open_file(os.fsencode(path)), os.fsdecode(path), os.fsdecode(path))


def open_bytes(data: bytes) -> Model:
    """Opens a model file that is in memory."""
    return Model(native().Model.open_memory(data), f"{len(data)} bytes")


def build(graph) -> Model:
    """A Graph, ready to run without a file of yours."""
    native()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.gguf")
        graph.write(path)
        with io_open(path, "rb") as file:
            return open_bytes(file.read())


def tiers() -> List[str]:
    """What can compute here, for Model.plan(tier=...)."""
    return native().tiers()
