"""pages.py: what README.md and docs/ say, held against what there is.

A page is held in three ways. (1) A block that shows what a command prints has a comment before it, which readers of the
page do not see:

    <!-- printed by: build/minimal -->          the command, run in a folder that looks like the repository's root
    <!-- differs: [0-9.]+ ms -->                what is another text in each run: as good as any other that matches
    <!-- needs: numpy, gguf -->                 modules of Python without which the command cannot run

A line `...` of such a block stands for any lines, ` ...` at the end of a line for its rest. `file: NAME` before a block
puts the block into that folder, `runs` says that its commands end well, `messages` that the library can say each of its
lines, `drawn` that nothing prints it. (2) pages.txt
has sentences with figures; figures.py says what these are. (3) Files, tests and options that a page names are there.

Owns: how pages are read and compared. Relies on nothing but Python. Must never run what a page does not mark.
"""

import os
import re

COMMAND = re.compile(r"(make|pip|python3?|cc|cd|nvcc|ffmpeg|gst-launch-1\.0|build/[\w./-]+|[A-Z_]+=\S+)( |$)")
MARK = re.compile(r"<!-- (printed by|differs|needs|file|runs|messages|drawn)(?:: (.*?))? -->$")
PATH = re.compile(r"(?:src|tests|examples|python|tools|bench|docs|models|training|zoo)/[\w./-]*\.(?:[a-z]{1,4})|"
                  r"test_\w+\.(?:c|sh|py)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+\b")


class Block:
    def __init__(self, language, line):
        self.language, self.line, self.lines, self.marks = language, line, [], {}

    @property
    def text(self):
        return "".join(line + "\n" for line in self.lines)


def blocks(text):
    """The fenced and indented blocks of a page, each with the marks that stand before it."""
    found, marks, block, blank = [], {}, None, True
    for number, line in enumerate(text.split("\n"), 1):
        if block is not None and block.language is not None:
            if line.startswith("```"):
                block = None
            else:
                block.lines.append(line)
            continue
        indented = line.startswith("    ") and (blank or block is not None)
        if line.startswith("```") or indented and block is None:
            block = Block(None if indented else line[3:], number + (not indented))
            block.marks, marks = marks, {}
            found.append(block)
        elif not indented:
            block = None
            mark = MARK.match(line)
            if mark:
                marks[mark[1]] = mark[2] or ""
            elif line:
                marks = {}
        if indented:
            block.lines.append(line[4:])
        blank = not line
    return found


def is_of_commands(block):
    """Whether each line is a command, or goes on with one."""
    goes_on = False
    for line in block.lines:
        if line.strip() and not goes_on and not line.startswith(" ") and not COMMAND.match(line):
            return False
        goes_on = line.rstrip().endswith(("\\", "|"))
    return True


def unmarked(text):
    """Blocks that seem to be printed by something, and do not say by what."""
    return [b for b in blocks(text) if not b.language and not b.marks and not is_of_commands(b)]


# --- what is printed -------------------------------------------------------------------------------------


def pattern_of(shown, differs):
    """The expression for what may be printed where `shown` is in the page."""
    cut = re.compile(differs) if differs else None
    lines = []
    for line in shown.rstrip("\n").split("\n"):
        if line == "...":
            lines.append(r"(?:.*\n)*?")
            continue
        line, rest = (line[:-4], ".*") if line.endswith(" ...") else (line, "")
        parts, at = [], 0
        for found in cut.finditer(line) if cut else ():
            parts += [re.escape(line[at:found.start()]), f"(?:{differs})"]
            at = found.end()
        lines.append("".join(parts) + re.escape(line[at:]) + rest + r" *\n")
    return "".join(lines)


def printed_otherwise(block, output):
    """None where a command's output is what the block shows, else the first line that is another one."""
    output = output.rstrip("\n") + "\n"
    differs = block.marks.get("differs")
    if re.fullmatch(pattern_of(block.text, differs), output):
        return None
    for count in range(len(block.lines)):
        if not re.match(pattern_of("\n".join(block.lines[:count + 1]), differs), output):
            return f"line {block.line + count} is not printed: {block.lines[count]!r}; printed is\n{output}"
    return f"more is printed than the page shows:\n{output}"


def message_patterns(sources):
    """An expression for each text of the sources that a message can end with."""
    joined = re.sub(r'"\s*PRI[dux]32\s*"', "d", re.sub(r'"\s*PRI[dux]32', 'd"', "\n".join(sources)))
    for text in set(re.findall(r'"((?:[^"\\\n]|\\.)*)"', joined)):
        parts = re.split(r"%[-0-9.*]*(?:ll|z)?([dsuxgf])", text.replace('\\"', '"'))
        if sum(map(len, parts[::2])) >= 12:
            yield re.compile("".join(re.escape(part) if i % 2 == 0 else r".+" if part == "s" else r"-?\d+"
                                     for i, part in enumerate(parts)) + "$")


def unsaid(block, patterns):
    """Lines that end as no message does."""
    return [line for line in block.lines if not any(pattern.search(line) for pattern in patterns)]


# --- figures ---------------------------------------------------------------------------------------------


def sentence(text):
    """An expression for a sentence with {names}, wherever its lines break, and the names."""
    parts = re.split(r"\{(\w+)\}", text.strip())
    fixed = [r"\s+".join(re.escape(word) for word in re.split(r"\s+", part)) for part in parts[::2]]
    return re.compile(r"(\w[\w.,]*?(?: \w[\w.,]*){0,3}?)".join(fixed)), parts[1::2]


def said(page, text):
    """[(figure, what the page says, where)] of a sentence, as often as it stands there."""
    expression, names = sentence(text)
    return [(name, found[i], found.span(i)) for found in expression.finditer(page)
            for i, name in enumerate(names, 1)]


# --- names -----------------------------------------------------------------------------------------------


def quoted(text):
    """Words in `backticks`, and blocks that are not programs."""
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)
    return re.findall(r"`([^`]+)`", prose) + [line for b in blocks(text) if not b.language for line in b.lines]


def lost_paths(text, root="."):
    """Files that a page names and that are not there."""
    for word in quoted(text):
        for path in PATH.findall(word) if re.fullmatch(PATH, word) else ():
            where = os.path.join(root, path if "/" in path else os.path.join("tests", path))
            if "*" not in path and not os.path.exists(where):
                yield path


def lost_options(text, known):
    """Options that a page names and no program has."""
    for word in quoted(text):
        for option in OPTION.findall(word):
            if option not in known:
                yield option
