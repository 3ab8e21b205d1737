"""Mixtures of arrays with the names of Hugging Face's transformers: a dict, or `.safetensors` files and a config.json.

    {prefix}.N.mlp.gate.weight [E, D]    (or block_sparse_moe, feed_forward, in place of mlp)
    {prefix}.N.mlp.experts.gate_up_proj [E, 2F, D], gates first; .experts.down_proj [E, D, F]
    or an array an expert: .experts.E.gate_proj.weight, up_proj, down_proj; w1, w3, w2

Relies on the safetensors package for files. Must never trust a shape: layer.py checks them.
"""

import json
import os
import re
import struct

import numpy as np

from .from_gguf import chosen
from .layer import Mixture, Refused

ROUTER = re.compile(r"(?P<before>.*\.|)(?P<number>[0-9]{1,6})\.(?P<part>mlp|block_sparse_moe|feed_forward)"
                    r"\.(gate|router)\.weight\Z")
EACH = {"gate": ("gate_proj", "w1"), "up": ("up_proj", "w3"), "down": ("down_proj", "w2")}


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
            if not os.path.isfile(each):
                raise Refused(f"{each} is not a file")
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


def _stacked(arrays, prefix, what):
    """[E, ...] of an array for each expert, or None."""
    for name in EACH[what]:
        if f"{prefix}.0.{name}.weight" in arrays:
            found = []
            while f"{prefix}.{len(found)}.{name}.weight" in arrays:
                found.append(np.asarray(arrays[f"{prefix}.{len(found)}.{name}.weight"]))
                if found[-1].shape != found[0].shape:
                    raise Refused(f"{prefix}: {name} of expert {len(found) - 1} has another shape than of expert 0")
            return np.stack(found)
    return None


def _needed(arrays, name):
    if name not in arrays:
        raise Refused(f"there is no array {name}")
    return np.asarray(arrays[name])


def _experts(arrays, part):
    """gate, up, down."""
    for odd in ("gate_up_proj_bias", "down_proj_bias"):
        if f"{part}.experts.{odd}" in arrays:
            raise Refused(f"the array {part}.experts.{odd} is not supported")
    parts = [_stacked(arrays, f"{part}.experts", what) for what in EACH]
    if all(each is not None for each in parts):
        return parts
    both = _needed(arrays, f"{part}.experts.gate_up_proj")
    if both.ndim != 3 or both.shape[1] % 2:
        raise Refused(f"{part}.experts.gate_up_proj has the shape {list(both.shape)}, expected [experts, 2 f, d]")
    half = both.shape[1] // 2
    return both[:, :half], both[:, half:], _needed(arrays, f"{part}.experts.down_proj")


def _config(config, *names, default=None):
    for name in names:
        if config.get(name) is not None:
            return config[name]
    if default is None:
        raise Refused(f"the configuration has no {' or '.join(names)}")
    return default


def _numbers(config, normalise):
    """k, whether shares are normalised, epsilon, scale, gating."""
    if normalise is None:
        normalise = config.get("norm_topk_prob")
        if normalise is None and config.get("model_type") == "mixtral":
            normalise = True
    if not isinstance(normalise, bool):
        raise Refused("the configuration has no norm_topk_prob: whether shares of the chosen experts sum to 1 must be "
                      "said (--normalise yes or no)")
    k = _config(config, "num_experts_per_tok", "top_k", "k")
    epsilon = _config(config, "rms_norm_eps", default=1e-5)
    scale = _config(config, "routed_scaling_factor", default=1.0)
    for what, number, kinds in (("num_experts_per_tok", k, int), ("rms_norm_eps", epsilon, (int, float)),
                                ("routed_scaling_factor", scale, (int, float))):
        if not isinstance(number, kinds) or isinstance(number, bool) or not abs(number) < 1e30:
            raise Refused(f"the configuration's {what} is {number!r}")
    if (config.get("n_group") or 1) != 1:
        raise Refused("experts that are chosen in groups are not supported")
    return k, normalise, float(epsilon), float(scale), config.get("scoring_func") or "softmax"


def read_arrays(arrays, config, layers=None, normalise=None, path="the arrays"):
    """The mixtures of arrays by name (a dict, or Files). config: what config.json holds: num_experts_per_tok,
    norm_topk_prob, rms_norm_eps, scoring_func."""
    k, normalise, epsilon, scale, gating = _numbers(config, normalise)
    routers = {int(found["number"]): (name, found) for name in arrays for found in [ROUTER.match(name)] if found}
    made = []
    for number in chosen(path, sorted(routers), layers):
        name, found = routers[number]
        layer = f"{found['before']}{number}"
        part = f"{layer}.{found['part']}"
        for odd in (f"{part}.gate.e_score_correction_bias", f"{part}.shared_experts.gate_proj.weight",
                    f"{part}.shared_expert.gate_proj.weight"):
            if odd in arrays:
                raise Refused(f"the array {odd} is not supported")
        norm = f"{layer}.post_attention_layernorm.weight"
        made.append(Mixture(number, np.asarray(arrays[name]), *_experts(arrays, part), k, gating, normalise, scale,
                            np.asarray(arrays[norm]) if norm in arrays else None, epsilon))
    return made


def read_safetensors(path, config=None, layers=None, normalise=None):
    """The same of a file, or of all files in a folder. config: a dict; None: config.json beside them."""
    arrays = Files(path)
    if config is None:
        beside = os.path.join(path if os.path.isdir(path) else os.path.dirname(path), "config.json")
        try:
            with open(beside, encoding="utf-8") as file:
                config = json.load(file)
        except (OSError, ValueError, RecursionError) as error:
            raise Refused(f"{beside}, which says how many experts a row takes, cannot be read: {error}") from None
        if not isinstance(config, dict):
            raise Refused(f"{beside} is not a configuration")
    return read_arrays(arrays, config, layers, normalise, path)
