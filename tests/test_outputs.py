# tags: needs:gguf,numpy
"""test_outputs.py: files that Python's commands write are never files that they read, under whatever name, and are the
old ones or the whole new ones; what has no size is refused and not waited for.

Owns: its files; one network of each importer that needs no more than NumPy and gguf (and of ONNX, where that is there).
Relies on: python/brainstorm/outputs.py, files_rig.py. Must never wait for a pipe: a command that does is
ended, and counts as wrong.
"""

import os
import sys
import tempfile

from files_rig import OLD, content, names, put, ran
from model_rig import end, report  # first: it finds python/

import gguf
import numpy as np
from brainstorm import Graph
from brainstorm.outputs import Beside, WrongFile, check, write_all

def refuses(read, written):
    try:
        check(read, written)
        return None
    except WrongFile as why:
        return str(why)


def test_check():
    put("a"), put("b")
    os.symlink("a", "link"), os.link("a", "hard"), os.symlink("gone", "dangling"), os.mkdir("folder")
    os.mkfifo("pipe")
    rows = (("itself", ["a"], ["a"], "same file"), ("a link", ["a"], ["link"], "same file"),
            ("a link that is read", ["link"], ["a"], "same file"), ("a hard link", ["b", "a"], ["hard"], "same file"),
            ("a detour", ["a"], ["folder/../a"], "same file"),
            ("the whole way", ["a"], [os.path.abspath("a")], "same file"),
            ("two outputs", [], ["b", "./b"], "written too"),
            ("two that are not there", [], ["c", "folder/../c"], "written too"),
            ("a link to nothing", [], ["gone", "dangling"], "written too"),
            ("a pipe", ["pipe"], [], "size is not known"), ("a device", ["/dev/zero"], [], "size is not known"),
            ("a folder", [], ["folder"], "a folder"), ("no such folder", [], ["none/c"], "folder"))
    for name, read, written, says in rows:
        text = refuses(read, written)
        report(f"refused: {name}", text and says in text, text)
    fine = (([], []), (["a"], ["b"]), (["a", "link", "hard"], ["b", None]), (["none"], ["a"]),
            (["folder"], ["b"]), ([None], ["/dev/null", "/dev/null"]), ([], ["pipe"]))
    wrong = [(read, written, refuses(read, written)) for read, written in fine if refuses(read, written)]
    report("files that differ are taken", not wrong, wrong)
    for name in ("link", "hard", "dangling", "pipe", "a", "b"):
        os.unlink(name)
    os.rmdir("folder")


def test_beside():
    """Kept, not kept, failed; where there was a file, a link, none, a device."""
    put("old")
    os.chmod("old", 0o640)
    os.symlink("old", "link")
    for name in ("old", "link", "new"):
        before = names()
        with Beside(name) as new:
            put(new.path, b"half")
            report(f"{name}: it is beside it", os.path.dirname(new.path) == os.path.realpath("."), new.path)
        try:
            with Beside(name) as new:
                put(new.path, b"half")
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            pass
        report("what is not kept goes", names() == before and content("old") == OLD, names())
    with Beside("link") as new:
        put(new.path, b"new")
        new.keep()
    with Beside("new") as new:
        put(new.path, b"new")
        new.keep()
    report("what is kept is there",
           content("old") == content("new") == b"new" and names() == ["link", "new", "old"], names())
    report("a link stays a link, rights stay", os.path.islink("link") and os.stat("old").st_mode & 0o777 == 0o640, "")
    mask = os.umask(0)
    os.umask(mask)
    mode = os.stat("new").st_mode & 0o777
    report("a new one has the rights of any", mode == 0o666 & ~mask, oct(mode))
    with Beside("/dev/null") as new:
        put(new.path)
        new.keep()
    report("a device is written to", new.path == "/dev/null" and not os.path.isfile("/dev/null"), new.path)
    for name in names():
        os.unlink(name)


# --- the commands ---------------------------------------------------------------------------------------------------


def start(*words, limit=None):
    return ran([sys.executable, "-m", *words], limit)


def make_mixture(path="moe.gguf", layers=1):
    experts, hidden, width = 4, 6, 8
    inner, outer = (experts, hidden, width), (experts, width, hidden)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint32("llama.expert_count", experts)
    writer.add_uint32("llama.expert_used_count", 2)
    for name, shape in {"ffn_norm": (width,), "ffn_gate_inp": (experts, width), "ffn_gate_exps": inner,
                        "ffn_up_exps": inner, "ffn_down_exps": outer}.items():
        for layer in range(layers):
            writer.add_tensor(f"blk.{layer}.{name}.weight", np.ones(shape, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_ncnn():
    with open("net.param", "w") as file:
        file.write("7767517\n2 2\nInput in 0 1 in 0=4 1=4 2=1\nConvolution c 1 1 in out 0=1 1=1 6=1\n")
    with open("net.bin", "wb") as file:
        file.write(np.array([0], np.int32).tobytes() + np.array([2], np.float32).tobytes())


def make_onnx():
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = numpy_helper.from_array(np.ones((3, 4), np.float32), "w")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
                              [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 4])], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(model, "net.onnx", save_as_external_data=True, location="net.data", size_threshold=0)
    np.savez("feed.npz", x=np.ones((2, 3), np.float32))


MIXTURE = ("brainstorm.mixtures", ["moe.gguf"], [], ["moe.gguf"])
NCNN = ("brainstorm.ncnn", ["net.param", "net.bin"], ["--no-compare"], ["net.param", "net.bin"])
ONNX = ("brainstorm", ["import", "net.onnx"], ["--no-check", "--feed", "feed.npz"],
        ["net.onnx", "net.data", "feed.npz"])


def test_importer(module, first, options, reads):
    good = start(module, *first, "out.gguf", *options)
    report(f"{module} {first[-1]}: taken", good[0] == 0 and os.path.isfile("out.gguf"), good[1])
    size = os.path.getsize("out.gguf") if good[0] == 0 else 0
    for read in reads:
        kept, wrong = content(read), []
        os.symlink(read, "link.gguf"), os.link(read, "hard.gguf")
        for out in (read, "link.gguf", "hard.gguf"):
            status, text = start(module, *first, out, *options)
            if status != 1 or "the same file" not in text or content(read) != kept:
                wrong.append(f"{out}: {status} {text}")
        os.unlink("link.gguf"), os.unlink("hard.gguf")
        report(f"... {read} is not written over", not wrong, wrong)
    put("out.gguf")
    before, wrong = names(), []
    for limit in (0, 100, size - 1):
        status, text = start(module, *first, "out.gguf", *options, limit=limit)
        if status != 1 or "Traceback" in text or names() != before or content("out.gguf") != OLD:
            wrong.append(f"{limit}: {status} {text} {names()}")
    report("... a full disk leaves the old file, and nothing else", not wrong, wrong)
    os.unlink("out.gguf")
    os.mkfifo("pipe" + os.path.splitext(first[-1])[1])
    pipe = [word for word in names() if word.startswith("pipe")][0]
    status, text = start(module, *first[:-1], pipe, "out.gguf", *options)
    report("... a pipe is refused", status == 1 and "size is not known" in text and "Traceback" not in text, text)
    os.unlink(pipe)


def test_layers():
    """Of several files all are there, or none: the last one may be that which finds no room."""
    make_mixture("three.gguf", layers=3)
    names_of = [f"o.layer{n}.gguf" for n in range(3)]
    before = names()
    status, text = start("brainstorm.mixtures", "three.gguf", "o.gguf")
    report("a file for each layer", status == 0 and names() == sorted([*before, *names_of]), text)
    for name in names_of:
        os.unlink(name)
    os.mkdir("o.layer2.gguf")
    status, text = start("brainstorm.mixtures", "three.gguf", "o.gguf")
    report("where one cannot be, none is", status == 1 and names() == sorted([*before, "o.layer2.gguf"]), text)
    os.rmdir("o.layer2.gguf")
    os.link("three.gguf", "o.layer1.gguf")
    kept = content("three.gguf")
    status, text = start("brainstorm.mixtures", "three.gguf", "o.gguf")
    report("nor where one is what is read", status == 1 and "the same file" in text and
           content("three.gguf") == kept and names() == sorted([*before, "o.layer1.gguf"]), text)
    os.unlink("o.layer1.gguf"), os.unlink("three.gguf")

    def fails(path):
        put(path, b"half")
        raise OSError("no room")

    try:
        write_all({"a": put, "b": fails})
    except OSError:
        pass
    report("what was whole does not take its name alone", not os.path.exists("a") and not os.path.exists("b"), names())
    write_all({"a": put, "b": put})
    report("all do", content("a") == content("b") == OLD, names())
    os.unlink("a"), os.unlink("b")


def main():
    place = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python")
    os.environ.update(PYTHONPATH=place, PYTHONDONTWRITEBYTECODE="1")
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        test_check()
        test_beside()
        make_mixture()
        make_ncnn()
        test_importer(*MIXTURE)
        test_layers()
        test_importer(*NCNN)
        try:
            make_onnx()
        except ImportError as missing:
            print(f"left out: {missing}")
        else:
            test_importer(*ONNX)
        put("out.gguf")
        os.chmod("out.gguf", 0o600)
        g = Graph("one")
        g.output("y", g.affine(g.input("x", "f32", [2]), 2.0, 0.0))
        g.write("out.gguf")
        report("a graph is written whole, with the rights of before", content("out.gguf")[:4] == b"GGUF" and
               os.stat("out.gguf").st_mode & 0o777 == 0o600, names())
        os.chdir("/")
    return end()


sys.exit(main())
