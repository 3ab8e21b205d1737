/* text_report.c: see text_report.h. */
#include "text_report.h"

#include <stdio.h>

static void speed(const char *what, double characters, double seconds)
{
    fprintf(stderr, "%-8s %.0f characters in %.3f s, %.0f a second\n", what, characters, seconds, seconds > 0 ? characters / seconds : 0);
}

static void memory(const text_model *m)
{
    const double kb = 1.0 / 1024;
    fprintf(stderr, "memory   %.0f KB: graph and plan %.0f, weights and caches %.0f, transient %.0f, staging %.0f, slots %.0f\n",
            (double)m->block_bytes * kb, (double)m->fixed_bytes * kb, (double)m->planned.persistent * kb,
            (double)m->planned.transient * kb, (double)m->planned.staging * kb, (double)m->planned.slots * kb);
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
            fprintf(stderr, "guesses  %s: %.1f %% right, %.1f %% of what was needed\n", bs_predictor_name((bs_predictor)p),
                    percent(made.right, made.expected), percent(made.right, made.needed));
    }
}

static void reads(const text_model *m, double characters)
{
    const double mb = 1.0 / (1 << 20), ms = 1e-6;
    bs_stream_plan plan;
    bs_stream_stats s;
    bs_plan_stream_get(m->plan, &plan);
    bs_session_stream_stats(m->session, &s);
    const uint64_t uses = s.hits + s.late + s.misses;
    fprintf(stderr, "experts  %d of %.2f MB in %.2f MB of slots (at least %.2f)\n", (int)plan.units, (double)plan.all_bytes * mb,
            (double)plan.slot_bytes * mb, (double)plan.least_bytes * mb);
    fprintf(stderr, "uses     %llu: %.1f %% there, %.1f %% on their way, %.1f %% missed\n", (unsigned long long)uses,
            percent(s.hits, uses), percent(s.late, uses), percent(s.misses, uses));
    fprintf(stderr, "read     %.1f MB, %.1f KB a character, %s; %.1f %% for nothing\n", (double)s.bytes_read * mb,
            characters > 0 ? (double)s.bytes_read / 1024 / characters : 0, s.direct ? "past the page cache" : "through the page cache",
            percent(s.bytes_wasted, s.bytes_read));
    fprintf(stderr, "waited   %.1f ms for experts; lanes read %.1f ms and prepared %.1f ms\n", (double)s.stall_ns * ms,
            (double)s.read_ns * ms, (double)s.prepare_ns * ms);
    guesses(m->session);
}

void text_report(const text_model *m, double prompt_characters, double prompt_seconds, double characters, double seconds)
{
    speed("prompt", prompt_characters, prompt_seconds);
    speed("text", characters, seconds);
    memory(m);
    if (m->streams)
        reads(m, prompt_characters + characters);
}
