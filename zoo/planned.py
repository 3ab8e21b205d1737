"""planned.py - Switch-base of 8 to 256 experts, planned: every byte that a run takes, without a weight.

    python zoo/planned.py [VARIANT...] [--slots PERCENT]

What fits neither memory nor disk (of 256 experts 55 GB) can be planned all the same: the graph that the import of
zoo/switch gives is built here by hand, and written with holes in the place of weights. What holds the two together is
`same`, which compares the plans of both for a variant that can be exported: tests/test_torch_zoo_mixtures.py asks it.
Needs the brainstorm package with its extension module, and torch for sizes. Must never: run such a file.
"""

import argparse
import contextlib
import os
import sys
import tempfile

import common
import numpy as np
from brainstorm import file, graph


def holes(*shape):
    return np.broadcast_to(np.float32(0), shape)


class Network:
    """The graph of zoo/switch/plain.py in some sizes."""

    def __init__(self, sizes):
        self.sizes, self.rows = sizes, sizes.batch * sizes.tokens
        self.graph, self.count = graph.Graph("switch"), 0

    def name(self, kind):
        self.count += 1
        return f"{kind}_{self.count}"

    def linear(self, x, out, given, act="none"):
        return self.graph.linear(x, self.name("linear"), holes(out, given), act=act)

    def norm(self, x):
        return self.graph.rms_norm(x, self.name("norm"), holes(self.sizes.width), 1e-6)

    def heads(self, x):
        """[batch * heads, tokens, width of a head]."""
        s, g = self.sizes, self.graph
        x = g.transpose(g.reshape(x, [s.batch, s.tokens, s.heads, s.width // s.heads]), (0, 2, 1, 3))
        return g.reshape(x, [s.batch * s.heads, s.tokens, s.width // s.heads])

    def attention(self, x, memory, bias):
        s, g, width = self.sizes, self.graph, self.sizes.width
        q, k, v = (self.heads(self.linear(of, width, width)) for of in (x, memory, memory))
        scores = g.matmul(q, k, transpose_b=1)
        if bias is not None:
            apart = g.reshape(scores, [s.batch, s.heads * s.tokens * s.tokens])
            scores = g.reshape(g.add(apart, bias), [s.batch * s.heads * s.tokens, s.tokens])
        weights = g.reshape(g.softmax(scores), [s.batch * s.heads, s.tokens, s.tokens])
        y = g.reshape(g.matmul(weights, v), [s.batch, s.heads, s.tokens, width // s.heads])
        return self.linear(g.reshape(g.transpose(y, (0, 2, 1, 3)), [self.rows, width]), width, width)

    def feed_forward(self, x):
        return self.linear(self.linear(x, self.sizes.hidden, self.sizes.width, "relu"), self.sizes.width,
                           self.sizes.hidden)

    def scores(self, x):
        """What a token gives of an expert, or zero where that has no room."""
        s, g = self.sizes, self.graph
        chances = g.softmax(self.linear(x, s.experts, s.width))
        numbers = g.constant(self.name("numbers"), np.arange(s.experts, dtype=np.int32)[None])
        best = g.compare(g.reshape(g.argmax(chances), [self.rows, 1]), numbers, "equal")
        best = g.reshape(best, [s.batch, s.tokens, s.experts])
        room = g.constant(self.name("room"), np.full((1, 1, 1), s.capacity, np.int32))
        kept = g.mul(best, g.compare(g.cumsum(best, 1), room, "less_equal"))
        return g.mul(chances, g.reshape(g.convert(kept, "f32"), [self.rows, s.experts]))

    def sparse(self, x, name):
        g = self.graph
        rows, scores = g.rows(x), self.scores(x)
        router = g.route(g.rows(scores, like=rows), name, "topk", self.sizes.experts, k=1)
        made = []
        for path in range(self.sizes.experts):
            with g.branch(router, path, f"{name}:{path}", rows) as mine:
                made.append(self.feed_forward(mine))
        return g.collect(g.gather(router, made, mode="weighted"))

    def stack(self, name, tokens, table, memory=None):
        s, g = self.sizes, self.graph
        x = g.select(table, g.reshape(tokens, [self.rows]))
        bias = g.constant(self.name("bias"), holes(1, s.heads * s.tokens * s.tokens))
        for number in range(s.layers):
            y = self.norm(x)
            x = g.add(x, self.attention(y, y, bias))
            if memory is not None:
                x = g.add(x, self.attention(self.norm(x), memory, None))
            y = self.norm(x)
            x = g.add(x, self.sparse(y, f"{name}.{number}") if number % 2 else self.feed_forward(y))
        return self.norm(x)

    def made(self):
        s, g = self.sizes, self.graph
        text, answer = (g.input(name, "i32", [s.batch, s.tokens]) for name in ("text", "answer"))
        table = g.constant("table", holes(s.vocabulary, s.width))
        memory = self.stack("encoder", text, table)
        y = g.affine(self.stack("decoder", answer, table, memory), s.width ** -0.5, 0.0)
        g.output("y", g.reshape(self.linear(y, s.vocabulary, s.width), [s.batch, s.tokens, s.vocabulary]))
        return g


@contextlib.contextmanager
def nothing_stored():
    """While graphs are built and written, weights of holes take no memory, and are not summed up."""
    stored, crc = graph.stored_array, file.Block.crc32
    graph.stored_array = lambda name, array: array if array.strides == (0,) * array.ndim else stored(name, array)
    file.Block.crc32 = lambda block: 0
    yield
    graph.stored_array, file.Block.crc32 = stored, crc


class Sparse:
    """A record that is a hole, for gguf's writer."""

    def __init__(self, size):
        self.nbytes = self.size = size
        self.shape, self.dtype = (size,), np.dtype(np.int8)

    def tofile(self, opened):
        opened.truncate(opened.tell() + self.nbytes)
        opened.seek(0, os.SEEK_END)


def written(sizes, path):
    """A file whose records are holes."""
    with nothing_stored():
        made = Network(sizes).made()
        record = file.Block.record
        file.Block.record = lambda block, number, identity: Sparse(max(block.bytes, file.HEAD_BYTES))
        try:
            made.write(path)
        finally:
            file.Block.record = record


def plans(path, share):
    """(of all resident, with slots of that share of what streams)."""
    import brainstorm
    model = brainstorm.open(path)
    streams = model.plan(slots=2**63).stream
    return model.plan(), model.plan(slots=max(streams.least_bytes, streams.all_bytes * share // 100)), streams


def same(variant, path):
    """What the plan of an exported file and of the graph by hand say of activations and weights."""
    with tempfile.TemporaryDirectory() as folder:
        mine = os.path.join(folder, "holes.gguf")
        written(common.variants("switch")[variant], mine)
        both = [plans(of, 25)[1] for of in (mine, path)]
        return [(plan.bytes["transient"], plan.stream.all_bytes, plan.bytes["weights"]) for plan in both]


def main():
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("variants", nargs="*", help="[8 16 32 64 128 256]")
    words.add_argument("--slots", type=int, default=25, metavar="PERCENT", help="of what all experts take")
    args = words.parse_args()
    sizes = common.variants("switch")
    for name in args.variants or [name for name in sizes if name.isdigit()]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "holes.gguf")
            written(sizes[name], path)
            whole, slots, streams = plans(path, args.slots)
            on_disk = os.stat(path).st_blocks * 512
            print(f"switch-base-{name}: a file of {os.path.getsize(path) / 2**30:.2f} GiB ({on_disk / 2**20:.1f} MiB "
                  f"without its weights); experts {streams.all_bytes / 2**30:.2f} GiB; all resident: weights "
                  f"{whole.bytes['weights'] / 2**30:.2f} GiB, activations {whole.bytes['transient'] / 2**20:.1f} MiB; "
                  f"slots of {slots.bytes['slots'] / 2**30:.2f} GiB, at least {streams.least_bytes / 2**20:.1f} MiB: "
                  f"resident {slots.bytes['persistent'] / 2**30:.2f} GiB; index, graph and plan "
                  f"{sum(whole.bytes[k] for k in ('index', 'graph', 'plan')) / 2**20:.1f} MiB", flush=True)


if __name__ == "__main__":
    sys.exit(main())
