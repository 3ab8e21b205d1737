# tags: uses:bench/products,bench/networks needs:gguf,numpy
"""test_mixtures_rules.py: whatever a file says of its experts is computed, or refused by its name; nothing is left out
in silence. What cannot matter to them is passed over.

Relies on mixtures_rig.py. Must never leave a file behind. What plain mixtures compute: test_mixtures.py.
"""

import sys

from mixtures_rig import (  # first: it finds python/
    CONFIG, D, EXPERTS, F, hf_names, needs_to_run, path_of, ran, reference, report, sigmoid, weights, write_gguf)

import numpy as np
from brainstorm.mixtures import mixture_graph, read_arrays, read_gguf
from model_rig import end

random = np.random.default_rng(17)
x = random.standard_normal((9, D)).astype(np.float32)
PLAIN = weights(1)
needs_to_run()


def some(*shape):
    return random.standard_normal(shape).astype(np.float32)


def result(mixtures, **how):
    mixture_graph(mixtures, **how).write(path_of("made.gguf"))
    return ran(path_of("made.gguf"), x)


def apart(y, wanted):
    return np.abs(y - wanted).max() / np.abs(wanted).max()


def computed(name, wanted, read, **how):
    try:
        far = apart(result(read(), **how), wanted)
        report(f"computed: {name}", far < 1e-5, f"{far} of the largest apart")
    except ValueError as error:
        report(f"computed: {name}", False, str(error))


def refused(name, read, *expected):
    try:
        read()
        report(f"refused: {name}", False, "not refused")
    except ValueError as error:
        report(f"refused: {name}", all(word in str(error) for word in expected), str(error))


def gguf(tensors=PLAIN, keys=None, arch="llama", others=None, **options):
    path = write_gguf(path_of("other.gguf"), {0: tensors}, arch, keys, others=others)
    return lambda: read_gguf(path, **options)


def arrays(more=None, config=None, tensors=PLAIN, each=False, part="mlp", **options):
    there = {**hf_names(tensors, part=part, each=each), **(more or {})}
    return lambda: read_arrays(there, {**CONFIG, **(config or {})}, **options)


# ---- what files say, and the layer computes


def factors():
    for value, factor in ((0.22, 0.22), (1.5, 1.5), (-0.5, -0.5), (0.0, 1.0), (1.0, 1.0)):
        computed(f"granite's residual_scale {value}", reference(x, PLAIN, residual=factor)[0],
                 gguf(keys={"residual_scale": ("float32", value)}, arch="granitemoe"))
    both = {**weights(2, shared=True)}
    del both["ffn_gate_inp_shexp.weight"]
    keys = {"residual_scale": ("float32", 0.3), "expert_shared_count": ("uint32", 1)}
    computed("a residual_scale of what a shared expert adds, too", reference(x, both, residual=0.3)[0],
             gguf(both, keys, "granitehybrid"))
    bare = reference(x, PLAIN, bare=True, residual=0.3)[0]
    computed("a residual_scale where nothing is added", bare,
             gguf(keys={"residual_scale": ("float32", 0.3)}, arch="granitemoe"), bare=True)
    scales = {f"ffn_{w}_exps.scale": 1 + abs(some(EXPERTS)) for w in ("gate", "up", "down")}
    for names in (scales, list(scales)[:1], list(scales)[1:2], list(scales)[2:]):
        tensors = {**PLAIN, **{name: scales[name] for name in names}}
        computed(f"scales of experts: {', '.join(names)}", reference(x, tensors)[0], gguf(tensors, arch="qwen3moe"))
    halves = {**{name: a.astype(np.float16) if a.ndim == 3 else a for name, a in PLAIN.items()}, **scales}
    computed("scales of f16 experts, in f32", reference(x, halves)[0], gguf(halves, arch="qwen3moe"))


def oai(gate, up):
    gate, up = np.minimum(gate, 7), np.clip(up, -7, 7)
    return gate * sigmoid(1.702 * gate) * (up + 1)


def gpt_oss():
    tensors = {**weights(3, bias=True), **{f"ffn_{w}_exps.bias": some(EXPERTS, F) for w in ("gate", "up")},
               "ffn_down_exps.bias": some(EXPERTS, D)}
    tensors["post_attention_norm.weight"] = tensors.pop("ffn_norm.weight")
    for name, factor in (("", 1), (", beyond its limit", 20)):
        tensors["ffn_up_exps.weight"] = tensors["ffn_up_exps.weight"] * factor
        tensors["ffn_gate_exps.weight"] = tensors["ffn_gate_exps.weight"] * factor
        computed(f"gpt-oss: its activation and biases{name}", reference(x, tensors, act=oai)[0],
                 gguf(tensors, arch="gpt-oss"))


def choices():
    """Biases that change which experts are chosen, and not their shares."""
    bias = 2 * some(EXPERTS)
    corrected = {**PLAIN, "exp_probs_b.bias": bias}
    sigmoids, norm = {"expert_gating_func": ("uint32", 2)}, lambda yes: {"expert_weights_norm": ("bool", yes)}
    for arch in ("deepseek2", "dots1"):
        for yes in (True, False):
            scaled = {**sigmoids, **norm(yes), "expert_weights_scale": ("float32", 2.5)}
            computed(f"{arch}: a correction of the choice, normalised: {yes}", reference(
                x, PLAIN, "sigmoid", yes, 2.5, choice=bias)[0], gguf(corrected, scaled, arch))
    computed("minimax-m2: a correction of the choice", reference(x, PLAIN, "sigmoid", choice=bias)[0],
             gguf(corrected, sigmoids, "minimax-m2"))
    computed("ernie: a correction of a softmax", reference(x, PLAIN, choice=bias)[0],
             gguf(corrected, arch="ernie4_5-moe"))
    refused("a correction of two biases", gguf({**PLAIN, "exp_probs_b.bias": some(2)}, sigmoids, "minimax-m2"),
            "choice_bias")
    there = {"model.layers.0.mlp.gate.e_score_correction_bias": bias}
    wanted = reference(x, PLAIN, "sigmoid", choice=bias)[0]
    computed("arrays: a correction", wanted, arrays(there, {"scoring_func": "sigmoid"}))
    for kind in ("deepseek_v3", "dots1", "glm4_moe"):
        computed(f"arrays: {kind}", wanted, arrays(there, {"model_type": kind, "topk_method": "noaux_tc"}))
    own = {"model.layers.0.block_sparse_moe.e_score_correction_bias": bias}
    computed("arrays: minimax_m2", wanted, arrays(own, {"model_type": "minimax_m2", "norm_topk_prob": None}, each="w",
                                                  part="block_sparse_moe"))
    refused("arrays: a correction of what has none", arrays(there, {"model_type": "mixtral"}), "e_score_correction")
    refused("arrays: a correction that is missing", arrays(config={"topk_method": "noaux_tc"}), "e_score_correction")


def others():
    shared = weights(4, shared=True)
    computed("qwen2moe: a shared expert with a gate", reference(x, shared, normalise=False)[0],
             gguf(shared, {"expert_shared_count": ("uint32", 1)}, "qwen2moe"))
    behind = {**shared, "post_attention_norm.weight": shared["ffn_norm.weight"]}
    del behind["ffn_norm.weight"]
    computed("qwen3next: its norm has another name", reference(x, behind)[0], gguf(behind, arch="qwen3next"))
    computed("an architecture that --as names", reference(x, PLAIN, normalise=False)[0],
             gguf(arch="strange", like="olmoe"))
    computed("a tensor that --ignore names", reference(x, PLAIN)[0],
             gguf({**PLAIN, "ffn_norm.bias": some(D)}, ignored=["blk.0.ffn_norm.bias"]))


def of_arrays():
    gate = some(EXPERTS)
    computed("arrays: a router's bias", reference(x, {**PLAIN, "ffn_gate_inp.bias": gate})[0],
             arrays({"model.layers.0.mlp.gate.bias": gate}))
    computed("arrays: ReLU", reference(x, PLAIN, act=lambda g, u: np.maximum(g, 0) * u)[0],
             arrays(config={"hidden_act": "relu"}))
    gated = weights(5, shared=True)
    prefix = "model.layers.0.mlp.shared_expert"
    more = {f"{prefix}.{w}_proj.weight": gated[f"ffn_{w}_shexp.weight"] for w in ("gate", "up", "down")}
    own = {f"{prefix}_gate.weight": gated["ffn_gate_inp_shexp.weight"].reshape(1, D)}
    computed("arrays: a shared expert with a gate", reference(x, gated)[0],
             arrays({**more, **own}, {"model_type": "qwen2_moe"}, gated))
    plain = {name: a for name, a in gated.items() if name != "ffn_gate_inp_shexp.weight"}
    computed("arrays: a shared expert without one", reference(x, plain)[0],
             arrays({name.replace("expert.", "experts."): a for name, a in more.items()}, {"n_shared_experts": 1},
                    plain))
    refused("arrays: a shared expert without its gate", arrays(more, tensors=gated), "shared_expert_gate")
    refused("arrays: a shared expert that is missing", arrays(config={"n_shared_experts": 2}), "shared_experts")


# ---- what is refused


TENSORS = {
    "ffn_norm.bias": (D,), "ffn_gate_exps.input_scale": (EXPERTS,), "ffn_latent_down.weight": (F, D),
    "ffn_up.weight": (F, D), "post_ffw_norm.weight": (D,), "layer_output_norm.weight": (D,),
    "layer_output_scale.weight": (1,), "ffn_gate_inp.scale": (D,), "exp_probs_b.bias": (EXPERTS,),
    "ffn_up_chexps.weight": (EXPERTS, F, D), "attn_output_norm.weight": (D,), "ffn_norm_exps.weight": (D,),
    "ffn_down_exps.bias": (EXPERTS, D), "ffn_gate_exps.weight.lora_a": (EXPERTS, 4, D), "ffn_gate_tid2eid": (D, 2),
}
KEYS = {
    "residual_scale": ("float32", 0.22), "router_logit_softcapping": ("float32", 30.0),
    "swiglu_clamp_exp": ("array", [0.0, 7.0]), "expert_group_scale": ("float32", 2.0), "hidden_act": ("string", "gelu"),
    "activation_sparsity_scale": ("array", [0.5]), "use_parallel_residual": ("bool", True),
    "attention.layer_norm_epsilon": ("float32", 1e-5), "moe_latent_size": ("uint32", 8),
    "expert_weights_offset": ("float32", 1.0), "expert_shared_count": ("uint32", 1), "embedding_length": ("uint32", 9),
}


def refusals():
    for name, shape in TENSORS.items():
        refused(f"tensor {name}", gguf({**PLAIN, name: some(*shape)}), f"blk.0.{name}")
    for name, entry in KEYS.items():
        refused(f"key {name}", gguf(keys={name: entry}), f"llama.{name}")
    for arch in ("grok", "llama4", "gemma4", "arctic", "dbrx", "smallthinker", "nemotron_h_moe", "strange"):
        refused(f"the architecture {arch}", gguf(arch=arch, normalise=True), repr(arch), "--as")
    for kind in ("adapter", "mmproj", "imatrix"):
        refused(f"a file of type {kind}", gguf(others={"general.type": ("string", kind)}), kind)
    refused("an adapter's key", gguf(others={"adapter.lora.alpha": ("float32", 2.0)}), "adapter.lora.alpha")
    refused("scales of a wrong shape", gguf({**PLAIN, "ffn_up_exps.scale": some(EXPERTS + 1)}), "ffn_up_exps.scale")
    refused("no word on how experts are chosen", gguf(arch="dots1", normalise=True), "expert_gating_func")
    refused("a shared expert that is missing", gguf(keys={"expert_shared_count": ("uint32", 2)}, arch="hunyuan-moe"),
            "ffn_gate_shexp")
    refused("--ignore of what is not there", gguf(ignored=["blk.0.nothing"]), "blk.0.nothing")


ARRAYS = {
    "mlp.moe_statics.e_score_correction_bias": (EXPERTS,), "mlp.gate.expert_bias": (EXPERTS,),
    "mlp.experts.gate_up_proj_bias": (EXPERTS, 2 * F), "mlp.experts.gate_up_proj_scale": (EXPERTS,),
    "post_attention_layernorm.bias": (D,), "post_feedforward_layernorm.weight": (D,), "mlp.gate.wg.weight": (D,),
    "mlp.experts.7.gate_proj.weight": (F, D), "mlp.shared_mlp.up_proj.weight": (F, D), "layer_scalar": (1,),
    "mlp.experts.down_proj_weight_scale_inv": (EXPERTS,), "pre_feedforward_layernorm.weight": (D,),
}
CONFIGS = {
    "hidden_act": "gelu_pytorch_tanh", "residual_multiplier": 0.22, "scoring_func": "softplus", "swiglu_limit": 7.0,
    "model_type": "llama4", "topk_method": "noaux_tc", "n_group": 2, "mlp_bias": True, "quantization_config": {"a": 1},
    "router_logit_softcapping": 30.0, "num_experts": EXPERTS + 1, "hidden_size": D + 1, "moe_renormalize": False,
    "hidden_activation": "gelu", "norm_topk_prob": "yes", "routed_scaling_factor": "2",
}


def refused_arrays():
    for name, shape in ARRAYS.items():
        refused(f"array {name}", arrays({f"model.layers.0.{name}": some(*shape)}), f"model.layers.0.{name}")
    for name, value in CONFIGS.items():
        refused(f"configuration {name}={value}", arrays(config={name: value}),
                {"model_type": "llama4", "n_group": "groups", "scoring_func": "softplus"}.get(name, name))
    for name in ("base_model.model.model.layers.0.mlp.experts.0.gate_proj.lora_A.weight", "mlp.lora_B.default.weight"):
        refused(f"an adapter's {name}", arrays({name: some(4, D)}), name)
    refused("two routers of a layer", arrays({"draft.layers.0.mlp.gate.weight": some(EXPERTS, D)}), "draft.layers.0")
    refused("experts in both forms", arrays({"model.layers.0.mlp.experts.0.w1.weight": some(F, D)}), "experts.0", "w3")


def dtypes():
    """Ranks and types that arrays cannot have."""
    router, gate = "model.layers.0.mlp.gate.weight", "model.layers.0.mlp.experts.gate_up_proj"
    norm = "model.layers.0.post_attention_layernorm.weight"
    for name, array in ((router, np.float32(1)), (router, some(D)), (router, some(1, EXPERTS, D)),
                        (router, np.ones((EXPERTS, D), np.int32)), (router, np.ones((EXPERTS, D), complex)),
                        (router, np.full((EXPERTS, D), "a")), (gate, np.float32(1)), (gate, some(EXPERTS, 2 * F)),
                        (gate, some(0, 2 * F, D)), (gate, np.ones((EXPERTS, 2 * F, D), bool)), (norm, np.float32(1)),
                        (norm, some(1, D)), (norm, np.full(D, None)), (router, some(0, 0)),
                        (router, [[1.0], [1.0, 2.0]])):
        refused(f"{name.split('.', 3)[-1]} of shape {np.shape(array) if not isinstance(array, list) else 'ragged'}, "
                f"{np.asarray(array).dtype if not isinstance(array, list) else 'list'}",
                lambda: mixture_graph(arrays({name: array})()))


def passed_over():
    """What stands beside experts, and a whole model's keys."""
    keys = {"vocab_size": ("uint32", 9), "rope.freq_base": ("float32", 1e6), "attention.head_count": ("uint32", 2),
            "attention.scale": ("float32", 0.1), "logit_scale": ("float32", 3.0), "embedding_scale": ("float32", 2.0),
            "block_count": ("uint32", 1), "expert_group_count": ("uint32", 1), "router_logit_softcapping":
            ("float32", 0.0), "swiglu_clamp_exp": ("array", [0.0, 0.0]), "embedding_length": ("uint32", D)}
    tensors = {**PLAIN, "attn_q.weight": some(D, D), "attn_norm.weight": some(D), "attn_q.bias": some(D),
               "attn_sinks.weight": some(2)}
    names = {"general.name": ("string", "a"), "tokenizer.ggml.model": ("string", "gpt2"), "general.type":
             ("string", "model"), "tokenizer.ggml.eos_token_id": ("uint32", 1), "somebody.note": ("string", "b")}
    computed("a model's other keys and tensors", reference(x, PLAIN)[0], gguf(tensors, keys, others=names))
    config = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_act": "silu", "rope_theta":
              1e6, "num_experts": EXPERTS, "hidden_size": D, "vocab_size": 9, "bos_token_id": 1, "sliding_window": None,
              "tie_word_embeddings": False, "attention_bias": False, "torch_dtype": "bfloat16", "n_group": 1,
              "router_aux_loss_coef": 0.001, "use_cache": True, "rope_scaling": {"factor": 2.0}, "topk_group": 1,
              "decoder_sparse_step": 1, "mlp_only_layers": [], "transformers_version": "5.0", "head_dim": 8}
    more = {"model.layers.0.self_attn.q_proj.weight": some(D, D), "model.layers.0.input_layernorm.weight": some(D),
            "model.layers.1.mlp.up_proj.weight": some(F, D), "model.norm.weight": some(D), "lm_head.weight": some(9, D)}
    computed("arrays: a model's other words and arrays", reference(x, PLAIN)[0], arrays(more, config))


factors()
gpt_oss()
choices()
others()
of_arrays()
refusals()
refused_arrays()
dtypes()
passed_over()
sys.exit(end())
