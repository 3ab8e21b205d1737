#!/bin/sh
# tags: minutes
# test_fast_math.sh - options under which checks for NaN vanish or sums change their order are refused by name:
# brainstorm.c, each part by itself, and the host side of brainstorm_cuda.cu. Others, that keep the arithmetic, are
# taken.
set -u
BUILD="${BUILD:-build}"
. tests/checks.sh
scratch fast_math

refused() { # COMMAND...
    "$@" >"$work/message" 2>&1 && return 1
    grep -q 'brainstorm is compiled without -ffast-math' "$work/message"
}

taken() { # COMMAND...
    "$@" >"$work/message" 2>&1
}

parts_refused() { # COMPILER
    for part in src/*/*.c; do
        refused "$1" -std=c11 -ffast-math -I. -Isrc -E -o /dev/null "$part" ||
            { echo "$part" >>"$work/message" && return 1; }
    done
}

for c in gcc clang; do
    if ! have $c; then
        skip "$c (not here)"
        continue
    fi
    for flags in -ffast-math -Ofast -ffinite-math-only; do
        check "brainstorm.c is refused, $c $flags" refused $c -std=c11 $flags -E brainstorm.c -o /dev/null
    done
    for flags in '-O3 -fno-math-errno -fno-trapping-math' '-ffast-math -fno-fast-math'; do
        check "brainstorm.c is taken, $c $flags" taken $c -std=c11 $flags -E brainstorm.c -o /dev/null
    done
    check "every part is refused, $c" parts_refused $c
done
if have gcc; then
    for flags in -funsafe-math-optimizations -freciprocal-math \
        '-fassociative-math -fno-signed-zeros -fno-trapping-math'; do
        check "brainstorm.c is refused, gcc $flags" refused gcc -std=c11 $flags -E brainstorm.c -o /dev/null
    done
fi
# What nvcc hands to the host's compiler; the emulation stands for the toolkit.
cuda="${CUDA_HOME:-/usr/local/cuda}/include"
if have g++ && [ -f "$cuda/cuda_runtime.h" ]; then
    for flags in -ffast-math -Ofast; do
        check "brainstorm_cuda.cu is refused, g++ $flags" refused g++ -x c++ -std=c++14 -DBS_CUDA_CPU -Itests/cuda_cpu \
            -I"$cuda" $flags \
            -E brainstorm_cuda.cu -o /dev/null
    done
    check "brainstorm_cuda.cu is taken, g++ -O3" taken g++ -x c++ -std=c++14 -DBS_CUDA_CPU -Itests/cuda_cpu -I"$cuda" \
        -O3 \
        -E brainstorm_cuda.cu -o /dev/null
else
    skip "brainstorm_cuda.cu (no g++, or no CUDA headers in $cuda)"
fi

check_end
