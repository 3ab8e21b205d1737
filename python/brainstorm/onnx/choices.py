"""What is known of the values of a loop over experts: which of them are a router's choice, an expert's rows, its gates.

Exporters write such a loop out, an expert after the other:

    values, index = TopK(scores)              or index = ArgMax(scores)
    NonZero(index == e)                       the rows that chose expert e, and in which place of their k
    GatherND(x, rows), then what the expert does of it, times GatherND(values, rows and places)
    ScatterND(y, rows, that, "add")

Facts follow from facts, node by node; what is not understood has none. experts.py makes routers of it. Must never: say
more of a value than the nodes say.
"""

import dataclasses

import numpy as np
import onnx

from .tensors import axes_of, axis_of

FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16)
TINY = 1e-12  # what is added to a sum of chances against a division by 0


@dataclasses.dataclass(frozen=True)
class Choice:
    """The experts that a row goes to: the best k by their scores."""

    scores: str
    k: int


@dataclasses.dataclass(frozen=True)
class Fact:
    """kind: "index", "gate", "sum of gates", "one-hot", "mask", "coordinates", "place", "pair", "rows", "gates",
    "given" or "result". axes: what each axis of the value is, "row", "slot" (place of the k), "expert" or "one"; of
    coordinates and pairs: what each coordinate is. form: how gates follow from scores: raw, sum, softmax or sigmoid."""

    kind: str
    choice: Choice
    axes: tuple = ()
    expert: int = -1
    form: str = "raw"
    factor: float = 1.0
    turned: bool = False  # coordinates [of each, 1 a line]
    source: str = ""      # of rows: what they are taken from; given: the value before its gate
    done: tuple = ()      # of a result: (expert, value before its gate, whether it has one, form, factor)
    base: str = ""        # of a result: what it is added to


def attribute(node, name, default=None):
    for entry in node.attribute:
        if entry.name == name:
            value = onnx.helper.get_attribute_value(entry)
            return value.decode(errors="replace") if isinstance(value, bytes) else value
    return default


class Facts:
    """Of all values of a graph."""

    def __init__(self, graph):
        self.known, self.constants = {}, {}
        for tensor in graph.initializer:
            self.constants[tensor.name] = tensor
        for node in graph.node:
            if node.op_type == "Constant" and node.output and attribute(node, "value") is not None:
                self.constants[node.output[0]] = attribute(node, "value")
        for node in graph.node:
            rule = RULES.get(node.op_type)
            if rule is None or node.domain not in ("", "ai.onnx") or not node.output:
                continue
            try:
                made = rule(self, node)
            except (IndexError, TypeError, ValueError, AttributeError):
                continue  # it is not well formed, as its handler will say
            for name, fact in zip(node.output, made if isinstance(made, list) else [made]):
                if fact is not None and name:
                    self.known[name] = fact

    def of(self, node, index, *kinds):
        """The fact of an input, of these kinds; None."""
        fact = self.known.get(node.input[index]) if index < len(node.input) else None
        return fact if fact is not None and (not kinds or fact.kind in kinds) else None

    def numbers(self, name):
        """A small constant; None: it is none."""
        tensor = self.constants.get(name)
        if tensor is None or np.prod(tensor.dims, dtype=np.float64) > 2**16:
            return None
        try:
            return onnx.numpy_helper.to_array(tensor)
        except (ValueError, TypeError, KeyError):
            return None

    def integer(self, node, index):
        array = self.numbers(node.input[index]) if index < len(node.input) and node.input[index] else None
        return int(np.ravel(array)[0]) if array is not None and array.size == 1 and array.dtype.kind in "iuf" else None

    def axis(self, node, index, rank, default=None):
        """An axis that is an input of one number, from 0 on."""
        axis = self.integer(node, index) if index < len(node.input) and node.input[index] else default
        return axis % rank if axis is not None and rank and -rank <= axis < rank else None


def replaced(fact, **changes):
    return dataclasses.replace(fact, **changes)


# ------------------------------------------------------------------------------------------- what is chosen

def top_k(facts, node):
    k = facts.integer(node, 1)
    if k is None or k < 1 or attribute(node, "axis", -1) not in (-1, 1) or not attribute(node, "largest", 1):
        return None
    choice = Choice(node.input[0], k)
    return [Fact("gate", choice, ("row", "slot")), Fact("index", choice, ("row", "slot"))]


def arg_max(facts, node):
    if attribute(node, "axis", 0) not in (-1, 1) or attribute(node, "select_last_index", 0):
        return None
    axes = ("row", "slot") if attribute(node, "keepdims", 1) else ("row",)
    return Fact("index", Choice(node.input[0], 1), axes)


def reduced(facts, node):
    """Of gates their sum; of scores the largest, which is the gate of the best."""
    rank_one = facts.integer(node, 1)
    axes = [rank_one] if rank_one is not None else attribute(node, "axes")
    if axes not in ([-1], [1]):
        return None
    keep = attribute(node, "keepdims", 1)
    if node.op_type == "ReduceMax":
        return Fact("gate", Choice(node.input[0], 1), ("row", "slot") if keep else ("row",))
    fact = facts.of(node, 0, "gate")
    return replaced(fact, kind="sum of gates") if fact and keep and fact.axes == ("row", "slot") else None


def divided(facts, node):
    gate, total = facts.of(node, 0, "gate"), facts.of(node, 1, "sum of gates")
    if gate and total and replaced(total, kind="gate") == gate and gate.form in ("raw", "sigmoid"):
        return replaced(gate, form="sum" if gate.form == "raw" else "sum of sigmoid", factor=1.0)
    return None


def added(facts, node):
    total = facts.of(node, 0, "sum of gates")
    more = facts.numbers(node.input[1]) if total else None
    return total if more is not None and more.size == 1 and 0 <= float(np.ravel(more)[0]) <= TINY else None


def softmax(facts, node):
    gate = facts.of(node, 0, "gate")
    good = gate and gate.form == "raw" and gate.factor == 1 and attribute(node, "axis", -1) in (-1, 1)
    return replaced(gate, form="softmax") if good and gate.axes == ("row", "slot") else None


def sigmoid(facts, node):
    gate = facts.of(node, 0, "gate")
    return replaced(gate, form="sigmoid") if gate and gate.form == "raw" and gate.factor == 1 else None


# -------------------------------------------------------------------------------------- who has chosen an expert

def equal(facts, node):
    for i in (0, 1):
        index, other = facts.of(node, i, "index"), facts.numbers(node.input[1 - i])
        if index is None or other is None or other.dtype.kind not in "iu":
            continue
        if other.size == 1 and other.ndim <= len(index.axes):
            return replaced(index, kind="mask", expert=int(np.ravel(other)[0]))
        if index.axes[-1:] == ("one",) and np.array_equal(np.ravel(other), np.arange(other.size)) and \
                other.size == other.shape[-1] and other.ndim <= len(index.axes):
            return replaced(index, kind="one-hot", axes=(*index.axes[:-1], "expert"))
    return None


def one_hot(facts, node):
    index, values = facts.of(node, 0, "index"), facts.numbers(node.input[2])
    if index is None or values is None or np.ravel(values).tolist() != [0, 1] or attribute(node, "axis", -1) != -1:
        return None
    return replaced(index, kind="one-hot", axes=(*index.axes, "expert"))


def non_zero(facts, node):
    mask = facts.of(node, 0, "mask")
    return replaced(mask, kind="coordinates") if mask else None


# ------------------------------------------------------------------------------------------- shapes and parts

MOVED = ("index", "gate", "one-hot", "mask")


def same(facts, node):
    """Identity, and a cast where it changes nothing that is known."""
    fact = facts.of(node, 0)
    if fact is None or node.op_type == "Identity":
        return fact
    floats = attribute(node, "to") in FLOATS
    kinds = ("gate", "sum of gates", "gates", "given", "result", "mask", "one-hot") if floats else \
        ("index", "mask", "one-hot", "coordinates", "place", "pair")
    return fact if fact.kind in kinds else None


def transposed(facts, node):
    fact = facts.of(node, 0, *MOVED, "coordinates")
    if fact is None:
        return None
    rank = 2 if fact.kind == "coordinates" else len(fact.axes)
    order = attribute(node, "perm", list(range(rank))[::-1])
    if sorted(order) != list(range(rank)):
        return None
    if fact.kind == "coordinates":
        return replaced(fact, turned=fact.turned != (order == [1, 0]))
    return replaced(fact, axes=tuple(fact.axes[i] for i in order))


def axes_given(facts, node):
    array = facts.numbers(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    return None if array is None else [int(n) for n in np.ravel(array)]


def unsqueezed(facts, node):
    fact, axes = facts.of(node, 0), axes_given(facts, node)
    if fact is None or fact.kind in ("place", "gates"):
        return fact
    if fact.kind not in MOVED or axes is None:
        return None
    made, rank = list(fact.axes), len(fact.axes) + len(axes)
    for axis in sorted(axes_of(axes, rank)):
        made.insert(axis, "one")
    return replaced(fact, axes=tuple(made)) if len(made) == rank else None


def squeezed(facts, node):
    fact, axes = facts.of(node, 0), axes_given(facts, node)
    if fact is None or fact.kind in ("place", "gates"):
        return fact
    if fact.kind not in MOVED or axes is None:
        return None
    rank = len(fact.axes)
    gone = axes_of(axes, rank)
    if any(fact.axes[a] != "one" and not (fact.axes[a] == "slot" and fact.choice.k == 1) for a in gone):
        return None
    return replaced(fact, axes=tuple(a for i, a in enumerate(fact.axes) if i not in gone))


def part(fact, axis, number, keep):
    """One of the coordinates, or of the experts of one-hot numbers; keep: the axis stays, of extent 1."""
    if fact.kind == "coordinates":
        wanted = 1 if fact.turned else 0
        if axis != wanted or not -len(fact.axes) <= number < len(fact.axes):
            return None
        return Fact("place", fact.choice, (fact.axes[number],), fact.expert)
    if fact.kind != "one-hot" or fact.axes[axis] != "expert" or number < 0:
        return None
    left = [("one" if keep else None) if a == "expert" else a for a in fact.axes]
    return replaced(fact, kind="mask", axes=tuple(a for a in left if a), expert=number)


def rank_of(fact):
    return 2 if fact.kind == "coordinates" else len(fact.axes)


def sliced(facts, node):
    fact = facts.of(node, 0, "coordinates", "one-hot")
    if fact is None:
        return None
    start, end = facts.integer(node, 1), facts.integer(node, 2)
    axis, step = facts.axis(node, 3, rank_of(fact), 0), facts.integer(node, 4)
    if axis is None or start is None or end is None or end != start + 1 or step not in (None, 1):
        return None
    return part(fact, axis, start, True)


def split(facts, node):
    fact = facts.of(node, 0, "coordinates")
    if fact is None or len(node.output) != len(fact.axes):
        return None
    return [part(fact, attribute(node, "axis", 0) % 2, i, True) for i in range(len(node.output))]


def concatenated(facts, node):
    places = [facts.of(node, i, "place") for i in range(len(node.input))]
    if len(places) < 2 or None in places or attribute(node, "axis") not in (-1, 1) or \
            len({(p.choice, p.expert) for p in places}) > 1:
        return None
    return Fact("pair", places[0].choice, tuple(p.axes[0] for p in places), places[0].expert)


# ------------------------------------------------------------------------------------- rows, gates, results

def line_of(fact):
    """What coordinates, turned, are: of one axis a place, of two a pair."""
    if fact is not None and fact.kind == "coordinates" and fact.turned:
        return replaced(fact, kind="place" if len(fact.axes) == 1 else "pair")
    return fact


def gathered(facts, node):
    parts = facts.of(node, 0, "coordinates", "one-hot")
    if parts is not None and node.op_type == "Gather":
        number, axis = facts.integer(node, 1), axis_of(attribute(node, "axis", 0), rank_of(parts))
        keep = number is not None and facts.numbers(node.input[1]).ndim > 0
        return None if number is None else part(parts, axis, number, keep)
    if node.op_type == "Gather" and attribute(node, "axis", 0) != 0 or attribute(node, "batch_dims", 0):
        return None
    place, gate = line_of(facts.of(node, 1)), facts.of(node, 0, "gate")
    if place is None or place.kind not in ("place", "pair"):
        return None
    if gate is not None:
        told = tuple(a for a in gate.axes if a != "one")
        whole = place.axes == told or place.axes == ("row",) and told in (("row", "slot"), ("row",)) and \
            gate.choice.k == 1
        good = gate.choice == place.choice and whole and gate.axes[:len(told)] == told
        return replaced(gate, kind="gates", expert=place.expert, axes=()) if good else None
    if place.axes != ("row",):
        return None
    return Fact("rows", place.choice, expert=place.expert, source=node.input[0])


def multiplied(facts, node):
    for i in (0, 1):
        gate, other = facts.of(node, i, "gate", "gates"), facts.numbers(node.input[1 - i])
        if gate and other is not None and other.size == 1:
            return replaced(gate, factor=gate.factor * float(np.ravel(other)[0]))
        if gate and gate.kind == "gates" and facts.of(node, 1 - i, "gates", "gate") is None:
            return replaced(gate, kind="given", source=node.input[1 - i])
    return None


def scattered(facts, node):
    """A result with one more expert in it."""
    place = line_of(facts.of(node, 1))
    if len(node.input) != 3 or place is None or place.kind != "place" or place.axes != ("row",) or \
            node.op_type == "ScatterElements" and attribute(node, "axis", 0) != 0:
        return None
    added_up = attribute(node, "reduction", "none")
    if added_up != "add" and (added_up != "none" or place.choice.k != 1):
        return None
    given, before = facts.of(node, 2), facts.of(node, 0, "result")
    if given is not None and given.kind == "given":
        if (given.choice, given.expert) != (place.choice, place.expert):
            return None
        one = (place.expert, given.source, True, given.form, given.factor)
    elif given is None or given.kind == "rows":
        one = (place.expert, node.input[2], False, "raw", 1.0)
    else:
        return None
    if before is not None and before.choice == place.choice and before.form == added_up:
        return replaced(before, done=(*before.done, one))
    return Fact("result", place.choice, done=(one,), base=node.input[0], form=added_up)


RULES = {"TopK": top_k, "ArgMax": arg_max, "ReduceMax": reduced, "ReduceSum": reduced, "Div": divided, "Add": added,
         "Softmax": softmax, "Sigmoid": sigmoid, "Equal": equal, "OneHot": one_hot, "NonZero": non_zero, "Cast": same,
         "Identity": same, "Expand": lambda facts, node: facts.of(node, 0, "place"), "Transpose": transposed,
         "Unsqueeze": unsqueezed, "Squeeze": squeezed, "Slice": sliced, "Split": split, "Concat": concatenated,
         "Gather": gathered, "GatherND": gathered, "Mul": multiplied, "ScatterND": scattered,
         "ScatterElements": scattered}
