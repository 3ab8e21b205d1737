#!/bin/sh
# size.sh - bytes of code and constants in brainstorm.c at -Os, for aarch64 where a compiler for it is here.
# Counted is what a board must load. Tables for unwinding the stack, which debuggers and C++ want and compilers add
# unless they are told not to, are printed beside it. Fails above the limit, which leaves room on a board.
set -u
BUILD="${BUILD:-build/size}"
LIMIT_KB=285
cc=aarch64-linux-gnu-gcc size=aarch64-linux-gnu-size machine="aarch64 (cross)"
command -v $cc >/dev/null || { cc=cc size=size machine="$(uname -m) (no aarch64 cross compiler here)"; }

mkdir -p "$BUILD" || exit 1
# bytes_with FLAG...: text, constants and data.
bytes_with() {
  $cc -std=c11 -Os -ffunction-sections "$@" -c brainstorm.c -o "$BUILD/brainstorm.o" || exit 1
  set -- $($size "$BUILD/brainstorm.o" | tail -n 1)
  [ "$3" -eq 0 ] || { echo "brainstorm.c has $3 bytes of variables" >&2; exit 1; }
  echo $(($1 + $2))
}

loaded=$(bytes_with -fno-unwind-tables -fno-asynchronous-unwind-tables) && all=$(bytes_with) || exit 1
echo "brainstorm.c at -Os, $machine: $loaded bytes of code and constants, limit $LIMIT_KB KB;" \
    "tables for unwinding: $((all - loaded)) bytes"
[ "$loaded" -le $((LIMIT_KB * 1024)) ]
