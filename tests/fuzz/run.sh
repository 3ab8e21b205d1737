#!/bin/sh
# run.sh NAME... - runs fuzzers for $SECONDS_EACH seconds each, $JOBS at a time, and says what they did. `make fuzz`
# calls it.
#
# A fuzzer begins with the committed corpus, fresh seeds and what earlier runs grew in $BUILD/corpus/NAME. What breaks
# it stays in $BUILD/found/ and counts as failed; its log is $BUILD/NAME.log. To look at one:
#   build/fuzz/fuzz_NAME build/fuzz/found/NAME-crash-...
set -u
BUILD="${BUILD:-build/fuzz}" SECONDS_EACH="${SECONDS_EACH:-60}" JOBS="${JOBS:-2}"
export BUILD SECONDS_EACH
# Arenas that cannot be had are an error, not the end; what sanitizers find is.
export ASAN_OPTIONS="${ASAN_OPTIONS:-allocator_may_return_null=1}" UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"

# Bytes beyond which an input is only slow.
longest() {
    case $1 in
    model) echo 16432 ;;
    profile) echo 8192 ;;
    y4m) echo 4200 ;;
    *) echo 700 ;;
    esac
}

# Whether memory that is not given back is looked for: in what allocates. It takes long where a test has large tables.
leaks() {
    case $1 in
    profile | y4m) echo 1 ;;
    *) echo 0 ;;
    esac
}

one() {
    name=$1 log="$BUILD/$1.log"
    mkdir -p "$BUILD/corpus/$name" "$BUILD/found" "$BUILD/seeds/$name"
    set -- "$BUILD/corpus/$name" "$BUILD/seeds/$name"
    [ ! -d "tests/fuzz/corpus/$name" ] || set -- "$@" "tests/fuzz/corpus/$name"
    before=$(ls "$BUILD/found" | wc -l)
    "$BUILD/fuzz_$name" -max_total_time="$SECONDS_EACH" -max_len="$(longest "$name")" -detect_leaks="$(leaks "$name")" \
        -timeout=30 -rss_limit_mb=2000 \
        -print_final_stats=1 -artifact_prefix="$BUILD/found/$name-" "$@" >"$log" 2>&1 </dev/null
    status=$?
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    edges=$(grep -o ' cov: [0-9]*' "$log" | tail -n 1 | tr -cd 0-9)
    features=$(grep -o ' ft: [0-9]*' "$log" | tail -n 1 | tr -cd 0-9)
    said="$name: ${runs:-0} executions, ${rate:-0}/s, ${edges:-0} edges, ${features:-0} features"
    if [ "$status" -eq 0 ] && [ "${runs:-0}" -gt 0 ]; then
        echo "ok $said"
    else
        grep -E 'ERROR|runtime error|BROKEN PROMISE|^ *#[0-9] .* (src|examples|tests)/' "$log" | head -n 8 |
            sed 's/^/  | /'
        echo "FAIL $said, status $status: $(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)"
    fi
}

if [ "${1:-}" = --one ]; then
    one "$2"
    exit 0
fi

"$BUILD/make_corpus" "$BUILD/seeds" || exit 1
result="$BUILD/run.txt"
printf '%s\n' "$@" | xargs -P "$JOBS" -I '{}' sh "$0" --one '{}' | tee "$result"
passed=$(grep -c '^ok ' "$result")
echo "$passed passed, $(($# - passed)) failed"
[ "$passed" -eq $# ]
