"""What a layer computes by what its authors published, in NumPy: for comparing what was imported with it.

Owns: the formulas, written after llama.cpp's graphs (build_moe_ffn and one graph an architecture) and transformers'
modules. Reads the file's arrays and keys by itself, by their names, and shares nothing with rules.py, layer.py and
build.py: what those misread must differ here. Experts in f32, all else in f64.
"""

import numpy as np

LIMIT, SLOPE = 7.0, 1.702  # gpt-oss


class Answer:
    """added: what the layer adds to its rows. margin: of each row, how far in scores the last chosen expert lies before
    the first one that is not. reached: whether an expert was chosen at all."""

    def __init__(self, added, margin, reached):
        self.added, self.margin, self.reached = added, margin, reached


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def silu(gate, up):
    return gate * sigmoid(gate) * up


def relu(gate, up):
    return np.maximum(gate, 0) * up


def gelu(gate, up):
    from math import erf

    return gate / 2 * (1 + np.vectorize(erf, otypes=[gate.dtype])(gate / np.sqrt(2))) * up


def swiglu_oai(gate, up):
    gate, up = np.minimum(gate, LIMIT), np.clip(up, -LIMIT, LIMIT)
    return gate * sigmoid(gate * SLOPE) * (up + 1)


def rms(x, weight, epsilon):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * np.asarray(weight, np.float64)


def feed_forward(h, weights, act, biases=(0, 0, 0)):
    """weights, biases: of gate, up, down."""
    gate, up, down = (np.asarray(w, np.float32) for w in weights)
    gate_bias, up_bias, down_bias = (np.asarray(b, np.float32) for b in biases)
    h = h.astype(np.float32)
    return (act(h @ gate.T + gate_bias, h @ up.T + up_bias) @ down.T + down_bias).astype(np.float64)


def margin_of(scores, best, k):
    if k == scores.shape[1]:
        return np.full(len(scores), np.inf)
    ranked = np.take_along_axis(scores, best, -1)
    return (ranked[:, k - 1] - ranked[:, k]) / (1 + np.abs(ranked[:, k]))


def moe(h, scores, k, gating, normalise, scale, expert, correction=None):
    """scores: of the router. expert: function of rows and an expert's number. correction: of shares, where it is
    decided which experts are taken."""
    shares = sigmoid(scores) if gating == "sigmoid" else softmax(scores)
    wanted = scores if correction is None else shares + np.asarray(correction, np.float64)
    best = np.argsort(-wanted, -1, kind="stable")
    chosen = best[:, :k]
    weights = np.take_along_axis(shares, chosen, -1)
    if gating == "softmax of the chosen":
        weights = softmax(np.take_along_axis(scores, chosen, -1))
    elif normalise:
        weights = weights / weights.sum(-1, keepdims=True)
    y, reached = np.zeros_like(h), np.zeros(scores.shape[1], bool)
    for e in np.unique(chosen):
        rows, at = np.nonzero(chosen == e)
        y[rows] += scale * weights[rows, at, None] * expert(h[rows], e)
        reached[e] = True
    return Answer(y, margin_of(wanted, best, k), reached)


# ---- llama.cpp


class _Gguf:
    """Arrays and keys of a layer while its graph is written down. normalise: what was asked for, or None."""

    def __init__(self, source, number, normalise):
        self.source, self.blk, self.asked = source, f"blk.{number}", normalise

    def array(self, name):
        return self.source.tensor(f"{self.blk}.{name}")

    def key(self, name, default):
        value = self.source.value(f"{self.source.arch}.{name}")
        return default if value is None else value

    def norm(self, x, name, bare):
        weight = self.array(f"{name}.weight")
        return x if bare or weight is None else rms(x, weight, self.key("attention.layer_norm_rms_epsilon", 1e-5))

    def weights(self, what):
        """gate, up, down of experts: functions of the expert's number."""
        if self.array("ffn_gate_up_exps.weight") is not None and what != "down":
            both = self.array("ffn_gate_up_exps.weight")
            half = both.shape[1] // 2
            return lambda e: both[e, :half] if what == "gate" else both[e, half:]
        weight, scale = self.array(f"ffn_{what}_exps.weight"), self.array(f"ffn_{what}_exps.scale")
        return lambda e: weight[e] if scale is None else np.asarray(weight[e], np.float32) * scale[e]

    def moe(self, h, normalise, gating="softmax", act=silu, correct=False):
        by_number = {1: "softmax", 2: "sigmoid", 3: "softmax of the chosen"}
        gating = by_number[self.key("expert_gating_func", 0)] if self.key("expert_gating_func", 0) else gating
        normalise = self.key("expert_weights_norm", normalise) if self.asked is None else self.asked
        bias = self.array("ffn_gate_inp.bias")
        scores = h @ self.array("ffn_gate_inp.weight").astype(np.float64).T + (0 if bias is None else bias)
        of = [self.weights(what) for what in ("gate", "up", "down")]
        biases = [self.array(f"ffn_{what}_exps.bias") for what in ("gate", "up", "down")]
        return moe(h, scores, self.key("expert_used_count", 0), gating, normalise,
                   self.key("expert_weights_scale", 0) or 1,
                   lambda rows, e: feed_forward(rows, [w(e) for w in of], act,
                                                [0 if b is None else b[e] for b in biases]),
                   self.array("exp_probs_b.bias") if correct else None)

    def shared(self, h):
        weights = [self.array(f"ffn_{what}_shexp.weight") for what in ("gate", "up", "down")]
        return 0 if weights[0] is None else feed_forward(h, weights, silu)

    def shared_gate(self, h):
        return sigmoid(h @ np.asarray(self.array("ffn_gate_inp_shexp.weight"), np.float64).reshape(-1, 1))


def _plain(normalise, norm="ffn_norm", **how):
    """An expert of all rows, where there is one, has the share 1."""
    def graph(m, x, bare):
        h = m.norm(x, norm, bare)
        answer = m.moe(h, normalise, **how)
        answer.added = answer.added + m.shared(h)
        return answer
    return graph


def _gated(normalise, norm):
    def graph(m, x, bare):
        h = m.norm(x, norm, bare)
        answer = m.moe(h, normalise)
        answer.added = answer.added + m.shared(h) * m.shared_gate(h)
        return answer
    return graph


def _granite(m, x, bare):
    answer = _plain(True)(m, x, bare)
    answer.added = answer.added * (m.key("residual_scale", 0) or 1)
    return answer


_TRUE, _FALSE, _KEY, _BEHIND = _plain(True), _plain(False), _plain(None), "post_attention_norm"
GRAPHS = {
    "llama": _TRUE, "llama-embed": _TRUE, "phimoe": _TRUE, "qwen3moe": _TRUE, "qwen3vlmoe": _TRUE, "rnd1": _TRUE,
    "hunyuan-moe": _TRUE, **dict.fromkeys(("ernie4_5-moe", "lfm2moe", "minimax-m2"), _plain(True, correct=True)),
    "jamba": _FALSE, "llada-moe": _FALSE, "olmoe": _FALSE, "deepseek": _FALSE,
    "bailingmoe": _KEY, **dict.fromkeys(("deepseek2", "dots1"), _plain(None, correct=True)),
    "glm4moe": _plain(None, _BEHIND, correct=True),
    "granitemoe": _granite, "granitehybrid": _granite,
    "qwen2moe": _gated(False, "ffn_norm"), "qwen3next": _gated(True, _BEHIND), "qwen35moe": _gated(True, _BEHIND),
    "gpt-oss": _plain(False, _BEHIND, gating="softmax of the chosen", act=swiglu_oai),
}


def of_gguf(source, number, architecture, normalise):
    """The function of a layer: rows f64 [n, d] and whether it is bare -> Answer. normalise: what was asked for, or
    None."""
    return lambda x, bare: GRAPHS[architecture](_Gguf(source, number, normalise), x, bare)


# ---- transformers

HIDDEN_ACTS = {"silu": silu, "swish": silu, "gelu": gelu, "relu": relu}
SIGMOIDS = ("deepseek_v3", "dots1", "glm4_moe", "minimax_m2")
PARTS = ("mlp", "block_sparse_moe", "feed_forward")


class _Arrays:
    def __init__(self, arrays, layer, config):
        self.arrays, self.layer, self.config = arrays, layer, config
        self.part = next(f"{layer}.{part}" for part in PARTS if any(
            f"{layer}.{part}.{router}.weight" in arrays for router in ("gate", "router")))
        both = f"{self.part}.experts.gate_up_proj"  # read once, for all experts
        self.gate_up = np.asarray(arrays[both]) if both in arrays else None
        self.down = None if self.gate_up is None else np.asarray(arrays[f"{self.part}.experts.down_proj"])

    def get(self, *names):
        """The first array of these names, as f32; or None."""
        return next((np.asarray(self.arrays[name], np.float32) for name in names if name in self.arrays), None)

    def expert(self, e):
        if self.gate_up is not None:
            return *np.split(self.gate_up[e], 2), self.down[e]
        one = f"{self.part}.experts.{e}."
        return [self.get(f"{one}{name}.weight", f"{one}{old}.weight")
                for name, old in (("gate_proj", "w1"), ("up_proj", "w3"), ("down_proj", "w2"))]

    def shared(self, h, act):
        for name in ("shared_expert", "shared_experts"):
            weights = [self.get(f"{self.part}.{name}.{w}_proj.weight") for w in ("gate", "up", "down")]
            if weights[0] is not None:
                gate = self.get(f"{self.part}.shared_expert_gate.weight")
                share = 1 if gate is None else sigmoid(h @ gate.astype(np.float64).T)
                return share * feed_forward(h, weights, act)
        return 0


def of_arrays(arrays, layer, config, normalise):
    """The same of arrays. layer: the prefix of its names, "model.layers.3"."""
    def graph(x, bare):
        summed = config.get("norm_topk_prob") if normalise is None else normalise
        kind = config.get("model_type")
        summed = kind in ("mixtral", "minimax_m2") if summed is None else summed
        m = _Arrays(arrays, layer, config)
        act = HIDDEN_ACTS[config.get("hidden_act") or "silu"]
        norm = m.get(f"{layer}.post_attention_layernorm.weight")
        h = x if bare or norm is None else rms(x, norm, config.get("rms_norm_eps") or 1e-5)
        bias = m.get(f"{m.part}.gate.bias", f"{m.part}.router.bias")
        router = m.get(f"{m.part}.gate.weight", f"{m.part}.router.weight")
        k = next(config[name] for name in ("num_experts_per_tok", "top_k", "k") if config.get(name) is not None)
        factor = config.get("routed_scaling_factor")
        answer = moe(h, h @ router.astype(np.float64).T + (0 if bias is None else bias), k,
                     config.get("scoring_func") or ("sigmoid" if kind in SIGMOIDS else "softmax"), summed,
                     1.0 if factor is None else factor, lambda rows, e: feed_forward(rows, m.expert(e), act),
                     m.get(f"{m.part}.gate.e_score_correction_bias", f"{m.part}.e_score_correction_bias"))
        answer.added = answer.added + m.shared(h, act)
        return answer
    return graph
