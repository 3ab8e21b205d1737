"""Extents that a run brings: height and width of images, length of audio, how many steps or frames there are.

The model is imported for several sizes that leave other remainders; what comes out must be the same graph, node for
node, so that no size is in it but those of the inputs, which are symbols. Where it is not, the model is imported again
with what is known of the extents (sizes.py), and reshapes are put in other words: a dimension is that of the operand,
or what is left. Must never: take a graph that knows a size, or that is right for multiples of a
number alone.
"""

import itertools

from .refused import NotTaken, Refused
from .sizes import Seen

STEPS = "; where sizes are multiples of a number, say so (--dim NAME=..1080/32)"
TRIED = (2, 8, 32, 256)  # multiples of which numbers are tried, to say what helps
HIGHER = (1024, 16384)   # what is tried where 64 is too little for the model
COPY = -1  # of a reshape: the dimension COPY - number of the operand
REST = -2**31


class Several(Refused):
    """A dimension would be a product of free ones."""


def same(walks, what="size of the frame", hint="", reshapes=False):
    """Refuses walks whose graphs differ. reshapes: but for reshapes, which in the first graph become what they are in
    all."""
    one = walks[0]
    for number, nodes in enumerate(itertools.zip_longest(*(walk.graph.nodes for walk in walks))):
        kinds = {(node.op, tuple(node.inputs)) if node else None for node in nodes}
        if len(kinds) > 1:
            there = [walk for walk in walks if number < len(walk.graph.nodes)]
            owner = next((walk for walk in there if any(walk.makers[number:number + 1])), there[0])
            raise Refused(f"{owner.maker(number)} is another one for another {what}: the model fixes it{hint}")
        if len({tuple(node.params) for node in nodes}) > 1:
            codes = followed(walks, number) if reshapes and nodes[0].op == "reshape" else None
            if codes is None:
                raise Refused(f"{one.maker(number)} is another one for another {what}: the model fixes it{hint}")
            nodes[0].params = [len(codes), *codes, *nodes[0].params[1 + len(codes):]]
    for other in walks[1:]:
        same_weights(one, other, what, hint)


def same_weights(one, other, what, hint):
    for (name, array), (other_name, other_array) in zip(weights(one), weights(other), strict=True):
        if name != other_name or array.shape != other_array.shape or array.tobytes() != other_array.tobytes():
            number = next(i for i, node in enumerate(one.graph.nodes) if name == node.name or
                          name.startswith(f"{node.name}."))
            raise Refused(f"numbers of {one.maker(number)} are others for another {what}: the model fixes it{hint}")


def weights(walk):
    return [(name, array) for block in walk.graph.blocks for name, array, _ in block.weights]


def followed(walks, number):
    """The codes of a reshape whose dimensions follow those of its operand; None: that is not how they differ."""
    made = [walk.reshaped.get(number) for walk in walks]
    if None in made or len({len(to) for _, to in made}) > 1:
        return None
    given = [held for held, _ in made]
    known = None not in given and len(set(map(len, given))) == 1
    operand = list(zip(*given)) if known else []
    left = [axis for axis, every in enumerate(operand) if len(set(every)) > 1]
    codes = []
    for every in zip(*(to for _, to in made)):
        copied = next((axis for axis in left if operand[axis] == every), None)
        if len(set(every)) == 1:
            codes.append(every[0])
        elif copied is not None:
            codes.append(COPY - copied)
            left.remove(copied)
        else:
            codes.append(REST)
    if codes.count(REST) > 1 or REST in codes and len(left) > 1:
        names = walks[0].frame.free if walks[0].frame else ()
        alone = ". One of them can be free beside " + " or ".join(f"{name}=NUMBER" for name in names) \
            if len(names) > 1 else ""
        raise Several(f"{walks[0].maker(number)} makes one dimension of several free ones{alone}")
    return codes


def settled(frame, make):
    """(the walk of make(frame, sizes, Seen), which is the same one for all of the frame's probes; the frame)."""
    larger = (frame.from_least(least) for least in HIGHER)
    first = None
    for tried in [frame, *larger]:
        if tried is None:
            break
        try:
            return of_probes(tried, make), tried
        except Refused as why:
            first = first or why
            if not isinstance(why, NotTaken):
                break
    helps = "" if isinstance(first, Several) else helped(frame, make)
    if isinstance(first, NotTaken) and not helps:
        raise first
    raise Refused(f"{first}{STEPS if isinstance(first, NotTaken) else ''}{helps}")


def helped(frame, make):
    """What can be said of the sizes, so that it is taken."""
    for step in TRIED:
        other = frame.in_steps(step)
        if other is None:
            continue
        try:
            of_probes(other, make)
        except Refused:
            continue
        said = " and ".join(f"{free.option}..{free.maximum}/{free.step}" for free in other.free.values())
        return f"\nit is taken where sizes are multiples of {step}: {said}"
    return ""


def of_probes(frame, make):
    walks = all_walked(frame, make, lambda turn: Seen())
    try:
        same(walks, hint=STEPS)
    except Refused:
        if walks[0].patches or walks[0].extents.used:
            raise
        walks = all_walked(frame, make, lambda turn, first=tuple(walks): Seen(first, turn))
        same(walks, hint=STEPS, reshapes=True)
    walk = walks[0]
    walk.followed = {}
    for ports in zip(*(w.outputs for w in walks)):
        walk.followed[ports[0].onnx_name] = [len(set(every)) > 1 for every in zip(*(p.probed for p in ports))]
    return walk


def all_walked(frame, make, seen):
    """The walks of all sizes: those that differ."""
    found, walks = [], []
    for turn in range(frame.probes):
        sizes = frame.sizes(turn)
        if sizes in found:
            continue
        try:
            walks.append(make(frame, sizes, seen(len(walks))))
        except NotTaken as why:
            if not walks:
                raise
            raise Refused(f"with {words(found[0])} it is taken, with {words(sizes)} not{STEPS}\n{why}") from None
        found.append(sizes)
    return walks


def words(sizes):
    return " and ".join(f"{name}={extent}" for name, extent in sizes.items())
