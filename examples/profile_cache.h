/* profile_cache.h: hit rates of simple caches over the uses of a trace.
 * Relies on: brainstorm_replay.h. Must never: stand for a replay: nothing here takes time, and nothing is pinned. */
#ifndef PROFILE_CACHE_H
#define PROFILE_CACHE_H

#include "brainstorm_replay.h"

typedef struct profile_cache profile_cache;
profile_cache *profile_cache_create(const bs_trace *trace); /* NULL: no memory */
void profile_cache_free(profile_cache *cache);
/* Share of uses that find their unit among `bytes` of slots; belady: what is used again last goes first, else what was
 * used least recently. */
double profile_cache_hits(profile_cache *cache, uint64_t bytes, bool belady);

#endif
