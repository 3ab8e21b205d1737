/* op_move.cuh - moving whole rows, the device's side of run/move.c: store, which loads too, and beyond, which zeroes
 * unused rows of a collected tensor. program.cuh finds the rows. Relies on move_rows.cuh. Must never decide anything.
 * */
#ifndef BS_CUDA_OP_MOVE
#define BS_CUDA_OP_MOVE

#include "cuda/kernels.cuh"
#include "cuda/move_rows.cuh"

/* --------------------------------------------------------------------------------------------------- describe */

static void bs_cu_store_describe(const bs_cu_node *n, bs_device_step *s)
{
    bs_cu_move_cut(n, &n->out[0], bs_cu_elements(s->n_in ? &n->in[0] : &n->out[0]), s);
}

enum { BS_CU_BEYOND_DOMAIN }; /* p: the domain whose rows were collected */

static void bs_cu_beyond_describe(const bs_cu_node *n, bs_device_step *s)
{
    s->p[BS_CU_BEYOND_DOMAIN].i = n->graph->values[bs_node_in(n->graph, n->node)[0]].domain;
    bs_cu_move_cut(n, &n->out[0], bs_cu_elements(&n->out[0]), s);
}

/* ------------------------------------------------------------------------------------------------------- rows */

__device__ inline void bs_cu_store_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.end; r += team.count) {
        if (s->n_in == 0) { /* what a loop collects, before the first trip */
            const bs_cu_view v = bs_cu_open_target(t, out, r);
            bs_cu_zero_rect(v, v, team, w);
        } else {
            bs_cu_row_copy(bs_cu_open_target(t, out, r), bs_cu_open_in(t, s, 0, r), team, t.workspace, w);
        }
        bs_cu_zero_around(t, out, r, team, w);
    }
}

/* A collected tensor has a row for every cell there can be: those beyond the last one become zero. */
__device__ inline void bs_cu_beyond_run(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const int32_t rows = bs_cu_count(t, s->p[BS_CU_BEYOND_DOMAIN].i);
    const bs_cu_team team = bs_cu_team_of(s);
    for (int32_t r = w.row + team.index; r < w.end; r += team.count) {
        bs_cu_view v = bs_cu_open(t, out, r);
        v.data += (int64_t)rows * v.stride[0] * bs_cu_bytes(v.dtype);
        v.dim[0] = max(v.dim[0] - rows, 0);
        bs_cu_zero_rect(v, {0, v.dim[1], 0, v.dim[2]}, team, w);
        if (w.part == 0 && v.margin > 0)
            bs_cu_zero_beyond_frame(v, team);
    }
}

#endif
