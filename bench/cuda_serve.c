/* cuda_serve.c: arms run as a driver asks, one command a line on standard input:
 *
 *     run I N          N runs of arm I, back to back, waited for at the end       wall seconds a run
 *     input I NAME     an input of its network                                    "dtype rank d0 d1 d2 d3 bytes", them
 *     weight I NAME    a weight of its network, as stored; "none" if it has none  the same
 *     chosen I ROUTER  the first path of every cell in its last run               the same
 *     output I         what its last run gave                                     the same
 *     gpu              the GPU's name
 *
 * Owns: the protocol. Must never: write anything else to standard output. */
#include "cuda_bench.h"

#include <stdlib.h>
#include <string.h>

enum { SERVE_MOST = 16 };

static bool complain(const char *what, const char *why)
{
    fprintf(stderr, "cuda: %s: %s\n", what, why);
    return false;
}

static bool send(bs_dtype dtype, int32_t rank, const int64_t *dim, const void *data, size_t bytes)
{
    printf("%s %d", bs_dtype_name(dtype), (int)rank);
    for (int32_t d = 0; d < BS_MAX_RANK; d++)
        printf(" %lld", d < rank ? (long long)dim[d] : 1);
    printf(" %llu\n", (unsigned long long)bytes);
    return fwrite(data, 1, bytes, stdout) == bytes;
}

static bool send_weight(const cuda_net *net, const char *name)
{
    const bs_weights weights = cuda_net_weights(net);
    bs_weight_info info;
    if (weights.find(weights.user, name, &info) != BS_OK)
        return printf("none\n") > 0;
    void *data = malloc((size_t)info.bytes);
    const bool ok = data && weights.read(weights.user, &info, 0, data, (size_t)info.bytes) == BS_OK &&
                    send(info.dtype, info.rank, info.dim, data, (size_t)info.bytes);
    free(data);
    return ok || complain(name, "cannot be read");
}

static bool send_input(const cuda_net *net, const char *name)
{
    for (int32_t i = 0; i < net->n_inputs; i++) {
        const bs_buffer *b = &net->inputs[i];
        if (strcmp(net->input_names[i], name) == 0)
            return send(b->dtype, b->rank, b->dim, b->data, (size_t)cuda_net_elements(b) * bs_dtype_bytes(b->dtype));
    }
    return complain(name, "no such input");
}

static bool send_chosen(const cuda_line *line, const char *router)
{
    bs_decision d;
    if (bs_decision_get(line->arms[0].parts[0].session, router, &d) != BS_OK)
        return complain(router, "no such router");
    int32_t *data = malloc((size_t)d.cells * sizeof *data + 1);
    for (int32_t c = 0; data && c < d.cells; c++)
        data[c] = d.chosen[c];
    const bool ok = data && send(BS_I32, 1, (const int64_t[]){d.cells}, data, (size_t)d.cells * sizeof *data);
    free(data);
    return ok || complain(router, "its cells cannot be listed");
}

static bool send_output(const cuda_line *line)
{
    const bs_buffer *out = &line->net.output;
    const size_t bytes = (size_t)cuda_net_elements(out) * bs_dtype_bytes(out->dtype);
    void *data = malloc(bytes);
    const bool ok = data && cuda_arm_result(&line->arms[0], data) && send(out->dtype, out->rank, out->dim, data, bytes);
    free(data);
    return ok || complain(line->arms[0].name, "its result cannot be read");
}

static bool obey(cuda_line *lines, int32_t count, const char *verb, int32_t index, const char *word)
{
    bs_cuda_facts facts;
    bs_error error = {0};
    if (strcmp(verb, "gpu") == 0)
        return bs_cuda_facts_get(0, &facts, &error) == BS_OK && printf("%s\n", facts.name) > 0;
    if (index < 0 || index >= count)
        return complain(verb, "no such arm");
    if (strcmp(verb, "input") == 0)
        return send_input(&lines[index].net, word);
    if (strcmp(verb, "weight") == 0)
        return send_weight(&lines[index].net, word);
    if (strcmp(verb, "chosen") == 0)
        return send_chosen(&lines[index], word);
    if (strcmp(verb, "output") == 0)
        return send_output(&lines[index]);
    if (strcmp(verb, "run") != 0)
        return complain(verb, "no such command");
    const double seconds = cuda_arm_seconds(&lines[index].arms[0], atoi(word), &error);
    return seconds >= 0 ? printf("%.9g\n", seconds) > 0 : complain("run", error.message);
}

static bool open_named(cuda_line *line, char *name, const cuda_options *o)
{
    char *way = strchr(name, ':');
    for (int32_t i = 0; way && i < cuda_n_cases; i++) {
        const size_t length = (size_t)(way - name);
        if (strlen(cuda_cases[i].name) != length || strncmp(cuda_cases[i].name, name, length) != 0)
            continue;
        if (!cuda_line_open(line, &cuda_cases[i], o->tiny, way + 1, o->stream))
            return complain(name, line->net.error.message);
        if (line->n_arms != 1 || line->errors[0].status != BS_OK)
            return complain(name, line->n_arms ? line->errors[0].message : "no such way of running it");
        return true;
    }
    return complain(name, "expected NETWORK:WAY");
}

bool cuda_serve(int32_t count, char **names, const cuda_options *o)
{
    static cuda_line lines[SERVE_MOST];
    char command[160], verb[16], word[128];
    bool ok = count <= SERVE_MOST || complain("--serve", "too many arms");
    for (int32_t i = 0; ok && i < count; i++)
        ok = open_named(&lines[i], names[i], o);
    while (ok && fgets(command, sizeof command, stdin)) {
        int index = 0;
        word[0] = 0;
        if (sscanf(command, "%15s %d %127s", verb, &index, word) < 1)
            continue;
        ok = obey(lines, count, verb, (int32_t)index, word);
        fflush(stdout);
    }
    for (int32_t i = 0; i < count && i < SERVE_MOST; i++)
        cuda_line_close(&lines[i]);
    return ok;
}
