"""mixtures_rig.py - what the tests of python/brainstorm/mixtures share: tiny mixtures from a seed, as files of others,
and what they compute, in NumPy.

Owns: a folder that goes when the program ends. Relies on model_rig.py, the gguf package; on what runs models
(brainstorm.open, else bench/networks).
"""

import atexit
import os
import shutil
import sys
import tempfile

import numpy as np

from model_rig import report  # noqa: F401: first, it finds python/

import gguf
import networks_runner
import brainstorm as bm

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


def write_gguf(path, layers, arch="llama", keys=None, quantised=(), others=None):
    """layers: {number: tensors}. keys: {name without the architecture: (method of the writer, value)}; None: left
    out. others: the same with whole names."""
    writer = gguf.GGUFWriter(path, arch)
    every = {"expert_count": ("uint32", EXPERTS), "expert_used_count": ("uint32", K),
             "attention.layer_norm_rms_epsilon": ("float32", 1e-5), **(keys or {})}
    for key, entry in every.items():
        if entry is not None:
            getattr(writer, f"add_{entry[0]}")(f"{arch}.{key}", entry[1])
    for key, (kind, value) in (others or {}).items():
        getattr(writer, f"add_{kind}")(key, value)
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


try:
    from brainstorm.running import native
    native()
    RUNS = True
except ImportError:
    RUNS = False


def needs_to_run():
    """Ends the program where nothing runs models."""
    if not RUNS and networks_runner.program() is None:
        print("skipped: nothing that runs models (pip install ./python, or make build/bench/networks)\n"
              "0 passed, 0 failed, 1 skipped")
        sys.exit(0)


def ran(path, rows):
    """y of a file for these rows."""
    made = bm.open(path).run({"x": rows}) if RUNS else networks_runner.run(path, {"x": rows}, {"y": rows.shape})
    return made["y"]


def hf_names(tensors, number=0, part="mlp", each=False):
    """The same with the names of transformers."""
    layer = f"model.layers.{number}"
    made = {f"{layer}.{part}.gate.weight": tensors["ffn_gate_inp.weight"],
            f"{layer}.post_attention_layernorm.weight": tensors["ffn_norm.weight"]}
    names = dict(zip(("gate", "up", "down"), ("w1", "w3", "w2") if each == "w" else
                     ("gate_proj", "up_proj", "down_proj")))
    if each:
        made.update({f"{layer}.{part}.experts.{e}.{names[w]}.weight": tensors[f"ffn_{w}_exps.weight"][e]
                     for w in names for e in range(EXPERTS)})
        return made
    gates = np.concatenate([tensors["ffn_gate_exps.weight"], tensors["ffn_up_exps.weight"]], 1)
    return {**made, f"{layer}.{part}.experts.gate_up_proj": gates,
            f"{layer}.{part}.experts.down_proj": tensors["ffn_down_exps.weight"]}


CONFIG = {"num_experts_per_tok": K, "norm_topk_prob": True, "rms_norm_eps": 1e-5}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu_gate(gate, up):
    return gate * sigmoid(gate) * up


def feed(x, gate, up, down, act=silu_gate, biases=(0, 0, 0)):
    return act(x @ gate.T + biases[0], x @ up.T + biases[1]) @ down.T + biases[2]


def expert_of(t, e):
    """gate, up, down of an expert and their biases, as the file's tensors say."""
    scale = lambda w: t[f"ffn_{w}_exps.scale"][e] if f"ffn_{w}_exps.scale" in t else 1.0
    bias = lambda w: t[f"ffn_{w}_exps.bias"][e] if f"ffn_{w}_exps.bias" in t else 0.0
    each = ("gate", "up", "down")
    return [t[f"ffn_{w}_exps.weight"][e] * scale(w) for w in each], [bias(w) for w in each]


def reference(x, tensors, gating="softmax", normalise=True, scale=1.0, bare=False, act=silu_gate, residual=1.0,
              choice=0):
    """What the layer makes of rows x, and the experts of each row, the best first. choice: what is added to shares
    where experts are chosen."""
    t = {name: a.astype(np.float64) for name, a in tensors.items()}
    x = x.astype(np.float64)
    norm = t.get("ffn_norm.weight", t.get("post_attention_norm.weight"))
    rows = x if bare else x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * norm
    scores = rows @ t["ffn_gate_inp.weight"].T + t.get("ffn_gate_inp.bias", 0.0)
    shares = sigmoid(scores) if gating == "sigmoid" else np.exp(scores) / np.exp(scores).sum(-1, keepdims=True)
    best = np.argsort(-(shares + choice), axis=-1, kind="stable")[:, :K]
    y = np.zeros_like(x)
    for n, experts in enumerate(best):
        total = shares[n, experts].sum() if normalise else 1.0
        for e in experts:
            weights, biases = expert_of(t, e)
            y[n] += shares[n, e] / total * feed(rows[n], *weights, act, biases)
    y *= scale
    if "ffn_gate_shexp.weight" in t:
        gate = t.get("ffn_gate_inp_shexp.weight")
        share = 1.0 if gate is None else sigmoid(rows @ gate.reshape(-1, 1))
        y += share * feed(rows, *(t[f"ffn_{w}_shexp.weight"] for w in ("gate", "up", "down")))
    y *= residual
    return (y if bare else x + y), best
