/* segment.cuh - rows as segments see them: graph/segments.h, on a device.
 * Relies on program.cuh; offsets are checked before the run. Must never read beyond them. */
#ifndef BS_CUDA_SEGMENT
#define BS_CUDA_SEGMENT

#include "cuda/program.cuh"

struct bs_cu_segments {
    const int32_t *offsets; /* [count + 1] */
    int32_t count, domain;  /* domain: of the rows, that of the segments or a path in it */
};

__device__ inline bs_cu_segments bs_cu_segments_of(const bs_cu_tile &t, int32_t domain)
{
    const bs_device_domain &d = t.program->domains[domain];
    const bs_cu_segments s = {bs_cu_at<const int32_t>(d.offsets), d.lengths, domain};
    return s;
}

__device__ inline int32_t bs_cu_segment_at(const bs_cu_tile &t, const bs_cu_segments &s, int32_t row)
{
    return bs_segment_of(s.offsets, s.count, bs_cu_top_row(t, s.domain, row));
}

/* The first row of a segment, or of what follows where it has none. */
__device__ inline int32_t bs_cu_segment_first(const bs_cu_tile &t, const bs_cu_segments &s, int32_t segment)
{
    const int32_t first = s.offsets[segment];
    int32_t low = 0, high = bs_cu_count(t, s.domain);
    if (t.program->domains[s.domain].kind != BS_DOMAIN_PATH)
        return first;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (bs_cu_top_row(t, s.domain, middle) < first)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

#endif
