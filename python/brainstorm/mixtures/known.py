"""What of a file does not change a layer of experts, and is passed over for that reason; all else that the importer did
not read is refused by name.

Owns: the lists of names. A name that is on no list and that no reader asked for may mean anything: a scale, a bias,
another function. Must never pass over what it does not know; --ignore NAME is the owner's word for it.
"""

import re

import numpy as np

from .layer import Refused

# Tensors of a layer that work before its experts: attention, and what stands in its place.
GGUF_TENSORS = re.compile(r"(attn_(?!output_norm)|ssm_|shortconv\.|indexer\.|rope_).*")
ARRAYS = re.compile(r"(self_attn|linear_attn|attention|input_layernorm)\..*")

# What changes arrays of other names, wherever it stands.
ADAPTERS = re.compile(r".*[._]lora_(a|b|A|B|embedding_A|embedding_B|magnitude_vector)(\..*)?")

# Keys of an architecture: what else there is in the model, and sizes that tensors have anyway.
GGUF_KEYS = re.compile(
    r"attention\.(?!layer_norm_epsilon|group_norm).*|(rope|ssm|shortconv|kda|wkv|classifier)\..*"
    r"|vocab_size|context_length|block_count|feed_forward_length|expert_feed_forward_length"
    r"|expert_shared_feed_forward_length|leading_dense_block_count|interleave_moe_layer_step|moe_every_n_layers"
    r"|nextn_predict_layers|pooling_type|tensor_data_layout|n_deepstack_layers|full_attention_interval"
    r"|embedding_scale|logit_scale|final_logit_softcapping|attn_logit_softcapping")
CONFIG = re.compile(
    r"_.*|architectures|auto_map|transformers_version|torch_dtype|dtype|use_cache|tie_word_embeddings"
    r"|initializer_range|\w+_token_ids?|vocab_size|pretraining_tp|id2label|label2id|problem_type"
    r"|output_(attentions|hidden_states|router_logits)|return_dict|use_return_dict"
    r"|(attention|attn|rope|qk)_\w+|num_attention_heads|num_key_value_heads|head_dim|v_head_dim|q_lora_rank"
    r"|kv_lora_rank|partial_rotary_factor|sliding_window|use_sliding_window|max_window_layers|layer_types"
    r"|max_position_embeddings|use_qk_norm|clip_qkv|num_hidden_layers|intermediate_size|moe_intermediate_size"
    r"|shared_expert_intermediate_size|decoder_sparse_step|mlp_only_layers|first_k_dense_replace|moe_layer_freq"
    r"|num_nextn_predict_layers|embedding_multiplier|logits_scaling|final_logit_softcapping"
    # these work in training only
    r"|router_aux_loss_coef|router_z_loss_\w+|aux_loss_alpha|seq_aux|router_jitter_noise|input_jitter_noise"
    r"|\w+_dropout|\w+_pdrop")

# With one of these values a key says what is so without it.
NEUTRAL = {"residual_scale": (0, 1), "expert_group_count": (0, 1), "expert_group_used_count": (0, 1),
           "use_parallel_residual": (False,), "swin_norm": (False,), "router_logit_softcapping": (0,),
           "swiglu_clamp_exp": (0,), "swiglu_clamp_shexp": (0,), "activation_sparsity_scale": (0,),
           "expert_shared_count": (0,), "moe_latent_size": (0,),
           "residual_multiplier": (1,), "n_group": (0, 1), "topk_group": (0, 1),
           "mlp_bias": (False,), "n_shared_experts": (0,), "num_shared_experts": (0,)}


def neutral(name, value):
    """Whether a key changes nothing. Of None the default is meant, which rules.py knows."""
    if value is None:
        return True
    wanted = NEUTRAL.get(name, ())
    try:
        return bool(wanted) and all(any(v == w for w in wanted) for v in np.ravel(value).tolist())
    except ValueError:  # a list of lists of different lengths
        return False


def refuse_unread(path, what, names, read, passed, ignored=()):
    """Fails with the names that are neither read nor passed over. passed: function of a name."""
    left = sorted(name for name in names if name not in read and name not in ignored and not passed(name))
    if left:
        more = f" and {len(left) - 4} more" if len(left) > 4 else ""
        raise Refused(f"{path}: {what} {', '.join(left[:4])}{more}: not known or not supported here, and what the "
                      f"experts compute may depend on it (--ignore {left[0]}, where it does not)")
