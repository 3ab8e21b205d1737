/* blas.c: products by a BLAS with a C interface, such as OpenBLAS, as a driver asks, so that bench/peers/products.py
 * can run it in turns with ours, with as little around it as ours has.
 *
 *     blas LIBRARY                commands on standard input, replies on standard output
 *
 *     kernel                                                   the name of the processor that its kernels are for
 *     open COUNT M K N            then f32 weights [N, K], then COUNT inputs [M, K]                          "ok"
 *     run TIMES                   y = x weights^T, of all inputs, so often              "CPU-SECONDS" of it all
 *     result I                                                                                  its f32 bytes [M, N]
 *     close                                                                                                  "ok"
 *
 * It takes the weights as they lie or transposed, whichever is faster in a trial. One thread.
 * Owns: the protocol. Relies on: dlopen. Must never: use more of a BLAS than sgemm and sgemv.
 */
#include "figures.h"
#include "peak.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112, MAX_COUNT = 64, LINE = 256, TRIALS = 5 };

typedef void sgemm_function(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                            const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
typedef void sgemv_function(int order, int transpose, int rows, int columns, float alpha, const float *a, int lda,
                            const float *x, int step, float beta, float *y, int y_step);
typedef char *name_function(void);
typedef void threads_function(int threads);

typedef struct blas {
    sgemm_function *sgemm;
    sgemv_function *sgemv;
    name_function *kernel;
    int count, m, k, n;
    bool as_they_lie;
    float *weights, *transposed, *in[MAX_COUNT], *out[MAX_COUNT];
} blas;

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "blas: %s: %s\n", what, why);
    return false;
}

/* Of the function called so, with the prefix that SciPy's builds have or without. */
static bool find(void *library, const char *name, void *function)
{
    char prefixed[64];
    snprintf(prefixed, sizeof prefixed, "scipy_%s", name);
    void *found = dlsym(library, prefixed);
    if (!found)
        found = dlsym(library, name);
    memcpy(function, &found, sizeof found); /* ISO C has no cast from one to the other */
    return found != NULL;
}

static bool blas_begin(blas *b, const char *path)
{
    threads_function *threads;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return complain(path, dlerror());
    if (!find(library, "cblas_sgemm", &b->sgemm) || !find(library, "cblas_sgemv", &b->sgemv))
        return complain(path, "there is no cblas_sgemm or cblas_sgemv");
    if (find(library, "openblas_set_num_threads", &threads))
        threads(1);
    find(library, "openblas_get_corename", &b->kernel);
    return true;
}

static void blas_close(blas *b)
{
    for (int i = 0; i < b->count; i++) {
        free(b->in[i]);
        free(b->out[i]);
    }
    free(b->weights);
    free(b->transposed);
    const blas kept = {.sgemm = b->sgemm, .sgemv = b->sgemv, .kernel = b->kernel};
    *b = kept;
}

/* One row is a matrix by a vector: sgemm would pack weights that are read once. */
static void once(blas *b)
{
    const bool lie = b->as_they_lie;
    const float *w = lie ? b->weights : b->transposed;
    for (int i = 0; i < b->count; i++)
        if (b->m == 1)
            b->sgemv(ROW_MAJOR, lie ? AS_IT_IS : TRANSPOSED, lie ? b->n : b->k, lie ? b->k : b->n, 1, w,
                     lie ? b->k : b->n, b->in[i], 1, 0, b->out[i], 1);
        else
            b->sgemm(ROW_MAJOR, AS_IT_IS, lie ? TRANSPOSED : AS_IT_IS, b->m, b->n, b->k, 1, b->in[i], b->k, w,
                     lie ? b->k : b->n, 0, b->out[i], b->n);
}

static double best_of_trials(blas *b)
{
    double best = 0;
    for (int i = 0; i <= TRIALS; i++) {
        const double since = peak_cpu_seconds();
        once(b);
        const double now = peak_cpu_seconds() - since;
        best = i == 1 || now < best ? now : best; /* the first one warms up */
    }
    return best;
}

static float *floats(size_t count)
{
    return aligned_alloc(BS_ALIGNMENT, (count * sizeof(float) + BS_ALIGNMENT - 1) / BS_ALIGNMENT * BS_ALIGNMENT);
}

static bool read_floats(float *to, size_t count) { return to && fread(to, sizeof *to, count, stdin) == count; }

static bool blas_open(blas *b, int count, int m, int k, int n)
{
    blas_close(b);
    if (count < 1 || count > MAX_COUNT || m < 1 || k < 1 || n < 1)
        return complain("open", "1 .. 64 products of positive sizes");
    const size_t of_weights = (size_t)k * (size_t)n;
    const size_t of_input = (size_t)m * (size_t)k, of_output = (size_t)m * (size_t)n;
    b->count = count, b->m = m, b->k = k, b->n = n;
    b->weights = floats(of_weights);
    b->transposed = floats(of_weights);
    bool ok = b->transposed && read_floats(b->weights, of_weights);
    for (int i = 0; ok && i < count; i++) {
        b->in[i] = floats(of_input);
        b->out[i] = floats(of_output);
        ok = b->out[i] && read_floats(b->in[i], of_input);
    }
    if (!ok)
        return complain("open", "memory or data are missing");
    for (size_t i = 0; i < of_weights; i++)
        b->transposed[i % (size_t)k * (size_t)n + i / (size_t)k] = b->weights[i];
    const double turned = best_of_trials(b);
    b->as_they_lie = true;
    b->as_they_lie = best_of_trials(b) <= turned;
    return puts("ok") >= 0;
}

static bool obey(blas *b, const char *verb, const char *rest)
{
    int count, m, k, n;
    if (strcmp(verb, "kernel") == 0)
        return puts(b->kernel ? b->kernel() : "unknown") >= 0;
    if (strcmp(verb, "open") == 0)
        return sscanf(rest, "%d %d %d %d", &count, &m, &k, &n) == 4 && blas_open(b, count, m, k, n);
    if (strcmp(verb, "close") == 0) {
        blas_close(b);
        return puts("ok") >= 0;
    }
    const int number = atoi(rest);
    if (strcmp(verb, "run") == 0) {
        const double since = peak_cpu_seconds();
        for (int i = 0; i < number; i++)
            once(b);
        return printf("%.9f\n", peak_cpu_seconds() - since) > 0;
    }
    if (strcmp(verb, "result") != 0 || number < 0 || number >= b->count)
        return complain(verb, "no such command or number");
    const size_t elements = (size_t)b->m * (size_t)b->n;
    return fwrite(b->out[number], sizeof(float), elements, stdout) == elements;
}

static bool serve(const char *path)
{
    static blas b;
    char line[LINE], verb[16];
    bool ok = blas_begin(&b, path);
    while (ok && fgets(line, sizeof line, stdin)) {
        int at = 0;
        ok = sscanf(line, "%15s %n", verb, &at) < 1 || obey(&b, verb, line + at);
        fflush(stdout);
    }
    blas_close(&b);
    return ok;
}

int main(int argc, char **argv)
{
    figures out;
    figures_begin(&out, "blas");
    if (argc != 2) {
        fprintf(stderr, "usage: %s LIBRARY, then commands on standard input: see bench/blas.c\n", argv[0]);
        return 2;
    }
    const bool ok = figures_open(&out, NULL) && serve(argv[1]);
    return figures_end(&out) && ok ? 0 : 1;
}
