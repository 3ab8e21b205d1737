"""Reads the weights of an ncnn network: a `.bin` file, which has neither names nor a table, only the order of layers.

Owns: which layer has which arrays, and how they are stored. Must never read beyond the file or make an array that is
larger than it. int8 weights are refused: their scales belong to arithmetic that the library does not have.
"""

import os

import numpy as np

from ..outputs import only_file
from .param import MAX_INTEGER, Refused

F16, INT8, RAW = 0x01306B47, 0x000D4B38, 0x0002C056
MOST = 2**31  # weights of one array


class Bytes:
    def __init__(self, path):
        self.path, self.at = path, 0
        only_file(path, Refused)
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            self.data = np.frombuffer(file.read(size), np.uint8)

    def take(self, count, dtype, what):
        """An array of the next bytes; they are padded to 4."""
        dtype = np.dtype(dtype)
        size = count * dtype.itemsize
        if count > MOST or self.at + size > len(self.data):
            raise Refused(f"{what} wants {size} bytes at {self.at} of {self.path}, which has {len(self.data)}")
        array = self.data[self.at:self.at + size].view(dtype)
        self.at += -(-size // 4) * 4
        return array

    def raw(self, count, what):
        return self._finite(self.take(count, "<f4", what), what)

    def tagged(self, count, what):
        """Behind a tag that says how they are stored."""
        tag = int(self.take(1, "<u4", f"the tag of {what}")[0])
        if tag == F16:
            return self._finite(self.take(count, "<f2", what), what)
        if tag == INT8:
            raise Refused(f"{what} has int8 weights, which are not supported: take the network before its "
                          "quantisation")
        if tag == RAW or tag & 0xff == 0 and sum(tag.to_bytes(4, "little")) == 0:
            return self.raw(count, what)
        if sum(tag.to_bytes(4, "little")) != 0:  # so ncnn tells it: a table of 256 and a byte a weight
            table = self.take(256, "<f4", f"the table of {what}")
            return self._finite(table[self.take(count, np.uint8, what)], what)
        raise Refused(f"{what} has the tag 0x{tag:08x}, which is not known")

    def _finite(self, array, what):
        if not np.isfinite(array).all():
            raise Refused(f"{what}: a weight is not finite")
        return array


def _window(layer, data):
    if layer.whole(8) != 0:
        raise layer.refuse("int8 weights are not supported: take the network before its quantisation")
    arrays = {"weight": data.tagged(layer.whole(6, 0, 1), f"the weight of {layer}")}
    if layer.whole(5):
        arrays["bias"] = data.raw(layer.whole(0, 0, 1), f"the bias of {layer}")
    return arrays


def _inner_product(layer, data):
    if layer.whole(8) != 0:
        raise layer.refuse("int8 weights are not supported: take the network before its quantisation")
    arrays = {"weight": data.tagged(layer.whole(2, 0, 1), f"the weight of {layer}")}
    if layer.whole(1):
        arrays["bias"] = data.raw(layer.whole(0, 0, 1), f"the bias of {layer}")
    return arrays


def _scale(layer, data):
    count, arrays = layer.whole(0), {}
    if count == -233:  # the scale is an input; a bias would be as long, which nobody says
        if layer.whole(1):
            raise layer.refuse("a bias beside a scale that is an input is not supported")
        return arrays
    arrays["scale"] = data.raw(layer.whole(0, 0, 1), f"the scale of {layer}")
    if layer.whole(1):
        arrays["bias"] = data.raw(count, f"the bias of {layer}")
    return arrays


def _each(*names, when=None):
    def read(layer, data):
        count = layer.whole(0, 0, 1)
        if when is not None and not layer.whole(when, 1):
            return {}
        return {name: data.raw(count, f"{name} of {layer}") for name in names}
    return read


def _memory(layer, data):
    count = 1
    for key in (0, 1, 2, 11):
        count *= layer.whole(key, 0, 0) or 1
    if count > MAX_INTEGER:
        raise layer.refuse(f"{count} elements")
    read = data.tagged if layer.whole(21, 1) == 0 else data.raw
    return {"data": read(count, f"the data of {layer}")}


READERS = {"Convolution": _window, "ConvolutionDepthWise": _window, "Deconvolution": _window,
           "DeconvolutionDepthWise": _window, "InnerProduct": _inner_product, "Scale": _scale,
           "PReLU": _each("slope"), "BatchNorm": _each("slope", "mean", "var", "bias"),
           "InstanceNorm": _each("gamma", "beta", when=2), "LayerNorm": _each("gamma", "beta", when=2),
           "MemoryData": _memory}


def read_weights(layers, path):
    """{layer: {name: array}} of all layers that have weights."""
    data = Bytes(path)
    weights = {layer: READERS[layer.kind](layer, data) for layer in layers if layer.kind in READERS}
    if data.at < len(data.data):
        raise Refused(f"{path} has {len(data.data) - data.at} bytes beyond the last layer's weights: is it of another "
                      ".param?")
    return weights
