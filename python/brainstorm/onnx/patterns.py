"""Functions that exporters write out in nodes: GELU, layer and RMS norms. They become one node of ONNX again.

    x / sqrt(2) -> Erf -> + 1 -> * x -> * 1/2             Gelu(x)
    d = x - mean(x);  d / sqrt(mean(d^2) + e) * w + b     LayerNormalization(x, w, b)
    x / sqrt(mean(x^2) + e) * w                           RMSNormalization(x, w)
    x * clip(x + 3, 0, 6) / 6 * s + t                     Gated(x), of this package: its gate does all but t

A node in the middle that something else reads keeps all of them as they are. Must never: guess: constants must be those
above, axes the last ones.
"""

import math

import numpy as np
import onnx


class Match:
    """The nodes of one pattern, found from one in its middle."""

    def __init__(self, walk, makers):
        self.walk, self.makers, self.nodes = walk, makers, []

    def take(self, node):
        self.nodes.append(node)
        return node

    def maker(self, name, *ops):
        """The node that makes a value, if it is one of these ops."""
        node = self.makers.get(name)
        return self.take(node) if node is not None and node.op_type in ops and node.domain == "" else None

    def reader(self, name, *ops):
        """The node that alone reads a value, if it is one of these ops."""
        readers = self.walk.readers.get(name, [])
        alone = len(readers) == 1 and readers[0] is not None and readers[0].domain == ""
        return self.take(readers[0]) if alone and readers[0].op_type in ops else None

    def array(self, name):
        x = self.walk.values.get(name)
        return x.array if x is not None and x.constant else None

    def number(self, name):
        array = self.array(name)
        return float(np.ravel(array)[0]) if array is not None and array.size == 1 else None

    def beside(self, node, number):
        """The other input of a node of two, one of which is this number; None if none is."""
        for i in range(2):
            have = self.number(node.input[i])
            if have is not None and math.isclose(have, number, rel_tol=1e-3):
                return node.input[1 - i]
        return None

    def closed(self, last):
        """Whether nothing outside reads what is made inside."""
        inside = {id(n) for n in self.nodes}
        names = [o for n in self.nodes if n is not last for o in n.output if o]
        return all(r is not None and id(r) in inside for name in names for r in self.walk.readers.get(name, []))


def gelu(match, erf):
    """The new node, from the one of op Erf; None."""
    inner = match.maker(erf.input[0], "Div", "Mul")
    if inner is None:
        return None
    root = match.number(inner.input[1])
    x = inner.input[0] if inner.op_type == "Div" and root and math.isclose(root, math.sqrt(2), rel_tol=1e-3) else \
        match.beside(inner, math.sqrt(0.5)) if inner.op_type == "Mul" else None
    plus = match.reader(match.take(erf).output[0], "Add")
    if x is None or plus is None or match.beside(plus, 1.0) != erf.output[0]:
        return None
    last, factors = plus, []
    while len(factors) < 2:
        at = last.output[0]
        last = match.reader(at, "Mul")
        if last is None:
            return None
        other = last.input[1 - list(last.input).index(at)]
        half = match.makers.get(other)
        if match.number(other) is not None:
            factors.append(match.number(other))
        elif other == x:
            factors.append("x")
        elif half is not None and half.op_type == "Mul" and match.beside(half, 0.5) == x:
            match.take(half)
            factors += [0.5, "x"]
        else:
            return None
    if sorted(map(str, factors)) != ["0.5", "x"]:
        return None
    return last, onnx.helper.make_node("Gelu", [x], [last.output[0]], last.name or erf.name)


def mean_of(match, name):
    """(what is averaged, axes) of a mean that keeps its axes."""
    node = match.maker(name, "ReduceMean")
    if node is None:
        return None, None
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    axes = match.array(node.input[1]) if len(node.input) > 1 else attributes.get("axes")
    if axes is None or not attributes.get("keepdims", 1):
        return None, None
    return node.input[0], [int(a) for a in np.ravel(axes)]


def squared(match, name):
    node = match.maker(name, "Pow", "Mul")
    if node is None:
        return None
    if node.op_type == "Pow":
        return node.input[0] if match.number(node.input[1]) == 2 else None
    return node.input[0] if node.input[0] == node.input[1] else None


def norm(match, root):
    """The new node, from the one of op Sqrt; None."""
    plus = match.maker(match.take(root).input[0], "Add")
    epsilon = None if plus is None else next((match.number(i) for i in plus.input if match.array(i) is not None), None)
    if epsilon is None or not 0 < epsilon < 1:
        return None
    square, axes = mean_of(match, match.beside(plus, epsilon))
    centre = squared(match, square) if square else None
    if centre is None or axes != [-1]:
        return None
    x, minus = centre, match.makers.get(centre)
    if minus is not None and minus.op_type == "Sub":
        averaged, over = mean_of(match, minus.input[1])
        if averaged == minus.input[0] and over == axes:
            x = match.take(minus).input[0]
    last = divided(match, root, centre)
    scale = None if last is None else constant_beside(match, last, "Mul")
    if scale is None:
        return None
    last, weight = scale
    inputs, op = [x, weight], "LayerNormalization" if x != centre else "RMSNormalization"
    if op == "LayerNormalization":
        shift = constant_beside(match, last, "Add")
        if shift:
            last, bias = shift
            inputs.append(bias)
    return last, onnx.helper.make_node(op, inputs, [last.output[0]], last.name or root.name, axis=-1, epsilon=epsilon)


def divided(match, root, centre):
    """The quotient of the centred values and the root."""
    node = match.reader(root.output[0], "Div", "Reciprocal")
    if node is None or node.op_type == "Div":
        return node if node is not None and list(node.input) == [centre, root.output[0]] else None
    product = match.reader(node.output[0], "Mul")
    return product if product is not None and set(product.input) == {centre, node.output[0]} else None


def constant_beside(match, node, op):
    """(reader, constant line) of a node's result."""
    kept = len(match.nodes)
    reader = match.reader(node.output[0], op)
    if reader is not None:
        other = reader.input[1 - list(reader.input).index(node.output[0])]
        array = match.array(other)
        if array is not None and array.ndim == 1 and array.size > 1:
            return reader, other
    del match.nodes[kept:]
    return None


def scaled(match, node, other):
    """What a reader that multiplies or divides a value by one number does to it; None."""
    number = match.number(other)
    if number is None or not math.isfinite(number) or number == 0:
        return None
    return number if node.op_type == "Mul" else 1 / number


def gated(match, clip):
    """The new node, from the one of op Clip; None."""
    bounds = [match.number(i) for i in match.take(clip).input[1:]]
    plus = match.maker(clip.input[0], "Add")
    moved = [] if plus is None else [i for i in plus.input if match.number(i) is not None
                                     and match.array(i).dtype.kind == "f"]
    offset = match.number(moved[0]) if moved else None
    if offset is None or len(bounds) != 2 or None in bounds or not np.isfinite([offset, *bounds]).all():
        return None
    x, product = match.beside(plus, offset), match.reader(clip.output[0], "Mul")
    if product is None or set(product.input) != {x, clip.output[0]}:
        return None
    last, scale, shift = product, 1.0, 0.0
    while shift == 0:
        kept = len(match.nodes)
        node = match.reader(last.output[0], "Mul", "Div", "Add")
        at = 0 if node is None else list(node.input).index(last.output[0])
        other = None if node is None else node.input[1 - at]
        if node is not None and node.op_type == "Add" and match.number(other) and math.isfinite(match.number(other)):
            shift = match.number(other)
        elif node is not None and node.op_type != "Add" and (at == 0 or node.op_type == "Mul") \
                and scaled(match, node, other):
            scale *= scaled(match, node, other)
        else:
            del match.nodes[kept:]
            break
        last = node
    return last, onnx.helper.make_node("Gated", [x], [last.output[0]], last.name or clip.name, offset=offset,
                                       domain="brainstorm.import", low=bounds[0], high=bounds[1], scale=scale,
                                       shift=shift)


FOUND = {"Erf": gelu, "Sqrt": norm, "Clip": gated}


def rewritten(walk, nodes):
    """[(number, node)] with patterns as one node each."""
    makers = {o: node for _, node in nodes for o in node.output if o}
    gone, new = set(), {}
    for _, node in nodes:
        if node.op_type not in FOUND or id(node) in gone:
            continue
        match = Match(walk, makers)
        found = FOUND[node.op_type](match, node)
        if found is None or not match.closed(found[0]) or any(id(n) in gone for n in match.nodes):
            continue
        gone |= {id(n) for n in match.nodes}
        new[id(found[0])] = found[1]
        walk.replaced(match.nodes, found[1])
    return [(number, new.get(id(node), node)) for number, node in nodes if id(node) not in gone or id(node) in new]
