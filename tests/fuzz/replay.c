/* replay.c - the main() of a fuzzer without libFuzzer: every file named on the command line goes through it once.
 * Relies on: fuzz.h. Must never: end before the last file, unless an input breaks the program, which is what shows. */
#include "fuzz.h"

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        long n = file && fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
        uint8_t *data = n >= 0 ? malloc((size_t)n + 1) : NULL;
        const int whole = data && fseek(file, 0, SEEK_SET) == 0 && fread(data, 1, (size_t)n, file) == (size_t)n;
        if (file)
            fclose(file);
        printf("%s ", argv[i]); /* told before: the last one named is the one that breaks */
        fflush(stdout);
        if (whole) {
            uint8_t *exact = fuzz_copy(data, (size_t)n);
            LLVMFuzzerTestOneInput(exact, (size_t)n);
            free(exact);
        }
        printf("%s\n", whole ? "ok" : "cannot be read");
        failed += !whole;
        free(data);
    }
    return failed != 0;
}
