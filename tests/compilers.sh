# compilers.sh - what the compilers of this machine can do: for .ci/run, which installs what is missing, and for what
# skips without it. To be sourced; prints nothing.

# Whether clang has libFuzzer.
has_fuzzer() {
    command -v clang >/dev/null 2>&1 &&
        echo 'int LLVMFuzzerTestOneInput(const void *d, unsigned long n) { return d && n > 99; }' |
        clang -x c -fsanitize=fuzzer,address - -o /dev/null 2>/dev/null
}

# Whether gcc -m32 has its libraries.
can_32_bit() { echo 'int main(void) { return 0; }' | gcc -m32 -x c - -o /dev/null 2>/dev/null; }
