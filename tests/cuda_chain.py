#!/usr/bin/env python3
"""cuda_chain.py MOST NAMES SASS - how many reads of memory wait for one another before a kernel has its first data.

A block finds its work in tables: it reads an address, then what is there. Each read takes as long as the L2 cache does,
and a kernel that has little to do does little else. This counts them in what `cuobjdump -sass` prints: for each kernel
the longest row of reads each of which waits for the one before, be it for its address or for a branch, on the way
through the code that has the fewest. Loops are gone through once; what is read from shared memory is as late as the
latest that was written there; what is written under a condition, as the later of what it was and is.

Data are read through addresses that tables hold, so where the compiler does not know whose memory it is (LD), to
shared memory (LDGSTS), or as constants (CONSTANT); tables are read through the kernel's arguments (LDG). What lies at
an address that is used as it was read belongs to a table, too. A kernel without such a read is listed, but not judged.

Prints a table: reads to the first data, and to the last read of all. Fails where the first is more than MOST. NAMES:
lines `number name`, the kernels. `cuda_chain.py --self-test`: whether it counts as it says."""
import re
import sys

READS = ("LD", "LDG", "LDL", "LDGSTS", "ATOM", "ATOMG")
WRITES = ("ST", "STG", "STS", "STL", "RED", "LDGSTS")
LEAVES = ("BRA", "BRX", "EXIT", "RET", "BREAK")
SHARED, CONTROL = "shared", "control"  # have a depth, as registers do
REGISTER = re.compile(r"\b(U?[RP])(\d+)\b(\.64)?")


def functions(lines):
    """{function: [(address, instruction)]}"""
    found, code = {}, None
    for line in lines:
        name = re.search(r"Function : (\S+)", line)
        instruction = re.match(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", line)
        if name:
            code = found.setdefault(name.group(1), [])
        elif instruction and code is not None:
            code.append((int(instruction.group(1), 16), instruction.group(2)))
    return found


def count_written(op, operands):
    """How many of its operands an instruction writes: they come first. One register, and predicates around it."""
    if op in WRITES or op in LEAVES or op in ("BSSY", "BSYNC", "BAR", "WARPSYNC", "CALL"):
        return 0
    if op.endswith(("SETP", "PLOP3")) or op in ("SHFL", "VOTE", "VOTEU"):
        return 2
    count, register = 0, False
    for operand in operands:
        plain = re.fullmatch(r"U?(R|P)(\d+|Z|T)", operand)
        if not plain or (plain.group(1) == "R" and register):
            break
        register = register or plain.group(1) == "R"
        count += 1
    return count


class Instruction:
    def __init__(self, text):
        guard, name, rest = re.match(r"(?:@!?(U?P\w+)\s+)?(\S+)\s*(.*)", text).groups()
        self.name, self.op = name, name.split(".")[0]
        wide = 4 if ".128" in name else 2 if re.search(r"\.64|\.WIDE", name) else 1
        operands = [operand.strip() for operand in rest.split(",")]
        written = count_written(self.op, operands)
        self.writes = [kind + str(int(number) + k) for operand in operands[:written]
                       for kind, number, _ in REGISTER.findall(operand)
                       for k in range(wide if kind.endswith("R") else 1)]
        self.uses = [kind + str(int(number) + k) for operand in operands[written:]
                     for kind, number, pair in REGISTER.findall(operand) for k in range(2 if pair else 1)]
        self.guards = [guard] if guard else []
        target = re.search(r"\b0x([0-9a-f]+)", rest)
        self.target = int(target.group(1), 16) if self.op in ("BRA", "CALL") and target else None
        self.always = not guard and not (self.op == "BRA" and self.uses)
        address = re.search(r"\[(?:R\d+\.U32\+)?R(\d+)", rest)
        self.address = "R" + address.group(1) if address and self.op in READS else None
        self.of_data = self.op in ("LD", "LDGSTS") or (self.op == "LDG" and "CONSTANT" in name)


def join(one, other):
    """What is known where two ways meet: of each the sooner; but of shared memory the later, as other threads may go
    that way. What is not known on one of them has no value there."""
    if one is None or other is None:
        return one or other
    depths = {name: (max if name == SHARED else min)(one[0].get(name, depth), depth)
              for name, depth in other[0].items()}
    return {**one[0], **depths}, one[1] | other[1]


def reads_in_line(code):
    """(to the first data or None, to the last read) of [(address, instruction)]."""
    waiting, here = {}, ({}, set())  # at addresses further on; (depths, registers that hold an address as it was read)
    first, last = None, 0
    for address, text in code:
        here = join(here, waiting.pop(address, None))
        if here is None:
            continue
        depths, raw = here
        i = Instruction(text)
        depth = max([depths.get(name, 0) for name in i.guards + i.uses + [CONTROL]])
        if i.op == "CALL" and i.target is not None and i.target > address:
            waiting[i.target] = join(waiting.get(i.target), (depths, raw))
            continue
        if i.op in LEAVES:
            depths = {**depths, CONTROL: depth}
            if i.target is not None and i.target > address:
                waiting[i.target] = join(waiting.get(i.target), (depths, raw))
            here = None if i.always else (depths, raw)
            continue
        if i.op == "LDS":
            depth = max(depth, depths.get(SHARED, 0))
        if i.op in READS:
            depth += 1
            last = max(last, depth)
            if i.of_data and i.address not in raw and (first is None or depth < first):
                first = depth
        if i.op in ("STS", "LDGSTS"):
            depths = {**depths, SHARED: max(depth, depths.get(SHARED, 0))}
        kept = i.op in READS + ("LDS",) or (i.op == "MOV" and i.uses and i.uses[0] in raw)
        made = {name: max(depth, depths.get(name, 0)) if i.guards else depth for name in i.writes}
        here = ({**depths, **made}, raw | set(i.writes) if kept else raw - set(i.writes))
    return first, last


def self_test():
    def told(*code):
        lines = ["\tFunction : k"] + ["        /*%04x*/  %s ;" % (16 * k, text) for k, text in enumerate(code)]
        return reads_in_line(functions(lines)["k"])

    address = "IADD3 R2, P0, R2, R9, RZ"
    data = "LD.E R4, desc[UR4][R2.64]"
    cases = {
        "each waits for the one before": (
            (3, 3), ("LDG.E.64 R2, desc[UR4][R8.64]", "LDG.E.64 R2, desc[UR4][R2.64]", address, data, "EXIT")),
        "two side by side": (
            (2, 2), ("LDG.E.64 R2, desc[UR4][R8.64]", "LDG.E R9, desc[UR4][R8.64]", address, data, "EXIT")),
        "a branch waits": (
            (2, 2), ("LDG.E R7, desc[UR4][R8.64]", "ISETP.NE.AND P1, PT, R7, RZ, PT", "@P1 BRA 0x50", address, data,
                     "EXIT")),
        "of two ways the shorter": (
            (1, 2), ("LDC.64 R2, c[0x0][0x210]", "LDG.E.64 R6, desc[UR4][R8.64]", "@P1 BRA 0x40",
                     "LDG.E.64 R2, desc[UR4][R6.64]", address, data, "EXIT")),
        "through shared memory": (
            (2, 2), ("LDG.E.64 R6, desc[UR4][R8.64]", "STS.64 [R1], R6", "LDS.64 R2, [R1]", address, data, "EXIT")),
        "from lane to lane": (
            (2, 2), ("LDG.E R6, desc[UR4][R8.64]", "SHFL.IDX PT, R2, R6, R5, 0x1f", address, data, "EXIT")),
        "in a function that is called": (
            (2, 2), ("LDG.E.64 R2, desc[UR4][R8.64]", "CALL.REL.NOINC 0x30", "EXIT", address, data,
                     "RET.REL.NODEC R20")),
        "under a condition": (
            (3, 3), ("LDG.E.64 R2, desc[UR4][R8.64]", "LDG.E.64 R2, desc[UR4][R2.64]", "@P1 MOV R2, RZ", address, data,
                     "EXIT")),
        "what is not data": (
            (None, 2), ("LDG.E.64 R2, desc[UR4][R8.64]", "LD.E R4, desc[UR4][R2.64+0x8]", "EXIT")),
        "copies to shared memory, and constants": (
            (1, 1), (address, "LDGSTS.E.128 [R5], desc[UR4][R2.64]", "LDG.E.CONSTANT R4, desc[UR4][R2.64]", "EXIT")),
    }
    wrong = [name for name, (wanted, code) in cases.items() if told(*code) != wanted]
    for name in wrong:
        print("%s: %s, wanted %s" % (name, told(*cases[name][1]), cases[name][0]))
    return 1 if wrong else 0


def main(most, names, sass):
    with open(names, encoding="ascii") as lines:
        kernels = dict(line.split() for line in lines)
    with open(sass, encoding="ascii") as lines:
        found = functions(lines)
    print("%-20s %12s %10s" % ("kernel", "first data", "last read"))
    seen, bad = 0, 0
    for function, code in sorted(found.items()):
        number = re.search(r"bs_cu_groupILi(\d+)E", function)
        if not number and "bs_cu_region" not in function:
            continue
        first, last = reads_in_line(code)
        seen += first is not None
        bad += first is not None and first > most
        name = kernels[number.group(1)] if number else "region"
        print("%-20s %12s %10d" % (name, "-" if first is None else first, last))
    print("%d kernels, %d have more than %d reads in line" % (seen, bad, most))
    return 0 if seen and not bad else 1


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(self_test())
    if len(sys.argv) != 4:
        sys.exit(__doc__.splitlines()[0])
    sys.exit(main(int(sys.argv[1]), sys.argv[2], sys.argv[3]))
