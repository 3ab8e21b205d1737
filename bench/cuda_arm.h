/* cuda_arm.h: one way of running a network, on the CPU or the GPU, with buffers where the GPU wants them.
 *
 * Owns: plan, arenas, device, session, buffers. Relies on: cuda_nets.h, cuda_copy.h.
 * Must never: time anything but bs_submit and bs_wait. */
#ifndef CUDA_ARM_H
#define CUDA_ARM_H

#include "cuda_copy.h"
#include "cuda_nets.h"

/* A session. */
typedef struct cuda_part {
    const cuda_net *net;
    void *plan_memory, *blocks[4];
    bs_plan *plan;
    bs_memory memory;
    bs_sizes sizes;
    bs_device *device;
    bs_session *session;
    bench_where where;
    void *inputs[CUDA_NET_INPUTS], *output;
} cuda_part;

/* desc: tier (CUDA or not), half, order, launch mode ...; forces and tile come from the net, shared memory from `facts`
 * where the tier is CUDA. stream: for all that run on the GPU. False: *error says why; cuda_part_close in any case. */
bool cuda_part_open(cuda_part *part, const cuda_net *net, const bs_plan_desc *desc, bench_where where, void *stream,
                    bs_error *error);
bool cuda_part_run(cuda_part *part, bs_error *error);      /* submits and waits */
bool cuda_part_result(const cuda_part *part, void *to);    /* the output, in ordinary memory */
void cuda_part_close(cuda_part *part);

/* Several sessions that run one after the other, waited for once; most arms have one. */
typedef struct cuda_arm {
    char name[64];
    const cuda_net *net; /* what it computes */
    cuda_net *own;       /* networks of its own, of the parts, or NULL */
    cuda_part *parts;
    int32_t n_parts;
    bool half;
    bool by_expert; /* part i has the rows of expert[i] of the network's output */
    int32_t expert[BS_MAX_PATHS];
} cuda_arm;

bool cuda_arm_open(cuda_arm *arm, const cuda_net *net, const bs_plan_desc *desc, bench_where where, void *stream,
                   bs_error *error);
/* The serial form of a layer of experts: a session for each expert that has rows, without routing. */
bool cuda_arm_open_serial(cuda_arm *arm, const cuda_net *net, const cuda_moe_desc *moe, const bs_plan_desc *desc,
                          void *stream, bs_error *error);
void cuda_arm_close(cuda_arm *arm);
/* Wall seconds of a run: `runs` submitted back to back and waited for at the end; states are reset before, outside of
 * the time, and then each run is waited for. Negative: *error says why. */
double cuda_arm_seconds(cuda_arm *arm, int32_t runs, bs_error *error);
bool cuda_arm_result(const cuda_arm *arm, void *to);

/* max|a - b| / max|reference|; of codes (u8): max|a - b|. A NaN on one side only is infinite. */
double cuda_distance(const bs_buffer *like, const void *a, const void *reference);

#endif
