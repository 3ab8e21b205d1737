# tags: needs:gguf,numpy
"""test_ncnn_files.py: files of ncnn that are wrong, cut off or hostile are refused in words, and nothing is written;
whatever is accepted, the library opens.

Relies on ncnn_rig.py, $BUILD/brainstorm. Must never leave a file behind. What layers compute: test_ncnn_layers.py.
"""

import os
import subprocess
import sys

from ncnn_rig import command, layer, param_text, path_of, raw, report, save, tagged  # first: it finds python/

import numpy as np
from brainstorm.ncnn import import_ncnn
from model_rig import brainstorm, end

random = np.random.default_rng(3)
CONV = {0: 4, 1: 3, 4: 1, 5: 1, 6: 108}
LINES = [layer("Input", "in", [], ["x"]), layer("Convolution", "conv", ["x"], ["a"], CONV),
         layer("Split", "split", ["a"], ["b", "c"]), layer("PReLU", "slopes", ["b"], ["d"], {0: 4}),
         layer("BinaryOp", "sum", ["d", "c"], ["e"], {0: 0}), layer("PixelShuffle", "wide", ["e"], ["y"], {0: 2})]
WEIGHTS = tagged(random.standard_normal(108).astype(np.float16)) + raw(random.standard_normal(4)) + raw([0.1] * 4)
OUT = "out.gguf"


def importing(lines=LINES, data=WEIGHTS, text=None, words=()):
    """Status and text of the program, and whether a file came of it."""
    out = path_of(OUT)
    if os.path.exists(out):
        os.remove(out)
    files = save(param_text(lines) if text is None else text, data)
    status, said = command(*files, out, "--no-compare", *words)
    return status, said, os.path.exists(out) or os.path.exists(out + ".new")


def refused(name, *expected, **how):
    status, said, written = importing(**how)
    good = status == 1 and not written and all(word in said for word in expected)
    report(f"refused: {name}", good, f"status {status}, written {written}, expected {expected}: {said}")


def changed(number, line):
    """The lines with another one in place of `number`."""
    return [*LINES[:number], line, *LINES[number + 1:]]


def texts():
    good = param_text(LINES)
    refused("an empty .param", "7767517", text="")
    refused("a binary .param", "not plain text", text="7767517\n\u00ff\n")
    refused("another magic number", "7767517", text=good.replace("7767517", "7767516"))
    refused("no counts", "line 2", text="7767517\n")
    refused("a negative number of layers", "'-6'", text=good.replace("\n6 7\n", "\n-6 7\n"))
    refused("a huge number of layers", "'99999999999'", text=good.replace("\n6 7\n", "\n99999999999 7\n"))
    refused("fewer layers than it says", "there are 6 layers", text=good.replace("\n6 7\n", "\n8 7\n"))
    refused("fewer blobs than it says", "there are 7 blobs", text=good.replace("\n6 7\n", "\n6 9\n"))
    refused("a line that is cut off", "line 8", text=good[:good.rindex("PixelShuffle") + 17] + "\n")
    refused("a negative number of inputs", "'-1'", lines=changed(1, "Convolution conv -1 1 x a 0=4"))
    refused("a huge number of inputs", "'99999999'", lines=[*LINES[:5], "PixelShuffle wide 99999999 1 e y"])
    refused("inputs that do not stand there", "wide", "9 inputs", lines=[*LINES[:5], "PixelShuffle wide 9 1 e y"])
    refused("a name that is too long", "at most 63", lines=changed(0, f"Input {'n' * 64} 0 1 x"))
    refused("an input's name that is too long", "'n" + "n" * 20,
            lines=[line.replace(" x", " " + "n" * 70) for line in LINES])
    refused("a name that is not ASCII", "plain", text=good.replace("conv", "cönv"))
    refused("a parameter without a value", "'zero'", lines=changed(5, LINES[5] + " zero"))
    refused("a parameter that is no number", "'nan'", lines=changed(5, "PixelShuffle wide 1 1 e y 0=nan"))
    refused("a parameter that is infinite", "'1e999'", lines=changed(5, "PixelShuffle wide 1 1 e y 0=1e999"))
    refused("a parameter twice", "twice", lines=changed(5, LINES[5] + " 0=2"))
    refused("an array that is cut off", "array 10 has 1", lines=changed(1, LINES[1] + " -23310=3,0.1"))
    refused("a huge array", "array 10", lines=changed(1, LINES[1] + " -23310=99999999,0.1"))


def graphs():
    refused("a blob that is missing", "'sum'", "'nothing'", lines=changed(4, "BinaryOp sum 2 1 d nothing e 0=0"))
    refused("a cycle", "'split'", "'y'", lines=changed(2, "Split split 1 2 y b c"))
    refused("a layer that reads itself", "'slopes'", lines=changed(3, "PReLU slopes 1 1 d d 0=4"))
    refused("a blob that is made twice", "'slopes'", "already", lines=changed(3, "PReLU slopes 1 1 b c 0=4"))
    refused("a layer without inputs", "'wide'", "0 inputs", lines=changed(5, "PixelShuffle wide 0 1 y 0=2"))
    refused("a layer with too many outputs", "'wide'", "2 outputs", lines=changed(5, "PixelShuffle wide 1 2 e y z 0=2"))
    status, said, _ = importing(lines=[*LINES[:3], "Strange one 1 1 b d", "Stranger two 1 1 c e",
                                       "Strange 3 2 1 d e y"])
    report("all unknown layers are named at once",
           status == 1 and all(word in said for word in ("Strange: one, 3", "Stranger: two")), said)
    status, said, _ = importing(lines=[*LINES[:4], layer("Pooling", "pool", ["c"], ["p"], {7: 1}),
                                       layer("Permute", "order", ["d"], ["q"], {0: 9})])
    report("all layers that do not work are named at once", status == 1 and "'pool'" in said and "'order'" in said,
           said)
    refused("a shuffle of too few channels", "'wide'", lines=changed(5, "PixelShuffle wide 1 1 e y 0=3"))
    refused("weights of another number of channels", "'conv'", words=("--shape", "x=2,8,8"))
    refused("a frame that is too small", "'narrow'", words=("--shape", "x=3,8,8"),
            lines=[*LINES, layer("Crop", "narrow", ["y"], ["z"], {9: [12], 10: [-12], 11: [2]})])
    for params in ({0: 256, 12: 1}, {0: 16, 1: 16, 13: 2}, {0: 256, 2: 1}, {1: 256}, {2: 256}):
        refused(f"a Reshape by {params}", "'flat'", words=("--shape", "x=3,8,8"),
                lines=[*LINES, layer("Reshape", "flat", ["y"], ["z"], params)])
    refused("sums of frames that never agree", "'sum'", lines=[
        *LINES[:3], layer("Pooling", "half", ["b"], ["d"], {1: 2, 2: 2, 5: 1}), *LINES[4:]],
        data=WEIGHTS[:-16])


def weights():
    refused("no weights", "'conv'", "has 0", data=b"")
    for cut in (3, 4, 100, len(WEIGHTS) - 16, len(WEIGHTS) - 1):
        refused(f"weights that end at {cut}", "'conv'" if cut < 236 else "'slopes'", data=WEIGHTS[:cut])
    refused("weights of more layers", "bytes beyond", data=WEIGHTS + bytes(4))
    refused("int8 weights", "'conv'", "int8", data=b"\x38\x4b\x0d\x00" + WEIGHTS[4:])
    refused("int8 scales", "'conv'", "int8", lines=changed(1, LINES[1] + " 8=1"))
    refused("a tag that nobody knows", "'conv'", data=b"\x00\x00\x00\x00" + WEIGHTS[4:])
    refused("weights that are not finite", "'conv'", "finite", data=WEIGHTS[:4] + b"\x00\x7c" + WEIGHTS[6:])
    refused("a negative number of weights", "'conv'", lines=changed(1, LINES[1].replace("6=108", "6=-108")))
    refused("a huge number of weights", "'conv'", lines=changed(1, LINES[1].replace("6=108", "6=2147483647")))
    refused("a huge kernel", "'conv'", lines=changed(1, LINES[1].replace(" 1=3", " 1=32768")),
            words=("--shape", "x=3,8,8"))
    refused("a kernel of 0", "'conv'", lines=changed(1, LINES[1].replace(" 1=3", " 1=0")))
    refused("a stride of 0", "'conv'", lines=changed(1, LINES[1] + " 3=0"))
    refused("a huge number of channels", "'conv'", lines=changed(1, LINES[1].replace(" 0=4", " 0=2147483647")))


def words():
    status, said = command(path_of("nothing.param"), path_of("nothing.bin"), path_of(OUT))
    report("a file that is not there is named", status == 1 and "nothing.param" in said, said)
    refused("a shape of another input", "'z'", words=("--shape", "z=3,8,8"))
    refused("a shape without numbers", "'3,a,8'", words=("--shape", "x=3,a,8"))
    refused("a negative shape", "-8", words=("--shape", "x=3,-8,8"))
    refused("huge patches", "--patches", words=("--patches", "99999"))
    refused("an output that is no blob", "'z'", words=("--output", "z"))
    files = save(param_text(LINES), WEIGHTS)
    done = subprocess.run([sys.executable, "-m", "brainstorm.ncnn", *files, path_of("missing/out.gguf")],
                          capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "python"})
    report("the program ends so, too",
           done.returncode == 1 and "missing" in done.stderr and "Traceback" not in done.stderr, done.stderr)
    status, said, written = importing(words=("--patches", "16", "--most", "270,480"))
    report("what is right is written, and says what it is", status == 0 and written and "2 height" in said, said)
    status, said = brainstorm("check", path_of(OUT))
    report("and the library opens it", status == 0, said)


def damaged():
    """Of files with random damage either none comes, for a ValueError, or one that the library opens."""
    text, accepted, opened, faults = param_text(LINES).encode(), 0, 0, []
    for turn in range(400):
        at, kind = int(random.integers(8, len(text))), turn % 4
        there = bytes(random.choice(list(b"0123456789-=., xabc"), 1).astype(np.uint8))
        new = {0: text[:at] + there + text[at + 1:], 1: text[:at] + text[at + 1:], 2: text[:at] + there + text[at:],
               3: text[:at] + text[at:at + 8] + text[at:]}[kind]
        files = save(new.decode("latin1"), WEIGHTS)
        try:
            import_ncnn(*files).graph.write(path_of(OUT))
        except ValueError:
            continue
        except Exception as error:  # anything else would be a traceback for whoever imports it
            faults.append(f"{new!r}: {error!r}")
            continue
        accepted += 1
        status, said = brainstorm("inspect", path_of(OUT))
        opened += status == 0
        faults += [] if status == 0 else [f"{new!r}: {said}"]
    report("damage is refused, or gives a file that opens", not faults, "\n".join(faults[:4]))
    report("some damage does no harm", 0 < accepted == opened < 400, f"{accepted} accepted, {opened} opened")


texts()
graphs()
weights()
words()
damaged()
sys.exit(end())
