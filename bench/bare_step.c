/* bare_step.c: see bare_step.h. */
#include "bare_step.h"
#include "peak.h"
#include "src/kernels/recurrent.h"

#include <stdlib.h>

/* Values of some hundredths: nothing runs on zeros. NULL: there is no memory. */
static float *filled(size_t count)
{
    float *data = aligned_alloc(BS_ALIGNMENT, (count * sizeof(float) / BS_ALIGNMENT + 1) * BS_ALIGNMENT);
    for (size_t i = 0; data && i < count; i++)
        data[i] = 0.01f * (float)((int)(i * 7 % 13) - 6);
    return data;
}

double bench_bare_steps(bs_tier tier, int32_t inputs, int32_t units, int64_t rows, int32_t steps, int times)
{
    enum { PREPARED, OF_X, OF_H, BIAS, X, Y, C, SCRATCH, ALL };
    const bs_recurrent net = {inputs, units, false};
    const size_t each = (size_t)rows * (size_t)units, lines = (size_t)BS_RECURRENT_COLUMNS * (size_t)units,
                 floats[ALL] = {[PREPARED] = (size_t)bs_recurrent_floats(tier, &net),
                                [OF_X] = lines * (size_t)inputs,
                                [OF_H] = lines * (size_t)units,
                                [BIAS] = lines,
                                [X] = (size_t)steps * (size_t)rows * (size_t)inputs,
                                [Y] = (size_t)(steps + 1) * each,
                                [C] = each,
                                [SCRATCH] = bs_recurrent_scratch_floats(tier, &net)};
    float *at[ALL];
    bool there = floats[PREPARED] > 0;
    for (int i = 0; i < ALL; i++) {
        at[i] = filled(floats[i]);
        there = there && at[i];
    }
    double since = 0, seconds = -1;
    if (there) {
        bs_recurrent_prepare(tier, &net, at[OF_X], at[OF_H], at[PREPARED]);
        since = peak_cpu_seconds();
        for (int i = 0; i < times * steps; i++) {
            float *const h = at[Y] + (size_t)(i % steps) * each;
            const bs_recurrent_rows step = {rows,   at[X] + (ptrdiff_t)(i % steps) * rows * inputs,
                                            h,      at[C],
                                            inputs, units,
                                            units,  h + each,
                                            at[C],  units,
                                            units};
            bs_recurrent_run(tier, &net, at[PREPARED], at[BIAS], &step, at[SCRATCH]);
        }
        seconds = peak_cpu_seconds() - since;
    }
    for (int i = 0; i < ALL; i++)
        free(at[i]);
    return seconds;
}
