/* fuzz_weights.h - weights for whatever a graph asks for, from a source that may fail and bring the wrong bytes.
 * Relies on: fuzz_run.h, flat_source.h. Whoever includes it defines _POSIX_C_SOURCE first. */
#ifndef FUZZ_WEIGHTS_H
#define FUZZ_WEIGHTS_H

#include "fuzz_run.h"

#include "../flat_source.h"

enum { FUZZ_WEIGHTS_MOST = 12000 };

/* What the graph asks for, in records. False when that is too much for one execution. */
static inline bool fuzz_make_weights(flat_source *source, const bs_graph *g, fuzz_bytes *o)
{
    fuzz_session noise = {.noise = fuzz_u16(o)};
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    uint64_t elements = 0, count = 0;
    const int32_t style = fuzz_below(o, 4);
    for (int32_t n = 1; n < g->n_nodes; n++) {
        const int32_t n_specs = bs_node_weights(g, &g->nodes[n], specs);
        for (int32_t i = 0; i < n_specs; i++)
            elements = bs_add_u64(elements, bs_bytes_figure(bs_weight_elements(&specs[i])));
        count += (uint64_t)n_specs;
    }
    if (elements > FUZZ_WEIGHTS_MOST || count > FLAT_TENSORS / 2 || g->n_blocks > FLAT_BLOCKS)
        return false;
    flat_init(source, g, NULL, fuzz_flip(o, 60) ? BS_F16 : BS_F32);
    for (int32_t i = 0; i < source->n_tensors; i++)
        fuzz_fill(&noise, source->bytes + source->tensors[i].offset,
                  source->tensors[i].info.bytes / bs_dtype_bytes(source->tensors[i].info.dtype),
                  source->tensors[i].info.dtype, style);
    for (int32_t b = 0; b < source->n_blocks && style != 1; b++)
        if (source->records[b].bytes)
            source->records[b].crc32 = bs_crc32(0, source->bytes + source->records[b].offset + FLAT_HEAD,
                                                (size_t)source->records[b].bytes - FLAT_HEAD);
    source->fail_at = fuzz_flip(o, 30) ? 1 + fuzz_below(o, 20) : 0;
    source->wrong_head_at = fuzz_flip(o, 20) ? 1 + fuzz_below(o, 20) : 0;
    return true;
}

#endif
