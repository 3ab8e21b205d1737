#!/usr/bin/env python3
"""lengths.py [--self-test] - fails where a file or a function is too long to be read at once.

A source or script has FILE_LINES at most. A function of src/ has FUNCTION_LINES at most, from its head to its last
brace; one of src/kernels, and one that runs on a GPU (__global__, __device__), KERNEL_LINES. `make check` calls it.
"""
import os
import re
import sys

FILE_LINES, FUNCTION_LINES, KERNEL_LINES = 500, 50, 80
FOLDERS = "src examples tests bench tools training python zoo".split()
CODE = (".c", ".h", ".inc", ".cpp", ".cu", ".cuh")
SCRIPTS = (".py", ".sh", ".awk", ".mk")

# Comments, literals and directives have braces that mean nothing. A directive goes on where its line ends in \.
NO_CODE = re.compile(r"""/\*.*?\*/ | //[^\n]* | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*'
                         | ^[ \t]*\#(?:[^\n/\\]|\\.|/\*.*?\*/|/)*""", re.VERBOSE | re.DOTALL | re.MULTILINE)
AROUND = re.compile(r"\b(?:struct|class|union|namespace|extern)\b[^=()]*$")  # may have functions within its braces
PARAMETERS = re.compile(r"\)[\s\w]*$")  # how a head ends: words like const may follow
EARLIER = re.compile(r"\)[ \t]*\n\s*(?=[A-Za-z_][^{}]*\()")  # a macro or an attribute on lines of its own


def code_only(text):
    """The text without what is no code; every line stays where it was."""
    return NO_CODE.sub(lambda found: "\n" * found.group().count("\n") or " ", text)


def group_before(text, end):
    """Where the parenthesis opens that closes at text[end]."""
    depth = 0
    for at in range(end, -1, -1):
        depth += (text[at] == ")") - (text[at] == "(")
        if depth == 0:
            return at
    raise ValueError(f"a parenthesis is not opened: {text.strip()}")


def name_of(head):
    """`f` of `static int f(int x)`; of `NAME(f)(int x)`, too."""
    before = head[:group_before(head, head.rindex(")"))].rstrip()
    if before.endswith(")"):
        before = before[group_before(before, len(before) - 1) + 1:-1]
    return re.search(r"[\w~]*$", before).group()


def functions(text):
    """(name, head, first line, lines) of each function of a C, C++ or CUDA file."""
    code = code_only(text)
    found, braces, begins, function = [], [], 0, None
    for token in re.finditer(r"[{};]", code):
        at, mark = token.start(), token.group()
        if mark == "{":
            head = code[begins:at]
            if PARAMETERS.search(head) and set(braces) <= {"around"}:
                begins += max((cut.end() for cut in EARLIER.finditer(head)), default=0)
                begins += len(code[begins:at]) - len(code[begins:at].lstrip())
                function = code[begins:at].strip()
                braces.append("function")
            else:
                braces.append("around" if AROUND.search(head) else "other")
        elif mark == "}":
            if not braces:
                raise ValueError(f"line {code.count(chr(10), 0, at) + 1}: a brace closes nothing")
            if braces.pop() == "function":
                first, last = (code.count("\n", 0, place) + 1 for place in (begins, at))
                found.append((name_of(function), function, first, last - first + 1))
                function = None
        if not function:
            begins = at + 1
    if braces:
        raise ValueError("a brace is not closed")
    return found


def allowed(path, head):
    on_device = path.startswith("src/cuda/") and re.search(r"__(?:global|device)__", head)
    return KERNEL_LINES if on_device or path.startswith("src/kernels/") else FUNCTION_LINES


def too_long(path, text):
    """What is too long in a file, a line each."""
    if text.count("\n") > FILE_LINES:
        yield f"{path} has {text.count(chr(10))} lines, at most {FILE_LINES} can be read"
    if path.startswith("src/") and path.endswith(CODE):
        try:
            for name, head, first, lines in functions(text):
                if lines > allowed(path, head):
                    yield f"{path}:{first}: {name} has {lines} lines, at most {allowed(path, head)} can be read"
        except ValueError as error:
            yield f"{path} cannot be measured: {error}"


def files_below(folders):
    found = {}
    for folder in folders:
        for where, _, names in os.walk(folder):
            for name in names:
                if name.endswith(CODE + SCRIPTS):
                    path = os.path.join(where, name).replace(os.sep, "/")
                    with open(path, encoding="utf-8") as file:
                        found[path] = file.read()
    return found


def main():
    files = files_below(FOLDERS)
    wrong = [line for path, text in sorted(files.items()) for line in too_long(path, text)]
    print("\n".join(wrong) if wrong else f"{len(files)} files can be read")
    return 1 if wrong else 0


def lengths_in(text):
    return [(name, first, lines) for name, _, first, lines in functions(text)]


def test_functions():
    """Heads, bodies, and what only looks like them."""
    assert lengths_in("int f(int a,\n      int b)\n{\n    return a + b;\n}\n") == [("f", 1, 5)]
    assert lengths_in("/* { */ int x[] = {1, 2};\nstruct s {\n    int (*call)(int);\n};\n"
                      "int f(void) { return 1; }\n") == [("f", 5, 1)]
    assert lengths_in("#define M(x) do { \\\n        x; \\\n    } while (0) {{\n"
                      "void f(void)\n{\n    M('{');\n}\n") == [("f", 4, 4)]
    assert lengths_in('void f(void)\n{\n    g("}");\n    if (1) {\n        h();\n    }\n}\n'
                      "void g(void) {}\n") == [("f", 1, 7), ("g", 8, 1)]
    assert lengths_in("static T NAME(f)(int x)\n{\n}\n") == [("f", 1, 3)]
    assert lengths_in("__attribute__((format(printf, 1, 2)))\nint f(const char *s, ...)\n{\n}\n") == [("f", 2, 3)]
    assert lengths_in("BUILD(a, b(c))\nint f(void)\n{\n}\n") == [("f", 2, 3)]
    assert lengths_in('extern "C" {\nnamespace n {\nstruct s {\n    template <int N> int f(int x) const\n    {\n'
                      "        return [x]() { return N + x; }();\n    }\n    ~s() {}\n};\n}\n}\n") == [
        ("f", 4, 4), ("~s", 8, 1)]
    assert lengths_in("table t[] = {{1, [](int x) { return x; }}}; // {\nint f(void)\n{\n}\n") == [("f", 2, 3)]
    for text in ("int f(void) {", "}"):
        assert list(too_long("src/a.c", text))[0].startswith("src/a.c cannot be measured")


def test_too_long():
    """At the number, and one line beyond."""
    def of(path, head, lines):
        return list(too_long(path, f"{head}\n{{\n" + "    x();\n" * (lines - 3) + "}\n"))

    assert of("src/a.c", "void f(void)", 50) == []
    assert of("src/a.c", "void f(void)", 51) == ["src/a.c:1: f has 51 lines, at most 50 can be read"]
    assert of("tests/a.c", "void f(void)", 51) == []
    assert of("src/kernels/a.inc", "void f(void)", 80) == [] != of("src/kernels/a.inc", "void f(void)", 81)
    assert of("src/cuda/a.cuh", "__device__ void f()", 80) == [] != of("src/cuda/a.cuh", "void f()", 80)
    assert list(too_long("tests/a.py", "x\n" * 500)) == []
    assert list(too_long("tests/a.py", "x\n" * 501)) == ["tests/a.py has 501 lines, at most 500 can be read"]


if __name__ == "__main__":
    if sys.argv[1:] not in ([], ["--self-test"]):
        sys.exit(__doc__)
    if sys.argv[1:]:
        test_functions()
        test_too_long()
        sys.exit(0)
    sys.exit(main())
