"""Write the mixture-of-experts text model from trained weights.

    python3 tools/export_moe_text.py WEIGHTS.npz models/moe_text.gguf

WEIGHTS.npz is what training/moe_text/export_weights.py writes. A run takes the next characters of several texts, of any
number each (`tokens` in a row, `lengths` and `past` a text), and gives the logits of what follows each. Keys and values
of the last 128 characters are states.

Each router but the first is told, before the experts of the layer before it, what it will probably choose: the router
itself, run early, foresees about four of five choices (training/moe_text).

Every expert is a block of its own, `layerL.expertE`, with its own record in the file: they can be streamed. Everything
else stays resident.
"""

import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from brainstorm import Graph

CODES = 96
WIDTH = 96
LAYERS = 4
HEADS = 6
WINDOW = 128
EXPERTS = 16
MAX_TOKENS = 512
MAX_SEQUENCES = 32


class Weights:
    """The tensors by name; remembers which were used."""

    def __init__(self, archive):
        self.tensors = {name: archive[name] for name in archive.files}
        self.left = set(self.tensors)

    def take(self, name):
        self.left.discard(name)
        return self.tensors[name]


def norm(g, x, weights, source, name):
    return g.layer_norm(x, name, weights.take(f"{source}.weight"), weights.take(f"{source}.bias"), epsilon=1e-5)


def attention(g, x, weights, layer, sequences, past):
    """x + what the characters before say. Its keys and values are kept at the end of the run."""
    source, name = f"layers.{layer}", f"layer{layer}"
    rows = norm(g, x, weights, f"{source}.norm1", f"{name}.norm1")
    parts = np.split(weights.take(f"{source}.attention.qkv"), 3)
    q, k, v = (g.linear(rows, f"{name}.{letter}", part) for letter, part in zip("qkv", parts))
    caches = [g.state(f"{name}.past_{letter}", "f32", [sequences, WINDOW, WIDTH]) for letter in "kv"]
    mixed = g.attention(q, k, v, *caches, past, heads=HEADS, alibi=1, name=f"{name}.attention")
    for cache, value in zip(caches, (k, v)):
        g.state_append(cache, value, past)
    return x + g.linear(mixed, f"{name}.out", weights.take(f"{source}.attention.out"))


def expert(g, rows, weights, layer, index):
    source, name = f"layers.{layer}.experts", f"layer{layer}.expert{index}"
    hidden = g.linear(rows, f"{name}.up", weights.take(f"{source}.up")[index], weights.take(f"{source}.up_bias")[index],
                      act="gelu")
    return g.linear(hidden, f"{name}.down", weights.take(f"{source}.down")[index],
                    weights.take(f"{source}.down_bias")[index])


def look_ahead(g, x, weights, layer):
    """Tells the router of the layer after this one what it would choose now, before the experts of this one."""
    source, name = f"layers.{layer + 1}", f"layer{layer}.ahead"
    rows = norm(g, x, weights, f"{source}.norm2", f"{name}.norm2")
    g.look_ahead(g.linear(rows, f"{name}.router", weights.take(f"{source}.experts.router")), f"layer{layer + 1}.route")


def mixture(g, x, weights, layer):
    """x + the two best experts of sixteen, weighed by their shares."""
    name = f"layer{layer}"
    rows = norm(g, x, weights, f"layers.{layer}.norm2", f"{name}.norm2")
    share = g.softmax(g.linear(rows, f"{name}.router", weights.take(f"layers.{layer}.experts.router")))
    router = g.route(share, f"{name}.route", "topk", EXPERTS, k=2, normalise=1)
    if layer + 1 < LAYERS:
        look_ahead(g, x, weights, layer)
    results = []
    for index in range(EXPERTS):
        with g.branch(router, index, f"{name}.expert{index}", rows) as chosen:
            results.append(expert(g, chosen, weights, layer, index))
    return x + g.gather(router, results, mode="weighted")


def build(archive, name):
    weights = Weights(archive)
    g = Graph(name)
    sequences = g.symbol("sequences", MAX_SEQUENCES)
    tokens = g.input("tokens", "i32", [g.symbol("tokens", MAX_TOKENS), 1])
    lengths, past = g.input("lengths", "i32", [sequences]), g.input("past", "i32", [sequences])
    table = g.constant("embed", weights.take("embed.weight"))
    x = g.reshape(g.gather_rows(table, g.segments(tokens, lengths)), [WIDTH])
    for layer in range(LAYERS):
        x = attention(g, x, weights, layer, sequences, past)
        x = mixture(g, x, weights, layer)
    last = g.segment_reduce(norm(g, x, weights, "norm", "norm"), "last")
    g.output("logits", g.linear(last, "head", weights.take("head.weight"), weights.take("head.bias")))
    if weights.left:
        raise ValueError(f"weights that the graph does not use: {sorted(weights.left)}")
    return g


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("weights")
    parser.add_argument("out")
    parser.add_argument("--name", default="moe_text")
    args = parser.parse_args()
    g = build(np.load(args.weights), args.name)
    g.write(args.out)
    total = sum(block.bytes for block in g.blocks)
    print(f"{args.out}: {len(g.nodes)} nodes, {len(g.blocks)} blocks, {total} bytes of weights")


if __name__ == "__main__":
    main()
