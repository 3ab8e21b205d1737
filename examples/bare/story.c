/* story.c: see story.h. */
#include "story.h"
#include "settings.h"

/* Room for one character of one text: the file's extents are maxima. */
bs_graph *story_graph(story *s, bs_arena *arena, const bs_model *model)
{
    const bs_graph_desc room = bs_model_graph_desc(model);
    const bs_model_input inputs[] = {{"tokens", 2, {1, 1}}, {"lengths", 1, {1}}, {"past", 1, {1}}};
    const bs_model_build_desc desc = {.inputs = inputs, .n_inputs = 3};
    bs_graph *graph = bs_graph_create(arena, &room);
    if (!graph) {
        s->error = (bs_error){.status = BS_ERROR_ARENA, .arena = arena->name};
        s->error.needed = bs_graph_bytes(&room);
        s->error.available = arena->size - arena->used;
        return NULL;
    }
    return bs_model_build(model, graph, &desc, &s->error) == BS_OK ? graph : NULL;
}

static bool story_bind(story *s)
{
    const bs_buffer tokens = {&s->token, BS_I32, 2, {1, 1}, {0}}, lengths = {&s->length, BS_I32, 1, {1}, {0}},
                    past = {&s->past, BS_I32, 1, {1}, {0}}, logits = {s->logits, BS_F32, 2, {1, STORY_CODES}, {0}};
    return bs_bind(s->session, "tokens", &tokens, &s->error) == BS_OK &&
           bs_bind(s->session, "lengths", &lengths, &s->error) == BS_OK &&
           bs_bind(s->session, "past", &past, &s->error) == BS_OK &&
           bs_bind(s->session, "logits", &logits, &s->error) == BS_OK;
}

bool story_open(story *s, bs_memory *memory, const bs_model *model, const bs_platform *platform)
{
    const bs_session_desc desc = {.platform = platform, .weights = bs_model_weights(model)};
    s->session = bs_session_create(memory, s->plan, &desc, &s->error);
    s->token = 0; /* a text begins at the start of a line */
    s->length = 1;
    s->past = 0;
    s->sum = 14695981039346656037u; /* FNV-1a (Fowler, Noll, Vo) */
    text_sampler_open(&s->sampler, STORY_TEMPERATURE, STORY_SEED, 0);
    return s->session && story_bind(s);
}

static void add_to_sum(story *s)
{
    const uint8_t *bytes = (const uint8_t *)s->logits;
    for (size_t i = 0; i < sizeof s->logits; i++)
        s->sum = (s->sum ^ bytes[i]) * 1099511628211u;
}

char story_next(story *s)
{
    if (bs_run(s->session, &s->error) != BS_OK)
        return 0;
    add_to_sum(s);
    s->past++;
    s->token = text_sample(&s->sampler, s->logits, STORY_CODES);
    return s->token == 0 ? '\n' : (char)(s->token - 1 + ' ');
}

void story_close(story *s)
{
    bs_session_close(s->session);
    s->session = NULL;
}
