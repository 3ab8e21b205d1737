#!/bin/sh
# self_test.sh DIR - builds the CUDA emulator and its self-test into DIR with every compiler here, plain, with ASan and
# UBSan, and with TSan; runs it, also with delays and with blocks on two threads; and checks that each deliberate bug is
# caught by the tool that must catch it. Prints failures and a last line "N passed, N failed, N skipped".
# CUDA_HOME: where the toolkit's headers are. COMPILERS: which to use instead of clang++ and g++.
set -u
dir=${1:?usage: self_test.sh DIR}
here=$(cd "$(dirname "$0")" && pwd)
include=${CUDA_HOME:-/usr/local/cuda}/include
unset CUDA_CPU_ORDER CUDA_CPU_SEED CUDA_CPU_DELAY CUDA_CPU_DEVICES CUDA_CPU_BLOCK_THREADS
ulimit -c 0 # deliberate bugs end in abort

compilers=
for compiler in ${COMPILERS:-clang++ g++}; do
    command -v "$compiler" >/dev/null 2>&1 && compilers="$compilers $compiler"
done
if [ ! -e "$include/cuda_runtime.h" ] || [ ! -e "$include/cublas_v2.h" ] || [ -z "$compilers" ]; then
    echo "skipped: needs the CUDA headers (CUDA_HOME) and a C++ compiler"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
mkdir -p "$dir" || exit 1
dir=$(cd "$dir" && pwd)
warnings='-Wall -Wextra -Wpedantic -Wshadow -Werror'

# build COMPILER MODE: DIR/COMPILER.MODE/self_test
build() {
    compiler=$1 out=$dir/$1.$2
    case $2 in
    plain) engine='' code='' ;;
    asan) engine=-DCUDA_CPU_ASAN code='-fsanitize=address,undefined -fno-sanitize-recover=undefined' ;;
    tsan) engine=-DCUDA_CPU_TSAN code=-fsanitize=thread ;;
    esac
    mkdir -p "$out" || return 1
    for file in "$here"/*.cpp; do
        # shellcheck disable=SC2086
        "$compiler" -std=c++14 -O1 -g $warnings -isystem "$include" $engine -c "$file" \
            -o "$out/$(basename "$file" .cpp).o" || return 1
    done
    # shellcheck disable=SC2086
    "$compiler" -std=c++14 -O1 -g $warnings -DBS_CUDA_CPU -I"$here" -isystem "$include" $code -fno-omit-frame-pointer \
        -x c++ "$here"/self_*.cu -x none "$out"/*.o -o "$out/self_test" -lpthread
}

# result NAME WHETHER LOG
result() {
    if [ "$2" -eq 0 ]; then
        echo ok
    else
        echo "FAIL $1"
        head -n 12 "$3" | sed 's/^/    | /'
    fi
}

# runs COMPILER.MODE NAME ENVIRONMENT...: the whole self-test passes
runs() {
    name="$1 $2" program=$dir/$1/self_test log=$dir/$1/log.$2
    shift 2
    env "$@" timeout 60 "$program" >"$log" 2>&1
    result "$name" $? "$log"
}

# caught COMPILER.MODE BUG TEXT: it must not pass, and TEXT must be in what is said
caught() {
    log=$dir/$1/log.$2
    timeout 20 "$dir/$1/self_test" "$2" >"$log" 2>&1
    status=$?
    [ $status -ne 0 ] && [ $status -ne 124 ] && grep -q "$3" "$log"
    result "$1: bug $2 is not caught" $? "$log"
}

one_compiler() {
    for mode in plain asan tsan; do
        if ! build "$1" $mode >"$dir/$1.$mode.log" 2>&1; then
            result "$1 $mode does not build" 1 "$dir/$1.$mode.log"
            continue
        fi
        at=$1.$mode
        runs "$at" plainly CUDA_CPU_SEED=1
        runs "$at" on_two_threads CUDA_CPU_BLOCK_THREADS=2
        runs "$at" with_delays CUDA_CPU_DELAY=200
        case $mode in
        plain)
            runs "$at" without_device CUDA_CPU_DEVICES=0 CUDA_CPU_EXPECT_NONE=1
            caught "$at" barrier 'wrong result'
            caught "$at" divergent 'divergent barrier: thread 16 .*self_bugs.cu:'
            caught "$at" absent_lane 'waits at .*self_bugs.cu:'
            caught "$at" ended_lane 'which have ended'
            caught "$at" not_shared 'for an address of shared memory, which it is not'
            caught "$at" beyond 'was written beyond its end'
            runs "$at" separately CUDA_CPU_SEPARATE=1
            CUDA_CPU_SEPARATE=1 sh -c '"$0" host_touch; [ $? -eq 139 ]' "$dir/$at/self_test" \
                >"$dir/$at/log.host_touch" 2>&1
            result "$at: bug host_touch is not caught" $? "$dir/$at/log.host_touch"
            caught "$at" endless 'a million times'
            ;;
        asan)
            caught "$at" shared_bound 'AddressSanitizer: heap-buffer-overflow'
            caught "$at" bound 'AddressSanitizer: heap-buffer-overflow'
            caught "$at" after_free 'AddressSanitizer: heap-use-after-free'
            ;;
        tsan)
            for bug in event graph_edge host_read host_write read_after_free barrier syncwarp same_word \
                same_word_barriers library_product; do
                caught "$at" $bug 'ThreadSanitizer: data race'
            done
            ;;
        esac
    done
}

for compiler in $compilers; do
    one_compiler "$compiler" >"$dir/$compiler.results" &
done
wait
cd "$dir" || exit 1
results=$(for compiler in $compilers; do cat "$compiler.results"; done)
echo "$results" | grep -v '^ok$'
passed=$(echo "$results" | grep -c '^ok$')
failed=$(echo "$results" | grep -c '^FAIL')
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
