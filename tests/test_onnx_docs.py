# tags: needs:onnx,numpy,gguf
"""docs/onnx.md lists the ops that the importer takes; `test_onnx_docs.py --write` brings it up to date."""

import os
import sys
import textwrap

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import onnx_rig  # noqa: F401: it finds the package
from brainstorm.onnx import table

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "docs", "onnx.md")
FIRST = "<!-- ops: what tests/test_onnx_docs.py compares with the table of handlers -->\n"
LAST = "<!-- end of ops -->\n"


def main():
    ops = sorted(name for domain, name in table.load_handlers() if domain == "")
    wanted = "\n".join(textwrap.wrap(", ".join(ops) + ".", 120)) + "\n"
    with open(PAGE, encoding="ascii") as file:
        head, _, rest = file.read().partition(FIRST)
    found, _, tail = rest.partition(LAST)
    if "--write" in sys.argv[1:]:
        with open(PAGE, "w", encoding="ascii") as file:
            file.write(head + FIRST + wanted + LAST + tail)
        found = wanted
    good = found == wanted and bool(rest)
    print("ok ops of docs/onnx.md" if good else "FAIL ops of docs/onnx.md: the list is another than the table: --write")
    print(f"{int(good)} passed, {int(not good)} failed")
    return not good


if __name__ == "__main__":
    sys.exit(main())
