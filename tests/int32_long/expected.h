/* Numbers in place of those that examples/bare/workstation.c prints: board.c is not run with them. */
enum { PERSISTENT_BYTES = 64, TRANSIENT_BYTES = 64, STAGING_BYTES = 64, SLOTS_BYTES = 64, MODEL_BYTES = 64 };
#define EXPECTED_SUM 0
