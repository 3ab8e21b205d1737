# tags: needs:gguf,numpy
"""test_gguf_python.py: what python/brainstorm writes is what the library and the `gguf` package read.

Owns: one graph with every op and structure that the exporter knows. Relies on: model_rig.py, python/, tools/, the gguf
package (tools/requirements.txt). Must never leave a file behind. What the exporter refuses: test_gguf_refusals.py.
"""

import inspect
import os
import re
import struct
import sys
import tempfile
import warnings
import zlib

from model_rig import brainstorm, end, random, report  # first: it finds both

import brainstorm as bm
import export_sr
import gguf
import numpy as np


# --- one graph with everything --------------------------------------------------------------------------


def image_ops(g, x):
    """x: f32 [2, H, W] cells."""
    norm = {key: np.abs(random(4)) + 1 for key in ("weight", "bias", "mean", "var")}
    y = g.conv2d(x, "conv", random(4, 2, 3, 3), random(4), batch_norm=norm, act="relu")
    y = g.conv2d(y, "deep", random(4, 1, 3, 3), groups=bm.DEPTHWISE, prelu=random(4))
    y = g.prelu(y, "slopes", random(4))
    y = g.batch_norm(y, "norm", *(np.abs(random(4)) + i for i in range(4)), epsilon=1e-3)
    y = g.pixel_unshuffle(g.pixel_shuffle(y, 2), 2)
    y = g.concat([y, g.slice(y, axis=0, start=1, length=2)], axis=0)
    y = g.unary(g.unary(y, "abs"), "sqrt")
    y = g.where(g.compare(y, y, "less"), y, g.binary(y, y, "max"))
    y = g.activation(g.affine(g.clip(y, -1, 2), 0.5, 0.25), "gelu")
    return g.add(g.mul(y, y), g.sub(y, y)), y


def routed(g, cells, budget):
    features = g.patch_features(cells, buckets=32)
    table = g.constant("losses", np.arange(32 * 3, dtype=np.int32).reshape(32, 3))
    losses = g.reshape(g.gather_rows(table, g.slice(features, axis=0, start=0, length=1)), [3])
    router = g.route(losses, "budget", "budget", 3, knob=budget, cost=[1, 5, 9], floor=7)
    outs = [None]
    for path in (1, 2):
        with g.branch(router, path, f"path{path}", cells) as x:
            f = g.convert(x, "f32", scale=1 / 255)
            if path == 2:
                with g.block("inner"):
                    f = g.conv2d(f, "inner.conv", random(2, 2, 1, 1), random(2))
            outs.append(g.convert(f, "u8", scale=255))
    return router, g.gather(router, outs, residual=cells)


def indexed(g, x, values, index):
    """Elements by index: of rows, and of a root table by rows; twice as many, and as many as there were."""
    table = g.constant("positions", random(4, 3))
    rows = g.scatter_rows(x, index, g.scatter_elements(g.roll(values, 0, 1), index, values, update="add"), axis=-1)
    g.output("indexed", g.collect(g.gather_elements(rows, index)))
    g.output("selected", g.collect(g.select(table, index, 0)))


def counted(g, x):
    """As many rows as are not 0, and as many numbers as x says."""
    rows = g.gather_rows(x, g.reshape(g.nonzero(g.reduce(x, "sum", -1), name="chosen"), [-1]))
    g.output("chosen", g.collect(g.affine(g.rows(rows), 2, 1)))
    one = g.reduce(x, "max", 0, axes=2)
    g.output("numbers", g.arange(one, 40, g.affine(one, 0, 0), g.affine(one, 0, 2), name="numbers"))
    for name, found in zip(("values", "places", "which", "often"), g.unique(x, 0, "differ")):
        g.output(name, found)
    boxes = g.reshape(g.slice(x, axis=1, start=0, length=4), [1, -1, 4])
    scores = g.reshape(g.slice(x, axis=1, start=4, length=1), [1, 1, -1])
    g.output("apart", g.nms(boxes, scores, 0, 30, 0.5, -0.25, 1, "kept"))


def tokens(g):
    """Rows of 8 features; experts picked by top-2."""
    table = g.input("tokens", "f32", [g.symbol("n", 40), 8])
    counted(g, table)
    x = g.rows(table)
    h = g.layer_norm(x, "ln", random(8), random(8))
    h = g.rms_norm(h, "rms", random(8), epsilon=1e-6)
    scores = g.softmax(g.linear(h, "score", random(4, 8), random(4)))
    g.look_ahead(g.linear(x, "guess", random(4, 8)), "experts")
    router = g.route(scores, "experts", "topk", 4, k=2, normalise=1)
    outs = []
    for path in range(4):
        with g.branch(router, path, f"expert{path}", h) as e:
            outs.append(g.linear(e, f"e{path}", random(8, 8), act="silu"))
    y = g.gather(router, outs, residual=x, mode="weighted")
    best, index = g.topk(scores, 2)
    indexed(g, scores, best, index)
    hidden, memory = g.lstm(x, h, h, "lstm", random(32, 8), random(32, 8), random(32), random(32))
    projected = g.linear(memory, "gru_ih", random(24, 8), random(24))
    g.output("memory", g.collect(g.gru(projected, hidden, "gru", None, random(24, 8), None, random(24))))
    square = g.reshape(y, [2, 4])
    product = g.matmul(square, square, transpose_b=1, scale=0.5)
    turned = g.transpose(product, [1, 0])
    axes = g.transpose(g.reshape(turned, [1, 2, 1, 2, 1]), [4, 3, 2, 1, 0])
    g.output("axes", g.collect(g.reshape(g.slice(axes, axis=-5, start=0, length=1), [4])))
    g.output("sum", g.collect(g.reduce(turned, "mean", axis=-1, keep=0)))
    g.output("best", g.collect(best))
    g.output("index", g.collect(index))
    g.output("running", g.collect(g.cumsum(turned, axis=-1, exclusive=1, reverse=1)))
    g.output("all", g.collect(g.reduce(turned, "l2", axis=0, axes=2)))
    g.output("gate", g.collect(g.route_score(router)))
    rounds(g, x, index)
    vertices(g)
    return scores


def vertices(g):
    """Rows that add up what their children have, from lists of children, level by level."""
    n, entries = g.symbol("vertices", 9), g.symbol("edges", 20)
    children = g.children(g.input("lengths_of", "i32", [n]), g.input("children", "i32", [entries]), 3)
    x = g.rows(g.input("vertex", "f32", [n, 4]))
    loop = g.loop(x, "tree", bound=9, count=g.rows(g.levels(children), x), in_turn=1)
    h = g.loop_carry(loop, g.constant("nothing", np.zeros(4, np.float32)))
    below = g.loop_rows(loop, h, g.scatter(loop, 0, g.rows(children, x)))
    end = g.loop_next(loop, h, g.add(g.scatter(loop, 0, x), g.reduce(below, "sum", axis=0, keep=0)))
    g.loop_end(loop)
    g.output("tree", g.collect(end))
    down = g.loop(x, "down", bound=2, count=g.rows(g.levels(children), x), grows=1)
    above = g.loop_rows(down, g.loop_carry(down, x), g.loop_parent(down))
    grown = g.reduce(above, "sum", axis=0, keep=0)
    made = g.loop_next(down, next(iter(down.carried)), grown)
    g.loop_end(down, g.loop_child(down))
    g.output("grown", g.collect(made))


def rounds(g, x, index):
    """Trips over the features of each row, as many as an index says."""
    loop = g.loop(x, "rounds", count=g.slice(index, axis=0, start=0, length=1), over=x)
    h = g.loop_carry(loop, x)
    y = g.activation(g.linear(h, "round", random(8, 8), random(8)), "tanh")
    y = g.add(y, g.convert(g.loop_trip(loop), "f32"))
    go_on = g.loop_slice(loop, x)
    results = {"rounded": g.loop_next(loop, h, y), "rounds": g.loop_collect(loop, y), "trips": g.loop_trips(loop)}
    g.loop_end(loop, g.reshape(go_on, [1]))
    for name, value in results.items():
        g.output(name, g.collect(value))


def sequences(g):
    """A layer of a decoder over the tokens of four sequences, with its cache."""
    tokens = g.symbol("t", 64)
    words, lengths = g.input("words", "i32", [tokens, 1]), g.input("lengths", "i32", [4])
    past = g.input("past", "i32", [4])
    table = g.constant("embedding", random(10, 8))
    x = g.reshape(g.gather_rows(table, g.segments(words, lengths)), [8])
    q, k, v = (g.linear(x, f"sequence.{part}", random(8, 8)) for part in "qkv")
    positions = g.segment_index(x, past)
    q, k = (g.rope(part, positions, heads=2) for part in (q, k))
    v = g.rope(v, g.segment_index(x), heads=1, dims=2, base=500000, interleaved=1)
    cache = [g.state(f"cache_{part}", "f32", [4, 16, 8]) for part in "kv"]
    y = g.add(x, g.attention(q, k, v, *cache, past, heads=2, alibi=1, name="attend"))
    y = g.sub(y, g.segment_spread(g.segment_reduce(y, "mean"), y))
    g.state_append(cache[0], k, past)
    g.state_append(cache[1], v, past)
    g.output("last", g.segment_reduce(g.attention(y, y, y), "last"))
    kept = g.segments(g.input("kept", "i32", [tokens]), lengths)
    shared = g.linear(y, "sequence.shared", random(4, 8))
    both = g.attention(y, shared, shared, heads=2, kv_heads=1, bidirectional=1, scale=0.5, mask=kept)
    g.output("both", g.segment_reduce(g.segment_reduce(both, "max", to_rows=1), "sum"))


def whole_images(g):
    x = g.input("image", "f32", [3, 32, 32])
    x = g.pad(g.pad(x, 1, 0, 2, 1, edge="reflect"), 0, 1, 0, 1, edge=1)
    x = g.pool2d(g.deconv2d(x, "up", random(3, 2, 2, 2), random(2), stride=2), "max", 2, padding="valid")
    x = g.conv2d(x, "padded", random(2, 2, 3, 3), padding="explicit", pad=2)
    x = g.conv2d(x, "oblong", random(2, 2, 3, 2), stride=(1, 2), dilation=(2, 1), padding="explicit", pad=(4, 0, 0, 1))
    x = g.pool2d(x, "max", kernel=(3, 2), stride=(1, 2), pad=(1, 0), padding="explicit", dilation=(1, 3))
    x = g.resize(g.lrn(g.resize(x, "nearest", 2), size=3, alpha=0.5), "area", 3, den=4)
    g.output("small", g.resize(x, "bilinear", height=40, width=30, antialias=1))
    g.output("mean", g.pool2d(x, "average", everything=1))
    line = g.input("line", "f32", [4, g.symbol("samples", 90)])
    line = g.conv1d(line, "narrow", random(6, 2, 3), stride=2, groups=2, act="relu")
    line = g.conv1d(line, "causal", random(3, 6, 2), random(3), pad=(5, 0), dilation=5, padding="explicit")
    g.output("lines", g.pool1d(line, "max", 3, 2, pad=1, padding="explicit"))
    g.output("peak", g.pool1d(line, "max", everything=1))


def others(g, x):
    """Ops that stand nowhere else, of as many operands as they must have. One that wants other operands than lines of
    f32, or numbers, belongs above."""
    for op in [op for op in bm.OPS if op not in {node.op for node in g.nodes}]:
        method = getattr(g, op)
        needs = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
        g.output(op, g.collect(method(*[x] * len(needs))))


def everything():
    g = bm.Graph("everything", scale=2)
    height, width = g.symbol("H", 100), g.symbol("W", 120)
    frame = g.input("frame", "u8", [2, height, width])
    before = g.state("before", "u8", [2, 2 * height, width * 2])
    budget = g.input("budget", "f32", [1])
    cells = g.patches(frame, 32)
    _, y = image_ops(g, g.convert(cells, "f32", scale=1 / 255))
    g.output("features", g.assemble(y))
    router, picked = routed(g, cells, budget)
    large = g.resize(picked, "bicubic", 2)
    old = g.patches(before, 32, like=cells)
    mixed = g.convert(g.convert(large, "f32") + g.convert(old, "f32"), "u8", scale=0.5)
    out = g.assemble(mixed)
    g.state_write(before, out)
    g.output("frame_2x", out)
    g.output("price", g.route_price(router))
    scores = tokens(g)
    sequences(g)
    whole_images(g)
    others(g, scores)
    return g


# --- tests ----------------------------------------------------------------------------------------------


def test_op_tables():
    status, text = brainstorm("ops")
    found = {}
    for line in text.splitlines():
        op, _, _, *fields = line.split()
        found[op] = fields
    ours = {op: fields.split() for op, (fields, _) in bm.OPS.items()}
    differing = [op for op in sorted(set(found) | set(ours)) if found.get(op) != ours.get(op)]
    report("the exporter knows the library's op set", status == 0 and not differing, f"they differ in {differing}")


def test_library_reads(path, g):
    used = {node.op for node in g.nodes}
    report("the test graph has every op", used == set(bm.OPS), f"without {sorted(set(bm.OPS) - used)}")
    status, text = brainstorm("inspect", path)
    report("the library builds what was exported", status == 0, text)
    status, text = brainstorm("check", path)
    report("checksums are those of the records", status == 0, text)
    status, text = brainstorm("plan", path, "--input", "frame=2x64x96", "--input", "tokens=7x8", "--threads", "2")
    report("the library plans what was exported", status == 0 and "transient" in text, text)


def tensor_bytes(reader):
    return {t.name: (t.data_offset, np.asarray(t.data).view(np.uint8).tobytes()) for t in reader.tensors}


def test_package_reads(path, g):
    reader = gguf.GGUFReader(path)
    strings = lambda key: reader.get_field(f"brainstorm.{key}").contents()
    report("the gguf package reads the graph", strings("node.op") == [n.op for n in g.nodes] and
           list(strings("node.inputs")) == [i for n in g.nodes for i in n.inputs], "it reads another one")
    tensors = tensor_bytes(reader)
    stored = [f"block.{b.name}" for b in g.blocks if b.bytes]
    report("one tensor a block, in order", list(tensors) == stored, f"{list(tensors)}")
    report("records start on pages", all(offset % 4096 == 0 for offset, _ in tensors.values()), "they do not")
    report("the file ends with padding", os.path.getsize(path) % 4096 == 0, f"{os.path.getsize(path)} bytes")
    return tensors


def opset_of(path):
    return gguf.GGUFReader(path).get_field("brainstorm.opset").contents()


def test_opset(path, folder):
    old = os.path.join(folder, "old.gguf")
    g = bm.Graph()
    x = g.pool2d(g.conv2d(g.input("x", "f32", [1, 8, 8]), "c", random(1, 1, 3, 3)))
    g.output("y", x)
    g.write(old)
    report("a file names the lowest op set that has its ops", (opset_of(path), opset_of(old)) == (bm.OPSET, 1),
           f"{opset_of(path)} and {opset_of(old)}")
    status, text = brainstorm("inspect", old)
    report("files of the first op set are read", status == 0, text)


def test_floor(path, folder):
    """Files that do not know of a floor have none."""
    status, text = brainstorm("inspect", path)
    report("a router keeps its floor in a file", status == 0 and "floor 7" in text, text)
    older, g = os.path.join(folder, "older.gguf"), everything()
    for node in g.nodes:
        if node.op == "route":
            node.params.pop()
    g.write(older)
    status, text = brainstorm("inspect", older)
    report("files without a floor are read", status == 0 and "floor" not in text, text)


def test_spill(folder):
    """A file whose router spills is of op set 4, which has that, and says so."""
    for spill, opset in ((0, 1), (2, 4)):
        g = bm.Graph()
        rows = g.rows(g.input("x", "f32", [8, 2]))
        router = g.route(rows, "full", "capacity", 2, capacity=3, spill=spill)
        g.output("y", g.collect(g.gather(router, [g.scatter(router, p, rows) for p in range(2)])))
        path = os.path.join(folder, "spill.gguf")
        g.write(path)
        status, text = brainstorm("inspect", path)
        report(f"a router that spills{' not' if not spill else ''} is one in a file",
               status == 0 and ("spill 2" in text) == (spill > 0) and f"op set {opset}," in text, text)


def test_lifting(folder):
    """A product in a body of what is the same in every trip stands around the loop, unless the file says otherwise."""
    found = []
    for no_lift in (0, 1):
        path, g = os.path.join(folder, f"lift{no_lift}.gguf"), bm.Graph()
        x = g.rows(g.input("x", "f32", [5, 4]))
        loop = g.loop(x, "loop", bound=3, no_lift=no_lift)
        h = g.loop_carry(loop, x)
        own = g.linear(g.scatter(loop, 0, x), "own", random(4, 4))
        end = g.loop_next(loop, h, g.add(h, own))
        g.loop_end(loop)
        g.output("y", g.collect(end))
        g.write(path)
        status, text = brainstorm("inspect", path)
        found.append((status, text.count(" scatter ")))
    report("what a file's loop repeats is lifted, and scattered", found == [(0, 2), (0, 1)], f"{found}")


def test_read_weights(path, g):
    read = bm.read_weights(path)
    stored = {name: array for block in g.blocks for name, array, _ in block.weights}
    same = list(read) == list(stored) and all(read[n].dtype == a.dtype and np.array_equal(read[n], a)
                                              for n, a in stored.items())
    report("weights can be read back", same, "they differ")


def test_weights(g, tensors):
    same, aligned, count = True, True, 0
    for block in g.blocks:
        for _, array, offset in block.weights:
            data = tensors[f"block.{block.name}"][1][offset:offset + array.nbytes]
            same &= data == array.tobytes()
            aligned &= offset % 256 == 0 and offset >= 256
            count += 1
    report("weights have the bytes given", same and count > 20, "they do not")
    report("weights start at multiples of 256", aligned, "they do not")


def test_heads(path, g, tensors):
    reader = gguf.GGUFReader(path)
    identity = reader.get_field("brainstorm.file.id").contents()
    checksums = reader.get_field("brainstorm.block.crc32").contents()
    right = True
    for number, block in enumerate(g.blocks):
        if block.bytes:
            record = tensors[f"block.{block.name}"][1]
            checksum = zlib.crc32(record[256:])
            head = struct.pack("<4sIIIQQ224x", b"BSRC", 1, number, checksum, len(record), identity)
            right &= record[:256] == head and checksum == checksums[number]
    report("every record has the head that the keys promise", right and identity != 0, "one differs")


def test_repeatable(path, g, folder):
    again = os.path.join(folder, "again.gguf")
    everything().write(again)
    with open(path, "rb") as a, open(again, "rb") as b:
        report("the same graph gives the same file", a.read() == b.read(), "it does not")


def test_damage(path, tensors, folder):
    damaged = os.path.join(folder, "damaged.gguf")
    with open(path, "rb") as file:
        data = bytearray(file.read())
    offset, record = next(t for name, t in tensors.items() if name == "block.path2" or name == "block.inner")
    data[offset + len(record) - 1] ^= 1
    with open(damaged, "wb") as file:
        file.write(data)
    status, text = brainstorm("check", damaged)
    report("a flipped bit in a weight is found", status == 1 and "CRC" in text, text)


def layers_of(names, weight, path):
    g = bm.Graph()
    x = g.input("x", "f32", [16])
    for name in names:
        x = g.linear(x, name, weight)
    g.output("y", x)
    g.write(path)
    status, text = brainstorm("plan", path)
    prepared = re.search(r"prepared weights (\d+) bytes", text)
    return os.path.getsize(path), int(prepared.group(1)) if status == 0 and prepared else 0


def test_shared_weights(folder):
    weight, path = random(16, 16), os.path.join(folder, "shared.gguf")
    one, prepared_one = layers_of(["same"], weight, path)
    eight, prepared_eight = layers_of(["same"] * 8, weight, path)
    copies, prepared_copies = layers_of([f"l{i}" for i in range(8)], weight, path)
    report("a weight of eight layers is stored once and prepared once",
           0 < prepared_one == prepared_eight == prepared_copies // 8 and copies > eight + 6 * weight.nbytes,
           f"{one}, {eight}, {copies} bytes of files, {prepared_one}, {prepared_eight}, {prepared_copies} prepared")


def test_shapes(folder):
    """They are the library's to work out: what does not fit is written, and found by `inspect` and `check`."""
    path, g = os.path.join(folder, "shapes.gguf"), bm.Graph()
    g.output("y", g.add(g.input("a", "f32", [2]), g.input("b", "f32", [3])))
    g.write(path)
    found = [brainstorm(command, path) for command in ("inspect", "check")]
    report("shapes that do not fit are found by inspect and check",
           all(status == 1 and "dimension 0 is 2 in operand 0 and 3 in operand 1" in text for status, text in found),
           f"{found}")


def random_nets():
    tensors = {}

    def layer(name, out, into, kernel, prelu=True):
        tensors[f"{name}.weight"] = random(out, into, kernel, kernel) * 0.05
        tensors[f"{name}.bias"] = np.zeros(out, np.float32)
        if prelu:
            tensors[f"{name}.prelu"] = np.full(out, 0.2, np.float32)

    layer("small.head", 16, 1, 5)
    layer("small.body0", 16, 16, 3)
    layer("small.tail", 4, 16, 3, False)
    layer("large.head", 32, 1, 3)
    for i in range(6):
        layer(f"large.body{i}", 32, 32, 3)
    for i in range(3):
        layer(f"large.tail{i}", 4, 32, 3, False)
    return tensors


def random_route():
    variants = len(export_sr.VARIANTS)
    route = {"route.cost": np.arange(1, variants + 1, dtype=np.int32)}
    for table in ("energy", "change"):
        route[f"route.{table}"] = np.arange(export_sr.BUCKETS * variants, dtype=np.int32).reshape(-1, variants)
    for i in range(len(export_sr.EXITS) - 1):
        for layer, shape in (("hidden", (8, 32)), ("out", (1, 8))):
            route[f"large.exit{i}.{layer}.weight"] = random(*shape)
            route[f"large.exit{i}.{layer}.bias"] = random(shape[0])
    return route


def saved(path, tensors):
    np.savez(path, **tensors)
    return np.load(path)


def test_export_sr(folder):
    path = os.path.join(folder, "sr.gguf")
    nets, route = (saved(os.path.join(folder, name), tensors)
                   for name, tensors in (("nets.npz", random_nets()), ("route.npz", random_route())))
    with nets, route:
        export_sr.build(nets, route, "sr", 1080, 1920).write(path)
    status, text = brainstorm("plan", path, "--input", "frame=1x540x960", "--order", "depth")
    report("export_sr writes a model that can be planned", status == 0, text)


def test_pages(folder):
    here = os.path.dirname(os.path.abspath(__file__))
    for page, model in (("bring_your_model.md", "experts.gguf"), ("networks_with_time.md", "decoder.gguf")):
        with open(os.path.join(here, "..", "docs", page), encoding="utf-8") as file:
            example = file.read().split("```python\n")[1].split("```")[0]
        path = os.path.join(folder, model)
        exec(compile(example.replace(f'"{model}"', repr(path)), f"docs/{page}", "exec"), {})
        status, text = brainstorm("check", path)
        report(f"the example of docs/{page} writes a model that loads", status == 0, text)


def main():
    warnings.simplefilter("error", RuntimeWarning)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "everything.gguf")
        g = everything()
        g.write(path)
        test_op_tables()
        test_library_reads(path, g)
        tensors = test_package_reads(path, g)
        test_weights(g, tensors)
        test_floor(path, folder)
        test_spill(folder)
        test_lifting(folder)
        test_read_weights(path, g)
        test_heads(path, g, tensors)
        test_opset(path, folder)
        test_repeatable(path, g, folder)
        test_damage(path, tensors, folder)
        test_shared_weights(folder)
        test_shapes(folder)
        test_export_sr(folder)
        test_pages(folder)
    return end()


if __name__ == "__main__":
    sys.exit(main())
