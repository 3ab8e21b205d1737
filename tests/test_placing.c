/* tags: long asan */
/* Promises: what is alive together never shares bytes, however many lives there are; in little more than the largest
 * sum alive at once; and the time that placing and planning take grows with a network, not with its square. */
#define _POSIX_C_SOURCE 200809L
#include "bench/planning_nets.h"
#include "check.h"
#include "plan/plan.h"

static bool flip(int32_t percent) { return check_below(100) < percent; }

/* ------------------------------------------------------------------------------------------- placing lifetimes */

static uint64_t figure(bs_bytes bytes) { return bs_bytes_figure(bytes); }

static uint64_t most_alive(const bs_life *lives, int32_t count)
{
    uint64_t most = 0;
    for (int32_t i = 0; i < count; i++) { /* the most is alive when something has just begun */
        uint64_t sum = 0;
        for (int32_t k = 0; k < count; k++)
            sum += lives[k].first <= lives[i].first && lives[i].first <= lives[k].last ? figure(lives[k].bytes) : 0;
        most = sum > most ? sum : most;
    }
    return most;
}

static bool lives_are_apart(const bs_life *lives, int32_t count, uint64_t total)
{
    for (int32_t i = 0; i < count; i++) {
        const uint64_t at = figure(lives[i].offset), end = at + figure(lives[i].bytes);
        if (end > at && (at % BS_ALIGNMENT != 0 || end > total))
            return false;
        for (int32_t k = 0; k < i; k++) {
            const bool together = lives[i].first <= lives[k].last && lives[k].first <= lives[i].last;
            const uint64_t other = figure(lives[k].offset), other_end = other + figure(lives[k].bytes);
            const bool overlap = at < other_end && other < end;
            if (together && overlap && end > at && other_end > other)
                return false;
        }
    }
    return true;
}

/* Greedy by size, plainly: what placing is defined as while 1,024 lives at most are alive together. */
static uint64_t place_plainly(bs_life *lives, int32_t *order, int32_t count)
{
    bs_bytes total = bs_bytes_of(0);
    for (int32_t i = 0; i < count; i++) {
        int32_t k = i;
        for (; k > 0 && bs_bytes_less(lives[order[k - 1]].bytes, lives[i].bytes); k--)
            order[k] = order[k - 1];
        order[k] = i;
    }
    for (int32_t i = 0; i < count; i++) {
        bs_life *life = &lives[order[i]];
        life->offset = bs_bytes_of(0);
        for (int32_t k = 0; k < i; k++) {
            const bs_life *other = &lives[order[k]];
            const bool together = life->first <= other->last && other->first <= life->last;
            if (together && bs_bytes_less(life->offset, bs_bytes_add(other->offset, other->bytes)) &&
                bs_bytes_less(other->offset, bs_bytes_add(life->offset, life->bytes))) {
                life->offset = bs_bytes_align(bs_bytes_add(other->offset, other->bytes));
                k = -1;
            }
        }
        if (bs_bytes_any(life->bytes))
            total = bs_bytes_max(total, bs_bytes_add(life->offset, life->bytes));
    }
    return figure(bs_bytes_align(total));
}

/* How many lie elsewhere. */
static int32_t differing(const bs_life *lives, const bs_life *others, int32_t count)
{
    int32_t differ = 0;
    for (int32_t i = 0; i < count; i++)
        differ += !bs_bytes_same(lives[i].offset, others[i].offset);
    return differ;
}

static void *place_memory(int32_t count)
{
    size_t size = 0;
    return bs_bytes_fit(bs_place_workspace(count), SIZE_MAX, &size) ? aligned_alloc(64, size) : NULL;
}

static void test_placing(void)
{
    enum { CASES = 4000, MOST = 60 };
    bs_life lives[MOST], plain[MOST];
    static _Alignas(64) uint8_t workspace[1 << 14];
    int32_t order[MOST], overlaps = 0, short_of = 0, differ = 0;
    double waste = 0, worst = 1;
    for (int32_t c = 0; c < CASES; c++) {
        const int32_t count = 1 + check_below(MOST), span = 1 + check_below(50);
        memset(lives, 0, sizeof lives);
        for (int32_t i = 0; i < count; i++) {
            lives[i].first = check_below(span);
            lives[i].last = lives[i].first + check_below(1 + span / 3);
            const int32_t units = flip(10) ? 0 : 1 + check_below(flip(50) ? 4 : 200);
            lives[i].bytes = bs_bytes_array(units ? units * BS_ALIGNMENT - (flip(20) ? 3 : 0) : 0, 1);
        }
        memcpy(plain, lives, sizeof plain);
        const uint64_t total = figure(bs_place_lives(lives, count, workspace)), least = most_alive(lives, count);
        const double ratio = least ? (double)total / (double)least : 1;
        differ += total != place_plainly(plain, order, count);
        differ += differing(lives, plain, count);
        overlaps += !lives_are_apart(lives, count, total);
        short_of += total < least;
        waste += ratio;
        worst = ratio > worst ? ratio : worst;
    }
    check(overlaps == 0, "nothing alive together overlaps in %d random placements", CASES);
    check(differ == 0, "and every life lies where greedy by size, done plainly, puts it");
    check(short_of == 0 && waste / CASES < 1.1, "placements take %.1f %% more than the least possible (worst %.0f %%)",
          100 * (waste / CASES - 1), 100 * (worst - 1));
}

/* ------------------------------------------------------------------------------------------- placing many lives */

/* Bytes in lines of 64. */
static uint64_t many_bytes(int32_t kind)
{
    switch (kind) {
    case 0:
        return 1 + (uint64_t)check_below(200);
    case 1:
        return (uint64_t)1 << check_below(9);
    case 2:
        return 64;
    case 3: /* a few large ones among small ones */
        return check_below(50) ? 1 + (uint64_t)check_below(8) : 500 + (uint64_t)check_below(500);
    default: /* most are small, and the larger the rarer */
        return 1 + (uint64_t)check_below(1 + check_below(1 + check_below(400)));
    }
}

enum { MANY_SPANS = 6, MANY_BYTES = 5 };

static void many_life(bs_life *life, int32_t spans, int32_t i, int32_t count)
{
    const int32_t half = count / 2;
    const bool early = i < half;
    switch (spans) {
    case 0: /* all that is made is read, in the same order, when half has passed */
        life->first = early ? i : half + check_below(half), life->last = early ? half + i : count - 1;
        break;
    case 1: /* the last that was made is read first */
        life->first = early ? i : half, life->last = early ? count - 1 - i : half + check_below(half);
        break;
    case 2: /* a window that moves on */
        life->first = i, life->last = i + half / 2 + check_below(half / 2);
        break;
    case 3:
        life->first = check_below(count), life->last = life->first + check_below(count);
        break;
    case 4: /* some from the beginning, some to the end */
        life->first = check_below(8) ? check_below(count) : 0,
        life->last = check_below(8) ? life->first + check_below(half) : count;
        break;
    default: /* for long or for short */
        life->first = check_below(count),
        life->last = life->first + (check_below(4) ? half + check_below(half) : check_below(half / 20));
        break;
    }
    life->last = bs_min_i32(life->last, count - 1);
    life->last = bs_max_i32(life->last, life->first);
}

CHECK_WRAPS static uint64_t most_bytes_of(const bs_life *lives, int32_t count)
{
    uint64_t *change = calloc((size_t)count + 1, sizeof *change), sum = 0, most = 0; /* sums wrap and come back */
    for (int32_t i = 0; i < count; i++) {
        change[lives[i].first] += figure(lives[i].bytes);
        change[lives[i].last + 1] -= figure(lives[i].bytes);
    }
    for (int32_t t = 0; t < count; t++) {
        sum += change[t];
        most = sum > most ? sum : most;
    }
    free(change);
    return most;
}

static void test_placing_many(int32_t count, bool apart)
{
    bs_life *lives = calloc((size_t)count, sizeof *lives);
    void *workspace = place_memory(count);
    int32_t overlaps = 0, short_of = 0;
    double worst = 1, all = 0;
    for (int32_t c = 0; c < MANY_SPANS * MANY_BYTES; c++) {
        for (int32_t i = 0; i < count; i++) {
            many_life(&lives[i], c % MANY_SPANS, i, count);
            lives[i].bytes = bs_bytes_of(BS_ALIGNMENT * many_bytes(c / MANY_SPANS));
        }
        const uint64_t total = figure(bs_place_lives(lives, count, workspace)), least = most_bytes_of(lives, count);
        overlaps += apart && !lives_are_apart(lives, count, total);
        short_of += total < least;
        all += (double)total / (double)least;
        worst = (double)total / (double)least > worst ? (double)total / (double)least : worst;
    }
    if (apart)
        check(overlaps == 0, "nothing alive together overlaps in %d placements of %d lives", MANY_SPANS * MANY_BYTES,
              count);
    check(short_of == 0 && worst <= 1.1,
          "placements of %d lives take %.1f %% more than the largest sum alive at once, %.1f %% at most", count,
          100 * (all / (MANY_SPANS * MANY_BYTES) - 1), 100 * (worst - 1));
    free(workspace);
    free(lives);
}

/* Sizes that are cut would spoil the tree of gaps: nothing is placed then, and the plan refused. */
static void test_placing_too_much(void)
{
    enum { MOST = 3000 };
    static bs_life lives[MOST];
    void *workspace = place_memory(MOST);
    for (int32_t kind = 0; kind < 3; kind++) {
        for (int32_t i = 0; i < MOST; i++) {
            const uint64_t large = kind == 0 ? UINT64_MAX : kind == 1 ? UINT64_MAX / 2 : BS_MAX_PLAN_BYTES / 1000;
            lives[i] = (bs_life){
                {kind == 2 || i % 3 == 0 ? large : BS_ALIGNMENT}, {0}, i / 4, i / 4 + check_below(MOST)};
        }
        check(figure(bs_place_lives(lives, MOST, workspace)) > BS_MAX_PLAN_BYTES,
              "more than any plan may have is told, %d", kind);
    }
    free(workspace);
}

/* Exact to the last life that may be alive, and one more: both are sound. */
static void test_placing_at_the_limit(void)
{
    enum { MOST = 1400 };
    static bs_life lives[MOST], plain[MOST];
    static int32_t order[MOST];
    void *workspace = place_memory(MOST);
    for (int32_t alive = 1024; alive <= 1025; alive++) {
        for (int32_t i = 0; i < MOST; i++) { /* so many from 0 on, others one after another, each for a while */
            const int32_t first = i < alive ? 0 : 2 + i, last = i < alive ? 1 : first + 1 + check_below(100);
            lives[i] = (bs_life){{BS_ALIGNMENT * many_bytes(0)}, {0}, first, last};
        }
        memcpy(plain, lives, sizeof plain);
        const uint64_t total = figure(bs_place_lives(lives, MOST, workspace));
        const bool same = total == place_plainly(plain, order, MOST) && differing(lives, plain, MOST) == 0;
        check(lives_are_apart(lives, MOST, total) && same == (alive == 1024), "%d lives alive together are placed %s",
              alive, alive == 1024 ? "greedily by size" : "by sweeps");
    }
    free(workspace);
}

/* Time in proportion to the square of these would not end before the test is stopped (bench/planning.sh counts). */
static void test_large_plans(void)
{
    for (int32_t i = 0; i < PLANNING_NETS; i++) {
        const int32_t nodes = 65536;
        const bs_graph_desc room = planning_room(nodes);
        bs_arena graph, plan;
        bs_error error = {BS_OK, NULL, 0, 0, ""};
        void *graph_bytes = malloc(bs_graph_bytes(&room) + BS_ALIGNMENT);
        bs_arena_init(&graph, "graph", graph_bytes, bs_graph_bytes(&room) + BS_ALIGNMENT);
        bs_graph *g = bs_graph_create(&graph, &room);
        planning_build(g, &planning_nets[i], nodes);
        for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
            const bs_plan_desc desc = {.order = order, .slot_bytes = planning_nets[i].slot_bytes};
            const size_t bytes = bs_plan_bytes(g, &desc) + BS_ALIGNMENT;
            void *plan_bytes = malloc(bytes);
            bs_arena_init(&plan, "plan", plan_bytes, bytes);
            check(bs_plan_create(&plan, NULL, g, &desc, &error) != NULL, "%s of %d nodes is planned, order %d %s",
                  planning_nets[i].name, g->n_nodes, order, error.message);
            free(plan_bytes);
        }
        free(graph_bytes);
    }
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    check_seed(seed);
    test_placing();
    test_placing_at_the_limit();
    test_placing_too_much();
    check_seed(1); /* whatever the seed: how close one comes depends on the case */
    test_placing_many(2600, true);
    test_placing_many(65536, false);
    test_large_plans();
    return check_end();
}
