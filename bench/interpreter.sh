#!/bin/sh
# interpreter.sh [FILE.gguf...] - instructions around kernels, by callgrind: those of run/, stream/, base/ and
# ops/trips.inc, of a run of 20 linears, of a trip of one add, and of a character that moe_text writes; or of a run of
# each file. In a build with symbols (CFLAGS="-O2 -g"), else nothing is counted. $BUILD is where they are [build].
set -u
BUILD=${BUILD:-build}
command -v valgrind >/dev/null || { echo "interpreter.sh: no valgrind" >&2; exit 1; }
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# Instructions of a command: "AROUND ALL".
counted() {
    valgrind --tool=callgrind --callgrind-out-file="$work/out" "$@" >/dev/null 2>"$work/err" ||
        { cat "$work/err" >&2; exit 1; }
    callgrind_annotate --threshold=100 --auto=no "$work/out" |
        awk '/PROGRAM TOTALS/ { gsub(/,/, "", $1); all = $1 }
             /src\/(run|stream|base)\/|src\/ops\/trips/ { gsub(/,/, "", $1); around += $1 }
             END { printf "%.0f %.0f\n", around, all }'
}

# Of one time: the difference of MORE and FEW times, which is the last word of the command.
# each NAME FEW MORE COMMAND...
each() {
    name=$1 few=$2 more=$3
    shift 3
    small=$(counted "$@" "$few") && large=$(counted "$@" "$more") || return 1
    echo "$name $small $large $((more - few))" |
        awk '{ if ($3 + 0 == 0) exit 1
               printf "%-24s %10.0f around kernels  %12.0f in all\n", $1, ($4 - $2) / $6, ($5 - $3) / $6 }'
}

status=0
for file; do
    each "$(basename "$file" .gguf)" 2 4 "$BUILD/brainstorm" run "$file" --threads 1 --quiet --runs || status=1
done
[ $# -eq 0 ] || exit $status
each linears 200 400 "$BUILD/bench/interpreter" linears || status=1
each trip 1000 3000 "$BUILD/bench/interpreter" trips || status=1
each character 20 60 "$BUILD/moe_text" --model models/moe_text.gguf --threads 1 --length || status=1
exit $status
