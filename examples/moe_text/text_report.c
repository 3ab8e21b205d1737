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

void text_report(const text_model *m, double prompt_characters, double prompt_seconds, double characters, double seconds)
{
    speed("prompt", prompt_characters, prompt_seconds);
    speed("text", characters, seconds);
    memory(m);
}
