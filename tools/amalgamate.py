#!/usr/bin/env python3
"""amalgamate.py - makes brainstorm.c and brainstorm_cuda.cu, the files that users copy, out of the parts in src/.

    python3 tools/amalgamate.py           write them
    python3 tools/amalgamate.py --check   compare them with what src/ gives; name the parts that differ

Owns the order of text, and which functions a program sees. It never moves a line. Its tests:
tests/test_amalgamate.py.

brainstorm.c: src/ORDER lists every part, bottom to top, and they are put one after the other, those that it marks
between macros of src/base/effort.h. `ops/*.c` are those of the folder that no other line names. A function that a
part's header declares becomes BS_INTERNAL, which is static, unless brainstorm_cuda.cu uses it: names that are not of
brainstorm.h can then neither clash with a program's nor cost a call where one would do without. An #include is treated
in one of four ways:

    a system header      stays where it is, if it is one of SYSTEM_HEADERS
    a part               becomes a comment: the part stands above already (else: refused)
    a template           its text is put in at every inclusion
    anything else        refused

Both outputs begin with an #include of brainstorm.h and with the text of brainstorm_replay.h, so that they compile where
only brainstorm.h is beside them.

brainstorm_cuda.cu: what src/cuda/cuda.cu includes, and what that includes, each where it is included first. The
library's own headers are parts of it as well; an #include stays only of SYSTEM_HEADERS, TOOLKIT_HEADERS and
TEST_HEADERS.

Needs nothing but Python's standard library (3.6 or later).
"""

import argparse
import fnmatch
import hashlib
import os
import re
import sys

PUBLIC_HEADER = "brainstorm.h"
REPLAY_HEADER = "brainstorm_replay.h"
SOURCE = "src"
ORDER = "src/ORDER"
CUDA = "cuda/cuda.cu"
SOURCE_ENDINGS = (".c", ".h", ".inc")
CUDA_ENDINGS = (".cu", ".cuh", ".h", ".inc")
OTHER_SOURCES = ("cuda/",)  # folders of src/ that are not parts of brainstorm.c

# What the library may ask of the system. stdlib.h is missing on purpose: nothing allocates, nothing exits.
# assert.h is for builds with BS_DEBUG alone.
SYSTEM_HEADERS = {
    # C11
    "assert.h", "float.h", "inttypes.h", "limits.h", "math.h", "stdalign.h", "stdarg.h", "stdatomic.h", "stdbool.h",
    "stddef.h", "stdint.h", "stdio.h", "string.h",
    # the POSIX platform table
    "errno.h", "fcntl.h", "pthread.h", "sched.h", "sys/stat.h", "sys/types.h", "time.h", "unistd.h",
    # instruction sets
    "arm_neon.h", "asm/hwcap.h", "cpuid.h", "immintrin.h", "sys/auxv.h",
}

# What brainstorm_cuda.cu may ask beyond that; no header of C++ itself.
TOOLKIT_HEADERS = {"cublas_v2.h", "cuda_bf16.h", "cuda_fp16.h", "cuda_runtime.h", "mma.h"}
TEST_HEADERS = {"cuda_cpu.h"}  # behind BS_CUDA_CPU: users neither need nor get it

# Feature macros count only before the first system header, so the file opens with them. A part that needs
# one defines it too, with the same value, in order to compile alone.
FEATURES = {"_POSIX_C_SOURCE": "200809L"}

# Marks in src/ORDER and what such a part begins with: macros of src/base/effort.h.
EFFORTS = {mark: "BS_EFFORT_" + mark.upper() for mark in ("once", "loops", "less")}
END_OF_EFFORT = "BS_EFFORT_END"

INCLUDE = re.compile(r'^\s*#\s*include\b\s*(?P<target>.*)$')
TARGET = re.compile(r'^(?:"(?P<project>[^"]+)"|<(?P<system>[^>]+)>)')
FEATURE = re.compile(r'^\s*#\s*define\s+(?P<name>_[A-Z0-9_]+_SOURCE)\b\s*(?P<value>\S*)')
PRIVATE = re.compile(r'^static\b[^;=(]*?\b(?P<name>[a-z]\w*)\(')
COMMENT = re.compile(r'/\*.*?\*/', re.DOTALL)
# A function declared, not defined, at the start of a line; it may go on in the next ones.
DECLARED = re.compile(r'^(?!static\b|typedef\b|extern\b|return\b|else\b)'
                      r'[a-z][\w ]*[ *](?P<name>bs_\w+)(?=\([^{;]*\)\s*;)', re.MULTILINE)
VERSION = re.compile(r'^#define BS_VERSION_(MAJOR|MINOR|PATCH) (\d+)\s*$', re.MULTILINE)
WIDTH = 100


# In one file the compilers miss a use of every inline function of the headers, which they do not beside them.
QUIET = """
#if defined(__NVCC_DIAG_PRAGMA_SUPPORT__)
#pragma nv_diag_suppress 177
#elif defined(__CUDACC__)
#pragma diag_suppress 177
#elif defined(__clang__)
#pragma clang diagnostic ignored "-Wunused-function"
#endif
"""


# The same where modules are left out: what only they use is used by nothing, or declared and not there. Builds that
# test the insides define BS_INTERNAL as nothing.
INTERNAL = """
#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
#ifndef BS_INTERNAL
#define BS_INTERNAL static
#endif
"""


class Refused(Exception):
    """The sources break a rule; the message says where and which."""


class Part:
    def __init__(self, name, mark, text):
        self.name, self.mark, self.text = name, mark, text
        self.is_template = mark == "template"


class Tree:
    """The parts below one root folder, in the order of src/ORDER."""

    def __init__(self, root):
        self.root = root
        self.parts = [self._load(name, mark) for name, mark in self._expanded(list(self._order()))]
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
                yield words[0], None
            elif len(words) == 2 and words[0] in ("template", *EFFORTS):
                yield words[1], words[0]
            elif words:
                raise Refused("%s:%d: expected `PART`, or a mark and a PART: template, %s"
                              % (ORDER, number, ", ".join(EFFORTS)))

    def _expanded(self, lines):
        named = {name for name, _ in lines}
        for name, mark in lines:
            if "*" not in name:
                yield name, mark
                continue
            others = [file for file in self._files() if fnmatch.fnmatch(file, name) and file not in named]
            if not others:
                raise Refused("%s: %s is no file" % (ORDER, name))
            for file in others:
                yield file, mark

    def _load(self, name, mark):
        return Part(name, mark, read(self.root, SOURCE + "/" + name))

    def _files(self):
        top = os.path.join(self.root, SOURCE)
        for folder, _, files in sorted(os.walk(top)):
            for file in sorted(files):
                name = os.path.relpath(os.path.join(folder, file), top).replace(os.sep, "/")
                if name.endswith(SOURCE_ENDINGS) and not name.startswith(OTHER_SOURCES):
                    yield name

    def _refuse_unlisted(self):
        for name in self._files():
            if name not in self.by_name:
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


def version(root):
    found = dict(VERSION.findall(read(root, PUBLIC_HEADER)))
    if sorted(found) != ["MAJOR", "MINOR", "PATCH"]:
        raise Refused("%s: BS_VERSION_MAJOR, _MINOR, _PATCH not found" % PUBLIC_HEADER)
    return found["MAJOR"], found["MINOR"], found["PATCH"]


def digest(parts):
    """sha256 over name, length and bytes of every part, in order."""
    total = hashlib.sha256()
    for part in parts:
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


def names_used(text):
    """The names of functions, types and all else in a text, without what it only declares."""
    return set(re.findall(r'\bbs_\w+', DECLARED.sub("", COMMENT.sub("", text))))


class Generator:
    """Turns parts into the text of one output. Which parts, and what becomes of an #include of one, is the
    subclass's."""

    output, system_headers, features = None, SYSTEM_HEADERS, {}

    def __init__(self, root):
        self.root = root

    def generate(self):
        body = self._body()
        return self._top() + body

    def _top(self):
        major, minor, patch = version(self.root)
        text = "/* %s - %s.%s.%s.   MIT licence, see LICENSE.   Documentation: %s\n" % (
            self.output, major, minor, patch, PUBLIC_HEADER)
        text += (" * Generated from %s/ by tools/amalgamate.py (`make amalgamate`): change the parts, not this file.\n"
                 % SOURCE)
        text += " * sha256 of the parts: %s\n */\n" % digest(self.parts)
        for name, value in sorted(self.features.items()):
            text += "#if !defined(%s) && !defined(BS_NO_POSIX)\n#define %s %s\n#endif\n" % (name, name, value)
        text += '#include "%s"\n\n' % PUBLIC_HEADER
        text += "#if BS_VERSION_MAJOR != %s || BS_VERSION_MINOR != %s || BS_VERSION_PATCH != %s\n" % (
            major, minor, patch)
        text += '#error "%s and %s are of different versions"\n#endif\n' % (PUBLIC_HEADER, self.output)
        return text + self._replay_header()

    def _replay_header(self):
        text = read(self.root, REPLAY_HEADER).replace('#include "%s"' % PUBLIC_HEADER, comment(PUBLIC_HEADER))
        return "\n%s\n%s%s\n" % (banner("begin", REPLAY_HEADER), text, banner("end", REPLAY_HEADER))

    def _framed(self, part):
        text = self._expand(part, [part.name])
        if part.mark in EFFORTS:
            text = "%s\n%s%s\n" % (EFFORTS[part.mark], text, END_OF_EFFORT)
        return "%s\n%s%s\n" % (begin(part.name), text, end(part.name))

    def _expand(self, part, stack):
        lines = []
        for number, line in enumerate(part.text.splitlines(), 1):
            where = "%s/%s:%d" % (SOURCE, part.name, number)
            feature = FEATURE.match(line)
            if feature and self.features.get(feature.group("name")) != feature.group("value"):
                raise Refused("%s: %s is not among the FEATURES of this script" % (where, line.strip()))
            include = INCLUDE.match(line)
            lines.append(self._include(include.group("target"), part, where, stack, line) if include else line)
        return "".join(line + "\n" for line in lines)

    def _include(self, target, part, where, stack, line):
        found = TARGET.match(target)
        if not found:
            raise Refused("%s: cannot tell what this includes: %s" % (where, line.strip()))
        if found.group("system"):
            if found.group("system") not in self.system_headers:
                raise Refused("%s: <%s> is not among the SYSTEM_HEADERS of this script"
                              % (where, found.group("system")))
            return line
        name = found.group("project")
        if os.path.normpath(name) in (PUBLIC_HEADER, REPLAY_HEADER):
            return comment(name)
        return self._part(name, part, where, stack, line)

    def _resolve(self, target, part):
        """As the compiler with -I. -Isrc: beside the including file, at the root, in src/. None: no part."""
        beside = os.path.normpath(os.path.join(os.path.dirname(part.name), target)).replace(os.sep, "/")
        for name in (beside, os.path.normpath(target).replace(os.sep, "/")):
            name = name[len(SOURCE) + 1:] if name.startswith(SOURCE + "/") else name
            if self._has(name):
                return name
        return None


class Library(Generator):
    """brainstorm.c: the parts of src/ORDER in that order."""

    output, features = "brainstorm.c", FEATURES

    def __init__(self, root):
        super().__init__(root)
        self.tree = Tree(root)
        self.parts = self.tree.parts
        self.done = set()  # parts that stand in the output already
        self.used = set()  # templates that were put in at least once
        self.seen = names_used(Backend(root).generate())

    def _top(self):
        return super()._top() + INTERNAL

    def _framed(self, part):
        text = super()._framed(part)
        return DECLARED.sub(self._marked, text) if part.name.endswith(".h") else text

    def _marked(self, found):
        return found.group(0) if found.group("name") in self.seen else "BS_INTERNAL " + found.group(0)

    def _has(self, name):
        return name in self.tree.by_name

    def _body(self):
        pieces = []
        for part in self.parts:
            if not part.is_template:
                pieces.append("\n" + self._framed(part))
                self.done.add(part.name)
        for part in self.parts:
            if part.is_template and part.name not in self.used:
                raise Refused("%s/%s: a template that nothing includes" % (SOURCE, part.name))
        return "".join(pieces)

    def _part(self, target, part, where, stack, line):
        name = self._resolve(target, part)
        if not name:
            raise Refused('%s: "%s" is not listed in %s' % (where, target, ORDER))
        if self.tree.by_name[name].is_template:
            return self._template(name, where, stack)
        if name not in self.done:
            raise Refused("%s: needs %s, which %s lists later" % (where, name, ORDER))
        return comment(name)

    def _template(self, name, where, stack):
        if name in stack:
            raise Refused("%s: %s includes itself" % (where, name))
        self.used.add(name)
        body = self._expand(self.tree.by_name[name], stack + [name])
        return "/* --- template %s --- */\n%s/* --- end of template %s --- */" % (name, body, name)


class Backend(Generator):
    """brainstorm_cuda.cu: what cuda.cu includes, each part once, where it is included first."""

    output, system_headers = "brainstorm_cuda.cu", SYSTEM_HEADERS | TOOLKIT_HEADERS

    def __init__(self, root):
        super().__init__(root)
        self.parts = []

    def _top(self):
        return super()._top() + QUIET

    def _has(self, name):
        return os.path.isfile(os.path.join(self.root, SOURCE, name))

    def _load(self, name):
        part = Part(name, None, read(self.root, SOURCE + "/" + name))
        self.parts.append(part)
        return part

    def _body(self):
        body = "\n" + self._framed(self._load(CUDA))
        known = {part.name for part in self.parts}
        folder = os.path.dirname(CUDA)
        for file in sorted(os.listdir(os.path.join(self.root, SOURCE, folder))):
            if file.endswith(CUDA_ENDINGS) and folder + "/" + file not in known:
                raise Refused("%s/%s/%s: nothing that %s/%s includes includes it"
                              % (SOURCE, folder, file, SOURCE, CUDA))
        return body

    def _part(self, target, part, where, stack, line):
        if target in TEST_HEADERS:
            return line
        name = self._resolve(target, part)
        if not name:
            raise Refused('%s: "%s" is not in %s/' % (where, target, SOURCE))
        if name in (known.name for known in self.parts):
            return comment(name)
        return self._framed(self._load(name)).rstrip("\n")


def banner(word, name):
    return ("/* ==== %s %s " % (word, name)).ljust(WIDTH - 3, "=") + " */"


def begin(name):
    return banner("begin", SOURCE + "/" + name)


def end(name):
    return banner("end", SOURCE + "/" + name)


def comment(name):
    return '/* #include "%s" */' % name


BANNER = re.compile(r"^/\* ==== (begin|end) (\S+) =* \*/$")


def split(text):
    """The output as {part: text}, what stands outside every part under \"the top\"."""
    sections, inside = {"the top": ""}, ["the top"]
    for line in text.splitlines(True):
        mark = BANNER.match(line.rstrip("\n"))
        if mark and mark.group(1) == "begin":
            inside.append(mark.group(2))
        sections[inside[-1]] = sections.get(inside[-1], "") + line
        if mark and mark.group(1) == "end" and inside[-1] == mark.group(2):
            inside.pop()
    return sections


def differences(committed, generated, output):
    """One line a section that is not the same."""
    old, new = split(committed), split(generated)
    lines = ["%s: missing in %s" % (name, output) for name in new if name not in old]
    lines += ["%s: only in %s" % (name, output) for name in old if name not in new]
    lines += ["%s: differs" % name for name in new if name in old and old[name] != new[name]]
    if not lines and committed != generated:
        lines = ["the order of the parts differs"]
    return lines


def outputs(root):
    for generator in (Library, Backend):
        yield generator.output, generator(root).generate()


def write(root):
    for output, text in outputs(root):
        path = os.path.join(root, output)
        if os.path.exists(path) and read(root, output) == text:
            print("%s is up to date" % output)
            continue
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        print("%s: %d lines" % (output, text.count("\n")))
    return 0


def check(root):
    wrong = 0
    for output, text in outputs(root):
        lines = differences(read(root, output), text, output)
        for line in lines:
            print(line)
        if lines:
            print("%s is not what %s/ gives: run `make amalgamate`" % (output, SOURCE))
        wrong |= bool(lines)
    return int(wrong)


def main():
    parser = argparse.ArgumentParser(description="Makes brainstorm.c and brainstorm_cuda.cu out of the parts in src/.")
    parser.add_argument("--check", action="store_true", help="compare only; exit status 1 when one differs")
    options = parser.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        return check(root) if options.check else write(root)
    except Refused as refusal:
        print("amalgamate: %s" % refusal, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
