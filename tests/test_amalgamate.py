#!/usr/bin/env python3
# tags: plain
"""test_amalgamate.py - what tools/amalgamate.py promises, on small trees of its own: order, refusals, differences.

Prints what failed and `N passed, N failed`; `make check` calls it too. Must never: read or write the repository's
sources.
"""

import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
from amalgamate import (ORDER, PUBLIC_HEADER, REPLAY_HEADER, Backend, Library, Refused, begin, comment, differences,
                        end, outputs)

HEADER = "#define BS_VERSION_MAJOR 1\n#define BS_VERSION_MINOR 2\n#define BS_VERSION_PATCH 3\n"


def sample(changes):
    """A small tree that is in order, with files of `changes` in place of its own (None: without them)."""
    files = {
        PUBLIC_HEADER: HEADER,
        REPLAY_HEADER: '#include "brainstorm.h"\nint bs_replay(void);\n',
        ORDER: "# bottom to top\na.h\ntemplate lanes.inc\nx/b.c\nc.c  # the top\n",
        "src/a.h": '#include "brainstorm.h"\n#include <math.h>\nint a(void);\n',
        "src/lanes.inc": "int NAME(void) { return 1; }\n",
        "src/x/b.c": '#include "../a.h"\n#define NAME b1\n#include "lanes.inc"\n#undef NAME\n'
                     '#define NAME b2\n#  include "../lanes.inc" /* again */\n',
        "src/c.c": '#include "a.h"\n#include <string.h>\nint c;\n',
        "src/cuda/cuda.cu": '#include "cuda/one.cuh"\n#include "two.cuh"\n',
        "src/cuda/one.cuh": '#ifdef BS_CUDA_CPU\n#include "cuda_cpu.h"\n#endif\n#include <cuda_runtime.h>\n'
                            'extern "C" {\n'
                            '#include "a.h"\n}\nint one;\n',
        "src/cuda/two.cuh": '#include "cuda/one.cuh"\n#include "../a.h"\nint two;\n',
    }
    files.update(changes)
    return {name: text for name, text in files.items() if text is not None}


class Sample:
    """Files of `sample` in a folder that lasts as long as the `with`."""

    def __init__(self, changes={}):
        self.files = sample(changes)

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory()
        for name, text in self.files.items():
            self.put(name, text)
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def put(self, name, text):
        path = os.path.join(self.folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(text)

    def text(self, generator=Library):
        return generator(self.folder.name).generate()


def refuses(words, changes, generator=Library):
    with Sample(changes) as tree:
        try:
            tree.text(generator)
        except Refused as refusal:
            assert words in str(refusal), "refused, but with: %s" % refusal
            return
    raise AssertionError("was not refused")


def test_parts_in_order_each_once():
    with Sample() as tree:
        text = tree.text()
    places = [text.index(begin(name)) for name in ("a.h", "x/b.c", "c.c")]
    assert places == sorted(places)
    assert text.count("int a(void);") == 1, "a header that two parts include stands once"
    assert text.count('#include "') == 1 + text.count('/* #include "')
    assert text.index('#include "brainstorm.h"') < places[0]


def test_replay_header_is_put_in():
    with Sample({"src/a.h": '#include "brainstorm.h"\n#include "brainstorm_replay.h"\nint bs_a(void);\n'}) as tree:
        for generator in (Library, Backend):
            text = tree.text(generator)
            assert text.count("int bs_replay(void);") == 1 and "BS_INTERNAL int bs_replay" not in text
            assert text.index("int bs_replay(void);") < text.index(begin("a.h"))
            assert comment(REPLAY_HEADER) in text and '\n#include "%s"' % REPLAY_HEADER not in text
        old = tree.text()
        tree.put(REPLAY_HEADER, "int bs_replay(int);\n")
        assert differences(old, tree.text(), "brainstorm.c") == ["brainstorm_replay.h: differs"]
    refuses("brainstorm_replay.h: no such file", {REPLAY_HEADER: None})


def test_marked_parts_between_their_macros():
    marked = "a.h\ntemplate lanes.inc\nonce x/b.c\nc.c\n"
    with Sample({ORDER: marked}) as tree:
        text = tree.text()
    part = text[text.index(begin("x/b.c")):text.index(end("x/b.c"))].splitlines()
    assert part[1] == "BS_EFFORT_ONCE" and part[-1] == "BS_EFFORT_END"
    assert text.count("BS_EFFORT") == 2, "a part without a mark has none"


def test_templates_at_every_inclusion():
    with Sample() as tree:
        text = tree.text()
    assert text.count("int NAME(void)") == 2
    assert text.index("NAME b1") < text.index("int NAME") < text.index("NAME b2") < text.rindex("int NAME")


def test_system_headers_stay():
    with Sample() as tree:
        text = tree.text()
    assert text.index(begin("c.c")) < text.index("#include <string.h>") < text.index("int c;")


def test_unknown_includes_refused():
    refuses('src/c.c:1: "other.h" is not listed', {"src/c.c": '#include "other.h"\n'})
    refuses("src/c.c:2: <stdlib.h>", {"src/c.c": "int c;\n#include <stdlib.h>\n"})
    refuses("src/c.c:1: cannot tell", {"src/c.c": "#include MACRO\n"})


def test_missing_file_refused():
    refuses("src/c.c: no such file", {"src/c.c": None})
    refuses("src/ORDER: no such file", {ORDER: None})


def test_unlisted_file_refused():
    refuses("src/d.c is not listed", {"src/d.c": "int d;\n"})
    with Sample() as tree:
        tree.put("src/cuda/d.c", "int d;\n")
        tree.text()


def test_files_that_no_line_names():
    listed = {ORDER: "a.h\ntemplate lanes.inc\nonce x/*.c\nx/b.c\nc.c\n", "src/x/e.c": "int e;\n",
              "src/x/d.c": "int d;\n"}
    with Sample(listed) as tree:
        text = tree.text()
    places = [text.index(begin(name)) for name in ("x/d.c", "x/e.c", "x/b.c", "c.c")]
    assert places == sorted(places)
    assert text.count("BS_EFFORT_ONCE") == 2, "b.c has a line of its own"
    refuses("src/ORDER: y/*.c is no file", {ORDER: "a.h\ny/*.c\n"})


def test_wrong_lists_refused():
    refuses("listed twice", {ORDER: "a.h\na.h\n"})
    refuses("lists later", {ORDER: "template lanes.inc\nx/b.c\na.h\nc.c\n"})
    refuses("expected", {ORDER: "a.h b.h\n"})
    refuses("nothing includes", {"src/x/b.c": None, ORDER: "a.h\ntemplate lanes.inc\nc.c\n"})
    refuses("includes itself", {"src/lanes.inc": '#include "lanes.inc"\n'})


def test_private_names_must_differ():
    refuses("src/c.c: a static one is in src/x/b.c too", {
        "src/x/b.c": '#include "../lanes.inc"\nstatic int one(void) { return 1; }\n',
        "src/c.c": "static int one(void);\nstatic const int *one(void) { return 0; }\n"})


def test_what_only_the_library_uses_is_internal():
    header = ("int bs_one(void);\nconst char *bs_two(int n,\n  int m);\n"
              "static inline int bs_three(void) { return 3; }\n"
              "typedef int bs_four(void);\nint bs_five(void); /* bs_one() */\n")
    with Sample({"src/a.h": header, "src/cuda/two.cuh": '#include "../a.h"\nint two(void) { return bs_five(); }\n'
                 "/* bs_two() */\n"}) as tree:
        text, device = tree.text(), tree.text(Backend)
    for words in ("\nBS_INTERNAL int bs_one(void);", "\nBS_INTERNAL const char *bs_two(int n,", "\nint bs_five(void);",
                  "\nstatic inline int bs_three(", "\ntypedef int bs_four("):
        assert words in text, words
    assert "BS_INTERNAL" not in device
    assert text.index("#define BS_INTERNAL static") < text.index("BS_INTERNAL int")


def test_features_must_be_known():
    refuses("_GNU_SOURCE", {"src/c.c": "#define _GNU_SOURCE\n"})
    with Sample({"src/c.c": "#define _POSIX_C_SOURCE 200809L\n"}) as tree:
        text = tree.text()
    assert text.index("#define _POSIX_C_SOURCE") < text.index("#include")


def test_version_and_hash():
    with Sample() as tree:
        first = tree.text()
        tree.put("src/c.c", "int c;\n\n")
        second = tree.text()
    assert "1.2.3" in first and "BS_VERSION_PATCH != 3" in first
    assert first.splitlines()[2].startswith(" * sha256 of the parts: ")
    assert first.splitlines()[2] != second.splitlines()[2]


def test_check_names_the_part():
    with Sample() as tree:
        old = tree.text()
        tree.put("src/c.c", "int changed;\n")
        new = tree.text()
        assert differences(old, old, "brainstorm.c") == []
        assert differences(old, new, "brainstorm.c") == ["the top: differs", "src/c.c: differs"]  # the top has the hash
        assert "src/c.c: differs" in differences(old.replace("int c;", "int edited;"), old, "brainstorm.c")
        tree.put("src/d.c", "int d;\n")
        tree.put(ORDER, tree.files[ORDER] + "d.c\n")
        assert "src/d.c: missing in brainstorm.c" in differences(old, tree.text(), "brainstorm.c")
        assert "src/d.c: only in brainstorm.c" in differences(tree.text(), old, "brainstorm.c")


def test_backend_is_nested_each_once():
    with Sample() as tree:
        text = tree.text(Backend)
    places = [text.index(words) for words in (
        '#include "brainstorm.h"', begin("cuda/cuda.cu"), begin("cuda/one.cuh"), '#include "cuda_cpu.h"',
        "#include <cuda_runtime.h>", 'extern "C" {', begin("a.h"), "int a(void);", end("a.h"), "int one;",
        begin("cuda/two.cuh"), comment("cuda/one.cuh"), comment("a.h"), "int two;", end("cuda/cuda.cu"))]
    assert places == sorted(places)
    assert text.count("int a(void);") == 1 and text.count("int one;") == 1
    assert text.startswith("/* brainstorm_cuda.cu - 1.2.3.") and "_POSIX_C_SOURCE" not in text


def test_backend_refuses():
    refuses('src/cuda/cuda.cu:1: "no.cuh" is not in src/', {"src/cuda/cuda.cu": '#include "no.cuh"\n'}, Backend)
    refuses("src/cuda/two.cuh:1: <vector>", {"src/cuda/two.cuh": "#include <vector>\n"}, Backend)
    refuses("src/cuda/three.cuh: nothing", {"src/cuda/three.cuh": "int three;\n"}, Backend)
    refuses("src/c.c:1: <cuda_runtime.h>", {"src/c.c": "#include <cuda_runtime.h>\n"})
    refuses("src/cuda/cuda.cu: no such file", {"src/cuda/cuda.cu": None}, Backend)


def test_backend_check_names_the_part():
    with Sample() as tree:
        old = tree.text(Backend)
        tree.put("src/a.h", "int changed;\n")
        new = tree.text(Backend)
        assert differences(old, old, Backend.output) == []
        assert differences(old, new, Backend.output) == ["the top: differs", "src/a.h: differs"]
        assert [output for output, _ in outputs(tree.folder.name)] == ["brainstorm.c", "brainstorm_cuda.cu"]


def main():
    passed = failed = 0
    for name, test in sorted(globals().items()):
        if not name.startswith("test_"):
            continue
        try:
            test()
            passed += 1
        except (AssertionError, Refused) as problem:
            failed += 1
            print("%s: %s" % (name, problem or "failed"))
    print("%d passed, %d failed" % (passed, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
