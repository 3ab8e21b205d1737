#!/bin/sh
# tags: long needs:gcc,objdump
# test_fused.sh - no compiler rounds a product and a sum once where the source does not say so: brainstorm.c without
# SIMD, compiled by what each takes as its own standard for processors that multiply and add at once, has as many fused
# instructions as where it is told to contract nothing.
set -u
BUILD="${BUILD:-build}"
. tests/checks.sh
scratch fused

# fused OBJDUMP COMPILER...: how many instructions of its object are fused.
fused() {
    dump=$1
    shift
    "$@" -DBS_NO_SIMD -O2 -I. -c brainstorm.c -o "$work/o.o" 2>"$work/message" || return
    "$dump" -d --no-show-raw-insn "$work/o.o" | grep -cE '[[:space:]](v?fn?m(add|sub)|fml[as])'
}

as_meant() { # OBJDUMP COMPILER...
    found=$(fused "$@" -std=gnu17) meant=$(fused "$@" -std=c11 -ffp-contract=off)
    echo "$found, meant are $meant" >"$work/message"
    [ -n "$found" ] && [ "$found" = "$meant" ]
}

if objdump -i 2>/dev/null | grep -q x86-64; then
    check 'gcc for haswell' as_meant objdump gcc -march=haswell
    if have clang; then
        check 'clang for haswell' as_meant objdump clang -march=haswell
    else
        skip 'clang for haswell: there is no clang'
    fi
else
    skip 'haswell: objdump knows no x86-64'
fi
if have aarch64-linux-gnu-gcc; then
    check 'gcc for AArch64' as_meant aarch64-linux-gnu-objdump aarch64-linux-gnu-gcc
else
    skip 'gcc for AArch64: there is no cross compiler'
fi
check_end
