#!/usr/bin/env python3
"""tower.py OBJECTS | --self-test - draws which folder of src/ uses which, and fails where one uses what is above it.

OBJECTS is a folder with an object of every part: of src/plan/live.c, OBJECTS/plan/live.o. Symbols say who calls whom,
and #include lines who knows whom. The floors, bottom to top, are the folders in the order of src/ORDER; cuda/, which
has no parts there, is the top, and only what it includes is looked at. `make check` calls it.
"""
import glob
import os
import re
import subprocess
import sys
from collections import defaultdict

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
TOP = "cuda"


def folder(part):
    return os.path.dirname(part)


def floors(parts):
    """The folders of these parts, bottom to top. One that comes twice is no floor."""
    found = []
    for part in parts:
        if not found or found[-1] != folder(part):
            found.append(folder(part))
    twice = sorted({name for name in found if found.count(name) > 1})
    return found + [TOP], [f"src/ORDER: {name}/ is listed in two places" for name in twice]


def calls(symbols):
    """(user, owner, symbol) of all that one part takes from another. symbols: part -> (defined, wanted)."""
    owner = {symbol: part for part, (defined, _) in symbols.items() for symbol in defined}
    return [(part, owner[symbol], symbol)
            for part, (_, wanted) in symbols.items() for symbol in wanted if symbol in owner]


def includes(texts, known):
    """(user, owner, "#include") of every part that another one includes by its path below src/."""
    return [(part, name, "#include") for part, text in texts.items() for name in INCLUDE.findall(text) if name in known]


def upward(edges, order):
    level = {name: i for i, name in enumerate(order)}
    return [f"src/{user} uses what is above it: {what} of src/{owner}" for user, owner, what in edges
            if level[folder(owner)] > level[folder(user)]]


def draw(edges, order):
    counts = defaultdict(int)
    for user, owner, what in edges:
        if folder(user) != folder(owner) and what != "#include":
            counts[folder(user), folder(owner)] += 1
    for name in reversed(order[:-1]):
        below = [f"{other} {counts[name, other]}" for other in order if counts[name, other]]
        print(f"  {name:8} {'calls ' + ', '.join(below) if below else 'stands on the ground'}")


def nm(path):
    defined, wanted = set(), set()
    listed = subprocess.run(["nm", path], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    for line in listed.splitlines():
        kind, name = line.split()[-2:]
        if kind == "U":
            wanted.add(name)
        elif kind in "BCDRTVW":
            defined.add(name)
    return defined, wanted


def parts_in_order():
    """Each once: those of `ops/*.c` that have no line of their own stand where it is."""
    with open("src/ORDER") as file:
        words = [line.split("#")[0].split() for line in file]
    named, found = [line[-1] for line in words if line], []
    for name in named:
        if "*" in name:
            found += [file[4:] for file in sorted(glob.glob("src/" + name)) if file[4:] not in named]
        else:
            found.append(name)
    return found


def texts_below(top):
    found = {}
    for where, _, files in os.walk(top):
        for name in files:
            if name.endswith((".c", ".h", ".cu", ".cuh", ".inc")):
                path = os.path.join(where, name)
                with open(path) as file:
                    found[os.path.relpath(path, top).replace(os.sep, "/")] = file.read()
    return found


def main(objects):
    parts = parts_in_order()
    order, wrong = floors(parts)
    texts = texts_below("src")
    edges = calls({part: nm(os.path.join(objects, part[:-2] + ".o")) for part in parts if part.endswith(".c")})
    edges += includes(texts, set(texts))
    wrong += upward(edges, order)
    draw(edges, order)
    print("\n".join(wrong))
    return 1 if wrong else 0


def self_test():
    parts = ["low/a.c", "low/b.c", "high/c.c"]
    order, wrong = floors(parts)
    assert (order, wrong) == (["low", "high", "cuda"], [])
    assert floors(parts + ["low/d.c"])[1] == ["src/ORDER: low/ is listed in two places"]
    symbols = {"low/a.c": ({"a"}, {"b", "printf"}), "low/b.c": ({"b"}, set()), "high/c.c": ({"c"}, {"a"})}
    assert upward(calls(symbols), order) == []
    symbols["low/b.c"][1].add("c")
    assert upward(calls(symbols), order) == ["src/low/b.c uses what is above it: c of src/high/c.c"]
    texts = {"low/a.h": '#include "high/c.h"\n', "high/c.h": '#include <math.h>\n#include "low/a.h"\n',
             "cuda/x.cuh": '# include "high/c.h"\n'}
    assert upward(includes(texts, set(texts)), order) == ["src/low/a.h uses what is above it: #include of src/high/c.h"]
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(self_test() if sys.argv[1] == "--self-test" else main(sys.argv[1]))
