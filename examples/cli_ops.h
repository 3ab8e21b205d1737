/* cli_ops.h: the most expensive ops and blocks of the runs that a profile recorded.
 *
 * Owns: sums over events. Relies on: brainstorm_replay.h. Must never: count a run that warms up.
 *
 * The limit beside an op is the time that its arithmetic takes at the peak of the multiply-adders, or that its bytes
 * take from where so many lie, whichever is longer. Convolutions count as if computed directly: Winograd's do less and
 * may be beyond it.
 */
#ifndef CLI_OPS_H
#define CLI_OPS_H

#include "brainstorm_replay.h"

enum { CLI_NEAR_BYTES = 1 << 18, CLI_FAR_BYTES = 1 << 26 }; /* so much is near, and so much far, when it is measured */

/* What a machine can do: of one thread, in GFLOP/s and GB/s. flops 0: not known, no limits are printed. */
typedef struct cli_machine {
    double flops, near, far;
    int32_t threads;
} cli_machine;

/* warm: runs at the beginning that do not count. most: ops that are printed. Nothing is printed where no op was
 * recorded. False: error says why. */
bool cli_ops_print(bs_profile_reader *reader, const cli_machine *machine, int32_t warm, int32_t most, bs_error *error);

#endif
