"""callgraph.py CI LL - whether anything in the library can call itself. `make lint` calls it.

CI is what gcc's -fcallgraph-info=su says of brainstorm.c, LL the same source as typed LLVM IR (clang before 15). Direct
calls are the compiler's own list. A call through a pointer may reach every function of exactly that type whose address
is taken anywhere: more than it does, never less (callbacks of the library's users apart, which must not call back).
Says which tables of pointers there are, and every cycle; a cycle must be in BOUNDED, with what bounds it.
"""
import re
import sys
from collections import defaultdict

# name of a function in a cycle: what bounds its depth. Whole cycles are listed: each member must be here.
BOUNDED = {}


def cycles(graph):
    """Strongly connected components that hold a cycle (Tarjan, without recursion)."""
    index, low, on, stack, found = {}, {}, set(), [], []
    for root in list(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, edges = work[-1]
            for to in edges:
                if to not in index:
                    index[to] = low[to] = len(index)
                    stack.append(to)
                    on.add(to)
                    work.append((to, iter(sorted(graph.get(to, ())))))
                    break
                if to in on:
                    low[node] = min(low[node], index[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    members = []
                    while not members or members[-1] != node:
                        members.append(stack.pop())
                        on.discard(members[-1])
                    if len(members) > 1 or node in graph.get(node, ()):
                        found.append(sorted(members))
    return found


# --- gcc's list -------------------------------------------------------------------------------------------------------

def read_ci(path):
    """Direct calls, the functions that call through pointers, and each frame's bytes."""
    graph, indirect, frame = defaultdict(set), set(), {}
    for line in open(path, encoding="utf-8"):
        edge = re.match(r'edge: { sourcename: "(?:[^"]*:)?([^":]+)" targetname: "(?:[^"]*:)?([^":]+)"', line)
        node = re.match(r'node: { title: "(?:[^"]*:)?([^":]+)" label: "[^"]*\\n(\d+) bytes', line)
        if edge and edge[2] == "__indirect_call":
            indirect.add(edge[1])
        elif edge:
            graph[edge[1]].add(edge[2])
        elif node:
            frame[node[1]] = int(node[2])
    return graph, indirect, frame


# --- clang's types ----------------------------------------------------------------------------------------------------

def split_top(text):
    """a, b(c, d), e at its outer commas"""
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{<") - (c in ")]}>")
        if c == "," and depth == 0:
            parts.append(text[last:i])
            last = i + 1
    return [p.strip() for p in parts + [text[last:]] if p.strip()]


def balanced(text, start):
    """Past the bracket that opens at start."""
    depth = 0
    for i in range(start, len(text)):
        depth += (text[i] in "([{<") - (text[i] in ")]}>")
        if depth == 0:
            return i + 1
    return len(text)


def type_of(text):
    """The type that a parameter or argument begins with."""
    at = balanced(text, 0) if text[0] in "[{<" else re.match(r"[%\w.]+", text).end()
    while True:
        if text.startswith("*", at):
            at += 1
        elif text.startswith(" (", at):
            at = balanced(text, at + 1)
        else:
            return text[:at]


ATTRIBUTES = (r"(?:(?:dso_local|internal|hidden|noundef|zeroext|signext|nonnull|noalias|available_externally|"
              r"linkonce_odr|nocapture) +)*")


def signature(line, before, at):
    """ret(parameters) of `before TYPE callee(`, where the bracket opens at `at`."""
    result = re.sub("^" + ATTRIBUTES, "", before.strip())
    parameters = [type_of(p) if p != "..." else p for p in split_top(line[at + 1:balanced(line, at) - 1])]
    return f"{type_of(result)}({', '.join(parameters)})"


def read_ll(path):
    """Types of functions, who calls through pointers of which types, and whose address stands where."""
    types, callers, taken = {}, defaultdict(set), defaultdict(set)
    current = None
    for line in open(path, encoding="utf-8"):
        line = re.sub(r'c"(?:[^"\\]|\\.)*"', "", line.rstrip())
        define = re.match(r"(define|declare) (.*?)@([\w.]+)(\()", line)
        if define:
            types[define[3]] = signature(line, define[2], define.start(4))
            current = define[3] if define[1] == "define" else None
            continue
        call = re.search(r"\bcall (.*?)([%@][\w.]+)\(", line)
        callee = None
        if call and " asm " not in line:
            # the type may hold brackets of its own: the callee is what stands before the last bracket on that level
            callee = re.search(r"\bcall ((?:fastcc )?.*?)\s([%@][\w.]+)(\()", line)
            if callee and callee[2][0] == "%" and current and not callee[2].startswith(("%struct", "%union")):
                callers[signature(line, callee[1], callee.start(3))].add(current)
        named = set(re.findall(r"@([\w.]+)", line if not callee or callee[2][0] != "@"
                               else line[:callee.start(2)] + line[callee.end(2):]))
        where = current or (re.match(r"@([\w.]+) =", line) or [None, "?"])[1]
        for name in named - {where}:
            taken[name].add(where)
    return types, callers, taken


# --- both -------------------------------------------------------------------------------------------------------------

def deepest(graph, frame):
    """Bytes and chain of the deepest stack, in a graph without cycles."""
    order, seen = [], set()
    for root in graph:
        work = [(root, iter(graph[root]))] if root not in seen else []
        seen.add(root)
        while work:
            node, edges = work[-1]
            for to in edges:
                if to not in seen:
                    seen.add(to)
                    work.append((to, iter(graph.get(to, ()))))
                    break
            else:
                order.append(node)
                work.pop()
    best = {}
    for node in order:
        below = max((best.get(to, (0, ())) for to in graph.get(node, ()) if to != node), default=(0, ()))
        best[node] = (below[0] + frame.get(node, 0), (node,) + below[1])
    return max(best.values())


def judge(name, found):
    bad = [members for members in found if not all(m in BOUNDED for m in members)]
    for members in found:
        print(f"  cycle: {' '.join(members)}: {BOUNDED.get(members[0], 'not bounded by anything known')}")
    print(f"{'FAIL' if bad else 'ok  '} {name}: {len(found)} cycles, {len(bad)} of them unbounded")
    return not bad


def main():
    graph, indirect, frame = read_ci(sys.argv[1])
    print(f"{len(frame)} functions, {sum(len(to) for to in graph.values())} direct calls")
    held = [judge("calls by name", cycles(graph))]
    if len(sys.argv) > 2:
        types, callers, taken = read_ll(sys.argv[2])
        print("calls through pointers: type, callers, what they can reach")
        resolved = set()
        for kind, who in sorted(callers.items()):
            reach = [f for f in taken if types.get(f) == kind and f in frame]
            tables = sorted({t for f in reach for t in taken[f]})
            to = "the caller's"
            if reach:
                to = f"{len(reach)} functions named in {' '.join(tables[:6])}{' ...' if len(tables) > 6 else ''}"
            print(f"  {kind}\n    from {' '.join(sorted(who))}\n    to {to}")
            resolved |= who
            for f in who:
                graph[f] |= set(reach)
        missing = sorted(indirect - resolved)
        line = f"all {len(indirect)} functions that call through pointers are typed {' '.join(missing)}"
        print(f"{'FAIL' if missing else 'ok  '} {line}".rstrip())
        found = cycles(graph)
        held += [not missing, judge("calls by name or through a pointer of a function's type", found)]
        if not found:
            bytes_, chain = deepest(graph, frame)
            print(f"  deepest stack, unoptimized: {bytes_} bytes: {' > '.join(chain)}")
    print(f"{sum(held)} passed, {len(held) - sum(held)} failed")
    return not all(held)


sys.exit(main())
