"""Files in tests/vectors: inputs, weights and results of ops, for tests/test_op_vectors.c.

A file: magic "BSVEC1\\n\\0", then records: u8 name length, name, u8 dtype (bs_dtype), u8 rank, u32 dims, data.
Names are "<case>/<tensor>": x0 x1 ... operands, y0 y1 results, anything else a weight by its suffix.
Operands and results have a leading dimension of rows, unless the case is in ROOT or the operand in CAPTURED
of tests/vector_cases.h.
"""

import os
import struct

import numpy as np
import torch

DTYPES = {"f32": 0, "u8": 1, "i8": 2, "i32": 3, "f16": 4, "bf16": 5, "u16": 6}
records = []


def plain(t):
    """(dtype name, numpy array of its storage)"""
    if isinstance(t, torch.Tensor):
        if t.dtype == torch.bfloat16:
            return "bf16", t.contiguous().view(torch.int16).numpy().view(np.uint16)
        if t.dtype == torch.int64:
            t = t.to(torch.int32)
        t = t.detach().contiguous().numpy()
    names = {"float32": "f32", "uint8": "u8", "int8": "i8", "int32": "i32", "float16": "f16", "uint16": "u16"}
    name = names[t.dtype.name]
    return name, np.ascontiguousarray(t)


def put(case, **tensors):
    for name, tensor in tensors.items():
        dtype, array = plain(tensor)
        name = f"{case}/{name.replace('__', '.')}".encode()
        assert array.ndim <= 5 and len(name) < 64
        records.append(bytes([len(name)]) + name + bytes([DTYPES[dtype], array.ndim])
                       + struct.pack(f"<{array.ndim}I", *array.shape) + array.tobytes())


def write(name):
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "vectors", name)
    with open(path, "wb") as out:
        out.write(b"BSVEC1\n\0" + b"".join(records))
    print(f"{path}: {len(records)} tensors, {os.path.getsize(path)} bytes")
