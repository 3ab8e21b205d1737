# tags: needs:gguf,numpy
"""test_files_cli.py: whatever `brainstorm` is asked for, what it reads is never written, what it refuses leaves files
as they were, a full disk leaves the old file or none, and what has no size is refused at once.

Owns: one small network; every combination of what is read and what is written. Relies on: model_rig.py,
files_rig.py. Must never wait for a pipe: a program that does is ended, and counts as wrong.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time

from files_rig import OLD, PATIENCE, content, names, put, ran
from model_rig import PROGRAM, end, report  # first: it finds python/

import numpy as np
from brainstorm import Graph

def make():
    g = Graph("m")
    x = g.input("x", "f32", [g.symbol("n", 64), 4])
    y = g.affine(x, 2.0, 0.0)
    g.output("y", y)
    g.output("z", g.affine(y, 1.0, 1.0))
    g.write("m.gguf")
    np.save("x.npy", np.arange(20, dtype=np.float32).reshape(5, 4))
    np.save("big.npy", np.zeros((64, 4), np.float32))
    np.save("want.npy", 2 * np.load("x.npy"))


def run(*words, limit=None):
    return ran([*PROGRAM, *words], limit)


RUN = ["run", "m.gguf", "--input", "x=x.npy", "--compare", "y=want.npy", "--quiet"]
WRITES = (["--output", "y={}.npy"], ["--peek", "1={}.npy"], ["--profile", "{}.npy"], ["--trace", "{}.npy"],
          ["--output", "z={}.npy"])


def test_one_file():
    """Every output as every input, by its name, a link with a name, a hard link, a detour."""
    os.mkdir("detour")
    for read in ("m.gguf", "x.npy", "want.npy"):
        before, wrong = content(read), []
        os.symlink(read, "named.npy")
        os.link(read, "hard.npy")
        for write in WRITES:
            for name in ("named", "hard") + ((f"detour/../{read[:-4]}",) if read.endswith(".npy") else ()):
                status, text = run(*RUN, *(word.format(name) for word in write))
                if status != 1 or "the same file" not in text or content(read) != before:
                    wrong.append(f"{write} {name}: {status} {text}")
        os.unlink("named.npy"), os.unlink("hard.npy")
        report(f"{read} is read, and never written", not wrong, wrong)
    os.rmdir("detour")
    put("o.npy")
    status, text = run(*RUN, "--output", "y=o.npy", "--output", "z=o.npy")
    report("two outputs in one file are refused", status == 1 and content("o.npy") == OLD, text)
    os.unlink("o.npy")
    before = content("m.gguf")
    status, text = run("plan", "m.gguf", "--save", "m.gguf")
    report("a plan is not written over its model", status == 1 and content("m.gguf") == before, text)
    run(*RUN, "--profile", "p.bsp")
    before = content("p.bsp")
    os.link("p.bsp", "hard.json")
    status, text = run("trace", "p.bsp", "hard.json")
    report("nor a trace over its profile", status == 1 and content("p.bsp") == before, text)
    os.unlink("hard.json"), os.unlink("p.bsp")


def test_refused():
    """What is refused leaves the old file, and makes no new one; nothing else is left either."""
    put("junk.npy", b"junk")
    np.save("other.npy", np.zeros((5, 4), np.int32))
    rows = (("an output is no picture", ["--output", "y=o.png"], "o.png"),
            ("nor a peek", ["--peek", "1=o.pgm"], "o.pgm"),
            ("what to compare with is not there", ["--output", "y=o.npy", "--compare", "z=none.npy"], "o.npy"),
            ("... is no array", ["--output", "y=o.npy", "--compare", "z=junk.npy"], "o.npy"),
            ("... is of another type", ["--output", "z=o.npy", "--compare", "z=other.npy"], "o.npy"),
            ("an input is no array", ["--output", "y=o.npy", "--input", "x=junk.npy"], "o.npy"),
            ("another output cannot be opened", ["--output", "y=o.npy", "--output", "z=none/o.npy"], "o.npy"),
            ("with a profile", ["--profile", "o.npy", "--output", "y=o.png"], "o.npy"),
            ("with a trace", ["--trace", "o.npy", "--compare", "z=junk.npy"], "o.npy"),
            ("there is no such node", ["--peek", "nobody=o.npy"], "o.npy"))
    for name, words, file in rows:
        put(file)
        before = names()
        base = RUN[:2] + (RUN[2:4] if "--input" not in words else []) + ["--quiet"]
        old = run(*base, *words)
        kept = content(file) == OLD and names() == before
        os.unlink(file)
        new = run(*base, *words)
        before.remove(file)
        report(f"refused: {name}", old[0] == new[0] == 1 and kept and names() == before, old[1] + new[1] + str(names()))
    os.unlink("junk.npy"), os.unlink("other.npy")


def test_full():
    """Files that may not grow: the old file, or none; or all of the new one, where it is small enough."""
    run(*RUN, "--profile", "whole.bsp")
    whole = len(content("whole.bsp"))
    rows = ((["--output", "y=o.npy"], "o.npy", 1152), (["--peek", "1=o.npy"], "o.npy", 1152),
            (["--profile", "o.bsp"], "o.bsp", None), (["--trace", "o.json"], "o.json", None))
    for words, file, size in rows:
        wrong = []
        for limit in (0, 1, 64, 1000, 1151):
            for old in (False, True):
                if old:
                    put(file)
                before = names()
                status, text = run("run", "m.gguf", "--input", "x=big.npy", "--quiet", *words, limit=limit)
                small = size is None and status == 0  # all of it was written
                if not small and (status != 1 or "File too large" not in text or names() != before or
                                  (old and content(file) != OLD)):
                    wrong.append(f"{limit} {old}: {status} {text} {names()}")
                if os.path.exists(file):
                    os.unlink(file)
        report(f"a full disk leaves no half: {' '.join(words)}", not wrong, wrong)
    for words, file in ((["plan", "m.gguf", "--save", "o.plan"], "o.plan"),
                        (["trace", "whole.bsp", "o.json"], "o.json")):
        put(file)
        before = names()
        status, text = run(*words, limit=min(100, whole))
        report(f"... {' '.join(words)}", status == 1 and content(file) == OLD and names() == before, text)
        os.unlink(file)
    os.unlink("whole.bsp")
    if os.path.exists("/dev/full"):
        status, text = run(*RUN, "--profile", "/dev/full")
        report("a device is written to as it is", status == 1 and "No space left" in text, text)


def test_pipes():
    """Whatever is read: refused at once, though nobody writes."""
    for pipe in ("pipe.gguf", "pipe.npy", "pipe.png", "pipe.bsp"):
        os.mkfifo(pipe)
    rows = (["inspect", "pipe.gguf"], ["check", "pipe.gguf"], ["plan", "pipe.gguf"], ["run", "pipe.gguf"],
            ["profile", "pipe.bsp"], ["replay", "pipe.bsp"], ["trace", "pipe.bsp", "o.json"],
            ["run", "m.gguf", "--input", "x=pipe.npy"], ["run", "m.gguf", "--input", "x=pipe.png"],
            [*RUN, "--compare", "z=pipe.npy"], ["profile", "/dev/zero"], ["inspect", "/dev/zero"])
    for words in rows:
        status, text = run(*words)
        report(f"refused: {' '.join(words)}", status == 1 and "whose size is not known" in text and
               not os.path.exists("o.json"), text)
    for pipe in ("pipe.gguf", "pipe.npy", "pipe.png", "pipe.bsp"):
        os.unlink(pipe)


def test_signal():
    """A run that is ended while it records leaves nothing, and the old file."""
    put("o.bsp")
    before = names()
    process = subprocess.Popen([*PROGRAM, "run", "m.gguf", "--runs", "1000000", "--profile", "o.bsp", "--output",
                                "y=o.npy"], stdout=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
    until = time.monotonic() + PATIENCE
    while len(names()) < len(before) + 1 and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    status = process.wait()
    report("a signal ends it, and no half is left", status == -signal.SIGTERM and names() == before and
           content("o.bsp") == OLD, f"{status} {names()}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        PROGRAM[-1] = os.path.abspath(PROGRAM[-1])
        os.chdir(folder)
        make()
        test_one_file()
        test_refused()
        test_full()
        test_pipes()
        test_signal()
        os.chdir("/")
    return end()


sys.exit(main())
