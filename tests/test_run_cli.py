# tags: needs:gguf,numpy
"""test_run_cli.py: `brainstorm run` gives what the network gives, shows any value inside, compares, tells the time;
what it cannot do it refuses in one line, and leaves no file behind.

Owns: three small networks. Relies on: model_rig.py. Must never leave a file behind.
"""

import os
import re
import struct
import sys
import tempfile
import zlib

from model_rig import brainstorm, end, random, report  # first: it finds python/

import numpy as np
from brainstorm import Graph


def lines(path):
    """y = 2 x + 1 and its largest of each line, for up to 9 lines; nothing else."""
    g = Graph("lines")
    x = g.input("x", "f32", [g.symbol("n", 9), 5])
    y = g.affine(x, 2.0, 1.0)
    g.output("y", y)
    g.output("best", g.argmax(y))
    g.write(path)


def ways(path):
    """Cells go one of two ways by what the gate says; each way has a record of its own."""
    g = Graph("ways")
    frame = g.input("frame", "f32", [3, g.symbol("H", 96), g.symbol("W", 96)])
    cells = g.patches(frame, size=32)
    first = g.conv2d(cells, "first", random(8, 3, 3, 3), act="tanh")
    pooled = g.reshape(g.pool2d(first, everything=1), [8])
    route = g.route(g.linear(pooled, "gate", random(2, 8)), "route", "top1", paths=2)
    out = []
    for p in range(2):
        with g.branch(route, p, f"way{p}", first) as y:
            for k in range(p + 1):
                y = g.conv2d(y, f"way{p}.{k}", random(8, 8, 3, 3) / 8, act="tanh")
            out.append(y)
    g.output("y", g.assemble(g.conv2d(g.gather(route, out), "last", random(3, 8, 3, 3) / 9)))
    g.write(path)


def codes(path):
    """A picture as it is, in codes and in f32."""
    g = Graph("codes")
    grey = g.input("grey", "u8", [1, g.symbol("H", 64), g.symbol("W", 64)])
    colour = g.input("colour", "f32", [3, 4, 6])
    g.output("same", g.convert(g.convert(grey, "f32"), "u8"))
    g.output("colour_out", g.affine(colour, 1.0, 0.0))
    g.write(path)


def run(*words):
    status, text = brainstorm("run", *words)
    return status, text


def test_values(folder):
    model, x, y, best = (os.path.join(folder, name) for name in ("l.gguf", "x.npy", "y.npy", "best.npy"))
    lines(model)
    given = random(4, 5)
    np.save(x, given)
    status, text = run(model, "--input", f"x={x}", "--output", f"y={y}", "--output", f"best={best}")
    report("a run", status == 0, text)
    want = 2 * given + 1
    report("gives what the network gives", np.array_equal(np.load(y), want) and np.load(y).dtype == np.float32, text)
    found = np.load(best)
    report("in every type", np.array_equal(found.ravel(), want.argmax(1)) and found.dtype == np.int32, text)
    report("and says it", "f32 [4, 5]" in text and f"{want.ravel()[0]:.6g}" in text, text)

    np.save(x, np.asfortranarray(given.astype(np.float64)))
    status, text = run(model, "--input", f"x={x}", "--compare", f"y={y}", "--quiet")
    report("an array of f64 in Fortran's order is the same", status == 0 and "largest difference 0 at" in text, text)
    off = want.copy()
    off[2, 3] += 0.5
    np.save(y, off)
    status, text = run(model, "--input", f"x={x}", "--compare", f"y={y}", "--tolerance", "1e-3")
    report("a difference is found where it is", status == 1 and "largest difference 0.5 at [2, 3]" in text, text)
    off[0, 0] = np.nan
    np.save(y, off)
    status, text = run(model, "--input", f"x={x}", "--compare", f"y={y}")
    report("a NaN on one side is one", status == 1 and "1 are NaN or infinite on one side only" in text, text)
    np.save(y, want[:3])
    status, text = run(model, "--input", f"x={x}", "--compare", f"y={y}")
    report("so are other extents", status == 1 and "other extents: [4, 5] and [3, 5]" in text, text)
    status, text = run(model)
    report("zeros, as many as the file takes at most", status == 0 and "[9, 5]  1 .. 1" in text, text)
    status, text = run(model, "--input", "x=2x5", "--runs", "3")
    report("zeros of other extents, three runs", status == 0 and "[2, 5]  1 .. 1" in text, text)
    first, second = run(model, "--input", "x=random"), run(model, "--input", "x=random:9x5")
    report("noise is the same each time", first == second and first[0] == 0, first[1] + second[1])


def test_ways(folder):
    model, x, y, z, inner = (os.path.join(folder, name) for name in ("w.gguf", "f.npy", "w1.npy", "w2.npy", "p.npy"))
    ways(model)
    np.save(x, random(3, 70, 90))
    plain = run(model, "--input", f"frame={x}", "--output", f"y={y}")
    report("a network of two ways", plain[0] == 0, plain[1])
    for words in (["--threads", "3"], ["--order", "breadth"], ["--slots", "80%"], ["--time"], ["--runs", "2"],
                  ["--peek", "first", "--peek", "way1.0"]):
        status, text = run(model, "--input", f"frame={x}", "--output", f"y={z}", *words)
        same = status == 0 and open(y, "rb").read() == open(z, "rb").read()
        report(f"{' '.join(words)}: the same bytes", same, text)
        if os.path.exists(z):
            os.remove(z)
    status, text = run(model, "--input", f"frame={x}", "--peek", f"way1.1={inner}", "--peek", "gate", "--quiet")
    seen = np.load(inner)
    cells = seen.reshape(8, 70, 90)[:, :64, :64].reshape(8, 2, 32, 2, 32).any((0, 2, 4))
    report("of a path rows that went elsewhere are zeros", status == 0 and seen.any() and not cells.all(),
           text + str(cells))
    status, text = run(model, "--input", f"frame={x}", "--time", "--quiet", "--threads", "1")
    share = re.search(r"ops take ([0-9.]+) % of it", text)
    report("--time: ops make up the run", status == 0 and share and 80 <= float(share.group(1)) <= 100.1, text)
    report("the most expensive and their blocks are named",
           "way1" in text and "conv2d" in text and "GFLOP/s" in text, text)
    trace = os.path.join(folder, "t.json")
    status, text = run(model, "--input", f"frame={x}", "--trace", trace, "--threads", "2", "--quiet")
    shown = open(trace, encoding="utf-8").read()
    report("a trace has tiles and ops", status == 0 and '"cat":"tile"' in shown and "conv2d way1.1" in shown, text)
    profile = os.path.join(folder, "p.bsp")
    status, text = run(model, "--input", f"frame={x}", "--profile", profile, "--quiet")
    told = brainstorm("profile", profile)
    report("so has a profile", status == 0 and told[0] == 0 and "way1.1" in told[1], text + told[1])


def test_pictures(folder):
    model, grey, colour, png = (os.path.join(folder, name) for name in ("c.gguf", "g.pgm", "c.ppm", "c.png"))
    codes(model)
    pixels = (np.arange(20 * 30) * 7 % 256).astype(np.uint8)
    with open(grey, "wb") as file:
        file.write(b"P5\n# a comment\n30 20\n255\n" + pixels.tobytes())
    with open(colour, "wb") as file:
        file.write(b"P6 6 4 255\n" + pixels[:72].tobytes())
    back, arrays = os.path.join(folder, "back.pgm"), os.path.join(folder, "c.npy")
    status, text = run(model, "--input", f"grey={grey}", "--input", f"colour={colour}", "--output", f"same={back}",
                       "--output", f"colour_out={arrays}")
    written = open(back, "rb").read() if status == 0 else b""
    report("pictures in and out", written == b"P5\n30 20\n255\n" + pixels.tobytes(), text)
    want = pixels[:72].reshape(4, 6, 3).transpose(2, 0, 1) / np.float32(255)
    report("RGB becomes planes of 0 to 1", np.allclose(np.load(arrays), want, atol=1e-7), text)
    status, text = run(model, "--input", f"grey={colour}", "--output", f"colour_out={png}")
    report("a PNG is written, and colour becomes grey", status == 0 and open(png, "rb").read(4) == b"\x89PNG", text)
    again = os.path.join(folder, "again.npy")
    os.replace(colour, colour + ".old")
    with open(colour, "wb") as file:
        file.write(b"P6 6 4 255\n" + pixels[200:272].tobytes())
    run(model, "--input", f"colour={colour}", "--output", f"colour_out={png}", "--quiet")
    status, text = run(model, "--input", f"colour={png}", "--output", f"colour_out={again}")
    want = pixels[200:272].reshape(4, 6, 3).transpose(2, 0, 1) / np.float32(255)
    report("and is read again as it was", status == 0 and np.allclose(np.load(again), want, atol=1e-7), text)


def png_of(kind, rows, level, strategy, filters, palette=b""):
    """rows: [height, width, samples]; every row has the next of `filters`, and is what that makes of it."""
    height, width, samples = rows.shape
    raw, above = b"", np.zeros(width * samples, int)
    for y in range(height):
        row, how = rows[y].ravel().astype(int), filters[y % len(filters)]
        left = np.concatenate([np.zeros(samples, int), row[:-samples]])
        corner = np.concatenate([np.zeros(samples, int), above[:-samples]])
        near = np.stack([left, above, corner])
        apart = np.abs(left + above - corner - near)
        foretold = (np.zeros_like(row), left, above, (left + above) // 2, near[apart.argmin(0), np.arange(len(row))])
        raw += bytes([how]) + ((row - foretold[how]) % 256).astype(np.uint8).tobytes()
        above = row
    packer = zlib.compressobj(level, zlib.DEFLATED, 15, 9, strategy)
    data = packer.compress(raw) + packer.flush()

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0))
    colours = chunk(b"PLTE", palette) if palette else b""
    half = len(data) // 2
    return (b"\x89PNG\r\n\x1a\n" + head + chunk(b"tEXt", b"a\0b") + colours + chunk(b"IDAT", data[:half])
            + chunk(b"IDAT", data[half:]) + chunk(b"IEND", b""))


def test_png(folder):
    """Every kind of 8 bits, every filter, every kind of block."""
    model, path, back = (os.path.join(folder, name) for name in ("k.gguf", "in.png", "out.npy"))
    codes(model)
    numbers = np.random.default_rng(3)
    palette = numbers.integers(0, 256, (200, 3)).astype(np.uint8)
    blocks = ((0, zlib.Z_DEFAULT_STRATEGY), (9, zlib.Z_DEFAULT_STRATEGY), (6, zlib.Z_FIXED), (6, zlib.Z_RLE))
    for kind, samples in ((0, 1), (2, 3), (3, 1), (4, 2), (6, 4)):
        wrong = []
        for level, strategy in blocks:
            pixels = numbers.integers(0, 200, (4, 6, samples)).astype(np.uint8)
            pixels[2:] = pixels[1]
            with open(path, "wb") as file:
                file.write(png_of(kind, pixels, level, strategy, (4, 1, 2, 3, 0),
                                  palette.tobytes() if kind == 3 else b""))
            shown = palette[pixels[..., 0]] if kind == 3 else np.broadcast_to(
                pixels[..., :3] if samples > 2 else pixels[..., :1], (4, 6, 3))
            status, text = run(model, "--input", f"colour={path}", "--output", f"colour_out={back}", "--quiet")
            if status or not np.allclose(np.load(back), shown.transpose(2, 0, 1) / np.float32(255), atol=1e-7):
                wrong.append(f"{level} {strategy}: {text}")
        report(f"a PNG of kind {kind}", not wrong, wrong)
    grey = png_of(0, pixels[..., :1], 6, 0, (0,))
    for name, data, says in (("a bit of its head", grey.replace(b"\x08\0\0\0\0", b"\x10\0\0\0\0"), "checksum"),
                             ("no PNG", grey[:6], "begin"), ("half of it", grey[:60], "ends within"),
                             ("a colour that is not there", png_of(3, pixels[..., :1], 6, 0, (0,), b"abc"), "palette"),
                             ("no palette", png_of(3, pixels[..., :1], 6, 0, (0,)), "no palette")):
        with open(path, "wb") as file:
            file.write(data)
        status, text = run(model, "--input", f"colour={path}")
        report(f"refused: {name}", status != 0 and says in text, text)


def triangle(n, m):
    """[m, n]: the filter that makes m samples of n, by its definition."""
    reach = max(n / m, 1)
    centre = (np.arange(m)[:, None] + 0.5) * n / m - 0.5
    weights = np.maximum(1 - np.abs(np.arange(n)[None] - centre) / reach, 0)
    return weights / weights.sum(1, keepdims=True)


def batched(path, dtype, channels, height, width):
    """A network as importers make it, [1, channels, H, W] in and out, free or not. It changes nothing."""
    g = Graph("batched")
    size = [g.symbol(name, 400) if extent is None else extent for name, extent in (("H", height), ("W", width))]
    x = g.input("x", dtype, [1, channels, *size])
    g.output("y", g.affine(x, 1.0, 0.0) if dtype == "f32" else g.convert(g.convert(x, "f32"), "u8"))
    g.write(path)


def test_batched_pictures(folder):
    """Pictures for inputs with a batch before: as they are, of another size, with what a network was trained with."""
    model, colour, back, y = (os.path.join(folder, name) for name in ("b.gguf", "b.ppm", "back.ppm", "b.npy"))
    pixels = np.random.default_rng(4).integers(0, 256, (20, 30, 3)).astype(np.uint8)
    with open(colour, "wb") as file:
        file.write(b"P6 30 20 255\n" + pixels.tobytes())
    planes = pixels.transpose(2, 0, 1)[None].astype(np.float32)
    grey = np.tensordot(np.float32([0.299, 0.587, 0.114]), planes[0], 1)[None, None]
    for dtype, channels, fixed, given in (("f32", 3, (20, 30), planes / 255), ("f32", 3, (None, None), planes / 255),
                                          ("f32", 1, (20, None), grey / 255), ("u8", 3, (20, 30), planes),
                                          ("u8", 1, (None, None), np.floor(grey + 0.5))):
        batched(model, dtype, channels, *fixed)
        status, text = run(model, "--input", f"x={colour}", "--output", f"y={y}", "--quiet")
        same = status == 0 and np.load(y).shape == given.shape and np.allclose(np.load(y), given, atol=1e-5)
        report(f"a picture goes to {dtype} [1, {channels}, {fixed}]", same, text)
    batched(model, "f32", 3, 20, 30)
    status, text = run(model, "--input", f"x={colour}", "--output", f"y={back}", "--quiet")
    report("and comes of it again", status == 0 and open(back, "rb").read()[-1800:] == pixels.tobytes(), text)

    for height, width in ((20, 30), (40, 61), (7, 11), (1, 1), (13, 90), (400, 3)):
        batched(model, "u8", 3, None, None)
        status, text = run(model, "--input", f"x={colour}", "--resize", f"{height}x{width}", "--output", f"y={y}",
                           "--quiet")
        want = triangle(20, height) @ planes[0] @ triangle(30, width).T
        apart = np.abs(np.load(y)[0] - want).max() if status == 0 else 999
        report(f"--resize {height}x{width}", apart <= 0.501, f"{apart} {text}")
    batched(model, "f32", 3, 16, 24)
    status, text = run(model, "--input", f"x={colour}", "--output", f"y={y}")
    report("another size than the input's: what helps is said", status == 1 and "--resize" in text, text)
    status, text = run(model, "--input", f"x={colour}", "--resize", "input", "--output", f"y={y}", "--quiet")
    report("--resize input", status == 0 and np.load(y).shape == (1, 3, 16, 24), text)

    batched(model, "f32", 3, 20, 30)
    means, scales = (123.675, 116.28, 103.53), (0.01712, 0.01751, 0.01743)
    each = lambda numbers: np.float32(numbers).reshape(-1, 1, 1)
    for words, want in ((["--mean", "127.5", "--scale", "0.0078125"], (planes - 127.5) / 128),
                        (["--mean", ",".join(map(str, means)), "--scale", ",".join(map(str, scales))],
                         (planes - each(means)) * each(scales)),
                        (["--scale", "1"], planes), (["--mean", "-5"], (planes + 5) / 255),
                        (["--mean", "1,2,3", "--scale", "2"], (planes - each((1, 2, 3))) * 2)):
        status, text = run(model, "--input", f"x={colour}", *words, "--output", f"y={y}", "--quiet")
        report(" ".join(words), status == 0 and np.allclose(np.load(y), want, atol=1e-4), text)
    grey_model = os.path.join(folder, "grey.gguf")
    batched(grey_model, "f32", 1, None, None)
    u8 = os.path.join(folder, "u8.gguf")
    batched(u8, "u8", 3, None, None)
    flat = Graph("flat")
    flat.output("y", flat.affine(flat.input("x", "f32", [1, 4, 20, 30]), 1.0, 0.0))
    flat.write(os.path.join(folder, "four.gguf"))
    for words, says in (([model, "--mean", "1,2"], "not understood"), ([model, "--mean", "one"], "not understood"),
                        ([model, "--scale", "1,2,3,4"], "not understood"),
                        ([model, "--scale", "nan"], "not understood"),
                        ([model, "--resize", "20"], "not understood"), ([model, "--resize", "0x5"], "not understood"),
                        ([model, "--resize", "40000x5"], "not understood"),
                        ([grey_model, "--mean", "1,2,3"], "one channel"), ([u8, "--scale", "1"], "are for f32"),
                        ([os.path.join(folder, "four.gguf")], "a picture goes to")):
        status, text = run(words[0], "--input", f"x={colour}", *words[1:])
        report(f"refused: {' '.join(words[1:]) or 'four channels'}", status != 0 and says in text, text)


def test_refusals(folder):
    model, x = os.path.join(folder, "r.gguf"), os.path.join(folder, "r.npy")
    lines(model)
    out = os.path.join(folder, "none.npy")
    np.save(x, np.zeros((4, 5), np.int32))
    wide = os.path.join(folder, "wide.npy")
    np.save(wide, np.zeros((4, 6), np.float32))
    right = os.path.join(folder, "right.npy")
    np.save(right, np.ones((4, 5), np.float32))
    cut = os.path.join(folder, "cut.npy")
    with open(cut, "wb") as file:
        file.write(open(wide, "rb").read()[:-1])
    picture = os.path.join(folder, "p.pgm")
    with open(picture, "wb") as file:
        file.write(b"P5 3 3 255\n" + bytes(9))
    rows = (
        ([], "it takes a model file"),
        ([model, model], "more than one file"),
        ([os.path.join(folder, "no.gguf")], "no.gguf"),
        ([model, "--input", "z=3x5"], 'there is no input "z"'),
        ([model, "--input", "y=3x5"], 'there is no input "y"'),
        ([model, "--output", f"x={out}"], 'there is no output "x"'),
        ([model, "--output", "y=out.txt"], "not understood"),
        ([model, "--input", f"x={x}"], "it holds i32, expected f32"),
        ([model, "--input", f"x={wide}"], "x"),
        ([model, "--input", f"x={cut}"], "before its last element"),
        ([model, "--input", "x=ones"], "expected FILE.npy"),
        ([model, "--input", f"x={folder}/none.npy"], "none.npy"),
        ([model, "--input", f"x={picture}"], "a picture goes to"),
        ([model, "--peek", "nobody"], "there is no node of that name"),
        ([model, "--peek", "999"], "there is no node of that name"),
        ([model, "--runs", "0"], "not understood"),
        ([model, "--time", "--trace", out], "--time records by itself"),
        ([model, "--frobnicate"], "an unknown option"),
        ([model, "--input", f"x={right}", "--output", f"y={right}"], "right.npy"),
    )
    for words, says in rows:
        status, text = run(*words)
        good = status != 0 and says in text and text.count("\n") <= 3 and "Sanitizer" not in text
        report(f"refused: {' '.join(os.path.basename(w) for w in words)}", good, text)
    report("and nothing was written", not os.path.exists(out) and np.load(right).shape == (4, 5), out)
    status, text = run("--help")
    report("--help says how", status == 0 and "--peek" in text and "--slots" in text, text)


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_values(folder)
        test_ways(folder)
        test_pictures(folder)
        test_png(folder)
        test_batched_pictures(folder)
        test_refusals(folder)
    return end()


sys.exit(main())
