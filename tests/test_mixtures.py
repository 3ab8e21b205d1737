# tags: uses:bench/products,bench/networks needs:gguf,numpy
"""test_mixtures.py: mixtures of experts of GGUF files and of Hugging Face's arrays compute what they do there, with the
same decisions, resident and streamed.

Relies on mixtures_rig.py; on what runs models (brainstorm.open), else bench/networks, which `make test` builds for it:
then decisions and streaming are not seen. Must never leave a file behind. What is refused: test_mixtures_files.py.
"""

import json
import sys

from mixtures_rig import (  # first: it finds python/
    CONFIG, D, EXPERTS, F, RUNS, halves, hf_names, needs_to_run, path_of, ran, reference, report, weights, write_gguf)

import numpy as np
import brainstorm as bm
from brainstorm.mixtures import __main__, mixture_graph, read_arrays, read_gguf, read_safetensors
from model_rig import end

ROWS = 40
x = np.random.default_rng(5).standard_normal((ROWS, D)).astype(np.float32)
needs_to_run()


def check(name, graph, wanted, best=None, router="layer0.route"):
    """Results, decisions, and that streaming changes no byte."""
    path = path_of("mixture.gguf")
    graph.write(path)
    y = ran(path, x)
    report(f"{name}: results", np.allclose(y, wanted, rtol=1e-5, atol=1e-5), f"{np.abs(y - wanted).max()} apart")
    if not RUNS or best is None:
        return
    model = bm.open(path)
    with model.plan().session() as session:
        session.run({"x": x})
        went = session.decision(router)
        counts = np.bincount(best.ravel(), minlength=EXPERTS)
        report(f"{name}: as many rows an expert", (went.counts == counts).all(), f"{went.counts} and {counts}")
    for slots in ("least", "half"):
        stream = model.plan(slots=2**40).stream
        plan = model.plan(slots=stream.least_bytes if slots == "least" else
                          max(stream.least_bytes, stream.all_bytes // 2))
        with plan.session() as session:
            streamed = [session.run({"x": x[:n]})["y"].tobytes() == y[:n].tobytes() for n in (ROWS, 1, 17, ROWS)]
            report(f"{name}: streamed with the {slots} bytes gives the same bytes", all(streamed), str(streamed))
            report(f"{name}: weights were read in runs, {slots}", session.stream_stats.bytes_read > 0,
                   str(session.stream_stats))


def of_gguf(name, tensors, keys=None, arch="llama", bare=False, quantised=(), dequantise=False, **how):
    path = write_gguf(path_of("other.gguf"), {0: tensors}, arch, keys, quantised)
    graph = mixture_graph(read_gguf(path, dequantise=dequantise), rows=ROWS, bare=bare)
    check(f"gguf, {name}", graph, *reference(x, tensors, bare=bare, **how))


def ggufs():
    no = {"expert_weights_norm": ("bool", False)}
    of_gguf("f32", weights(1))
    of_gguf("f16", halves(weights(2)))
    of_gguf("shares as they are", weights(3), no, normalise=False)
    of_gguf("sigmoid", weights(4), {"expert_gating_func": ("uint32", 2), **no}, gating="sigmoid", normalise=False)
    scaled = {"expert_weights_norm": ("bool", True), "expert_weights_scale": ("float32", 2.5)}
    of_gguf("sigmoid, normalised and scaled", weights(5), {"expert_gating_func": ("uint32", 2), **scaled},
            gating="sigmoid", scale=2.5)
    of_gguf("softmax of the chosen ones", weights(6), {"expert_gating_func": ("uint32", 3)})
    of_gguf("without norm and residual", weights(7), bare=True)
    of_gguf("an expert of all rows", weights(8, shared=True), arch="qwen2moe", normalise=False)
    of_gguf("a router with a bias", weights(9, bias=True))
    bias = np.linspace(-1, 1, EXPERTS).astype(np.float32)
    of_gguf("a bias of the choice", {**weights(12), "exp_probs_b.bias": bias}, {"expert_gating_func": ("uint32", 2)},
            arch="minimax-m2", gating="sigmoid", choice=bias)
    both = weights(10)
    one = {**both, "ffn_gate_up_exps.weight": np.concatenate([both["ffn_gate_exps.weight"],
                                                              both["ffn_up_exps.weight"]], 1)}
    del one["ffn_gate_exps.weight"], one["ffn_up_exps.weight"]
    path = write_gguf(path_of("other.gguf"), {0: one})
    check("gguf, gates and ups in one tensor", mixture_graph(read_gguf(path), rows=ROWS), *reference(x, both))


def quantised():
    import gguf

    tensors, kind = weights(11), gguf.GGMLQuantizationType.Q8_0
    names = [f"ffn_{w}_exps.weight" for w in ("down",)]
    path = write_gguf(path_of("other.gguf"), {0: tensors}, quantised=names)
    near = {**tensors, names[0]: gguf.dequantize(gguf.quantize(tensors[names[0]], kind), kind)}
    check("gguf, dequantised", mixture_graph(read_gguf(path, dequantise=True), rows=ROWS), *reference(x, near))


def layers():
    every = {n: weights(20 + n) for n in (1, 2, 4)}
    path = write_gguf(path_of("other.gguf"), every)
    y = x
    for n in (1, 2, 4):
        y, best = reference(y, every[n])
    check("layers that follow each other", mixture_graph(read_gguf(path), rows=ROWS), y, best, "layer4.route")
    check("one layer of several", mixture_graph(read_gguf(path, layers=[2]), rows=ROWS), *reference(x, every[2]),
          "layer2.route")
    status = __main__.main([path, path_of("parts.gguf"), "--layers", "1-2", "--rows", str(ROWS)])
    made = [np.allclose(ran(path_of(f"parts.layer{n}.gguf"), x), reference(x, every[n])[0], rtol=1e-5, atol=1e-5)
            for n in (1, 2)]
    report("the program writes a file a layer", status == 0 and all(made), f"{status} {made}")
    status = __main__.main([path, path_of("chain.gguf"), "--chain", "--rows", str(ROWS)])
    report("or one of all", status == 0 and np.allclose(ran(path_of("chain.gguf"), x), y, rtol=1e-5, atol=1e-5),
           str(status))


def arrays():
    tensors = weights(30)
    for name, how in (("3-D experts", {}), ("an array an expert", {"each": "proj"}),
                      ("w1, w2, w3", {"each": "w", "part": "block_sparse_moe"})):
        made = read_arrays(hf_names(tensors, **how), CONFIG)
        check(f"arrays, {name}", mixture_graph(made, rows=ROWS), *reference(x, tensors))
    config = {**CONFIG, "norm_topk_prob": False, "scoring_func": "sigmoid", "routed_scaling_factor": 1.5}
    check("arrays, sigmoid", mixture_graph(read_arrays(hf_names(tensors), config), rows=ROWS),
          *reference(x, tensors, "sigmoid", False, 1.5))


def safetensors():
    try:
        from safetensors.numpy import save_file
    except ImportError:
        print("skipped: .safetensors files (pip install safetensors)")
        return
    import os

    folder = path_of("folder")
    os.makedirs(folder)
    every = {n: halves(weights(40 + n)) for n in (0, 1)}
    for n, tensors in every.items():
        save_file({k: np.ascontiguousarray(a) for k, a in hf_names(tensors, n).items()},
                  os.path.join(folder, f"model-{n}.safetensors"))
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)
    check("safetensors, one layer of two files", mixture_graph(read_safetensors(folder, layers=[1]), rows=ROWS),
          *reference(x, every[1]), "layer1.route")
    status = __main__.main([folder, path_of("folder.gguf"), "--chain", "--rows", str(ROWS)])
    y = reference(reference(x, every[0])[0], every[1])[0]
    report("safetensors, by the program",
           status == 0 and np.allclose(ran(path_of("folder.gguf"), x), y, rtol=1e-5, atol=1e-5), str(status))
    bf16(folder)


def bf16(folder):
    """A file as others write it, since NumPy has no such type."""
    import os
    import struct

    cut = lambda a: (np.asarray(a, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    there = {name: cut(a) for name, a in hf_names(weights(50)).items()}
    head, at, data = {}, 0, b""
    for name, a in there.items():
        head[name] = {"dtype": "BF16", "shape": list(a.shape), "data_offsets": [at, at + a.nbytes]}
        at, data = at + a.nbytes, data + a.tobytes()
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    path = os.path.join(folder, "bf16.safetensors")
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    back = {name: (a.astype(np.uint32) << 16).view(np.float32) for name, a in there.items()}
    made = mixture_graph(read_safetensors(path, CONFIG), rows=ROWS)
    same = mixture_graph(read_arrays(back, CONFIG), rows=ROWS)
    made.write(path_of("a.gguf"))
    same.write(path_of("b.gguf"))
    report("safetensors, bf16 is read exactly", (ran(path_of("a.gguf"), x) == ran(path_of("b.gguf"), x)).all())


assert F % 32 == 0  # so Q8_0 wants it
ggufs()
quantised()
layers()
arrays()
safetensors()
sys.exit(end())
