"""coverage.py COUNTED.json [FILE...] [--unmarked OUT.json] - the tables of `make coverage`, from what gcovr read.

Without FILEs: a line per file and per group, and what must hold of a group ($PARTIAL: only some tests ran, nothing
must). With FILEs: each branch of these that no test took, with its line.

A comment `/* unreachable: why */` on a line leaves out those of its branches that were not taken; it is listed, and one
that leaves out nothing is a failure: then the line is reached after all. --unmarked writes what is left, for the HTML.
"""
import fnmatch
import json
import os
import sys

# Which of src/ must have all branches taken: what turns bytes of strangers into structures, and what owns memory for
# them.
GROUPS = {
    "loader": (100, ["src/base/cursor.[ch]", "src/model/*", "src/ops/weights.[ch]"]),
    "planner": (100, ["src/plan/*", "src/run/device_layout.c", "src/run/report.c"]),
    "store": (100, ["src/stream/[!r]*"]),
    "all": (90, ["src/*"]),  # that is counted at all: without kernels, without CUDA
}
MARK = "/* unreachable: "


class Counted:
    """One file: its lines, its branches, and what the tests left out."""

    def __init__(self, record):
        self.name = record["file"]
        with open(self.name, encoding="utf-8") as file:
            self.source = file.read().splitlines()
        self.marks = {i + 1: 0 for i, line in enumerate(self.source) if MARK in line}
        self.lines = self.lines_run = self.branches = 0
        self.left = []  # (line, branch, of how many)
        self.not_run = []
        for line in record["lines"]:
            if not line["gcovr/noncode"]:
                self.add(line, line["line_number"])
        self.marks_in_vain = [number for number, branches in self.marks.items() if branches == 0]

    def add(self, line, number):
        not_taken = [i for i, branch in enumerate(line["branches"]) if branch["count"] == 0]
        of = len(line["branches"])
        if number in self.marks:
            self.marks[number] += len(not_taken) or (line["count"] == 0)
            line["branches"] = [branch for branch in line["branches"] if branch["count"] > 0]
            line["gcovr/noncode"] = line["count"] == 0
            not_taken = []
        self.lines += not line["gcovr/noncode"]
        self.lines_run += line["count"] > 0
        self.branches += len(line["branches"])
        self.left += [(number, i + 1, of) for i in not_taken]
        if line["count"] == 0 and number not in self.marks:
            self.not_run.append(number)


def members(group, files):
    patterns = GROUPS[group][1]
    return [c for name, c in sorted(files.items()) if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


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
    branches = sum(c.branches for c in counted)
    taken = branches - sum(len(c.left) for c in counted)
    print(f"{name:28} {run:5}/{lines:<5} {percent(run, lines):6.1f} % {taken:6}/{branches:<6}"
          f" {percent(taken, branches):6.1f} %  {shown}".rstrip())
    return taken, branches


def list_left(counted):
    """What a writer of tests wants to know."""
    with_branches = {number for number, _, _ in counted.left}
    found = [(number, f"branch {branch} of {of} not taken") for number, branch, of in counted.left]
    found += [(number, "not run") for number in counted.not_run if number not in with_branches]
    found += [(number, "marked unreachable, but reached") for number in counted.marks_in_vain]
    for number, what in sorted(found):
        print(f"{counted.name}:{number}: {what}: {counted.source[number - 1].strip()}")


def list_marked(files):
    marked = [(c, number) for c in files for number in sorted(c.marks)]
    print(f"\n{len(marked)} lines marked unreachable, {sum(c.marks[n] for c, n in marked)} branches of theirs left out")
    for c, number in marked:
        print(f"  {c.name}:{number}: {c.source[number - 1].strip()}")


def judge(files):
    """What must hold, a line each."""
    results = []
    for group, (wanted, _) in GROUPS.items():
        taken, branches = row(group, members(group, files))
        results.append((branches > 0 and taken * 100 >= wanted * branches,
                        f"{group}: {wanted} % of its branches are taken ({branches - taken} are not)"))
    in_vain = [f"{c.name}:{number}" for c in members("all", files) for number in c.marks_in_vain]
    results.append((not in_vain, f"what is marked unreachable is not reached {' '.join(in_vain)}".rstrip()))
    results.append((os.environ.get("TESTS_FAILED", "0") == "0", "the tests pass"))
    print()
    for held, promise in results:
        print("ok  " if held else "FAIL", promise)
    failed = sum(not held for held, _ in results)
    print(f"{len(results) - failed} passed, {failed} failed")
    return failed != 0


def main():
    chosen, unmarked = sys.argv[2:], None
    if "--unmarked" in chosen:
        unmarked = chosen.pop(chosen.index("--unmarked") + 1)
        chosen.remove("--unmarked")
    with open(sys.argv[1], encoding="utf-8") as file:
        report = json.load(file)
    files = {record["file"]: Counted(record) for record in report["files"]}
    if unmarked:
        with open(unmarked, "w", encoding="utf-8") as file:
            json.dump(report, file)
    for name in chosen:
        if name not in files:
            sys.exit(f"{name} has no lines that count")
        row(name, [files[name]])
        list_left(files[name])
    if chosen:
        return 0
    print(f"\n{'':28} {'lines run':>20} {'branches taken':>22}  lines with branches not taken")
    for counted in members("all", files):
        row(counted.name, [counted], ranges(number for number, _, _ in counted.left))
    list_marked(members("all", files))
    print()
    if os.environ.get("PARTIAL"):
        for group in GROUPS:
            row(group, members(group, files))
        return 0
    return judge(files)


sys.exit(main())
