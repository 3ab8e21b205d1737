/* run/exec.h - what the files of the interpreter share: run/exec.c (lists of instructions, phases, the run),
 * run/side.c, run/call.c and run/regions.c.
 * Relies on run/session.h. Must never be included by anything else. */
#ifndef BS_EXEC_H
#define BS_EXEC_H

#include "run/session.h"

/* Records the first failure of a run; BS_OK is none. Returns whether this is the first. */
bool bs_exec_fail(bs_session *s, bs_status status, int32_t node);
/* The instructions [first, first + count) in order, on the rows of a tile of `domain`. */
void bs_exec_tile(bs_context *c, int32_t first, int32_t count, int32_t domain);
/* Lists a unit that the visit in progress needs in s->work.needed, once. */
void bs_exec_need(bs_session *s, int32_t unit, int32_t *count);
/* On a device: the first tells it where a unit's weights are; the second waits until it has read them, so that they
 * may be evicted. */
void bs_exec_place(bs_session *s, int32_t unit, int32_t node);
void bs_exec_finish_reads(bs_session *s, int32_t node);
/* Records that a streamed unit was computed with. */
void bs_exec_used(bs_session *s, int32_t phase, int32_t unit, uint64_t start, uint64_t end);

/* run/call.c */
/* Runs the kernel of a call on rows [row, row + rows). band: one band of an image, or one work item of an op that cuts
 * itself; -1: all of it. */
void bs_exec_call(const bs_context *c, const bs_instr *i, int32_t row, int32_t rows, int32_t band);
/* Operands and all else of a call on rows of its node; in and out are set. */
void bs_exec_prepare(const bs_context *c, int32_t node, int32_t row, int32_t rows, bs_call *call);
/* Records that a call has failed, and what it says of its data. */
void bs_exec_end_call(bs_session *s, bs_status status, int32_t node, const char *fault);
/* Runs the kernel of a prepared call. */
void bs_exec_kernel(bs_session *s, const bs_instr *i, bs_call *call);
#define BS_BAND_ROWS 32 /* of an image, per task; a multiple of the Winograd tile, so cutting changes no bit */

/* run/steps.c */
static inline const bs_step *bs_step_of(const bs_session *s, const bs_instr *i)
{
    return &s->steps[i - s->plan->instrs];
}
/* Rows of a task in this run. */
int32_t bs_exec_batch(const bs_session *s, const bs_instr *i);

/* run/alike.c */
/* How many of a call's rows its kernel computes: 1 if that one stands for all. */
int32_t bs_alike_rows(const bs_call *call);
/* Runs the kernel of a call of several rows on so many, and gives the others the same result. */
bs_status bs_exec_alike(const bs_call *call);

static inline bs_status bs_exec_own(bs_status (*run)(const bs_call *call), const bs_call *call)
{
#ifdef BS_SMALL
    return run(call);
#else
    return call->rows > 1 ? bs_exec_alike(call) : run(call);
#endif
}

/* run/tail.c */
/* Runs the kernel of a prepared call, and the steps of its tail. */
bs_status bs_exec_tail(const bs_call *call);

/* The kernel of a step, and what is done with it. (By name: what is called through a pointer calls none of these.) */
static inline bs_status bs_exec_run(const bs_step *step, const bs_call *call)
{
    return step->fusion ? bs_fusion_run(call) : step->tail ? bs_exec_tail(call) : bs_exec_own(step->run, call);
}

/* run/side.c */
/* A call or a move on some rows of its domain, and one band; on all rows, by all workers. */
void bs_exec_rows(const bs_context *c, const bs_instr *i, int32_t row, int32_t rows, int32_t band);
void bs_exec_alone(bs_session *s, const bs_instr *i);
/* Whether an instruction is run as part of one job with others of its time. */
static inline bool bs_exec_runs_beside(const bs_session *s, const bs_instr *i)
{
    return BS_DENSE_PAYS && !bs_step_of(s, i)->alone && !s->times_ops && !s->any_empty;
}
/* Runs instruction `first` and those beside it. Returns the last of them. */
int32_t bs_exec_beside(bs_session *s, int32_t first);

/* run/kept.c */
/* Does a call or a move as it was prepared in an earlier trip or run, or prepares it for later ones. False: it is none
 * that can be kept, or not now. */
bool bs_exec_kept(bs_session *s, const bs_instr *i);
/* Does what was prepared and has not changed since, not even by a trip. False: it is not such a step. */
bool bs_exec_ready(bs_session *s, const bs_step *step);

/* run/regions.c */
void bs_exec_region(bs_session *s, const bs_instr *i);
/* Lists the units that the region's parts need now. */
void bs_exec_region_units(bs_session *s, int32_t region, int32_t *count);

#endif
