"""python -m brainstorm import FILE ... : a network of another format becomes a model file.
python -m brainstorm run MODEL --input x=x.npy ... : one run, from and to files of NumPy.

(The C program `brainstorm` inspects, checks and plans model files; this one does what needs Python.)

Relies on: argparse; running.py to run; one module or package for each format in FORMATS. It, its cli or its __main__
has main, which gives the exit status: of parsed arguments where there is add_arguments(parser) beside it, else of the
words. They are imported when they are asked for. Must never end in a traceback for a file, a word or a module that is
not there.
"""

import argparse
import importlib
import os
import sys

from . import outputs
from .error import Error

# What imports a file: its ending -> the module. What has no ending of its own is asked for by --format.
FORMATS = {"onnx": "onnx", "param": "ncnn", "gguf": "mixtures", "safetensors": "mixtures"}
MODULES = sorted(set(FORMATS.values()))


def fail(message):
    print(f"brainstorm: {message}", file=sys.stderr)
    return 1


def importer(name):
    """What has the importer's main, or None with the reason."""
    for place in ("", ".cli", ".__main__"):
        wanted = f"brainstorm.{name}{place}"
        try:
            module = importlib.import_module(wanted)
        except ImportError as missing:
            if missing.name not in (wanted, f"brainstorm.{name}"):
                return None, f"the importer {name!r} needs {missing.name}: pip install {missing.name} ({missing})"
        else:
            if hasattr(module, "main"):
                return module, None
    return None, f"this version has no importer {name!r}"


def format_of(words):
    """The importer that `import` words ask for, and the words that are left for it."""
    first = argparse.ArgumentParser(add_help=False)
    first.add_argument("--format", choices=MODULES)
    asked, left = first.parse_known_args(words)
    if asked.format:
        return asked.format, left
    endings = [os.path.splitext(word)[1][1:].lower() for word in left if not word.startswith("-")]
    known = [FORMATS[ending] for ending in endings if ending in FORMATS]
    folder = any(os.path.isdir(word) for word in left)
    return known[0] if known else "mixtures" if folder else None, left


def import_file(words):
    name, left = format_of(words)
    endings = ", ".join(f".{ending}" for ending in FORMATS)
    usage = f"brainstorm import FILE ...; FILE ends in {endings}, or --format says what it is"
    if not words or (name is None and {"-h", "--help"} & set(words)):
        print(f"usage: {usage}. brainstorm import --format onnx --help tells more.")
        return 0 if words else 2
    if name is None:
        return fail(f"what is to be imported cannot be told from {' '.join(left)!r}. Usage: {usage}")
    module, missing = importer(name)
    if module is None:
        return fail(missing)
    if not hasattr(module, "add_arguments"):
        return module.main(left) or 0
    parser = argparse.ArgumentParser(prog=f"brainstorm import --format {name}", description=module.__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    module.add_arguments(parser)
    return module.main(parser.parse_args(left)) or 0


def arrays_of(words):
    """{name: array} of NAME=FILE.npy."""
    import numpy as np

    given = {}
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or not name or not path:
            raise Error(f"--input {word}: expected NAME=FILE.npy")
        try:
            given[name] = np.load(path, allow_pickle=False)
        except (OSError, ValueError, EOFError) as wrong:
            raise Error(f"--input {word}: {wrong}") from None
        if not isinstance(given[name], np.ndarray):
            raise Error(f"--input {word}: expected one array, as numpy.save writes it")
    return given


def array_writer(array):
    import numpy as np

    def write(path):
        with open(path, "wb") as file:  # numpy.save adds an ending to names
            np.save(file, array)

    return write


def usable_processors():
    """Of this machine, as many as this process may run on and a plan takes."""
    known = getattr(os, "sched_getaffinity", None)
    return max(1, min(len(known(0)) if known else os.cpu_count() or 1, 64))


def run_model(words):
    parser = argparse.ArgumentParser(prog="brainstorm run", description="Runs a model file once.")
    parser.add_argument("model")
    parser.add_argument("--input", action="append", default=[], metavar="NAME=FILE.npy")
    parser.add_argument("--output", action="append", default=[], metavar="NAME=FILE.npy",
                        help="where an output goes; others are told of")
    parser.add_argument("--threads", type=int, default=usable_processors(), help="(the processors here: %(default)s)")
    parser.add_argument("--peek", action="append", default=[], metavar="NUMBER|NAME",
                        help="a value inside the graph as a further output")
    asked = parser.parse_args(words)
    try:
        return _run(asked)
    except (Error, ImportError, OSError) as refused:
        return fail(refused)


def _run(asked):
    from . import running

    targets = dict(word.partition("=")[::2] for word in asked.output)
    outputs.check([asked.model, *(word.partition("=")[2] for word in asked.input)], targets.values())
    model, inputs = running.open(asked.model), arrays_of(asked.input)
    peek = [int(p) if p.isdecimal() else p for p in asked.peek]
    plan = model.plan(threads=asked.threads, extents={name: array.shape for name, array in inputs.items()}, peek=peek)
    for name, path in targets.items():
        if name not in plan.outputs or not path:
            raise Error(f"--output {name}={path}: expected NAME=FILE.npy, NAME of: {', '.join(plan.outputs)}")
    with plan.session() as session:
        made = session.run(inputs)
        outputs.write_all({path: array_writer(made[name]) for name, path in targets.items()})
        for name, array in made.items():
            print(f"{name}: {array.dtype} {list(array.shape)}" + (f" -> {targets[name]}" if name in targets else ""))
        print(f"{session.stats.total_ns / 1e6:.3f} ms")
    return 0


COMMANDS = {"import": import_file, "run": run_model}


def main(words=None):
    words = sys.argv[1:] if words is None else words
    if not words or words[0] not in COMMANDS:
        print(f"usage: python -m brainstorm {'|'.join(COMMANDS)} ...", file=sys.stderr)
        return 0 if words and words[0] in ("-h", "--help") else 2
    return COMMANDS[words[0]](words[1:])


def import_command():
    """The console script brainstorm-import."""
    return import_file(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
