"""Write the routed x2 luma super-resolution model from trained weights.

    python3 tools/export_sr.py WEIGHTS.npz ROUTE.npz models/sr2x.gguf

WEIGHTS.npz holds `small.*` and `large.*` as training/export_weights.py writes them, ROUTE.npz the loss tables and exit
predictors of training/calibrate.py; either may be a model that was written before, such as models/sr2x.gguf. Each cell
of the frame takes one of four ways: the result it had (reuse), bicubic enlargement in integers, the small net, or the
large net, which a cell may leave at one of two exits before its end.

The route is decided from integers alone: buckets of a cell's energy and of its change since its last result are looked
up in tables of estimated losses, and the cheapest choices whose losses stay within the budget are taken. What a cell
lost when it was last computed is kept as state, so a reused result is charged for it again. What the floor allows is
never paid for: nobody sees it.
"""

import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from brainstorm import Graph, read_weights

SCALE = 2
PATHS = ("reuse", "bicubic", "small", "large")
# What the router weighs against each other, and the path each takes: the large net counts once for each of its ends.
VARIANTS = (("reuse", 0), ("bicubic", 1), ("small", 2), ("exit1", 3), ("exit2", 3), ("large", 3))
CELL = 64
BUCKETS = 80
EXITS = ((2, "tail0"), (4, "tail1"), (6, "tail2"))  # body layers before it, its own last convolution
LOSS_UNIT = 1 / 256  # of a squared code value: what the tables count in
# What a cheap result and the large net's differ by is more than the tables say it loses: those are against the
# original, and the large net errs too (models/README.md).
DIFFERENCE_TO_LOSS = 5
MAX_CELLS = 8192  # whose last loss is kept: 64-pixel cells of a frame beyond 4K


def load(path):
    return read_weights(path) if path.endswith(".gguf") else dict(np.load(path))


def floor_loss(db):
    """The router's unit: a cell's loss at which its result is so near to the large net's; 0 dB: none."""
    return int(255**2 / LOSS_UNIT / DIFFERENCE_TO_LOSS * 10 ** (-db / 10)) if db else 0


class Weights:
    """The tensors of one net, by their names without its prefix; remembers which were used."""

    def __init__(self, archive, prefix):
        self.prefix = prefix
        self.tensors = {k[len(prefix) + 1:]: archive[k] for k in archive if k.startswith(prefix + ".")}
        self.left = set(self.tensors)

    def take(self, name):
        self.left.discard(name)
        return self.tensors[name]

    def has(self, name):
        return name + ".weight" in self.tensors


def convolution(g, x, weights, layer):
    prelu = weights.take(layer + ".prelu") if layer + ".prelu" in weights.tensors else None
    return g.conv2d(x, f"{weights.prefix}.{layer}", weights.take(layer + ".weight"), weights.take(layer + ".bias"),
                    prelu=prelu)


def dense(g, x, weights, layer, act="none"):
    return g.linear(x, f"{weights.prefix}.{layer}", weights.take(layer + ".weight"), weights.take(layer + ".bias"),
                    act=act)


def bodies(weights):
    layer = 0
    while weights.has(f"body{layer}"):
        yield f"body{layer}"
        layer += 1


def finish(g, features, base, weights, tail):
    """Features -> u8 cells of twice the size: bicubic + what the net adds."""
    added = g.pixel_shuffle(convolution(g, features, weights, tail), SCALE)
    return g.convert(added + base, "u8", scale=255)


def small_net(g, cells, weights):
    x = g.convert(cells, "f32", scale=1 / 255)
    base = g.resize(x, "bicubic", SCALE)
    y = convolution(g, x, weights, "head")
    for layer in bodies(weights):
        y = convolution(g, y, weights, layer)
    return finish(g, y, base, weights, "tail")


def large_net(g, cells, weights, predictors, knob):
    x = g.convert(cells, "f32", scale=1 / 255)
    base = g.resize(x, "bicubic", SCALE)
    return large_rest(g, convolution(g, x, weights, "head"), base, weights, predictors, knob, 0)


def large_rest(g, features, base, weights, predictors, knob, exit_index):
    """From exit to exit: run up to this one, ask its predictor, leave or go on. As deep as there are exits."""
    first = EXITS[exit_index - 1][0] if exit_index else 0
    last, tail = EXITS[exit_index]
    for layer in range(first, last):
        features = convolution(g, features, weights, f"body{layer}")
    if exit_index == len(EXITS) - 1:
        return finish(g, features, base, weights, tail)
    name = f"exit{exit_index}"
    hidden = dense(g, g.pool2d(features, everything=1), predictors, f"{name}.hidden", "relu")
    router = g.route(dense(g, hidden, predictors, f"{name}.out"), name, "binary", 2, knob=knob)
    with g.branch(router, 0, f"large.{tail}", features) as x:
        leave = finish(g, x, g.scatter(router, 0, base), weights, tail)
    with g.branch(router, 1, f"large.after_{name}", features) as x:
        go_on = large_rest(g, x, g.scatter(router, 1, base), weights, predictors, knob, exit_index + 1)
    return g.gather(router, [leave, go_on])


def losses(g, cells, reference, last_loss, route):
    """i32 [variants]: what each is estimated to lose, in 1/256 of a squared code value."""
    features = g.patch_features(cells, reference, buckets=BUCKETS)
    total = None
    for index, name in enumerate(("energy", "change")):
        table = g.constant(f"route.{name}", route[f"route.{name}"].astype(np.int32))
        row = g.gather_rows(table, g.slice(features, axis=0, start=index, length=1))
        row = g.reshape(row, [len(VARIANTS)])
        total = row if total is None else total + row
    reuse_only = np.zeros((len(VARIANTS), 1), np.float32)
    reuse_only[0] = 1
    carried = g.linear(g.convert(last_loss, "f32"), "route.carry", reuse_only)
    return total + g.convert(carried, "i32")


def build(archive, route, name, max_height, max_width, floor=55):
    small, large = Weights(archive, "small"), Weights(archive, "large")
    predictors = Weights(route, "large")
    g = Graph(name, SCALE)
    height, width = g.symbol("H", max_height), g.symbol("W", max_width)
    frame = g.input("frame", "u8", [1, height, width])
    budget = g.input("budget", "f32", [1])
    previous = g.state("previous", "u8", [1, height * SCALE, width * SCALE])
    reference = g.state("reference", "u8", [1, height, width])
    last_loss = g.state("last_loss", "i32", [MAX_CELLS, 1])

    cells = g.patches(frame, CELL)
    old_cells = g.patches(reference, CELL, like=cells)
    old_loss = g.rows(last_loss, like=cells)
    score = losses(g, cells, old_cells, old_loss, route)
    router = g.route(score, "route", "budget", len(PATHS), knob=budget, cost=route["route.cost"],
                     path=[p for _, p in VARIANTS], floor=floor_loss(floor),
                     baseline=2)  # variant 1, bicubic: the budget is a share of the gain over it
    chosen_loss = g.route_score(router)
    knob = g.affine(g.route_price(router), -1, 0)

    results, inputs, kept = [None], [None], [None]
    for path, make in ((1, lambda x: g.resize(x, "bicubic", SCALE)),
                       (2, lambda x: small_net(g, x, small)),
                       (3, lambda x: large_net(g, x, large, predictors, knob))):
        with g.branch(router, path, PATHS[path], cells) as x:
            results.append(make(x))
            inputs.append(x)
            kept.append(g.scatter(router, path, chosen_loss))
    doubled = g.assemble(g.gather(router, results, g.patches(previous, CELL, like=cells)))
    g.output("frame_2x", doubled)
    g.state_write(previous, doubled)
    g.state_write(reference, g.assemble(g.gather(router, inputs, old_cells)))
    g.state_write(last_loss, g.collect(g.gather(router, kept, old_loss)))
    return g


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weights")
    parser.add_argument("route")
    parser.add_argument("out")
    parser.add_argument("--name", default="sr2x")
    parser.add_argument("--floor", type=float, default=55,
                        help="dB against the large net's result that nobody sees [55]; 0: none")
    parser.add_argument("--max-height", type=int, default=4320)
    parser.add_argument("--max-width", type=int, default=7680)
    args = parser.parse_args()
    if args.floor and not 30 <= args.floor <= 65:
        parser.error(f"--floor {args.floor:g}, expected 0 or 30 .. 65 dB")
    g = build(load(args.weights), load(args.route), args.name, args.max_height, args.max_width, args.floor)
    g.write(args.out)
    total = sum(block.bytes for block in g.blocks)
    print(f"{args.out}: {len(g.nodes)} nodes, {len(g.blocks)} blocks, {total} bytes of weights")


if __name__ == "__main__":
    main()
