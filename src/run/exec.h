/* run/exec.h - what the files of the interpreter share: run/exec.c (instructions, stages, the run) and run/regions.c.
 * Relies on run/session.h. Must never be included by anything else. */
#ifndef BS_EXEC_H
#define BS_EXEC_H

#include "run/session.h"

/* The first failure of a run stays; BS_OK is none. Returns whether this is the first. */
bool bs_exec_fail(bs_session *s, bs_status status, int32_t node);
/* Rows [row, row + rows) of an instruction that is not a route or a region; band: of an image, -1 all of it. */
void bs_exec_rows(bs_context *c, const bs_instr *i, int32_t row, int32_t rows, int32_t band);
/* Rows of one call of it. */
int32_t bs_exec_batch(const bs_session *s, const bs_instr *i);
void bs_exec_route(bs_context *c, const bs_instr *i);
/* A unit that the visit in progress needs: listed once, in s->work.needed. */
void bs_exec_need(bs_session *s, int32_t unit, int32_t *count);
/* A device: it is told where a unit's weights are; and it is waited for: what it read may go. */
void bs_exec_place(bs_session *s, int32_t unit, int32_t node);
void bs_exec_settle(bs_session *s, int32_t node);
/* A streamed unit was computed with. */
void bs_exec_used(bs_session *s, int32_t stage, int32_t unit, uint64_t start, uint64_t end);

/* run/regions.c */
void bs_exec_region(bs_session *s, const bs_instr *i);
/* Lists the units that its parts need now. */
void bs_exec_region_units(bs_session *s, int32_t region, int32_t *count);

#endif
