"""From an ONNX file to one of ours: all steps, in their order.

    result = imported("net.onnx", shapes=["x=1,3,224,224"])
    result.walk.graph.write("net.gguf")

Must never: leave a file behind that was refused.
"""

import os

from . import compare, experts, extents, frames, load, moe, paths, shapes as shapes_module
from .check import checked
from .lower import Walk
from .refused import NotTaken, Refused
from ..outputs import Beside


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
    walked = lambda given: extents.settled(
        lambda numbers: Walk(ready, given, name, free, progress, blocks, patches, numbers, most).run())
    if isinstance(free, shapes_module.Frame):
        walk = frames.settled(free, lambda sizes: walked(shapes_module.resized(found, free, sizes)))
    else:
        walk = walked(found)
    if walk.batch:
        rows_apart(ready, found, free, walk)
    result = Imported(walk, model, prepared, found, told, fixed, most)
    result.unsure = "a free batch" if walk.batch else "a free frame" if walk.frame else \
        "a loop over experts" if count else "an extent that a run says" if walk.extents.used else None
    return result


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


def written(result, path, session=None, check=True, seed=1, tolerance=compare.TOLERANCE, say=print, feed=None):
    """Writes the file, compares it with the model, and says what it finds: whether they agree. A file that does not
    agree is not left behind, and one that was there before stays."""
    with Beside(path) as new:
        result.walk.graph.write(new.path)
        agrees = not check or checked(result, new.path, session, seed, tolerance, say, feed)
        if agrees:
            new.keep()
        return agrees
