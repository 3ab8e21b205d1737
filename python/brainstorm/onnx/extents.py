"""Extents that only a run knows: how many elements are not 0, which boxes are kept, where a computed Range ends.

While a model is imported such an extent is a prime number, and the model is imported with others too; what comes out
must be the same graph (frames.same), so that no extent is in it: the library follows them itself. Dimensions in which
reshapes differ are left to be worked out. Must never: let such a number into a graph.
"""

import functools
import re

from .frames import same
from .refused import Refused

MOST = 32  # such extents of a model
LOW, HIGH = 1009, 2000


@functools.lru_cache
def primes():
    return [n for n in range(LOW, HIGH) if all(n % d for d in range(2, int(n**0.5) + 1))]


class Extents:
    """Those of one walk. turn: which number stands for each. open: of each reshape, in their order, which dimensions
    depend on such an extent; None: that is not known yet."""

    def __init__(self, turn=0, open=None):
        self.free, self.used, self.open = primes()[turn::2], [], open
        self.asked = []  # shapes of reshapes
        self.lists = {}  # indices of what is not 0, by what it is that is not

    def new(self):
        """The number that stands for one more."""
        if len(self.used) == MOST:
            raise Refused(f"more than {MOST} extents that are known only in a run")
        self.used.append(self.free[len(self.used)])
        return self.used[-1]

    def words(self, why):
        """A message, without the numbers that stand for something."""
        return re.sub(r"\d+", lambda n: "?" if int(n[0]) in self.used else n[0], why) if self.used else why

    def codes(self, shape):
        """Of a reshape."""
        self.asked.append(list(shape))
        here = len(self.asked) - 1
        if not self.open or here >= len(self.open):
            return shape
        codes = [-1 if of_run else d for d, of_run in zip(shape, self.open[here], strict=True)]
        if codes.count(-1) > 1:
            raise Refused("a shape with two dimensions that are known only in a run")
        return codes


def settled(make):
    """The walk of make(Extents), whatever numbers stand for what only a run knows."""
    walk = make(Extents())
    if not walk.extents.used:
        return walk
    asked = [walk.extents.asked, make(Extents(1)).extents.asked]
    if list(map(len, asked[0])) != list(map(len, asked[1])):
        raise Refused("the model is another one for another extent that is known only in a run")
    open = [[a != b for a, b in zip(*shapes)] for shapes in zip(*asked)]
    walk, other = make(Extents(0, open)), make(Extents(1, open))
    same([walk, other], "extent that is known only in a run")
    for a, b in zip(walk.outputs, other.outputs, strict=True):
        a.open = [x != y for x, y in zip(a.shape, b.shape, strict=True)]
    return walk


def fitted(port, array, of_run):
    """What a run made of an output some of whose extents only it knows, in the shape of the model: [n, 3, 1] for
    [n, 3]."""
    shape = [-1 if open else d for d, open in zip(port.shape, of_run)]
    if array.ndim == len(shape):
        return array
    if shape.count(-1) > 1:
        raise Refused(f"output {port.onnx_name!r} has two dimensions that are known only in a run")
    return array.reshape([0 if d == -1 else d for d in shape] if array.size == 0 else shape)


def found(n, what):
    """Refuses where the library takes no such op: an extent of each row, or of each size of a frame."""
    if n.m.leader is not None or n.walk.cells is not None:
        raise Refused(f"{what} in a path, in the body of a loop, or of each row of a free batch")
    if n.walk.frame or n.walk.patches:
        raise Refused(f"{what} beside a free frame or patches")
    return n.walk.extents.new()


