"""ncnn_rig.py - what the tests of the ncnn importer share: small networks as the two files, and running them.

Owns: a folder that goes when the program ends. Relies on model_rig.py; bench/networks, which `make test` builds for
tests that run networks.
"""

import atexit
import contextlib
import io
import os
import shutil
import struct
import tempfile

import networks_runner
import numpy as np

from model_rig import report  # noqa: F401: first, it finds python/

from brainstorm.ncnn import __main__, compare, import_ncnn

FOLDER = tempfile.mkdtemp()
atexit.register(shutil.rmtree, FOLDER)
F16 = 0x01306B47


def path_of(name):
    return os.path.join(FOLDER, name)


def padded(data):
    return data + bytes(-len(data) % 4)


def raw(array):
    return np.asarray(array, "<f4").tobytes()


def tagged(array):
    """As ncnn stores weights: a tag and f16, or a tag of 0 and f32."""
    array = np.asarray(array)
    if array.dtype == np.float16:
        return struct.pack("<I", F16) + padded(array.astype("<f2").tobytes())
    return struct.pack("<I", 0) + raw(array)


def indexed(table, indices):
    """A table of 256 numbers, and a byte for each weight."""
    return struct.pack("<I", 0x01020304) + raw(table) + padded(np.asarray(indices, np.uint8).tobytes())


def text_of(params):
    words = []
    for key, value in params.items():
        if isinstance(value, (list, tuple)):
            words.append(f"{-23300 - key}={len(value)}," + ",".join(map(str, value)))
        else:
            words.append(f"{key}={value:e}" if isinstance(value, float) else f"{key}={value}")
    return " ".join(words)


def layer(kind, name, inputs, outputs, params=None):
    return " ".join([kind, name, str(len(inputs)), str(len(outputs)), *inputs, *outputs, text_of(params or {})]).strip()


def param_text(lines):
    blobs = sum(int(line.split()[3]) for line in lines)
    return "\n".join(["7767517", f"{len(lines)} {blobs}", *lines]) + "\n"


def save(text, data, name="net"):
    with open(path_of(name + ".param"), "w", encoding="utf-8") as file:
        file.write(text)
    with open(path_of(name + ".bin"), "wb") as file:
        file.write(data)
    return path_of(name + ".param"), path_of(name + ".bin")


def run_whole(files, inputs, **options):
    """{output: array} of the imported network, with sizes fixed, or free where `most` is given."""
    if "most" not in options:
        options["shapes"] = {name: x.shape for name, x in inputs.items()}
    made = import_ncnn(*files, **options)
    made.graph.write(path_of("net.gguf"))
    of = {}
    for name, blob in made.inputs.items():
        for d, extent in zip(blob.shape, inputs[name].shape):
            if not isinstance(d, int):
                of[d.symbol] = extent // made.multiple
    shapes = {name: compare.concrete(blob, of) for name, blob in made.outputs.items()}
    return networks_runner.run(path_of("net.gguf"), inputs, shapes)


def command(*words):
    """Status and text of the importer, as its program ends."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = __main__.main([str(word) for word in words])
    return status, said.getvalue()
