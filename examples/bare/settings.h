/* settings.h - what the workstation plans and the board runs.
 * Owns: the numbers that both must agree on. Must never: differ between the two builds of one story. */
#ifndef SETTINGS_H
#define SETTINGS_H

#define TIER BS_TIER_NEON
#define SLOT_BYTES (448 * 1024) /* experts that are in memory at a time: 3, of 64 */
#define CHUNK_BYTES (16 * 1024) /* of one read */
#define LANES 2                 /* coroutines that read */

#define STORY_CHARACTERS 120
#define STORY_SEED 7
#define STORY_TEMPERATURE 0.5

#endif
