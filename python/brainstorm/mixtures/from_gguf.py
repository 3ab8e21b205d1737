"""Mixtures of a GGUF file with llama.cpp's names. Weights f32, f16 or bf16; others only where `dequantise` asks for it.

Relies on the gguf package, after `sound` has made sure that its reader comes to an end. Must never trust a number of
the file.
"""

import os
import struct

from .layer import Mixture, Refused

SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of types of keys; 8 text, 9 arrays
MOST_KEYS, MOST_TENSORS, MOST_ELEMENTS, MOST_DIMS = 2**16, 2**20, 2**24, 4
# Whether the shares of chosen experts are made to sum to 1, where the file does not say: as the programs of these
# architectures do it.
NORMALISES = {"llama": True, "qwen3moe": True, "qwen2moe": False, "olmoe": False, "phimoe": True, "mixtral": True}


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
    """Keys and tensors of a file."""

    def __init__(self, path, dequantise=False):
        import gguf

        self.gguf, self.path, self.dequantise = gguf, path, dequantise
        sound(path)
        try:
            self.reader = gguf.GGUFReader(path)
            self.tensors = {tensor.name: tensor for tensor in self.reader.tensors}
        except Exception as error:  # whatever a reader meets in a file that is not one
            raise Refused(f"{path} is not a GGUF file that can be read: {error}") from None
        self.arch = self.key("general.architecture", str)

    def key(self, name, kind, default=None):
        entry = self.reader.get_field(name)
        value = None if entry is None else entry.contents()
        if value is None:
            if default is None:
                raise Refused(f"{self.path} has no key {name}")
            return default
        if kind is float and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise Refused(f"{self.path}: key {name} is {str(value)[:60]!r}, expected {kind.__name__}")
        return value

    def of_arch(self, name, kind, default=None):
        return self.key(f"{self.arch}.{name}", kind, default)

    def tensor(self, name, default=None):
        found = self.tensors.get(name)
        if found is None:
            return default
        kinds = self.gguf.GGMLQuantizationType
        if found.tensor_type in (kinds.F32, kinds.F16):
            return found.data
        if found.tensor_type == kinds.BF16 or self.dequantise:
            try:
                return self.gguf.dequantize(found.data, found.tensor_type)
            except (NotImplementedError, KeyError, ValueError) as error:
                raise Refused(f"{self.path}: tensor {name} of type {found.tensor_type.name}: {error}") from None
        raise Refused(f"{self.path}: tensor {name} is of type {found.tensor_type.name}, expected F32 or F16 "
                      "(--dequantise makes f32 of others)")


def _needed(source, name):
    array = source.tensor(name)
    if array is None:
        raise Refused(f"{source.path} has no tensor {name}")
    return array


def _gates(source, blk):
    """gate and up, which some files keep in one tensor."""
    both = source.tensor(f"{blk}.ffn_gate_up_exps.weight")
    if both is None:
        return _needed(source, f"{blk}.ffn_gate_exps.weight"), _needed(source, f"{blk}.ffn_up_exps.weight")
    if both.ndim != 3 or both.shape[1] % 2:
        raise Refused(f"{source.path}: tensor {blk}.ffn_gate_up_exps.weight has the shape {list(both.shape)}")
    half = both.shape[1] // 2
    return both[:, :half], both[:, half:]


def _shared(source, blk):
    names = {"gate": "ffn_gate_shexp", "up": "ffn_up_shexp", "down": "ffn_down_shexp", "router": "ffn_gate_inp_shexp"}
    found = {what: source.tensor(f"{blk}.{name}.weight") for what, name in names.items()}
    found = {what: array for what, array in found.items() if array is not None}
    if found and not {"gate", "up", "down"} <= set(found):
        raise Refused(f"{source.path}: the shared expert of {blk} has only {', '.join(found)}")
    if "router" in found:
        found["router"] = found["router"].reshape(1, -1)
    return found


def _mixture(source, number, normalise):
    blk = f"blk.{number}"
    for odd in ("ffn_gate_exps.bias", "ffn_up_exps.bias", "ffn_down_exps.bias", "exp_probs_b.bias", "ffn_exp_probs_b"):
        if f"{blk}.{odd}" in source.tensors:
            raise Refused(f"{source.path}: tensor {blk}.{odd} is not supported")
    gating = source.of_arch("expert_gating_func", int, 1)
    if gating not in (1, 2, 3):
        raise Refused(f"{source.path}: key {source.arch}.expert_gating_func is {gating}, expected 1 .. 3")
    says = f"{source.arch}.expert_weights_norm"
    if normalise is None:
        normalise = NORMALISES.get(source.arch) if source.reader.get_field(says) is None else source.key(says, bool)
    if normalise is None and gating != 3:
        raise Refused(f"{source.path} has no key {says}: whether shares of the chosen "
                      "experts sum to 1 must be said (--normalise yes or no)")
    gate, up = _gates(source, blk)
    router = _needed(source, f"{blk}.ffn_gate_inp.weight")
    if source.of_arch("expert_count", int, router.shape[0]) != router.shape[0]:
        raise Refused(f"{source.path}: {router.shape[0]} experts of {blk}, but key {source.arch}.expert_count differs")
    norm = source.tensor(f"{blk}.ffn_norm.weight")
    return Mixture(number, router, gate, up, _needed(source, f"{blk}.ffn_down_exps.weight"),
                   source.of_arch("expert_used_count", int), "sigmoid" if gating == 2 else "softmax",
                   bool(normalise) or gating == 3, source.of_arch("expert_weights_scale", float, 0.0) or 1.0, norm,
                   source.of_arch("attention.layer_norm_rms_epsilon", float, 1e-5),
                   source.tensor(f"{blk}.ffn_gate_inp.bias"), _shared(source, blk))


def read_gguf(path, layers=None, normalise=None, dequantise=False):
    """The mixtures of a file, in the order of its layers; layers: only those of these numbers."""
    source = Source(path, dequantise)
    if source.of_arch("expert_group_count", int, 1) > 1:
        raise Refused(f"{path}: experts that are chosen in groups are not supported")
    numbers = sorted(int(name.split(".")[1]) for name in source.tensors
                     if name.startswith("blk.") and name.endswith(".ffn_gate_inp.weight")
                     and name.split(".")[1].isdecimal())
    return [_mixture(source, number, normalise) for number in chosen(path, numbers, layers)]


def chosen(path, numbers, layers):
    """Those of `numbers` that are asked for."""
    if not numbers:
        raise Refused(f"{path} has no layers with experts")
    missing = sorted(set(layers or ()) - set(numbers))
    if missing:
        raise Refused(f"{path} has no experts in layer {missing[0]}, only in {', '.join(map(str, numbers))}")
    return [n for n in numbers if layers is None or n in layers]
