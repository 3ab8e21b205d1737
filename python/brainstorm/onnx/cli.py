"""The command: python -m brainstorm import MODEL.onnx OUT.gguf. docs/onnx.md tells of it."""

import sys

import numpy as np

from . import compare, importing, load, report
from .. import session
from .. import outputs
from .refused import Refused


def add_arguments(parser):
    parser.add_argument("model", help="an ONNX file")
    parser.add_argument("out", nargs="?", help="the file to write; left out: says only whether the model is taken")
    parser.add_argument("--shape", action="append", metavar="INPUT=D,D,...", help="the shape of an input")
    parser.add_argument("--dim", action="append", metavar="NAME=D",
                        help="a dimension by its name; NAME=..MAX leaves the leading one of all inputs free")
    parser.add_argument("--block", action="append", metavar="PATTERN",
                        help="modules that are blocks with their own weights: 'moe.paths.*'")
    parser.add_argument("--patches", type=int, default=0, metavar="SIZE", help="cut the image into cells of this size")
    parser.add_argument("--value", action="append", metavar="INPUT=NUMBERS",
                        help="an input that is a constant from now on: sr=16000")
    parser.add_argument("--most", action="append", metavar="[NAME=]N",
                        help="how many elements a Range, or trips a Loop, can have where a run computes that")
    parser.add_argument("--feed", metavar="FILE.npz", help="what to compare with, instead of random inputs")
    parser.add_argument("--no-check", action="store_true", help="do not compare with the model")
    parser.add_argument("--seed", type=int, default=1, help="of the inputs that are compared with")
    parser.add_argument("--tolerance", type=float, default=compare.TOLERANCE,
                        help="of a difference to the largest magnitude of an output (default %(default)g)")
    parser.add_argument("--quiet", action="store_true", help="no progress")


def progress_of(arguments):
    """What shows how far it is, on a terminal; None: nothing does."""
    if arguments.quiet or not sys.stderr.isatty():
        return None
    return lambda done: print(f"\r{done if isinstance(done, str) else f'{done} nodes'}\033[K", end="", file=sys.stderr,
                              flush=True)


def main(arguments):
    """The exit status: 0 when the model is taken and both agree."""
    progress = progress_of(arguments)
    try:
        outputs.check([arguments.model, arguments.feed])  # a pipe must not be opened to see what it reads
        outputs.check([*load.files_of(arguments.model), arguments.feed], [arguments.out])
    except OSError as why:
        print(why, file=sys.stderr)
        return 1
    try:
        result = importing.imported(arguments.model, arguments.shape, arguments.dim, progress,
                                    arguments.block, arguments.patches, arguments.value, arguments.most)
    except Refused as why:
        print("\n".join(report.not_taken(why)), file=sys.stderr)
        return 1
    if progress:
        progress("")
    for line in [*result.told, *report.ports(result.walk), *report.narrowed(result.walk), report.held(result.walk)]:
        print(line)
    if not arguments.out:
        return 0
    return write(result, arguments, progress)


def feed_of(arguments):
    if not arguments.feed:
        return None
    try:
        with np.load(arguments.feed, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    except (OSError, ValueError, AttributeError) as why:
        raise Refused(f"{arguments.feed} holds no arrays: {why}") from None


def write(result, arguments, progress):
    runner = None if arguments.no_check else session.opened()
    if runner is None and not arguments.no_check:
        print("nothing that runs models is built here, to compare with: pip install ./python, or --no-check",
              file=sys.stderr)
        return 1
    if result.unsure and runner is None:
        print(f"{result.unsure} is only written when it was compared: leave out --no-check", file=sys.stderr)
        return 1
    if progress:
        progress("writing" if arguments.no_check else "writing, then comparing")
    try:
        agrees = importing.written(result, arguments.out, runner, not arguments.no_check, arguments.seed,
                                   arguments.tolerance, feed=feed_of(arguments))
    except (Refused, session.Failed, ValueError, OSError, MemoryError) as why:
        print(f"{arguments.out}: {why}", file=sys.stderr)
        return 1
    if not agrees:
        print(f"{arguments.out} would not give what the model gives, and was not kept", file=sys.stderr)
    return 0 if agrees else 1
