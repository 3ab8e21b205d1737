# tags: long needs:numpy,gguf
"""test_python_main.py: `python -m brainstorm` runs models from and to files, finds the importer for a file, and says in
one line what is wrong with anything else.

Owns: the files that it makes, and importers of its own. Relies on: python_site.py, which builds the package.
"""

import contextlib
import io
import os
import resource
import subprocess
import sys
import tempfile

from python_site import SITE, check, end  # first: it finds the package

import brainstorm
import numpy as np
from brainstorm import Graph
from brainstorm.__main__ import FORMATS, main as main_of

# An importer as __main__.py expects them.
IMPORTER = '''"""Imports what is told."""


def add_arguments(parser):
    parser.add_argument("file")
    parser.add_argument("--end", type=int, default=0)


def main(arguments):
    print("imports", arguments.file)
    return arguments.end
'''


def start(*words):
    """What `python -m brainstorm` would end with, and say."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            status = main_of(list(words))
        except SystemExit as end_of_argparse:
            status = end_of_argparse.code
    return status, said.getvalue()


def says(name, status, words, *command):
    ended, said = start(*command)
    check(name, ended == status and all(word in said for word in words.split("|")), f"{ended} {said}")


def make(folder):
    g = Graph("twice")
    x = g.input("x", "f32", [g.symbol("n", 8), 2])
    g.output("y", g.collect(g.affine(g.linear(g.rows(x), "layer", np.eye(2, dtype=np.float32)), 2, 0)))
    g.write(os.path.join(folder, "twice.gguf"))
    np.save(os.path.join(folder, "x.npy"), np.arange(6, dtype=np.float32).reshape(3, 2))
    np.save(os.path.join(folder, "objects.npy"), np.array([{}, None]), allow_pickle=True)
    np.savez(os.path.join(folder, "many.npz"), a=np.ones(2))
    with open(os.path.join(folder, "text.npy"), "w") as file:
        file.write("no array")


def test_run():
    run = ("run", "twice.gguf", "--input")
    says("a run is told of", 0, "y: float32 [3, 2] -> y.npy|layer: float32 [3, 2]| ms", *run, "x=x.npy",
         "--output", "y=y.npy", "--peek", "layer", "--threads", "2")
    check("and written", np.load("y.npy").tolist() == [[0, 2], [4, 6], [8, 10]])
    for name, words, command in (
            ("no model", "nowhere", ("run", "nowhere")),
            ("no input", '"x"', ("run", "twice.gguf")),
            ("an input without a file", "NAME=FILE", (*run, "x")),
            ("a file that is not there", "gone.npy", (*run, "x=gone.npy")),
            ("a file without an array", "text.npy", (*run, "x=text.npy")),
            ("a file of objects", "objects.npy", (*run, "x=objects.npy")),
            ("a file of many arrays", "one array", (*run, "x=many.npz")),
            ("an unknown input", '"z"', (*run, "z=x.npy")),
            ("an unknown output", "NAME of: y", (*run, "x=x.npy", "--output", "z=z.npy")),
            ("an output nowhere", "no/y.npy", (*run, "x=x.npy", "--output", "y=no/y.npy")),
            ("an unknown value", "nobody", (*run, "x=x.npy", "--peek", "nobody")),
            ("no thread at all", "threads", (*run, "x=x.npy", "--threads", "-1"))):
        says(f"{name} is refused in a line", 1, f"brainstorm: |{words}", *command)
    says("half a thread is refused", 2, "usage", *run, "x=x.npy", "--threads", "0.5")
    says("no command", 2, "import|run")
    says("an unknown command", 2, "import|run", "walk")


def bytes_of(*paths):
    return [open(path, "rb").read() for path in paths]


def test_files():
    """No file of a run is another one, under whatever name; what is not whole is not there."""
    run, before = ("run", "twice.gguf", "--input", "x=x.npy"), bytes_of("twice.gguf", "x.npy")
    for read in ("twice.gguf", "x.npy"):
        os.symlink(read, "link.npy")
        os.link(read, "hard.npy")
        for name in (read, "link.npy", "hard.npy", os.path.abspath(read)):
            says(f"{read} is not written over as {os.path.basename(name)}", 1, "the same file", *run, "--output",
                 f"y={name}")
        os.remove("link.npy")
        os.remove("hard.npy")
    says("nor one output over another", 1, "the same file", *run, "--output", "y=o.npy", "--peek", "layer", "--output",
         "layer=o.npy")
    check("and nothing was changed", bytes_of("twice.gguf", "x.npy") == before and not os.path.exists("o.npy"))
    os.mkfifo("pipe.npy")
    says("an input that is a pipe is refused", 1, "whose size is not known", "run", "twice.gguf", "--input",
         "x=pipe.npy")
    says("and so is a model", 1, "whose size is not known", "run", "pipe.npy")
    os.remove("pipe.npy")
    with open("o.npy", "w") as file:
        file.write("old")
    names = sorted(os.listdir("."))
    done = subprocess.run([sys.executable, "-m", "brainstorm", *run, "--output", "y=o.npy"], capture_output=True,
                          text=True, env={**os.environ, "PYTHONPATH": SITE},
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))
    check("a full disk leaves the old array", done.returncode == 1 and "Traceback" not in done.stderr and
          bytes_of("o.npy") == [b"old"] and sorted(os.listdir(".")) == names, done.stderr)
    says("which a run that is whole replaces", 0, "-> o.npy", *run, "--output", "y=o.npy")
    model = brainstorm.open("twice.gguf")
    for name in ("twice.gguf", os.path.abspath("twice.gguf")):
        try:
            model.plan().session(profile=name)
            check("a profile is not written over its model", False)
        except brainstorm.Error as refused:
            check("a profile is not written over its model", "the same file" in str(refused), refused)
    check("which is as it was", bytes_of("twice.gguf") == before[:1])
    check("with its results", np.load("o.npy").tolist() == [[0, 2], [4, 6], [8, 10]])


def test_import(folder):
    """With importers of this test, which are found first."""
    place = os.path.join(folder, "importers")
    os.makedirs(os.path.join(place, "onnx"))
    os.makedirs(os.path.join(place, "ncnn"))
    brainstorm.__path__.insert(0, place)  # before those that are installed
    words_only = "def main(words):\n    print('words', *words)\n"
    for path, text in (("onnx/__init__.py", ""), ("onnx/cli.py", IMPORTER), ("ncnn/__init__.py", ""),
                       ("ncnn/__main__.py", words_only), ("mixtures.py", f"import nowhere_to_be_found\n{IMPORTER}")):
        with open(os.path.join(place, path), "w") as file:
            file.write(text)
    says("the importer is found by the ending", 0, "imports net.onnx", "import", "net.onnx")
    says("its status is the end", 3, "imports net.ONNX", "import", "--end", "3", "net.ONNX")
    says("whatever comes before it", 0, "imports net.onnx", "import", "--end", "0", "--", "net.onnx")
    says("or by its name", 0, "imports net.bin", "import", "--format", "onnx", "net.bin")
    says("its options are told", 0, "--end|Imports what is told", "import", "--format", "onnx", "--help")
    says("a module that it needs and is not there", 1, "nowhere_to_be_found|pip install", "import", "a.gguf")
    says("an importer that takes words", 0, "words net.param --patches 8", "import", "net.param", "--patches", "8")
    FORMATS["other"] = "other"
    says("an importer that is not there", 1, "no importer 'other'", "import", "net.other")
    says("a file of no known kind", 1, "net.xyz|.onnx|--format", "import", "net.xyz")
    says("nothing to import", 2, "usage|.onnx", "import")
    says("help", 0, "usage|.onnx", "import", "--help")


def test_process():
    """The program itself, as it is started."""
    for words, status in ((["run", "twice.gguf", "--input", "x=x.npy"], 0), (["run", "nowhere"], 1), ([], 2)):
        done = subprocess.run([sys.executable, "-m", "brainstorm", *words], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": SITE})
        check(f"python -m brainstorm {' '.join(words)} ends with {status}", done.returncode == status and
              "Traceback" not in done.stderr, done.stdout + done.stderr)


def main():
    with tempfile.TemporaryDirectory() as folder:
        make(folder)
        os.chdir(folder)
        test_process()
        test_run()
        test_files()
        test_import(folder)
        os.chdir("/")
    return end()


if __name__ == "__main__":
    sys.exit(main())
