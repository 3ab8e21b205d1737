#!/bin/sh
# tags: asan uses:fuzz/replays
# test_fuzz_corpus.sh - what fuzzers found stays fixed: seeds and the committed inputs go through every fuzzer once.
set -u
BUILD="${BUILD:-build}" RUN="${RUN:-}"
. tests/checks.sh
scratch fuzz_corpus

$RUN "$BUILD/fuzz/make_corpus" "$work/seeds" || fail "the generators of seeds"

# One input a line; the last line is the one that breaks.
replays() { # NAME FILE...
    of=$1
    shift
    $RUN "$BUILD/fuzz/replay_$of" "$@" >"$work/said" 2>"$work/errors"
    status=$?
    { tail -n 1 "$work/said"; grep -E 'BROKEN|ERROR|runtime error' "$work/errors"; } >"$work/message"
    [ $status -eq 0 ] && [ "$(grep -c ' ok$' "$work/said")" -eq $# ]
}

for source in tests/fuzz/fuzz_*.c; do
    fuzzer=$(basename "$source" .c | sed 's/^fuzz_//')
    set -- "$work/seeds/$fuzzer"/seed-*
    [ ! -d "tests/fuzz/corpus/$fuzzer" ] || set -- "$@" tests/fuzz/corpus/"$fuzzer"/*
    check "$fuzzer: $# inputs" replays "$fuzzer" "$@"
done

check_end
