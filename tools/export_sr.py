"""Write the routed x2 luma super-resolution model from trained weights.

    python3 tools/export_sr.py WEIGHTS.npz models/sr2x.gguf

WEIGHTS.npz holds `small.*` and `large.*` as training/export_weights.py writes them. Each cell of the frame takes one
of three ways: bicubic enlargement (in integers), the small net, or the large net.
"""

import argparse

import numpy as np

from brainstorm_model import Graph

SCALE = 2
PATHS = ("bicubic", "small", "large")
CELL = 64
BUCKETS = 64


class Weights:
    """The tensors of one net, by their names without its prefix; remembers which were used."""

    def __init__(self, archive, prefix):
        self.prefix = prefix
        self.tensors = {k[len(prefix) + 1:]: archive[k] for k in archive.files if k.startswith(prefix + ".")}
        self.left = set(self.tensors)

    def take(self, name):
        self.left.discard(name)
        return self.tensors[name]

    def has(self, name):
        return name + ".weight" in self.tensors


def convolution(g, x, weights, layer):
    prelu = weights.take(layer + ".prelu") if layer + ".prelu" in weights.tensors else None
    return g.conv2d(x, f"{weights.prefix}.{layer}", weights.take(layer + ".weight"), weights.take(layer + ".bias"), prelu=prelu)


def bodies(weights):
    layer = 0
    while weights.has(f"body{layer}"):
        yield f"body{layer}"
        layer += 1


def subnet(g, cells, weights, tail):
    """u8 cells -> u8 cells of twice the size: bicubic + what the net adds."""
    x = g.convert(cells, "f32", scale=1 / 255)
    y = convolution(g, x, weights, "head")
    for layer in bodies(weights):
        y = convolution(g, y, weights, layer)
    y = g.pixel_shuffle(convolution(g, y, weights, tail), SCALE)
    return g.convert(y + g.resize(x, "bicubic", SCALE), "u8", scale=255)


def default_table():
    """Until a trained table comes: flat cells bicubic, plain ones small, busy ones large."""
    return np.digitize(np.arange(BUCKETS), [16, 36]).astype(np.int32)


def build(archive, max_height, max_width):
    small, large = Weights(archive, "small"), Weights(archive, "large")
    table = archive["router.table"] if "router.table" in archive.files else default_table()
    g = Graph("sr2x", SCALE)
    frame = g.input("frame", "u8", [1, g.symbol("H", max_height), g.symbol("W", max_width)])
    cells = g.patches(frame, CELL)
    energy = g.slice(g.patch_features(cells, buckets=BUCKETS), axis=0, start=0, length=1)
    router = g.route(energy, "route", "table", len(PATHS), table=table)
    outs = []
    with g.branch(router, 0, "bicubic", cells) as x:
        outs.append(g.resize(x, "bicubic", SCALE))
    with g.branch(router, 1, "small", cells) as x:
        outs.append(subnet(g, x, small, "tail"))
    with g.branch(router, 2, "large", cells) as x:
        outs.append(subnet(g, x, large, "tail2" if large.has("tail2") else "tail"))
    g.output("frame_2x", g.assemble(g.gather(router, outs)))
    return g


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weights")
    parser.add_argument("out")
    parser.add_argument("--max-height", type=int, default=2160)
    parser.add_argument("--max-width", type=int, default=3840)
    args = parser.parse_args()
    g = build(np.load(args.weights), args.max_height, args.max_width)
    g.write(args.out)
    total = sum(block.bytes for block in g.blocks)
    print(f"{args.out}: {len(g.nodes)} nodes, {len(g.blocks)} blocks, {total} bytes of weights")


if __name__ == "__main__":
    main()
