/* text_report.c: see text_report.h. */
#include "text_report.h"

#include <stdio.h>

static void speed(const char *what, double characters, double seconds)
{
    fprintf(stderr, "%-8s %.0f characters in %.3f s, %.0f a second\n", what, characters, seconds,
            seconds > 0 ? characters / seconds : 0);
}

static void memory(const text_model *m)
{
    const double kib = 1.0 / 1024;
    fprintf(
        stderr,
        "memory   %.0f KiB: graph and plan %.0f, weights and caches %.0f, transient %.0f, staging %.0f, slots %.0f\n",
        (double)m->arenas.bytes * kib, (double)m->fixed_bytes * kib, (double)m->planned.persistent * kib,
        (double)m->planned.transient * kib, (double)m->planned.staging * kib, (double)m->planned.slots * kib);
}

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void guesses(bs_session *session)
{
    for (int p = BS_PREDICT_LOOK_AHEAD; p < BS_PREDICTOR_COUNT; p++) {
        bs_prediction made;
        if (bs_session_prediction_get(session, -1, (bs_predictor)p, &made) == BS_OK && made.expected > 0)
            fprintf(stderr, "guesses  %s: %.1f %% right, %.1f %% of what was needed\n",
                    bs_predictor_name((bs_predictor)p), percent(made.right, made.expected),
                    percent(made.right, made.needed));
    }
}

static void reads(const text_model *m, double characters)
{
    stream_facts facts;
    stream_facts_get(&facts, m->plan, m->session);
    if (facts.plan.slot_bytes == 0)
        return;
    stream_summary(stderr, &facts);
    fprintf(stderr, "%.1f KiB read a character; lanes read for %.1f ms and prepared for %.1f ms\n",
            characters > 0 ? (double)facts.stats.bytes_read / 1024 / characters : 0, (double)facts.stats.read_ns * 1e-6,
            (double)facts.stats.prepare_ns * 1e-6);
    guesses(m->session);
}

void text_report(const text_model *m, double prompt_characters, double prompt_seconds, double characters,
                 double seconds)
{
    speed("prompt", prompt_characters, prompt_seconds);
    speed("text", characters, seconds);
    memory(m);
    device_summary(stderr, &m->gpu);
    reads(m, prompt_characters + characters);
}
