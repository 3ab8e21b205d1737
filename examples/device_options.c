/* device_options.c: see device_options.h. */
#include "device_options.h"

#include "json_text.h"
#include "words.h"

#include <string.h>

enum { DEVICE_ARENA_BYTES = 512 }; /* bs_cuda_open takes some 200 */

/* ------------------------------------------------------------------------------------------------- options */

device_taken device_options_value(device_options *o, const char *name, const char *value, char *message, size_t bytes)
{
    static const char *const names[] = {"cpu", "cuda", NULL};
    static const char *const launch_modes[] = {"auto", "stream", "graph", "conditional", NULL};
    if (strcmp(name, "--launch") == 0) {
        o->launch_mode = word_name(value, launch_modes);
        if (o->launch_mode >= 0)
            return DEVICE_TAKEN;
        snprintf(message, bytes, "%s %.60s: expected auto, stream, graph or conditional", name, value);
        return DEVICE_WRONG;
    }
    if (strcmp(name, "--device") != 0)
        return DEVICE_OTHER;
    const int32_t i = word_name(value, names);
    o->cuda = i == 1;
    if (i >= 0)
        return DEVICE_TAKEN;
    snprintf(message, bytes, "%s %.60s: expected cpu or cuda", name, value);
    return DEVICE_WRONG;
}

bool device_options_flag(device_options *o, const char *name)
{
    if (strcmp(name, "--half") == 0)
        o->half = true;
    else if (strcmp(name, "--fallback") == 0)
        o->fallback = true;
    else if (strcmp(name, "--copy") == 0)
        o->copy = true;
    else
        return false;
    return true;
}

const char *device_options_wrong(const device_options *o)
{
    if (o->half && !o->cuda)
        return "--half is for --device cuda";
    if ((o->copy || o->launch_mode) && !o->cuda)
        return o->copy ? "--copy is for --device cuda" : "--launch is for --device cuda";
    return o->fallback && !o->cuda ? "--fallback is for --device cuda" : NULL;
}

/* ------------------------------------------------------------------------------------- the backend, or none */

#ifdef BS_CUDA

bool device_facts(int32_t index, bs_cuda_facts *facts, bs_error *error)
{
    return bs_cuda_facts_get(index, facts, error) == BS_OK;
}

static bs_device *open_device(bs_arena *arena, const bs_cuda_desc *desc, bs_error *error)
{
    return bs_cuda_open(arena, desc, error);
}

void device_close(device_tools *gpu)
{
    bs_cuda_close(gpu->device);
    gpu->device = NULL;
}

bool device_time(bs_session *session, int32_t runs, FILE *file, bs_error *error)
{
    uint64_t ns[BS_LAUNCH_COUNT];
    bs_launch_mode best;
    if (bs_cuda_choose(session, runs, &best, ns, error) != BS_OK)
        return false;
    fprintf(file, "ms a run, by launch mode:");
    for (int32_t mode = 0; mode < BS_LAUNCH_COUNT; mode++)
        if (ns[mode])
            fprintf(file, "  %s %.4f%s", bs_launch_mode_name((bs_launch_mode)mode), (double)ns[mode] / 1e6,
                    mode == (int32_t)best ? " (fastest)" : "");
    return fprintf(file, "\n") > 0;
}

#else

static bool missing(bs_error *error)
{
    memset(error, 0, sizeof *error);
    error->status = BS_ERROR_UNSUPPORTED;
    snprintf(error->message, sizeof error->message, "this build has no CUDA backend: make CUDA=1");
    return false;
}

bool device_facts(int32_t index, bs_cuda_facts *facts, bs_error *error)
{
    (void)index;
    memset(facts, 0, sizeof *facts);
    return missing(error);
}

static bs_device *open_device(bs_arena *arena, const bs_cuda_desc *desc, bs_error *error)
{
    (void)arena;
    (void)desc;
    missing(error);
    return NULL;
}

void device_close(device_tools *gpu)
{
    gpu->device = NULL;
}

bool device_time(bs_session *session, int32_t runs, FILE *file, bs_error *error)
{
    (void)session, (void)runs, (void)file;
    return missing(error);
}

#endif

/* ------------------------------------------------------------------------------------------- while it runs */

bool device_find(device_tools *gpu, const device_options *o, bs_error *error)
{
    memset(gpu, 0, sizeof *gpu);
    if (!o->cuda)
        return true;
    gpu->used = device_facts(0, &gpu->facts, error);
    gpu->half = gpu->used && o->half;
    gpu->in_place = gpu->used && gpu->facts.integrated && !o->copy;
    gpu->launch_mode = gpu->used ? o->launch_mode : BS_LAUNCH_AUTO;
    if (gpu->used || !o->fallback)
        return gpu->used;
    snprintf(gpu->fallback, sizeof gpu->fallback, "%s; the CPU computes", error->message);
    return true;
}

bool device_found(const device_tools *gpu, const device_options *o)
{
    return !o->cuda || gpu->used || gpu->fallback[0];
}

void device_plan(const device_tools *gpu, bs_plan_desc *desc)
{
    if (!gpu->used)
        return;
    desc->tier = BS_TIER_CUDA;
    desc->half = gpu->half;
    desc->in_place = gpu->in_place;
    desc->launch_mode = gpu->launch_mode;
    desc->shared_bytes = gpu->facts.shared_bytes;
}

bool device_open(device_tools *gpu, arenas *a, const bs_sizes *sizes, bs_error *error)
{
    if (!gpu->used)
        return true;
    if (!arenas_lend(a, &gpu->memory, "device", DEVICE_ARENA_BYTES, error))
        return false;
    gpu->device_bytes = sizes->device;
    gpu->pinned_bytes = sizes->pinned;
    const bs_cuda_desc desc = {.device_bytes = sizes->device, .pinned_bytes = sizes->pinned};
    gpu->device = open_device(&gpu->memory, &desc, error);
    return gpu->device != NULL;
}

void device_count(device_tools *gpu, uint64_t in, uint64_t out)
{
    if (!gpu->used)
        return;
    gpu->runs++;
    gpu->copied_in += in;
    gpu->copied_out += out;
}

/* ------------------------------------------------------------------------------------------------- figures */

static unsigned long long a_run(const device_tools *gpu, uint64_t bytes)
{
    return gpu->runs ? bytes / gpu->runs : 0;
}

void device_summary(FILE *file, const device_tools *gpu)
{
    const double mib = 0x1p-20;
    if (!gpu->used)
        return;
    fprintf(file, "GPU: %s (%d.%d), %s; %.2f MiB on it, %.2f MiB pinned\n", gpu->facts.name, (int)gpu->facts.major,
            (int)gpu->facts.minor, gpu->half ? "f16" : "f32", (double)gpu->device_bytes * mib,
            (double)gpu->pinned_bytes * mib);
    fprintf(file, "copied a run: %llu bytes to it, %llu back\n", a_run(gpu, gpu->copied_in),
            a_run(gpu, gpu->copied_out));
}

void device_json(FILE *file, const device_tools *gpu)
{
    if (!gpu->used) {
        fprintf(file, "null");
        return;
    }
    fprintf(file, "{\"name\": ");
    json_text(file, gpu->facts.name);
    fprintf(file, ", \"capability\": \"%d.%d\", \"storage\": \"%s\", \"device_bytes\": %llu, \"pinned_bytes\": %llu, ",
            (int)gpu->facts.major, (int)gpu->facts.minor, gpu->half ? "f16" : "f32",
            (unsigned long long)gpu->device_bytes, (unsigned long long)gpu->pinned_bytes);
    fprintf(file, "\"runs\": %llu, \"copied_in_bytes\": %llu, \"copied_out_bytes\": %llu}",
            (unsigned long long)gpu->runs, (unsigned long long)gpu->copied_in, (unsigned long long)gpu->copied_out);
}
