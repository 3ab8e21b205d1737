"""The nodes of a graph, for people and for looking into it: read from the lines that bs_graph_describe writes.

Relies on: nothing; the lines are those of ops/describe.c. Must never be needed for a run: what is read here finds a
value by its name, and the library checks whatever is asked of it then.
"""

import re
from dataclasses import dataclass
from typing import Tuple

from .error import Error

LINE = re.compile(r"\s*(\d+)  (\S+)\s+(.*?)\s*((?:\d+,)*\d+)?\s*->(.*)", re.DOTALL)
VALUE = re.compile(r",? (\d+) (\w+) (\[[^\]]*\])")


@dataclass(frozen=True)
class Node:
    """One node. outputs: (number, type, shape) of each value that it gives; a shape has symbols and their maxima.
    cells: the rows that it works on, "" for none."""

    number: int
    op: str
    name: str
    inputs: Tuple[int, ...]
    outputs: Tuple[Tuple[int, str, str], ...]
    cells: str
    line: str


def parse(line):
    found = LINE.fullmatch(line)
    if not found:
        raise Error(f"a node is described in another way: {line!r}", "BS_ERROR_VERSION")
    number, op, name, inputs, after = found.groups()
    outputs, at = [], 0
    for value in iter(lambda: VALUE.match(after, at), None):
        outputs.append((int(value[1]), value[2], value[3]))
        at = value.end()
    cells = after[at:].split("  {")[0].strip()
    return Node(int(number), op, name, tuple(int(n) for n in (inputs or "").split(",") if n), tuple(outputs), cells,
                line.strip())


def value_of(nodes, wanted):
    """(number, cells) of a value, by its number or by the name of the node that gives it."""
    if isinstance(wanted, str):
        found = [n for n in nodes if n.name == wanted and n.outputs]
        if len(found) != 1:
            which = ", ".join(f"{n.op} {n.outputs[0][0]}" for n in found[:8])
            raise Error(f'peek "{wanted}": ' + (f"{len(found)} nodes have that name, take a number: {which}" if found else
                                               "no node that gives a value has that name"))
        return found[0].outputs[0][0], found[0].cells
    for node in nodes:
        if wanted in (value for value, _, _ in node.outputs):
            return int(wanted), node.cells
    raise Error(f"peek {wanted!r}: the graph has no value of that number")
