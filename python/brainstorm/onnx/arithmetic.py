"""What NumPy can do with arrays, done with tensors of our graph: axes moved, cut, joined, reduced and multiplied.

Handlers of ONNX ops are written in these terms. Each method takes and gives Tensors of ONNX shapes of any rank, merges
axes to the rank that the library's ops take, and refuses what does not fit. What is constant is computed here.
"""

import math

import numpy as np

from .elements import Elements
from .refused import Refused
from .sizes import Counting, alike, broadcast_shapes, is_open, of_sizes
from .tensors import MAX_RANK, Tensor, axes_of, axis_of, fitted, keeps, range_of, sized, within

MAX_AXES = 6      # of reshape and transpose
MAX_PARTS = 8     # of a concat
MAX_IMAGES = 64   # that are computed one after the other
MAX_LINES = 2**14  # that a list of indices puts into another order, where a transpose would do
NESTED = {"sum": "sum", "max": "max", "min": "min", "prod": "prod", "mean": "mean", "log_sum_exp": "log_sum_exp",
          "sum_square": "sum", "l1": "sum", "l2": "sum"}  # what reduces further what was reduced so


class Tensors(Counting, Elements):
    # ---------------------------------------------------------------------------------------------- shapes

    @keeps
    def reshape(self, x, shape):
        """No node: the same elements in the same order."""
        shape = sized(shape)
        if math.prod(shape) != x.size:
            raise Refused(f"{list(x.shape)} is reshaped to {list(shape)}")
        array = x.array.reshape(shape) if x.constant else None
        out = Tensor(shape, x.dtype, array, x.forms if array is None else None, x.wraps)
        out.by_size = None if x.by_size is None else [a.reshape(shape) for a in x.by_size]
        return out

    @keeps
    def transpose(self, x, order):
        if x.constant:
            return Tensor([x.shape[i] for i in order], x.dtype, np.ascontiguousarray(x.array.transpose(order)))
        out = self._transposed(x, order)
        out.turned = x, tuple(order)
        return out

    def _transposed(self, x, order):
        shape = [x.shape[i] for i in order]
        merged = []  # runs of axes that stay beside each other
        for axis in (i for i in order if x.shape[i] != 1):
            between = range(merged[-1][-1] + 1, axis) if merged else ()
            if merged and axis > merged[-1][-1] and all(x.shape[i] == 1 for i in between) and \
                    not is_open(x.shape[axis], x.shape[merged[-1][-1]]):
                merged[-1].append(axis)
            else:
                merged.append([axis])
        if len(merged) <= 1:
            return self.reshape(x, shape)
        if len(merged) > MAX_AXES:
            raise Refused(f"a transpose of {len(merged)} axes")
        runs = sorted(merged)
        sizes = [math.prod(x.shape[i] for i in run) for run in runs]
        order = [runs.index(run) for run in merged]
        made = [sizes[i] for i in order]
        lines = math.prod(sizes[:-1])
        if order[-1] == len(runs) - 1 and 1 < lines <= MAX_LINES and not is_open(*x.shape) and \
                self.standing(self.reshape(x, (lines, sizes[-1])), 0, 1):
            # Lines of a form that there is come to stand in another order: channels that are shuffled.
            places = np.arange(lines).reshape(sizes[:-1]).transpose(order[:-1]).ravel()
            return self.reshape(self.take(self.reshape(x, (lines, sizes[-1])), places, 0), shape)
        if len(runs) <= MAX_RANK:
            value = self.g.transpose(self.held(x, sizes), order)
            return self.made(value, made, shape, x.dtype, x.wraps)
        value, _ = self.root(x)
        value = self.g.transpose(self.g.reshape(value, sizes), order)
        held = fitted(made)
        return self.made(self.g.reshape(value, list(held)), held, shape, x.dtype, x.wraps)

    @keeps
    def slice(self, x, axis, start, length):
        shape = x.shape[:axis] + (length,) + x.shape[axis + 1:]
        if alike(length, x.shape[axis]):
            return x
        if is_open(x.shape[axis], start, length):
            return self.slice_open(x, axis, start, length)
        if x.constant:
            return Tensor(shape, x.dtype, x.array.take(range(start, start + length), axis))
        if length < 1:
            return self.nothing(shape, x.dtype)
        value, held, at = self.around(x, axis)
        held = held[:at] + (length,) + held[at + 1:]
        return self.made(self.g.slice(value, at, start, length), held, shape, x.dtype, x.wraps)

    @keeps
    def select(self, x, indices, axis):
        """x with indices, one axis of constants or numbers of a run, in the place of an axis."""
        count = indices.shape[0]
        shape = x.shape[:axis] + (count,) + x.shape[axis + 1:]
        if indices.by_size is not None and count == 1:
            return self.slice(x, axis, of_sizes([a[0] for a in indices.by_size], self.seen.turn), 1)
        if indices.constant and indices.by_size is None:
            i = indices.array
            if x.constant:
                return Tensor(shape, x.dtype, x.array.take(i, axis))
            if not count:
                return self.nothing(shape, x.dtype)
            if np.array_equal(i, np.arange(i[0], i[0] + count)):
                return self.slice(x, axis, int(i[0]), count)
        value, held, at = self.around(x, axis)
        held = held[:at] + (count,) + held[at + 1:]
        value = self.g.select(value, self.held(indices, (count,)), at)
        return self.made(value, held, shape, x.dtype, x.wraps)

    def images(self, x, held, made, shape, function, dtype=None):
        """What a function gives of each row of x, a cell of shape `held`: cells of shape `made`. Where rows are no
        domain of their own, as in a path, a loop or a row of a batch, it is computed of one after the other."""
        rows, dtype = x.size // math.prod(held), dtype or x.dtype
        if rows == 1 or self.leader is None:
            return self.of_cells(function(self.cells(x, held)), rows, made, shape, dtype)
        if rows > MAX_IMAGES:
            raise Refused(f"{rows} images in a path, in the body of a loop, or in a row of a free batch, expected "
                          f"{MAX_IMAGES} at most")
        x, one = self.reshape(x, (rows, *held)), (1, *made)
        parts = [self.made(function(self.cells(self.slice(x, 0, i, 1), held)), made, one, dtype) for i in range(rows)]
        return self.reshape(self.concat(parts, 0), shape)

    def take(self, x, numbers, axis):
        """numbers: a range, a list or an array."""
        self.budget.charge("indices", 4 * len(numbers))
        return self.select(x, self.array(numbers, np.int32), axis)

    def nothing(self, shape, dtype):
        """A tensor without elements: all that there is of it is known."""
        return Tensor(shape, dtype, np.zeros(shape, dtype))

    def expand(self, x, shape):
        """x, broadcast."""
        shape = sized(broadcast_shapes(x.shape, sized(shape)))
        if 0 in shape:
            return self.nothing(shape, x.dtype)
        if x.constant and not is_open(*shape):
            self.budget.charge("a constant", x.dtype.itemsize * math.prod(shape))
            return Tensor(shape, x.dtype, np.broadcast_to(x.array, shape).copy())
        rank, axis = len(shape), 0
        x = self.reshape(x, (1,) * (rank - x.rank) + x.shape)
        while axis < rank:  # axes beside each other that are repeated, at once
            end = axis
            while end < rank and x.shape[end] == 1 and not is_open(shape[end]):
                end += 1
            times = math.prod(shape[axis:end])
            if times > 1:
                flat = self.reshape(x, x.shape[:axis] + (1,) + x.shape[end:])
                self.budget.charge("indices", 4 * times)
                x = self.reshape(self.take(flat, np.zeros(times, np.int32), axis), shape[:end] + x.shape[end:])
            elif end == axis and is_open(shape[axis]) and x.shape[axis] == 1:
                x = self.repeated(x, axis, shape[axis])
            axis = max(end, axis + 1)
        return x

    def concat(self, tensors, axis):
        tensors = [t for t in tensors if t.shape[axis] != 0] or tensors[:1]
        shape = list(tensors[0].shape)
        shape[axis] = sum(t.shape[axis] for t in tensors)
        if any(t.shape[:axis] != tensors[0].shape[:axis] or t.shape[axis + 1:] != tensors[0].shape[axis + 1:]
               for t in tensors):
            raise Refused("a concatenation of " + ", ".join(str(list(t.shape)) for t in tensors))
        if all(t.constant for t in tensors):
            return Tensor(shape, tensors[0].dtype, np.concatenate([t.array for t in tensors], axis))
        if len(tensors) == 1:
            return tensors[0]
        if len(tensors) > MAX_PARTS:
            parts = [self.concat(tensors[i:i + MAX_PARTS], axis) for i in range(0, len(tensors), MAX_PARTS)]
            return self.concat(parts, axis)
        first = next(t for t in tensors if not t.constant)
        _, held, at = self.around(first, axis)
        values = self.led((self.held(t, held[:at] + (t.shape[axis],) + held[at + 1:]) for t in tensors), True)
        held = held[:at] + (shape[axis],) + held[at + 1:]
        out = self.made(self.g.concat(values, at), held, shape, first.dtype, any(t.wraps for t in tensors))
        known = [range_of(t) for t in tensors]
        return out if out.floats else within(out, min(r[0] for r in known), max(r[1] for r in known))

    def pad(self, x, before, after, number=0):
        """A border of one number."""
        sized(n + low + high for n, low, high in zip(x.shape, before, after))
        if is_open(*x.shape) and x.floats and not any([*before[:-2], *after[:-2]]):
            return self._padded_image(x, before, after, number)
        for axis, (low, high) in enumerate(zip(before, after)):
            for count, first in ((low, True), (high, False)):
                if count > 0:
                    edge = self._border(x, axis, count, number)
                    x = self.concat([edge, x] if first else [x, edge], axis)
        return x

    def _padded_image(self, x, before, after, number):
        sides = [(0, 0)] * 2 + list(zip(before, after))
        (top, bottom), (left, right) = sides[-2:]
        held = (math.prod(x.shape[:-2]), *((1, *x.shape)[-2:]))
        value = self.g.pad(self.held(x, held), top, bottom, left, right, float(number))
        shape = [n + low + high for n, low, high in zip(x.shape, before, after)]
        return self.made(value, (held[0], held[1] + top + bottom, held[2] + left + right), shape, x.dtype)

    def _border(self, x, axis, count, number):
        shape = x.shape[:axis] + (count,) + x.shape[axis + 1:]
        if is_open(*shape):  # as a line of x is, of which it is never true that it is itself and not
            line = self.slice(x, axis, 0, 1)
            never = self.pair("and", *(self.pair(kind, line, line) for kind in ("equal", "not_equal")))
            line = self.where(never, line, self.scalar(number, x.dtype))
            return self.take(line, np.zeros(count, np.int32), axis)
        self.budget.charge("a border", x.dtype.itemsize * math.prod(shape))
        return Tensor(shape, x.dtype, np.full(shape, number, x.dtype))

    # ------------------------------------------------------------------------------------------ reductions

    def reduce(self, x, kind, axes, keep=True):
        axes = sorted(axes_of(axes, x.rank))
        kept = [1 if i in axes else n for i, n in enumerate(x.shape)]
        shape = kept if keep else [n for i, n in enumerate(x.shape) if i not in axes]
        root, runs = kind == "l2", []
        kind = "sum_square" if root else kind
        for axis in axes:
            if runs and all(x.shape[i] == 1 for i in range(runs[-1][-1] + 1, axis)):
                runs[-1].append(axis)
            else:
                runs.append([axis])
        for i, run in enumerate(runs or [[]]):
            x = self._reduce_run(x, kind if i == 0 else NESTED[kind], run)
        return self.reshape(self.unary("sqrt", x) if root else x, shape)

    def _reduce_run(self, x, kind, run):
        first, last = (run[0], run[-1]) if run else (0, -1)
        n = math.prod(x.shape[first:last + 1])
        shape = x.shape[:first] + (1,) * (last + 1 - first) + x.shape[last + 1:]
        stands = self.standing(x, first, len(run)) if x.floats and last - first + 1 == len(run) > 0 else None
        count = len(run)
        if not stands and x.floats and last == x.rank - 1 and is_open(n):
            stands, count = self.ending(x, first)
        if stands:
            value, held, at = stands
            held = held[:at] + (1,) * count + held[at + count:]
            return self.made(self.g.reduce(value, kind, at, 1, count), held, shape, x.dtype)
        merged = self.reshape(x, x.shape[:first] + (n,) + x.shape[last + 1:])
        if not x.floats:
            return self.reshape(self._reduce_int(merged, kind, first), shape)
        value, held, at = self.around(merged, first)
        held = held[:at] + (1,) + held[at + 1:]
        return self.made(self.g.reduce(value, kind, at, keep=1), held, shape, x.dtype)

    def _reduce_int(self, x, kind, axis):
        """Of i32, exactly: halves are combined until one is left."""
        if kind in ("l1", "sum_square"):
            x = self.unary("abs", x) if kind == "l1" else self.mul(x, x)
        op = {"l1": "add", "sum_square": "add", "sum": "add", "prod": "mul", "max": "max", "min": "min"}.get(kind)
        if op is None:
            raise Refused(f"{kind} over {x.dtype}")
        while x.shape[axis] > 1:
            half = x.shape[axis] // 2
            both = self.pair(op, self.slice(x, axis, 0, half), self.slice(x, axis, half, half))
            odd = x.shape[axis] % 2
            x = self.concat([both, self.slice(x, axis, 2 * half, 1)], axis) if odd else both
        return x

    def softmax(self, x, axis):
        """Over one axis."""
        axis = axis_of(axis, x.rank)
        if axis != x.rank - 1:
            order = [i for i in range(x.rank) if i != axis] + [axis]
            moved = self.softmax(self.transpose(x, order), x.rank - 1)
            return self.transpose(moved, [order.index(i) for i in range(x.rank)])
        value, held = self.last(x)
        return self.made(self.g.softmax(value), held, x.shape, x.dtype)

    # -------------------------------------------------------------------------------------------- products

    def matmul(self, a, b, scale=0.0):
        """As numpy.matmul, of two axes or more."""
        given, kept = (a, b), scale
        lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        (m, k), n = a.shape[-2:], b.shape[-1]
        if b.shape[-2] != k:
            raise Refused(f"a product of {list(a.shape)} and {list(b.shape)}")
        shape, batch = (*lead, m, n), math.prod(lead)
        (a, of_a), (b, of_b) = (x.scaled or (x, 1.0) for x in (a, b))  # so PyTorch writes attention
        with np.errstate(over="ignore", under="ignore"):
            scale = float(np.float32((scale or 1.0) * of_a * of_b))
        if not np.isfinite(scale) or scale == 0:
            (a, b), scale = given, kept
        scale = 0.0 if scale == 1 else scale
        lines = self.lines_of_columns(b)
        b, last, turned = (b, (k, n), 0) if lines is None else (lines, (n, k), 1)
        if math.prod(b.shape[:-2]) == 1:  # all lines of a beside each other
            values = self.led([self.held(a, (a.size // k, k)), self.held(b, last)])
            return self.made(self.g.matmul(*values, turned, scale), (a.size // k, n), shape, a.dtype)
        a, b = self.expand(a, (*lead, m, k)), self.expand(b, (*lead, *last))
        values = self.led([self.held(a, (batch, m, k)), self.held(b, (batch, *last))])
        return self.made(self.g.matmul(*values, turned, scale), (batch, m, n), shape, a.dtype)

    def lines_of_columns(self, b):
        """b with its last two axes the other way, if its columns were lines before a transpose: the product reads them
        as they were. None: it is read as it is."""
        if b.turned is None:
            return None
        x, order = b.turned
        return self.transpose(x, (*order[:-2], order[-1], order[-2])) if order[-2] == x.rank - 1 else None

    def linear(self, x, weight, bias=None, stem="linear", act=None):
        """x [..., K] by a constant weight [out, K] of NumPy. act: arguments of a layer."""
        value, held = self.last(x)
        out = weight.shape[0]
        value = self.g.linear(value, self.names.fresh(stem), weight, bias, **(act or {}))
        return self.made(value, (*held[:-1], out), (*x.shape[:-1], out), x.dtype)
