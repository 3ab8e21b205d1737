"""Extents of blobs: whole numbers, or floor((times symbol + add) / over) of a symbol, as the library has them.

What must agree is compared here, so that a frame of any size is refused where it could only work by chance. Must
never know of layers.
"""

import math

from .param import Refused


class Disagree(Refused):
    """Extents that agree in some runs only: frames that are multiples of some number may help."""


class Extent:
    def __init__(self, symbol, times, add, over):
        self.symbol, self.times, self.add, self.over = symbol, times, add, over

    def _key(self):
        return self.symbol, self.times, self.add, self.over

    def __eq__(self, other):
        return isinstance(other, Extent) and self._key() == other._key()

    def __hash__(self):
        return hash(self._key())

    def __repr__(self):
        text = self.symbol if self.times == 1 else f"{self.times} {self.symbol}"
        text += f" {'+' if self.add > 0 else '-'} {abs(self.add)}" if self.add else ""
        return text if self.over == 1 else f"({text}) / {self.over}"


def derived(extent, times, add, over):
    """floor((extent times + add) / over)."""
    if isinstance(extent, int):
        return (extent * times + add) // over
    if extent.over != 1 and times != 1:
        raise Disagree(f"{times} times {extent}, which is not whole for every size of the frame")
    times, add, over = extent.times * times, extent.add * times + add * extent.over, extent.over * over
    if times % over == 0:  # then the division of the rest is the same for every size
        times, add, over = times // over, add // over, 1
    common = math.gcd(times, add, over)
    return Extent(extent.symbol, times // common, add // common, over // common)


def difference(a, b):
    """a - b, where that is a number."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b
    if isinstance(a, int) or isinstance(b, int) or (a.symbol, a.times, a.over) != (b.symbol, b.times, b.over) \
            or (a.add - b.add) % a.over:
        raise Disagree(f"{a} and {b} are not always equally far apart")
    return (a.add - b.add) // a.over


def remainder(extent, over):
    """extent mod over, where that is a number."""
    if isinstance(extent, int):
        return extent % over
    if extent.over != 1 or extent.times % over:
        raise Disagree(f"the remainder of {extent} by {over} is not the same for every size")
    return extent.add % over


def number(extent, what):
    if not isinstance(extent, int):
        raise Refused(f"{what} is {extent}, and must be known: give the size of the frame (--shape)")
    return extent
