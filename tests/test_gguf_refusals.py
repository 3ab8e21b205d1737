# tags: needs:gguf,numpy
"""test_gguf_refusals.py: python/brainstorm refuses to write what the library would refuse, and no more.

Relies on: model_rig.py. Must never leave a file behind.
"""

import os
import sys
import tempfile
import warnings

from model_rig import brainstorm, end, random, report  # first: it finds python/

import brainstorm as bm
import numpy as np


def raises(action):
    try:
        action()
    except ValueError:
        return True
    return False


def image(g):
    return g.input("x", "f32", [1, 600, 600])


def rows(g):
    return g.rows(g.input("x", "f32", [4, 2]))


def twice(g):
    x = g.input("x", "f32", [4])
    g.linear(x, "l", np.ones((2, 4), np.float32))
    g.linear(x, "l", np.zeros((2, 4), np.float32))


def foreign(g):
    g.output("y", bm.Graph().input("x", "f32", [1]))


def empty_block(g):
    with g.block("nothing"):
        pass


def refused_windows():
    """Kernels, strides and channels that the library refuses, whatever the shapes."""
    conv = lambda shape=(1, 1, 3, 3), **fields: lambda g: g.conv2d(image(g), "c", np.zeros(shape, np.float32), **fields)
    deconv = lambda shape=(1, 1, 3, 3), **fields: (
        lambda g: g.deconv2d(image(g), "d", np.zeros(shape, np.float32), **fields))
    return {
        "a kernel 2^15 + 1 high": conv((1, 1, 2**15 + 1, 1)),
        "a kernel 2^15 + 1 wide": conv((1, 1, 1, 2**15 + 1)),
        "a stride of 2^15 + 1": conv(stride=2**15 + 1),
        "a stride of 2^15 + 1 across": conv(stride=(1, 2**15 + 1)),
        "strides of three axes": conv(stride=(1, 1, 1)),
        "pads of three sides": conv(pad=(1, 1, 1), padding="explicit"),
        "a side's pad of 2^15 + 1": conv(pad=(0, 0, 2**15 + 1, 0), padding="explicit"),
        "a side's pad that is not read": conv(pad=(0, 1, 0, 0)),
        "a stride below 0": conv(stride=-1),
        "half a stride": conv(stride=1.5),
        "a dilation of 2^15 + 1": conv(dilation=2**15 + 1),
        "2^20 + 1 channels": conv((2**20 + 1, 1, 1, 1)),
        "2^20 + 1 groups": conv(groups=2**20 + 1),
        "-2 groups": conv(groups=-2),
        "3 channels in 2 groups": conv((3, 1, 3, 3), groups=2),
        "prelu without slopes in a layer": conv(act="prelu"),
        "a deconv2d's kernel of 256": deconv((1, 1, 256, 256)),
        "a deconv2d's kernel that is not square": deconv((1, 1, 3, 2)),
        "a deconv2d's stride of 17": deconv(stride=17),
        "a deconv2d's 2^20 + 1 channels": deconv((1, 2**20 + 1, 1, 1)),
        "an output_pad of 16": deconv(stride=16, output_pad=16),
        "an output_pad of the stride": deconv(stride=2, output_pad=2),
        "a pad of a conv1d that is not read": lambda g: g.conv1d(image(g), "c", np.zeros((1, 1, 3)), pad=1),
        "a conv1d's pads of three sides": lambda g: g.conv1d(image(g), "c", np.zeros((1, 1, 3)), pad=(1, 1, 1),
                                                            padding="explicit"),
        "a pool's kernel of 2^15 + 1": lambda g: g.pool2d(image(g), kernel=2**15 + 1),
        "a pool's stride of 2^15 + 1": lambda g: g.pool2d(image(g), stride=2**15 + 1),
        "a pool's default around it": lambda g: g.pool2d(image(g), pad=2, padding="explicit"),
        "a pool's width beside it": lambda g: g.pool2d(image(g), kernel=(4, 3), pad=(0, 3), padding="explicit"),
    }


def refused_ops():
    """The same of other numbers."""
    codes = lambda g: g.patches(g.input("x", "u8", [1, 64, 64]))
    return {
        "2^24 + 1 features": lambda g: g.linear(image(g), "l", np.zeros((2**24 + 1, 1), np.float16)),
        "r = 0": lambda g: g.pixel_shuffle(image(g), 0),
        "r = 65": lambda g: g.pixel_shuffle(image(g), 65),
        "r = 65 the other way": lambda g: g.pixel_unshuffle(image(g), 65),
        "a factor of 17": lambda g: g.resize(image(g), factor=17),
        "17 bits of a code": lambda g: g.convert(image(g), "u16", code_bits=17),
        "17 bits of a resized code": lambda g: g.resize(image(g), code_bits=17),
        "129 buckets": lambda g: g.patch_features(codes(g), buckets=129),
        "one bucket": lambda g: g.patch_features(codes(g), buckets=1),
        "features of 7 bits": lambda g: g.patch_features(codes(g), code_bits=7),
        "patches of 8,193": lambda g: g.patches(image(g), 8193),
        "a side of a pad beyond 2^15": lambda g: g.pad(image(g), left=2**15 + 1),
        "a pad below 0": lambda g: g.pad(image(g), top=-1),
        "prelu without slopes": lambda g: g.activation(image(g), "prelu"),
        "low above high": lambda g: g.clip(image(g), 1, 0),
        "low that is no number": lambda g: g.clip(image(g), np.nan, 0),
        "a constant of bytes": lambda g: g.constant("c", np.zeros(3, np.uint8)),
        "a constant of halves": lambda g: g.constant("c", np.zeros(3, np.float16)),
        "a constant without a name": lambda g: g.constant("", np.zeros(3, np.float32)),
        "weights that are whole numbers": lambda g: g.linear(image(g), "l", np.ones((2, 600), np.int32)),
        "axis 4": lambda g: g.concat([image(g)], axis=4),
        "axis -5": lambda g: g.reduce(image(g), "sum", axis=-5),
        "a slice that starts before 0": lambda g: g.slice(image(g), axis=0, start=-1, length=1),
        "a slice of a length below 0": lambda g: g.slice(image(g), axis=0, start=0, length=-1),
        "the first none": lambda g: g.topk(image(g), 0),
        "what is left over, twice": lambda g: g.reshape(image(g), [-1, -1]),
        "a reshaped dimension of 0": lambda g: g.reshape(image(g), [0]),
        "a reshaped dimension of -2": lambda g: g.reshape(image(g), [-2]),
        "a dimension that is there twice": lambda g: g.reshape(image(g), ["a0", "a0"]),
        "a seventh dimension's copy": lambda g: g.reshape(image(g), ["a6"]),
        "seven dimensions": lambda g: g.reshape(image(g), [1, 1, 1, 1, 1, 1, -1]),
        "no dimensions": lambda g: g.reshape(image(g), []),
        "an order that takes one twice": lambda g: g.transpose(image(g), [0, 1, 1]),
        "an order below 0": lambda g: g.transpose(image(g), [0, 1, -1]),
        "heads below 0": lambda g: g.attention(*[image(g)] * 3, heads=-1),
        "bidirectional 2": lambda g: g.attention(*[image(g)] * 3, bidirectional=2),
        "alibi 2": lambda g: g.attention(*[image(g)] * 3, alibi=2),
        "a number that 32 bits cannot hold": lambda g: g.pool2d(image(g), everything=2**31),
    }


def refused_routers():
    """Routers that the library refuses, and what is asked of others than they are."""
    def routed_by(protocol, paths=2, **fields):
        return lambda g: g.route(rows(g), "r", protocol, paths, **fields)

    def gathered(protocol, **fields):
        def action(g):
            x = rows(g)
            g.gather(g.route(x, "r", protocol, 2, **fields), [x, x])
        return action

    def another_router(g):
        other = bm.Graph()
        g.scatter(other.route(rows(other), "r", "top1", 2), 0, rows(g))

    return {
        "a binary router of one path": routed_by("binary", 1),
        "a binary router of three paths": routed_by("binary", 3),
        "a residual threshold of three paths": routed_by("residual_threshold", 3),
        "a budget without costs": routed_by("budget"),
        "a table router without a table": routed_by("table"),
        "costs of other protocols": routed_by("top1", cost=[1, 2]),
        "a path for each but one variant": routed_by("budget", cost=[1, 2], path=[0]),
        "a variant of a path that is not": routed_by("budget", cost=[1, 2], path=[0, 2]),
        "a key of a path that is not": routed_by("table", table=[0, 1, 2]),
        "a gather of nothing": lambda g: g.gather(g.route(rows(g), "r", "top1", 2), [None, None]),
        "to place two paths a cell": gathered("topk", k=2),
        "to place any paths a cell": gathered("threshold"),
        "a price without a budget": lambda g: g.route_price(g.route(rows(g), "r", "top1", 2)),
        "a router of another graph": another_router,
        "a look ahead to nobody": lambda g: g.look_ahead(rows(g), ""),
    }


def refused_structure():
    """The same of names and of what is made by what."""
    cells = lambda g: g.rows(g.input("x", "i32", [4, 2]))

    def written_twice(g):
        state = g.state("s", "f32", [1])
        g.state_write(state, state)
        g.state_write(state, state)

    return {
        "to write what is no state": lambda g: g.state_write(*[g.input("x", "f32", [1])] * 2),
        "to append to what is no state": lambda g: g.state_append(rows(g), cells(bm.Graph()), None),
        "to write a state twice": written_twice,
        "lengths that are no input": lambda g: g.segments(g.input("x", "f32", [4]),
                                                          g.constant("c", np.ones(2, np.int32))),
        "a past that is no input": lambda g: g.attention(*[g.input("x", "f32", [1])] * 5,
                                                         g.constant("c", np.ones(1, np.int32))),
        "a symbol of another graph": lambda g: g.input("x", "f32", [bm.Graph().symbol("s", 4)]),
        "a symbol times what is beyond 2^30": lambda g: g.input("x", "f32", [1024 * g.symbol("s", 2**20 + 1)]),
        "0 times a symbol": lambda g: g.input("x", "f32", [0 * g.symbol("s", 4)]),
        "an operand that is none": lambda g: g.add(g.input("x", "f32", [1]), None),
        "weights of three gates for four":
            lambda g: g.lstm(rows(g), rows(g), rows(g), "n", random(12, 2), random(12, 4)),
        "weights of other units": lambda g: g.gru(rows(g), rows(g), "n", random(9, 2), random(12, 4)),
        "a bias of what is projected":
            lambda g: g.gru(rows(g), rows(g), "n", None, random(12, 4), random(12), random(12)),
        "one bias of two": lambda g: g.gru(rows(g), rows(g), "n", random(12, 2), random(12, 4), random(12)),
        "gates' bias of another length":
            lambda g: g.gru(rows(g), rows(g), "n", random(12, 2), random(12, 4), random(12), random(4)),
        "a bias of another length": lambda g: g.linear(rows(g), "l", random(4, 2), random(3)),
        "slopes of another length": lambda g: g.linear(rows(g), "l", random(4, 2), prelu=random(5)),
        "a mean of another length": lambda g: g.batch_norm(rows(g), "n", *(random(n) for n in (2, 2, 3, 2))),
        "half an extent": lambda g: g.input("x", "f32", [1.5]),
        "one and a half times a symbol": lambda g: g.input("x", "f32", [1.5 * g.symbol("s", 4)]),
        "2^40 + 2^10 elements": lambda g: g.input("x", "f32", [2**30, 2**10 + 1]),
        "a model's name of 64 bytes": lambda g: bm.Graph("n" * 64),
        "a model's name that is not ASCII": lambda g: bm.Graph("ü"),
        "a model's scale of 65": lambda g: bm.Graph("", scale=65),
    }


def test_refusals():
    refused = {
        "a pad that is not read": lambda g: g.conv2d(g.input("x", "f32", [1, 8, 8]), "c", random(1, 1, 3, 3), pad=1),
        "the pad that meant none": lambda g: g.conv2d(g.input("x", "f32", [1, 8, 8]), "c", random(1, 1, 3, 3), pad=-1),
        "padding of no name": lambda g: g.pool2d(g.input("x", "f32", [1, 8, 8]), padding="same"),
        "two different weights of one name": twice,
        "a value of another graph": foreign,
        "an empty block": empty_block,
        "a weight that is not finite": lambda g: g.constant("c", np.array([np.nan], np.float32)),
        "a weight of a type unknown": lambda g: g.constant("c", np.zeros(3, np.complex64)),
        "a name that is too long": lambda g: g.input("n" * 64, "f32", [1]),
        "an activation unknown": lambda g: g.activation(g.input("x", "f32", [1]), "swish"),
        "a mask that is no value": lambda g: g.attention(*[g.input("x", "f32", [1])] * 3, mask=1),
        "half a cache": lambda g: g.attention(*[g.input("x", "f32", [1])] * 4),
        "a parameter unknown": lambda g: g.node("softmax", [g.input("x", "f32", [1])], axis=1),
        **refused_windows(),
        **refused_ops(),
        **refused_routers(),
        **refused_structure(),
    }
    for name, action in refused.items():
        report(f"the exporter refuses {name}", raises(lambda: action(bm.Graph())), "it does not")


def test_allowed():
    """What is just within the limits is written, and the library agrees."""
    allowed = {
        "a kernel of 2^15": lambda g: g.conv2d(image(g), "c", random(1, 1, 1, 2**15)),
        "a stride of 2^15": lambda g: g.conv2d(image(g), "c", random(1, 1, 1, 1), stride=2**15),
        "a dilation of 2^15": lambda g: g.conv2d(image(g), "c", random(1, 1, 3, 3), dilation=(1, 2**15)),
        "a side's pad of 2^15": lambda g: g.conv2d(image(g), "c", random(1, 1, 1, 1), pad=(0, 0, 0, 2**15),
                                                   padding="explicit"),
        "all but a sample of a pool's window beside it": lambda g: g.pool2d(
            image(g), kernel=(1, 3), dilation=(1, 2), pad=(0, 4, 0, 3), padding="explicit"),
        "2^20 channels": lambda g: g.conv2d(image(g), "c", np.zeros((2**20, 1, 1, 1), np.float32)),
        "a deconv2d's stride of 16": lambda g: g.deconv2d(image(g), "d", random(1, 1, 3, 3), stride=16, output_pad=15),
        "a pool's pad of half its default": lambda g: g.pool2d(image(g), pad=1, padding="explicit"),
        "r = 64": lambda g: g.pixel_shuffle(g.input("x", "f32", [64 * 64, 2, 2]), 64),
        "a factor of 16": lambda g: g.resize(image(g), "nearest", 16),
        "128 buckets": lambda g: g.collect(g.patch_features(g.patches(g.input("x", "u8", [1, 8, 8]), 8), buckets=128)),
        "1,024 times a symbol": lambda g: g.input("x", "f32", [1024 * g.symbol("s", 2**20)]),
        "2^40 elements": lambda g: g.input("x", "f32", [2**30, 2**10]),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "allowed.gguf")
        for name, action in allowed.items():
            g = bm.Graph("n" * 63, scale=64)
            g.output("y", action(g))
            g.write(path)
            status, text = brainstorm("inspect", path)
            report(f"the exporter writes {name}, the library builds it", status == 0, text)


def main():
    warnings.simplefilter("error", RuntimeWarning)
    test_refusals()
    test_allowed()
    return end()


if __name__ == "__main__":
    sys.exit(main())
