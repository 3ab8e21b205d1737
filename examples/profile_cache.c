/* profile_cache.c: see profile_cache.h.
 *
 * Whichever policy: every use gives its unit a new key, and the unit of the largest key goes. Keys that are out of date
 * stay in the heap until they come up, so a use costs the logarithm of the trace's length. */
#include "profile_cache.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    uint64_t key;
    int32_t unit;
} entry;

struct profile_cache {
    const bs_trace *trace;
    uint64_t *next;    /* [uses] where the unit is used again */
    uint64_t *key;     /* [units] the newest; units that are out: 0 */
    bool *in;          /* [units] */
    entry *heap;       /* [uses] */
    size_t n_heap;
    uint64_t used_bytes;
};

static size_t at_least_one(int32_t n) { return n > 0 ? (size_t)n : 1; }

static void find_next_uses(profile_cache *c)
{
    const bs_trace *t = c->trace;
    for (int32_t u = 0; u < t->n_units; u++)
        c->key[u] = UINT64_MAX;
    for (int32_t i = t->n_uses - 1; i >= 0; i--) {
        c->next[i] = c->key[t->uses[i].unit];
        c->key[t->uses[i].unit] = (uint64_t)i;
    }
}

profile_cache *profile_cache_create(const bs_trace *trace)
{
    profile_cache *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->trace = trace;
    c->next = malloc(at_least_one(trace->n_uses) * sizeof *c->next);
    c->heap = malloc(at_least_one(trace->n_uses) * sizeof *c->heap);
    c->key = malloc(at_least_one(trace->n_units) * sizeof *c->key);
    c->in = malloc(at_least_one(trace->n_units) * sizeof *c->in);
    if (!c->next || !c->heap || !c->key || !c->in) {
        profile_cache_free(c);
        return NULL;
    }
    find_next_uses(c);
    return c;
}

void profile_cache_free(profile_cache *cache)
{
    if (!cache)
        return;
    free(cache->next);
    free(cache->heap);
    free(cache->key);
    free(cache->in);
    free(cache);
}

static void heap_push(profile_cache *c, entry e)
{
    size_t at = c->n_heap++;
    for (; at > 0 && c->heap[(at - 1) / 2].key < e.key; at = (at - 1) / 2)
        c->heap[at] = c->heap[(at - 1) / 2];
    c->heap[at] = e;
}

static entry heap_pop(profile_cache *c)
{
    const entry top = c->heap[0], last = c->heap[--c->n_heap];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < c->n_heap; at = child) {
        if (child + 1 < c->n_heap && c->heap[child + 1].key > c->heap[child].key)
            child++;
        if (last.key >= c->heap[child].key)
            break;
        c->heap[at] = c->heap[child];
    }
    c->heap[at] = last;
    return top;
}

static void make_room(profile_cache *c, uint64_t bytes, uint64_t needed)
{
    while (c->n_heap > 0 && c->used_bytes + needed > bytes) {
        const entry e = heap_pop(c);
        if (!c->in[e.unit] || c->key[e.unit] != e.key)
            continue; /* used since, or gone */
        c->in[e.unit] = false;
        c->used_bytes -= c->trace->units[e.unit].slot_bytes;
    }
}

double profile_cache_hits(profile_cache *cache, uint64_t bytes, bool belady)
{
    const bs_trace *t = cache->trace;
    uint64_t hits = 0;
    cache->n_heap = 0;
    cache->used_bytes = 0;
    memset(cache->in, 0, at_least_one(t->n_units) * sizeof *cache->in);
    for (int32_t i = 0; i < t->n_uses; i++) {
        const int32_t unit = t->uses[i].unit;
        const uint64_t needed = t->units[unit].slot_bytes;
        hits += cache->in[unit];
        if (needed > bytes)
            continue;
        if (!cache->in[unit]) {
            make_room(cache, bytes, needed);
            cache->in[unit] = true;
            cache->used_bytes += needed;
        }
        cache->key[unit] = belady ? cache->next[i] : UINT64_MAX - (uint64_t)i;
        heap_push(cache, (entry){cache->key[unit], unit});
    }
    return t->n_uses ? (double)hits / (double)t->n_uses : 0;
}
