#!/bin/sh
# run.sh TEST... - runs tests, $JOBS at a time, and adds up what they report. `make test` calls it.
#
# A test is tests/test_NAME.c (built to $BUILD/tests/test_NAME), .sh or .py. It runs in the repository's root
# and says `N passed, N failed` (or `N passed, N failed, N skipped`) in its last line. One that says nothing,
# passes nothing, or ends with another status than its report counts as failed, and its output is shown; so does a
# build that failed ($BUILT, its exit status). A test may use $SECONDS_EACH seconds of the processors [300], and may
# wait for $STILL seconds without using any [300]: no clock makes a test fail. All output is kept in
# $BUILD/tests/test_NAME.log. Tests run beside each other: one writes below a name of its own only.
#
# Its tags (tests/tags.txt) name what it cannot do without (needs:): programs (.sh) or modules (.py). Where one is
# missing the test is skipped. Scripts find in their environment:
#   BUILD   where programs are: "$BUILD/brainstorm"      RUN   what to start them with ("" or an emulator)
#
# Behind each report stands the time of processors that the test took, then the seconds. $TEST_TIMES names a file to
# which both are added, a line a test.
#
# test_cuda_* come from a build with the CUDA backend: $CUDA_BUILD, if that is another one. $CUDA_OBSTACLE says why
# there is none; then they are skipped.
set -u
export BUILD="${BUILD:-build}" RUN="${RUN:-}" PYTHON="${PYTHON:-python3}"
export SECONDS_EACH="${SECONDS_EACH:-}" STILL="${STILL:-300}" JOBS="${JOBS:-1}" TEST_TIMES="${TEST_TIMES:-}"
[ -n "$SECONDS_EACH" ] || SECONDS_EACH=300
. tests/guard.sh
# Not detect_stack_use_after_return: with it gcc 12 misaligns 64-byte vectors on the stack (its bug 110027).
export ASAN_OPTIONS="${ASAN_OPTIONS:-strict_string_checks=1}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"

# Prints what the script $1 needs and this machine lacks.
missing() {
    for word in $(sed -n '1,2s/^.* tags: .*needs:\([^ ]*\).*/\1/p' "$1" | tr ',' ' '); do
        case $1 in
        *.py) "$PYTHON" -c "import $word" >/dev/null 2>&1 || echo "Python module $word" ;;
        *) command -v "$word" >/dev/null || echo "$word" ;;
        esac
    done
}

# Prints why $1 cannot run here, or nothing.
obstacle() {
    case $1 in
    *.py) command -v "$PYTHON" >/dev/null || { echo "no $PYTHON"; return; } ;;
    *.c) return ;;
    esac
    missing "$1" | paste -sd, - | sed -n 's/\(..*\)/no \1/p'
}

run() {
    case $1 in
    *.c) set -- $RUN "$BUILD/tests/$(basename "$1" .c)" ;;
    *.sh) set -- sh "$1" ;;
    *.py) set -- "$PYTHON" "$1" ;;
    esac
    guarded "$SECONDS_EACH" "$STILL" "$log.still" "$@"
}

# Sets p f s to what the log $1 of a test with exit status $2 reports; note to what is wrong beyond that.
judge() {
    log=$1 status=$2 note=
    line=$(grep -E '^[0-9]+ passed, [0-9]+ failed(, [0-9]+ skipped)?$' "$log" | tail -n 1)
    set -- $(echo "$line" | tr -cd '0-9 ')
    p=${1:-0} f=${2:-0} s=${3:-0}
    if [ -e "$log.still" ]; then
        note=$(cat "$log.still")
        rm -f "$log.still"
    elif [ -z "$line" ]; then
        note="no report, exit status $status"
    elif [ "$status" -ne 0 ] && [ "$f" -eq 0 ]; then
        note="exit status $status"
    elif [ "$status" -eq 0 ] && [ "$f" -ne 0 ]; then
        note="exit status 0 in spite of failures"
    elif [ $((p + f + s)) -eq 0 ]; then
        note="tests nothing"
    fi
    [ -z "$note" ] || [ "$f" -ne 0 ] || f=1
}

# Runs one test, prints its line, and adds `PASSED FAILED SKIPPED` to $RESULTS.
one() {
    name=$(basename "$1" | sed 's/\.[a-z]*$//')
    case $name in
    test_cuda_*) BUILD="${CUDA_BUILD:-$BUILD}" ;;
    esac
    mkdir -p "$BUILD/tests"
    log="$BUILD/tests/$name.log"
    why=$(obstacle "$1")
    if [ -n "$why" ]; then
        printf '%-28s skipped: %s\n' "$name" "$why"
        echo 0 0 1 >>"$RESULTS"
        return
    fi
    started=$(date +%s)
    run "$1" >"$log" 2>&1 </dev/null
    judge "$log" $?
    report="$p passed, $f failed"
    [ "$s" -eq 0 ] || report="$report, $s skipped"
    times >"$log.times" # not in a subshell, which has waited for nothing
    seconds=$(($(date +%s) - started)) used=$(used "$log.times")
    [ -z "$TEST_TIMES" ] || echo "$used $seconds $name $BUILD" >>"$TEST_TIMES"
    report=$(printf '%-28s %-32s %6s s, %d s%s' "$name" "$report" "$used" "$seconds" "${note:+  ($note)}")
    [ "$f" -eq 0 ] || report=$(echo "$report" && tail -n 60 "$log" | sed 's/^/    | /')
    echo "$report"
    echo "$p $f $s" >>"$RESULTS"
}

if [ "${1:-}" = --one ]; then
    one "$2"
    exit 0
fi

mkdir -p "$BUILD/tests"
export RESULTS="$BUILD/tests/results.txt"
: >"$RESULTS"
noted=0
if [ "${BUILT:-0}" -ne 0 ]; then
    echo "build                        0 passed, 1 failed                  (see above)"
    echo 0 1 0 >>"$RESULTS"
    noted=$((noted + 1))
fi

asked=$#
for test in "$@"; do
    shift
    case "${CUDA_OBSTACLE:+without}$test" in
    without*/test_cuda_*) ;;
    *) set -- "$@" "$test" ;;
    esac
done
if [ $# -lt "$asked" ]; then
    printf '%-28s skipped: %s\n' 'test_cuda_*' "$CUDA_OBSTACLE"
    echo 0 0 1 >>"$RESULTS"
    noted=$((noted + 1))
fi
[ $# -eq 0 ] || printf '%s\n' "$@" | xargs -P "$JOBS" -I '{}' sh "$0" --one '{}'

# A test that left no result, as when its shell was killed, has failed.
awk -v expected=$(($# + noted)) '
    { passed += $1; failed += $2; skipped += $3 }
    END {
        failed += expected - NR
        printf "%d passed, %d failed%s\n", passed, failed, (skipped ? ", " skipped " skipped" : "")
        exit (failed ? 1 : 0)
    }' "$RESULTS"
