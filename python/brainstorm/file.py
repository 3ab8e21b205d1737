"""What a model file holds: blocks with their records, arrays of nodes and weights; written, and weights read back.

For graph.py, whose graphs are written. The format is described in docs/format.md. Needs numpy and gguf.
"""

import struct
import zlib

import numpy as np

from .lists import DTYPES
from .ops import MAX_RANK
from .outputs import Beside

VERSION = 2             # of the file format: BS_MODEL_VERSION
ALIGNMENT = 4096        # of records in the file
TENSOR_ALIGNMENT = 256  # of tensors in a record
HEAD_BYTES = 256        # of a record, before its weights

STORED = {np.dtype("float32"): "f32", np.dtype("uint8"): "u8", np.dtype("int8"): "i8", np.dtype("int32"): "i32",
          np.dtype("float16"): "f16", np.dtype("uint16"): "u16"}


class Block:
    """A range of nodes and the weights that they use."""

    def __init__(self, name, first_node):
        self.name, self.first_node, self.end_node = name, first_node, None
        self.weights = []  # (name, array, offset)
        self.bytes = 0

    def add(self, name, array):
        offset = -(-max(self.bytes, HEAD_BYTES) // TENSOR_ALIGNMENT) * TENSOR_ALIGNMENT
        self.weights.append((name, array, offset))
        self.bytes = offset + array.nbytes

    def payload(self):
        """What follows the head: the weights, and zeros between them."""
        record = np.zeros(max(self.bytes, HEAD_BYTES), np.uint8)
        for _, array, offset in self.weights:
            record[offset:offset + array.nbytes] = np.frombuffer(array.tobytes(), np.uint8)
        return record[HEAD_BYTES:].tobytes()

    def crc32(self):
        return zlib.crc32(self.payload())

    def record(self, number, file_id):
        head = struct.pack("<4sIIIQQ", b"BSRC", 1, number, self.crc32(), self.bytes, file_id)
        return np.frombuffer(head.ljust(HEAD_BYTES, b"\0") + self.payload(), np.int8)


def file_id(blocks):
    """FNV-1a over checksum and length of every block: other weights, another number."""
    number = 14695981039346656037
    for byte in b"".join(struct.pack("<IQ", block.crc32(), block.bytes) for block in blocks):
        number = (number ^ byte) * 1099511628211 % 2**64
    return number


def stored_array(name, array):
    """The array as it is written: little-endian, dense, of a type the library knows."""
    array = np.asarray(array)
    array = array.astype({"float64": np.float32, "int64": np.int32}.get(array.dtype.name, array.dtype),
                         casting="same_kind")
    if array.dtype.newbyteorder("=") not in STORED:
        raise ValueError(f"weight {name}: {array.dtype} cannot be stored")
    if array.ndim > MAX_RANK or array.size == 0:
        raise ValueError(f"weight {name}: shape {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"weight {name} is not finite")
    array = array.reshape(array.shape or (1,))
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<")))


def read_weights(path):
    """{name: array} of a model file."""
    import gguf

    reader = gguf.GGUFReader(path)
    def entries(key):
        field = reader.fields[f"brainstorm.{key}"]
        return [field.parts[i] for i in field.data]

    stored = {number: dtype for dtype, name in STORED.items() for number in [DTYPES[name]]}
    tensors, dims, weights = [int(n[0]) for n in entries("block.tensor")], entries("weight.dims"), {}
    columns = (entries(f"weight.{k}") for k in ("name", "block", "dtype", "rank", "offset"))
    for name, block, dtype, rank, offset in zip(*columns):
        shape, dims = [int(n[0]) for n in dims[:rank[0]]], dims[rank[0]:]
        record = np.asarray(reader.tensors[tensors[block[0]]].data).view(np.uint8).ravel()[int(offset[0]):]
        kind = stored[int(dtype[0])]
        weights[bytes(name).decode()] = record[:int(np.prod(shape)) * kind.itemsize].view(kind).reshape(shape).copy()
    return weights


def arrays(graph):
    """Every array of the file: key -> (element type, elements)."""
    graph.blocks[0].end_node = len(graph.nodes)
    nodes, blocks = graph.nodes, graph.blocks
    weights = [(b, *weight) for b, block in enumerate(blocks) for weight in block.weights]
    flat = lambda lists: [n for numbers in lists for n in numbers]
    tensors, number = [], 0
    for block in blocks:
        tensors.append(number if block.bytes else -1)
        number += block.bytes > 0
    return {
        "node.op": ("str", [n.op for n in nodes]),
        "node.name": ("str", [n.name for n in nodes]),
        "node.inputs.count": ("i32", [len(n.inputs) for n in nodes]),
        "node.inputs": ("i32", flat(n.inputs for n in nodes)),
        "node.params.count": ("i32", [len(n.params) for n in nodes]),
        "node.params": ("i32", flat(n.params for n in nodes)),
        "node.block": ("i32", [n.block for n in nodes]),
        "symbol.name": ("str", [name for name, _ in graph.symbols]),
        "symbol.maximum": ("i64", [maximum for _, maximum in graph.symbols]),
        "block.name": ("str", [b.name for b in blocks]),
        "block.first_node": ("i32", [b.first_node for b in blocks]),
        "block.end_node": ("i32", [b.end_node for b in blocks]),
        "block.tensor": ("i32", tensors),
        "block.bytes": ("u64", [b.bytes for b in blocks]),
        "block.crc32": ("u32", [b.crc32() for b in blocks]),
        "weight.name": ("str", [name for _, name, _, _ in weights]),
        "weight.block": ("i32", [b for b, _, _, _ in weights]),
        "weight.dtype": ("i32", [DTYPES[STORED[a.dtype.newbyteorder("=")]] for _, _, a, _ in weights]),
        "weight.rank": ("i32", [a.ndim for _, _, a, _ in weights]),
        "weight.dims": ("i64", flat(a.shape for _, _, a, _ in weights)),
        "weight.offset": ("u64", [offset for _, _, _, offset in weights]),
    }


def write(graph, path):
    """Writes beside `path` and renames: what is at `path` is whole."""
    with Beside(path) as new:
        _write(graph, new.path)
        new.keep()


def _write(graph, path):
    import gguf

    types = {"str": gguf.GGUFValueType.STRING, "i32": gguf.GGUFValueType.INT32, "u32": gguf.GGUFValueType.UINT32,
             "i64": gguf.GGUFValueType.INT64, "u64": gguf.GGUFValueType.UINT64}
    if graph.open_loops:
        raise ValueError(f"loop {graph.open_loops[-1].name!r} is begun and never ended")
    if len(graph.open_blocks) != 1:
        raise ValueError("a block is still open")
    identity = file_id(graph.blocks)
    writer = gguf.GGUFWriter(path, "brainstorm")
    writer.add_custom_alignment(ALIGNMENT)
    writer.add_uint32("brainstorm.version", VERSION)
    writer.add_uint32("brainstorm.opset", max([1, *(n.opset for n in graph.nodes)]))
    writer.add_uint64("brainstorm.file.id", identity)
    writer.add_string("brainstorm.model.name", graph.name)
    writer.add_uint32("brainstorm.model.scale", graph.scale)
    writer.add_uint32("brainstorm.value.count", graph.n_values)
    for key, (kind, elements) in arrays(graph).items():
        if elements:  # GGUF writers refuse empty arrays; readers take a missing one for empty
            writer.add_key_value(f"brainstorm.{key}", elements, gguf.GGUFValueType.ARRAY, types[kind])
    for number, block in enumerate(graph.blocks):
        if block.bytes:
            writer.add_tensor(f"block.{block.name}", block.record(number, identity))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
