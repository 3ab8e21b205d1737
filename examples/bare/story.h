/* story.h: text written by moe_text's network, one character a run, on whatever platform.
 * Owns: graph and session; what the network reads and writes; the sum of all that it computed.
 * Relies on: brainstorm.h, moe_text/text_sample.h, settings.h; of a C library nothing. Must never: take memory but from
 * the arenas that it is given. */
#ifndef STORY_H
#define STORY_H

#include "brainstorm.h"
#include "moe_text/text_sample.h"

#define STORY_CODES 96 /* a new line, and the 95 printable characters of ASCII */

typedef struct story {
    const bs_plan *plan; /* the caller's: made, or opened */
    bs_session *session;
    text_sampler sampler;
    int32_t token, length, past; /* of the run: the last character, one row, those before it */
    float logits[STORY_CODES];
    uint64_t sum; /* of the bits of all logits so far: equal where all of them are */
    bs_error error;
} story;

/* The graph, in `arena`; NULL on failure. The model stays open as long as the story. */
bs_graph *story_graph(story *s, bs_arena *arena, const bs_model *model);
/* The session of s->plan, in the arenas that bs_plan_sizes tells of. platform NULL: the default. */
bool story_open(story *s, bs_memory *memory, const bs_model *model, const bs_platform *platform);
/* The next character; 0 when the run failed. */
char story_next(story *s);
void story_close(story *s);

#endif
