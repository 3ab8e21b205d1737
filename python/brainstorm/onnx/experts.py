"""Loops over experts, as exporters write them out, become a router with a block an expert.

What choices.py knows of the values says which rows an expert computes. The expert is then computed of x itself, and a
marker Routed takes its result: the form in which networks with brainstorm.torch come (paths.py, ops_markers.py). Where
anything else reads an expert's rows the loop stays as it is. Must never: change what a model computes, for experts that
compute each row by itself; that they do is what comparing is for, without which such a file is not written.
"""


import numpy as np
import onnx

from . import choices
from .paths import DOMAIN, _Links, read_by

MOST = 4096  # experts of a loop that is written out
SPREAD = ("Expand", "Identity", "Cast", "Reshape")
WHO = ("coordinates", "place", "pair", "gates", "mask", "one-hot")


class Loop:
    """A result whose experts are all there."""

    def __init__(self, facts, links, name):
        self.facts, self.links, self.name, self.fact = facts, links, name, facts.known[name]
        self.nodes, self.choice = links.nodes, self.fact.choice
        self.experts = {expert: (value, weighted, form, factor)
                        for expert, value, weighted, form, factor in self.fact.done}

    def sound(self):
        n = len(self.fact.done)
        if set(self.experts) != set(range(n)) or n > MOST or len({e[1:] for e in self.experts.values()}) > 1:
            return False  # an expert that is missing or done twice, gates of several kinds
        if not self.experts[0][1] and self.choice.k > 1:
            return False
        if self.fact.form == "none" and not self.zero(self.fact.base):
            return False
        return self.sources() is not None and self.apart() and all(self.plain(e[0]) for e in self.experts.values())

    def sources(self):
        """{name of an expert's rows: what they are rows of}; None: an expert reads none."""
        self.rows = {name: fact.source for name, fact in self.facts.known.items()
                     if fact.kind == "rows" and fact.choice == self.choice}
        for expert, (value, *_) in self.experts.items():
            own = [name for name in self.rows if self.facts.known[name].expert == expert]
            makes = {self.links.maker[name] for name in own}
            if value not in own and not makes & self.links.reached([value], False):
                return None
        first = self.experts[0][0]
        before = self.links.reached([first], False)
        mine = [n for n in self.rows if n == first or self.links.maker[n] in before]
        self.x = self.rows[mine[0]]
        return self.rows

    def chain(self):
        """Numbers of the nodes that add one expert each, from the last on."""
        name, found = self.name, []
        while name != self.fact.base:
            found.append(self.links.maker[name])
            name = self.nodes[found[-1]].input[0]
        return found

    def plain(self, value):
        """Whether an expert's result depends on who went there by the rows alone."""
        seen, left = set(), [value]
        while left:
            name = left.pop()
            fact = self.facts.known.get(name)
            if name in self.rows or name in seen:
                continue
            if fact is not None and fact.choice == self.choice and fact.kind in WHO:
                return False
            seen.add(name)
            left += read_by(self.nodes[self.links.maker[name]]) if name in self.links.maker else []
        return True

    def apart(self):
        """Nothing reads who went to an expert, but for that expert on its way to the result."""
        chain, taken = set(self.chain()), {}
        for number, node in enumerate(self.nodes):
            fact = self.facts.known.get(node.output[0]) if node.output else None
            if fact is None or fact.kind != "coordinates" or fact.choice != self.choice or node.op_type != "NonZero":
                continue
            reach, left = set(), [node.output[0]]
            while left:
                for reader in self.links.readers.get(left.pop(), ()):
                    if reader == -1:
                        return False
                    if reader not in chain and reader not in reach:
                        reach.add(reader)
                        left += [n for n in self.nodes[reader].output if n]
            taken.setdefault(fact.expert, set()).update(reach)
        if sum(map(len, taken.values())) != len(set().union(*taken.values())):
            return False
        between = [n for s in chain for n in self.nodes[s].output if n != self.name]
        return all(self.links.readers.get(n, set()) <= chain for n in between)

    def zero(self, name):
        """Whether a value is zeros: a constant, or one that is spread."""
        while name in self.links.maker and self.nodes[self.links.maker[name]].op_type in SPREAD:
            name = self.nodes[self.links.maker[name]].input[0]
        if name in self.facts.constants:
            return zeros(self.facts.constants[name])
        node = self.nodes[self.links.maker[name]] if name in self.links.maker else None
        if node is None or node.op_type != "ConstantOfShape":
            return False
        value = choices.attribute(node, "value")
        return value is None or zeros(value)

    def marker(self):
        """Nodes that stand for the last of the loop."""
        _, weighted, form, factor = self.experts[0]
        fresh, made, scores = f"{self.name}.routed", [], self.choice.scores
        if form in ("softmax", "sigmoid", "sum of sigmoid"):
            op = "Softmax" if form == "softmax" else "Sigmoid"
            made.append(onnx.helper.make_node(op, [scores], [f"{fresh}.scores"],
                                              **({"axis": -1} if op == "Softmax" else {})))
            scores = f"{fresh}.scores"
        last = self.nodes[self.links.maker[self.name]]
        values = [self.rows.get(self.experts[e][0], self.experts[e][0]) for e in range(len(self.experts))]
        node = onnx.helper.make_node("Routed", [self.x, scores, *values], [f"{fresh}.sum"], name=last.name or "experts",
                                     domain=DOMAIN, k=self.choice.k, weighted=int(weighted),
                                     normalise=int(form in ("softmax", "sum", "sum of sigmoid")))
        node.metadata_props.extend(last.metadata_props)
        made.append(node)
        if factor != 1:
            number = onnx.helper.make_tensor(f"{fresh}.factor", onnx.TensorProto.FLOAT, [], [factor])
            made.append(onnx.helper.make_node("Constant", [], [f"{fresh}.factor"], value=number))
            made.append(onnx.helper.make_node("Mul", [made[-2].output[0], f"{fresh}.factor"], [f"{fresh}.scaled"]))
        if self.zero(self.fact.base):
            made[-1].output[0] = self.name
        else:
            made.append(onnx.helper.make_node("Add", [self.fact.base, made[-1].output[0]], [self.name]))
        return made


def zeros(tensor):
    try:
        return not np.any(onnx.numpy_helper.to_array(tensor))
    except (ValueError, TypeError, KeyError):
        return False


def without(nodes, outputs, suspects):
    """Nodes but for those of the suspects that nobody reads any more."""
    read = {}
    for name in [*outputs, *(name for node in nodes for name in read_by(node))]:
        read[name] = read.get(name, 0) + 1
    kept = []
    for node in reversed(nodes):
        if id(node) in suspects and not any(read.get(name) for name in node.output):
            for name in read_by(node):
                read[name] -= 1
        else:
            kept.append(node)
    return kept[::-1]


def rewritten(graph, loop):
    """The graph with a marker for the loop."""
    last, scatters = loop.links.maker[loop.name], set(loop.chain())
    names = [name for n in scatters for name in loop.nodes[n].input]
    who = [n for n, fact in loop.facts.known.items() if fact.kind in WHO and fact.choice == loop.choice]
    suspects = {id(loop.nodes[n]) for n in loop.links.reached(names, False) | loop.links.reached(who, True) | scatters}
    nodes = []
    for number, node in enumerate(loop.nodes):
        if number == last:
            nodes += loop.marker()
        elif number not in scatters:
            for i, name in enumerate(node.input):
                if name in loop.rows:
                    node.input[i] = loop.rows[name]
            nodes.append(node)
    kept = [onnx.NodeProto() for _ in nodes]
    nodes = without(nodes, [v.name for v in graph.output], suspects)
    for copy, node in zip(kept, nodes):
        copy.CopyFrom(node)
    del graph.node[:]
    graph.node.extend(kept[:len(nodes)])


def next_loop(graph):
    facts = choices.Facts(graph)
    results = [name for name, fact in facts.known.items() if fact.kind == "result"]
    if not results:
        return None
    links = _Links(list(graph.node), [v.name for v in graph.output])
    for name in results:
        if not any(facts.known[o].kind == "result" and facts.known[o].choice == facts.known[name].choice
                   for r in links.readers.get(name, ()) if r >= 0 for o in links.nodes[r].output if o in facts.known):
            loop = Loop(facts, links, name)
            if loop.sound():
                return loop
    return None


def routed(model):
    """(model, loops): with markers for its loops over experts; itself where it has none."""
    ops = {node.op_type for node in model.graph.node}
    if not ({"NonZero"} <= ops and ops & {"ScatterND", "ScatterElements"} and ops & {"TopK", "ArgMax"}):
        return model, 0
    copy, loops = onnx.ModelProto(), 0
    copy.CopyFrom(model)
    while (loop := next_loop(copy.graph)) is not None:
        rewritten(copy.graph, loop)
        loops += 1
    if loops and not any(o.domain == DOMAIN for o in copy.opset_import):
        copy.opset_import.append(onnx.helper.make_opsetid(DOMAIN, 1))
    return (copy, loops) if loops else (model, 0)
