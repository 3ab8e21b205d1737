"""A value of an ONNX graph while it is imported, and the forms in which our graph holds it.

A tensor knows its ONNX shape and type, and one or several forms of the same elements in our graph: values of the root
domain whose shape, of rank 4 at most, has the same elements in the same order ([1,3,8,8] may be held as [3,8,8], and
[2,3,4,5,6] as [6,4,30]); or rows: cells of a domain whose rows are axis 0. Reshaping makes no node; a handler asks for
the form that it needs, and Holder makes it, once. A constant has its array, and comes into the graph when it is asked
for. Must never: let an element change its place.
"""

import functools
import math

import numpy as np

from .refused import Refused

MAX_RANK = 4
MAX_SIZE = 2**31  # elements of a tensor: a model file that asks for more is hostile, or none for us
I32 = np.iinfo(np.int32)


def is_float(dtype):
    """Whether numbers of this type are f32 in our graph; all others are i32."""
    return dtype.kind == "f" or dtype.name in ("bfloat16",)


def sized(shape):
    """A shape; refused when it has more elements than can be."""
    shape = tuple(n if isinstance(n, int) else int(n) for n in shape)
    if min(shape, default=0) < 0 or math.prod(shape) > MAX_SIZE:
        raise Refused(f"a tensor of shape {list(shape)}")
    return shape


class Forms(dict):
    """{(cells, shape held): value}; a value knows its own shape."""

    def __setitem__(self, key, value):
        value.held = key[1]
        super().__setitem__(key, value)

    @classmethod
    def of(cls, forms):
        if isinstance(forms, cls):
            return forms
        made = cls()
        for key, value in (forms or {}).items():
            made[key] = value
        return made


class Tensor:
    """forms: {(cells, shape held): value}, shared by all reshapes of it; the first is what it was made in."""

    def __init__(self, shape, dtype, array=None, forms=None, wraps=False):
        self.shape, self.dtype, self.array = sized(shape), np.dtype(dtype), array
        self.forms = Forms.of(forms)
        self.wraps = wraps  # a sum of small integers, which ONNX wraps and i32 does not
        self.turned = None  # (tensor, order of axes) that a transpose made it of
        self.scaled = None  # (tensor, number) whose product it is
        self.steps = None  # (whole numbers, scale) that it is a product of: quantised ones
        self.by_size = None  # of a small constant: its arrays for all sizes, where these differ
        self.range = None  # (lowest, highest) of whole numbers, where more is known than the type says

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def rank(self):
        return len(self.shape)

    @property
    def floats(self):
        return is_float(self.dtype)

    @property
    def constant(self):
        return self.array is not None

    @property
    def natural(self):
        """Whether it is known that no number is below 0."""
        return range_of(self)[0] >= 0

    def helds(self):
        """Shapes in which the root domain holds it, the one that it was made in first."""
        return [held for cells, held in self.forms if not cells]


def narrowed(what, array):
    """The array as f32 or i32, as our graph holds it; refused where that would change what it says."""
    if is_float(array.dtype):
        with np.errstate(over="ignore"):
            out = array.astype(np.float32)
        if np.any(np.isinf(out) & np.isfinite(array.astype(np.float64))):
            raise Refused(f"{what}: a {array.dtype} number is beyond f32")
        return out
    if array.dtype.kind == "b":
        return array.astype(np.int32)
    if array.dtype.kind not in "iu":
        raise Refused(f"{what}: elements of type {array.dtype} are not taken")
    if array.size and (int(array.min()) < I32.min or int(array.max()) > I32.max):
        raise Refused(f"{what}: a {array.dtype} number is beyond i32, and narrowing would change it")
    return array.astype(np.int32)


def bounds(shape):
    """Products of leading dimensions: where axes end."""
    ends, product = [1], 1
    for n in shape:
        product *= n
        ends.append(product)
    return ends


def broadcast(*shapes):
    """The shape of what is computed of these; None: they do not fit."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


def squeezed(shape):
    return tuple(n for n in shape if n != 1) or (1,)


def fitted(shape):
    """A held shape of rank 4 at most: as it is, or without ones, or with leading axes merged."""
    shape = tuple(shape) or (1,)
    if len(shape) > MAX_RANK:
        shape = squeezed(shape)
    return shape if len(shape) <= MAX_RANK else (math.prod(shape[:-MAX_RANK + 1]), *shape[-MAX_RANK + 1:])


def axis_of(axis, rank):
    """An axis from 0 on; refused where there is none such."""
    if not -rank <= axis < max(rank, 1):
        raise Refused(f"axis {axis} of {rank} axes")
    return int(axis) % rank if rank else 0


def axes_of(axes, rank):
    """Axes from 0 on, each once."""
    found = [axis_of(a, rank) for a in axes]
    if len(set(found)) != len(found):
        raise Refused(f"axes {list(axes)} of {rank} name one twice")
    return found


def range_of(x):
    """(lowest, highest) of whole numbers; infinite where nothing says it. Of floats nothing is known."""
    if x.range is not None:
        return x.range
    if x.floats or x.dtype.kind not in "iub":
        return -math.inf, math.inf
    if x.constant:
        return (int(x.array.min()), int(x.array.max())) if x.size else (0, 0)
    if x.dtype == bool:
        return 0, 1
    if x.dtype.itemsize < 4 and not x.wraps:
        return int(np.iinfo(x.dtype).min), int(np.iinfo(x.dtype).max)
    return (0 if x.dtype.kind == "u" and not x.wraps else -math.inf), math.inf


def keeps(method):
    """Of a method that moves numbers: what is known of them stays known."""
    @functools.wraps(method)
    def moved(self, x, *more, **named):
        out = method(self, x, *more, **named)
        if out.range is None and not out.constant and not out.floats and not x.floats:
            out.range = range_of(x)
        return out
    return moved


def within(x, low, high):
    """x, of which it is known that its numbers are no others."""
    x.range = (low, high)
    return x


def natural(x):
    return within(x, 0, math.inf)


class Holder:
    """Brings tensors into the graph in the forms that are asked for."""

    def __init__(self, graph, names, budget):
        self.g, self.names, self.budget = graph, names, budget
        self.roots, self.leader = set(), None  # with a free batch: values outside it, and a tensor of its rows
        self.domains = {}  # rows: cells of the domain of that many rows
        self.tiles = False  # whether images are tiles of a frame
        self.seen = None  # sizes.Seen

    def room(self, count):
        """Before an array of `count` numbers is made."""
        self.budget.charge("an array", 8 * count)

    # ------------------------------------------------------------------------------------------- forms

    def held(self, x, shape):
        """The root value of x, held in this shape."""
        shape = tuple(shape)
        if math.prod(shape) != x.size:
            raise Refused(f"a tensor of shape {list(x.shape)} is asked for as {list(shape)}")
        if x.size == 0:
            raise Refused("a tensor without elements")
        if (False, shape) not in x.forms:
            x.forms[False, shape] = self._make(x, shape)
        return x.forms[False, shape]

    def _make(self, x, shape):
        if x.by_size is not None:
            return self.held(self.measured(x), shape)
        if x.constant:
            value = self._constant(x, shape)
            self.roots.add(value)
            return value
        for (cells, held), value in x.forms.items():
            if not cells:
                return self.g.reshape(value, list(shape))
        for (cells, held), value in list(x.forms.items()):
            if cells and len(held) < MAX_RANK:
                whole = (x.size // math.prod(held), *held)
                x.forms[False, whole] = self.g.collect(value)
                return x.forms[False, whole] if whole == shape else self.g.reshape(x.forms[False, whole], list(shape))
        raise Refused("a value that was never made")

    def _constant(self, x, shape):
        array = narrowed("a constant", x.array).reshape(shape)
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return self._not_finite(array)
        return self.g.constant(self.names.fresh("constant"), array)

    def _not_finite(self, array):
        """Weights are finite: infinities and NaN are quotients of a run."""
        zero = self.g.constant(self.names.fresh("constant"), np.zeros(1, np.float32))
        ones = (1,) * array.ndim
        value = self.g.constant(self.names.fresh("constant"), np.where(np.isfinite(array), array, 0))
        for number, where in ((1.0, array == np.inf), (-1.0, array == -np.inf), (0.0, np.isnan(array))):
            if where.any():
                top = self.g.constant(self.names.fresh("constant"), np.full(1, number, np.float32))
                odd = self.g.reshape(self.g.binary(top, zero, "div"), list(ones))
                here = self.g.constant(self.names.fresh("constant"), where.astype(np.int32))
                value = self.g.where(here, odd, value)
        return value

    def led(self, values, every=False):
        """Operands of which the first says which domain it is: of the rows of a free batch, if any of them is. every:
        all of them must be of it."""
        values = list(values)
        outside = [v in self.roots for v in values]
        if self.leader is None or self.leader.constant or all(outside) or not any(outside if every else outside[:1]):
            return values
        (_, held), row = next(iter(self.leader.forms.items()))
        for axis in range(len(held)):
            row = self.g.slice(row, axis, 0, 1)
        row = self.g.reshape(row, [1])  # one number of each row, of which it is always true that it is itself or not
        true = self.g.compare(self.g.compare(row, row, "equal"), self.g.compare(row, row, "not_equal"), "or")
        return [self.g.where(true, v, v) if root and (every or i == 0) else v
                for i, (v, root) in enumerate(zip(values, outside))]

    def root(self, x):
        """(value, held): in the form that costs nothing."""
        for held in x.helds():
            return x.forms[False, held], held
        for (cells, held) in x.forms:
            whole = (x.size // math.prod(held), *held)
            return self.held(x, whole), whole
        held = fitted(x.shape)
        return self.held(x, held), held

    def cells(self, x, held):
        """Rows of x, one for each number of axis 0, as cells of this shape; with one row the root value itself."""
        held, rows = tuple(held), x.size // math.prod(held)
        if rows == 1:
            return self.held(x, held)
        if self.leader is not None:
            raise Refused("several images in a path, in the body of a loop, or in a row of a free batch")
        if (True, held) not in x.forms:
            whole = self.held(x, (rows, *held))
            like = self.domains.get(rows)
            x.forms[True, held] = self.g.rows(whole) if like is None else self.g.rows(whole, like)
            self.domains.setdefault(rows, x.forms[True, held])
        return x.forms[True, held]

    def made(self, value, held, shape=None, dtype=np.float32, wraps=False):
        """A tensor that our graph has just made."""
        return Tensor(held if shape is None else shape, dtype, forms={(False, tuple(held)): value}, wraps=wraps)

    def of_cells(self, value, rows, held, shape, dtype=np.float32):
        return Tensor(shape, dtype, forms={(rows > 1, tuple(held)): value})

    # ---------------------------------------------------------------------------------- axes that stand alone

    def standing(self, x, first, count):
        """(value, held, axis) of a form that there is, in which these axes are not merged with others; or None."""
        pre, n = math.prod(x.shape[:first]), x.shape[first:first + count]
        for held in x.helds():
            ends = bounds(held)
            for at in range(len(held) - count + 1):
                if ends[at] == pre and held[at:at + count] == n:
                    return x.forms[False, held], held, at
        return None

    def ending(self, x, first):
        """((value, held, axis), count): a form whose last axes are all that lies from an axis of x on, which is cut out
        of one if it must be: groups of channels of an image [C,H,W]. (None, 0): there is none."""
        pre = math.prod(x.shape[:first])
        for held in x.helds():
            ends = bounds(held)
            at = next((i for i, n in enumerate(held) if ends[i] <= pre < ends[i + 1]), None)
            if at is None or pre % ends[at] or held[at] % (pre // ends[at]):
                continue
            part = pre // ends[at]
            cut = held if part == 1 else held[:at] + (part, held[at] // part) + held[at + 1:]
            if len(cut) <= MAX_RANK:
                at += part != 1
                return (self.held(x, cut), cut, at), len(cut) - at
        return None, 0

    def around(self, x, first):
        """(value, held, axis): a form in which an axis is one of its own, not merged with those around it."""
        found = self.standing(x, first, 1)
        if found:
            return found
        pre, post = math.prod(x.shape[:first]), math.prod(x.shape[first + 1:])
        for whole in x.helds() if x.shape[first] == 1 else ():
            if len(whole) < MAX_RANK and pre in bounds(whole):  # axes of their own stay so: their extents may be open
                at = bounds(whole).index(pre)
                held = whole[:at] + (1,) + whole[at:]
                return self.held(x, held), held, at
        held = (x.shape[first], post) if pre == 1 else (pre, x.shape[first], post)
        return self.held(x, held), held, 0 if pre == 1 else 1

    def last(self, x, axis=-1):
        """(value, held) with this axis, which is the last one of x, as the last one held."""
        n = x.shape[axis]
        for held in x.helds():
            if held[-1] == n:
                return x.forms[False, held], held
        held = (x.size // n, n) if x.size != n else (n,)
        return self.held(x, held), held
