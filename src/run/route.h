/* run/route.h - the parts of run/route.c that serve a device as well: faults in words, and calling the caller's
 * function. Relies on ops/decide.h. */
#ifndef BS_ROUTE_H
#define BS_ROUTE_H

#include "ops/decide.h"

/* Records in words what is wrong; BS_OK: nothing is. bs_route_say: into a failed run's message [BS_FAULT_BYTES], with
 * the cell, numbered as in bs_decision.chosen. */
bs_status bs_route_fail(const bs_route_fault *fault, bs_error *error);
bs_status bs_route_say(const bs_route_fault *fault, int32_t cell, char *message);
/* Calls the caller's function, which chooses one path for each of `rows` rows. BS_OK and a fault: there is no
 * function, or its result is not valid. */
bs_status bs_route_ask(const bs_route_callback *callback, const bs_operand_view *scores, int32_t paths, int32_t rows,
                       int32_t *chosen, float *gates, bs_route_fault *fault);

#endif
