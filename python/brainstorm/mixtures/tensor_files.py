"""Arrays of .safetensors files by name; each is read when it is asked for.

Relies on the safetensors package. Must never wait for what is no file.
"""

import json
import os
import struct

import numpy as np

from ..outputs import only_file
from .layer import Refused


class Files:
    """Arrays of .safetensors files by name; each is read when it is asked for."""

    def __init__(self, path):
        from safetensors import safe_open

        self.open, self.where = safe_open, {}
        paths = [path]
        if os.path.isdir(path):
            paths = sorted(os.path.join(path, name) for name in os.listdir(path) if name.endswith(".safetensors"))
        if not paths:
            raise Refused(f"there is no .safetensors file in {path}")
        for each in paths:
            only_file(each, Refused)
            for name in self._keys(each):
                self.where[name] = each

    def _keys(self, path):
        try:
            with self.open(path, "np") as file:
                return list(file.keys())
        except Exception as error:  # SafetensorError is an Exception of its own
            raise Refused(f"{path} is not a .safetensors file that can be read: {error}") from None

    def __iter__(self):
        return iter(self.where)

    def __contains__(self, name):
        return name in self.where

    def __getitem__(self, name):
        path = self.where[name]
        try:
            with self.open(path, "np") as file:
                kind = file.get_slice(name).get_dtype()
                if kind in ("F32", "F16"):
                    return file.get_tensor(name)
        except Exception as error:
            raise Refused(f"{path}: tensor {name}: {error}") from None
        if kind != "BF16":
            raise Refused(f"{path}: tensor {name} is of type {kind}, expected F32, F16 or BF16")
        return self._bf16(path, name)

    @staticmethod
    def _bf16(path, name):
        """As f32; NumPy has no such type. The package has checked the file's head."""
        with open(path, "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            entry = json.loads(file.read(size))[name]
            begin, end = entry["data_offsets"]
            file.seek(8 + size + begin)
            halves = np.frombuffer(file.read(end - begin), "<u2")
        return (halves.astype(np.uint32) << 16).view(np.float32).reshape(entry["shape"])
