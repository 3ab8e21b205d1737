"""Puts what lies between a marker's operand and the result of a path into a graph of its own.

Markers are nodes of domain "brainstorm" (../torch/markers.py makes them):

    Routed(x, scores, y_0, y_1, ...)    path p is what lies between x and y_p
    Gated(x, scores, y_0, y_1, ...)     the same; with an attribute `otherwise` what rows of no path have is before y_0
    Exit(x, confidence, y, rest)        the path of rows that stay is what lies between x and rest; with an attribute
                                        `flows` of n there are n values x, which belong together
    Patches(x, y)                       what lies between x and y runs in tiles

A node is of a path where it depends on x and only that path's result needs it. What several paths need is computed
before them, for all rows. Afterwards a marker has x, what decides, and what its paths read from outside as inputs, and
graphs path_0, path_1, ... as attributes. Must never: change what a model computes.
"""

import ast

import onnx

from .refused import Refused

DOMAIN = "brainstorm"
FIRST = {"Routed": 2, "Gated": 2, "Exit": 3, "Patches": 1}  # of a marker's inputs: the first result of a path
DEPTH = 64  # of markers in paths


def number_of(node, name, default):
    """An attribute that says how many inputs there are of a kind."""
    for attribute in node.attribute:
        if attribute.name == name:
            if attribute.type != onnx.AttributeProto.INT or not 0 <= attribute.i <= len(node.input):
                raise Refused(f"{node.op_type} {node.name!r}: {name} is no number of its inputs")
            return attribute.i
    return default


def flows_of(node):
    """How many values, from the first input on, rows of a marker are."""
    flows = number_of(node, "flows", 1) if node.op_type == "Exit" else 1
    if flows < 1:
        raise Refused(f"{node.op_type} {node.name!r}: no flows")
    return flows


def first_of(node):
    """Of a marker's inputs the first result of a path."""
    more = number_of(node, "otherwise", 0) if node.op_type == "Gated" else flows_of(node) - 1
    return FIRST[node.op_type] + more


def scope_of(node):
    """What the module is called, where torch says it."""
    for entry in node.metadata_props:
        if entry.key == "pkg.torch.onnx.name_scopes":
            try:
                scopes = ast.literal_eval(entry.value)
            except (ValueError, SyntaxError, MemoryError, RecursionError):
                continue
            if isinstance(scopes, list) and len(scopes) >= 2 and isinstance(scopes[-2], str) and scopes[-2]:
                return scopes[-2]
    return node.name or node.op_type


class _Links:
    """Of a list of nodes: who makes a value, and who reads it."""

    def __init__(self, nodes, outputs):
        self.nodes = nodes
        self.maker = {name: number for number, node in enumerate(nodes) for name in node.output if name}
        self.readers = {name: {-1} for name in outputs}
        for number, node in enumerate(nodes):
            for name in read_by(node):
                self.readers.setdefault(name, set()).add(number)

    def reached(self, names, forward):
        """Numbers of nodes that depend on values, or that they depend on."""
        found, left = set(), list(names)
        while left:
            name = left.pop()
            near = self.readers.get(name, ()) if forward else ({self.maker[name]} if name in self.maker else ())
            for number in near:
                if number >= 0 and number not in found:
                    found.add(number)
                    left += [n for n in (self.nodes[number].output if forward else read_by(self.nodes[number])) if n]
        return found

    def between(self, flows, y, marker):
        """Nodes that depend on flows and that y alone needs."""
        inside = self.reached(flows, True) & self.reached([y], False)
        inside.discard(marker)
        once = list(self.nodes[marker].input).count(y) == 1  # else two paths are one
        for n in sorted(inside, reverse=True):  # readers come later: a node that somebody outside reads is outside
            readers = [(name, reader) for name in self.nodes[n].output if name for reader in self.readers.get(name, ())]
            if any(r not in inside and not (once and name == y and r == marker) for name, r in readers):
                inside.remove(n)
        return sorted(inside)


def read_by(node):
    """Names that a node reads, in graphs that it holds as well."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
            made = {name for inner in graph.node for name in inner.output} | {v.name for v in graph.input}
            names += [name for inner in graph.node for name in read_by(inner) if name not in made]
    return names


def ordered(graph):
    """Refuses nodes that read what comes later or of themselves, and values that are made twice: what follows a value
    from node to node would never end."""
    later = [name for node in graph.node for name in node.output if name]
    if len(set(later)) != len(later):
        raise Refused(f"value {next(n for n in later if later.count(n) > 1)!r} is given by two nodes")
    later = set(later)
    for number, node in enumerate(graph.node):
        early = [name for name in read_by(node) if name in later]
        if early:
            raise Refused(f"{node.op_type} {node.name!r} (node {number}) reads {early[0]!r}, which no node before it "
                          "gives")
        later -= set(node.output)
        for attribute in node.attribute:
            for inner in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
                ordered(inner)


def _moved(links, marker, node):
    """The marker with its paths inside, and the numbers of the nodes that went there."""
    first = first_of(node)
    if len(node.input) <= first or not all(node.input) or len(node.output) != 1:
        raise Refused(f"{node.op_type} {node.name!r}: {len(node.input)} inputs and {len(node.output)} outputs")
    if any(a.name.startswith("path_") for a in node.attribute):
        raise Refused(f"{node.op_type} {node.name!r} has paths already")
    kept, moved, graphs, captured = list(node.input[:first]), [], [], []
    flows = kept[:flows_of(node)]
    for path, y in enumerate(node.input[first:]):
        inside = links.between(flows, y, marker)
        nodes = [links.nodes[n] for n in inside]
        made = {name for n in nodes for name in n.output}
        captured += [name for n in nodes for name in read_by(n) if name not in made]
        captured += [] if y in made else [y]
        graphs.append(onnx.helper.make_graph(nodes, f"path_{path}", [], [onnx.ValueInfoProto(name=y)]))
        moved += inside
    out = onnx.NodeProto()
    out.CopyFrom(node)
    del out.input[:]
    out.input.extend([*kept, *[name for name in dict.fromkeys(captured) if name not in kept]])
    out.attribute.extend(onnx.helper.make_attribute(f"path_{p}", g) for p, g in enumerate(graphs))
    return out, moved


def _gathered(graph, depth=0):
    if depth > DEPTH:
        raise Refused(f"more than {DEPTH} markers in each other")
    while True:  # from the last marker on: those that stand in its paths go there with them
        nodes = list(graph.node)
        plain = [n for n, node in enumerate(nodes) if node.domain == DOMAIN and node.op_type in FIRST
                 and not any(a.name.startswith("path_") for a in node.attribute)]
        if not plain:
            break
        links = _Links(nodes, [v.name for v in graph.output])
        marker, moved = _moved(links, plain[-1], nodes[plain[-1]])
        nodes[plain[-1]] = marker
        left = [node for n, node in enumerate(nodes) if n not in set(moved)]
        kept = [onnx.NodeProto() for _ in left]
        for copy, node in zip(kept, left):
            copy.CopyFrom(node)
        del graph.node[:]
        graph.node.extend(kept)
    for node in graph.node:
        if node.domain == DOMAIN:
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.GRAPH:
                    _gathered(attribute.g, depth + 1)


def gathered(model):
    """The model with the paths of its markers inside them; itself where it has none."""
    if not any(node.domain == DOMAIN for node in model.graph.node):
        return model
    odd = [node for node in model.graph.node if node.domain == DOMAIN and any(
        a.type == onnx.AttributeProto.GRAPH for a in node.attribute)]
    if odd:
        raise Refused(f"{odd[0].op_type} {odd[0].name!r} holds a graph")
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    _gathered(copy.graph)
    return copy
