"""Extents that follow what a run brings, while a model is imported.

A model with free extents is walked once for each of several sizes (frames.py). After that it is known which extents of
its values differ. Where the graphs differ too, it is walked again with what is known: such an extent is then an Open, a
number that knows what it is for the other sizes. Handlers compute with it as with any number, and what they build of it
is computed in a run: indices that count along an axis, what repeats a value along one. Must never: let a handler take
for a constant what is none.
"""

import itertools
import operator

import numpy as np

from .refused import Refused
from .tensors import Tensor, natural


class Open(int):
    """An extent that is another one for another size: `every`, one for each walk, of which this is number `turn`."""

    def __new__(cls, every, turn):
        self = super().__new__(cls, every[turn])
        self.every, self.turn = tuple(every), turn
        return self

    def __neg__(self):
        return 0 - self


def of_sizes(every, turn):
    """A number for each size as one."""
    every = [int(n) for n in every]
    return every[turn] if len(set(every)) == 1 else Open(every, turn)


def computed(function, turned):
    def method(self, other):
        if not isinstance(other, int):
            return NotImplemented
        others = other.every if isinstance(other, Open) else [other] * len(self.every)
        return of_sizes([function(b, a) if turned else function(a, b) for a, b in zip(self.every, others)], self.turn)
    return method


for name, function in (("add", operator.add), ("sub", operator.sub), ("mul", operator.mul),
                       ("floordiv", operator.floordiv), ("mod", operator.mod)):
    setattr(Open, f"__{name}__", computed(function, False))
    setattr(Open, f"__r{name}__", computed(function, True))


def is_open(*numbers):
    return any(isinstance(n, Open) for n in numbers)


def alike(a, b):
    """Whether two extents are the same for every size."""
    return getattr(a, "every", int(a)) == getattr(b, "every", int(b))


def broadcast_shapes(*shapes):
    """As NumPy's, which knows no open extents."""
    made = np.broadcast_shapes(*shapes)
    sides = [(1,) * (len(made) - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(next((n for n in at if is_open(n)), n_made) for n_made, *at in zip(made, *sides))


FEW = 16  # numbers of a constant that is worked out in a run


class Seen:
    """What other walks of a model have seen: the shapes of its values. None of them: nothing is known."""

    def __init__(self, walks=(), turn=0):
        self.turn, self.shapes, self.numbers = turn, {}, {}
        for name in walks[0].values if walks else ():
            values = [walk.values.get(name) for walk in walks]
            if None not in values and len({x.rank for x in values}) == 1:
                self.shapes[name] = list(zip(*(x.shape for x in values)))
                arrays = [x.array for x in values]
                if all(x.constant and x.size <= FEW and x.shape == values[0].shape for x in values) and any(
                        not np.array_equal(a, arrays[0]) for a in arrays):
                    self.numbers[name] = arrays
        self.like, self.made = {}, {}

    def shape(self, name):
        """Of a value, with extents that are open; None: it is not known."""
        known = self.shapes.get(name)
        return None if known is None else tuple(of_sizes(every, self.turn) for every in known)

    def follows(self, name, whole):
        """Whether a value must be computed in a run: its extents are open, or it is made of whole numbers that are
        others for another size, and is none."""
        return is_open(*(self.shape(name) or ())) or whole and name in self.numbers and \
            self.numbers[name][0].dtype.kind not in "iu"

    def mark(self, name, x, inside):
        """The extents of a value that are open. inside: it is of a path, or of the body of a loop."""
        shape = self.shape(name)
        if shape is None or x is None or tuple(x.shape) != shape:
            return
        x.shape = shape
        if x.constant and name in self.numbers and not x.floats:
            x.by_size = self.numbers[name]
        for axis, n in enumerate(shape):
            if is_open(n) and not x.constant and not inside:
                self.like.setdefault(n.every, (x, axis))


class Counting:
    """Of Tensors: what is made along an axis whose extent is open. `seen`: what is known of it."""

    def counted(self, extent, what="up"):
        """i32 [extent]: 0, 1, 2 ...; with "down" the same backwards, with "zeros" zeros."""
        key = extent.every, what
        if key not in self.seen.made:
            if extent.every not in self.seen.like or self.leader is not None:
                raise Refused(f"an axis of {int(extent)}, which is another one for another size, as nothing else is: "
                              "it cannot be counted in a run")
            self.seen.made[key] = self._counted(*self.seen.like[extent.every], what)
        return self.seen.made[key]

    def _counted(self, x, axis, what):
        value, held, at = self.around(x, axis)
        extent = x.shape[axis]
        for other in range(len(held)):
            if other != at:
                value = self.g.slice(value, other, 0, 1)
        value.held = tuple(n if i == at else 1 for i, n in enumerate(held))
        value = self.g.reshape(value, [extent])
        same, other = (self.g.compare(value, value, kind) for kind in ("equal", "not_equal"))  # NaN is not itself
        if what == "zeros":
            value = self.g.compare(same, other, "and")
        else:
            value = self.g.cumsum(self.g.compare(same, other, "or"), 0, 1, what == "down")
        return natural(Tensor((extent,), np.int32, forms={(False, (extent,)): value}))

    def measured(self, x):
        """A constant of a few whole numbers that are others for another size, as a run finds them."""
        each = [self._measured(of_sizes(every, self.seen.turn)) for every in zip(*(np.ravel(a) for a in x.by_size))]
        return self.typed(self.reshape(self.concat(each, 0), x.shape), x.dtype)

    def _measured(self, number):
        """i32 [1]: an extent, times a number and more, or a product of two."""
        if not is_open(number):
            return self.array([number], np.int32)
        for every in self.seen.like:
            times = (number.every[1] - number.every[0]) // ((every[1] - every[0]) or 1)
            more = number.every[0] - times * every[0]
            if number.every == tuple(times * n + more for n in every):
                return self._scaled(self._extent(every), times, more)
        for one, other in itertools.combinations(self.seen.like, 2):
            times = number.every[0] // (one[0] * other[0])
            if number.every == tuple(times * a * b for a, b in zip(one, other)):
                return self._scaled(self.mul(self._extent(one), self._extent(other)), times, 0)
        raise Refused(f"{int(number)} is another number for another size, and none that a run can find")

    def _scaled(self, x, times, more):
        return self.add(self.mul(x, self.scalar(times, np.int32)), self.scalar(more, np.int32))

    def _extent(self, every):
        """An extent as a number, i32 [1]."""
        if (every, "extent") not in self.seen.made:
            extent = of_sizes(every, self.seen.turn)
            last = self.slice(self.counted(extent), 0, extent - 1, 1)
            self.seen.made[every, "extent"] = self.add(last, self.scalar(1, np.int32))
        return self.seen.made[every, "extent"]

    def reversed(self, x, axis):
        """x with an axis turned round."""
        extent = x.shape[axis]
        return self.select(x, self.counted(extent, "down"), axis) if is_open(extent) else \
            self.take(x, range(extent)[::-1], axis)

    def repeated(self, x, axis, extent):
        """x, which has one element along an axis, with as many as another value has."""
        return self.select(x, self.counted(extent, "zeros"), axis)

    def slice_open(self, x, axis, start, length):
        """A part of an axis, where an extent, the start or the length is open."""
        extent = x.shape[axis]
        left = extent - start - length  # behind it
        if not is_open(extent):
            return self._slice_of_fixed(x, axis, start, length, left)
        if not is_open(start, length):
            return self._cut(x, axis, start, length)
        if not is_open(start, left):  # up to so many from the end: these come to stand first
            return self._cut(self._rolled(x, axis, left), axis, start + left, length)
        if not is_open(left, length):  # from so many from the end on
            return self._cut(self._rolled(x, axis, left + length), axis, 0, length)
        if not is_open(start):
            places = self.counted(length)
            return self.select(x, self.add(places, self.scalar(start, np.int32)) if start else places, axis)
        if not is_open(left):
            turned = self.slice_open(self.reversed(x, axis), axis, left, length)
            return self.reversed(turned, axis)
        raise Refused(f"a part of axis {axis} that begins and ends elsewhere for another size")

    def _slice_of_fixed(self, x, axis, start, length, left):
        if not is_open(start):
            return self.select(x, self.add(self.counted(length), self.scalar(start, np.int32)), axis)
        if not is_open(left):
            last = self.scalar(x.shape[axis] - left - 1, np.int32)
            return self.select(x, self.sub(last, self.counted(length, "down")), axis)
        raise Refused(f"a part of axis {axis} that begins and ends elsewhere for another size")

    def _rolled(self, x, axis, shift):
        if shift == 0:
            return x
        value, held, at = self.around(x, axis)
        return self.made(self.g.roll(value, at, shift), held, x.shape, x.dtype, x.wraps)

    def _cut(self, x, axis, start, length):
        """length: open, all from the start on."""
        value, held, at = self.around(x, axis)
        value = self.g.slice(value, at, start, 0 if is_open(length) else length)
        shape = x.shape[:axis] + (length,) + x.shape[axis + 1:]
        return self.made(value, held[:at] + (length,) + held[at + 1:], shape, x.dtype, x.wraps)
