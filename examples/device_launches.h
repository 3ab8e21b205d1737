/* device_launches.h: what one run of a session launches on a GPU, as a table or as JSON.
 *
 * Owns: the words and columns. Relies on: brainstorm.h; with BS_CUDA its CUDA backend. Must never: tell of a launch
 * what bs_cuda_launches does not.
 */
#ifndef DEVICE_LAUNCHES_H
#define DEVICE_LAUNCHES_H

#include "brainstorm.h"

#include <stdio.h>

/* Runs the session once, with what is bound; `device` is its GPU, `graph` names the nodes. */
bool device_launches(bs_device *device, bs_session *session, const bs_graph *graph, bool json, FILE *file,
                     bs_error *error);

#endif
