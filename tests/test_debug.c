/* tags: plain */
/* test_debug.c - what BS_DEBUG promises: a mistake that only the calling program can make ends at an assertion that
 * names it.
 *
 * Owns: a library of its own, built with BS_DEBUG; one child process a mistake.
 * Relies on: brainstorm.c beside the repository's root, check.h, POSIX processes.
 * Must never: leave a child behind, or take a crash for an assertion: a child must end by SIGABRT. */
/* Compiled in seconds: without vectors and modules that no mistake of these is about, and hardly optimized. */
#if defined(__clang__)
#pragma clang optimize off
#elif defined(__GNUC__)
#pragma GCC optimize("O0")
#endif
#define BS_NO_SIMD
#define BS_NO_WINOGRAD
#define BS_NO_MODEL
#define BS_NO_STREAM
#define BS_NO_PROFILE
#define BS_NO_REPLAY
#define BS_NO_REPORT
#define BS_DEBUG
#include "brainstorm.c"

#include "check.h"

#include <signal.h>
#include <sys/wait.h>

enum { ROOM = 1 << 20 };

static BS_ALIGNED uint8_t room[4][ROOM];
static float from[64], to[64];

typedef struct rig {
    bs_memory memory;
    bs_graph *graph;
    const bs_plan *plan;
    bs_session *session;
    bs_error error;
} rig;

static rig r;

/* Runs the session that is running: to it, a second thread. */
static bs_status run_again(void *user, const bs_operand_view *scores, int32_t rows, int32_t *path_of_row)
{
    (void)user, (void)scores;
    bs_run(r.session, NULL);
    memset(path_of_row, 0, (size_t)rows * sizeof *path_of_row);
    return BS_OK;
}

static bs_graph *make_graph(void)
{
    bs_graph *g = bs_graph_create(&r.memory.persistent, NULL);
    const bs_value cells = bs_rows(g, bs_input(g, "in", BS_F32, BS_SHAPE2(16, 4)), (bs_value){0});
    const bs_router route = bs_route(g, cells, (bs_value){0},
                                     &(bs_route_desc){.name = "r", .protocol = BS_ROUTE_CALLBACK, .paths = 4});
    bs_value paths[4];
    for (int32_t i = 0; i < 4; i++)
        paths[i] = bs_affine(g, bs_scatter(g, route, i, cells), 2.0f, (float)i);
    bs_output(g, "out", bs_collect(g, bs_gather(g, route, paths, (bs_value){0}, NULL)));
    return g;
}

static void make_memory(void)
{
    static const char *const names[4] = {"persistent", "transient", "staging", "slots"};
    bs_arena *arenas[4] = {&r.memory.persistent, &r.memory.transient, &r.memory.staging, &r.memory.slots};
    for (int32_t i = 0; i < 4; i++)
        bs_arena_init(arenas[i], names[i], room[i], ROOM);
}

static bs_status bind(const char *name, void *data)
{
    const bs_buffer buffer = {data, BS_F32, 2, {16, 4}, {0}};
    return bs_bind(r.session, name, &buffer, &r.error);
}

/* Everything right: as far as a session that can run. */
static void make(void)
{
    make_memory();
    r.graph = make_graph();
    r.plan = bs_plan_create(&r.memory.persistent, NULL, r.graph, NULL, &r.error);
    r.session = r.plan ? bs_session_create(&r.memory, r.plan, NULL, &r.error) : NULL;
    if (!r.session || bind("in", from) != BS_OK || bind("out", to) != BS_OK)
        printf("  | %s\n", r.error.message);
}

/* ------------------------------------------------------------------------------------------------------ mistakes */

static void nothing(void)
{
    bs_run(r.session, NULL);
    bs_session_close(r.session);
}

static void run_inside_a_run(void)
{
    bs_set_route(r.session, "r", run_again, NULL, NULL);
    bs_run(r.session, NULL);
}

static void run_after_close(void)
{
    bs_session_close(r.session);
    bs_run(r.session, NULL);
}

static void close_twice(void)
{
    bs_session_close(r.session);
    bs_session_close(r.session);
}

static void bind_into_activations(void)
{
    bind("out", room[1]);
}

static void arenas_overlap(void)
{
    make_memory();
    bs_arena_init(&r.memory.staging, "staging", room[1] + ROOM - 64, ROOM);
    bs_session_create(&r.memory, r.plan, NULL, NULL);
}

static void graph_for_plan(void)
{
    bs_session_create(&r.memory, (const bs_plan *)(const void *)r.graph, NULL, NULL);
}

static void graph_written_over(void)
{
    memset((void *)r.graph, 0, 64);
    bs_plan_create(&r.memory.persistent, NULL, r.graph, NULL, NULL);
}

static void built_in_a_plan(void)
{
    bs_input((bs_graph *)(void *)(uintptr_t)r.plan, "more", BS_F32, BS_SHAPE1(1));
}

static void test_mistake(const char *name, void (*mistake)(void), bool found)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        freopen("/dev/null", "w", stderr);
        make();
        mistake();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    const bool aborted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT,
               ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    check(found ? aborted : ended, "%s: %s", name, aborted ? "an assertion" : ended ? "nothing" : "something else");
}

int main(void)
{
    test_mistake("no mistake", nothing, false);
    test_mistake("a session is run while it runs", run_inside_a_run, true);
    test_mistake("a session is run after it was closed", run_after_close, true);
    test_mistake("a session is closed twice", close_twice, true);
    test_mistake("an output is bound into the session's activations", bind_into_activations, true);
    test_mistake("two arenas overlap", arenas_overlap, true);
    test_mistake("a graph is given for a plan", graph_for_plan, true);
    test_mistake("a graph's memory is written over", graph_written_over, true);
    test_mistake("a plan is given for a graph", built_in_a_plan, true);
    return check_end();
}
