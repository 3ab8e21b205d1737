#!/bin/sh
# tags: board needs:aarch64-linux-gnu-gcc,aarch64-linux-gnu-nm,qemu-system-aarch64
# test_bare.sh - examples/bare: on a board without operating system, files and allocator the network computes what it
# computes on a workstation, bit by bit, and says so when it does not. The board is QEMU's `virt`. `make bare` runs it.
set -u
BUILD="${BUILD:-build}" MAKE="${MAKE:-make}"
. tests/checks.sh
scratch bare
# What the make that calls this says of its own build.
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL CC CXX AR RUN CFLAGS CPPFLAGS LDFLAGS SANITIZE CUDA
at="$BUILD/aarch64" bare="$BUILD/aarch64/bare" shown=30

# What the library asks of a C library where there is no POSIX: no more than this has to be there.
ALLOWED='memcmp memcpy memmove memset strcmp strlen snprintf vsnprintf
    acosf asinf atanf ceilf cosf erff exp2 exp2f expf fabs fabsf floorf logf pow powf rintf sinf sqrtf tanf tanhf'

asks_no_more() { # OBJECT
    aarch64-linux-gnu-nm -u "$1" >"$work/undefined" && [ -s "$work/undefined" ] || return 1
    awk -v allowed="$ALLOWED" 'BEGIN { split(allowed, names, /[ \n]+/); for (i in names) known[names[i]] = 1 }
        !($NF in known) { print "refers to " $NF; bad = 1 } END { exit bad }' "$work/undefined"
}

scalar_asks_no_more() {
    aarch64-linux-gnu-gcc -std=c11 -O1 -mno-outline-atomics -DBS_NO_POSIX -DBS_NO_SIMD -c brainstorm.c \
        -o "$work/scalar.o" && asks_no_more "$work/scalar.o"
}

builds() {
    $MAKE --no-print-directory TARGET_ARCH=aarch64 BUILD="$at" bare-board "$at/brainstorm"
}

# board CODE MODEL, two banks of flash: what it says goes to $work/said; its status. Time is what instructions take, so
# that it does not depend on this machine; only a board that hangs is stopped.
board() {
    timeout -k 5 900 qemu-system-aarch64 -M virt -cpu cortex-a53 -m 8M -nic none -display none -monitor none \
        -serial stdio -icount shift=0,sleep=off -semihosting-config enable=on,target=native \
        -drive if=pflash,unit=0,format=raw,readonly=on,file="$1" \
        -drive if=pflash,unit=1,format=raw,readonly=on,file="$2" </dev/null >"$work/said" 2>&1
}

ends_with() { # STATUS CODE MODEL
    board "$2" "$3"
    status=$?
    cp "$work/said" "$work/message"
    [ "$status" -eq "$1" ] || { echo "ended with $status" >>"$work/message"; return 1; }
}

says() { # PATTERN
    grep -qE "$1" "$work/said"
}

# The workstation's text stands in what the board said, whole.
says_the_text() {
    [ -s "$bare/expected.txt" ] && awk -v text="$(cat "$bare/expected.txt")" '
        { said = said $0 "\n" } END { exit index(said, text "\n") == 0 }' "$work/said"
}

no_planner() {
    aarch64-linux-gnu-nm "$bare/board.elf" >"$work/symbols" && grep -q ' bs_plan_open$' "$work/symbols" &&
        ! grep ' bs_plan_create$' "$work/symbols"
}

# NAME of a model: its plan for the board's processor, byte counts and kernels, made on this machine and on the board's.
plans_alike() {
    "$BUILD/brainstorm" plan "models/$1.gguf" --tier neon >"$work/here" 2>&1 &&
        $run "$at/brainstorm" plan "models/$1.gguf" --tier neon >"$work/there" 2>&1 &&
        diff "$work/here" "$work/there" >"$work/message"
}

# This machine cannot run the plan that it makes for the board, unless it is of its kind.
saves_alike() {
    "$BUILD/bare_workstation" models/moe_text.gguf "$work/plan.image" >"$work/message" 2>&1
    cmp "$work/plan.image" "$bare/plan.image" >>"$work/message" 2>&1
}

# damage BANK BYTE TEXT: its copy in $work, with TEXT written there.
damage() {
    cp --sparse=always "$bare/$1" "$work/$1" &&
        printf %s "$3" | dd of="$work/$1" bs=1 seek="$2" conv=notrunc status=none
}

# WHAT: the number in front of it, from what the board said, is above 0.
counted() {
    [ "$(sed -n "s/.* \([0-9]*\) $1.*/\1/p" "$work/said")" -gt 0 ]
}

check "the library without SIMD asks only for what a board can have" scalar_asks_no_more
run=
if [ "$(uname -m)" != aarch64 ]; then
    run=$(command -v qemu-aarch64-static || command -v qemu-aarch64) || {
        skip "the board (no qemu-aarch64 to run the workstation's program with)"
        check_end
        exit
    }
fi
log="$work/build.log"
check "board and workstation build; the workstation has run" builds
log=
[ "$failed" -eq 0 ] || { check_end; exit 1; }

check "the board's library asks only for what a board can have" asks_no_more "$bare/brainstorm.o"
check "it plans nothing: the plan lies in flash" no_planner
check "the board computes what the workstation does" ends_with 0 "$bare/flash0.img" "$bare/flash1.img"
cp "$work/said" "$work/board.txt"
check "it writes the same text" says_the_text
check "experts are read when they are needed" counted missed
check "they are read while the network computes" counted 'of them used'

for model in sr2x moe_text; do
    check "a workstation of another processor plans $model alike" plans_alike $model
done
check "and saves the board's plan byte by byte" saves_alike

damage flash1.img 3000000 '<<<<<<<<<<<<<<<<' || exit 1
check "a damaged expert is noticed" ends_with 1 "$bare/flash0.img" "$work/flash1.img"
check "by its sum" says '^sum '
plan=$(sed -n 's/ . plan_image$//p' "$work/symbols")
damage flash0.img $((0x$plan + 1000)) '<<<<' || exit 1
check "a damaged plan is refused" ends_with 1 "$work/flash0.img" "$bare/flash1.img"
check "which is told" says '^opening: .*malformed'
: >"$work/flash1.img" && truncate -s "$(wc -c <"$bare/flash1.img")" "$work/flash1.img" || exit 1
check "empty flash is an error" ends_with 1 "$bare/flash0.img" "$work/flash1.img"
check "which is told, too" says '^opening: .*malformed'

check_end
