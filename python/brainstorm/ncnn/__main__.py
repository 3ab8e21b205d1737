"""python3 -m brainstorm.ncnn NET.param NET.bin OUT.gguf: imports a network of ncnn, and compares if it can.

Must never leave a file behind where it fails, or where both differ.
"""

import argparse
import os
import sys

from .. import outputs
from .compare import TOLERANCE, compare
from .convert import MOST, import_ncnn
from .param import Refused


def numbers(text, what, count=None):
    try:
        found = [int(n) for n in text.split(",")]
    except ValueError:
        found = []
    if not found or (count and len(found) != count):
        raise Refused(f"{what} is {text!r}, expected numbers with commas between them")
    return found


def options(words):
    parser = argparse.ArgumentParser(prog="python3 -m brainstorm.ncnn", description="Imports a network of ncnn.")
    parser.add_argument("param")
    parser.add_argument("bin")
    parser.add_argument("out")
    parser.add_argument("--shape", action="append", default=[], metavar="IN=C,H,W", help="fixes an input's size")
    parser.add_argument("--most", default=",".join(map(str, MOST)), metavar="H,W",
                        help="the largest frame, where its size is free (%(default)s)")
    parser.add_argument("--multiple", type=int, default=0, metavar="N",
                        help="frames are multiples of it (the smallest that works)")
    parser.add_argument("--patches", type=int, default=0, metavar="N",
                        help="runs in tiles of N x N pixels, with exact borders: fewer bytes, the same result")
    parser.add_argument("--output", action="append", default=[], metavar="BLOB", help="(those that nothing reads)")
    parser.add_argument("--name", default="", help="of the model (the file's)")
    parser.add_argument("--no-compare", action="store_true", help="does not run it beside ncnn")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE,
                        help="of a difference to the largest number of an output (%(default)g)")
    return parser.parse_args(words)


def convert(words):
    asked = options(words)
    outputs.check([asked.param, asked.bin], [asked.out])
    shapes = {}
    for text in asked.shape:
        name, equals, dims = text.rpartition("=")
        if not equals:
            raise Refused(f"--shape {text!r}, expected INPUT=C,H,W")
        shapes[name] = numbers(dims, f"the shape of {name!r}")
    for what, number, most in (("--patches", asked.patches, 8192), ("--multiple", asked.multiple, 1024)):
        if not 0 <= number <= most:
            raise Refused(f"{what} is {number}, expected 0 .. {most}")
    made = import_ncnn(asked.param, asked.bin, asked.name, shapes, numbers(asked.most, "--most", 2), asked.multiple,
                       asked.patches, asked.output)
    write(asked, made)


def write(asked, made):
    """The file gets its name when it is right."""
    with outputs.Beside(asked.out) as new:
        made.graph.write(new.path)
        print(f"{asked.out}: {made}")
        if made.multiple > 1:
            print(f"frames are multiples of {made.multiple} pixels")
        if not asked.no_compare:
            print(compare(asked.param, asked.bin, new.path, made, asked.tolerance))
        new.keep()


def main(words):
    """The status to end with."""
    try:
        convert(words)
        return 0
    except (ValueError, OSError, MemoryError) as error:
        print(f"brainstorm.ncnn: {os.path.basename(words[0])}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
