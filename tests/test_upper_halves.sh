#!/bin/sh
# tags: needs:objdump
# test_upper_halves.sh - no kernel for AVX2 leaves the upper halves of vector registers in use. Compilers give a
# function that takes or returns a vector no vzeroupper: it must be inlined, or what follows it, compiled for SSE, takes
# many times as long.
set -u
BUILD="${BUILD:-build}"
. tests/checks.sh
scratch upper_halves
object="$work/conv_avx2.o"

# Every function that uses a vector of 256 bits or more has a vzeroupper. bs_conv_of_channels gives a vector to kernels
# that do.
cleared() {
    objdump -d --no-show-raw-insn "$object" | awk '
        function judge() { if (uses && !clears && name !~ /of_channels/) { print name; wrong++ } seen += uses }
        /^[0-9a-f]+ <.*>:$/ { judge(); name = $2; uses = clears = 0 }
        /%[yz]mm/ { uses = 1 }
        /vzeroupper/ { clears = 1 }
        END { judge(); exit wrong > 0 || seen == 0 }'
}

# The kernels of a build as users make it are all in one object; other builds tell nothing of what is shipped.
unit="$BUILD/obj/unit_kernels.o"
if [ -f "$unit" ] && grep -q -- ' | -O3 | ' "$BUILD/flags" && ! grep -q -- -fsanitize "$BUILD/flags"; then
    object=$unit
elif ! ${CC:-cc} -std=c11 -O3 -I. -Isrc -c src/kernels/conv_avx2.c -o "$object" 2> "$work/message"; then
    object=
fi
if [ -z "$object" ] || ! objdump -f "$object" | grep -q x86-64; then
    echo 'skipped: no kernels for AVX2 here'
    echo '0 passed, 0 failed, 1 skipped'
    exit 0
fi
log="$work/message"
check 'functions with vectors of 256 bits clear their upper halves' cleared
check_end
