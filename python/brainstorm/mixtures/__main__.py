"""python3 -m brainstorm.mixtures MODEL OUT.gguf: the mixtures of experts of a GGUF file, or of .safetensors; each file
is compared with what its layers are published to compute.

Must never leave a file behind where it fails, or where both differ.
"""

import argparse
import contextlib
import os
import re
import sys

from .. import outputs, session
from ..ops import MAX_EXTENT
from . import compare
from .build import ROWS, mixture_graph
from .from_arrays import read_safetensors
from .from_gguf import read_gguf
from .layer import Refused

MOST_LAYERS = 10**5


def options(words):
    parser = argparse.ArgumentParser(prog="python3 -m brainstorm.mixtures",
                                     description="Imports mixtures of experts; each expert is a block that streams.")
    parser.add_argument("model", help="a GGUF file with llama.cpp's names; or a .safetensors file, or a folder of "
                                      "them, with its config.json")
    parser.add_argument("out", help="OUT.gguf; of several layers OUT.layerN.gguf each")
    parser.add_argument("--layers", default="", metavar="0-3,5", help="(all that have experts)")
    parser.add_argument("--chain", action="store_true", help="one file, in which the layers follow each other")
    parser.add_argument("--bare", action="store_true", help="without the norm before and the rows that are added after")
    parser.add_argument("--rows", type=int, default=ROWS, help="of a run, at most (%(default)s)")
    parser.add_argument("--normalise", choices=("yes", "no"), help="whether shares of the chosen experts sum to 1 "
                                                                   "(what the model says)")
    parser.add_argument("--dequantise", action="store_true", help="makes f32 of quantised weights")
    parser.add_argument("--as", default="", dest="like", metavar="NAME", help="experts compute what those of this "
                        "architecture (GGUF) or model_type (config.json) do, whatever the model calls itself")
    parser.add_argument("--ignore", action="append", default=[], metavar="NAME",
                        help="a key, a word of config.json or a tensor that does not matter")
    parser.add_argument("--no-compare", action="store_true", help="does not compare with what is published")
    parser.add_argument("--tolerance", type=float, default=compare.TOLERANCE,
                        help="of a difference to the largest number that is added (%(default)g)")
    return parser.parse_args(words)


def layer_numbers(text):
    """[0, 1, 2, 3, 5] of 0-3,5; None of nothing."""
    if not text:
        return None
    made = []
    for part in text.split(","):
        found = re.fullmatch(r"([0-9]{1,6})(?:-([0-9]{1,6}))?", part, re.ASCII)
        if not found or int(found[1]) > int(found[2] or found[1]) or int(found[2] or 0) > MOST_LAYERS:
            raise Refused(f"--layers {text!r}, expected numbers and ranges such as 0-3,5")
        made += range(int(found[1]), int(found[2] or found[1]) + 1)
    return made


def files_of(model):
    """The files that a mixture is read from."""
    if os.path.isdir(model):
        return [entry.path for entry in os.scandir(model) if entry.name.endswith((".safetensors", ".json"))]
    return [model, os.path.join(os.path.dirname(model), "config.json")] if model.endswith(".safetensors") else [model]


def read(asked):
    """The mixtures that are asked for."""
    layers = layer_numbers(asked.layers)
    normalise = None if asked.normalise is None else asked.normalise == "yes"
    if os.path.isdir(asked.model) or asked.model.endswith(".safetensors"):
        return read_safetensors(asked.model, None, layers, normalise, asked.like, asked.ignore)
    return read_gguf(asked.model, layers, normalise, asked.dequantise, asked.like, asked.ignore)


def compared(asked, path, mixtures, runs):
    """Fails where the file gives something else."""
    found = compare.compare(runs, path, mixtures, asked.rows, asked.bare)
    print(found)
    if not found.relative <= asked.tolerance:
        raise Refused("it would not give what is published, and is not kept: a difference of "
                      f"{found.relative:.3g}, more than {asked.tolerance:g} (--tolerance)")


def writer(asked, path, graph, mixtures, runs):
    """What writes a file where it is told to, and fails where it does not give what it should."""
    def write(new):
        graph.write(new)
        blocks = [b.bytes for b in graph.blocks[1:]]
        print(f"{path}: {len(blocks)} experts of {max(blocks)} bytes, {graph.blocks[0].bytes} bytes that stay")
        if runs is not None:
            compared(asked, new, mixtures, runs)
    return write


def convert(asked):
    if not 1 <= asked.rows <= MAX_EXTENT:
        raise Refused(f"--rows is {asked.rows}, expected 1 .. {MAX_EXTENT}")
    reads = files_of(asked.model)
    outputs.check(reads, [asked.out])
    mixtures = read(asked)
    for mixture in mixtures:
        for note in mixture.notes:
            print(f"layer {mixture.number}: {note}")
    groups = [mixtures] if asked.chain or len(mixtures) == 1 else [[m] for m in mixtures]
    stem, end = os.path.splitext(asked.out)
    files = [(asked.out if len(groups) == 1 else f"{stem}.layer{g[0].number}{end}",
              mixture_graph(g, os.path.basename(stem)[:50], asked.rows, asked.bare), g) for g in groups]
    outputs.check(reads, [path for path, _, _ in files])
    with contextlib.nullcontext() if asked.no_compare else session.used(Refused) as runs:
        outputs.write_all({path: writer(asked, path, graph, made, runs) for path, graph, made in files})
    if runs is None:
        print("not compared" + ("" if asked.no_compare else ": nothing that runs models is here, pip install ./python"))


def main(words):
    """The status to end with."""
    asked = options(words)
    try:
        convert(asked)
        return 0
    except (ValueError, OSError, MemoryError, ImportError) as error:
        where = "" if str(error).startswith(asked.model) else f"{asked.model}: "
        print(f"brainstorm.mixtures: {where}{error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
