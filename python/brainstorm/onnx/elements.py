"""Arithmetic element by element on tensors of any rank: broadcast as NumPy does, axes merged to what our ops take.

Part of Tensors (arithmetic.py), on top of the forms of tensors.py. What is constant on all sides is computed here.
"""

import math

import numpy as np

from .refused import Refused
from .sizes import broadcast_shapes
from .tensors import MAX_RANK, Holder, Tensor, bounds, keeps

RING = ("add", "sub", "mul")  # whose result in i32 is that of smaller integers, apart from what these wrap
OF_NUMPY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "min": np.minimum, "max": np.maximum,
    "pow": np.power, "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "and": np.logical_and, "or": np.logical_or,
    "xor": np.logical_xor, "abs": np.abs, "neg": np.negative, "sign": np.sign, "floor": np.floor, "ceil": np.ceil,
    "round": np.round, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "reciprocal": np.reciprocal, "exp": np.exp,
    "log": np.log, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "not": np.logical_not}
COMPARES = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "and", "or", "xor")


def groups_of(shapes, out):
    """Adjacent axes of `out` along which the same operands are repeated, as (size, which operands are not)."""
    padded = [(1,) * (len(out) - len(s)) + tuple(s) for s in shapes]
    groups = []
    for axis, n in enumerate(out):
        if n == 1:
            continue
        full = tuple(p[axis] == n for p in padded)
        if groups and groups[-1][1] == full:
            groups[-1] = (groups[-1][0] * n, full)
        else:
            groups.append((n, full))
    return groups or [(1, (True,) * len(shapes))]


class Elements(Holder):
    def scalar(self, number, dtype=np.float32):
        return Tensor((), dtype, np.asarray(number).astype(dtype))

    def array(self, numbers, dtype=np.float32):
        numbers = np.asarray(numbers, dtype)
        return Tensor(numbers.shape, dtype, numbers)

    # ------------------------------------------------------------------------------ operands side by side

    def beside(self, *tensors):
        """(values, held, shape): operands in forms of one rank that broadcast beside each other as the tensors do."""
        try:
            out = broadcast_shapes(*(t.shape for t in tensors))
        except ValueError:
            raise Refused("shapes " + ", ".join(str(list(t.shape)) for t in tensors)
                          + " cannot be broadcast") from None
        tensors = list(tensors)
        groups = groups_of([t.shape for t in tensors], out)
        while len(groups) > MAX_RANK:  # some operand is repeated in a pattern of too many axes: write it out
            options = [i for i, t in enumerate(tensors) if t.size != math.prod(out)]
            tries = [(len(groups_of([out if j == i else t.shape for j, t in enumerate(tensors)], out)), i)
                     for i in options]
            tensors[min(tries)[1]] = self.expand(tensors[min(tries)[1]], out)
            groups = groups_of([t.shape for t in tensors], out)
        held, forms = self._cheapest(tensors, groups)
        return self.led(self.held(t, form) for t, form in zip(tensors, forms)), held, out

    def _cheapest(self, tensors, groups):
        """The held shape that makes the fewest new nodes, and the form of each operand."""
        whole, choices = math.prod(n for n, _ in groups), []
        candidates = [h for t in tensors if t.size == whole and not t.constant for h in t.helds()]
        for held in [*dict.fromkeys(candidates), tuple(n for n, _ in groups)]:
            forms = self._along(held, groups, len(tensors))
            if forms:
                new = sum((False, form) not in t.forms and not t.constant for t, form in zip(tensors, forms))
                choices.append((new, len(choices), held, forms))
        return min(choices)[2:]

    def _along(self, held, groups, count):
        """Each operand's form where the result is held so; None where the axes held do not stand within groups."""
        ends, parts = bounds(held), bounds([n for n, _ in groups])
        if not set(parts) <= set(ends):
            return None
        forms = [[] for _ in range(count)]
        for n, end in zip(held, ends[1:]):
            group = next(i for i, part in enumerate(parts[1:]) if end <= part)
            for i, form in enumerate(forms):
                form.append(n if groups[group][1][i] else 1)
        return [tuple(form) for form in forms]

    # -------------------------------------------------------------------------------------- two operands

    def _numpy(self, kind, dtype, *tensors):
        with np.errstate(all="ignore"):
            out = OF_NUMPY[kind](*(t.array for t in tensors)).astype(dtype)
        return Tensor(out.shape, dtype, out)

    def exact(self, x):
        """Refuses sums of small integers that may have wrapped, where that would matter."""
        if x.wraps:
            raise Refused(f"what is computed of {x.dtype} could wrap, which i32 does not")
        return x

    def pair(self, kind, a, b):
        """add, sub, mul, div, min, max, pow, or a comparison."""
        compare = kind in COMPARES
        dtype = np.dtype(bool) if compare else a.dtype
        if a.floats != b.floats:
            raise Refused(f"{kind} of {a.dtype} and {b.dtype}")
        if a.constant and b.constant:
            return self._numpy(kind, dtype, a, b)
        if not a.floats and kind in ("div", "pow"):
            raise Refused(f"{kind} of {a.dtype}")
        wraps = not a.floats and kind in RING and (a.dtype.itemsize < 4 or a.wraps or b.wraps)
        if kind not in RING:
            self.exact(a), self.exact(b)
        fused = self._affine(kind, a, b)
        if fused is not None:
            return fused
        (va, vb), held, out = self.beside(a, b)
        if kind in RING:
            value = getattr(self.g, kind)(va, vb)
        else:
            value = self.g.compare(va, vb, kind) if compare else self.g.binary(va, vb, kind)
        return self.made(value, held, out, dtype, wraps)

    def _affine(self, kind, a, b):
        """x + c, x - c, x c and x / 2^n of one number c."""
        if kind in ("add", "mul") and a.constant:
            a, b = b, a
        if kind not in RING or not (b.constant and b.size == 1 and a.floats) or b.rank > a.rank:
            return None
        number = float(np.asarray(b.array).reshape(()))
        if not np.isfinite(np.float32(number)):
            return None
        scale, offset = {"add": (1.0, number), "sub": (1.0, -number), "mul": (number, 0.0)}[kind]
        out = self.each(a, lambda v: self.g.affine(v, scale, offset))
        out.scaled = (a, number) if kind == "mul" else None
        return out

    def add(self, a, b):
        return self.pair("add", a, b)

    def sub(self, a, b):
        return self.pair("sub", a, b)

    def mul(self, a, b):
        return self.pair("mul", a, b)

    def div(self, a, b):
        return self.pair("div", a, b)

    def where(self, condition, a, b):
        if condition.constant and a.constant and b.constant:
            out = np.where(condition.array, a.array, b.array)
            return Tensor(out.shape, a.dtype, out)
        if a.floats != b.floats:
            raise Refused(f"where of {a.dtype} and {b.dtype}")
        values, held, out = self.beside(condition, a, b)
        return self.made(self.g.where(*values), held, out, a.dtype, a.wraps or b.wraps)

    # ---------------------------------------------------------------------------------------- one operand

    def each(self, x, function, dtype=None, wraps=False):
        """A function of our graph of each element, in the form that x has."""
        for (cells, held), value in x.forms.items():
            return Tensor(x.shape, dtype or x.dtype, forms={(cells, held): function(value)}, wraps=wraps)
        value, held = self.root(x)
        return self.made(function(value), held, x.shape, dtype or x.dtype, wraps)

    def unary(self, kind, x):
        if kind == "neg" and x.wraps:
            return self.each(x, lambda v: self.g.unary(v, "neg"), wraps=True)
        self.exact(x)
        dtype = bool if kind == "not" else x.dtype
        if x.constant and kind in OF_NUMPY:
            return self._numpy(kind, dtype, x)
        if not x.floats and kind not in ("abs", "neg", "sign", "not"):
            raise Refused(f"{kind} of {x.dtype}")
        wraps = not x.floats and kind in ("abs", "neg") and x.dtype.itemsize < 4
        return self.each(x, lambda v: self.g.unary(v, kind), dtype, wraps)

    def act(self, kind, x, param=0.0):
        return self.each(x, lambda v: self.g.activation(v, kind, param))

    def affine(self, x, scale, offset=0.0):
        return self.each(x, lambda v: self.g.affine(v, scale, offset))

    def truncated(self, x):
        """Towards zero."""
        return self.where(self.pair("less", x, self.scalar(0)), self.unary("ceil", x), self.unary("floor", x))

    def to_float(self, x, dtype=np.float32):
        if x.floats:
            return self.typed(x, dtype)
        self.exact(x)
        if x.by_size is not None:
            x = self.measured(x)
        if x.constant:
            return Tensor(x.shape, dtype, x.array.astype(dtype))
        return self.each(x, lambda v: self.g.convert(v, "f32"), dtype)

    def to_int(self, x, dtype=np.int32):
        """Of f32 whole numbers, or rounded to even."""
        if x.constant:
            return Tensor(x.shape, dtype, np.rint(x.array.astype(np.float64)).astype(dtype))
        return self.each(x, lambda v: self.g.convert(v, "i32"), dtype)

    def truth(self, x):
        """bool of anything."""
        if x.dtype == bool:
            return x
        return self.pair("not_equal", self.exact(x), self.scalar(0, x.dtype))

    @keeps
    def typed(self, x, dtype):
        """The same numbers under another ONNX type of the same kind."""
        if x.constant:
            out = Tensor(x.shape, dtype, x.array.astype(dtype))
            out.by_size = x.by_size
            return out
        return Tensor(x.shape, dtype, forms=x.forms, wraps=x.wraps)

    def int_div(self, a, b):
        """Towards zero, exact: a quotient of f32, and what it leaves, divided again."""
        self.exact(a), self.exact(b)
        divisor, total, left = self.to_float(b), None, a
        for _ in range(3):
            part = self.typed(self.to_int(self.truncated(self.div(self.to_float(left), divisor))), a.dtype)
            total = part if total is None else self.typed(self.add(total, part), a.dtype)
            left = self.typed(self.sub(a, self.mul(total, b)), a.dtype)
            total.wraps = left.wraps = False
        # What is left has the sign of a, or the quotient is one too large.
        zero = self.scalar(0, a.dtype)
        wrong = self.pair("and", self.pair("not_equal", left, zero),
                          self.pair("xor", self.pair("less", left, zero), self.pair("less", a, zero)))
        step = self.where(self.pair("xor", self.pair("less", a, zero), self.pair("less", b, zero)),
                          self.scalar(1, np.int32), self.scalar(-1, np.int32))
        out = self.where(wrong, self.add(total, self.typed(step, a.dtype)), total)
        out.wraps = False
        return out
