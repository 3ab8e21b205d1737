/* cuda_launches.c: what one run of each network launches, in each form: `cuda --launches`. */
#include "cuda_bench.h"
#include "device_launches.h"

static bool show(const cuda_line *line, int32_t i)
{
    const cuda_arm *arm = &line->arms[i];
    bs_error error = line->errors[i];
    bool ok = arm->n_parts > 0;
    printf("\n%s:%s", arm->name, ok ? "\n" : " ");
    for (int32_t k = 0; ok && k < arm->n_parts; k++)
        ok = device_launches(arm->parts[k].device, arm->parts[k].session, arm->parts[k].net->graph, false, stdout,
                             &error);
    if (!ok)
        printf("%s\n", error.message);
    return ok;
}

bool cuda_show_launches(const cuda_case *of, const cuda_options *o)
{
    static cuda_line line;
    bool ok = cuda_line_open(&line, of, o->tiny, NULL, o->stream);
    if (!ok)
        printf("\n%s: %s\n", of->name, line.net.error.message);
    for (int32_t i = 0; i < line.n_arms; i++)
        ok = show(&line, i) && ok;
    cuda_line_close(&line);
    return ok;
}
