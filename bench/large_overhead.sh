#!/bin/sh
# large_overhead.sh [PROGRAM] - instructions that a run of one token takes a layer beside its kernels, of 48 layers of 128
# experts and of one: the first must be at most 1.2 times the second.
#
# Counted by callgrind as the difference of three runs and two, kernels (linear, clip, and what they call) left out.
# PROGRAM: bench/large_run.c, as `make bench` builds it [$BUILD/bench/large_run].
set -u
program=${1:-${BUILD:-build}/bench/large_run}
command -v valgrind >/dev/null || { echo "skipped: no valgrind"; exit 0; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Instructions of $1 layers in order $2 with $3 runs: those of bs_run without those of kernels.
counted() {
    valgrind --tool=callgrind --callgrind-out-file="$work/out" --toggle-collect=bs_run "$program" "$1" 128 "$2" "$3" >/dev/null 2>"$work/err" ||
        { cat "$work/err" >&2; exit 1; }
    callgrind_annotate --threshold=100 --auto=no "$work/out" |
        awk '/PROGRAM TOTALS/ { gsub(/,/, "", $1); all = $1 }
             /:(bs_conv_|linear_|clip_|bs_span_|bs_epilogue_)/ { gsub(/,/, "", $1); kernels += $1 }
             END { printf "%.0f\n", all - kernels }'
}

status=0
for order in breadth depth; do
    small=$(($(counted 1 $order 3) - $(counted 1 $order 2)))
    large=$(($(counted 48 $order 3) - $(counted 48 $order 2)))
    echo "$order $small $large" | awk '{ ratio = $3 / 48 / $2; printf "%-8s 1 layer: %d   48 layers: %d a layer   ratio %.3f\n", $1, $2, $3 / 48, ratio; exit ratio > 1.2 }' ||
        status=1
done
exit $status
