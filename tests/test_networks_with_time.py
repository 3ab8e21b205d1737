# tags: plain
"""test_networks_with_time.py: the programs of docs/networks_with_time.md are short, are what the page shows, and
compute what a plain reference in double does.

Owns: the reference, in Python's floats. Relies on: $BUILD/ragged_lstm, $BUILD/greedy_decoder, $BUILD/tree_lstm;
lengths.py. Must never: look at how the programs compute. (The page's Python: test_gguf_python.py.)
"""

import math
import os
import re
import subprocess
import sys

from lengths import functions

PROGRAM = [*os.environ.get("RUN", "").split()]
BUILD = os.environ.get("BUILD", "build")
PAGE = "docs/networks_with_time.md"
TOLERANCE = 1.5e-5  # five places are printed
MARGIN = 1e-3       # by which a reference's best word must win, for f32 to come to the same one
results = {True: 0, False: 0}


def check(name, good, why=""):
    results[bool(good)] += 1
    print(f"ok {name}" if good else f"FAIL {name}: {why}")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


# --- the reference --------------------------------------------------------------------------------------


class Numbers:
    """The programs' generator: exact in f32, so the same numbers here."""

    def __init__(self, seed, width):
        self.seed, self.width = seed, width

    def list(self, count):
        made = []
        for _ in range(count):
            self.seed = (self.seed * 1664525 + 1013904223) % 2**32
            made.append(((self.seed >> 8) / 2**24 - 0.5) * self.width)
        return made

    def matrix(self, rows, columns):
        return [self.list(columns) for _ in range(rows)]


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def product(matrix, x):
    return [sum(w * v for w, v in zip(row, x)) for row in matrix]


def sums(*vectors):
    return [sum(values) for values in zip(*vectors)]


def lstm_lines():
    """What ragged_lstm prints: row after row and step after step, nothing of padding."""
    rows, width, units = 4, 6, 16
    numbers = Numbers(1, 1)
    w_ih, w_hh = numbers.matrix(4 * units, width), numbers.matrix(4 * units, units)
    b_ih, b_hh, w_y, b_y = (numbers.list(n) for n in (4 * units, 4 * units, units, 1))
    h, c = [[0.0] * units for _ in range(rows)], [[0.0] * units for _ in range(rows)]
    for steps, lengths in (6, (6, 1, 0, 4)), (3, (2, 3, 1, 0)):
        x = [numbers.matrix(steps, width) for _ in range(rows)]
        for row, length in enumerate(lengths):
            y = [0.0] * steps
            for t in range(length):
                gates = sums(product(w_ih, x[row][t]), b_ih, product(w_hh, h[row]), b_hh)
                i, f, g, o = (gates[k * units:(k + 1) * units] for k in range(4))
                c[row] = [sigmoid(f[u]) * c[row][u] + sigmoid(i[u]) * math.tanh(g[u]) for u in range(units)]
                h[row] = [sigmoid(o[u]) * math.tanh(c[row][u]) for u in range(units)]
                y[t] = product([w_y], h[row])[0] + b_y[0]
            yield " ".join([f"row {row}, length {length}:", *(f"{value:.5f}" for value in y)])
        yield f"computed: {sum(lengths)} steps of {rows * steps}"


def gru(w_ih, w_hh, x, h):
    ih, hh, n = product(w_ih, x), product(w_hh, h), len(h)
    r = [sigmoid(ih[u] + hh[u]) for u in range(n)]
    z = [sigmoid(ih[n + u] + hh[n + u]) for u in range(n)]
    new = [math.tanh(ih[2 * n + u] + r[u] * hh[2 * n + u]) for u in range(n)]
    return [(1 - z[u]) * new[u] + z[u] * h[u] for u in range(n)]


def decoded(most):
    """The tokens of each row: until token 0, but at most `most`; and by how much the closest decision was won."""
    words, width, units = 20, 8, 16
    numbers = Numbers(35, 4)
    embedding, w_ih = numbers.matrix(words, width), numbers.matrix(3 * units, width)
    w_hh, w_words = numbers.matrix(3 * units, units), numbers.matrix(words, units)
    closest = math.inf
    rows = []
    for row, h in enumerate(numbers.matrix(4, units)):
        token, tokens = row + 1, []
        while len(tokens) < most[row] and token != 0:
            h = gru(w_ih, w_hh, embedding[token], h)
            scores = product(w_words, h)
            first, second = sorted(scores, reverse=True)[:2]
            closest = min(closest, first - second)
            token = scores.index(first)
            tokens.append(token)
        rows.append(tokens)
    return rows, closest


def decoder_lines():
    rows, closest = decoded((12, 12, 5, 0))
    check("words of the reference win clearly", closest > MARGIN, f"by {closest}")
    for row, tokens in enumerate(rows):
        yield " ".join([f"row {row}, {len(tokens)} tokens:", *map(str, tokens)])
    yield 'loop "decode" (node 9): cell 1: 13 trips, its bound is 12'
    endless = [row for row, tokens in enumerate(decoded((12,) * 4)[0]) if 0 not in tokens]
    yield f'loop "decode" (node 7): cell {endless[0]}: it would go on after 12 trips, its bound'


def tree_lines():
    """What tree_lstm prints, by recursion: the level and the output of each vertex."""
    width, units = 6, 16
    numbers = Numbers(1, 1)
    w, b = numbers.matrix(4 * units, width), numbers.list(4 * units)
    u_iou, u_f = numbers.matrix(3 * units, units), numbers.matrix(units, units)
    w_y, b_y = numbers.list(units), numbers.list(1)
    children = {2: (0, 1), 5: (3, 4, 2), 6: (7, 8), 9: (6,)}
    x = numbers.matrix(11, width)

    def vertex(v):
        below = [vertex(child) for child in children.get(v, ())]
        own = sums(product(w, x[v]), b)
        iou = sums(own[:3 * units], product(u_iou, sums([0.0] * units, *(h for _, h, _ in below))))
        i, o, u = (iou[k * units:(k + 1) * units] for k in range(3))
        c = [sigmoid(i[k]) * math.tanh(u[k]) for k in range(units)]
        for _, h_child, c_child in below:
            f = sums(own[3 * units:], product(u_f, h_child))
            c = [c[k] + sigmoid(f[k]) * c_child[k] for k in range(units)]
        h = [sigmoid(o[k]) * math.tanh(c[k]) for k in range(units)]
        return 1 + max((level for level, _, _ in below), default=0), h, c

    for v in range(11):
        level, h, _ = vertex(v)
        yield f"vertex {v}, level {level}: {product([w_y], h)[0] + b_y[0]:.5f}"
    yield 'levels "" (node 6): the children of row 0 go round'


# --- page, files and programs ---------------------------------------------------------------------------


def same(a, b):
    """Whether two texts have the same words, numbers with a point being nearly the same."""
    def close(x, y):
        return x == y or ("." in x and "." in y and abs(float(x) - float(y)) <= TOLERANCE)

    lines = [[line.split() for line in text.splitlines()] for text in (a, b)]
    return len(lines[0]) == len(lines[1]) and all(
        len(x) == len(y) and all(map(close, x, y)) for x, y in zip(*lines))


def test_output(name, expected, page):
    said = subprocess.run([*PROGRAM, os.path.join(BUILD, name)], capture_output=True, text=True)
    check(f"{name} computes what the reference does", said.returncode == 0 and same(said.stdout, expected),
          f"{said.stdout}{said.stderr}expected\n{expected}")
    shown = next((block for block in page if block.split()[:2] == expected.split()[:2] and same(block, expected)), None)
    check(f"the page shows what {name} prints", shown is not None, expected)


def builder(path, most):
    """The text of build(), which has `most` lines."""
    text = read(path)
    first, lines = next((at, count) for name, _, at, count in functions(text) if name == "build")
    check(f"what builds the graph of {path} has {most} lines at most", lines <= most, f"{lines}")
    return "\n".join(text.split("\n")[first - 1:first - 1 + lines]) + "\n"


def main():
    page = read(PAGE)
    shown = re.findall(r"^```c\n(.*?)^```$", page, re.M | re.S)
    blocks = [re.sub(r"^    ", "", block, flags=re.M) for block in re.findall(r"(?:^    .*\n)+", page, re.M)]
    lstm, decoder, tree = (f"examples/time/{name}.c" for name in ("ragged_lstm", "greedy_decoder", "tree_lstm"))
    builder(lstm, 30)
    check("the page shows three pieces of C", len(shown) == 3, str(len(shown)))
    check(f"the first is {lstm}", shown[:1] == [read(lstm)])
    check(f"the second is what builds the graph of {decoder}", shown[1:2] == [builder(decoder, 40)])
    check(f"the third is what builds the graph of {tree}", shown[2:] == [builder(tree, 40)])
    test_output("ragged_lstm", "".join(f"{line}\n" for line in lstm_lines()), blocks)
    test_output("greedy_decoder", "".join(f"{line}\n" for line in decoder_lines()), blocks)
    test_output("tree_lstm", "".join(f"{line}\n" for line in tree_lines()), blocks)
    print(f"{results[True]} passed, {results[False]} failed")
    return results[False] != 0


if __name__ == "__main__":
    sys.exit(main())
