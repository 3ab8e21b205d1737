/* session_told.h - sessions about which something is to be said: test_messages_run.c and test_messages_session.c.
 * Owns the session, its memory and its last error. Relies on messages.h. Must never hold more than one session. */
#ifndef BS_TEST_SESSION_TOLD_H
#define BS_TEST_SESSION_TOLD_H

#include "messages.h"

static _Alignas(4096) uint8_t arenas[4][1 << 20];
static _Alignas(64) uint8_t graph_memory[1 << 19], plan_memory[1 << 19];
static bs_memory memory;
static const bs_plan *plan;
static bs_session *session;
static bs_error error;
static const bs_value none = {0};
static float floats[4][1024];

static inline bs_graph *new_graph(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    return bs_graph_create(&arena, NULL);
}

static inline void forget(void) { memset(&error, 0, sizeof error); }

static inline void arenas_init(void)
{
    bs_arena *const all[4] = {&memory.persistent, &memory.transient, &memory.staging, &memory.slots};
    static const char *const names[4] = {"persistent", "transient", "staging", "slots"};
    for (int32_t i = 0; i < 4; i++)
        bs_arena_init(all[i], names[i], arenas[i], sizeof arenas[i]);
}

static inline bool planned(const bs_graph *g, const bs_plan_desc *desc)
{
    bs_arena arena;
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    forget();
    plan = bs_plan_create(&arena, NULL, g, desc, &error);
    if (!plan)
        check(0, "it is planned: %s", error.message);
    return plan != NULL;
}

static inline bool made(const bs_session_desc *desc)
{
    arenas_init();
    forget();
    session = bs_session_create(&memory, plan, desc, &error);
    return session != NULL;
}

static inline void begin(const bs_graph *g, const bs_session_desc *desc)
{
    if (!planned(g, NULL) || !made(desc)) {
        check(0, "a session: %s", error.message);
        exit(check_end());
    }
}

static inline void end(void)
{
    bs_session_close(session);
    session = NULL;
}

static inline bs_status bind(const char *name, void *data, bs_dtype dtype, int32_t rank, int64_t d0, int64_t d1,
                             int64_t d2)
{
    const bs_buffer b = {data, dtype, rank, {d0, d1, d2}, {0}};
    forget();
    return bs_bind(session, name, &b, &error);
}

static inline void refused(bs_status status, const char *text)
{
    forget();
    bs_run(session, &error);
    message_is(&error, status, text);
}

#endif
