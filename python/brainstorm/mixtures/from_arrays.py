"""Mixtures of arrays with the names of Hugging Face's transformers: a dict, or `.safetensors` files and a config.json.

    {prefix}.N.mlp.gate.weight [E, D]    (or block_sparse_moe, feed_forward, in place of mlp)
    {prefix}.N.mlp.experts.gate_up_proj [E, 2F, D], gates first; .experts.down_proj [E, D, F]
    or an array an expert: .experts.E.gate_proj.weight, up_proj, down_proj; w1, w3, w2

Owns: what each array and each word of a configuration means. Must never trust a shape, which layer.py checks; nor leave
out an array of a layer, or a word, that known.py does not pass over.
"""

import json
import os
import re

import numpy as np

from ..outputs import only_file
from . import known, published
from .from_gguf import chosen
from .layer import Mixture, Refused
from .rules import ARRAYS, HUGGING_FACE, rule_of
from .tensor_files import Files

ROUTER = re.compile(r"(?P<before>.*\.|)(?P<number>[0-9]{1,6})\.(?P<part>mlp|block_sparse_moe|feed_forward)"
                    r"\.(?P<router>gate|router)\.weight\Z", re.ASCII)
EACH = {"gate": ("gate_proj", "w1"), "up": ("up_proj", "w3"), "down": ("down_proj", "w2")}
ACTIVATIONS = {"silu": "silu", "swish": "silu", "gelu": "gelu", "relu": "relu"}  # gelu is the one with erf
EPSILON = 1e-5


class _Arrays:
    """Arrays by name; `read` has the names of those that were asked for."""

    def __init__(self, arrays):
        self.arrays, self.read = arrays, set()

    def __contains__(self, name):
        return name in self.arrays

    def get(self, name):
        """None where there is none."""
        if name not in self.arrays:
            return None
        self.read.add(name)
        try:
            return np.asarray(self.arrays[name])
        except TypeError as error:  # of what has a type that NumPy lacks
            raise Refused(f"the array {name} cannot be read: {error}") from None

    def needed(self, name):
        array = self.get(name)
        if array is None:
            raise Refused(f"there is no array {name}")
        return array


class _Config:
    """Words of a configuration; `read` has those that were asked for."""

    def __init__(self, config):
        self.config, self.read = config, set()

    def get(self, *names, default=None, kinds=(str,)):
        """The first of these words that is there."""
        self.read.update(names)
        for name in names:
            value = self.config.get(name)
            if value is not None:
                whole_or_real = isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)
                if not whole_or_real or isinstance(value, (int, float)) and not abs(value) < 1e30:
                    raise Refused(f"the configuration's {name} is {str(value)[:60]!r}, expected "
                                  f"{' or '.join(kind.__name__ for kind in kinds)}")
                return value
        return default

    def number(self, *names, default=None):
        return self.get(*names, default=default, kinds=(int, float))


def _stacked(arrays, prefix, what):
    """[E, ...] of an array for each expert, or None."""
    for name in EACH[what]:
        if f"{prefix}.0.{name}.weight" in arrays:
            found = []
            while f"{prefix}.{len(found)}.{name}.weight" in arrays:
                found.append(arrays.get(f"{prefix}.{len(found)}.{name}.weight"))
                if found[-1].shape != found[0].shape:
                    raise Refused(f"{prefix}: {name} of expert {len(found) - 1} has another shape than of expert 0")
            return np.stack(found)
    return None


def _experts(arrays, part):
    """gate, up, down."""
    parts = {what: _stacked(arrays, f"{part}.experts", what) for what in EACH}
    missing = [what for what, array in parts.items() if array is None]
    if not missing:
        return parts.values()
    if len(missing) < len(parts):
        raise Refused(f"{part}.experts.0 has no {' and no '.join(EACH[missing[0]])}, but another array of an expert")
    both = arrays.needed(f"{part}.experts.gate_up_proj")
    if both.ndim != 3 or both.shape[1] % 2:
        raise Refused(f"{part}.experts.gate_up_proj has the shape {list(both.shape)}, expected [experts, 2 f, d]")
    half = both.shape[1] // 2
    return both[:, :half], both[:, half:], arrays.needed(f"{part}.experts.down_proj")


def _shared(arrays, part, config):
    """The expert of all rows: with a share of its own, or with the share 1."""
    gated, plain = f"{part}.shared_expert", f"{part}.shared_experts"
    prefix = gated if f"{gated}.gate_proj.weight" in arrays else plain
    several = config.number("n_shared_experts", "num_shared_experts", default=0)
    if prefix == plain and not several and f"{plain}.gate_proj.weight" not in arrays:
        return {}
    found = {what: arrays.needed(f"{prefix}.{names[0]}.weight") for what, names in EACH.items()}
    if prefix == gated:
        found["router"] = arrays.needed(f"{gated}_gate.weight")
    return found


def _normalise(config, rule, asked):
    found = config.get("norm_topk_prob", default=rule.normalise, kinds=(bool,))
    if asked is None and found is None:
        raise Refused("the configuration has no norm_topk_prob: whether shares of the chosen experts sum to 1 must be "
                      "said (--normalise yes or no)")
    return found if asked is None else asked


def _agree(config, name, router):
    """Fails where the configuration tells another size than the router has."""
    if router.ndim != 2:
        raise Refused(f"the array {name} has the shape {list(router.shape)}, expected [experts, d]")
    for words, size in ((("num_experts", "num_local_experts", "n_routed_experts"), router.shape[0]),
                        (("hidden_size",), router.shape[1])):
        said = config.number(*words, default=size)
        if said != size:
            raise Refused(f"the array {name} is {list(router.shape)}, but the configuration's {words[0]} is {said}")


def _choice(arrays, config, rule, part):
    """The bias of the choice, if there is one; topk_method says that there must be."""
    names = (f"{part}.gate.e_score_correction_bias", f"{part}.e_score_correction_bias")
    method = config.get("topk_method", default="greedy")
    if method not in ("greedy", "noaux_tc"):
        raise Refused(f"the configuration's topk_method is {method!r}, expected greedy or noaux_tc")
    there = [name for name in names if name in arrays]
    if method == "noaux_tc" and not there:
        raise Refused(f"there is no array {names[0]}, which topk_method noaux_tc wants")
    return arrays.get(there[0]) if there and rule.choice else None


def _act(config):
    word = config.get("hidden_act", default="silu")
    if word not in ACTIVATIONS:
        raise Refused(f"the configuration's hidden_act is {word!r}, expected one of {', '.join(ACTIVATIONS)}")
    return ACTIVATIONS[word]


def _mixture(arrays, config, name, found, asked, kind):
    rule = rule_of("config.json", HUGGING_FACE, kind) if kind else ARRAYS
    number, layer = int(found["number"]), f"{found['before']}{found['number']}"
    part = f"{layer}.{found['part']}"
    router = arrays.needed(name)
    _agree(config, name, router)
    k = config.get("num_experts_per_tok", "top_k", "k", kinds=(int,))
    if k is None:
        raise Refused("the configuration has no num_experts_per_tok")
    norm, notes = arrays.get(f"{layer}.post_attention_layernorm.weight"), []
    epsilon = config.number("rms_norm_eps")
    if norm is None:
        notes.append(f"there is no {layer}.post_attention_layernorm.weight: rows are neither normed nor added")
    elif epsilon is None:
        notes.append(f"the configuration has no rms_norm_eps: {EPSILON:g} is taken")
    return Mixture(number, router, *_experts(arrays, part), k, config.get("scoring_func", default=rule.gating),
                   _normalise(config, rule, asked), float(config.number("routed_scaling_factor", default=1.0)), norm,
                   float(EPSILON if epsilon is None else epsilon), arrays.get(f"{part}.{found['router']}.bias"),
                   _shared(arrays, part, config), _act(config),
                   choice_bias=_choice(arrays, config, rule, part), notes=tuple(notes),
                   published=published.of_arrays(arrays.arrays, layer, {**config.config, "model_type": kind}, asked))


def _routers(names):
    """{number of a layer: (name of its router, how that is made up)}"""
    made = {}
    for found in filter(None, map(ROUTER.match, names)):
        number = int(found["number"])
        if number in made:
            raise Refused(f"layer {number} has two routers, {made[number][0]} and {found[0]}: give the arrays of one")
        made[number] = found[0], found
    return made


def _refuse_unread(path, arrays, config, layer, ignored):
    known.refuse_unread(path, "array", [name for name in arrays.arrays if name.startswith(layer) or
                                               known.ADAPTERS.fullmatch(name)], arrays.read,
                        lambda name: known.ARRAYS.fullmatch(name[len(layer):]), ignored)
    known.refuse_unread(path, "the configuration's", config.config, config.read, lambda name: (
        known.CONFIG.fullmatch(name) or known.neutral(name, config.config[name])), ignored)


def read_arrays(arrays, config, layers=None, normalise=None, path="the arrays", like="", ignored=()):
    """The mixtures of arrays by name (a dict, or Files). config: what config.json holds: num_experts_per_tok,
    norm_topk_prob, rms_norm_eps, scoring_func; a model_type must be a known one. like, ignored: as of read_gguf."""
    arrays, config = _Arrays(arrays), _Config(config)
    kind = like or config.get("model_type", default="")
    if config.number("n_group", default=1) > 1:
        raise Refused("experts that are chosen in groups are not supported")
    for name in ignored:
        if name not in arrays and name not in config.config:
            raise Refused(f"{path}: there is no array and no word {name!r} that could be ignored")
    routers, made = _routers(arrays.arrays), []
    for number in chosen(path, sorted(routers), layers):
        name, found = routers[number]
        made.append(_mixture(arrays, config, name, found, normalise, kind))
        _refuse_unread(path, arrays, config, f"{found['before']}{found['number']}.", ignored)
    return made


def read_safetensors(path, config=None, layers=None, normalise=None, like="", ignored=()):
    """The same of a file, or of all files in a folder. config: a dict; None: config.json beside them."""
    arrays = Files(path)
    if config is None:
        beside = os.path.join(path if os.path.isdir(path) else os.path.dirname(path), "config.json")
        only_file(beside, Refused)
        try:
            with open(beside, encoding="utf-8") as file:
                config = json.load(file)
        except (OSError, ValueError, RecursionError) as error:
            raise Refused(f"{beside}, which says how many experts a row takes, cannot be read: {error}") from None
        if not isinstance(config, dict):
            raise Refused(f"{beside} is not a configuration")
    return read_arrays(arrays, config, layers, normalise, path, like, ignored)
