# tags: needs:gguf,numpy,safetensors
"""test_mixtures_files.py: files of mixtures that are wrong, cut off or hostile are refused in words, and nothing is
written; whatever is accepted, the library opens.

Relies on mixtures_rig.py, $BUILD/brainstorm. Must never leave a file behind. What they compute: test_mixtures.py.
"""

import contextlib
import io
import json
import os
import struct
import sys

from mixtures_rig import EXPERTS, D, F, path_of, report, weights, write_gguf  # first: it finds python/

import numpy as np
from brainstorm.mixtures import __main__, mixture_graph, read_arrays, read_gguf
from model_rig import brainstorm, end

GOOD = weights(1)
OUT = path_of("out.gguf")
random = np.random.default_rng(8)


def importing(path, *words):
    """Status and text of the program, and whether files came of it."""
    for name in os.listdir(os.path.dirname(OUT)):
        if name.startswith("out"):
            os.remove(path_of(name))
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = __main__.main([path, OUT, *words])
    return status, said.getvalue(), any(name.startswith("out") for name in os.listdir(os.path.dirname(OUT)))


def refused(name, path, *expected, words=()):
    status, said, written = importing(path, *words)
    report(f"refused: {name}", status == 1 and not written and all(word in said for word in expected),
           f"status {status}, written {written}, expected {expected}: {said}")


def wrong(name, *expected, tensors=None, keys=None, words=(), **how):
    path = write_gguf(path_of("bad.gguf"), {0: GOOD if tensors is None else tensors}, keys=keys, **how)
    refused(name, path, *expected, words=words)


def but(name, array):
    """The good tensors with another one; None: without."""
    changed = {**GOOD, name: array}
    return changed if array is not None else {key: a for key, a in GOOD.items() if key != name}


def contents():
    for name in ("ffn_gate_exps.weight", "ffn_up_exps.weight", "ffn_down_exps.weight"):
        wrong(f"without {name}", f"blk.0.{name}", tensors=but(name, None))
    wrong("without a router", "no layers with experts", tensors=but("ffn_gate_inp.weight", None))
    for name, shape in (("ffn_gate_exps.weight", (EXPERTS, F, D + 1)), ("ffn_up_exps.weight", (EXPERTS, F + 1, D)),
                        ("ffn_down_exps.weight", (EXPERTS - 1, D, F)), ("ffn_norm.weight", (D + 1,)),
                        ("ffn_gate_exps.weight", (F, D)), ("ffn_gate_inp.weight", (D,))):
        wrong(f"{name} of the shape {shape}", "layer 0" if len(shape) != 1 or shape[0] != D else "",
              tensors=but(name, np.ones(shape, np.float32)))
    wrong("biases of experts", "ffn_up_exps.bias", tensors=but("ffn_up_exps.bias", np.ones((EXPERTS, F), np.float32)))
    wrong("a bias of choices", "exp_probs_b", tensors=but("exp_probs_b.bias", np.ones(EXPERTS, np.float32)))
    wrong("weights that are not finite", "finite",
          tensors=but("ffn_up_exps.weight", GOOD["ffn_up_exps.weight"] * np.nan))
    wrong("half a shared expert", "shared", tensors=but("ffn_up_shexp.weight", np.ones((F, D), np.float32)))
    wrong("weights that are quantised", "ffn_down_exps.weight", "Q8_0", "--dequantise",
          quantised=("ffn_down_exps.weight",))


def keys():
    wrong("no number of chosen experts", "expert_used_count", keys={"expert_used_count": None})
    for k in (0, EXPERTS + 1, 2**31):
        wrong(f"{k} chosen experts", "experts", keys={"expert_used_count": ("uint32", k)})
    wrong("a number that is a text", "expert_used_count", "int", keys={"expert_used_count": ("string", "two")})
    wrong("a number that is an array", "expert_used_count", keys={"expert_used_count": ("array", [1, 2])})
    wrong("another number of experts", "expert_count", keys={"expert_count": ("uint32", EXPERTS + 1)})
    wrong("a gating nobody knows", "expert_gating_func", keys={"expert_gating_func": ("uint32", 9)})
    wrong("experts in groups", "groups", keys={"expert_group_count": ("uint32", 4)})
    wrong("an epsilon of NaN", "epsilon", keys={"attention.layer_norm_rms_epsilon": ("float32", float("nan"))})
    wrong("a scale of infinity", "scale", keys={"expert_weights_scale": ("float32", float("inf"))})
    wrong("shares of which nobody says whether they sum to 1", "expert_weights_norm", "--normalise", arch="deepseek2")
    status, said, written = importing(write_gguf(path_of("bad.gguf"), {0: GOOD}, arch="deepseek2"), "--normalise", "no")
    report("which --normalise says", status == 0 and written, said)


def words():
    path = write_gguf(path_of("good.gguf"), {0: GOOD, 3: weights(2)})
    refused("a layer without experts", path, "layer 1", words=("--layers", "0-3"))
    for text in ("3-0", "a", "0,", "-1", "0-99999999", "0-999999"):
        refused(f"layers {text}", path, "--layers", words=(f"--layers={text}",))
    for rows in ("0", "-1", str(2**31)):
        refused(f"{rows} rows", path, "--rows", words=(f"--rows={rows}",))
    refused("a file that is not there", path_of("nothing.gguf"), "nothing.gguf")
    os.makedirs(path_of("empty"))
    refused("a folder without files", path_of("empty"), "no .safetensors")


def heads():
    """Heads that say more than there is: the gguf package would read for ever, or ask for all memory."""
    with open(write_gguf(path_of("good.gguf"), {0: GOOD}), "rb") as file:
        good = file.read()
    many = struct.pack("<Q", 2**60)
    text = lambda words: struct.pack("<Q", len(words)) + words
    head = lambda tensors, count, rest: b"GGUF" + struct.pack("<IQQ", 3, tensors, count) + rest
    cases = {"nothing": b"", "another magic": b"GGML" + good[4:], "version 9": good[:4] + b"\x09" + good[5:],
             "2^60 tensors": good[:8] + many + good[16:], "2^60 keys": good[:16] + many + good[24:],
             "a key's name of 2^60 bytes": head(0, 1, many),
             "a text of 2^60 bytes": head(0, 1, text(b"a") + struct.pack("<I", 8) + many),
             "an array of 2^60 numbers": head(0, 1, text(b"a") + struct.pack("<II", 9, 4) + many),
             "an array of 2^24 texts": head(0, 1, text(b"a") + struct.pack("<IIQ", 9, 8, 2**24)),
             "an array of arrays": head(0, 1, text(b"a") + struct.pack("<IIQ", 9, 9, 4)),
             "a key of type 99": head(0, 1, text(b"a") + struct.pack("<I", 99)),
             "a tensor of 2^60 elements": head(1, 0, text(b"t") + struct.pack("<IQIQ", 1, 2**60, 0, 0)),
             "a tensor of 2^31 dimensions": head(1, 0, text(b"t") + struct.pack("<I", 2**31))}
    for cut in (3, 7, 20, 40, 200, 700, len(good) // 2, len(good) - 1):
        cases[f"the first {cut} bytes"] = good[:cut]
    for name, data in cases.items():
        with open(path_of("bad.gguf"), "wb") as file:
            file.write(data)
        refused(name, path_of("bad.gguf"), "bad.gguf")
    damaged(good)


def by_hand(dims, types=None, used=2):
    """A GGUF file whose tensors have the dimensions (innermost first) and types that are given: {name: dims}."""
    text = lambda words: struct.pack("<Q", len(words)) + words.encode()
    head = b"GGUF" + struct.pack("<IQQ", 3, len(dims), 2)
    head += text("general.architecture") + struct.pack("<I", 8) + text("llama")
    head += text("llama.expert_used_count") + struct.pack("<II", 4, used)
    data = b""
    for name, d in dims.items():
        kind = (types or {}).get(name, 0)
        head += text(f"blk.0.{name}.weight") + struct.pack(f"<I{len(d)}QIQ", len(d), *d, kind, len(data))
        data += random.standard_normal(max(8, int(np.prod(d)))).astype("<f4").tobytes()
        data += bytes(-len(data) % 32)
    with open(path_of("bad.gguf"), "wb") as file:
        file.write(head + bytes(-len(head) % 32) + data)
    return path_of("bad.gguf")


def ranks():
    """Any rank, any extent and any type of any tensor of a layer: a message, never a traceback."""
    good = {"ffn_gate_inp": (8, 4), "ffn_norm": (8,), "ffn_gate_exps": (8, 6, 4), "ffn_up_exps": (8, 6, 4),
            "ffn_down_exps": (6, 8, 4)}
    status, said, written = importing(by_hand(good), "--no-compare")
    report("by hand it is a mixture", status == 0 and written, said)
    for name, dims in good.items():
        for wrong_dims in ((), (8,), (8, 4), (4, 8), (8, 6, 4), (8, 6, 4, 1), (1, 8, 6, 4), (0,), (0, 4), (8, 0, 4),
                           (1,)):
            if wrong_dims != dims:
                refused(f"{name} of dimensions {wrong_dims}", by_hand({**good, name: wrong_dims}), "bad.gguf")
        for kind in (2, 8, 14, 16, 24, 26, 28, 30, 39, 77):
            path = by_hand({**good, name: dims}, {name: kind})
            for words in ((), ("--dequantise",)):
                status, said, written = importing(path, "--no-compare", *words)
                report(f"{name} of type {kind} {words} is read, or refused",
                       (status == 0) == written and (status == 0 or "bad.gguf" in said), f"{status}: {said}")
    both = {name: d for name, d in good.items() if name not in ("ffn_gate_exps", "ffn_up_exps")}
    for d in ((), (8,), (8, 12), (8, 11, 4), (8, 12, 4, 1), (12, 8, 4)):
        refused(f"gates and ups of dimensions {d}", by_hand({**both, "ffn_gate_up_exps": d}), "bad.gguf")
    wrong("scales of rank 0", "ffn_up_exps.scale", tensors=but("ffn_up_exps.scale", np.ones((EXPERTS, 1), np.float32)))
    wrong("a router's bias of rank 2", "router_bias",
          tensors=but("ffn_gate_inp.bias", np.ones((1, EXPERTS), np.float32)))
    for count in (0, 5, 2**31):
        refused(f"{count} experts of a row", by_hand(good, used=count), "experts")


def pipes():
    """What is no file is refused at once; nobody ever writes to this pipe."""
    os.mkfifo(path_of("pipe.gguf"))
    os.mkfifo(path_of("pipe.safetensors"))
    for name in ("pipe.gguf", "pipe.safetensors"):
        refused(f"{name}", path_of(name), name, "a file", "pipe")
    refused("a device", "/dev/null", "a file", "pipe")
    os.makedirs(path_of("piped"))
    os.mkfifo(path_of("piped/a.safetensors"))
    refused("a pipe in a folder", path_of("piped"), "a.safetensors", "a file", "pipe")
    os.remove(path_of("piped/a.safetensors"))
    with open(path_of("piped/a.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", 2) + b"{}")
    os.mkfifo(path_of("piped/config.json"))
    refused("a configuration that is a pipe", path_of("piped"), "config.json", "a file", "pipe")


def damaged(good):
    """Of files with random damage in their heads either none comes, for a ValueError, or one that the library opens."""
    faults, accepted = [], 0
    for _ in range(300):
        data = bytearray(good)
        for at in random.integers(0, 1200, 1 + random.integers(2)):
            data[at] = random.integers(256)
        with open(path_of("bad.gguf"), "wb") as file:
            file.write(data)
        try:
            mixture_graph(read_gguf(path_of("bad.gguf"))).write(OUT)
        except ValueError:
            continue
        except Exception as error:
            faults.append(repr(error))
            continue
        accepted += 1
        status, said = brainstorm("inspect", OUT)
        faults += [] if status == 0 else [said]
    report("damage is refused, or gives a file that opens", not faults, "\n".join(faults[:4]))
    report("some damage does no harm", 0 < accepted < 300, f"{accepted} accepted")


CONFIG = {"num_experts_per_tok": 2, "norm_topk_prob": True}


def arrays():
    good = {"l.0.mlp.gate.weight": np.ones((4, 8), np.float32),
            "l.0.mlp.experts.gate_up_proj": np.ones((4, 6, 8), np.float32),
            "l.0.mlp.experts.down_proj": np.ones((4, 8, 3), np.float32)}
    good_shape = lambda name, shape: {**good, f"l.0.mlp.experts.{name}": np.ones(shape, np.float32)}
    cases = {"no arrays": ({}, CONFIG, "no layers"),
             "no down_proj": ({k: a for k, a in good.items() if "down" not in k}, CONFIG, "down_proj"),
             "an odd gate_up_proj": (good_shape("gate_up_proj", (4, 5, 8)), CONFIG, "gate_up_proj"),
             "gates and downs that do not fit": (good_shape("down_proj", (4, 8, 4)), CONFIG, "down"),
             "experts that are transposed": (good_shape("gate_up_proj", (4, 8, 6)), CONFIG, "gate"),
             "biases": (good_shape("down_proj_bias", (4, 8)), CONFIG, "down_proj_bias"),
             "no number of experts": (good, {"norm_topk_prob": True}, "num_experts_per_tok"),
             "a number that is a text": (good, {**CONFIG, "num_experts_per_tok": "2"}, "num_experts_per_tok"),
             "a huge epsilon": (good, {**CONFIG, "rms_norm_eps": 10**400}, "rms_norm_eps"),
             "groups": (good, {**CONFIG, "n_group": 8}, "groups"),
             "no word on shares": (good, {"num_experts_per_tok": 2}, "norm_topk_prob"),
             "a function nobody knows": (good, {**CONFIG, "scoring_func": "cosine"}, "cosine")}
    for name, (those, config, expected) in cases.items():
        try:
            mixture_graph(read_arrays(those, config))
            report(f"refused: arrays, {name}", False, "not refused")
        except ValueError as error:
            report(f"refused: arrays, {name}", expected in str(error), str(error))


def safetensors():
    try:
        import safetensors  # noqa: F401
    except ImportError:
        print("skipped: .safetensors files (pip install safetensors)")
        return
    folder = path_of("folder")
    os.makedirs(folder)
    head = lambda entry: (lambda text: struct.pack("<Q", len(text)) + text)(json.dumps(entry).encode())
    cases = {"nothing": b"", "a head of 2^60 bytes": struct.pack("<Q", 2**60) + b"{}",
             "no JSON": struct.pack("<Q", 4) + b"[[[[",
             "an array beyond the file": head({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}),
             "a negative shape": head({"a": {"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]}}) + bytes(16)}
    for name, data in cases.items():
        with open(os.path.join(folder, "a.safetensors"), "wb") as file:
            file.write(data)
        for config in ("{", "[]", json.dumps(CONFIG)):
            with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
                file.write(config)
            refused(f"safetensors, {name}, with the configuration {config[:9]}", folder, "folder")
    one = {"dtype": "I64", "shape": [2, 2], "data_offsets": [0, 32]}
    with open(os.path.join(folder, "a.safetensors"), "wb") as file:
        file.write(head({"l.0.mlp.gate.weight": one}) + bytes(32))
    refused("safetensors, whole numbers", folder, "I64")


contents()
keys()
words()
heads()
ranks()
pipes()
arrays()
safetensors()
sys.exit(end())
