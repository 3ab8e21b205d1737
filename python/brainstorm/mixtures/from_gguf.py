"""Mixtures of a GGUF file with llama.cpp's names.

Owns: what each key and tensor of a layer means; rules.py has what differs between architectures. Must never leave out a
key or a tensor of a layer that known.py does not pass over.
"""

import re

import numpy as np

from . import known, published
from .gguf_file import Source
from .layer import Mixture, Refused
from .rules import GGUF, rule_of

GATINGS = {1: "softmax", 2: "sigmoid", 3: "softmax of the chosen"}
ROUTER = re.compile(r"blk\.([0-9]{1,6})\.ffn_gate_inp\.weight\Z", re.ASCII)
EPSILON, LAYER_EPSILON = 1e-5, "attention.layer_norm_rms_epsilon"


def _needed(source, name):
    array = source.tensor(name)
    if array is None:
        raise Refused(f"{source.path} has no tensor {name}")
    return array


def _scaled(source, name, weights):
    """Weights of experts, times what the file has of them: one number each, mostly beside quantised ones."""
    scales = source.tensor(f"{name}.scale")
    if scales is None:
        return weights
    if weights.ndim != 3 or scales.shape != weights.shape[:1]:
        raise Refused(f"{source.path}: tensor {name}.scale has the shape {list(scales.shape)}, expected one number for "
                      f"each of the experts of {list(weights.shape)}")
    return weights.astype(np.float32) * scales.astype(np.float32).reshape(-1, 1, 1)


def _experts(source, blk):
    """gate, up, down; gate and up are one tensor in some files."""
    down = _scaled(source, f"{blk}.ffn_down_exps", _needed(source, f"{blk}.ffn_down_exps.weight"))
    both = source.tensor(f"{blk}.ffn_gate_up_exps.weight")
    if both is None:
        return [*(_scaled(source, f"{blk}.ffn_{what}_exps", _needed(source, f"{blk}.ffn_{what}_exps.weight"))
                  for what in ("gate", "up")), down]
    if both.ndim != 3 or both.shape[1] % 2:
        raise Refused(f"{source.path}: tensor {blk}.ffn_gate_up_exps.weight has the shape {list(both.shape)}, expected "
                      "[experts, 2 f, d]")
    half = both.shape[1] // 2
    return both[:, :half], both[:, half:], down


def _shared(source, blk, rule):
    """The expert of all rows, if the file has one."""
    names = {what: f"{blk}.ffn_{what}_shexp.weight" for what in ("gate", "up", "down")}
    there = [name for name in names.values() if name in source.tensors]
    if not rule.shared:
        if there:
            raise Refused(f"{source.path}: tensor {there[0]} is of a shared expert, which {source.arch} does not have")
        return {}
    if not (source.of_arch("expert_shared_count", int, 0) > 0 or rule.shared == "gated" or there):
        return {}
    found = {what: _needed(source, name) for what, name in names.items()}
    if rule.shared == "gated":
        found["router"] = _needed(source, f"{blk}.ffn_gate_inp_shexp.weight").reshape(1, -1)
    return found


def _gating(source, rule):
    if source.has("expert_gating_func"):
        number = source.of_arch("expert_gating_func", int)
        if number not in GATINGS:
            raise Refused(f"{source.path}: key {source.arch}.expert_gating_func is {number}, expected 1 .. 3")
        return GATINGS[number]
    if rule.gating is None:
        raise Refused(f"{source.path} has no key {source.arch}.expert_gating_func, which says how experts are chosen")
    return rule.gating


def _normalise(source, rule, gating, asked):
    says = "expert_weights_norm"
    found = source.of_arch(says, bool) if source.has(says) else rule.normalise
    if gating == "softmax of the chosen":
        return True
    if asked is not None:
        return asked
    if found is None:
        raise Refused(f"{source.path} has no key {source.arch}.{says}: whether shares of the chosen "
                      "experts sum to 1 must be said (--normalise yes or no)")
    return found


def _agree(source, blk, router):
    """Fails where a key tells another size than the router has."""
    if router.ndim != 2:
        raise Refused(f"{source.path}: tensor {blk}.ffn_gate_inp.weight has the shape {list(router.shape)}, expected "
                      "[experts, d]")
    for key, size in zip(("expert_count", "embedding_length"), router.shape):
        said = source.of_arch(key, int, size)
        if said != size:
            raise Refused(f"{source.path}: {blk}.ffn_gate_inp.weight is {list(router.shape)}, but key "
                          f"{source.arch}.{key} is {said}")


def _mixture(source, number, asked, rule, like):
    blk = f"blk.{number}"
    router = _needed(source, f"{blk}.ffn_gate_inp.weight")
    _agree(source, blk, router)
    gate, up, down = _experts(source, blk)
    gating = _gating(source, rule)
    norm, notes = source.tensor(f"{blk}.{rule.norm}.weight"), []
    epsilon = source.of_arch(LAYER_EPSILON, float, EPSILON)
    if norm is None:
        notes.append(f"there is no {blk}.{rule.norm}.weight: rows are neither normed nor added")
    elif not source.has(LAYER_EPSILON):
        notes.append(f"there is no key {source.arch}.{LAYER_EPSILON}: {EPSILON:g} is taken")
    residual = source.of_arch("residual_scale", float, 0.0) if rule.residual else 0.0
    biases = {f"{what}_bias": source.tensor(f"{blk}.ffn_{what}_exps.bias") if rule.biases else None
              for what in ("gate", "up", "down")}
    choice = source.tensor(f"{blk}.exp_probs_b.bias") if rule.choice else None
    return Mixture(number, router, gate, up, down, source.of_arch("expert_used_count", int),
                   "sigmoid" if gating == "sigmoid" else "softmax", _normalise(source, rule, gating, asked),
                   source.of_arch("expert_weights_scale", float, 0.0) or 1.0, norm, epsilon,
                   source.tensor(f"{blk}.ffn_gate_inp.bias"), _shared(source, blk, rule), rule.act, residual or 1.0,
                   **biases, choice_bias=choice, notes=tuple(notes),
                   published=published.of_gguf(source, number, like, asked))


def _refuse_unread(source, number, ignored):
    """Of a layer that was read, and of the keys."""
    blk = f"blk.{number}."
    known.refuse_unread(source.path, "tensor", [name for name in source.tensors if name.startswith(blk) or
                                                known.ADAPTERS.fullmatch(name)],
                        source.tensors_read, lambda name: known.GGUF_TENSORS.fullmatch(name[len(blk):]), ignored)
    arch = f"{source.arch}."
    known.refuse_unread(
        source.path, "key", [name for name in source.reader.fields if name.startswith((arch, "adapter."))],
        source.keys_read, lambda name: known.GGUF_KEYS.fullmatch(name[len(arch):]) or
        known.neutral(name[len(arch):], source.value(name)), ignored)


def read_gguf(path, layers=None, normalise=None, dequantise=False, like="", ignored=()):
    """The mixtures of a file, in the order of its layers; layers: only those of these numbers. like: the architecture
    whose rule they follow, where it is not the file's own. ignored: names of keys and tensors that do not matter."""
    source = Source(path, dequantise)
    kind = source.key("general.type", str, "model")
    if kind != "model":
        raise Refused(f"{path} is of type {kind!r} (general.type), expected a model")
    if source.of_arch("expert_group_count", int, 1) > 1:
        raise Refused(f"{path}: experts that are chosen in groups are not supported")
    for name in ignored:
        if name not in source.tensors and source.reader.get_field(name) is None:
            raise Refused(f"{path} has no key and no tensor {name!r} that could be ignored")
    numbers = sorted(int(found[1]) for found in map(ROUTER.match, source.tensors) if found)
    asked = chosen(path, numbers, layers)
    like = like or source.arch
    rule, made = rule_of(path, GGUF, like), []
    for number in asked:
        made.append(_mixture(source, number, normalise, rule, like))
        _refuse_unread(source, number, ignored)
    return made


def chosen(path, numbers, layers):
    """Those of `numbers` that are asked for."""
    if not numbers:
        raise Refused(f"{path} has no layers with experts")
    missing = sorted(set(layers or ()) - set(numbers))
    if missing:
        raise Refused(f"{path} has no experts in layer {missing[0]}, only in {', '.join(map(str, numbers))}")
    return [n for n in numbers if layers is None or n in layers]
