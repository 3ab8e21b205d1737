# tags: needs:gguf,numpy
"""test_video_models.py: video_sr takes any model that is as examples/video/README.md says, and tells what another one
lacks.

Owns: small models without a weight worth the name: every patch is enlarged by bicubic, and a router sends flat and busy
ones different ways. Relies on: $BUILD/video_sr, python/brainstorm. Must never leave a file behind.
"""
import json
import os
import shutil
import subprocess
import sys

try:
    import gguf  # noqa: F401: what it writes with
    import numpy as np
except ImportError as missing:
    print(f"skipped: {missing} (pip install -r tools/requirements.txt)\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
from brainstorm import Graph  # noqa: E402

BUILD, RUN = os.environ.get("BUILD", "build"), os.environ.get("RUN", "").split()
WORK = os.path.join(BUILD, "tests", "video_models")
W, H = 160, 96
FLAT, BUSY = 1, 3  # paths
results = {True: 0, False: 0}


def check(name, good, why=""):
    results[bool(good)] += 1
    print(f"ok {name}" if good else f"FAIL {name}: {why}", flush=True)


def model(path, scale=2, patch=32, paths=4, router="route", frame="frame", frame_type="u8", budget="budget",
          budget_shape=(1,), out="frame_2x",
          factor=2):
    """Routes by how much a patch varies. What is not as it should be is an argument."""
    g = Graph("tiny", scale)
    height, width = g.symbol("H", 512), g.symbol("W", 512)
    picture = g.input(frame, frame_type, [1, height, width])
    if budget:
        g.input(budget, "f32", list(budget_shape))
    bytes_ = picture if frame_type == "u8" else g.convert(picture, "u8")
    cells = g.patches(bytes_, patch)
    energy = g.convert(g.slice(g.patch_features(cells, buckets=80), axis=0, start=0, length=1), "f32")
    weight, bias = np.zeros((paths, 1), np.float32), np.zeros(paths, np.float32)
    weight[paths - 1], bias[FLAT] = 1, 20
    by = g.route(g.linear(energy, "score", weight, bias), router, "top1", paths)
    values = []
    for path_number in range(paths):
        with g.branch(by, path_number, f"path{path_number}", cells) as x:
            values.append(g.resize(x, "bicubic", factor))
    g.output(out, g.assemble(g.gather(by, values)))
    g.write(path)


def clip(path):
    """The left 64 columns are flat, the right ones noise; no colour."""
    noise = np.random.default_rng(5).integers(0, 256, (H, W), dtype=np.uint8)
    noise[:, :64] = 90
    with open(path, "wb") as file:
        file.write(f"YUV4MPEG2 W{W} H{H} F1:1 Ip C444\nFRAME\n".encode() + noise.tobytes() + bytes([128]) * (2 * W * H))


def double(*arguments):
    program = [*RUN, os.path.join(BUILD, "video_sr")]
    done = subprocess.run([*program, "--quiet", "--model", at("model"), *arguments, at("clip"), at("out")],
                          stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stderr


def at(name):
    ending = {"model": ".gguf", "clip": ".y4m", "out": ".y4m", "map": ".y4m"}.get(name, ".json")
    return os.path.join(WORK, name + ending)


def colours():
    """Of the map: the two chroma planes of its only frame."""
    with open(at("map"), "rb") as file:
        data = file.read()
    planes = np.frombuffer(data[data.index(b"FRAME\n") + 6:], np.uint8).reshape(3, 2 * H, 2 * W)
    return planes[1].astype(int) * 256 + planes[2]


def test_patches():
    """Every tile of the map has one colour, and it is that of what the tile holds, whatever the model's patches."""
    for patch in (16, 32, 48, 64, 96):
        model(at("model"), patch=patch)
        status, message = double("--map", at("map"), "--stats", at("stats"))
        if status != 0:
            check(f"a model of patches of {patch}", False, message)
            continue
        shown, side = colours(), 2 * patch
        with open(at("stats")) as file:
            cells = {name: route["cells"] for name, route in json.load(file)["routes"].items()}
        across, down = -(-W // patch), -(-H // patch)
        flat = 64 // patch  # columns of tiles that hold no noise
        even = all(len(np.unique(shown[y * side:(y + 1) * side, x * side:(x + 1) * side])) == 1
                   for y in range(down) for x in range(across))
        ways = {bool(x < flat): set() for x in range(across)}
        for x in range(across):
            ways[x < flat] |= set(np.unique(shown[:, x * side:(x + 1) * side]))
        check(f"patches of {patch}: the map's tiles are the model's",
              even and all(len(colour) == 1 for colour in ways.values()) and (flat == 0 or ways[True] != ways[False]),
              f"{even}, {ways}")
        check("... and all are counted", cells["bicubic"] == flat * down and cells["large"] == (across - flat) * down,
              cells)
        status, message = double("--route", "small", "--tile", str(patch), "--stats", at("stats"))
        with open(at("stats")) as file:
            forced = {name: route["cells"] for name, route in json.load(file)["routes"].items()}
        check("... one route for all: all are counted there",
              status == 0 and forced == {"reuse": 0, "bicubic": 0, "small": across * down, "large": 0},
              f"{message}{forced}")


def plain(path, dtype, rank, factor=2, patch=0, more=False, name="x"):
    """Each pixel becomes a square: any names, one input, one output."""
    g = Graph("plain")
    shape = [1] * (rank - 2) + ([g.symbol("H", 512), g.symbol("W", 512)] if rank == 3 else [H, W])
    x = g.input(name, dtype, shape)
    y = x if rank == 3 else g.reshape(x, [1, H, W])
    cells = g.patches(y, patch) if patch else y
    y = g.resize(cells, "nearest", factor)
    y = g.assemble(y) if patch else y
    if more:
        g.output("other", y)
    g.output("y", y if rank == 3 else g.reshape(y, [1] * (rank - 2) + [H * factor, W * factor]))
    g.write(path)


def test_plain():
    """A model that only doubles: its bytes, or f32 of 0 to 1, give each pixel four times."""
    with open(at("clip"), "rb") as file:
        data = file.read()
    luma = np.frombuffer(data[data.index(b"FRAME\n") + 6:], np.uint8)[:H * W].reshape(H, W)
    for dtype, rank, patch in (("u8", 3, 0), ("f32", 3, 0), ("f32", 4, 0), ("f32", 3, 32), ("f32", 2, 0)):
        plain(at("model"), dtype, rank, patch=patch)
        status, message = double()
        with open(at("out"), "rb") as file:
            data = file.read()
        got = np.frombuffer(data[data.index(b"FRAME\n") + 6:], np.uint8)[:4 * H * W].reshape(2 * H, 2 * W)
        check(f"a plain model of {dtype}, {rank} dimensions, patches {patch}: each pixel four times",
              status == 0 and np.array_equal(got, luma.repeat(2, 0).repeat(2, 1)), message)
    wrong = (("three times", {"factor": 3}, "it must take a plane"), ("two outputs", {"more": True}, "no input"))
    for name, how, says in wrong:
        plain(at("model"), "f32", 3, **how)
        status, message = double()
        check(f"{name}: refused", status == 1 and says in message and message.count("\n") == 1, message)
    plain(at("model"), "u8", 3)
    status, message = double("--route", "small")
    check("a route cannot be forced", status == 1 and "it has no routes" in message, message)


def test_refusals():
    lacks = (
        ("no factor", {"scale": 0}, "it does not say that it enlarges (brainstorm.model.scale is missing)"),
        ("another factor", {"scale": 3, "factor": 3}, "it enlarges 3 times; video_sr takes models that double"),
        ("no frame", {"frame": "picture"}, 'the model has no input "frame"'),
        ("a frame of another type", {"frame_type": "f32"}, f'its input "frame" is no u8 [1, {H}, {W}]'),
        ("no budget", {"budget": None}, 'it has no input "budget", f32 [1]'),
        ("a budget of another shape", {"budget_shape": (2,)}, 'its input "budget" is no f32 [1]'),
        ("no result", {"out": "result"}, f'it has no output "frame_2x", u8 [1, {2 * H}, {2 * W}]'),
        ("a result of another size", {"factor": 3}, f'its output "frame_2x" is no u8 [1, {2 * H}, {2 * W}]'),
        ("an output in the input's place", {"budget": "frame_2x", "out": "budget"}, 'it has no input "budget"'),
        ("no router", {"router": "other"}, 'it has no router "route" that sends patches four ways'),
        ("a router of five paths", {"paths": 5}, 'it has no router "route" that sends patches four ways'),
    )
    for name, wrong, says in lacks:
        model(at("model"), **wrong)
        with open(at("out"), "w") as file:
            file.write("old")
        status, message = double()
        line = message.strip()
        check(f"{name}: it is said", status == 1 and says in line and line.count(at("model")) == 1 and "\n" not in line,
              message)
        with open(at("out")) as file:
            check("... and the old output is there", file.read() == "old")
    os.unlink(at("out"))


def leaves(g, rows, name, paths, path=None):
    """A router of that name over rows [1], which keeps all of them; what `path` gives, if it is asked for."""
    weight, bias = np.zeros((paths, 1), np.float32), np.zeros(paths, np.float32)
    weight[paths - 1] = 1
    by = g.route(g.linear(rows, f"{name}.score", weight, bias), name, "top1", paths)
    outs = [path(g.scatter(by, p, rows), p) if path else g.scatter(by, p, rows) for p in range(paths)]
    return g.gather(by, outs)


def loop(g, rows, name):
    body = g.loop(rows, name, bound=3)
    carried = g.loop_carry(body, rows)
    again = g.loop_next(body, carried, carried)
    g.loop_end(body)
    return again


def nested(path, kind):
    """A model of four paths with routers "exit0" and "exit1" somewhere."""
    g = Graph("tiny", 2)
    frame = g.input("frame", "u8", [1, g.symbol("H", 512), g.symbol("W", 512)])
    budget = g.input("budget", "f32", [1])
    image = g.pool2d(g.convert(frame, "f32"), "average", kernel=2, stride=2) if kind == "half" else frame
    cells = g.patches(g.convert(image, "u8") if kind == "half" else image, 32)
    energy = lambda of: g.convert(g.slice(g.patch_features(of, buckets=80), axis=0, start=0, length=1), "f32")
    score = np.zeros((4, 1), np.float32)
    score[3] = 1
    by = g.route(g.linear(energy(cells), "score", score, np.zeros(4, np.float32)), "route", "top1", 4)
    into = 2 if kind == "path 2" else 3
    values = []
    for p in range(4):
        with g.branch(by, p, f"path{p}", cells) as x:
            value = g.resize(x, "bicubic", 2)
            value = g.resize(value, "bicubic", 2) if kind == "half" else value
            if p == into:
                rows = energy(x)
                if kind in ("sound", "path 2"):
                    leaves(g, rows, "exit0", 2, lambda inner, q: leaves(g, inner, "exit1", 2) if q else inner)
                elif kind == "exit1 where cells left":
                    leaves(g, rows, "exit0", 2, lambda inner, q: inner if q else leaves(g, inner, "exit1", 2))
                elif kind == "exit1 beside":
                    leaves(g, rows, "exit0", 2), leaves(g, rows, "exit1", 2)
                elif kind == "exit1 alone":
                    leaves(g, rows, "exit1", 2)
                elif kind == "below another":
                    leaves(g, rows, "other", 2, lambda inner, q: leaves(g, inner, "exit0", 2) if q else inner)
                elif kind == "loop":
                    loop(g, rows, "exit0")
                elif kind.endswith("paths"):
                    leaves(g, rows, "exit0", int(kind.split()[0]))
            values.append(value)
    if kind == "all tiles":
        leaves(g, energy(cells), "exit0", 2)
    if kind == "other rows":
        row = leaves(g, g.rows(g.reshape(budget, [1, 1])), "exit0", 2)
        g.state_write(g.state("kept", "f32", [1, 1]), g.collect(row))
    g.output("frame_2x", g.assemble(g.gather(by, values)))
    g.write(path)


def test_exits():
    """Routers by the names of exits that are none; the tiles of another image; what is sound."""
    exit0, exit1 = (f'its "exit{e}" is no router that sends the patches of path {p} of "{of}" two ways'
                    for e, p, of in ((0, 3, "route"), (1, 1, "exit0")))
    rows = (("sound", None), ("half", 'its router "route" decides on 6 patches, and "frame" has 15'),
            ("path 2", exit0), ("all tiles", exit0), ("other rows", exit0), ("below another", exit0), ("loop", exit0),
            ("1 paths", exit0), ("3 paths", exit0), ("9 paths", exit0), ("exit1 where cells left", exit1),
            ("exit1 beside", exit1), ("exit1 alone", exit1))
    for kind, says in rows:
        try:
            nested(at("model"), kind)
        except (ValueError, TypeError, AttributeError) as why:
            check(f"{kind}: a model", False, why)
            continue
        with open(at("out"), "w") as file:
            file.write("old")
        status, message = double("--map", at("map"), "--stats", at("stats"))
        with open(at("out"), "rb") as file:
            kept = file.read() == b"old"
        if says:
            check(f"{kind}: refused by name, and the old output is there", status == 1 and says in message and kept and
                  message.count("\n") == 1, message)
            continue
        with open(at("stats")) as file:
            told = json.load(file)
        exits = [leaving["cells"] for leaving in told["exits"]]
        check(f"{kind}: taken, and its exits make up path 3", status == 0 and
              sum(exits) == told["routes"]["large"]["cells"] > 0, f"{message}{exits}")


def test_document():
    """examples/video/README.md names whatever is asked for."""
    with open("examples/video/README.md") as file:
        text = file.read()
    for word in ("`frame`", "`budget`", "`frame_2x`", "`route`", "`exit0`", "`exit1`", "`brainstorm.model.scale`"):
        check(f"examples/video/README.md tells of {word}", word in text)


def main():
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(WORK)
    clip(at("clip"))
    test_patches()
    test_plain()
    test_refusals()
    test_exits()
    test_document()
    shutil.rmtree(WORK)
    print(f"{results[True]} passed, {results[False]} failed")
    return results[False] != 0


if __name__ == "__main__":
    sys.exit(main())
