/* device_options.h: what the example programs share about computing on a GPU: options, opening it, figures.
 *
 * Owns: the texts and checks of the options below; while a run lasts, the GPU's two allocations.
 * Relies on: brainstorm.h, arenas.h. BS_CUDA: the library was built with its CUDA backend; without it every program
 *   still knows the options, and says what is missing.
 * Must never: compute on a CPU what was asked of a GPU, unless --fallback allows it; then it leaves word in `fallback`.
 *
 *     device_options o = {0};                         while parsing: device_options_value, _flag; then _wrong
 *     device_find(&gpu, &o, &error)                   is there one? before anything is planned
 *     device_plan(&gpu, &o, &plan_desc)               then bs_plan_create, bs_plan_sizes
 *     device_open(&gpu, &arenas, &sizes, &error)      exactly the bytes of the plan
 *     session_desc.device = gpu.device                then bs_session_create; device_count after each run
 *     bs_session_close, device_close(&gpu)
 *
 * Where the CPU computes, all of these do nothing and succeed.
 */
#ifndef DEVICE_OPTIONS_H
#define DEVICE_OPTIONS_H

#include "arenas.h"
#include "brainstorm.h"

#include <stdio.h>

/* Lines of a usage text. */
#define DEVICE_OPTIONS_USAGE                                                                              \
    "  --device D        cpu | cuda: who computes; cuda: the first GPU [cpu]\n"                           \
    "  --half            cuda: keep weights and intermediate results in f16\n"                            \
    "  --launch L        cuda: auto | stream | graph | conditional [auto]\n"                              \
    "  --copy            cuda: copy to memory of its own even where the GPU shares the CPU's\n"           \
    "  --fallback        cuda: where there is no GPU, say so and let the CPU compute\n"

typedef struct device_options {
    bool cuda, half, fallback, copy;
    int32_t launch_mode; /* bs_launch_mode */
} device_options;

typedef enum device_taken { DEVICE_OTHER, DEVICE_TAKEN, DEVICE_WRONG } device_taken;

/* An option with a value. DEVICE_OTHER: it is none of these. DEVICE_WRONG: `message` says what was expected. */
device_taken device_options_value(device_options *o, const char *name, const char *value, char *message, size_t bytes);
/* An option without one. False: it is none of these. */
bool device_options_flag(device_options *o, const char *name);
/* What does not go together; NULL when all is well. */
const char *device_options_wrong(const device_options *o);

/* ------------------------------------------------------------------------------------------- while it runs */

typedef struct device_tools {
    bool used;           /* a GPU computes */
    bool half, in_place;
    int32_t launch_mode;
    bs_cuda_facts facts; /* of it */
    bs_arena memory;     /* of the device */
    bs_device *device;   /* for bs_session_desc; NULL before device_open, and for a CPU */
    uint64_t device_bytes, pinned_bytes;
    uint64_t runs, copied_in, copied_out; /* bytes of what was bound, in all runs */
    char fallback[320];  /* why the CPU computes although a GPU was asked for; else empty */
} device_tools;

/* False: a GPU was asked for, there is none, and error.message says why. */
bool device_find(device_tools *gpu, const device_options *o, bs_error *error);
/* False after device_find failed: then that is what an error is about. */
bool device_found(const device_tools *gpu, const device_options *o);
/* Fills the fields of `desc` that are a GPU's; those of the CPU stay. */
void device_plan(const device_tools *gpu, bs_plan_desc *desc);
/* What is known of it lies in an arena of its own. */
bool device_open(device_tools *gpu, arenas *a, const bs_sizes *sizes, bs_error *error);
void device_close(device_tools *gpu); /* after the session; tools of zeros are fine */
/* Times what is bound in every launch mode, `runs` runs of each in turn, and prints the medians. */
bool device_time(bs_session *session, int32_t runs, FILE *file, bs_error *error);
/* What a run copied to the GPU and back. */
void device_count(device_tools *gpu, uint64_t in, uint64_t out);
/* The facts of GPU `index`; the same message as device_find where there is none. */
bool device_facts(int32_t index, bs_cuda_facts *facts, bs_error *error);

/* ------------------------------------------------------------------------------------------------- figures */

/* Two lines for people; nothing when the CPU computed. */
void device_summary(FILE *file, const device_tools *gpu);
/* A JSON object, or null when the CPU computed. */
void device_json(FILE *file, const device_tools *gpu);

#endif
