#!/bin/sh
# size.sh - bytes of code and constants in brainstorm.c, for aarch64 where a compiler for it is here: as fast as it gets
# (-O2), at -Os, and small (-Os -DBS_SMALL); of the small one without each module, without all of them, and what the
# smallest program that routes is linked with. ROWS=all: each folder of src/ by itself, and x86-64 with and without its
# tiers, too.
# Counted is what a board must load. Tables for unwinding the stack, which debuggers and C++ want and compilers add
# unless they are told not to, are printed beside it. Fails above the limits, which leave room on a board, and where the
# pages say another figure (test_pages.py; they are of gcc 12).
set -u
BUILD="${BUILD:-build/size}" PYTHON="${PYTHON:-python3}"
# Bytes, of gcc 12: at -O2, at -Os, of a small one with everything in it, and of what the smallest program is linked
# with.
LIMIT_FAST=610000 LIMIT_SIZE=480000 LIMIT_SMALL=350000 LIMIT_LEAST=130000
MODULES='PLANNER MODEL STREAM PROFILE REPLAY REPORT MESSAGES WINOGRAD'
ALL="-DBS_NO_POSIX $(for module in $MODULES; do printf ' -DBS_NO_%s' "$module"; done)"
FOLDERS='base kernels graph ops plan profile stream model run' X86=yes
[ "${ROWS:-all}" != limits ] || MODULES='' FOLDERS='' X86=''
OPS='-DBS_ONLY_OPS -DBS_OP_conv2d -DBS_OP_linear -DBS_OP_pool2d'
FLAGS='-std=c11 -ffunction-sections -fdata-sections -I.' SMALL='-Os -DBS_SMALL'
prefix=aarch64-linux-gnu- cc=aarch64-linux-gnu-gcc machine="aarch64 (cross)"
command -v $cc >/dev/null || { prefix='' cc=cc machine="$(uname -m) (no aarch64 cross compiler here)"; }
# Other compilers have the limits that all had before: none but for the small one.
if [ "$cc" = cc ] || [ "$($cc -dumpversion | cut -d. -f1)" != 12 ]; then
    measured=no LIMIT_FAST=99999999 LIMIT_SIZE=99999999 LIMIT_SMALL=358400 LIMIT_LEAST=138240
else
    measured=yes
fi
mkdir -p "$BUILD" && rm -f "$BUILD"/*.o || exit 1

compile() { # NAME FLAG...
    object="$BUILD/$1.o"
    shift
    $cc $FLAGS "$@" -c brainstorm.c -o "$object"
}

# pairs COMMAND WORD...: two at a time, each of which is ten seconds of a compiler.
pairs() {
    command=$1
    shift
    while [ $# -gt 0 ]; do
        for word in "$1" "${2:-}"; do
            [ -z "$word" ] || "$command" "$word" &
        done
        wait
        shift $(($# > 1 ? 2 : 1))
    done
}

build() {
    case $1 in
    fast) compile fast -O2 ;;
    size) compile size -Os ;;
    small) compile small $SMALL ;;
    least) compile least $SMALL $ALL $OPS ;;
    none) compile none $SMALL $ALL ;;
    *) compile "no_$1" $SMALL "-DBS_NO_$1" ;;
    esac
}

# A folder's files, each by itself: in one file compilers put some of them into others.
build_folder() {
    rm -rf "${BUILD:?}/$1" && mkdir -p "$BUILD/$1" || return 1
    for file in src/"$1"/*.c; do
        $cc $FLAGS $SMALL -Isrc -c "$file" -o "$BUILD/$1/$(basename "$file" .c).o" || return 1
    done
    "${prefix}ld" -r "$BUILD/$1"/*.o -o "$BUILD/folder_$1.o"
}

build_x86() { cc $FLAGS -O2 ${1#*:} -c brainstorm.c -o "$BUILD/x86_${1%%:*}.o"; }

pairs build fast small size least ${MODULES:+none} $MODULES
pairs build_folder $FOLDERS
[ -z "$X86" ] || [ "$(uname -m)" != x86_64 ] || pairs build_x86 all: no_avx512:-DBS_NO_AVX512 no_avx2:-DBS_NO_AVX2
$cc $FLAGS $SMALL $ALL $OPS -c tests/modules/least.c -o "$BUILD/program.o" &&
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

# row TEXT BYTES; part TEXT BYTES: of the small one, and how far from all of it.
row() { printf '%-48s %8d\n' "$1" "$2"; }

# A row that has a limit.
over=0
limit() { # TEXT BYTES LIMIT
    row "$1, limit $3" "$2"
    [ "$2" -le "$3" ] || over=1
}
part() { printf '%-48s %8d %+8d\n' "$1" "$2" "$(($2 - everything))"; }

set -- $(bytes small) && everything=$1 tables=$2 variables=$3 || exit 1
[ "$variables" -eq 0 ] || { echo "brainstorm.c has $variables bytes of variables" >&2; exit 1; }
echo "brainstorm.c, $machine: bytes of code and constants (tables for unwinding of the small one: $tables more)"
set -- $(bytes fast) && limit "-O2" "$1" $LIMIT_FAST && figure fast "$1" || exit 1
set -- $(bytes size) && limit "-Os" "$1" $LIMIT_SIZE || exit 1
limit "-Os -DBS_SMALL" "$everything" $LIMIT_SMALL
figure everything "$everything"
for module in $MODULES; do
    set -- $(bytes "no_$module") && part "  without $module" "$1" || exit 1
    figure "less_$module" $((everything - $1))
done
[ -z "$MODULES" ] || { set -- $(bytes none) && part "  without all of these and POSIX" "$1"; } || exit 1
set -- $(bytes linked) && linked=$1 && set -- $(bytes program) && least=$((linked - $1)) || exit 1
limit "  conv2d, linear, pool2d, a saved plan" "$least" $LIMIT_LEAST
figure least "$least"
for folder in $FOLDERS; do
    set -- $(bytes "folder_$folder") && row "  src/$folder by itself" "$1" || exit 1
done
if [ -n "$X86" ] && [ -f "$BUILD/x86_all.o" ]; then
    prefix=''
    set -- $(bytes x86_all) && row "x86-64 -O2" "$1"
    set -- $(bytes x86_no_avx512) && row "  without AVX-512" "$1"
    set -- $(bytes x86_no_avx2) && row "  without AVX-512 and AVX2" "$1"
fi
right=0
if [ $measured = no ]; then
    echo "figures on pages are of gcc 12 for aarch64, which this is not"
elif command -v "$PYTHON" >/dev/null; then
    "$PYTHON" tests/test_pages.py --sizes "$BUILD/figures.txt" || right=1
fi
[ "$right" -eq 0 ] && [ "$over" -eq 0 ]
