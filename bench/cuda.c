/* cuda.c: how fast networks run on a GPU, and whether they give what the CPU gives.
 *
 *     cuda [--tiny] [--check] [--rounds N] [--json FILE] [TEXT]      networks whose name has TEXT in it
 *     cuda [--tiny] --serve NETWORK:WAY...                           one run at a time: cuda_serve.c
 *     cuda --launches [--tiny | --full] [TEXT]                       what a run launches: cuda_launches.c
 *     cuda --list                                                    names of networks
 *
 * A line: wall milliseconds of a run, queued back to back and waited for at the end, and alone (submitted, waited for),
 * both medians of rounds in which all ways of running the network take turns; GFLOP/s and GB/s of the former; the share
 * of the measured limit (multiply-adds or memory, whichever takes longer); the largest difference from the CPU:
 * max|a-b| / max|CPU|, of pictures in codes. Buffers lie in the GPU's memory unless the name says otherwise.
 *
 * --tiny: the same structures, small. --check: results only, no times. Under the emulation of the tests both, always:
 * its times mean nothing; but --launches --full counts there what the networks launch in their own size.
 * Owns: the options. Relies on: cuda_bench.h, figures.h. Must never: print a time that no GPU took. */
#include "cuda_bench.h"
#include "figures.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS = 15 };

static void head(const cuda_options *o)
{
    bs_cuda_facts f;
    bs_error error;
    if (bs_cuda_facts_get(0, &f, &error) != BS_OK)
        return;
    printf("%s, compute capability %d.%d, %d multiprocessors, %d bytes of shared memory, %s, CUDA %d (driver %d)\n",
           f.name, f.major, f.minor, f.multiprocessors, f.shared_bytes, f.integrated ? "integrated" : "discrete",
           f.runtime, f.driver);
    if (o->timed)
        printf("  %-28s %9s %9s %9s %9s %9s %10s\n", "network:way", "queued ms", "alone ms", "GFLOP/s", "GB/s",
               "of limit", "off by");
    else
        printf("results against the CPU%s; no times\n  %-28s %10s\n", o->tiny ? ", small networks" : "", "network:way",
               "off by");
}

static bool all(const cuda_options *o)
{
    bool ok = true;
    if (!o->launches)
        head(o);
    for (int32_t i = 0; i < cuda_n_cases; i++)
        if (strstr(cuda_cases[i].name, o->text))
            ok = (o->launches ? cuda_show_launches : cuda_measure)(&cuda_cases[i], o) && ok;
    return ok;
}

static bool wrong(const char *word)
{
    fprintf(stderr, "cuda: unexpected \"%s\"; see the head of bench/cuda.c\n", word);
    return false;
}

static bool number(const char *word, int32_t *to)
{
    *to = (int32_t)atoi(word);
    return *to >= 1 && *to <= CUDA_MAX_ROUNDS;
}

static bool options_parse(cuda_options *o, int argc, char **argv, const char **json, int *serve, bool *list,
                          bool *full)
{
    for (int i = 1; i < argc && !*serve; i++) {
        if (strcmp(argv[i], "--tiny") == 0)
            o->tiny = true;
        else if (strcmp(argv[i], "--check") == 0)
            o->timed = false;
        else if (strcmp(argv[i], "--launches") == 0)
            o->launches = true;
        else if (strcmp(argv[i], "--full") == 0)
            *full = true;
        else if (strcmp(argv[i], "--list") == 0)
            *list = true;
        else if (strcmp(argv[i], "--serve") == 0 && i + 1 < argc)
            *serve = i + 1;
        else if (strcmp(argv[i], "--json") == 0 && i + 1 < argc)
            *json = argv[++i];
        else if (strcmp(argv[i], "--rounds") == 0 && i + 1 < argc && number(argv[i + 1], &o->rounds))
            i++;
        else if (argv[i][0] == '-' || *o->text)
            return wrong(argv[i]);
        else
            o->text = argv[i];
    }
    return true;
}

static bool run(cuda_options *o, figures *out)
{
    o->json = out->path ? figures_file(out) : NULL;
    if (out->path && !o->json)
        return false;
    if (o->json)
        fprintf(o->json, "[");
    const bool ok = all(o);
    if (o->json)
        fprintf(o->json, "\n]\n");
    return ok;
}

/* Returns the exit code. */
static int run_or_serve(cuda_options *o, figures *out, int count, char **names)
{
    bs_cuda_facts facts;
    bs_error error = {0};
    if (bs_cuda_facts_get(0, &facts, &error) != BS_OK) {
        fprintf(stderr, "cuda: nothing measured: %s\n", error.message);
        return count ? 1 : 0;
    }
    o->stream = bench_gpu_stream();
    const bool ok = count ? cuda_serve(count, names, o) : run(o, out);
    bench_gpu_stream_end(o->stream);
    return !ok;
}

int main(int argc, char **argv)
{
    figures out;
    figures_begin(&out, "cuda");
    cuda_options o = {.text = "", .timed = true, .rounds = ROUNDS};
    const char *json = NULL;
    int serve = 0;
    bool list = false, full = false;
    if (!options_parse(&o, argc, argv, &json, &serve, &list, &full))
        return 2;
#ifdef BS_CUDA_CPU
    o.tiny = !(full && o.launches);
    o.timed = false;
#endif
    for (int32_t i = 0; list && i < cuda_n_cases; i++)
        printf("%s\n", cuda_cases[i].name);
    if (list)
        return 0;
    const bool open = figures_reads(&out, "the model", CUDA_MODEL) && figures_open(&out, json);
    const int code = open ? run_or_serve(&o, &out, serve ? argc - serve : 0, argv + serve) : 1;
    return figures_end(&out) ? code : 1;
}
