/* run/loops.c - a context decides the trips of a loop, by ops/trips.inc: a team of one, whose rows come one after the
 * other. Relies on run/routing.h. Must never decide by rules of its own. */
#include "run/routing.h"

typedef struct bs_team {
    const bs_context *c;
    int32_t count, answer; /* values, or 0 */
    int32_t *places;
} bs_team;

static int32_t bs_team_index(void) { return 0; }
static int32_t bs_team_size(void) { return 1; }
static void bs_team_meet(void) {}
static void bs_team_add(int32_t *sum) { ++*sum; }
static int32_t bs_team_take(const bs_team *team, int32_t k) { return k < 0 ? -1 : team->places[k]++; }

static int64_t bs_team_sum_before(const bs_team *team, int64_t own, int64_t *all)
{
    (void)team;
    *all = own;
    return 0;
}

static bool bs_team_failed(const bs_team *team, const bs_route_fault *fault)
{
    (void)team;
    return fault->kind != BS_ROUTE_SOUND;
}

static int32_t bs_team_count(const bs_team *team, int32_t row)
{
    const bs_scores count = bs_scores_of(team->c, team->count, row);
    return bs_read_once(count.data);
}

static bs_scores bs_team_answer(const bs_team *team, int32_t k) { return bs_scores_of(team->c, team->answer, k); }

#define BS_TEAM static
#include "ops/trips.inc"
#undef BS_TEAM

static bs_route_fault decide(bs_context *c, int32_t router, void (*by)(bs_trips *t))
{
    const bs_graph *g = c->session->graph;
    const bs_loop_info *loop = &g->routers[router].loop;
    const bool over = loop->trips >= 0;
    const int32_t answer = bs_node_in(g, &g->nodes[loop->again])[0];
    int32_t places[BS_TEAM_PLACES];
    bs_trips t = {{c, loop->count, answer, places},
                  {loop->bound, over ? (int32_t)c->session->dims[loop->trips] : loop->bound, over, loop->count != 0,
                   loop->in_turn, loop->grows, answer != 0},
                  &c->decisions[router],
                  {BS_ROUTE_SOUND, -1, 0, 0}};
    by(&t);
    return t.fault;
}

bs_route_fault bs_loop_decide(bs_context *c, int32_t router) { return decide(c, router, bs_trips_begin); }
bs_route_fault bs_loop_decide_again(bs_context *c, int32_t router) { return decide(c, router, bs_trips_again); }
