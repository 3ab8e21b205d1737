# tags: emulated needs:gguf,numpy
"""test_cuda_ledger.py: `brainstorm plan --device cuda --launches` says what a run launches: figures of small networks,
each worked out by hand.

Without a GPU the emulation of the tests computes. Without the CUDA backend in this build everything is skipped. Relies
on model_rig.py. Must never leave a file behind.
"""

import json
import os
import sys
import tempfile

from model_rig import brainstorm, end, random, report  # first: it finds python/

import numpy as np
from brainstorm import Graph

IN, OUT, PLACE = 8, 32, 4  # columns; bytes of a number


def experts(path, given=2):
    """Each row goes to one of two linears, as its scores say; the results of the first `given` come back."""
    g = Graph("experts")
    n = g.symbol("n", 20)
    x = g.rows(g.input("x", "f32", [n, IN]))
    scores = g.rows(g.input("scores", "f32", [n, 2]), x)
    route = g.route(scores, "route", "top1", paths=2)
    out = []
    for p in range(2):
        with g.branch(route, p, f"expert{p}", x) as y:
            out.append(g.linear(y, f"expert{p}.up", random(OUT, IN), random(OUT)))
    g.output("y", g.collect(g.gather(route, out[:given] + [None] * (2 - given))))
    g.write(path)


def nested(path):
    """Of the rows that go one way two linears share, as other scores say, those that do not go the other."""
    g = Graph("nested")
    n = g.symbol("n", 20)
    x = g.rows(g.input("x", "f32", [n, IN]))
    first, second = (g.rows(g.input(name, "f32", [n, 2]), x) for name in ("scores", "inner"))
    route = g.route(first, "route", "top1", paths=2)
    inside = g.route(g.scatter(route, 0, second), "inside", "top1", paths=2)
    here, out = g.scatter(route, 0, x), []
    for p in range(2):
        with g.branch(inside, p, f"expert{p}", here) as y:
            out.append(g.linear(y, f"expert{p}.up", random(OUT, IN), random(OUT)))
    with g.branch(route, 1, "other", x) as y:
        other = g.linear(y, "other.up", random(OUT, IN), random(OUT))
    g.output("y", g.collect(g.gather(route, [g.gather(inside, out), other])))
    g.write(path)


def halves(path):
    """A row is halved as often as it says."""
    g = Graph("halves")
    n = g.symbol("n", 6)
    x = g.rows(g.input("x", "f32", [n, IN]))
    loop = g.loop(x, "trips", bound=9, count=g.rows(g.input("count", "i32", [n, 1]), x))
    h = g.loop_carry(loop, x)
    last = g.loop_next(loop, h, g.affine(h, 0.5, 0.0))
    g.loop_end(loop)
    g.output("y", g.collect(last))
    g.write(path)


def moves(path):
    """What changes nothing but the place, and what looks alike."""
    g = Graph("moves")
    x = g.input("x", "f32", [6, 8])
    g.output("line", g.affine(g.reshape(x, [48]), 1.5, 0.0))
    g.output("seen", g.affine(g.reshape(g.affine(x, 2.0, 0.0), [48]), 2.5, 0.0))
    g.output("turned", g.affine(g.transpose(x, (1, 0)), 3.0, 0.0))
    g.output("part", g.affine(g.slice(x, axis=1, start=2, length=4), 5.0, 0.0))
    g.write(path)


def long(path):
    """4096 codes as a line: four work items of 1024."""
    g = Graph("long")
    g.output("line", g.reshape(g.input("x", "u8", [8, 512]), [4096]))
    g.write(path)


class Ledger:
    def __init__(self, path, *words):
        status, said = brainstorm("plan", path, "--device", "cuda", "--launches", "--json", *words)
        told = json.loads(said) if status == 0 else {"launches": [], "total": {}}
        self.launches, self.total, self.said = told["launches"], told["total"], said

    def of(self, kernel):
        """The only launch of a kernel."""
        found = [l for l in self.launches if l["kernel"] == kernel]
        return found[0] if len(found) == 1 else {}

    def is_so(self, about, kernel, **wanted):
        launch = self.of(kernel)
        report(f"{about}: {kernel}", all(launch.get(k) == v for k, v in wanted.items()) and launch,
               f"{wanted} expected, not {launch or self.said}")

    def sums(self, name, **wanted):
        report(f"{name}: together", all(self.total.get(k) == v for k, v in wanted.items()),
               f"{wanted} expected, not {self.total or self.said}")


def scores_of(folder, *to):
    path = os.path.join(folder, "scores.npy")
    np.save(path, np.eye(2, dtype=np.float32)[list(to)])
    return "--input", f"scores={path}", "--input", f"x={len(to)}x{IN}"


def test_experts(folder):
    path = os.path.join(folder, "experts.gguf")
    experts(path)
    weights, row, result = (IN * OUT + OUT) * PLACE, IN * PLACE, OUT * PLACE

    few = Ledger(path, *scores_of(folder, 0, 0, 1, 0))
    name = "4 rows for two experts"
    few.is_so(name, "route", node=5, steps=1, times=1, blocks=1, items=1, empty=0, bytes=4 * 2 * PLACE,
              identity_bytes=0, least_bytes=4 * 2 * PLACE)
    # 16 columns an item: two for each expert, whatever it has of the few rows
    few.is_so(name, "linear", node=7, op="linear", name="expert0.up", steps=2, blocks=4, items=4, empty=0,
              bytes=4 * (row + result) + 2 * weights, least_bytes=4 * row + 2 * weights)
    few.is_so(name, "store", steps=2, bytes=2 * 4 * result, identity_bytes=2 * 4 * result, least_bytes=4 * result)
    few.sums(name, launches=4, idle=0, moves=1, bytes=4 * (2 * PLACE + row + 3 * result) + 2 * weights,
             least_bytes=4 * (2 * PLACE + row + result) + 2 * weights, identity_bytes=2 * 4 * result)

    # where one gives nothing its rows are filled
    first = os.path.join(folder, "first.gguf")
    experts(first, given=1)
    none = Ledger(first, *scores_of(folder, 0, 0, 0, 0))
    none.is_so("4 rows, none to fill", "fill", items=0, empty=1, bytes=0)
    none.sums("4 rows, none to fill", idle=1)
    Ledger(first, *scores_of(folder, 0, 0, 1, 0)).is_so("4 rows, one to fill", "fill", items=1, empty=0, bytes=result)

    many = Ledger(path, *scores_of(folder, *[1] * 20))
    name = "20 rows for the second of them"
    # more than 16 rows get 64 columns an item, which are all: of 4 blocks two have an item, and one of those has work
    many.is_so(name, "linear", blocks=4, items=1, empty=3, bytes=20 * (row + result) + weights,
               least_bytes=20 * row + weights)
    many.sums(name, least_bytes=20 * (2 * PLACE + row + result) + weights)

    half = Ledger(path, "--half", *scores_of(folder, 0, 0, 1, 0))
    small = (IN * OUT + 2 * OUT) * 2  # weights in f16, biases in f32
    half.is_so("in half", "linear_tensor", bytes=4 * (row + result // 2) + 2 * small, least_bytes=4 * row + 2 * small)
    half.is_so("in half", "store", bytes=4 * (result // 2 + result), identity_bytes=0)  # f16 becomes f32

    # rows of tiles stay in shared memory
    least = 4 * (row + result) + 2 * weights
    tiled = Ledger(path, "--order", "depth", *scores_of(folder, 0, 0, 1, 0))
    tiled.is_so("in tiles", "region", items=2, empty=1, bytes=least, identity_bytes=0, least_bytes=least)
    one = Ledger(path, "--order", "depth", *scores_of(folder, 0, 0, 0, 0))
    one.is_so("in tiles, one expert", "region", items=1, bytes=least - weights, least_bytes=least - weights)
    streamed = Ledger(path, "--slots", "100%", *scores_of(folder, 0, 0, 1, 0))
    streamed.is_so("streamed", "region", times=2, items=2, bytes=least)


def test_tiles_that_decide(folder):
    path, inner = os.path.join(folder, "nested.gguf"), os.path.join(folder, "inner.npy")
    nested(path)
    weights, row, result = (IN * OUT + OUT) * PLACE, IN * PLACE, OUT * PLACE
    for to, experts_of in (((0, 1, 0, 1), 2), ((1, 1, 1, 1), 1)):
        np.save(inner, np.eye(2, dtype=np.float32)[list(to)])
        nest = Ledger(path, "--order", "depth", "--input", f"inner={inner}", *scores_of(folder, 0, 0, 1, 0))
        # three rows decide again
        nest.is_so(f"decisions in tiles, {experts_of} of two experts", "region",
                   bytes=4 * (row + result) + 3 * 2 * PLACE + (experts_of + 1) * weights)


def test_loop(folder):
    path, counts = os.path.join(folder, "halves.gguf"), os.path.join(folder, "count.npy")
    halves(path)
    np.save(counts, np.array([[3], [1], [0], [2]], np.int32))
    trips = Ledger(path, "--input", f"count={counts}", "--input", f"x=4x{IN}", "--launch", "stream")
    row = IN * PLACE
    trips.is_so("a loop", "affine", times=3, items=3, empty=0, bytes=(3 + 2 + 1) * 2 * row)
    trips.is_so("a loop", "loop_again", times=3, items=3)
    stores = [l for l in trips.launches if l["kernel"] == "store" and l["times"] == 3]
    report("what is carried is copied in each trip",
           len(stores) == 1 and stores[0]["identity_bytes"] == stores[0]["bytes"] == 6 * 2 * row, f"{trips.launches}")
    trips.sums("a loop", least_bytes=4 * (2 * row + PLACE))


def test_moves(folder):
    path = os.path.join(folder, "moves.gguf")
    moves(path)
    all_of = Ledger(path)
    size = 48 * PLACE
    all_of.is_so("a line of rows that are bound; others are seen where they lie", "reshape", steps=1, bytes=2 * size,
                 identity_bytes=2 * size)
    all_of.is_so("rows and columns swapped", "transpose", bytes=2 * size, identity_bytes=0)
    all_of.is_so("some columns", "slice", bytes=size, identity_bytes=size)
    long(path)
    codes = Ledger(path).of("reshape")  # 256 words of 16 bytes: for one block, or two of the emulation's 128 threads
    report("words of codes", codes and codes["blocks"] == 4 and codes["items"] in (1, 2) and
           codes["items"] + codes["empty"] == 4 and codes["bytes"] == 2 * 4096, f"{codes}")


def test_words(folder):
    path = os.path.join(folder, "experts.gguf")
    status, said = brainstorm("plan", path, "--device", "cuda", "--launches")
    lines = said.splitlines()
    report("as a table: a line each, then what they come to",
           status == 0 and lines[1].split()[:2] == ["0", "begin"] and lines[-1].startswith("least") and
           any(line.split()[1:4] == ["linear", "7", "linear"] for line in lines), said)
    for words, why in (
        (("plan", path, "--launches"), "--launches is for --device cuda"),
        (("run", path, "--device", "cuda", "--json"), "--json is for --launches"),
        (("run", path, "--device", "cuda", "--launches", "--time"), "no results and no times"),
    ):
        status, said = brainstorm(*words)
        report(f"refused: {' '.join(words[2:])}", status == 2 and why in said, said)


def main():
    status, said = brainstorm("device")
    if status != 0:
        print(f"skipped: {said.strip()}\n0 passed, 0 failed, 1 skipped")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for test in (test_experts, test_tiles_that_decide, test_loop, test_moves, test_words):
            test(folder)
    return end()


sys.exit(main())
