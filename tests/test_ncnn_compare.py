# tags: uses:bench/products,bench/networks needs:gguf,numpy,onnx,ncnn
"""test_ncnn_compare.py: an import of a network of ncnn ends by comparing; what differs is not kept and does not end
with 0; numbers that cannot tell are said, and others are tried; an ncnn that dies takes nothing with it.

Relies on ncnn_rig.py, bench/networks; faults are planted into the importer. Must never leave a file behind.
"""

import contextlib
import importlib.util
import os
import itertools
import sys
from unittest import mock

from ncnn_rig import FOLDER, command, layer, param_text, path_of, raw, report, save, tagged  # first: it finds python/

import networks_runner
import numpy as np
from brainstorm import session
from brainstorm.ncnn import compare, convert, net
from model_rig import end

random = np.random.default_rng(11)
NUMBER = itertools.count()
OUT, KEPT = path_of("out.gguf"), b"what was there"
if networks_runner.program() is None:
    print("skipped: no bench/networks (make build/bench/networks)\n0 passed, 0 failed, 1 skipped")
    sys.exit(0)


def importing(files, *words):
    """Status, text, what is at OUT, where there was something before, and what else was left there."""
    before = set(os.listdir(FOLDER))
    with open(OUT, "wb") as file:
        file.write(KEPT)
    status, said = command(*files, OUT, *words)
    with open(OUT, "rb") as file:
        return status, said, file.read(), set(os.listdir(FOLDER)) - before - {"out.gguf"}


def agrees(name, files, *expected, words=(), silent=()):
    status, said, made, left = importing(files, *words)
    good = (status == 0 and made != KEPT and not left and "from ncnn's" in said and all(w in said for w in expected)
            and not any(w in said for w in silent))
    report(f"{name}: is kept", good, f"status {status}, {left} left, expected {expected}: {said}")


def refused(name, files, *expected, words=(), fault=None):
    with fault or contextlib.nullcontext():
        status, said, made, left = importing(files, *words)
    good = status == 1 and made == KEPT and not left and all(w in said for w in expected)
    report(f"{name}: is not kept", good, f"status {status}, {left} left, expected {expected}: {said}")


def changed(kind, change):
    """The handler of a kind of layer gives what `change` makes of it."""
    return mock.patch.dict(net.HANDLERS, {kind: change(net.HANDLERS[kind])})


def times(kind, factor):
    def change(make):
        def made(of, layer, *blobs):
            blob = make(of, layer, *blobs)
            return of.like(blob, of.g.affine(blob.value, factor, 0.0))
        return made
    return changed(kind, change)


def chain(*layers, data=b"", channels=3, size=0):
    """A network of layers that follow each other: (kind, params)."""
    fixed = {0: size, 1: size, 2: channels} if size else {}
    lines = [layer("Input", "in", [], ["b0"], fixed)]
    lines += [layer(kind, f"l{i}", [f"b{i}"], [f"b{i + 1}"], params) for i, (kind, params) in enumerate(layers)]
    return save(param_text(lines), data, f"net{next(NUMBER)}")


def conv(weight=None, bias=None, channels=3):
    """(layer, weights) of a 3 x 3 convolution that keeps the size and the channels."""
    weight = random.standard_normal((channels, channels, 3, 3)) / 5 if weight is None else weight
    bias = random.standard_normal(channels) if bias is None else bias
    return ("Convolution", {0: channels, 1: 3, 4: 1, 5: 1, 6: 9 * channels**2}), (
        tagged(np.asarray(weight, np.float32)) + raw(bias))


CONV, WEIGHTS = conv()
PLAIN = (CONV, ("Clip", {0: -1.5, 1: 1.5}), ("ReLU", {}))  # behind a Convolution a ReLU would be a part of it


def kept():
    agrees("a convolution", chain(*PLAIN, data=WEIGHTS), silent=("tried",))
    agrees("in patches", chain(*PLAIN, data=WEIGHTS), words=("--patches", "32"))
    agrees("of a fixed size", chain(*PLAIN, data=WEIGHTS, size=9), silent=("tried",))
    agrees("of multiples of 4", chain(*PLAIN, data=WEIGHTS), words=("--multiple", "4"))
    agrees("a frame that is small at most", chain(*PLAIN, data=WEIGHTS), words=("--most", "7,5"))
    agrees("two outputs", chain(*PLAIN, data=WEIGHTS), "b1:", "b2:", words=("--output", "b1", "--output", "b2"))


def faults():
    files = chain(*PLAIN, data=WEIGHTS)
    for name, fault in {"a factor": times("Convolution", 1.01), "half a percent": times("ReLU", 0.995),
                        "a ReLU that is left out": changed("ReLU", lambda make: lambda of, layer, x: x),
                        "another layer's ReLU": changed("ReLU", lambda make: lambda of, layer, x: of.like(
                            x, of.g.activation(x.value, "leaky_relu", 0.1)))}.items():
        refused(name, files, "not kept", fault=fault)
    for words in (("--shape", "b0=3,16,20"), ("--patches", "32")):
        refused(f"half a percent, {words[0]}", files, "not kept", words=words, fault=times("ReLU", 0.995))
    first = chain(("ReLU", {}), data=b"")
    refused("a ReLU of the input that is left out", first, "not kept",
            fault=changed("ReLU", lambda make: lambda of, layer, x: x), words=("--shape", "b0=3,8,8"))
    weights = lambda change: mock.patch.object(convert, "read_weights", lambda layers, bin, read=convert.read_weights: {
        key: {name: change(name, array) for name, array in arrays.items()}
        for key, arrays in read(layers, bin).items()})
    refused("biases of others", files, "not kept", fault=weights(lambda name, a: a[::-1] if name == "bias" else a))
    refused("weights with less bits", files, "not kept",
            fault=weights(lambda name, a: np.round(a, 1) if name == "weight" else a))
    refused("a tolerance that nothing meets", files, "not kept", "--tolerance", words=("--tolerance", "-1"))
    with times("ReLU", 3.0):
        for words in (("--no-compare",), ("--tolerance", "9")):
            status, said, made, _ = importing(files, *words)
            report(f"{words[0]} keeps it", status == 0 and made != KEPT, said)


def frames():
    """A fault that shows only in frames of some sizes: one that is not a multiple of 8 is among those compared."""
    free = chain(CONV, data=WEIGHTS)
    seen = []
    record = lambda param, bin, feeds, outputs, run=compare.results: (
        seen.extend(x.shape for feed in feeds for x in feed.values()), run(param, bin, feeds, outputs))[1]
    with mock.patch.object(compare, "results", record):
        importing(free)
    report("frames of several sizes are compared, odd ones among them",
           len(set(seen)) >= 2 and any(h % 2 and w % 2 for _, h, w in seen), str(set(seen)))


def numbers():
    zero, nothing = conv(np.zeros((3, 3, 3, 3)), np.zeros(3))
    agrees("weights of zero", chain(zero, data=nothing), "is zero everywhere", "says nothing of it", "tried")
    constant, data = conv(np.zeros((3, 3, 3, 3)))
    agrees("weights of zero and biases", chain(constant, data=data), "is the same for all inputs", "says nothing of it")
    dead, data = conv(np.eye(3)[:, :, None, None] * np.ones((1, 1, 3, 3)) / 9, [-20] * 3)
    files = chain(dead, ("Power", {}), ("ReLU", {}), data=data)
    agrees("a ReLU that large numbers pass", files, "is zero everywhere for numbers 0 .. 1", silent=("says nothing",))
    refused("a ReLU that large numbers pass, and a fault", files, "not kept", fault=times("ReLU", 1.05))
    agrees("numbers that overflow", chain(("Power", {0: 1.0, 1: 200.0}), ("UnaryOp", {0: 7}), size=8), "is not finite")
    agrees("one output of two", chain(CONV, zero, data=WEIGHTS + nothing), "b2 is zero everywhere, whatever",
           words=("--output", "b1", "--output", "b2"), silent=("b1 is",))


def deaths():
    """Another process in ncnn's place."""
    files = chain(*PLAIN, data=WEIGHTS)
    for name, text, *expected in (("by a signal", "kill -SEGV $$", "signal 11", "--no-compare"),
                                  ("by another", "echo last words >&2; kill -ABRT $$", "signal 6", "last words"),
                                  ("with a status", "exit 3", "ends with 3"),
                                  ("with words", "echo no such layer >&2; exit 1", "no such layer")):
        with open(path_of("fake"), "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\ncat > /dev/null\n{text}\n")
        os.chmod(path_of("fake"), 0o755)
        refused(f"ncnn ends {name}", files, "cannot be compared", *expected,
                fault=mock.patch.object(sys, "executable", path_of("fake")))
    with mock.patch.object(importlib.util, "find_spec", lambda name: None):
        status, said, made, _ = importing(files)
        report("without ncnn it says so", status == 0 and made != KEPT and "not compared" in said, said)
    with mock.patch.object(session, "used", lambda _: contextlib.nullcontext()):
        status, said, made, _ = importing(files)
        report("without what runs models it says so", status == 0 and "not compared" in said, said)


def pipes():
    good = chain(*PLAIN, data=WEIGHTS)
    os.mkfifo(path_of("pipe"))
    os.mkdir(path_of("folder"))
    for name in ("pipe", "folder", "/dev/null"):
        path = name if name.startswith("/") else path_of(name)
        refused(f"{name} as .param", (path, good[1]), path, "a file", "pipe")
        refused(f"{name} as .bin", (good[0], path), path, "a file", "pipe")


kept()
faults()
frames()
numbers()
deaths()
pipes()
sys.exit(end())
