"""From an ONNX file to one of ours: all steps, in their order.

    result = imported("net.onnx", shapes=["x=1,3,224,224"])
    result.walk.graph.write("net.gguf")

Must never: leave a file behind that was refused.
"""

import os

import numpy as np

from . import compare, experts, extents, frames, load, moe, paths, shapes as shapes_module
from .check import checked
from .lower import Walk
from .refused import NotTaken, Refused
from ..outputs import Beside


ROWS = 0.02  # of the largest number, by which a row may differ beside others: as of products of 8 bits


class Imported:
    """A walk that was taken, the model as it was read, and what was told on the way. unsure: what makes a file that was
    not compared one that may be wrong; None: nothing."""

    unsure = None

    def __init__(self, walk, model, ready, shapes, told, values, most):
        self.walk, self.model, self.ready, self.most = walk, model, ready, most
        self.shapes, self.told, self.values = shapes, told, values


def imported(path, shapes=None, dims=None, progress=None, blocks=None, patches=0, values=None,
             most=None):
    """path: a file, or a model in memory. blocks: patterns of scopes, "moe.paths.*". patches: the size of cells.
    values: texts "sr=16000" of inputs that are constants from now on. most: texts "100" or "NAME=100": how many
    elements or trips a node can have, where that is computed in a run."""
    model = load.opened(path) if isinstance(path, (str, os.PathLike)) else path
    name = load.file_stem(path) if isinstance(path, (str, os.PathLike)) else model.graph.name
    told = []
    prepared = load.prepared(model, told)
    paths.ordered(prepared.graph)
    loops = moe.expanded(prepared)
    loops, count = experts.routed(loops)
    ready = paths.gathered(loops)
    fixed = shapes_module.fixed(ready, values)
    ready = load.baked(ready, fixed) if fixed else ready
    found, free = shapes_module.pinned(ready, shapes, dims)
    if isinstance(free, shapes_module.Batch) and patches:
        raise Refused("patches, and a free batch")
    most = shapes_module.most(most)
    walked = lambda given, free, seen=None: extents.settled(
        lambda numbers: Walk(ready, given, name, free, progress, blocks, patches, numbers, most, seen).run())
    if isinstance(free, shapes_module.Batch):
        walk, found = batched((model, prepared, ready), found, free, fixed, walked, told)
    elif isinstance(free, shapes_module.Frame):
        walk, found = framed(found, free, walked, told)
    else:
        walk = walked(found, None)
    result = Imported(walk, model, prepared, found, told, fixed, most)
    result.unsure = "a free batch" if walk.batch else "a free frame" if walk.frame else \
        "a loop over experts" if count else "an extent that a run says" if walk.extents.used else None
    return result


def batched(models, found, batch, fixed, walked, told):
    """(walk, shapes) with a free batch, or, where its rows meet, of as many rows as a run brings."""
    try:
        walk = walked(found, batch)
        rows_apart(models[-1], found, batch, walk)
        rows_alone(*models[:2], found, batch, fixed)
        return walk, found
    except Refused as why:
        apart = why
    try:
        return framed(found, batch.frame, walked, told)
    except Refused as why:
        if isinstance(apart, NotTaken):
            raise apart from None
        raise Refused(f"{apart}\nnor is it taken as a size that is free: {why}") from None


def framed(found, frame, walked, told):
    """(walk, shapes of one size) with free sizes."""
    walk, given = frames.settled(frame, lambda frame, sizes, seen: walked(
        shapes_module.resized(found, frame, sizes), frame, seen))
    for name, free in given.free.items():
        if free.least > frame.free[name].least:
            told.append(f"{name} is {free.least} at least: of less the model is not taken (--dim {name}="
                        f"{free.least}..{free.maximum} says so)")
    return walk, shapes_module.resized(found, given, given.sizes(0))


def rows_apart(model, found, batch, walk):
    """Refuses a network in which rows of the batch meet: with 2 rows every value has twice as many numbers, in one
    axis, else the rows were mixed, or the shape was fixed for 1."""
    two = {name: ((2, *shape[1:]), dtype) for name, (shape, dtype) in found.items()}
    try:
        other = Walk(model, two).run()
    except NotTaken as why:
        raise Refused(f"with 2 rows of {batch.symbol!r} it is not taken: {why}") from None
    for name, one in walk.values.items():
        if one is None or one.constant or name in walk.empty:
            continue
        pairs = list(zip(one.shape, other.values[name].shape))
        if len(one.shape) != other.values[name].rank or sum(a != b for a, b in pairs) != 1 or any(
                b not in (a, 2 * a) for a, b in pairs):
            raise Refused(f"{name!r} is {list(one.shape)} for one row of {batch.symbol!r} and "
                          f"{list(other.values[name].shape)} for two: rows meet there, or the model fixes their number")


def rows_alone(model, prepared, found, batch, fixed):
    """Refuses a network whose rows give something else beside others, as where it goes through them as steps. Where it
    cannot be run nothing is known, and comparing will tell."""
    rows = lambda n: {name: ((n, *shape[1:]), dtype) for name, (shape, dtype) in found.items()}
    feeds = compare.random_inputs(rows(2), 1)
    try:
        reference = compare.Reference(model, prepared)
        both = reference.run({**feeds, **fixed})
        each = [reference.run({**{name: array[i:i + 1] for name, array in feeds.items()}, **fixed}) for i in range(2)]
    except Exception:  # the reference's own, of any kind
        return
    for value, made, *alone in zip(model.graph.output, both, *each):
        apart = compare.Difference(value.name, np.concatenate([np.atleast_1d(a) for a in alone]), np.atleast_1d(made))
        if not apart.relative < ROWS:
            raise Refused(f"output {value.name!r} of a row of {batch.symbol!r} is another one beside other rows: they "
                          "meet")


def written(result, path, session=None, check=True, seed=1, tolerance=compare.TOLERANCE, say=print, feed=None):
    """Writes the file, compares it with the model, and says what it finds: whether they agree. A file that does not
    agree is not left behind, and one that was there before stays."""
    with Beside(path) as new:
        result.walk.graph.write(new.path)
        agrees = not check or checked(result, new.path, session, seed, tolerance, say, feed)
        if agrees:
            new.keep()
        return agrees
