"""mixtures_rig.py - what the tests of python/brainstorm/mixtures share: tiny mixtures from a seed, as files of others,
and what they compute, in NumPy.

Owns: a folder that goes when the program ends. Relies on model_rig.py, the gguf package.
"""

import atexit
import os
import shutil
import tempfile

import numpy as np

from model_rig import report  # noqa: F401: first, it finds python/

import gguf

FOLDER = tempfile.mkdtemp()
atexit.register(shutil.rmtree, FOLDER)
D, F, EXPERTS, K = 24, 32, 6, 2


def path_of(name):
    return os.path.join(FOLDER, name)


def weights(seed, shared=False, bias=False):
    """{llama.cpp's name without blk.N: array f32} of one layer."""
    random = np.random.default_rng(seed)
    normal = lambda *shape: (random.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)
    made = {"ffn_norm.weight": 1 + normal(D), "ffn_gate_inp.weight": 3 * normal(EXPERTS, D),
            "ffn_gate_exps.weight": normal(EXPERTS, F, D), "ffn_up_exps.weight": normal(EXPERTS, F, D),
            "ffn_down_exps.weight": normal(EXPERTS, D, F)}
    if shared:
        made.update({"ffn_gate_shexp.weight": normal(F, D), "ffn_up_shexp.weight": normal(F, D),
                     "ffn_down_shexp.weight": normal(D, F), "ffn_gate_inp_shexp.weight": normal(D)})
    if bias:
        made["ffn_gate_inp.bias"] = normal(EXPERTS)
    return made


def halves(tensors):
    """Matrices as f16, the rest f32."""
    return {name: a.astype(np.float16) if a.ndim == 3 else a for name, a in tensors.items()}


def write_gguf(path, layers, arch="llama", keys=None, quantised=()):
    """layers: {number: tensors}. keys: {name without the architecture: (method of the writer, value)}; None: left
    out."""
    writer = gguf.GGUFWriter(path, arch)
    every = {"expert_count": ("uint32", EXPERTS), "expert_used_count": ("uint32", K),
             "attention.layer_norm_rms_epsilon": ("float32", 1e-5), **(keys or {})}
    for key, entry in every.items():
        if entry is not None:
            getattr(writer, f"add_{entry[0]}")(f"{arch}.{key}", entry[1])
    for number, tensors in layers.items():
        for name, array in tensors.items():
            if name in quantised:
                kind = gguf.GGMLQuantizationType.Q8_0
                writer.add_tensor(f"blk.{number}.{name}", gguf.quantize(array, kind), raw_dtype=kind)
            else:
                writer.add_tensor(f"blk.{number}.{name}", array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def feed(x, gate, up, down):
    hidden = x @ gate.T
    return (hidden * sigmoid(hidden) * (x @ up.T)) @ down.T


def reference(x, tensors, gating="softmax", normalise=True, scale=1.0, bare=False):
    """What the layer makes of rows x, and the experts of each row, the best first."""
    t = {name: a.astype(np.float64) for name, a in tensors.items()}
    x = x.astype(np.float64)
    rows = x if bare else x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * t["ffn_norm.weight"]
    scores = rows @ t["ffn_gate_inp.weight"].T + t.get("ffn_gate_inp.bias", 0.0)
    shares = sigmoid(scores) if gating == "sigmoid" else np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    best = np.argsort(-shares, axis=-1, kind="stable")[:, :K]
    y = np.zeros_like(x)
    for n, experts in enumerate(best):
        total = shares[n, experts].sum() if normalise else 1.0
        for e in experts:
            expert = (t[f"ffn_{w}_exps.weight"][e] for w in ("gate", "up", "down"))
            y[n] += shares[n, e] / total * feed(rows[n], *expert)
    y *= scale
    if "ffn_gate_shexp.weight" in t:
        share = sigmoid(rows @ t["ffn_gate_inp_shexp.weight"].reshape(-1, 1))
        y += share * feed(rows, *(t[f"ffn_{w}_shexp.weight"] for w in ("gate", "up", "down")))
    return (y if bare else x + y), best
