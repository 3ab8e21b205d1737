#!/bin/sh
# tags: plain
# test_faults.sh - every planted fault still is one: what it does changes its file, the test that must notice is there,
# and no two of a list have one name. (Whether they are noticed, `make mutants` and `make mutants-cuda` tell, in most of
# an hour.)
set -u
BUILD="${BUILD:-build}"
. tests/checks.sh
scratch faults

sound() { # LIST
    grep -v '^ *\(#\|$\)' "$1" >"$work/list"
    cut -d '|' -f 1 "$work/list" | sort | uniq -d | sed 's/$/: two faults have this name/' >"$work/message"
    while IFS='|' read -r fault file test tool change; do
        case $tool in plain | asan | tsan) ;; *) echo "$fault: built how?" ;; esac
        [ -f "tests/$test.c" ] || [ -f "tests/$test.sh" ] || [ -f "tests/$test.py" ] || echo "$fault: no test $test"
        sed -E "$change" "$file" >"$work/changed" || echo "$fault: that is no sed"
        ! cmp -s "$file" "$work/changed" || echo "$fault: its line changes nothing"
    done <"$work/list" >>"$work/message" 2>&1
    [ -s "$work/list" ] && [ ! -s "$work/message" ]
}

refused() { # LIST
    ! BUILD="$work" bash tests/mutants.sh "$1" >"$work/message" 2>&1 &&
        grep -q 'two faults have one name: twice' "$work/message"
}

check "each fault of the library is one" sound tests/mutants.txt
check "each fault of the CUDA backend is one" sound tests/cuda_mutants.txt
printf 'twice|src/base/base.h|test_ground|plain|s/a/b/\ntwice|src/base/base.h|test_ground|plain|s/b/c/\n' \
    >"$work/same.txt"
check "a list in which two faults have one name is not run" refused "$work/same.txt"

check_end
