# tags: uses:bench/products,bench/networks needs:gguf,numpy,onnx
"""test_mixtures_compare.py: an import of mixtures ends by comparing; what differs is not kept and does not end with 0,
whatever the fault; numbers that cannot tell are said, and others are tried.

Relies on mixtures_rig.py; faults are planted into the importer. Must never leave a file behind.
"""

import contextlib
import io
import os
import re
import sys
from unittest import mock

from mixtures_rig import (  # first: it finds python/
    CONFIG, D, EXPERTS, F, hf_names, needs_to_run, path_of, report, weights, write_gguf)

import numpy as np
from brainstorm import session
from brainstorm.mixtures import (
    __main__, build, compare, from_arrays, from_gguf, mixture_graph, published, read_arrays, rules)
from model_rig import end

OUT, KEPT = path_of("out.gguf"), b"what was there"
needs_to_run()


def importing(path, *words):
    """Status, text, and what is at OUT, where there was something before; no other file may stay."""
    before = set(os.listdir(path_of("")))
    with open(OUT, "wb") as file:
        file.write(KEPT)
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = __main__.main([path, OUT, *words])
    left = set(os.listdir(path_of(""))) - before - {"out.gguf"}
    with open(OUT, "rb") as file:
        return status, said.getvalue(), file.read(), left


def file_of(tensors, arch="llama", keys=None, layers=(0,)):
    return write_gguf(path_of("other.gguf"), {n: tensors for n in layers}, arch, keys)


def agrees(name, path, *words, tells=True):
    status, said, made, left = importing(path, *words)
    found = re.search(r"[\d.e+-]+ of the largest", said)
    report(f"{name}: is kept", status == 0 and made != KEPT and not left and bool(found), said)
    report(f"{name}: {'tells' if tells else 'says that it cannot tell'}", ("says nothing" not in said) == tells, said)
    return said


def differs(name, fault, path, *words):
    with fault:
        status, said, made, left = importing(path, *words)
    report(f"differs: {name}", status == 1 and made == KEPT and not left and "not kept" in said,
           f"status {status}, {left} left: {said}")


def changed(module, name, change):
    """module.name gives what `change` makes of it."""
    return mock.patch.object(module, name, change(getattr(module, name)))


def of_mixture(**fields):
    """A fault of the reader: fields of the mixture are others. Functions are called with the mixture's own."""
    def change(make):
        def made(*words, **how):
            mixture = make(*words, **how)
            for field, value in fields.items():
                setattr(mixture, field, value(getattr(mixture, field)) if callable(value) else value)
            return mixture
        return made
    return change


def faults():
    plain, shared = file_of(weights(1)), weights(2, shared=True)
    reader = lambda **fields: changed(from_gguf, "Mixture", of_mixture(**fields))
    for name, fields in {"shares that are not made to sum to 1": {"normalise": False},
                         "a sigmoid": {"gating": "sigmoid"},
                         "one expert less": {"k": 1}, "one expert more": {"k": 3}, "no norm": {"norm": None},
                         "a scale": {"scale": 1.01}, "a factor of what is added": {"residual": 0.99},
                         "another activation": {"act": "gelu"}, "another epsilon": {"epsilon": 1e-4},
                         "a bias": {"router_bias": np.linspace(0, 1, EXPERTS).astype(np.float32)},
                         "one expert's weights": {"down": lambda a: np.concatenate([a[:1] * 1.05, a[1:]])},
                         "experts in another order": {"up": lambda a: a[::-1]},
                         "weights with less bits": {"gate": lambda a: np.round(a, 1)}}.items():
        differs(name, reader(**fields), plain)
    corrected = {**weights(1), "exp_probs_b.bias": np.linspace(-1, 1, EXPERTS).astype(np.float32)}
    keys = {"expert_gating_func": ("uint32", 2)}
    for name, bias in (("left out", None), ("of others", np.linspace(1, -1, EXPERTS).astype(np.float32))):
        differs(f"a bias of the choice, {name}", reader(choice_bias=bias), file_of(corrected, "minimax-m2", keys))
    differs("a norm that is left out of the residual", reader(residual=lambda r: r * 2), plain)
    differs("another activation, bare", reader(act="relu"), plain, "--bare")
    differs("a shared expert that is left out", reader(shared={}), file_of(shared, "qwen2moe"))
    differs("a shared expert without its share", changed(build, "_shared", lambda make: lambda g, rows, name, m: (
        m.shared.pop("router", None), make(g, rows, name, m))[1]), file_of(shared, "qwen2moe"))
    differs("gates for ups", changed(from_gguf, "_experts", lambda make: lambda *w: (
        lambda gate, up, down: (up, gate, down))(*make(*w))), file_of(weights(1)))
    differs("a table that is wrong", mock.patch.dict(rules.GGUF, {"qwen2moe": rules.Rule(True, shared="gated")}),
            file_of(shared, "qwen2moe"))
    differs("one layer of a chain", changed(from_gguf, "Mixture", of_mixture(scale=lambda s: s * 1.02)),
            file_of(weights(3), layers=(0, 1, 5)), "--chain")
    differs("one of several files", changed(build, "_times", lambda times: lambda g, x, f: times(g, x, f * 1.01)),
            file_of(weights(3), layers=(0, 1)), "--layers", "1")


def several_files():
    """All stay away when one differs."""
    path = file_of(weights(4), layers=(0, 1))
    wrong = lambda make: lambda number, *words, **how: of_mixture(scale=1.0 if number == 0 else 2.0)(make)(
        number, *words, **how)
    differs("the second of two files", changed(from_gguf, "Mixture", wrong), path)


def not_compared():
    path = file_of(weights(1))
    with changed(from_gguf, "Mixture", of_mixture(scale=2.0)):
        for words in (["--no-compare"], ["--tolerance", "9"]):
            status, said, made, _ = importing(path, *words)
            report(f"{words[0]} keeps it", status == 0 and made != KEPT, said)
    with mock.patch.object(session, "used", lambda _: contextlib.nullcontext()):
        status, said, made, _ = importing(path)
        report("without what runs models it says so", status == 0 and "not compared" in said, said)


def numbers():
    """What is fed can tell, or says that it cannot."""
    agrees("plain", file_of(weights(1)))
    agrees("one row a run", file_of(weights(1)), "--rows", "1")
    agrees("bare", file_of(weights(1)), "--bare")
    agrees("a bias of the choice", file_of({**weights(1), "exp_probs_b.bias": np.linspace(-1, 1, EXPERTS).astype(
        np.float32)}, "minimax-m2", {"expert_gating_func": ("uint32", 2)}))
    zero = {name: a * (0 if "down" in name else 1) for name, a in weights(5).items()}
    said = agrees("downs of zero", file_of(zero), tells=False)
    report("downs of zero: others are tried", said.count("cannot tell") >= 3, said)
    agrees("gates of zero", file_of({**weights(5), "ffn_gate_exps.weight": np.zeros((EXPERTS, F, D), np.float32)}),
           tells=False)
    alike = {**weights(6), "ffn_gate_inp.weight": np.zeros((EXPERTS, D), np.float32)}
    agrees("a router of zeros decides nothing", file_of(alike), tells=False)
    hopeless = {name: a * np.float32(1e-9 if "down" in name else 1) for name, a in weights(7).items()}
    agrees("downs of 1e-9, which f32 loses", file_of(hopeless), tells=False)
    for factor in (1e-3, 1e-4, 1e4):
        little = {name: a * np.float32(factor if "down" in name else 1) for name, a in weights(7).items()}
        said = agrees(f"downs of {factor:g}", file_of(little))
        report(f"downs of {factor:g}: {'others are tried' if factor < 1 else 'need no others'}",
               ("add too little" in said) == (factor < 1), said)
        differs(f"downs of {factor:g}, and a fault", changed(from_gguf, "Mixture", of_mixture(act="relu")),
                file_of(little))
    said = agrees("all experts are reached", file_of({**weights(8), "ffn_gate_inp.weight": weights(8)[
        "ffn_gate_inp.weight"] * np.float32(0.05)}))
    report("all experts are reached: it is said", f"{EXPERTS} of {EXPERTS} experts" in said, said)


def architectures():
    """Each that is known has a published rule, and agrees with it: with all tensors that its rule reads."""
    report("the same architectures are known and published", set(rules.GGUF) == set(published.GRAPHS),
           str(set(rules.GGUF) ^ set(published.GRAPHS)))
    random = np.random.default_rng(3)
    some = lambda *shape: random.standard_normal(shape).astype(np.float32)
    for arch, rule in rules.GGUF.items():
        tensors = weights(10, shared=bool(rule.shared), bias=True)
        tensors[f"{rule.norm}.weight"] = tensors.pop("ffn_norm.weight")
        if rule.shared == "plain":
            del tensors["ffn_gate_inp_shexp.weight"]
        if rule.choice:
            tensors["exp_probs_b.bias"] = some(EXPERTS)
        if rule.biases:
            tensors.update({f"ffn_{w}_exps.bias": some(EXPERTS, D if w == "down" else F) for w in
                            ("gate", "up", "down")})
        keys = {"expert_gating_func": ("uint32", 2)} if rule.gating is None else {}
        keys.update({"expert_weights_norm": ("bool", True)} if rule.normalise is None else {})
        keys.update({"residual_scale": ("float32", 0.22)} if rule.residual else {})
        agrees(arch, file_of(tensors, arch, keys))


def arrays():
    """The same of transformers' names: read, then compared."""
    for name, change, config in (("plain", {}, {}), ("a scale", {"scale": 1.01}, {}),
                                 ("an epsilon", {"epsilon": 3e-5}, {}),
                                 ("sigmoid", {"gating": "softmax"}, {"scoring_func": "sigmoid"}),
                                 ("GELU", {"act": "silu"}, {"hidden_act": "gelu"}),
                                 ("shares", {"normalise": True}, {"norm_topk_prob": False})):
        with changed(from_arrays, "Mixture", of_mixture(**change)):
            mixtures = read_arrays(hf_names(weights(9)), {**CONFIG, **config})
        mixture_graph(mixtures).write(path_of("arrays.gguf"))
        with session.used(compare.Refused) as runs:
            found = compare.compare(runs, path_of("arrays.gguf"), mixtures, 64)
        report(f"arrays, {name}: {'agrees' if not change else 'differs'}",
               (found.relative < compare.TOLERANCE) == (not change), str(found))


faults()
several_files()
not_compared()
numbers()
architectures()
arrays()
sys.exit(end())
