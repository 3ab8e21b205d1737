# tags: long needs:gguf,numpy
"""test_large_python.py: a mixture of 48 layers and 128 experts, written by python/brainstorm, runs as
test_large.c says.

Owns: the file, which is that of tests/large_net.h, and the limits that the exporter shares with the library. Relies on:
$BUILD/tests/test_large, python/. Must never leave a file behind.
"""

import os
import subprocess
import sys
import tempfile
import time

try:
    import gguf  # noqa: F401
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing} (pip install -r tools/requirements.txt)\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import brainstorm as bm

LAYERS, EXPERTS, K, D, F, ROWS = 48, 128, 8, 64, 32, 3
PATTERNS, ELEMENTS = 13, 512 * 64
results = {True: 0, False: 0}


def report(name, passed, why=""):
    results[bool(passed)] += 1
    print(f"ok {name}" if passed else f"FAIL {name}: {why}")


def pattern(p):
    """As large_element(): mostly zero, else -1 or 1."""
    with np.errstate(over="ignore"):
        x = (np.uint32(p * 65537) + np.arange(ELEMENTS, dtype=np.uint32)) * np.uint32(2654435761)
        x ^= x >> np.uint32(15)
        x *= np.uint32(2246822519)
        x ^= x >> np.uint32(13)
    return np.where(x % 8 != 0, 0, np.where(x & 64, 1, -1)).astype(np.float16)


def mixture():
    patterns, number = [pattern(p) for p in range(PATTERNS)], 0

    def weight(out, inputs):
        nonlocal number
        number += 1
        return patterns[(number - 1) % PATTERNS][:out * inputs].reshape(out, inputs)

    g = bm.Graph("mixture")
    x = g.rows(g.input("x", "f32", [g.symbol("rows", ROWS), D]))
    for layer in range(LAYERS):
        router = g.route(g.linear(x, f"l{layer}", weight(EXPERTS, D)), f"r{layer}", "topk", EXPERTS, k=K)
        out = []
        for e in range(EXPERTS):
            with g.branch(router, e, f"l{layer}.e{e}", x) as rows:
                rows = g.linear(rows, f"l{layer}.e{e}.up", weight(F, D), act="relu")
                out.append(g.linear(rows, f"l{layer}.e{e}.down", weight(D, F)))
        x = g.clip(g.gather(router, out, residual=x, mode="weighted"), -8, 8)
    g.output("y", g.collect(x))
    return g


def test_mixture(folder):
    path = os.path.join(folder, "mixture.gguf")
    program = os.path.join(os.environ.get("BUILD", "build"), "tests", "test_large")
    start = time.monotonic()
    mixture().write(path)
    print(f"  {LAYERS} x {EXPERTS} written in {time.monotonic() - start:.1f} s: {os.path.getsize(path) >> 20} MB")
    done = subprocess.run([*os.environ.get("RUN", "").split(), program, path], capture_output=True, text=True)
    print("".join(f"  {line}\n" for line in done.stdout.replace(folder, "").splitlines()), end="")
    report("the library opens, plans and runs it as the oracle says", done.returncode == 0, done.stderr or done.stdout)


def refuses(name, action):
    try:
        action()
        report(f"the exporter refuses {name}", False, "it does not")
    except ValueError as error:
        report(f"the exporter refuses {name}: {error}", True)


def test_limits():
    g = bm.Graph()
    x = g.input("x", "f32", [40, 1])
    rows = g.rows(x)
    r = g.route(rows, "most", "label", 32767)
    report("and takes 32,767 paths", r.paths == 32767)
    refuses("32,768 paths", lambda: g.route(rows, "more", "label", 32768))
    refuses("no path", lambda: g.route(rows, "none", "label", 0))
    refuses("path 32,767 of 32,767", lambda: g.scatter(r, 32767, rows))
    refuses("more paths a cell than there are", lambda: g.route(rows, "k", "topk", 4, k=5))
    refuses("a floor without a budget", lambda: g.route(rows, "f", "topk", 4, k=2, floor=5))
    refuses("a floor below 0", lambda: g.route(rows, "f", "budget", 2, cost=[1, 2], floor=-1))
    refuses("a floor beyond 2^24", lambda: g.route(rows, "f", "budget", 2, cost=[1, 2], floor=2**24 + 1))
    refuses("a baseline that is no variant", lambda: g.route(rows, "f", "budget", 2, cost=[1, 2], baseline=7))
    refuses("a fallback of a budget", lambda: g.route(rows, "f", "budget", 2, cost=[1, 2], fallback=1))
    refuses("a baseline without a budget", lambda: g.route(rows, "f", "threshold", 2, baseline=1))
    refuses("a spill path without a capacity", lambda: g.route(rows, "s", "topk", 4, k=2, spill=1))
    refuses("a spill path beyond the last", lambda: g.route(rows, "s", "capacity", 2, capacity=3, spill=3))
    refuses("a capacity of 0", lambda: g.route(rows, "c", "capacity", 2, k=1))
    refuses("half a kernel and more around a pool", lambda: g.pool2d(x, "max", kernel=2, pad=2, padding="explicit"))
    refuses("a router's name twice", lambda: g.route(rows, "most", "label", 4))
    refuses("an input's name twice", lambda: g.input("x", "f32", [4]))
    refuses("an output of an input's name", lambda: g.output("x", x))
    refuses("an extent beyond 2^30", lambda: g.input("far", "f32", [2**30 + 1]))
    refuses("no extent", lambda: g.input("nothing", "f32", [0]))
    refuses("a fifth dimension", lambda: g.input("deep", "f32", [1, 1, 1, 1, 1]))
    refuses("1,025 times a symbol", lambda: g.input("wide", "f32", [g.symbol("s", 4) * 1025]))
    refuses("a symbol's maximum beyond 2^30", lambda: g.symbol("t", 2**30 + 1))
    refuses("a concat of nine", lambda: g.concat([x] * 9, axis=0))
    full = bm.Graph()
    full.symbols = [("s", 1)] * 65535
    refuses("65,536 symbols", lambda: full.symbol("s", 1))
    full.nodes = [None] * 2**24
    refuses("2^24 + 1 nodes", lambda: full.input("x", "f32", [1]))
    paths = bm.Graph()
    cells = paths.rows(paths.input("x", "i32", [4, 1]))
    paths.n_paths = 2**28 - 3
    refuses("2^28 + 1 paths of all routers", lambda: paths.route(cells, "r", "label", 4))


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_limits()
        test_mixture(folder)
    print(f"{results[True]} passed, {results[False]} failed")
    return results[False] != 0


if __name__ == "__main__":
    sys.exit(main())
