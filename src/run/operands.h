/* run/operands.h - the steps by which bs_operand_make finds a row. run/move.c uses them to find the other end of a
 * move. Relies on run/session.h. Must never be included by anything else. */
#ifndef BS_OPERANDS_H
#define BS_OPERANDS_H

#include "run/session.h"

/* Extents of row `row`, and the rectangle that is computed or present: independent of where the row is stored. And the
 * strides that rows of the value have where the plan stores them. */
void bs_operand_extent(const bs_context *c, int32_t value, int32_t row, bs_operand *operand);
/* Strides of a constant, whose elements lie one after the other. */
void bs_operand_dense(const bs_context *c, int32_t value, bs_operand *operand);
/* What is bound to an input, an output or a state. */
void bs_operand_bound(const bs_context *c, int32_t node, bs_operand *operand);
/* Steps into a root image to where a cell lies, or to row `top` of a root tensor. */
void bs_operand_step(bs_operand *operand, const bs_operand *root, int32_t top);
/* The part of [T, ...] that belongs to the trips that `count` loops make, the last one's along dimension 0. */
void bs_operand_trips(const bs_context *c, const int32_t *loops, int32_t count, const bs_operand *whole,
                      bs_operand *operand);

#endif
