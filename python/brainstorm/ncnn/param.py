"""Reads the text of an ncnn network: a `.param` file, as layers.

Owns: what is checked of the text by itself: numbers, names, that each blob is made once and before it is read.
Must never know what a layer means. The file comes from anywhere: what is odd is a Refused, which names line and layer.
"""

import math
import re

from ..outputs import only_file

MAGIC = "7767517"
MAX_BYTES = 64 * 2**20     # of the file
MAX_LAYERS = 2**20
MAX_NAME = 63              # of what a model file can name
MAX_NUMBERS = 2**16        # of one parameter
MAX_INTEGER = 2**31 - 1
MAX_REAL = 3.4028234e38     # what an f32 holds
_ARRAY = -23300            # a key below it is an array
_WHOLE = re.compile(r"[+-]?[0-9]{1,20}\Z", re.ASCII)
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,4})?\Z", re.ASCII)


class Refused(ValueError):
    """Why a network is not imported, in words for its owner."""


class Layer:
    def __init__(self, kind, name, inputs, outputs, params, line):
        self.kind, self.name, self.inputs, self.outputs = kind, name, inputs, outputs
        self.params, self.line = params, line

    def __str__(self):
        return f"{self.kind} {self.name!r}"

    def refuse(self, why):
        return Refused(f"{self}: {why}")

    def whole(self, key, default=0, low=-MAX_INTEGER, high=MAX_INTEGER):
        """A parameter that is a whole number of a range."""
        number = self.params.get(key, default)
        if not isinstance(number, int) or not low <= number <= high:
            raise self.refuse(f"parameter {key} is {number}, expected a whole number {low} .. {high}")
        return number

    def real(self, key, default=0.0):
        number = self.params.get(key, default)
        if isinstance(number, list):
            raise self.refuse(f"parameter {key} is an array, expected a number")
        return float(number)

    def reals(self, key):
        numbers = self.params.get(key, [])
        return [float(n) for n in (numbers if isinstance(numbers, list) else [numbers])]

    def wholes(self, key):
        numbers = self.params.get(key, [])
        numbers = numbers if isinstance(numbers, list) else [numbers]
        if not all(isinstance(n, int) for n in numbers):
            raise self.refuse(f"parameter {key} is {numbers}, expected whole numbers")
        return numbers


def _whole(word, what, low, high):
    if not _WHOLE.match(word) or not low <= int(word) <= high:
        raise Refused(f"{what} is {word[:40]!r}, expected a number {low} .. {high}")
    return int(word)


def _number(word, what):
    if _WHOLE.match(word):
        return _whole(word, what, -MAX_INTEGER - 1, MAX_INTEGER)
    number = float(word) if _NUMBER.match(word) else math.nan
    if not abs(number) <= MAX_REAL:
        raise Refused(f"{what} is {word[:40]!r}, expected a number")
    return number


def _param(word, where):
    key, equals, text = word.partition("=")
    if not equals:
        raise Refused(f"{where}: {word[:40]!r}, expected a parameter KEY=NUMBER")
    key = _whole(key, f"{where}: the key of {word[:40]!r}", -2 * 23300, 2**16)
    if key > _ARRAY:
        return key, _number(text, f"{where}: parameter {key}")
    count, *numbers = text.split(",")
    count = _whole(count, f"{where}: the length of array {_ARRAY - key}", 0, MAX_NUMBERS)
    if count != len(numbers):
        raise Refused(f"{where}: array {_ARRAY - key} has {len(numbers)} numbers, but says {count}")
    return _ARRAY - key, [_number(n, f"{where}: array {_ARRAY - key}") for n in numbers]


def _layer(line, number):
    words = line.split()
    where = f"line {number}"
    if len(words) < 4:
        raise Refused(f"{where}: {line[:60]!r}, expected KIND NAME INPUTS OUTPUTS ...")
    kind, name = words[:2]
    for word in (kind, name):
        if len(word) > MAX_NAME or not all(32 < ord(c) < 127 for c in word):
            raise Refused(f"{where}: the name {word[:80]!r} is not plain ASCII of at most {MAX_NAME} characters")
    where = f"line {number}, {kind} {name!r}"
    n_in, n_out = (_whole(word, f"{where}: the number of {what}", 0, MAX_NUMBERS)
                   for word, what in zip(words[2:], ("inputs", "outputs")))
    if len(words) < 4 + n_in + n_out:
        raise Refused(f"{where}: {n_in} inputs and {n_out} outputs do not stand in the line")
    blobs, params = words[4:4 + n_in + n_out], {}
    for word in words[4 + n_in + n_out:]:
        key, value = _param(word, where)
        if key in params:
            raise Refused(f"{where}: parameter {key} stands there twice")
        params[key] = value
    return Layer(kind, name, blobs[:n_in], blobs[n_in:], params, number)


def _linked(layers):
    """Fails unless each blob is made once, by an earlier layer than those that read it: so there are no cycles."""
    made = set()
    for layer in layers:
        for blob in layer.inputs:
            if blob not in made:
                later = any(blob in other.outputs for other in layers)
                raise layer.refuse(f"reads the blob {blob[:80]!r}, which " +
                                   ("a later layer makes, or itself" if later else "no layer makes"))
        for blob in layer.outputs:
            if blob in made:
                raise layer.refuse(f"makes the blob {blob[:80]!r}, which is made already")
            made.add(blob)
    return made


def parse(text):
    """The layers of a network, in their order."""
    lines = [line.strip() for line in text.splitlines()]
    if not lines or lines[0] != MAGIC:
        raise Refused(f"the first line is {lines[0][:40] if lines else ''!r}, expected {MAGIC}: "
                      "not a text .param file of ncnn")
    counts = lines[1].split() if len(lines) > 1 else []
    if len(counts) != 2:
        raise Refused("line 2: expected the numbers of layers and blobs")
    n_layers = _whole(counts[0], "the number of layers", 1, MAX_LAYERS)
    n_blobs = _whole(counts[1], "the number of blobs", 1, 2 * MAX_LAYERS)
    layers = [_layer(line, number) for number, line in enumerate(lines[2:], 3) if line]
    if len(layers) != n_layers:
        raise Refused(f"there are {len(layers)} layers, but line 2 says {n_layers}")
    made = _linked(layers)
    if len(made) != n_blobs:
        raise Refused(f"there are {len(made)} blobs, but line 2 says {n_blobs}")
    return layers


def read_param(path):
    only_file(path, Refused)
    with open(path, "rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise Refused(f"{path} has more than {MAX_BYTES} bytes")
    try:
        return parse(data.decode("ascii"))
    except UnicodeDecodeError:
        raise Refused(f"{path} is not plain text: not a text .param file of ncnn") from None
