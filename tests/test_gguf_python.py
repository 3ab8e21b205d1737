# needs: gguf numpy
"""test_gguf_python.py: what tools/brainstorm_model.py writes is what the library and the `gguf` package read.

Owns: one graph with every op and structure that the exporter knows. Relies on: $BUILD/brainstorm, tools/, the gguf
package (tools/requirements.txt). Must never leave a file behind.
"""

import os
import re
import struct
import subprocess
import sys
import tempfile
import warnings
import zlib

try:
    import gguf
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing} (pip install -r tools/requirements.txt)\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import brainstorm_model as bm
import export_sr

PROGRAM = [*os.environ.get("RUN", "").split(), os.path.join(os.environ.get("BUILD", "build"), "brainstorm")]
results = {True: 0, False: 0}


def report(name, passed, why=""):
    results[bool(passed)] += 1
    print(f"ok {name}" if passed else f"FAIL {name}: {why}")


def brainstorm(*words):
    done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def random(*shape):
    return np.random.default_rng(len(shape) * 97 + sum(shape)).standard_normal(shape).astype(np.float32)


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


def tokens(g):
    """Rows of 8 features; experts picked by top-2."""
    x = g.rows(g.input("tokens", "f32", [g.symbol("n", 40), 8]))
    h = g.layer_norm(x, "ln", random(8), random(8))
    scores = g.softmax(g.linear(h, "score", random(4, 8), random(4)))
    g.look_ahead(g.linear(x, "guess", random(4, 8)), "experts")
    router = g.route(scores, "experts", "topk", 4, k=2, normalise=1)
    outs = []
    for path in range(4):
        with g.branch(router, path, f"expert{path}", h) as e:
            outs.append(g.linear(e, f"e{path}", random(8, 8), act="silu"))
    y = g.gather(router, outs, residual=x, mode="weighted")
    best, index = g.topk(scores, 2)
    square = g.reshape(y, [2, 4])
    product = g.matmul(square, square, transpose_b=1, scale=0.5)
    turned = g.transpose(product, [1, 0])
    g.output("sum", g.collect(g.reduce(turned, "mean", axis=-1, keep=0)))
    g.output("best", g.collect(best))
    g.output("index", g.collect(index))
    g.output("first", g.collect(g.argmax(scores)))
    g.output("gate", g.collect(g.route_score(router)))


def sequences(g):
    """A layer of a decoder over the tokens of four sequences, with its cache."""
    words, lengths = g.input("words", "i32", [g.symbol("t", 64), 1]), g.input("lengths", "i32", [4])
    past = g.input("past", "i32", [4])
    table = g.constant("embedding", random(10, 8))
    x = g.reshape(g.gather_rows(table, g.segments(words, lengths)), [8])
    q, k, v = (g.linear(x, f"sequence.{part}", random(8, 8)) for part in "qkv")
    cache = [g.state(f"cache_{part}", "f32", [4, 16, 8]) for part in "kv"]
    y = g.add(x, g.attention(q, k, v, *cache, past, heads=2, alibi=1, name="attend"))
    y = g.sub(y, g.segment_spread(g.segment_reduce(y, "mean"), y))
    g.state_append(cache[0], k, past)
    g.state_append(cache[1], v, past)
    g.output("last", g.segment_reduce(g.attention(y, y, y), "last"))


def whole_images(g):
    x = g.input("image", "f32", [3, 32, 32])
    x = g.pad(x, 1, 1, 2, 2, edge=1)
    x = g.pool2d(g.deconv2d(x, "up", random(3, 2, 2, 2), random(2), stride=2), "max", 2, padding="valid")
    x = g.conv2d(x, "padded", random(2, 2, 3, 3), padding="explicit", pad=2)
    x = g.resize(x, "nearest", 2)
    g.output("mean", g.pool2d(x, "average", everything=1))


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
    tokens(g)
    sequences(g)
    whole_images(g)
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


def raises(action):
    try:
        action()
    except ValueError:
        return True
    return False


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


def twice(g):
    x = g.input("x", "f32", [4])
    g.linear(x, "l", np.ones((2, 4), np.float32))
    g.linear(x, "l", np.zeros((2, 4), np.float32))


def foreign(g):
    g.output("y", bm.Graph().input("x", "f32", [1]))


def empty_block(g):
    with g.block("nothing"):
        pass


def refused_ops():
    """Numbers that the library refuses, whatever the shapes."""
    image = lambda g: g.input("x", "f32", [1, 600, 600])
    codes = lambda g: g.patches(g.input("x", "u8", [1, 64, 64]))
    conv = lambda shape=(1, 1, 3, 3), **fields: lambda g: g.conv2d(image(g), "c", np.zeros(shape, np.float32), **fields)
    deconv = lambda shape=(1, 1, 3, 3), **fields: (
        lambda g: g.deconv2d(image(g), "d", np.zeros(shape, np.float32), **fields))
    return {
        "a kernel 256 high": conv((1, 1, 256, 1)),
        "a kernel 256 wide": conv((1, 1, 1, 256)),
        "a stride of 256": conv(stride=256),
        "a stride below 0": conv(stride=-1),
        "half a stride": conv(stride=1.5),
        "a dilation of 256": conv(dilation=256),
        "2^20 + 1 channels": conv((2**20 + 1, 1, 1, 1)),
        "2^20 + 1 groups": conv(groups=2**20 + 1),
        "-2 groups": conv(groups=-2),
        "3 channels in 2 groups": conv((3, 1, 3, 3), groups=2),
        "prelu without slopes in a layer": conv(act="prelu"),
        "a deconv2d's kernel of 256": deconv((1, 1, 256, 256)),
        "a deconv2d's kernel that is not square": deconv((1, 1, 3, 2)),
        "a deconv2d's stride of 17": deconv(stride=17),
        "a deconv2d's 2^20 + 1 channels": deconv((1, 2**20 + 1, 1, 1)),
        "an output_pad of 16": deconv(stride=16, output_pad=16),
        "an output_pad of the stride": deconv(stride=2, output_pad=2),
        "2^24 + 1 features": lambda g: g.linear(image(g), "l", np.zeros((2**24 + 1, 1), np.float16)),
        "a pool's kernel of 256": lambda g: g.pool2d(image(g), kernel=256),
        "a pool's stride of 256": lambda g: g.pool2d(image(g), stride=256),
        "more than half a pool's default around it": lambda g: g.pool2d(image(g), pad=2, padding="explicit"),
        "r = 0": lambda g: g.pixel_shuffle(image(g), 0),
        "r = 65": lambda g: g.pixel_shuffle(image(g), 65),
        "r = 65 the other way": lambda g: g.pixel_unshuffle(image(g), 65),
        "a factor of 17": lambda g: g.resize(image(g), factor=17),
        "17 bits of a code": lambda g: g.convert(image(g), "u16", code_bits=17),
        "17 bits of a resized code": lambda g: g.resize(image(g), code_bits=17),
        "129 buckets": lambda g: g.patch_features(codes(g), buckets=129),
        "one bucket": lambda g: g.patch_features(codes(g), buckets=1),
        "features of 7 bits": lambda g: g.patch_features(codes(g), code_bits=7),
        "patches of 8,193": lambda g: g.patches(image(g), 8193),
        "a side of a pad beyond 2^15": lambda g: g.pad(image(g), left=2**15 + 1),
        "a pad below 0": lambda g: g.pad(image(g), top=-1),
        "prelu without slopes": lambda g: g.activation(image(g), "prelu"),
        "low above high": lambda g: g.clip(image(g), 1, 0),
        "low that is no number": lambda g: g.clip(image(g), np.nan, 0),
        "a constant of bytes": lambda g: g.constant("c", np.zeros(3, np.uint8)),
        "a constant of halves": lambda g: g.constant("c", np.zeros(3, np.float16)),
        "a constant without a name": lambda g: g.constant("", np.zeros(3, np.float32)),
        "weights that are whole numbers": lambda g: g.linear(image(g), "l", np.ones((2, 600), np.int32)),
        "axis 4": lambda g: g.concat([image(g)], axis=4),
        "axis -5": lambda g: g.reduce(image(g), "sum", axis=-5),
        "a slice that starts before 0": lambda g: g.slice(image(g), axis=0, start=-1, length=1),
        "a slice of a length below 0": lambda g: g.slice(image(g), axis=0, start=0, length=-1),
        "the first none": lambda g: g.topk(image(g), 0),
        "what is left over, twice": lambda g: g.reshape(image(g), [-1, -1]),
        "a reshaped dimension of 0": lambda g: g.reshape(image(g), [0]),
        "a reshaped dimension of -2": lambda g: g.reshape(image(g), [-2]),
        "a dimension that is there twice": lambda g: g.reshape(image(g), ["a0", "a0"]),
        "a fifth dimension's copy": lambda g: g.reshape(image(g), ["a4"]),
        "five dimensions": lambda g: g.reshape(image(g), [1, 1, 1, 1, -1]),
        "no dimensions": lambda g: g.reshape(image(g), []),
        "an order that takes one twice": lambda g: g.transpose(image(g), [0, 1, 1]),
        "an order below 0": lambda g: g.transpose(image(g), [0, 1, -1]),
        "heads below 0": lambda g: g.attention(*[image(g)] * 3, heads=-1),
        "alibi 2": lambda g: g.attention(*[image(g)] * 3, alibi=2),
        "a number that 32 bits cannot hold": lambda g: g.pool2d(image(g), everything=2**31),
    }


def refused_structure():
    """The same of names, routers and what is made by what."""
    rows = lambda g: g.rows(g.input("x", "f32", [4, 2]))
    cells = lambda g: g.rows(g.input("x", "i32", [4, 2]))

    def routed_by(protocol, paths=2, **fields):
        return lambda g: g.route(rows(g), "r", protocol, paths, **fields)

    def gathered(protocol, **fields):
        def action(g):
            x = rows(g)
            g.gather(g.route(x, "r", protocol, 2, **fields), [x, x])
        return action

    def written_twice(g):
        state = g.state("s", "f32", [1])
        g.state_write(state, state)
        g.state_write(state, state)

    def another_router(g):
        other = bm.Graph()
        g.scatter(other.route(rows(other), "r", "top1", 2), 0, rows(g))

    return {
        "a binary router of one path": routed_by("binary", 1),
        "a binary router of three paths": routed_by("binary", 3),
        "a residual threshold of three paths": routed_by("residual_threshold", 3),
        "a budget without costs": routed_by("budget"),
        "a table router without a table": routed_by("table"),
        "costs of other protocols": routed_by("top1", cost=[1, 2]),
        "a path for each but one variant": routed_by("budget", cost=[1, 2], path=[0]),
        "a variant of a path that is not": routed_by("budget", cost=[1, 2], path=[0, 2]),
        "a key of a path that is not": routed_by("table", table=[0, 1, 2]),
        "a gather of nothing": lambda g: g.gather(g.route(rows(g), "r", "top1", 2), [None, None]),
        "to place two paths a cell": gathered("topk", k=2),
        "to place any paths a cell": gathered("threshold"),
        "a price without a budget": lambda g: g.route_price(g.route(rows(g), "r", "top1", 2)),
        "a router of another graph": another_router,
        "a look ahead to nobody": lambda g: g.look_ahead(rows(g), ""),
        "to write what is no state": lambda g: g.state_write(*[g.input("x", "f32", [1])] * 2),
        "to append to what is no state": lambda g: g.state_append(rows(g), cells(bm.Graph()), None),
        "to write a state twice": written_twice,
        "lengths that are no input": lambda g: g.segments(g.input("x", "f32", [4]),
                                                          g.constant("c", np.ones(2, np.int32))),
        "a past that is no input": lambda g: g.attention(*[g.input("x", "f32", [1])] * 5,
                                                         g.constant("c", np.ones(1, np.int32))),
        "a symbol of another graph": lambda g: g.input("x", "f32", [bm.Graph().symbol("s", 4)]),
        "a symbol times what is beyond 2^30": lambda g: g.input("x", "f32", [1024 * g.symbol("s", 2**20 + 1)]),
        "0 times a symbol": lambda g: g.input("x", "f32", [0 * g.symbol("s", 4)]),
        "an operand that is none": lambda g: g.add(g.input("x", "f32", [1]), None),
        "a bias of another length": lambda g: g.linear(rows(g), "l", random(4, 2), random(3)),
        "slopes of another length": lambda g: g.linear(rows(g), "l", random(4, 2), prelu=random(5)),
        "a mean of another length": lambda g: g.batch_norm(rows(g), "n", *(random(n) for n in (2, 2, 3, 2))),
        "half an extent": lambda g: g.input("x", "f32", [1.5]),
        "one and a half times a symbol": lambda g: g.input("x", "f32", [1.5 * g.symbol("s", 4)]),
        "2^40 + 2^10 elements": lambda g: g.input("x", "f32", [2**30, 2**10 + 1]),
        "a model's name of 64 bytes": lambda g: bm.Graph("n" * 64),
        "a model's name that is not ASCII": lambda g: bm.Graph("ü"),
        "a model's scale of 65": lambda g: bm.Graph("", scale=65),
    }


def test_refusals():
    refused = {
        "a pad that is not read": lambda g: g.conv2d(g.input("x", "f32", [1, 8, 8]), "c", random(1, 1, 3, 3), pad=1),
        "the pad that meant none": lambda g: g.conv2d(g.input("x", "f32", [1, 8, 8]), "c", random(1, 1, 3, 3), pad=-1),
        "padding of no name": lambda g: g.pool2d(g.input("x", "f32", [1, 8, 8]), padding="same"),
        "two different weights of one name": twice,
        "a value of another graph": foreign,
        "an empty block": empty_block,
        "a weight that is not finite": lambda g: g.constant("c", np.array([np.nan], np.float32)),
        "a weight of a type unknown": lambda g: g.constant("c", np.zeros(3, np.complex64)),
        "a name that is too long": lambda g: g.input("n" * 64, "f32", [1]),
        "an activation unknown": lambda g: g.activation(g.input("x", "f32", [1]), "swish"),
        "half a cache": lambda g: g.attention(*[g.input("x", "f32", [1])] * 4),
        "a parameter unknown": lambda g: g.node("softmax", [g.input("x", "f32", [1])], axis=1),
        **refused_ops(),
        **refused_structure(),
    }
    for name, action in refused.items():
        report(f"the exporter refuses {name}", raises(lambda: action(bm.Graph())), "it does not")


def test_allowed():
    """What is just within the limits is written, and the library agrees."""
    image = lambda g, *shape: g.input("x", "f32", shape or [1, 600, 600])
    allowed = {
        "a kernel of 255": lambda g: g.conv2d(image(g), "c", random(1, 1, 255, 255)),
        "a stride of 255": lambda g: g.conv2d(image(g), "c", random(1, 1, 1, 1), stride=255),
        "a dilation of 255": lambda g: g.conv2d(image(g), "c", random(1, 1, 3, 3), dilation=255),
        "2^20 channels": lambda g: g.conv2d(image(g), "c", np.zeros((2**20, 1, 1, 1), np.float32)),
        "a deconv2d's stride of 16": lambda g: g.deconv2d(image(g), "d", random(1, 1, 3, 3), stride=16, output_pad=15),
        "a pool's pad of half its default": lambda g: g.pool2d(image(g), pad=1, padding="explicit"),
        "r = 64": lambda g: g.pixel_shuffle(image(g, 64 * 64, 2, 2), 64),
        "a factor of 16": lambda g: g.resize(image(g), "nearest", 16),
        "128 buckets": lambda g: g.collect(g.patch_features(g.patches(g.input("x", "u8", [1, 8, 8]), 8), buckets=128)),
        "1,024 times a symbol": lambda g: g.input("x", "f32", [1024 * g.symbol("s", 2**20)]),
        "2^40 elements": lambda g: g.input("x", "f32", [2**30, 2**10]),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "allowed.gguf")
        for name, action in allowed.items():
            g = bm.Graph("n" * 63, scale=64)
            g.output("y", action(g))
            g.write(path)
            status, text = brainstorm("inspect", path)
            report(f"the exporter writes {name}, the library builds it", status == 0, text)


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


def test_own_model(folder):
    here = os.path.dirname(os.path.abspath(__file__))
    with open(os.path.join(here, "..", "docs", "own_model.md"), encoding="utf-8") as file:
        example = file.read().split("```python\n")[1].split("```")[0]
    path = os.path.join(folder, "experts.gguf")
    exec(compile(example.replace('"experts.gguf"', repr(path)), "docs/own_model.md", "exec"), {})
    status, text = brainstorm("check", path)
    report("the example of docs/own_model.md writes a model that loads", status == 0, text)


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
        test_read_weights(path, g)
        test_heads(path, g, tensors)
        test_opset(path, folder)
        test_repeatable(path, g, folder)
        test_damage(path, tensors, folder)
        test_shared_weights(folder)
        test_refusals()
        test_allowed()
        test_shapes(folder)
        test_export_sr(folder)
        test_own_model(folder)
    print(f"{results[True]} passed, {results[False]} failed")
    return results[False] != 0


if __name__ == "__main__":
    sys.exit(main())
