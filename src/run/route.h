/* run/route.h - what run/route.c does for a device as well: faults in words, and asking the caller's function.
 * Relies on ops/decide.h. */
#ifndef BS_ROUTE_H
#define BS_ROUTE_H

#include "ops/decide.h"

/* What is wrong, in words; BS_OK: nothing is. */
bs_status bs_route_fail(const bs_route_fault *fault, bs_error *error);
/* What a caller's function chooses for `rows` rows, one path each; BS_OK and a fault: it cannot be asked, or is not to
 * be believed. */
bs_status bs_route_ask(const bs_route_callback *callback, const bs_operand_view *scores, int32_t paths, int32_t rows,
                       int32_t *chosen, float *gates, bs_route_fault *fault);

#endif
