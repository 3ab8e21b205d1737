#!/usr/bin/env python3
"""amalgamate.py - makes brainstorm.c, the one source file that users copy, out of the parts in src/.

    python3 tools/amalgamate.py               write brainstorm.c
    python3 tools/amalgamate.py --check       compare it with what src/ gives; name the parts that differ
    python3 tools/amalgamate.py --self-test   test this script

Owns the order of text and nothing else: src/ORDER lists every part, bottom to top, and this script puts
them one after the other. It never moves a line. An #include is treated in one of four ways:

    a system header      stays where it is, if it is one of SYSTEM_HEADERS
    a part               becomes a comment: the part stands above already (else: refused)
    a template           its text is put in at every inclusion
    anything else        refused

Needs nothing but Python's standard library (3.6 or later).
"""

import argparse
import hashlib
import os
import re
import sys
import tempfile

PUBLIC_HEADER = "brainstorm.h"
OUTPUT = "brainstorm.c"
SOURCE = "src"
ORDER = "src/ORDER"
SOURCE_ENDINGS = (".c", ".h", ".inc")
OTHER_SOURCES = ("cuda/",)  # folders of src/ that are not parts of brainstorm.c

# What the library may ask of the system. stdlib.h is missing on purpose: nothing allocates, nothing exits.
SYSTEM_HEADERS = {
    # C11
    "float.h", "inttypes.h", "limits.h", "math.h", "stdalign.h", "stdarg.h", "stdatomic.h", "stdbool.h",
    "stddef.h", "stdint.h", "stdio.h", "string.h",
    # the POSIX platform table
    "errno.h", "fcntl.h", "pthread.h", "sched.h", "sys/stat.h", "sys/types.h", "time.h", "unistd.h",
    # instruction sets
    "arm_neon.h", "asm/hwcap.h", "cpuid.h", "immintrin.h", "sys/auxv.h",
}

# Feature macros count only before the first system header, so the file opens with them. A part that needs
# one defines it too, with the same value, in order to compile alone.
FEATURES = {"_POSIX_C_SOURCE": "200809L"}

INCLUDE = re.compile(r'^\s*#\s*include\b\s*(?P<target>.*)$')
TARGET = re.compile(r'^(?:"(?P<project>[^"]+)"|<(?P<system>[^>]+)>)')
FEATURE = re.compile(r'^\s*#\s*define\s+(?P<name>_[A-Z0-9_]+_SOURCE)\b\s*(?P<value>\S*)')
PRIVATE = re.compile(r'^static\b[^;=(]*?\b(?P<name>[a-z]\w*)\(')
VERSION = re.compile(r'^#define BS_VERSION_(MAJOR|MINOR|PATCH) (\d+)\s*$', re.MULTILINE)
WIDTH = 100


class Refused(Exception):
    """The sources break a rule; the message says where and which."""


class Part:
    def __init__(self, name, is_template, text):
        self.name, self.is_template, self.text = name, is_template, text


class Tree:
    """The parts below one root folder, in the order of src/ORDER."""

    def __init__(self, root):
        self.root = root
        self.parts = [self._load(name, is_template) for name, is_template in self._order()]
        self.by_name = {}
        for part in self.parts:
            if part.name in self.by_name:
                raise Refused("%s: %s is listed twice" % (ORDER, part.name))
            self.by_name[part.name] = part
        self._refuse_unlisted()
        self._refuse_clashes()

    def _order(self):
        for number, line in enumerate(read(self.root, ORDER).splitlines(), 1):
            words = line.split("#")[0].split()
            if len(words) == 1:
                yield words[0], False
            elif len(words) == 2 and words[0] == "template":
                yield words[1], True
            elif words:
                raise Refused("%s:%d: expected `PART` or `template PART`" % (ORDER, number))

    def _load(self, name, is_template):
        return Part(name, is_template, read(self.root, SOURCE + "/" + name))

    def _refuse_unlisted(self):
        top = os.path.join(self.root, SOURCE)
        for folder, _, files in sorted(os.walk(top)):
            for file in sorted(files):
                name = os.path.relpath(os.path.join(folder, file), top).replace(os.sep, "/")
                if name.endswith(SOURCE_ENDINGS) and name not in self.by_name and not name.startswith(OTHER_SOURCES):
                    raise Refused("%s/%s is not listed in %s" % (SOURCE, name, ORDER))

    def _refuse_clashes(self):
        """Two parts may each have a static function of one name; their amalgam may not."""
        owner = {}
        for part in self.parts:
            for line in [] if part.is_template else part.text.splitlines():
                found = PRIVATE.match(line)
                if found and owner.setdefault(found.group("name"), part.name) != part.name:
                    raise Refused("%s/%s: a static %s is in %s/%s too: rename one" % (
                        SOURCE, part.name, found.group("name"), SOURCE, owner[found.group("name")]))

    def version(self):
        found = dict(VERSION.findall(read(self.root, PUBLIC_HEADER)))
        if sorted(found) != ["MAJOR", "MINOR", "PATCH"]:
            raise Refused("%s: BS_VERSION_MAJOR, _MINOR, _PATCH not found" % PUBLIC_HEADER)
        return found["MAJOR"], found["MINOR"], found["PATCH"]

    def digest(self):
        """sha256 over name, length and bytes of every part, in order."""
        total = hashlib.sha256()
        for part in self.parts:
            data = part.text.encode("utf-8")
            total.update(("%s %d\n" % (part.name, len(data))).encode("utf-8"))
            total.update(data)
        return total.hexdigest()


def read(root, name):
    try:
        with open(os.path.join(root, name), encoding="utf-8", newline="") as file:
            text = file.read()
    except FileNotFoundError:
        raise Refused("%s: no such file" % name)
    if "\r" in text:
        raise Refused("%s: has carriage returns" % name)
    return text if text.endswith("\n") or not text else text + "\n"


class Generator:
    """Turns a tree into the text of OUTPUT."""

    def __init__(self, tree):
        self.tree = tree
        self.done = set()  # parts that stand in the output already
        self.used = set()  # templates that were put in at least once

    def generate(self):
        pieces = [self._top()]
        for part in self.tree.parts:
            if part.is_template:
                continue
            pieces.append("\n%s\n%s%s\n" % (begin(part.name), self._expand(part, [part.name]), end(part.name)))
            self.done.add(part.name)
        for part in self.tree.parts:
            if part.is_template and part.name not in self.used:
                raise Refused("%s/%s: a template that nothing includes" % (SOURCE, part.name))
        return "".join(pieces)

    def _top(self):
        major, minor, patch = self.tree.version()
        text = "/* brainstorm.c - %s.%s.%s.   MIT licence, see LICENSE.   Documentation: %s\n" % (
            major, minor, patch, PUBLIC_HEADER)
        text += " * Generated from %s/ by tools/amalgamate.py (`make amalgamate`): change the parts, not this file.\n" % SOURCE
        text += " * sha256 of the parts: %s\n */\n" % self.tree.digest()
        for name, value in sorted(FEATURES.items()):
            text += "#if !defined(%s) && !defined(BS_NO_POSIX)\n#define %s %s\n#endif\n" % (name, name, value)
        text += '#include "%s"\n\n' % PUBLIC_HEADER
        text += "#if BS_VERSION_MAJOR != %s || BS_VERSION_MINOR != %s || BS_VERSION_PATCH != %s\n" % (major, minor, patch)
        return text + '#error "%s and %s are of different versions"\n#endif\n' % (PUBLIC_HEADER, OUTPUT)

    def _expand(self, part, stack):
        lines = []
        for number, line in enumerate(part.text.splitlines(), 1):
            where = "%s/%s:%d" % (SOURCE, part.name, number)
            feature = FEATURE.match(line)
            if feature and FEATURES.get(feature.group("name")) != feature.group("value"):
                raise Refused("%s: %s is not among the FEATURES of this script" % (where, line.strip()))
            include = INCLUDE.match(line)
            lines.append(self._include(include.group("target"), part, where, stack, line) if include else line)
        return "".join(line + "\n" for line in lines)

    def _include(self, target, part, where, stack, line):
        found = TARGET.match(target)
        if not found:
            raise Refused("%s: cannot tell what this includes: %s" % (where, line.strip()))
        if found.group("system"):
            if found.group("system") not in SYSTEM_HEADERS:
                raise Refused("%s: <%s> is not among the SYSTEM_HEADERS of this script" % (where, found.group("system")))
            return line
        name = self._resolve(found.group("project"), part, where)
        if name != PUBLIC_HEADER and self.tree.by_name[name].is_template:
            return self._template(name, where, stack)
        if name != PUBLIC_HEADER and name not in self.done:
            raise Refused("%s: needs %s, which %s lists later" % (where, name, ORDER))
        return '/* #include "%s" */' % name

    def _template(self, name, where, stack):
        if name in stack:
            raise Refused("%s: %s includes itself" % (where, name))
        self.used.add(name)
        body = self._expand(self.tree.by_name[name], stack + [name])
        return "/* --- template %s --- */\n%s/* --- end of template %s --- */" % (name, body, name)

    def _resolve(self, target, part, where):
        """As the compiler with -I. -Isrc: beside the including file, at the root, in src/."""
        if os.path.normpath(target) == PUBLIC_HEADER:
            return PUBLIC_HEADER
        beside = os.path.normpath(os.path.join(os.path.dirname(part.name), target)).replace(os.sep, "/")
        for name in (beside, os.path.normpath(target).replace(os.sep, "/")):
            name = name[len(SOURCE) + 1:] if name.startswith(SOURCE + "/") else name
            if name in self.tree.by_name:
                return name
        raise Refused('%s: "%s" is not listed in %s' % (where, target, ORDER))


def banner(word, name):
    return ("/* ==== %s %s/%s " % (word, SOURCE, name)).ljust(WIDTH - 3, "=") + " */"


def begin(name):
    return banner("begin", name)


def end(name):
    return banner("end", name)


BANNER = re.compile(r"^/\* ==== (begin|end) (\S+) =* \*/$")


def split(text):
    """The output as {part: text}, what stands outside every part under \"the top\"."""
    sections, current = {"the top": ""}, "the top"
    for line in text.splitlines(True):
        mark = BANNER.match(line.rstrip("\n"))
        if mark:
            current = mark.group(2) if mark.group(1) == "begin" else "the top"
        sections[current] = sections.get(current, "") + line
    return sections


def differences(committed, generated):
    """One line a section that is not the same."""
    old, new = split(committed), split(generated)
    lines = ["%s: missing in %s" % (name, OUTPUT) for name in new if name not in old]
    lines += ["%s: only in %s" % (name, OUTPUT) for name in old if name not in new]
    lines += ["%s: differs" % name for name in new if name in old and old[name] != new[name]]
    if not lines and committed != generated:
        lines = ["the order of the parts differs"]
    return lines


def generate(root):
    return Generator(Tree(root)).generate()


def write(root):
    path, text = os.path.join(root, OUTPUT), generate(root)
    if os.path.exists(path) and read(root, OUTPUT) == text:
        print("%s is up to date" % OUTPUT)
        return 0
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    print("%s: %d lines" % (OUTPUT, text.count("\n")))
    return 0


def check(root):
    lines = differences(read(root, OUTPUT), generate(root))
    for line in lines:
        print(line)
    if lines:
        print("%s is not what %s/ gives: run `make amalgamate`" % (OUTPUT, SOURCE))
    return 1 if lines else 0


# ---------------------------------------------------------------------------------------------- self-test

HEADER = "#define BS_VERSION_MAJOR 1\n#define BS_VERSION_MINOR 2\n#define BS_VERSION_PATCH 3\n"


def sample(changes):
    """A small tree that is in order, with files of `changes` in place of its own (None: without them)."""
    files = {
        PUBLIC_HEADER: HEADER,
        ORDER: "# bottom to top\na.h\ntemplate lanes.inc\nx/b.c\nc.c  # the top\n",
        "src/a.h": '#include "brainstorm.h"\n#include <math.h>\nint a(void);\n',
        "src/lanes.inc": "int NAME(void) { return 1; }\n",
        "src/x/b.c": '#include "../a.h"\n#define NAME b1\n#include "lanes.inc"\n#undef NAME\n'
                     '#define NAME b2\n#  include "../lanes.inc" /* again */\n',
        "src/c.c": '#include "a.h"\n#include <string.h>\nint c;\n',
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

    def text(self):
        return generate(self.folder.name)


def refuses(words, changes):
    with Sample(changes) as tree:
        try:
            tree.text()
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
        assert differences(old, old) == []
        assert differences(old, new) == ["the top: differs", "src/c.c: differs"]  # the top has the hash
        assert "src/c.c: differs" in differences(old.replace("int c;", "int edited;"), old)
        tree.put("src/d.c", "int d;\n")
        tree.put(ORDER, tree.files[ORDER] + "d.c\n")
        assert "src/d.c: missing in brainstorm.c" in differences(old, tree.text())
        assert "src/d.c: only in brainstorm.c" in differences(tree.text(), old)


def self_test():
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


def main():
    parser = argparse.ArgumentParser(description="Makes brainstorm.c out of the parts in src/.")
    parser.add_argument("--check", action="store_true", help="compare only; exit status 1 when brainstorm.c differs")
    parser.add_argument("--self-test", action="store_true", help="test this script")
    options = parser.parse_args()
    if options.self_test:
        return self_test()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        return check(root) if options.check else write(root)
    except Refused as refusal:
        print("amalgamate: %s" % refusal, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
