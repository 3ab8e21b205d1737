#!/bin/sh
# cuda_build.sh - what nvcc makes of the CUDA backend: no warnings, no spilled registers, no product and sum that it
# fuses as it likes, links that hold, and an honest end where there is no GPU. Needs no GPU. `make check-cuda` calls it.
#
#   KERNELS=no     without what looks at optimized kernels: ten minutes of processor time an architecture
#   CUDA_HOME      the toolkit [/usr/local/cuda]
#   SMS            architectures, one after the other [87 90 110]
#   CXX            the host compiler that nvcc uses [c++]: an older toolkit wants an older one
#   CUOBJDUMP      NVIDIA's cuobjdump, with nvdisasm beside it [that of the toolkit]: without it no reads are counted
#   CUDA_AARCH64   a folder with NVIDIA's libcudart.so.N for aarch64: linked and run with instead of a stand-in
set -u
export LC_ALL=C
BUILD="${BUILD:-build/cuda-build}" CUDA_HOME="${CUDA_HOME:-/usr/local/cuda}" SMS="${SMS:-87 90 110}" \
    MAKE="${MAKE:-make}" KERNELS="${KERNELS:-yes}"
NVCC="${NVCC:-$CUDA_HOME/bin/nvcc}" CXX="${CXX:-c++}" PYTHON="${PYTHON:-python3}"
CUOBJDUMP="${CUOBJDUMP:-$CUDA_HOME/bin/cuobjdump}"
. tests/checks.sh
log="$BUILD/log" shown=40

have "$NVCC" || { skip "everything: no $NVCC"; check_end; exit; }
rm -rf "$BUILD" && mkdir -p "$BUILD" || exit 1

# --- code for each architecture --------------------------------------------------------------------------

# Optimizing takes a minute an architecture: all at once. The links below do without.
compile() { # SM
    mkdir -p "$BUILD/sm_$1" &&
        "$NVCC" -std=c++14 -ccbin "$CXX" -O3 "-gencode=arch=compute_$1,code=sm_$1" -Xcompiler -Wall,-Wextra \
        --keep --keep-dir "$BUILD/sm_$1" -Xptxas -v -I. -Isrc -c src/cuda/cuda.cu \
        -o "$BUILD/sm_$1.o" >"$BUILD/sm_$1.log" 2>&1
}

quietly() { # SM: it was compiled, and nothing was said but what ptxas was asked to tell
    ! grep -v '^ptxas info\|^ *[0-9]* bytes stack frame' "$BUILD/sm_$1.log" && [ -f "$BUILD/sm_$1.o" ]
}

# Lines `function registers stack spilled shared` from what ptxas tells; registers of a function that kernels call: -.
usage() { # SM
    awk '/Compiling entry function/ { split($0, q, "\047"); entry = q[2] }
         /Function properties for/ { fn = $NF; sub(/^\047/, "", fn); sub(/\047$/, "", fn)
             order[++n] = fn; registers[fn] = "-"; shared[fn] = 0 }
         /bytes stack frame/ { stack[fn] = $1; spilled[fn] = $5 + $9 }
         / Used [0-9]+ registers/ {
             for (i = 1; i < NF; i++) {
                 if ($i == "Used") registers[entry] = $(i + 1)
                 if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) shared[entry] = $i
             }
         }
         END { for (i = 1; i <= n; i++) {
             fn = order[i]
             print fn, registers[fn], stack[fn], spilled[fn], shared[fn]
         } }' \
        "$BUILD/sm_$1.log" | c++filt |
        sed -e 's/^void //' -e 's/^_INTERNAL_[^:]*:://' -e 's/([^)]*)//g' -e 's/ const \([-0-9]\)/ \1/' \
            -f "$BUILD/names.sed"
}

no_spills() { # SM
    usage "$1" | awk '$4 > 0 { print $1 " spills " $4 " bytes"; bad = 1 } END { exit bad || !NR }'
}

# Lines `function fused` of what PTX has: how often it has a product and a sum in one, rounded once.
fused() { # PTX
    awk '/\.(entry|func) / { fn = $0; sub(/.*\.(entry|func) +(\([^)]*\) *)?/, "", fn); sub(/\(.*/, "", fn); n[fn] += 0 }
         /fma\.rn\.f32/ { n[fn]++ }
         END { for (fn in n) print fn, n[fn] }' "$1" | c++filt |
        sed -e 's/^void //' -e 's/^_INTERNAL_[^:]*:://' -e 's/([^)]*)//' -f "$BUILD/names.sed" | sort
}

unfused() { # SM: what it makes of the sources when it may fuse nothing
    "$NVCC" -std=c++14 -ccbin "$CXX" -O3 -fmad=false -arch="compute_$1" -ptx -I. -Isrc src/cuda/cuda.cu \
        -o "$BUILD/unfused.ptx" \
        >"$BUILD/unfused.log" 2>&1
}

# A product and a sum that the compiler may fuse it fuses in one function and not in another, and what is to be the same
# bytes no longer is. So the sources say which are one rounding and which two (bs_cu_mul_add): there is nothing left to
# fuse.
fuses_nothing() { # SM
    fused "$BUILD/sm_$1/cuda.ptx" >"$BUILD/fused" && fused "$BUILD/unfused.ptx" >"$BUILD/written" || return 1
    diff "$BUILD/written" "$BUILD/fused" && grep -q '^bs_cu_group:affine 0$' "$BUILD/fused" &&
        grep -q '^bs_cu_call:affine 0$' "$BUILD/fused"
}

# Kernels by their names in src/cuda/kernels.cuh, which are numbers in what ptxas says.
kernel_names() {
    cat >"$BUILD/names.cpp" <<'END'
#include "cuda/kernels.cuh"
#include <stdio.h>
#define LINE(name) printf("%d " #name "\n", (int)BS_CU_##name);
int main()
{
    BS_CU_KERNELS(LINE)
    return 0;
}
END
    c++ -Isrc "$BUILD/names.cpp" -o "$BUILD/names" && "$BUILD/names" >"$BUILD/names.txt" &&
        sed 's/\([0-9]*\) \(.*\)/s\/^\\(bs_cu_[a-z]*\\)<\1>\/\\1:\2\//' "$BUILD/names.txt" >"$BUILD/names.sed"
}

table() {
    printf '%-44s %6s %10s %8s %8s\n' kernel sm registers stack shared
    for sm in $SMS; do
        usage "$sm" | while read -r function registers stack spilled shared; do
            [ "$registers" != - ] || continue
            printf '%-44s %6s %10s %8s %8s\n' "$function" "$sm" "$registers" "$stack" "$shared"
        done
    done | sort -k 1,1 -k 2,2 -k 3n
}

optimized() {
    for sm in $SMS; do
        compile "$sm" &
    done
    unfused "${SMS%% *}" &
    wait
    for sm in $SMS; do
        check "sm_$sm: compiles without a warning" quietly "$sm"
        check "sm_$sm: no register is spilled" no_spills "$sm"
    done
    check "no product and sum is fused that the sources have apart" fuses_nothing "${SMS%% *}"
    check "a table of kernels" table
    cat "$BUILD/log"
}

# --- reads that wait for one another ---------------------------------------------------------------------

most_reads=6 # before the first data

# All kernels, where they were compiled; else some of each kind, by themselves.
disassemble() {
    object=$BUILD/sm_90.o
    [ -f "$object" ] || object=$BUILD/chain.cubin
    [ -f "$object" ] ||
        "$NVCC" -std=c++14 -ccbin "$CXX" -O3 -gencode=arch=compute_90,code=sm_90 -I. -Isrc -cubin tests/cuda_chain.cu \
            -o "$object" || return 1
    PATH="$PATH:$(dirname "$CUOBJDUMP")" "$CUOBJDUMP" -sass "$object" >"$BUILD/chain.sass"
}

reads_in_line() {
    check "reads in line are counted as is said" "$PYTHON" tests/cuda_chain.py --self-test
    have "$CUOBJDUMP" || { skip "reads in line: no $CUOBJDUMP"; return; }
    check "sm_90: kernels are disassembled" disassemble
    check "a kernel has its first data after $most_reads reads in line" \
        "$PYTHON" tests/cuda_chain.py "$most_reads" "$BUILD/names.txt" "$BUILD/chain.sass"
    cat "$BUILD/log"
}

# --- what the object asks for ----------------------------------------------------------------------------

# CUDA's calls, C's memcpy and the like; no allocator, no printing. (atexit is nvcc's own.)
forbidden() { # OBJECT
    nm -u "$1" | awk '{ print $NF }' >"$BUILD/undefined"
    memory='_Zn[wa]|_Zd[la]|(m|c|re)alloc$|free$|strdup|posix_memalign|aligned_alloc'
    ! grep -E "^($memory|(f|v|d)*printf\$|__f?printf_chk|puts\$|exit\$|abort\$|getenv\$|_ZSt)" \
        "$BUILD/undefined"
}

foreign() { # OBJECT: what is not static has a name of ours
    ! nm -g --defined-only "$1" | awk '$NF !~ /bs_|^DW\.ref\./' | grep .
}

compile_alone() { # FOLDER FLAGS: as users do, but for the optimization
    folder=$BUILD/$1
    shift
    mkdir -p "$folder" && cp brainstorm.h brainstorm_cuda.cu "$folder" &&
        (cd "$folder" && "$NVCC" -std=c++14 -ccbin "$CXX" -G -arch="sm_${SMS##* }" -Xcompiler -O1,-Wall,-Wextra "$@" \
            -c brainstorm_cuda.cu) >"$folder/log" 2>&1
    echo $? >"$folder/status"
}

alone() { # FOLDER
    cat "$BUILD/$1/log"
    [ "$(cat "$BUILD/$1/status")" -eq 0 ] && [ ! -s "$BUILD/$1/log" ]
}

# --- programs --------------------------------------------------------------------------------------------

cat >"$BUILD/asks.c" <<'END'
#include "brainstorm.h"
#include <stdio.h>

BS_ALIGNED static uint8_t memory[1 << 16];

int main(void)
{
    bs_arena arena;
    bs_cuda_facts facts;
    bs_error error = {0};
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    const bs_cuda_desc desc = {.device_bytes = 1 << 20, .pinned_bytes = 1 << 20};
    if (bs_cuda_open(&arena, &desc, &error) || bs_cuda_facts_get(0, &facts, &error) == BS_OK)
        return puts("there is a GPU"), 0;
    printf("%s\n", error.message);
    return 3;
}
END

build() { # FOLDER ARGUMENTS of make
    folder=$1
    shift
    "$MAKE" --no-print-directory -j2 CUDA=1 CUDA_HOME="$CUDA_HOME" BUILD="$folder" NVCCFLAGS=-G "$@" \
        all >"$BUILD/make.log" 2>&1
    status=$?
    grep -v '^  [A-Z]* [a-z/_0-9]*\.cu*$' "$BUILD/make.log"
    return $status
}

link_asks() { # COMPILER BUILD LIBRARIES...
    compiler=$1 where=$2
    shift 2
    $compiler -I. "$BUILD/asks.c" "$where/libbrainstorm.a" "$@" -lcublas -lcudart -lstdc++ -lm -lpthread \
        -Wl,--no-undefined -o "$where/asks"
}

# One line that says why, and exit status STATUS.
one_line() { # STATUS COMMAND...
    wanted=$1
    shift
    "$@" >"$BUILD/said" 2>&1
    status=$?
    cat "$BUILD/said"
    echo "exit status $status, wanted $wanted"
    [ $status -eq "$wanted" ] && [ "$(wc -l <"$BUILD/said")" -eq 1 ] && grep -qi 'cuda' "$BUILD/said"
}

asks_video_sr() { # BUILD COMMAND...
    printf 'YUV4MPEG2 W16 H16 F25:1 Ip C420jpeg\nFRAME\n%384s' '' >"$BUILD/small.y4m"
    where=$1
    shift
    one_line 1 "$@" "$where/video_sr" --quiet --device cuda "$BUILD/small.y4m" "$BUILD/small_out.y4m"
}

# What the backend calls is asked for by the names that NVIDIA's libraries have.
needed() { # READELF NM BUILD
    $1 -d "$3/asks" | grep NEEDED
    $2 -u "$3/asks" >"$BUILD/undefined"
    grep -q ' cudaMalloc@libcudart\.so\.[0-9]' "$BUILD/undefined" &&
        $1 -d "$3/asks" | grep -q 'NEEDED.*libcudart\.so\.[0-9]' || return 1
    grep -q ' cublas' "$BUILD/undefined" || return 0
    grep -q ' cublasCreate_v2@libcublas\.so\.[0-9]' "$BUILD/undefined" &&
        $1 -d "$3/asks" | grep -q 'NEEDED.*libcublas\.so\.[0-9]'
}

# The libraries that are linked with refuse what NVIDIA's lack.
refuses_misspelt() { # COMPILER FOLDER
    echo 'int cudaMallocc(void); int main(void) { return cudaMallocc(); }' >"$BUILD/misspelt.c"
    ! $1 "$BUILD/misspelt.c" -L"$2" -lcudart -o "$BUILD/misspelt" && grep -q cudaMallocc "$BUILD/log"
}

# --- all of it -------------------------------------------------------------------------------------------

"$NVCC" --version | sed -n 's/^Cuda compilation tools, /nvcc: /p'
check "kernels have names" kernel_names
[ "$KERNELS" = no ] || optimized
reads_in_line
compile_alone alone &
compile_alone alone_no_cublas -DBS_NO_CUBLAS &
wait
check "brainstorm_cuda.cu alone, without a warning" alone alone
check "brainstorm_cuda.cu alone, without cuBLAS" alone alone_no_cublas
check "object allocates, prints, exits nothing" forbidden "$BUILD/alone/brainstorm_cuda.o"
check "object defines only bs_ names" foreign "$BUILD/alone/brainstorm_cuda.o"

first=${SMS%% *}
host="$BUILD/host" here="$CUDA_HOME/lib64"
[ -d "$here" ] || here="$CUDA_HOME/lib"
check "$(uname -m): library and programs" build "$host" SMS="$first" CXX="$CXX"
check "$(uname -m): a C program links with NVIDIA's libraries" link_asks cc "$host" \
    -L"$here" -Wl,-rpath,"$here"
if [ -e /dev/nvidiactl ] || [ -e /dev/nvhost-gpu ]; then
    skip "without a GPU: this machine has one"
else
    check "without a GPU: one line says why" one_line 3 "$host/asks"
    if "$host/video_sr" --help | grep -q -e --device; then
        check "video_sr --device cuda without a GPU: one line says why" asks_video_sr "$host"
    else
        skip "video_sr --device cuda: it has no such option"
    fi
fi

arm="$BUILD/aarch64" qemu=$(command -v qemu-aarch64-static || command -v qemu-aarch64 || :)
if have aarch64-linux-gnu-g++ && [ "$(uname -m)" != aarch64 ]; then
    check "aarch64: library and programs" build "$arm" TARGET_ARCH=aarch64 SMS="$first" CXX=aarch64-linux-gnu-g++
    libraries=$arm/cuda-stubs
    [ -d "$libraries" ] || libraries=$(ls -d "$CUDA_HOME"/targets/*/lib | head -n 1)
    check "aarch64: a misspelt name is refused" refuses_misspelt aarch64-linux-gnu-gcc "$libraries"
    if [ -n "${CUDA_AARCH64:-}" ]; then # NVIDIA's libcudart before the stand-in; cuBLAS is half a gigabyte
        mkdir -p "$BUILD/real" && cp "$CUDA_AARCH64"/libcudart.so.* "$BUILD/real/" &&
            ln -sf "$(basename "$(ls "$BUILD"/real/libcudart.so.* | head -n 1)")" "$BUILD/real/libcudart.so"
        libraries="$BUILD/real:$libraries"
        check "aarch64: a C program links with NVIDIA's libcudart" link_asks aarch64-linux-gnu-gcc "$arm" \
            -L"$BUILD/real" -L"${libraries#*:}"
    else
        check "aarch64: a C program links" link_asks aarch64-linux-gnu-gcc "$arm" -L"$libraries"
    fi
    check "aarch64: it asks for NVIDIA's libraries and symbol versions" needed aarch64-linux-gnu-readelf \
        aarch64-linux-gnu-nm "$arm"
    if [ -n "$qemu" ]; then
        check "aarch64 without a GPU: one line says why" one_line 3 "$qemu" -L /usr/aarch64-linux-gnu \
            -E LD_LIBRARY_PATH="$libraries" "$arm/asks"
    else
        skip "aarch64 without a GPU: no qemu"
    fi
else
    skip "aarch64: no cross compiler"
fi

check_end
