#!/bin/sh
# size.sh - bytes of code and constants in brainstorm.c at -Os, for aarch64 where a compiler for it is here: everything,
# everything without each module, without all of them, and what the smallest program that routes is linked with.
# Counted is what a board must load. Tables for unwinding the stack, which debuggers and C++ want and compilers add
# unless they are told not to, are printed beside it. Fails above the limits, which leave room on a board, and where the
# pages say another figure (test_pages.py; they are of gcc 12).
set -u
BUILD="${BUILD:-build/size}" PYTHON="${PYTHON:-python3}"
LIMIT_KIB=350       # of everything
LIMIT_LEAST_KIB=135 # of what the smallest program is linked with
MODULES='PLANNER MODEL STREAM PROFILE REPLAY REPORT MESSAGES WINOGRAD'
ALL="-DBS_NO_POSIX $(for module in $MODULES; do printf ' -DBS_NO_%s' "$module"; done)"
[ "${ROWS:-all}" != limits ] || MODULES=''
OPS='-DBS_ONLY_OPS -DBS_OP_conv2d -DBS_OP_linear -DBS_OP_pool2d'
FLAGS='-std=c11 -Os -ffunction-sections -fdata-sections -I.'
prefix=aarch64-linux-gnu- cc=aarch64-linux-gnu-gcc machine="aarch64 (cross)"
command -v $cc >/dev/null || { prefix='' cc=cc machine="$(uname -m) (no aarch64 cross compiler here)"; }
mkdir -p "$BUILD" || exit 1

compile() { # NAME FLAG...
    object="$BUILD/$1.o"
    shift
    $cc $FLAGS "$@" -c brainstorm.c -o "$object" || rm -f "$object"
}

# Two at a time: each is ten seconds of a compiler.
compile everything &
compile least $ALL $OPS
wait
set -- ${MODULES:+none} $MODULES
while [ $# -gt 0 ]; do
    for name in "$1" "${2:-}"; do
        case $name in
        '') ;;
        none) compile none $ALL & ;;
        *) compile "no_$name" "-DBS_NO_$name" & ;;
        esac
    done
    wait
    shift $(($# > 1 ? 2 : 1))
done
$cc $FLAGS $ALL $OPS -c tests/modules/least.c -o "$BUILD/program.o" &&
    "${prefix}ld" -r --gc-sections -e main "$BUILD/program.o" "$BUILD/least.o" -o "$BUILD/linked.o" || exit 1

# bytes OBJECT: those that are loaded, of tables for unwinding, and of variables.
bytes() {
    [ -f "$BUILD/$1.o" ] || { echo "$1 does not compile" >&2; exit 1; }
    "${prefix}size" -A "$BUILD/$1.o" | awk '
        $1 ~ /^\.eh_frame/ { tables += $2; next }
        $1 ~ /^\.(text|rodata|data\.rel\.ro)/ { loaded += $2 }
        $1 ~ /^\.(data|bss)/ && $1 !~ /^\.data\.rel\.ro/ { variables += $2 }
        END { print loaded + 0, tables + 0, variables + 0 }'
}

# For the pages: a line a figure.
: >"$BUILD/figures.txt"
figure() { echo "size_$1 $2" >>"$BUILD/figures.txt"; }

row() { # TEXT BYTES
    printf '%-46s %7d %+8d\n' "$1" "$2" "$(($2 - everything))"
}

set -- $(bytes everything) && everything=$1 tables=$2 variables=$3 || exit 1
[ "$variables" -eq 0 ] || { echo "brainstorm.c has $variables bytes of variables" >&2; exit 1; }
echo "brainstorm.c at -Os, $machine: bytes of code and constants (tables for unwinding: $tables more)"
row "everything, limit $LIMIT_KIB KiB" "$everything"
figure everything "$everything"
for module in $MODULES; do
    set -- $(bytes "no_$module") && row "-DBS_NO_$module" "$1" || exit 1
    figure "less_$module" $((everything - $1))
done
[ -z "$MODULES" ] || { set -- $(bytes none) && row "all of these and -DBS_NO_POSIX" "$1"; } || exit 1
set -- $(bytes linked) && linked=$1 && set -- $(bytes program) && least=$((linked - $1)) || exit 1
row "conv2d, linear, pool2d, a saved plan, limit $LIMIT_LEAST_KIB KiB" "$least"
figure least "$least"
right=0
if [ -n "$prefix" ] && [ "$($cc -dumpversion | cut -d. -f1)" = 12 ] && command -v "$PYTHON" >/dev/null; then
    "$PYTHON" tests/test_pages.py --sizes "$BUILD/figures.txt" || right=1
fi
[ "$right" -eq 0 ] && [ "$everything" -le $((LIMIT_KIB * 1024)) ] && [ "$least" -le $((LIMIT_LEAST_KIB * 1024)) ]
