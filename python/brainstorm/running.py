"""Running models: Model (a file), Plan (what a run does, and its bytes), Session (what runs).

    model = brainstorm.open("experts.gguf")
    model.run({"x": x})                            # one run: {"y": array}
    session = model.plan(threads=4).session()      # many
    session.run({"x": x})

Relies on: numpy, arrays.py, nodes.py, and the extension module _native, which `pip install ./python` builds; it is
loaded when it is first asked for. Must never run with an array that the library could not hold to: arrays.py decides
what is used in place and what is copied.
"""

import importlib
from builtins import open as io_open
import os
import tempfile
import threading
from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

from . import arrays, nodes
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
    dropped: int        # choices beyond the capacity

    def cells_of(self, path: int) -> np.ndarray:
        """The numbers of the cells whose first path this is."""
        return np.flatnonzero(self.chosen == path)


def _ports(graph):
    """(inputs, outputs) of a native graph, in the order of its nodes."""
    ports: Tuple[Dict[str, Port], Dict[str, Port]] = ({}, {})
    for line in graph.lines():
        node = nodes.parse(line)
        facts = graph.port(node.name) if node.op in ("input", "output") else None
        if facts:
            output, dtype, shape = facts
            ports[output][node.name] = Port(node.name, dtype, tuple(shape))
    return ports


class Model:
    """An open model file: brainstorm.open. It stays open as long as plans and sessions of it are there."""

    def __init__(self, opened, source: str):
        self._native, self.source = opened, source
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
    def nodes(self) -> List[nodes.Node]:
        """Every node, as `brainstorm inspect` shows it: what `peek` can ask for."""
        return [nodes.parse(line) for line in self._graph.lines()]

    def check(self) -> None:
        """Reads every record and compares its checksum: brainstorm.Error says which is damaged."""
        self._native.check()

    def _peeked(self, peek: Peeks, extents, more):
        """[(name of the output, value, way)]. Which way makes a root value of it is tried: the library knows."""
        wanted = peek.items() if isinstance(peek, Mapping) else [(str(p), p) for p in peek]
        known, found = self.nodes if wanted else [], []
        for name, what in wanted:
            value, cells = nodes.value_of(known, what)
            failed = None
            for way in ("assemble", "collect", "value") if cells else ("value",):
                try:
                    native().Graph(self._native, extents, [(name, value, way)], **more)
                except Error as error:
                    failed = failed or error
                    continue
                found.append((name, value, way))
                break
            else:
                where = f" of {cells}: what is inside a path or a loop is no value of a whole run" if cells else ""
                raise Error(f"peek {what!r}: value {value}{where} ({failed})", failed.status)
        return found

    def plan(self, *, threads: int = 1, extents: Optional[Extents] = None, peek: Peeks = (), tier: str = "auto",
             order: str = "auto", conv: str = "auto", slots: int = 0, lanes: int = 0, chunk_bytes: int = 0,
             patch_size: int = 0, force: Optional[Mapping[str, int]] = None, code_bits: int = 0,
             floor: int = 0) -> "Plan":
        """What a run does, made ahead; zero is the default everywhere (bs_plan_desc).

        extents: {input: its largest shape}, None in it for the model's own maximum: less than the model's maxima is
        less memory. peek: values that are given as further outputs, by number or name of node ({output: which} names
        them). tier: what computes ("auto", or one of brainstorm.tiers()). order: "auto", "breadth", "depth". conv:
        "auto", "direct", "winograd", "reference". slots: bytes for weights that come and go; 0: all stay. lanes,
        chunk_bytes: of reading them. force: {router: path} decides ahead. code_bits, floor: bs_model_build_desc."""
        sizes = [(name, [int(n or 0) for n in shape]) for name, shape in (extents or {}).items()]
        more = {"code_bits": code_bits, "floor": floor}
        looks = self._peeked(peek, sizes, more)
        graph = self._graph if not (sizes or looks or code_bits or floor) else native().Graph(
            self._native, sizes, looks, **more)
        made = native().Plan(graph, threads, tier, order, conv, patch_size, list((force or {}).items()), slots, lanes,
                             chunk_bytes)
        return Plan(self, graph, made)

    def run(self, inputs: Arrays, *, threads: int = 1) -> Dict[str, np.ndarray]:
        """One run from states of zero, planned for the extents of these inputs. The session is kept for further calls
        with the same extents; for more than that, make a plan."""
        given = {name: np.asarray(value) for name, value in inputs.items()}
        key = (threads, tuple(sorted((name, array.shape) for name, array in given.items())))
        with self._lock:
            if self._kept[0] != key:
                plan = self.plan(threads=threads, extents={name: array.shape for name, array in given.items()})
                self._kept = (key, plan.session())
            session = self._kept[1]
            session.reset()
            return session.run(inputs)


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
                weights_of: Optional["Session"] = None) -> "Session":
        """Takes memory, loads the weights, starts threads. policy, guess, check: of streaming (bs_stream_desc).
        profile: a file that every event is written to. weights_of: a session of this plan whose weights are used."""
        path = os.fspath(profile) if profile is not None else ""
        opened = native().Session(self._native, policy, guess, check, path, profile_events,
                                  weights_of._native if weights_of else None)
        return Session(self, opened)


class Session:
    """A running network. One thread at a time runs it: another one waits. `with` closes it."""

    def __init__(self, plan: Plan, opened):
        self.plan, self._native = plan, opened
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
            port = self.plan.inputs.get(name)
            if port is None:
                known = ", ".join(self.plan.inputs)
                raise Error(f'there is no input "{name}", expected of: {known}')
            self._native.bind(name, arrays.as_input(name, value, port.numpy_dtype))
            self._bound.pop(name, None)
        missing = self._lent - set(inputs)
        self._lent |= set(inputs)
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
        port = self.plan.outputs.get(name)
        with self._lock:
            return tuple(self._native.made_extents(name)[:len(port.shape) if port else 0])

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
            return arrays.narrowed(f'router "{router}"', np.asarray(paths), np.dtype(np.int32)).tobytes()

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
        """Ends its threads, gives its memory back and completes its profile; tells how many events that lost."""
        with self._lock:
            return self._native.close()


def open(path: Union[str, os.PathLike]) -> Model:
    """Opens a model file, which is checked; its graph is built."""
    path = os.fspath(path)
    return Model(native().Model.open_file(path), path)


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
