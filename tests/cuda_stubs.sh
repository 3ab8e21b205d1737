#!/bin/sh
# cuda_stubs.sh FROM TO - libraries to link a CUDA program of another processor with, made from the names that this
# machine's libcudart and libcublas export. CC: the compiler for that processor.
#
# A name that NVIDIA's library lacks is refused as by the real one; library names and symbol versions are the real ones
# too, so what was linked runs on a board. Run with the stubs themselves, every call answers "no CUDA-capable device".
set -eu
from=$1 to=$2
CC="${CC:-aarch64-linux-gnu-gcc}"
mkdir -p "$to"

# Names that FILE exports, without those of its symbol versions.
exported() { nm -D --defined-only "$1" | awk '$2 != "A" { sub(/@.*/, "", $3); print $3 }' | sort -u; }

# What programs print must be text; all else is a status: 100 is cudaErrorNoDevice.
bodies() {
    awk '/^cuda(GetErrorString|GetErrorName)$|^cublasGetStatus(String|Name)$/ {
             print "const char *" $1 "(void) { return \"no CUDA-capable device is detected\"; }"; next }
         { print "int " $1 "(void) { return 100; }" }'
}

for name in cudart cublas; do
    library=$(ls "$from/lib$name.so".[0-9]* 2>/dev/null | head -n 1)
    [ -n "$library" ] || { echo "$0: no lib$name.so.N in $from" >&2; exit 1; }
    # The name by which programs ask for it: libcudart.so.13, libcudart.so.11.0
    soname=$(objdump -p "$library" | awk '$1 == "SONAME" { print $2 }')
    version=$(nm -D --defined-only "$library" | awk '$2 == "A" { print $3; exit }')
    exported "$library" | bodies >"$to/$name.c"
    set --
    if [ -n "$version" ]; then
        echo "$version { global: *; };" >"$to/$name.map"
        set -- "-Wl,--version-script=$to/$name.map"
    fi
    $CC -w -fno-builtin -shared -fPIC "-Wl,-soname,$soname" "$@" "$to/$name.c" -o "$to/$soname"
    ln -sf "$soname" "$to/lib$name.so"
done
