#!/usr/bin/env python3
"""tokens.py REVISION [--each] - how much code there is, beside a revision before.

Counts the tokens of C of all files in src/: names, numbers, texts, signs; comments and space are none. Files that lay
in src/kernels at REVISION are left out, wherever they are now; a file that has moved counts where it was, as git finds
it; one that is new is listed by itself, since it says what was built and not what became shorter.

Prints a line a folder (of --each: a file) with tokens then and now, the new files, and the ratio of all of it."""
import argparse
import os
import re
import subprocess
import sys

SOURCES = (".c", ".h", ".cu", ".cuh", ".inc")
LEFT_OUT = "src/kernels/"
TOKEN = re.compile(r"""
    (?P<none>/\*.*?\*/|//[^\n]*|\s+|\\\n)
  | (?P<token>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'
    |\.?[0-9](?:[eEpP][+-]|[\w.])*
    |\w+|<<=|>>=|\.\.\.|->|\+\+|--|<<|>>|[-+*/%&|^<>=!]=|&&|\|\||\#\#|.)""", re.X | re.S)


def count(text):
    return sum(match.lastgroup == "token" for match in TOKEN.finditer(text))


def git(*words):
    return subprocess.run(("git", *words), check=True, capture_output=True, encoding="utf-8").stdout


def moved(revision):
    """{path now: path at the revision} of the files that have another one."""
    lines = git("diff", "--name-status", "--diff-filter=R", "--find-renames", revision, "--", "src").splitlines()
    return {now: then for _, then, now in (line.split("\t") for line in lines)}


def is_source(path):
    return path.endswith(SOURCES) and not path.startswith(LEFT_OUT)


def tokens_then(revision):
    paths = git("ls-tree", "-r", "--name-only", revision, "src/").splitlines()
    return {path: count(git("show", revision + ":" + path)) for path in paths if is_source(path)}


def tokens_now(revision):
    """{path, of the revision where there was one: tokens}"""
    names, found = moved(revision), {}
    for path in git("ls-files", "src/").splitlines():
        if path.endswith(SOURCES) and is_source(names.get(path, path)) and os.path.exists(path):
            with open(path, encoding="utf-8") as lines:
                found[names.get(path, path)] = count(lines.read())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("revision")
    parser.add_argument("--each", action="store_true", help="a line a file")
    arguments = parser.parse_args()
    os.chdir(git("rev-parse", "--show-toplevel").strip())
    then, now = tokens_then(arguments.revision), tokens_now(arguments.revision)
    rows = {}
    for path in sorted(set(then) | set(now)):
        row = rows.setdefault(path if arguments.each else os.path.dirname(path), [0, 0])
        row[0] += then.get(path, 0)
        row[1] += now.get(path, 0)
    for name, (before, after) in rows.items():
        print("%-32s %8d %8d %8s" % (name, before, after, "%.3f" % (after / before) if before else "new"))
    new = {path: tokens for path, tokens in now.items() if path not in then}
    print("new files:" if new else "no new file")
    for path, tokens in sorted(new.items(), key=lambda entry: -entry[1]):
        print("  %-30s %8d" % (path, tokens))
    before, after = sum(then.values()), sum(now.values())
    print("%-32s %8d %8d %8.3f, without new files %.3f" %
          ("all", before, after, after / before, (after - sum(new.values())) / before))
    return 0


if __name__ == "__main__":
    sys.exit(main())
