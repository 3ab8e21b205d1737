/* cuda_bench.h: what the parts of the GPU benchmark share (cuda.c tells what it measures).
 *
 *   cuda_cases.c     the networks and in which forms they are run
 *   cuda_measure.c   interleaved rounds, limits, the table, JSON
 *   cuda_serve.c     one run at a time, as a driver asks: for peers
 *   cuda_launches.c  what a run launches
 */
#ifndef CUDA_BENCH_H
#define CUDA_BENCH_H

#include "cuda_arm.h"

#include <stdio.h>

#define CUDA_MODEL "models/sr2x.gguf" /* of the cases that have one */

typedef enum cuda_form {
    FORM_F32 = 1,
    FORM_HALF = 2,
    FORM_BREADTH = 4,  /* f32 and half layer by layer, where the planner would run tiles in shared memory */
    FORM_SERIAL = 8,   /* experts one after the other, f32 and half */
    /* buffers in pinned and in ordinary memory: in place and copied, where the GPU shares the CPU's memory */
    FORM_BUFFERS = 16,
    FORM_CHOOSE = 32   /* every launch mode */
} cuda_form;

typedef struct cuda_case {
    const char *name;
    bool (*build)(cuda_net *net, bool tiny);
    const cuda_moe_desc *(*experts)(bool tiny); /* of a FORM_SERIAL */
    int32_t forms;
    double tolerance, half_tolerance; /* against the CPU: relative; of u8, in codes */
} cuda_case;

extern const cuda_case cuda_cases[];
extern const int32_t cuda_n_cases;

enum { CUDA_MAX_ARMS = 12, CUDA_MAX_ROUNDS = 101 };

/* A network and the ways in which it is run. */
typedef struct cuda_line {
    const cuda_case *of;
    cuda_net net;
    int32_t n_arms;
    cuda_arm arms[CUDA_MAX_ARMS];
    bs_error errors[CUDA_MAX_ARMS]; /* why an arm could not be opened */
    void *reference;                /* the CPU's output */
} cuda_line;

/* only: the one arm of this name, or NULL: all. An arm that cannot be opened has its error; false: the network itself
 * cannot. */
bool cuda_line_open(cuda_line *line, const cuda_case *of, bool tiny, const char *only, void *stream);
bool cuda_line_refer(cuda_line *line); /* runs it on the CPU */
void cuda_line_close(cuda_line *line);

typedef struct cuda_options {
    const char *text;
    bool tiny, timed; /* not timed: only results are compared */
    bool launches;    /* instead of both */
    int32_t rounds;
    void *stream;
    FILE *json;
} cuda_options;

/* Prints the network's lines; false when a result is wrong or a run failed. */
bool cuda_measure(const cuda_case *of, const cuda_options *options);
/* Prints what a run of each form launches; false when one failed. */
bool cuda_show_launches(const cuda_case *of, const cuda_options *options);
bool cuda_serve(int32_t count, char **names, const cuda_options *options);

#endif
