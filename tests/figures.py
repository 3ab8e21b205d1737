"""figures.py: what the figures of the pages are, from the programs and the sources. pages.txt names them.

Each is found once in a run of the test, and only if a page has it. Owns: where a figure comes from. Relies on: programs
in $BUILD. Figures size_* take minutes of a compiler: `make size` brings them (size.sh), and without it pages must only
agree with each other. Must never measure time.
"""

import functools
import glob
import json
import os
import re
import subprocess

BUILD = os.environ.get("BUILD", "build")
RUN = os.environ.get("RUN", "").split()
SCRATCH = os.path.join(BUILD, "tests", "figures")
WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()

# Numbers that stand in a source: the file, and an expression with one group.
SOURCES = {
    "model_version": ("brainstorm.h", r"#define BS_MODEL_VERSION (\d+)"),
    "opset": ("brainstorm.h", r"#define BS_MODEL_OPSET (\d+)"),
    "most_symbols": ("src/model/model.h", r"#define BS_MODEL_MAX_SYMBOLS (\d+)"),
    "most_paths": ("brainstorm.h", r"#define BS_MAX_PATHS (\d+)"),
    "most_rank": ("brainstorm.h", r"#define BS_MAX_RANK (\d+)"),
    "most_operands": ("brainstorm.h", r"an op         operands (\d+)"),
    "most_loops": ("brainstorm.h", r"loops in loops (\d+)"),
    "python_least": ("python/pyproject.toml", r'requires-python = ">=([\d.]+)"'),
    "torch_opset": ("python/brainstorm/torch/exporting.py", r"OPSET = (\d+)"),
    "saved_graphs": ("tests/test_saved_plans.sh", r"GRAPHS:-(\d+)"),
    "readme_lines": ("tests/links.py", r"README_LINES = (\d+)"),
    "file_lines": ("tests/lengths.py", r"FILE_LINES, FUNCTION_LINES, KERNEL_LINES = (\d+)"),
    "ncnn_rows": ("python/brainstorm/ncnn/convert.py", r"MOST = \((\d+), \d+\)"),
    "ncnn_columns": ("python/brainstorm/ncnn/convert.py", r"MOST = \(\d+, (\d+)\)"),
    "demo_frames": ("examples/demo/demo.sh", r"FRAMES:-(\d+)"),
    "mixtures_tolerance": ("python/brainstorm/mixtures/compare.py", r"TOLERANCE = (\S+)"),
    "sms_10": ("tools/cuda.mk", r"SMS_OF_10 := (.*)"),
    "sms_11": ("tools/cuda.mk", r"SMS_OF_11 := (.*)"),
    "quality": ("examples/video/options.c", r"aims to keep \[(\d+)\]"),
    "floor": ("examples/video/options.c", r"\[the model's: (\d+)\]"),
}


class Unknown(Exception):
    """The figure cannot be had here; the text says why."""


def source(name):
    path, expression = SOURCES[name]
    with open(path, encoding="utf-8") as file:
        found = re.search(expression, file.read())
    if not found:
        raise LookupError(f"{path} has no {expression}")
    return found[1]


def mib(count, places=1):
    return f"{count / 2**20:.{places}f}"


def output(program, *options):
    os.makedirs(SCRATCH, exist_ok=True)
    done = subprocess.run([*RUN, os.path.join(BUILD, program), *options], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise LookupError(f"{program} {' '.join(options)} ends with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout + done.stderr


# --- video -----------------------------------------------------------------------------------------------


@functools.cache
def street(frames):
    """The demo's clip in half its size, and as large as that doubled."""
    full, half, whole = (os.path.join(SCRATCH, f"{name}.y4m") for name in ("full", "half", "whole"))
    output("demo_clip", "--quiet", "--frames", str(frames), full)
    output("halve", "--quiet", full, half)
    output("halve", "--quiet", "--crop-only", full, whole)
    return half, "--reference", whole


@functools.cache
def grey(width, height):
    """A frame: memory does not depend on what it shows."""
    path = os.path.join(SCRATCH, "grey.y4m")
    os.makedirs(SCRATCH, exist_ok=True)
    with open(path, "wb") as file:
        file.write(b"YUV4MPEG2 W%d H%d F25:1 Ip A1:1 C420jpeg\nFRAME\n" % (width, height))
        file.write(bytes([128]) * (width * height * 3 // 2))
    return (path,)


@functools.cache
def doubled(source_of, size, route, threads, *options):
    """What --stats says. The kernels are those of AVX2: memory and last digits differ a little between tiers."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        if "avx2" not in file.read():
            raise Unknown("it is of AVX2")
    path, *more = source_of(*size)
    told = os.path.join(SCRATCH, "told.json")
    output("video_sr", "--quiet", "--tier", "avx2", "--route", route, "--threads", str(threads), "--stats", told, *more,
           *options, path, os.devnull)
    with open(told, encoding="utf-8") as file:
        return json.load(file)


def demo(route):
    return doubled(street, (int(source("demo_frames")),), route, 1)


def full_hd(route, *options):
    return doubled(grey, (960, 540), route, 2, *options)


def slotted(number):
    slots = ((), ("--slots", "100%"), ("--slots", "906560"))[number]
    return full_hd("auto", *slots, "--lanes", "1", "--chunk", "16K")


def video():
    for name, route in (("bicubic", "bicubic"), ("large", "large"), ("routed", "auto")):
        yield f"demo_{name}_psnr", lambda r=route: f"{demo(r)['psnr_y']:.2f}"
        yield f"demo_{name}_ssim", lambda r=route: f"{demo(r)['ssim_y']:.3f}"
        yield f"demo_{name}_mib", lambda r=route: mib(demo(r)["arena_bytes_planned"])
    for name in ("reuse", "bicubic", "small", "large"):
        yield f"demo_share_{name}", lambda name=name: f"{100 * demo('auto')['routes'][name]['share']:.0f}"
    for name, route in (("large", "large"), ("routed", "auto")):
        for arena in ("graph_and_plan", "persistent", "transient", "staging"):
            yield f"hd_{name}_{arena}", lambda r=route, a=arena: mib(full_hd(r)["arena_bytes"][a], 2)
        yield f"hd_{name}_frames", lambda r=route: mib(full_hd(r)["frame_buffer_bytes"], 2)
        yield f"hd_{name}_together", lambda r=route: mib(
            full_hd(r)["arena_bytes_planned"] + full_hd(r)["frame_buffer_bytes"])
    for n in range(3):
        yield f"slots_{n}_weights", lambda n=n: mib(slotted(n)["arena_bytes"]["slots"], 2)
        yield f"slots_{n}_staging", lambda n=n: mib(slotted(n)["arena_bytes"]["staging"], 2)
        yield f"slots_{n}_all", lambda n=n: mib(slotted(n)["arena_bytes_planned"], 2)


# --- text, profiles, tests -------------------------------------------------------------------------------


def text_mib(slots, *options):
    said = output("moe_text", "--length", "3", "--threads", "1", "--stats", "--slots", slots, *options)
    return f"{int(re.search(r'^memory +([0-9]+) KiB', said, re.M)[1]) / 1024:.1f}"


@functools.cache
def profile_head():
    path = os.path.join(SCRATCH, "run.bspf")
    output("moe_text", "--length", "2", "--threads", "1", "--profile", path)
    with open(path, "rb") as file:
        return file.read(16)


def number_at(offset):
    return str(int.from_bytes(profile_head()[offset:offset + 4], "little"))


def version():
    with open("brainstorm.h", encoding="utf-8") as file:
        return ".".join(re.findall(r"#define BS_VERSION_[MP][A-Z]+ (\d+)", file.read()))


def lines_read():
    """To a thousand, so that a page need not move with each line."""
    with open("brainstorm.c", encoding="utf-8") as file:
        return f"{round(sum(1 for _ in file), -3):,}"


def frozen():
    with open("tests/frozen/avx2.txt", encoding="utf-8") as file:
        return f"{sum(line[0].isdigit() for line in file):,}"


FIGURES = {
    **{name: functools.partial(source, name) for name in SOURCES},
    **dict(video()),
    "version": version,
    "most_paths_read": lambda: f"{int(source('most_paths')):,}",
    "saved_graphs_read": lambda: f"{int(source('saved_graphs')):,}",
    "most_symbols_read": lambda: f"{int(source('most_symbols')):,}",
    "lines_read": lines_read,
    "frozen_graphs": frozen,
    "fuzzers": lambda: WORDS[len(glob.glob("tests/fuzz/fuzz_*.c"))],
    "zoo_networks": lambda: WORDS[len(glob.glob("zoo/*/"))],
    "text_mib": lambda: text_mib("0", "--prompt", "And the king said"),
    "text_2m_mib": lambda: text_mib("2M", "--prompt", "And the king said"),
    **{f"text_short_{slots.lower()}_mib": functools.partial(text_mib, slots) for slots in "0 4M 2M 1M 200K".split()},
    "profile_magic": lambda: profile_head()[:4].decode(),
    "profile_header": lambda: number_at(8),
    "profile_event": lambda: number_at(12),
}


@functools.cache
def value(name):
    if name.startswith("size_"):
        raise Unknown("`make size` compares it")
    return FIGURES[name]()
