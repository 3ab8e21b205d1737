"""What is known of each architecture: the part of a layer's rule that a file does not say.

One table for GGUF files (general.architecture, as llama.cpp's graphs compute it) and one for transformers (model_type).
What stands in neither is refused by name: an architecture that nobody looked at may differ in anything. published.py
has the same rules again, as formulas, to compare with. Must never guess.
"""

from dataclasses import dataclass
from typing import Optional

from .layer import Refused


@dataclass(frozen=True)
class Rule:
    normalise: Optional[bool] = None  # shares of the chosen experts sum to 1; None: the file must say it
    gating: Optional[str] = "softmax"  # where the file does not say it; None: it must
    norm: str = "ffn_norm"
    act: str = "silu"
    shared: str = ""                  # an expert of all rows: "plain", or "gated" by a sigmoid of its own; "" has none
    biases: bool = False              # of experts
    choice: bool = False              # a bias of the choice alone
    residual: bool = False            # what is added to x has a factor


_SUM_TO_1, _AS_THEY_ARE = Rule(True), Rule(False)
_BEHIND_ATTENTION = "post_attention_norm"
GGUF = {
    **dict.fromkeys(("llama", "llama-embed", "phimoe", "qwen3moe", "qwen3vlmoe", "rnd1"), _SUM_TO_1),
    **dict.fromkeys(("jamba", "llada-moe", "olmoe"), _AS_THEY_ARE),
    "qwen2moe": Rule(False, shared="gated"),
    "qwen3next": Rule(True, norm=_BEHIND_ATTENTION, shared="gated"),
    "qwen35moe": Rule(True, norm=_BEHIND_ATTENTION, shared="gated"),
    "ernie4_5-moe": Rule(True, shared="plain", choice=True), "hunyuan-moe": Rule(True, shared="plain"),
    "granitemoe": Rule(True, shared="plain", residual=True),
    "granitehybrid": Rule(True, shared="plain", residual=True),
    "deepseek": Rule(False, shared="plain"), "deepseek2": Rule(shared="plain", choice=True),
    "bailingmoe": Rule(shared="plain"), "dots1": Rule(gating=None, shared="plain", choice=True),
    "glm4moe": Rule(gating=None, norm=_BEHIND_ATTENTION, shared="plain", choice=True),
    "lfm2moe": Rule(True, gating=None, choice=True), "minimax-m2": Rule(True, gating=None, choice=True),
    "gpt-oss": Rule(gating="softmax of the chosen", norm=_BEHIND_ATTENTION, act="swiglu_oai", biases=True),
}
_CORRECTED = Rule(gating="sigmoid", choice=True)
HUGGING_FACE = {"mixtral": _SUM_TO_1, "qwen2_moe": Rule(), "qwen3_moe": Rule(), "olmoe": Rule(),
                "deepseek_v3": _CORRECTED, "dots1": _CORRECTED, "glm4_moe": _CORRECTED,
                "minimax_m2": Rule(True, gating="sigmoid", choice=True)}
ARRAYS = Rule(choice=True)  # without a model_type: all that has one meaning wherever it stands


def rule_of(path, rules, name):
    if name not in rules:
        raise Refused(f"{path}: the architecture {name!r} is not known, expected one of {', '.join(sorted(rules))} "
                      "(--as NAME, where its experts compute what those of NAME do)")
    return rules[name]
