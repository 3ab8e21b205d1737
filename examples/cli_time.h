/* cli_time.h: where the time of runs went: their most expensive ops and blocks, beside what the machine can do.
 *
 * Owns: a profile in memory. Relies on: brainstorm.h, peak.h. Must never: count a run that warms up.
 *
 *     cli_time *time = cli_time_begin(&error);      bs_session_desc.profile = cli_time_profile(time)
 *     ... runs, bs_session_close ...                cli_time_print(time, &facts, &error); cli_time_end(time)
 */
#ifndef CLI_TIME_H
#define CLI_TIME_H

#include "brainstorm.h"

typedef struct cli_time cli_time;

typedef struct cli_time_facts {
    int32_t warm; /* runs at the beginning that do not count */
    int32_t threads;
    bs_tier tier;
    int32_t most; /* ops that are printed */
} cli_time_facts;

cli_time *cli_time_begin(bs_error *error); /* NULL: error says why */
bs_profile *cli_time_profile(cli_time *time);
/* After the session. False: error says why. */
bool cli_time_print(cli_time *time, const cli_time_facts *facts, bs_error *error);
void cli_time_end(cli_time *time); /* NULL is fine */

#endif
