"""links.py: every relative link in Markdown files leads to a file that is there, and to a heading that it has.

    links.py                 in the repository's root: README.md, docs/ and what else is Markdown; also that README.md
                             has at most 150 lines and links to every page of docs/
    links.py --self-test     that it finds what it is there to find

Relies on Python's standard library. Must never follow a link to another machine, nor read what is built.
"""

import os
import re
import sys
import tempfile

README_LINES = 150
LINK = re.compile(r"\[[^\]]*\]\(\s*([^)\s]+)\s*\)")


def prose(text):
    """Without code: indented and fenced blocks, and words in backticks, are no links."""
    lines, fenced = [], False
    for line in text.split("\n"):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            lines.append(line)
    return "\n".join(lines)


def anchors(text):
    """What GitHub makes of headings: small letters, words joined by dashes, a number behind a second one of a name."""
    found = set()
    for heading in re.findall(r"^#{1,6} +(.*?) *$", prose(text), re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()).replace(" ", "-")
        same, number = name, 0
        while same in found:
            number += 1
            same = f"{name}-{number}"
        found.add(same)
    return found


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def targets(path):
    """Relative links of a file: (file from the root, heading or "")."""
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "code", prose(read(path)))):
        if not re.match(r"[a-z]+:", link):
            file, _, heading = link.partition("#")
            yield os.path.normpath(os.path.join(os.path.dirname(path), file)) if file else path, heading


def broken_links(paths):
    for path in paths:
        for file, heading in targets(path):
            if not os.path.exists(file):
                yield f"{path}: there is no {file}"
            elif heading and heading not in anchors(read(file)):
                yield f"{path}: {file} has no heading #{heading}"


def broken_readme():
    lines = read("README.md").count("\n")
    if lines > README_LINES:
        yield f"README.md has {lines} lines, expected at most {README_LINES}"
    named = {file for file, _ in targets("README.md")}
    for page in sorted(os.listdir("docs")):
        if page.endswith(".md") and f"docs/{page}" not in named:
            yield f"README.md has no link to docs/{page}"


def markdown():
    for folder, folders, files in os.walk("."):
        folders[:] = sorted(f for f in folders if not f.startswith(".") and f not in ("build", "shared"))
        yield from (os.path.normpath(os.path.join(folder, f)) for f in sorted(files) if f.endswith(".md"))


def broken():
    return [*broken_links(markdown()), *broken_readme()]


def self_test():
    with tempfile.TemporaryDirectory() as root:
        os.chdir(root)
        os.makedirs("docs")

        def write(path, text):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)

        good = ("# Top\n[a](docs/a.md#two-words)\n`[no](link)`\n\n    [no](link)\n\n```c\nx[1](link)\n```\n"
                "[far](https://x.y/z)\n")
        write("README.md", good)
        write("docs/a.md", "# A\n## Two `words`!\n## A\n[up](../README.md#top) [here](#a-1)\n")
        assert broken() == [], broken()
        for text, complaint in (
            (good + "[b](docs/b.md)\n", "README.md: there is no docs/b.md"),
            (good + "![b](docs/b.png)\n", "README.md: there is no docs/b.png"),
            (good + "[a](docs/a.md#three)\n", "README.md: docs/a.md has no heading #three"),
            (good + "\n" * README_LINES, f"README.md has {README_LINES + 10} lines, expected at most {README_LINES}"),
            ("# Top\n", "README.md has no link to docs/a.md"),
        ):
            write("README.md", text)
            assert broken() == [complaint], broken()
        os.chdir("/")


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        self_test()
    else:
        complaints = broken()
        print("\n".join(complaints), end="\n" if complaints else "")
        sys.exit(1 if complaints else 0)
