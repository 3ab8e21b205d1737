#!/usr/bin/env bash
# mutants.sh LIST [NAME...] - whether the tests notice faults. Each of LIST (or those named) is planted in a copy of the
# sources, what changes is built, and the test that must notice is run.
#
# A line of LIST: name|file|test that must notice|how it is built: plain, asan or tsan|what sed -E does to the file.
# No two have one name; one that changes nothing survived.
# Says `caught NAME by TEST (tool)` or `SURVIVED NAME`, and ends with `N passed, N failed`. Without a fault all tests
# must pass first. A fault is caught by a failed check, a report of a sanitizer, a crash, or by no end: ten times as
# much of a processor as the test takes without it, and $PATIENCE seconds more [30], or none in $PATIENCE seconds.
# $BUILD is where it works [build]; $JOBS faults at a time [2]; CUDA=emulated is for tests of the CUDA backend, and
# wants $CUDA_HOME. tsan wants clang.
set -u
list=$1
shift
root=$(cd "$(dirname "$0")/.." && pwd)
BUILD=${BUILD:-build} JOBS=${JOBS:-2} PATIENCE=${PATIENCE:-30} MAKE=${MAKE:-make}
work=$BUILD/$(basename "$list" .txt)
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL
. "$root/tests/guard.sh"
export TSAN_OPTIONS="halt_on_error=1 ${TSAN_OPTIONS:-}"

twice=$(grep -v '^ *\(#\|$\)' "$list" | cut -d '|' -f 1 | sort | uniq -d)
[ -z "$twice" ] || { echo "in $list two faults have one name: $twice"; echo '0 passed, 1 failed'; exit 1; }
for name; do
    grep -q "^$name|" "$list" || { echo "no fault is named $name"; echo '0 passed, 1 failed'; exit 1; }
done

# The faults asked for: name|file|test|tool|sed.
faults() {
    grep -v '^ *\(#\|$\)' "$list" | while IFS= read -r line; do
        case " $* " in
        "  " | *" ${line%%|*} "*) printf '%s\n' "$line" ;;
        esac
    done
}

# Builds test $2 in the copy $1, for tool $3; for a script, what it runs.
build() {
    tree=$1 tool=$3 target=$3/tests/$2
    [ -f "$root/tests/$2.c" ] || target="test-build TEST=$2"
    case $tool in
    tsan) set -- SANITIZE=thread CC=clang CXX=clang++ CPPFLAGS=-DBS_CU_THREADS=64 'CFLAGS=-O1 -g' ;;
    asan) set -- SANITIZE=address,undefined 'CFLAGS=-O1 -g' ;;
    *) set -- 'CFLAGS=-O1' ;;
    esac
    $MAKE -s -j"$JOBS" -C "$tree" CUDA="${CUDA:-}" BUILD="$tool" "$@" $target >"$tree/build.log" 2>&1
}

# Runs test $2 of the copy $1, built for tool $3, for $4 seconds of a processor and to its first failure. Status 0: it
# passed; 124: no end.
judge() {
    log=$1/$3/$2.log mark=$1/$3/$2.still
    command=$3/tests/$2
    [ ! -f "$root/tests/$2.sh" ] || command="sh tests/$2.sh"
    [ ! -f "$root/tests/$2.py" ] || command="${PYTHON:-python3} tests/$2.py"
    rm -f "$mark"
    { cd "$1" && export BUILD="$3" && exec setsid $command; } >"$log" 2>&1 </dev/null &
    pid=$!
    echo $pid >"$mark.session"
    watch_beside "$4" "$PATIENCE" "$mark" "$BASHPID"
    watching=$!
    while kill -0 $pid 2>/dev/null && ! grep -q '^FAIL' "$log"; do
        sleep 0.2
    done
    failed=$(grep -c '^FAIL' "$log")
    [ "$failed" -eq 0 ] || kill -s KILL -- "-$pid" 2>/dev/null
    wait $pid 2>/dev/null
    status=$?
    kill $watching 2>/dev/null
    rm -f "$mark.session"
    [ ! -e "$mark" ] || return 124
    [ "$failed" -eq 0 ] || return 1
    return $status
}

# The objects of tool $2 that come of file $1, in the copy that was not changed. Of the backend there is one, with no
# list of what it is made of.
objects() {
    case $1 in
    src/cuda/*) echo src/cuda/cuda.o ;;
    *) (cd "$work/tree/$2/obj" && find . -name '*.d' -exec grep -lE "(^| )$1( |\$)" {} + | sed 's/\.d$/.o/') ;;
    esac
}

# Plants one fault in the copy $1; says how that went.
try() {
    tree=$1 name=$2 file=$3 test=$4 tool=$5
    sed -E "$6" "$root/$file" >"$tree/$file"
    if cmp -s "$root/$file" "$tree/$file"; then
        verdict="SURVIVED $name: its line changes nothing"
    elif ! build "$tree" "$test" "$tool"; then
        verdict="SURVIVED $name: it does not compile, see $tree/build.log"
    else
        patience=$((PATIENCE + 10 * $(cat "$work/seconds.$test.$tool")))
        judge "$tree" "$test" "$tool" "$patience" 2>/dev/null
        case $? in
        0) verdict="SURVIVED $name" ;;
        124) verdict="caught $name by $test ($tool): no end in $patience s" ;;
        *) verdict="caught $name by $test ($tool)" ;;
        esac
    fi
    cp -p "$root/$file" "$tree/$file"
    rm -rf "$tree/$tool/aarch64/bare" # what test_bare builds for itself
    for object in $(objects "$file" "$tool"); do # newer than their sources: nothing to build
        cp "$work/tree/$tool/obj/$object" "$tree/$tool/obj/$object"
    done
    printf '%s\n' "$verdict"
}

cd "$root" || exit 1
mkdir -p "$work" || exit 1
work=$(cd "$work" && pwd)
faults "$@" >"$work/list"
[ -s "$work/list" ] || { echo "no such fault: $*"; exit 1; }

rm -rf "$work"/tree*
mkdir -p "$work/tree"
rm -f "$work"/seconds.*
for part in Makefile brainstorm.h brainstorm_replay.h brainstorm.c brainstorm_cuda.cu brainstorm.pc.in \
    src tests tools examples bench models python; do
    [ ! -e "$part" ] || cp -Rp "$part" "$work/tree/"
done

cut -d '|' -f 3,4 "$work/list" | sort -u >"$work/pairs"
while IFS='|' read -r test tool; do
    build "$work/tree" "$test" "$tool" ||
        { cat "$work/tree/build.log"; echo "FAIL $test ($tool) does not build"; exit 1; }
done <"$work/pairs"
# Without a fault.
while IFS='|' read -r test tool; do
    times >"$work/times"
    earlier=$(used "$work/times")
    if judge "$work/tree" "$test" "$tool" 900 2>/dev/null; then
        times >"$work/times"
        echo "$earlier $(used "$work/times")" | awk '{ print int($2 - $1) + 1 }' >"$work/seconds.$test.$tool"
        continue
    fi
    tail -n 20 "$work/tree/$tool/$test.log"
    echo "FAIL $test ($tool) without a fault"
    exit 1
done <"$work/pairs"

worker() {
    at=0
    while IFS='|' read -r name file test tool change; do
        at=$((at + 1))
        [ $((at % JOBS)) -ne "$1" ] || try "$work/tree$1" "$name" "$file" "$test" "$tool" "$change"
    done <"$work/list" | tee "$work/verdicts$1"
}

k=0
while [ $k -lt "$JOBS" ]; do
    cp -Rp "$work/tree" "$work/tree$k"
    worker $k &
    k=$((k + 1))
done
wait
passed=$(cat "$work"/verdicts* | grep -c '^caught')
failed=$(($(wc -l <"$work/list") - passed))
rm -f "$work"/verdicts*
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
