#!/bin/sh
# tags: plain
# test_bare_sums.sh - sums of sizes are checked because nothing else compiles: bare ones are planted, one at a time, and
# the compiler must refuse each. And the two ways out of the type stay where they are: its field in src/base/bytes.h
# alone, and figures (for messages and public structs) in no arithmetic. Wants only a compiler.
set -u
BUILD="${BUILD:-build}" CC="${CC:-cc}"
. tests/checks.sh
scratch bare_sums

# --- ways out ---------------------------------------------------------------------------------------------

sources() { find src -name '*.[ch]' -o -name '*.inc' -o -name '*.cuh' -o -name '*.cu'; }
inside='([^()]|\(([^()]|\(([^()]|\([^()]*\))*\))*\))*' # parentheses, some deep

field_elsewhere() { sources | grep -v '^src/base/bytes\.h$' | xargs grep -nE '\bunchecked\b'; }
# A double may be multiplied: what a read will take, in ns. The tables of a device are addresses: src/cuda.
figure_in_sum() {
    find src -name '*.[ch]' | grep -v '^src/cuda/' |
        xargs grep -nE "bs_bytes_figure\($inside\) *([-+*]|<<)|([-+*]|<<) *(\([a-z0-9_ ]+\))?bs_bytes_figure\(" |
        grep -v '(double)bs_bytes_figure'
}
none() { "$@" >"$work/message" && return 1 || return 0; }

check "the field of the type is touched in src/base/bytes.h alone" none field_elsewhere
check "figures are in no sum and no product" none figure_in_sum
printf 'uint64_t f(bs_bytes a) { return a.unchecked; }\n' >"$work/planted.txt"
check "a use of the field would be seen" grep -qE '\bunchecked\b' "$work/planted.txt"
printf 'uint64_t f(bs_bytes a) { return 4 * (size_t)bs_bytes_figure(g(a, b(c))); }\n' >"$work/planted.txt"
check "a figure in a product would be seen" grep -qE "([-+*]|<<) *(\([a-z0-9_ ]+\))?bs_bytes_figure\(" \
    "$work/planted.txt"

# --- bare sums --------------------------------------------------------------------------------------------

compiles() { $CC -std=c11 -fsyntax-only -I. -Isrc -I"$(dirname "$1")" -x c - <"$2"; }

# planted FILE SED: changed by SED, the file must not compile; as it is, it must.
planted() {
    sed -E "$2" "$1" >"$work/planted.c"
    if cmp -s "$1" "$work/planted.c"; then
        echo "its line changes nothing: $2" >"$work/message"
        fail "$1: $3"
    elif ! compiles "$1" "$1" >"$work/message" 2>&1 || compiles "$1" "$work/planted.c" >"$work/message" 2>&1; then
        fail "$1: $3"
    else
        ok "$1: $3 does not compile"
    fi
}

planted src/plan/facts.c \
    's/= bs_bytes_add\((p->kernel_scratch_offset), bs_bytes_align\((p->kernel_scratch_bytes)\)\);/= \1 + \2;/' \
    'a bare sum of a tile and a kernel'
planted src/plan/memory.c \
    's/= bs_bytes_times\((p->values\[value\].row_bytes), (p->values\[value\].rows)\);/= \1 * \2;/' \
    'a bare product of a row and rows'
planted src/plan/facts.c \
    's/bs_bytes_add\((np->prepared_offset), (np->prepared_bytes)\)/\1 + \2/' \
    'a bare end of weights'
planted src/plan/streamed.c \
    's/p->all_unit_bytes = bs_bytes_add\(p->all_unit_bytes, bytes\);/p->all_unit_bytes += bytes;/' \
    'units added up with +='
planted src/run/session_memory.c \
    's/bs_bytes_add\((plan->transient_bytes), bs_bytes_times\((plan->scratch_bytes), (plan->threads)\)\)/\1 + \2*\3/' \
    'a bare sum of the transient arena'
planted src/run/session_memory.c \
    's/bs_bytes_at\(s->transient, plan->transient_bytes\)/s->transient + plan->transient_bytes/' \
    'a bare step of a pointer'
planted src/run/device_layout.c 's/bs_bytes_put\(&inputs, bound_bytes\(plan, n\)\);/inputs += bound_bytes(plan, n);/' \
    "a bare sum of a device's bytes"
planted src/stream/store_plan.c 's/bs_bytes_add\(tensor->offset, tensor->bytes\)/tensor->offset + tensor->bytes/' \
    'a bare end of a tensor in storage'
planted src/stream/slots.c \
    's/bs_bytes_add\((s->slots\[u\].offset), (s->facts.units\[u\].slot_bytes)\)/\1 + \2/' \
    'a bare end of a slot'
planted src/model/gguf.c \
    's/const bs_bytes end = bs_bytes_add\(gguf->data, data_bytes\);/const bs_bytes end = gguf->data + data_bytes;/' \
    'a bare end of a file'
planted src/base/cursor.c 's/cursor->at = bs_bytes_add\(cursor->at, bytes\);/cursor->at += bytes;/' \
    'a bare step of a cursor'
planted src/model/model.c 's/w->bytes = bs_bytes_times\(w->bytes, w->dim\[i\]\);/w->bytes *= w->dim[i];/' \
    'a bare product of dimensions'
planted src/run/operands.c \
    's/bs_bytes_row\(memory, (l->base), at, (l->row_bytes)\)/memory + \1 + at * \2/' \
    'a bare address of a row'
planted src/graph/graph.c \
    's/elements = bs_bytes_times\(elements, (bs_dim_max\(g, value->dims\[i\]\))\);/elements *= \1;/' \
    'a bare count of elements'

check_end
