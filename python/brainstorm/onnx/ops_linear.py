"""ONNX products of matrices: MatMul, Gemm, Einsum."""

import math

import numpy as np

from .fused import Behind
from .refused import Refused
from .sizes import broadcast_shapes
from .table import op
from .tensors import broadcast, narrowed


def matmul_of(n, a, b, stem=None):
    """As numpy.matmul, of vectors too."""
    m = n.m
    if not (a.floats and b.floats):
        raise Refused(f"a product of {a.dtype} and {b.dtype}")
    vector_a, vector_b = a.rank == 1, b.rank == 1
    a = m.reshape(a, (1, *a.shape)) if vector_a else a
    b = m.reshape(b, (*b.shape, 1)) if vector_b else b
    if b.constant and not a.constant and math.prod(b.shape[:-2]) == 1 and np.isfinite(b.array.astype(np.float32)).all():
        weight, bias, act = narrowed("a weight", b.array).reshape(b.shape[-2:]).T.copy(), None, {}
        if n.op == "MatMul" and not vector_b:
            rank = max(a.rank, b.rank) - vector_a
            behind = Behind(n, rank, len(weight), rank - 1)
            (weight, bias), act = behind.weights(weight, None), behind.act
        out = m.linear(a, np.ascontiguousarray(weight), bias, stem or n.stem, act)
        out = m.reshape(out, broadcast_shapes(a.shape[:-2], b.shape[:-2]) + out.shape[-2:])
    else:
        out = m.matmul(a, b, scale_behind(n))
    shape = list(out.shape)
    if vector_b:
        shape.pop()
    if vector_a:
        shape.pop(-1 if vector_b else -2)
    return m.reshape(out, shape)


def scale_behind(n):
    """The number by which all that reads a product multiplies it, which the product then does; 0: none."""
    node = n.walk.only_reader(n.outputs[0]) if n.op == "MatMul" else None
    if node is None or node.op not in ("Mul", "Div"):
        return 0.0
    at = list(node.proto.input).index(n.outputs[0])
    other = node.get(1 - at)
    alone = other is not None and other.constant and other.size == 1 and other.rank <= 1 and other.floats
    if not alone or min(n[0].rank, n[1].rank) < 2 or node.op == "Div" and at == 1:
        return 0.0
    number = float(np.ravel(other.array)[0])
    number = 1 / number if node.op == "Div" and number else number
    if not np.isfinite(number) or number == 0:
        return 0.0
    n.walk.done(node, n.outputs[0])
    return number


@op("MatMul")
def matmul(n):
    return matmul_of(n, n[0], n[1])


@op("Gemm")
def gemm(n):
    m, a, b, c = n.m, n[0], n[1], n.get(2)
    alpha, beta = n.attr("alpha", 1.0), n.attr("beta", 1.0)
    if not a.floats:
        raise Refused(f"Gemm of {a.dtype}")
    if (a.rank, b.rank) != (2, 2):
        raise Refused(f"Gemm of {list(a.shape)} and {list(b.shape)}, which are no matrices")
    made = a.shape[n.attr("transA", 0)], b.shape[1 - n.attr("transB", 0)]
    if c is not None and broadcast(c.shape, made) != made:
        raise Refused(f"{list(c.shape)} is added to {list(made)}")
    a = m.transpose(a, (1, 0)) if n.attr("transA", 0) else a
    if b.constant and not a.constant:
        weight = narrowed("a weight", b.array).astype(np.float64) * alpha
        weight = (weight if n.attr("transB", 0) else weight.T).astype(np.float32)
        bias = None
        if c is not None and c.constant and c.shape[-1:] in ((), (1,), (len(weight),)) and c.size in (1, len(weight)):
            bias = np.broadcast_to(np.ravel(c.array).astype(np.float32) * np.float32(beta), len(weight)).copy()
            c = None
        act = {}
        if c is None:
            behind = Behind(n, 2, len(weight), 1)
            (weight, bias), act = behind.weights(weight, bias), behind.act
        out = m.linear(a, np.ascontiguousarray(weight), bias, n.stem, act)
    else:
        out = m.matmul(a, m.transpose(b, (1, 0)) if n.attr("transB", 0) else b)
        out = m.affine(out, alpha) if alpha != 1 else out
    if c is None:
        return out
    return m.add(out, m.mul(c, m.scalar(beta, c.dtype)) if beta != 1 else c)


# ------------------------------------------------------------------------------------------------ Einsum

def expanded_terms(equation, operands):
    """Lists of axes of each operand and of the result; axes of an ellipsis are numbers."""
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(operands):
        raise Refused(f"Einsum {equation!r} of {len(operands)} operands")
    most = max([x.rank - len(t.replace("...", "")) for t, x in zip(terms, operands) if "..." in t], default=0)

    def letters(term, count):
        head, dots, tail = term.partition("...")
        return [*head, *(range(most - count, most) if dots else ()), *tail]

    inputs = [letters(t, x.rank - len(t.replace("...", ""))) for t, x in zip(terms, operands)]
    if "->" in equation:
        return inputs, letters(right, most)
    once = sorted(c for c in set(left) if c.isalpha() and left.count(c) == 1)
    return inputs, [*range(most), *once]


@op("Einsum")
def einsum(n):
    m, operands = n.m, [n[i] for i in range(len(n.inputs))]
    if any(not x.floats for x in operands):
        raise Refused("Einsum of whole numbers")
    inputs, wanted = expanded_terms(n.attr("equation"), operands)
    terms = [diagonal(m, x, axes) for x, axes in zip(operands, inputs)]
    x, axes = terms[0]
    for i, (y, others) in enumerate(terms[1:]):
        later = {c for _, t in terms[i + 2:] for c in t} | set(wanted)
        x, axes = contracted(m, x, axes, y, others, later)
    lost = [i for i, c in enumerate(axes) if c not in wanted]
    x, axes = (m.reduce(x, "sum", lost, keep=False) if lost else x), [c for c in axes if c in wanted]
    return m.transpose(x, [axes.index(c) for c in wanted]) if axes != wanted else x


def diagonal(m, x, axes):
    """Axes of one letter, which stand for their diagonal, become one."""
    for letter in dict.fromkeys(axes):
        while axes.count(letter) > 1:
            first = axes.index(letter)
            second = axes.index(letter, first + 1)
            size = x.shape[first]
            rest = [i for i in range(len(axes)) if i not in (first, second)]
            x = m.transpose(x, [*rest, first, second])
            x = m.reshape(x, (*x.shape[:-2], size * size))
            x = m.take(x, [i * (size + 1) for i in range(size)], len(rest))
            axes = [axes[i] for i in rest] + [letter]
    return x, axes


def contracted(m, a, of_a, b, of_b, later):
    """The product of two operands, summed over letters that nothing needs later."""
    batch = [c for c in of_a if c in of_b and c in later]
    summed = [c for c in of_a if c in of_b and c not in later]
    rows, columns = [c for c in of_a if c not in of_b], [c for c in of_b if c not in of_a]
    if any(a.shape[of_a.index(c)] != b.shape[of_b.index(c)] for c in batch + summed):
        raise Refused("Einsum that broadcasts")
    size = lambda x, of, letters: [x.shape[of.index(c)] for c in letters]
    sizes = size(a, of_a, batch), size(a, of_a, rows), size(a, of_a, summed), size(b, of_b, columns)
    lead, up, inner, across = (math.prod(s) for s in sizes)
    a = m.reshape(m.transpose(a, [of_a.index(c) for c in batch + rows + summed]), (lead, up, inner))
    b = m.reshape(m.transpose(b, [of_b.index(c) for c in batch + summed + columns]), (lead, inner, across))
    out = m.matmul(a, b)
    return m.reshape(out, [*sizes[0], *sizes[1], *sizes[3]]), batch + rows + columns
