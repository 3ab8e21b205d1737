#!/bin/sh
# size.sh - bytes of code and constants in brainstorm.c at -Os, for aarch64 where a compiler for it is here.
# Fails above the limit, which leaves room on a board: `make size` prints both.
set -u
BUILD="${BUILD:-build/size}"
LIMIT_KB=300
cc=aarch64-linux-gnu-gcc size=aarch64-linux-gnu-size machine="aarch64 (cross)"
command -v $cc >/dev/null || { cc=cc size=size machine="$(uname -m) (no aarch64 cross compiler here)"; }

mkdir -p "$BUILD" || exit 1
$cc -std=c11 -Os -ffunction-sections -c brainstorm.c -o "$BUILD/brainstorm.o" || exit 1
set -- $($size "$BUILD/brainstorm.o" | tail -n 1)
echo "brainstorm.c at -Os, $machine: text and constants $1, data $2, bss $3 bytes; limit $LIMIT_KB KB"
[ $(($1 + $2)) -le $((LIMIT_KB * 1024)) ]
