#!/bin/sh
# large_overhead.sh [PROGRAM] - instructions that a run of one token takes a layer beside its kernels, of 48 layers of
# 128 experts and of one: the first must be at most 1.2 times the second.
#
# Counted by callgrind as the difference of three runs and two, kernels (linear, clip, and what they call) left out.
# Minutes; `make bench-planning` calls it. PROGRAM: bench/large_run.c [$BUILD/bench/large_run].
set -u
program=${1:-${BUILD:-build}/bench/large_run}
command -v valgrind >/dev/null || { echo "large_overhead.sh: no valgrind" >&2; exit 1; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Instructions of $1 layers in order $2 with $3 runs: those of bs_run without those of kernels.
counted() {
    valgrind --tool=callgrind --callgrind-out-file="$work/out" --toggle-collect=bs_run \
      "$program" "$1" 128 "$2" "$3" >/dev/null 2>"$work/err" ||
        { cat "$work/err" >&2; exit 1; }
    callgrind_annotate --threshold=100 --auto=no "$work/out" |
        awk '/PROGRAM TOTALS/ { gsub(/,/, "", $1); all = $1 }
             /:(bs_conv_|linear_|clip_|bs_span_|bs_epilogue_)/ { gsub(/,/, "", $1); kernels += $1 }
             END { printf "%.0f\n", all - kernels }'
}

# Instructions of one more run of $1 layers in order $2; 0 when they cannot be counted.
a_run() {
    if three=$(counted "$1" "$2" 3) && two=$(counted "$1" "$2" 2); then echo $((three - two)); else echo 0; fi
}

status=0
for order in breadth depth; do
    awk -v order=$order -v small="$(a_run 1 $order)" -v large="$(a_run 48 $order)" 'BEGIN {
        if (small <= 0 || large <= 0) { print order ": nothing was counted"; exit 1 }
        ratio = large / 48 / small
        printf "%-8s 1 layer: %d   48 layers: %d a layer   %.3f times: %s 1.2\n",
            order, small, large / 48, ratio, (ratio > 1.2 ? "ABOVE" : "within")
        exit (ratio > 1.2) }' || status=1
done
exit $status
