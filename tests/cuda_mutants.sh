#!/bin/sh
# cuda_mutants.sh [NAME...] - whether the tests of the CUDA backend notice faults. Each of cuda_mutants.txt (or those named)
# is planted in a copy of the sources, what changes is built for the emulation, and the test that must notice is run.
#
# Says `caught NAME by TEST (plain|tsan)` or `SURVIVED NAME`, and ends with `N passed, N failed`. Without a fault all tests
# must pass first. A fault is caught by a failed check, a report of the thread sanitizer, a crash, or by no end in $PATIENCE
# seconds [90]. $BUILD is where it works [build]; $JOBS faults at a time [2]. Wants clang++ for tsan, and $CUDA_HOME.
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
BUILD=${BUILD:-build} JOBS=${JOBS:-2} PATIENCE=${PATIENCE:-90} MAKE=${MAKE:-make}
work=$BUILD/mutants
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL
export TSAN_OPTIONS="halt_on_error=1 ${TSAN_OPTIONS:-}"

# The faults asked for: name|file|test|tool|sed.
faults() {
    grep -v '^ *\(#\|$\)' "$root/tests/cuda_mutants.txt" | while IFS= read -r line; do
        case " $* " in
        "  " | *" ${line%%|*} "*) printf '%s\n' "$line" ;;
        esac
    done
}

# Builds test $2 in the copy $1, for tool $3.
build() {
    case $3 in
    tsan) set -- "$1" "$2" "$3" SANITIZE=thread CC=clang CXX=clang++ CPPFLAGS=-DBS_CU_THREADS=64 'CFLAGS=-O1 -g' ;;
    *) set -- "$1" "$2" "$3" 'CFLAGS=-O1' ;;
    esac
    tree=$1 test=$2 tool=$3
    shift 3
    $MAKE -s -C "$tree" CUDA=emulated BUILD="$tool" "$@" "$tool/tests/$test" >"$tree/build.log" 2>&1
}

# Runs test $2 of the copy $1, built for tool $3, to its first failure. Status 0: it passed.
judge() {
    log=$1/$3/$2.log waited=0
    (cd "$1" && exec "$3/tests/$2") >"$log" 2>&1 </dev/null &
    pid=$!
    while kill -0 $pid 2>/dev/null; do
        if grep -q '^FAIL' "$log" || [ $waited -ge $((5 * $4)) ]; then
            kill -9 $pid 2>/dev/null
            wait $pid 2>/dev/null
            return 1
        fi
        sleep 0.2
        waited=$((waited + 1))
    done
    wait $pid 2>/dev/null
}

# The object that comes of file $1, without its ending.
object() {
    case $1 in
    src/cuda/*) echo src/cuda/cuda ;;
    *) echo "${1%.*}" ;;
    esac
}

# Plants one fault in the copy $1; says how that went.
try() {
    tree=$1 name=$2 file=$3 test=$4 tool=$5
    object=$tool/obj/$(object "$file").o
    sed -E "$6" "$root/$file" >"$tree/$file"
    if cmp -s "$root/$file" "$tree/$file"; then
        verdict="SURVIVED $name: its line changes nothing"
    elif ! build "$tree" "$test" "$tool"; then
        verdict="SURVIVED $name: it does not compile, see $tree/build.log"
    elif judge "$tree" "$test" "$tool" "$PATIENCE" 2>/dev/null; then
        verdict="SURVIVED $name"
    else
        verdict="caught $name by $test ($tool)"
    fi
    cp -p "$root/$file" "$tree/$file"
    cp "$tree/pristine/$object" "$tree/$object" # newer than its source: nothing to build
    printf '%s\n' "$verdict"
}

cd "$root" || exit 1
mkdir -p "$work" || exit 1
work=$(cd "$work" && pwd)
faults "$@" >"$work/list"
[ -s "$work/list" ] || { echo "no such fault: $*"; exit 1; }

rm -rf "$work"/tree*
mkdir -p "$work/tree"
for part in Makefile brainstorm.h brainstorm.pc.in src tests tools examples bench; do
    [ ! -e "$part" ] || cp -Rp "$part" "$work/tree/"
done

cut -d '|' -f 3,4 "$work/list" | sort -u >"$work/pairs"
while IFS='|' read -r test tool; do
    build "$work/tree" "$test" "$tool" || { cat "$work/tree/build.log"; echo "FAIL $test ($tool) does not build"; exit 1; }
done <"$work/pairs"
mkdir "$work/tree/pristine"
for tool in plain tsan; do
    [ ! -d "$work/tree/$tool" ] || { mkdir "$work/tree/pristine/$tool" && cp -Rp "$work/tree/$tool/obj" "$work/tree/pristine/$tool/"; }
done
# Without a fault.
while IFS='|' read -r test tool; do
    judge "$work/tree" "$test" "$tool" 900 2>/dev/null && continue
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
