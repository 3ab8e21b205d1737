#!/bin/sh
# lint.sh [PART...] - what can be found without running anything. `make lint` calls it, in the repository's root.
#
#   warnings   gcc's and clang's, beyond those of the Makefile; of formats where int32_t is long, as newlib has it
#   stack      bytes of each function, as gcc builds what users compile: at most 4096, none that depends on data;
#              $STACK_LEVELS: optimized how [-O2 -O3]
#   recursion  nothing calls itself, by name or through a pointer (callgraph.py)
#   analyzer   gcc -fanalyzer (lint_known.txt: what is not so)
#   tidy       clang-tidy (.clang-tidy: what is off, and why)
#   cppcheck   (cppcheck.txt: what is not so)
#
# A part that lacks its tool is skipped and says so. Some minutes of processor time: all processors are used.
set -u
BUILD="${BUILD:-build/lint}" PYTHON="${PYTHON:-python3}" JOBS="${JOBS:-$(nproc 2>/dev/null || echo 2)}"
PARTS="${*:-warnings stack recursion analyzer tidy cppcheck}"
STACK_BYTES=4096 STACK_LEVELS="${STACK_LEVELS:--O2 -O3}"
INCLUDES='-I. -Isrc -Iexamples -Iexamples/video -Iexamples/moe_text'
. tests/checks.sh
. tests/compilers.sh
log="$BUILD/log" shown=60

mkdir -p "$BUILD" || exit 1
rm -rf "$BUILD"/*.log "$BUILD/files" "$BUILD"/frames*
mkdir -p "$BUILD/files"
sources() { ls src/*/*.c examples/*.c examples/*/*.c; }

# each COMMAND [MORE]: runs `COMMAND FILE MORE` on every source, some at a time; prints what they print. Fails when one
# does.
each() {
    sources | xargs -P "$JOBS" -n 1 sh -c \
        'log="$1/files/$(echo "$4" | tr / _).log"; $2 "$4" $3 >"$log" 2>&1 || echo "failed: $4" >>"$log"' \
        sh "$BUILD" "$1" "${2:-}"
    cat "$BUILD"/files/*.log
    ! grep -q '^failed: ' "$BUILD"/files/*.log
}

# --- warnings --------------------------------------------------------------------------------------------

# Not among them: -Wnull-dereference (35 pointers into arenas that gcc 12 does not follow), -Wfloat-equal (comparisons
# with what was stored are meant), clang's -Wformat-nonliteral (two wrappers, whose callers' formats are checked),
# -Wswitch-enum (a default is an answer), -Wredundant-decls (parts of the amalgam).
MORE='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wvla -Wformat=2 -Wundef -Wstrict-prototypes
    -Wmissing-prototypes -Wpointer-arith -Wcast-qual -Wwrite-strings -Wdouble-promotion -Wold-style-definition'
GCC_MORE='-fstack-usage -Wcast-align=strict -Walloca -Wlogical-op -Wduplicated-cond -Wduplicated-branches
    -Wjump-misses-init -Wtrampolines -Warith-conversion'

# gcc tells of the stack, too, for the part below.
compile_for_warnings() { # COMPILER FLAGS
    if $1 -std=c11 -O2 $MORE $2 -Werror -c brainstorm.c -o "$BUILD/frames$1-O2.o" >"$BUILD/warnings_$1" 2>&1; then
        echo none >>"$BUILD/warnings_$1"
    fi
}

warnings() { # COMPILER
    cat "$BUILD/warnings_$1"
    [ "$(cat "$BUILD/warnings_$1")" = none ]
}

# PRId32 and casts are missed only where int32_t is long. gcc -m32, with headers that say so, is such a compiler.
formats() {
    long='gcc -m32 -msse2 -idirafter /usr/include/x86_64-linux-gnu -isystem tests/int32_long -Iexamples/bare -Wno-psabi'
    { echo brainstorm.c; ls examples/*.c examples/*/*.c examples/bare/board/*.c; } |
        xargs -P "$JOBS" -n 1 $long -std=c11 $INCLUDES -DBS_NO_SIMD -fsyntax-only -Wall -Wextra -Wformat=2 -Werror
}

# --- stack -----------------------------------------------------------------------------------------------

# Each takes most of a minute: as many at a time as there are processors.
compile_for_stack() {
    for compiler in gcc aarch64-linux-gnu-gcc; do
        for level in $STACK_LEVELS; do
            [ -f "$BUILD/frames$compiler$level.su" ] || ! have $compiler || echo "$compiler $level"
        done
    done | xargs -P "$JOBS" -n 2 sh -c '$1 -std=c11 $2 -fstack-usage -c brainstorm.c -o "$0/frames$1$2.o"' "$BUILD"
}

# frames COMPILER LEVEL: bytes, function and kind of frame of the library, largest first.
frames() {
    [ -f "$BUILD/frames$1$2.su" ] || return 1
    awk -F '\t' '{ sub(/.*:/, "", $1); print $2, $1, $3 }' "$BUILD/frames$1$2.su" | sort -rn >"$BUILD/frames$2.txt"
}

stack() { # COMPILER LEVEL
    frames "$1" "$2" || return 1
    awk -v most=$STACK_BYTES '$1 > most { print "over " most ": " $0; bad = 1 }
        $3 == "dynamic" { print "depends on data: " $0; bad = 1 }
        END { exit bad }' "$BUILD/frames$2.txt"
}

# --- recursion -------------------------------------------------------------------------------------------

# Types of pointers can be told apart in clang's output up to version 14; without it only calls by name are followed.
recursion() {
    gcc -std=c11 -O0 -fcallgraph-info=su -c brainstorm.c -o "$BUILD/calls.o" || return 1
    typed=
    if have clang; then
        clang -std=c11 -O0 -S -emit-llvm brainstorm.c -o "$BUILD/calls.ll" || return 1
        if grep -q '%struct.bs_graph\*' "$BUILD/calls.ll"; then typed="$BUILD/calls.ll"; fi
    fi
    "$PYTHON" tests/callgraph.py "$BUILD/calls.ci" $typed >"$BUILD/recursion.log" 2>&1 && return 0
    grep -E 'cycle|FAIL|Error' "$BUILD/recursion.log"
    return 1
}

# --- analyzers -------------------------------------------------------------------------------------------

# Its warnings, a line each, without those that lint_known.txt tells of.
analyzer() {
    each "gcc -std=c11 $INCLUDES -O1 -fanalyzer -c -o /dev/null" >"$BUILD/analyzer.log" 2>&1 ||
        { tail "$BUILD/analyzer.log"; return 1; }
    grep 'warning: ' "$BUILD/analyzer.log" | awk '
        FILENAME == "tests/lint_known.txt" { if ($1 != "#") { sub(/:$/, "", $2); known[$1 " " $2] = 1 } next }
        { file = $1; sub(/:.*/, "", file); what = $NF; gsub(/[][]/, "", what);
          if (!((file " " what) in known)) { print; bad = 1 } }
        END { exit bad }' tests/lint_known.txt -
}

# A bound on the paths through a function that are followed: a fifth of the time.
tidy() {
    each "clang-tidy --quiet" \
        "-- -std=c11 $INCLUDES -Xclang -analyzer-config -Xclang max-nodes=${TIDY_NODES:-40000}" \
        >"$BUILD/tidy.log" 2>&1 && return 0
    grep -E 'warning: |error: ' "$BUILD/tidy.log" | sort -u
    return 1
}

cppchecked() {
    cppcheck --std=c11 --enable=warning,performance,portability,style --inline-suppr \
        --suppressions-list=tests/cppcheck.txt --error-exitcode=1 --quiet -j "$JOBS" $INCLUDES \
        --max-configs=12 \
        --template='{file}:{line}: {severity} {id}: {message}' src examples
}

# --- all of it -------------------------------------------------------------------------------------------

for part in $PARTS; do
    case $part in
    warnings)
        compile_for_warnings gcc "$GCC_MORE" &
        ! have clang || compile_for_warnings clang -Wno-format-nonliteral &
        wait
        check "gcc warns of nothing" warnings gcc
        if have clang; then check "clang warns of nothing" warnings clang; else skip "warnings of clang: no clang"; fi
        if can_32_bit; then
            check "formats fit where int32_t is long" formats
        else
            skip "formats where int32_t is long: no libraries for gcc -m32"
        fi
        ;;
    stack)
        check "stack: compiles" compile_for_stack
        for compiler in gcc aarch64-linux-gnu-gcc; do
            have $compiler || { skip "stack: no $compiler"; continue; }
            for level in $STACK_LEVELS; do
                check "$compiler $level: no function with more than $STACK_BYTES bytes of stack" stack $compiler $level
                sed -n '1,8s/^/             /p' "$BUILD/frames$level.txt"
            done
        done
        ;;
    recursion)
        check "nothing calls itself" recursion
        sed -n '/ functions, /s/^/             /p; /deepest/s/^ */             /p; /^ok/s/^/             /p' \
            "$BUILD/recursion.log"
        ;;
    analyzer) check "gcc -fanalyzer" analyzer ;;
    tidy) if have clang-tidy; then check "clang-tidy" tidy; else skip "no clang-tidy"; fi ;;
    cppcheck) if have cppcheck; then check "cppcheck" cppchecked; else skip "no cppcheck"; fi ;;
    *) check "a part named $part" false ;;
    esac
done

check_end
