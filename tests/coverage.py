"""coverage.py REPORT.json [FILE...] - the tables of `make coverage`, from what gcovr read.

Without FILEs: a line per file and per group, and what must hold of a group ($PARTIAL: only some tests ran, nothing must).
With FILEs: each branch of these that no test took, with its line.
A line marked `/* unreachable: why */` is left out, with its branches, and listed.
"""
import fnmatch
import json
import os
import sys

# Which of src/ must have all branches taken: what turns bytes of strangers into structures, and what owns memory for them.
GROUPS = {
    "loader": ["src/cursor.[ch]", "src/gguf.[ch]", "src/model*.[ch]", "src/weights.[ch]"],
    "planner": ["src/plan*.[ch]", "src/device_plan.c"],
    "store": ["src/store*.[ch]", "src/stream*.[ch]"],
    "all": ["src/*"],
}
NOT_PLANNER = ["src/platform*"]
WANTED = {"loader": 100.0, "planner": 100.0, "store": 100.0, "all": 90.0}


def members(group, names):
    found = [n for n in names if any(fnmatch.fnmatch(n, pattern) for pattern in GROUPS[group])]
    return [n for n in found if group == "all" or not any(fnmatch.fnmatch(n, p) for p in NOT_PLANNER)]


def source_lines(name):
    with open(name, encoding="utf-8") as file:
        return file.read().splitlines()


class Counted:
    """Lines and branches of one file: taken, all, and what is left."""

    def __init__(self, record):
        lines = [line for line in record["lines"] if not line.get("gcovr/noncode")]
        self.lines = len(lines)
        self.lines_run = sum(line["count"] > 0 for line in lines)
        self.left = []  # (line, branch, of how many)
        self.branches = 0
        for line in lines:
            branches = line["branches"]
            self.branches += len(branches)
            self.left += [(line["line_number"], i + 1, len(branches)) for i, b in enumerate(branches) if b["count"] == 0]
        self.not_run = [line["line_number"] for line in lines if line["count"] == 0]


def percent(part, whole):
    return 100.0 * part / whole if whole else 100.0


def ranges(numbers):
    """1 2 3 7 -> 1-3 7"""
    runs = []
    for number in sorted(set(numbers)):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return " ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in runs)


def row(name, counted, shown=""):
    run, lines = sum(c.lines_run for c in counted), sum(c.lines for c in counted)
    branches, left = sum(c.branches for c in counted), sum(len(c.left) for c in counted)
    print(f"{name:28} {run:5}/{lines:<5} {percent(run, lines):6.1f} % {branches - left:6}/{branches:<6}"
          f" {percent(branches - left, branches):6.1f} %  {shown}".rstrip())
    return branches - left, branches


def list_marked(names):
    marked = [(name, i + 1, line.strip()) for name in names for i, line in enumerate(source_lines(name))
              if "/* unreachable: " in line]
    print(f"\n{len(marked)} lines marked unreachable{':' if marked else ''}")
    for name, number, line in marked:
        print(f"  {name}:{number}: {line}")


def list_left(name, counted):
    lines = source_lines(name)
    for number, branch, of in counted.left:
        print(f"{name}:{number}: branch {branch} of {of} not taken: {lines[number - 1].strip()}")
    with_branches = {number for number, _, _ in counted.left}
    for number in counted.not_run:
        if number not in with_branches:
            print(f"{name}:{number}: not run: {lines[number - 1].strip()}")


def judge(files):
    passed = failed = 0
    print()
    for group, wanted in WANTED.items():
        counted = [files[n] for n in members(group, files)]
        taken, branches = row(group, counted)
        # counted in branches: 100 % is every one
        held = branches > 0 and taken * 100 >= wanted * branches
        passed, failed = passed + held, failed + (not held)
        print(f"{'ok  ' if held else 'FAIL'} {group}: {wanted:.0f} % of branches wanted, {branches - taken} not taken")
    if os.environ.get("TESTS_FAILED", "0") == "0":
        passed += 1
        print("ok   the tests pass")
    else:
        failed += 1
        print("FAIL the tests pass")
    print(f"{passed} passed, {failed} failed")
    return failed


def main():
    with open(sys.argv[1], encoding="utf-8") as report:
        files = {record["file"]: Counted(record) for record in json.load(report)["files"]}
    chosen = sys.argv[2:]
    for name in chosen:
        if name not in files:
            sys.exit(f"{name} has no lines that count")
        row(name, [files[name]])
        list_left(name, files[name])
    if chosen:
        return 0
    print(f"\n{'':28} {'lines run':>20} {'branches taken':>22}  with branches not taken")
    for name in sorted(files):
        row(name, [files[name]], ranges(number for number, _, _ in files[name].left))
    list_marked(sorted(files))
    if os.environ.get("PARTIAL"):
        print()
        for group in GROUPS:
            row(group, [files[n] for n in members(group, files)])
        return 0
    return judge(files) != 0


sys.exit(main())
