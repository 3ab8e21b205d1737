"""A GGUF file as keys and tensors, each read when it is asked for; which ones were asked for is kept, for known.py.

Relies on the gguf package, after `sound` has made sure that its reader comes to an end. Must never trust a number of
the file. Weights f32, f16 or bf16; others only where `dequantise` asks for it.
"""

import os
import struct

from ..outputs import only_file
from .layer import Refused

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of types of keys; 8 text, 9 arrays
MOST_KEYS, MOST_TENSORS, MOST_ELEMENTS, MOST_DIMS = 2**16, 2**20, 2**24, 4


class _Walk:
    """Reads a file's head, and fails where it says more than it has."""

    def __init__(self, file, path):
        self.file, self.path, self.size = file, path, os.fstat(file.fileno()).st_size

    def take(self, kind):
        data = self.file.read(struct.calcsize("<" + kind))
        if len(data) < struct.calcsize("<" + kind):
            raise Refused(f"{self.path} ends within its head")
        return struct.unpack("<" + kind, data)[0]

    def skip(self, count):
        if count > self.size - self.file.tell():
            raise Refused(f"{self.path}: a key or a name wants {count} bytes, more than there are")
        self.file.seek(count, os.SEEK_CUR)

    def count(self, what, number, most):
        if number > most:
            raise Refused(f"{self.path}: {what} is {number}, expected at most {most}")
        return number

    def value(self, kind):
        if kind == 8:
            self.skip(self.take("Q"))
        elif kind in SIZES:
            self.skip(SIZES[kind])
        elif kind == 9:
            of, count = self.take("I"), self.count("the length of an array", self.take("Q"), MOST_ELEMENTS)
            if of in SIZES:
                self.skip(count * SIZES[of])
            elif of == 8:
                for _ in range(count):
                    self.skip(self.take("Q"))
            else:
                raise Refused(f"{self.path}: an array of type {of}")
        else:
            raise Refused(f"{self.path}: a key of type {kind}")


def sound(path):
    """Fails unless the head of a GGUF file is whole."""
    only_file(path, Refused)
    with open(path, "rb") as file:
        walk = _Walk(file, path)
        if file.read(4) != b"GGUF" or walk.take("I") not in (2, 3):
            raise Refused(f"{path} is not a GGUF file of version 2 or 3")
        tensors = walk.count("the number of tensors", walk.take("Q"), MOST_TENSORS)
        for _ in range(walk.count("the number of keys", walk.take("Q"), MOST_KEYS)):
            walk.skip(walk.take("Q"))
            walk.value(walk.take("I"))
        for _ in range(tensors):
            walk.skip(walk.take("Q"))
            elements = 1
            for _ in range(walk.count("the number of dimensions of a tensor", walk.take("I"), MOST_DIMS)):
                elements *= walk.take("Q")
            walk.count("the number of elements of a tensor", elements, 4 * walk.size)
            walk.skip(12)


class Source:
    """Keys and tensors of a file. keys_read, tensors_read: the names that were asked for."""

    def __init__(self, path, dequantise=False):
        import gguf

        self.gguf, self.path, self.dequantise = gguf, path, dequantise
        self.keys_read, self.tensors_read = set(), set()
        sound(path)
        try:
            self.reader = gguf.GGUFReader(path)
            self.tensors = {tensor.name: tensor for tensor in self.reader.tensors}
        except Exception as error:  # whatever a reader meets in a file that is not one
            raise Refused(f"{path} is not a GGUF file that can be read: {error}") from None
        self.arch = self.key("general.architecture", str)

    def value(self, name):
        """Of a key, whatever it is; None where there is no such key."""
        entry = self.reader.get_field(name)
        try:
            return None if entry is None else entry.contents()
        except Exception as error:  # of the package, which trusts what the file says of its texts and lists
            raise Refused(f"{self.path}: key {name} cannot be read: {error}") from None

    def key(self, name, kind, default=None):
        self.keys_read.add(name)
        value = self.value(name)
        if value is None:
            if default is None:
                raise Refused(f"{self.path} has no key {name}")
            return default
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise Refused(f"{self.path}: key {name} is {str(value)[:60]!r}, expected {kind.__name__}")
        return value

    def has(self, name):
        return self.reader.get_field(f"{self.arch}.{name}") is not None

    def of_arch(self, name, kind, default=None):
        return self.key(f"{self.arch}.{name}", kind, default)

    def tensor(self, name):
        """An array; None where there is none."""
        self.tensors_read.add(name)
        found = self.tensors.get(name)
        if found is None:
            return None
        kinds = self.gguf.GGMLQuantizationType
        if found.tensor_type in (kinds.F32, kinds.F16):
            return found.data
        if found.tensor_type != kinds.BF16 and not self.dequantise:
            raise Refused(f"{self.path}: tensor {name} is of type {found.tensor_type.name}, expected F32 or F16 "
                          "(--dequantise makes f32 of others)")
        try:
            return self.gguf.dequantize(found.data, found.tensor_type)
        except Exception as error:  # of the package: types that it does not know, shapes that are no blocks
            raise Refused(f"{self.path}: tensor {name} of type {found.tensor_type.name}: {error}") from None
