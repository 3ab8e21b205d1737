/* run/launch_mode.c - finds the fastest launch mode of a device by timing all of them in turn.
 * Relies on run/session.h. Must never change a result: launch modes differ only in how kernels are launched. */
#include "run/session.h"

#define MOST_RUNS 64

const char *bs_launch_mode_name(bs_launch_mode launch_mode)
{
    return bs_name_of("auto\0stream\0graph\0conditional", launch_mode, BS_LAUNCH_COUNT);
}

static bs_status timed_run(bs_session *s, uint64_t *ns, bs_error *error)
{
    const uint64_t start = bs_session_now(s);
    const bs_status status = bs_run(s, error);
    *ns = bs_session_now(s) - start;
    return status;
}

static uint64_t median(uint64_t *ns, int32_t count)
{
    for (int32_t i = 1; i < count; i++) {
        const uint64_t v = ns[i];
        int32_t k = i;
        for (; k > 0 && ns[k - 1] > v; k--)
            ns[k] = ns[k - 1];
        ns[k] = v;
    }
    return ns[count / 2];
}

/* One run to warm up (which captures a graph, if any), then `runs` that count. */
static bs_status time_launch_mode(bs_session *s, int32_t launch_mode, int32_t runs, uint64_t *result, bs_error *error)
{
    uint64_t ns[MOST_RUNS], warm;
    bs_status status = timed_run(s, &warm, error);
    for (int32_t k = 0; k < runs && status == BS_OK; k++)
        status = timed_run(s, &ns[k], error);
    if (status == BS_OK)
        result[launch_mode] = median(ns, runs);
    return status;
}

bs_status bs_cuda_choose(bs_session *session, int32_t runs, bs_launch_mode *best, uint64_t *ns, bs_error *error)
{
    uint64_t times[BS_LAUNCH_COUNT] = {0};
    bs_status status = BS_OK;
    int32_t fastest = BS_LAUNCH_AUTO;
    if (!session || !session->device || bs_plan_streams(session->plan))
        return bs_fail(error, BS_ERROR_UNSUPPORTED,
                       "bs_cuda_choose: the session must be on a GPU, with its weights resident");
    const bs_device_api *api = session->device->api;
    runs = bs_clamp_i32(runs, 1, MOST_RUNS);
    for (int32_t l = BS_LAUNCH_STREAM; l < BS_LAUNCH_COUNT && status == BS_OK; l++) {
        if (api->set_launch_mode(session->on_device, l, NULL) != BS_OK)
            continue;
        status = time_launch_mode(session, l, runs, times, error);
        if (status == BS_OK && (fastest == BS_LAUNCH_AUTO || times[l] < times[fastest]))
            fastest = l;
    }
    bs_reset_state(session);
    if (best)
        *best = (bs_launch_mode)fastest;
    if (ns)
        memcpy(ns, times, sizeof times);
    const bs_status kept = api->set_launch_mode(session->on_device, fastest, status == BS_OK ? error : NULL);
    return status == BS_OK ? kept : status;
}
