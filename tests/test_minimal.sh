#!/bin/sh
# tags: asan shipped aarch64 32-bit
# test_minimal.sh - the smallest program does what it says, and is the same in the header, the README and examples/.
set -u
BUILD="${BUILD:-build}" RUN="${RUN:-}"
. tests/checks.sh
scratch minimal

says() { # EXPECTED COMMAND...
    expected=$1
    shift
    "$@" >"$work/said" 2>&1 && [ "$(cat "$work/said")" = "$expected" ]
}

# What stands between the title and the next one, without the comment's frame; then between the code fences.
sed -n '/^ \* SMALLEST COMPLETE PROGRAM/,/^ \* CONCEPTS/p' brainstorm.h | sed '1,2d; $d' |
    sed '$d; s/^ \* \{0,5\}//; s/^ \*$//' >"$work/header.c"
awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' README.md >"$work/readme.c"

check "the program routes two patches each way" says "patches through 0, 1 and 4 layers: 2, 2, 2" $RUN "$BUILD/minimal"
check "brainstorm.h shows examples/minimal.c" cmp "$work/header.c" examples/minimal.c
check "README.md shows examples/minimal.c" cmp "$work/readme.c" examples/minimal.c

check_end
