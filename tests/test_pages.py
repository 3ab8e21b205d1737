# tags: uses:bench/networks
"""test_pages.py: README.md and the pages of docs/ say what the programs print and what the sources have.

    test_pages.py              compares; then plants a wrong figure, block or name in each page, in memory, which must
                               be found
    test_pages.py --sizes FILE    compares those figures alone that `make size` has found: a line each, NAME BYTES
    test_pages.py --write [FILE]  brings the figures of pages.txt up to date, with FILE those of `make size`

Relies on pages.py, which says how pages are marked, and figures.py. Its folder is $BUILD/tests/pages. Must never change
a page without --write.
"""

import functools
import glob
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys

import figures
import pages

WORK = os.path.abspath(os.path.join(figures.BUILD, "tests", "pages"))
PAGES = ["README.md", *sorted(glob.glob("docs/*.md")), "examples/moe_text/README.md"]
ELSEWHERE = ("docs/onnx.md",)     # test_onnx_docs.py holds it; its block is of a model that is not here
OF_BEFORE = "docs/updating.md"    # names what there was before, too
results = {True: 0, False: 0, None: 0}


def check(name, complaints):
    """None: it could not be tried."""
    good = None if complaints is None else not complaints
    results[good] += 1
    print({True: "ok ", False: "FAIL ", None: "skipped "}[good] + name)
    for complaint in complaints or ():
        print(f"  | {complaint}")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def sentences():
    """{page: its sentences with {figures}}"""
    found = {}
    for line in read("tests/pages.txt").split("\n"):
        if line and not line.startswith("#"):
            page, _, text = line.partition(": ")
            found.setdefault(page, []).append(text)
    return found


# --- what is wrong with a page ---------------------------------------------------------------------------


def wrong_figures(page, text, held, known):
    for line in held:
        told = pages.said(text, line)
        if not told:
            yield f"{page}: nothing there says {line!r}"
        for name, here, _ in told:
            try:
                wanted = known(name)
            except figures.Unknown:
                continue
            if here != wanted:
                yield f"{page}: {line!r}: {name} is {wanted}, the page says {here}"


def lacking(block):
    return [module for module in re.split(r", *", block.marks.get("needs", ""))
            if module and importlib.util.find_spec(module) is None]


def scratch():
    """A folder that looks like the repository's root to a command of a page."""
    shutil.rmtree(WORK, ignore_errors=True)
    os.makedirs(os.path.join(WORK, "bin"))
    for name in ("brainstorm.h", "models", "python", "examples", "tests"):
        os.symlink(os.path.abspath(name), os.path.join(WORK, name))
    os.symlink(os.path.abspath(figures.BUILD), os.path.join(WORK, "build"))
    python = os.path.join(WORK, "bin", "python3")
    with open(python, "w", encoding="utf-8") as file:
        file.write(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    os.chmod(python, os.stat(python).st_mode | stat.S_IXUSR)


@functools.cache
def ran(command):
    done = subprocess.run(["sh", "-ec", command], cwd=WORK, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=120, env={**os.environ, "BUILD": os.path.join(WORK, "build"),
                               "PATH": os.path.join(WORK, "bin") + ":" + os.environ["PATH"]})
    return done.returncode, done.stdout


def wrong_blocks(page, text):
    for block in pages.unmarked(text) if page not in ELSEWHERE else ():
        yield f"{page}:{block.line}: a block that is neither commands nor marked (pages.py): {block.lines[0]!r}"
    for block in pages.blocks(text):
        if lacking(block):
            continue
        if "file" in block.marks:
            with open(os.path.join(WORK, block.marks["file"]), "w", encoding="utf-8") as file:
                file.write(block.text)
        if "runs" in block.marks:
            status, said = ran(block.text)
            if status:
                yield f"{page}:{block.line}: a command ends with {status}: {said[-500:]}"
        if "messages" in block.marks:
            for line in pages.unsaid(block, messages()):
                yield f"{page}:{block.line}: no message of src/ ends like {line!r}"
        if "printed by" in block.marks:
            otherwise = pages.printed_otherwise(block, ran(block.marks["printed by"])[1])
            if otherwise:
                yield f"{page}: {otherwise}"


@functools.cache
def messages():
    return list(pages.message_patterns(map(read, glob.glob("src/*/*.c"))))


@functools.cache
def known_options():
    """All that a program of the repository reads or prints about options."""
    patterns = ("examples/**/*.[ch]", "examples/**/*.sh", "python/**/*.py", "tests/*.sh", "tests/test_*.py",
                "tools/*.*", "bench/**/*.py", "bench/*.[ch]", "zoo/*.py", "training/**/*.py")
    files = [path for pattern in patterns for path in glob.glob(pattern, recursive=True)]
    return set(pages.OPTION.findall("\n".join(read(path) for path in files)))


def wrong_names(page, text):
    if page == OF_BEFORE:
        return
    for path in pages.lost_paths(text):
        yield f"{page}: there is no {path}"
    for option in pages.lost_options(text, known_options() | OTHERS):
        yield f"{page}: no program has {option}"


# Options of programs that are not ours.
OTHERS = {"--cflags", "--libs", "--gc-sections", "--shape", "--user"}


# --- what is planted -------------------------------------------------------------------------------------

FIGURE, LINE = "another figure of", "another line in the block at line"


def other_digit(text, at):
    """The text with another first digit, or letter, from a place on."""
    at = re.compile(r"\w").search(text, at).start()
    return text[:at] + ("7" if text[at] != "7" else "3") + text[at + 1:]


def planted(page, text, held):
    """(what, the page with a fault) of each way in which it is held."""
    for line in held:
        for name, _, (start, _) in pages.said(text, line)[:1]:
            if not name.startswith("size_"):
                yield f"{FIGURE} {name}", other_digit(text, start)
    for block in pages.blocks(text):
        if ("printed by" in block.marks or "messages" in block.marks) and not lacking(block):
            lines = text.split("\n")
            lines[block.line - 1] = lines[block.line - 1] + " 17"
            yield f"{LINE} {block.line}", "\n".join(lines)
    if page not in ELSEWHERE:
        yield "a block that nothing prints", text + "\nIt prints\n\n    done 17 of 17 in 3 ms\n"
    if page != OF_BEFORE:
        yield "a file that is not there", text + "\nSee `src/graph/no_such.c`.\n"
        yield "an option that nothing has", text + "\nSay `--" + "no-such-option`.\n"


def compare(page, text, held):
    return [*wrong_figures(page, text, held, figures.value), *wrong_blocks(page, text), *wrong_names(page, text)]


def one_page(page, held):
    text = read(page)
    check(f"{page} says what there is", compare(page, text, held))
    faults = list(planted(page, text, held))
    for what, wrong in faults:
        check(f"{page}: {what} is found", [] if compare(page, wrong, held) else ["not found"])
    marked = any({"printed by", "messages", "runs"} & set(block.marks) for block in pages.blocks(text))
    if not (marked or any(what.startswith(FIGURE) for what, _ in faults) or page in ELSEWHERE):
        check(f"{page}: a figure or a block of it is held", ["neither pages.txt nor a mark says which"])


def agree(held):
    """Pages give one figure once."""
    told = {}
    for page, lines in held.items():
        for line in lines:
            for name, here, _ in pages.said(read(page), line):
                told.setdefault(name, {}).setdefault(here, []).append(page)
    return [f"{name}: {there}" for name, there in told.items() if len(there) > 1]


# --- other ways to run it --------------------------------------------------------------------------------


def write(held, known):
    for page, lines in held.items():
        text = read(page)
        for line in lines:
            for name, here, (start, end) in reversed(pages.said(text, line)):
                try:
                    text = text[:start] + known(name) + text[end:]
                except figures.Unknown:
                    pass
        with open(page, "w", encoding="utf-8") as file:
            file.write(text)


def measured(path):
    """What gives the figures of `make size`, and no others."""
    found = dict(line.split() for line in read(path).splitlines())

    def known(name):
        if name not in found:
            raise figures.Unknown
        return f"{int(found[name]) / 1024:.0f}"
    return known


def sizes(held, known):
    for page, lines in held.items():
        lines = [line for line in lines if "{size_" in line]
        if lines:
            check(f"{page} has the sizes", list(wrong_figures(page, read(page), lines, known)))


def main():
    held, how = sentences(), sys.argv[1:2]
    known = measured(sys.argv[2]) if sys.argv[2:] else figures.value
    if how == ["--write"]:
        return write(held, known)
    if how == ["--sizes"]:
        sizes(held, known)
    else:
        scratch()
        for page in PAGES:
            one_page(page, held.get(page, []))
        check("a figure is the same on all pages", agree(held))
        check("pages.txt has pages that are there", sorted(set(held) - set(PAGES)))
    print(f"{results[True]} passed, {results[False]} failed" + (f", {results[None]} skipped" if results[None] else ""))
    return results[False] > 0


if __name__ == "__main__":
    sys.exit(main())
