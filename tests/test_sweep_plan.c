/* tags: sweep */
/* Promises: an image of a plan that is cut anywhere, or has any bit flipped, or lies in any field of any row, is an
 * error that says what is wrong, or a run within the arenas that were asked for, whether its CRC was mended or not; and
 * each thing that is looked at when an image is opened is looked at for a reason: some lie is refused by it.
 *
 * Owns: the graphs, and which lies are told. Under address and undefined-behaviour sanitizers it also finds what
 * touches a byte too many. By default every 97th of the cases, in rounds of which each takes other ones of all kinds,
 * while the budget lasts (budget.h); the first round alone brings about every message. SWEEP_STRIDE=1 (make sweep)
 * takes all. Must never: expect the same outcome of two lies. */
#define _POSIX_C_SOURCE 200809L /* nanosleep, in flat_source.h */
#include "random_graph.h"

#include "budget.h"
#include "fuzz/fuzz_weights.h"
#include "fuzz/plan_edit.h"
#include "messages.h"
#include "sweep_share.h"
#include "sweep_small.h"

/* Rows and frames, routers in routers, states, segments, weights that come and go, in loops too. */
static struct subject {
    uint64_t seed;
    bool segments, loops, streams;
    bs_plan_desc desc;
    uint64_t found; /* the first seed from 1000 * seed on whose graph has all of it */
} subjects[] = {
    {11, false, false, false, {.order = BS_ORDER_DEPTH, .threads = 2}, 0},
    {12, false, false, true, {.order = BS_ORDER_DEPTH, .lanes = 1}, 0},
    {13, true, false, false, {.order = BS_ORDER_BREADTH}, 0},
    {14, true, false, true, {.order = BS_ORDER_BREADTH, .lanes = 1}, 0},
    {18, false, false, false, {.tier = BS_TIER_CUDA, .half = 1}, 0},
    {16, false, false, false, {.patch_size = 4, .conv = BS_CONV_FORCE_DIRECT}, 0},
    {19, false, true, true, {.order = BS_ORDER_BREADTH, .lanes = 1}, 0},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static random_graph rg;
static net_table weights;
static flat_source source;
static bs_graph *graph;
static bs_plan *plan;
static uint8_t *image;
static size_t size, stride, plan_bytes;
static _Alignas(64) uint8_t graph_memory[1 << 20], plan_memory[1 << 20], plan_before[1 << 20];

/* Whose turn it is. Rounds have no factor in common with the lies that are told of a field, nor with the 24 after which
 * kinds of graphs come again. Small images are swept as a whole in the first. */
enum { PART = 97, ROUNDS = 29, SMALL_BYTES = 4096, MANY = 60 };
static int32_t round_now, rounds = ROUNDS;

static bool takes(int64_t index) { return size < SMALL_BYTES ? round_now == 0 : index % rounds == round_now; }

typedef struct tally {
    int64_t cases, refused, ran, silent;
    int64_t across; /* lies about phases that go on behind a decision of a loop */
    int64_t every; /* of those that are opened one in so many is run */
} tally;

static bool visits_again(const bs_plan *p);

/* A graph that has all of it: the first from the seed on. */
static bool grow(struct subject *s)
{
    bs_error error;
    for (uint64_t seed = s->found ? s->found : s->seed * 1000; seed < s->seed * 1000 + 1000; seed++) {
        bs_arena arena;
        bs_plan_desc d = s->desc;
        bs_stream_plan facts;
        rg_segments = s->segments;
        rg_loops = s->loops;
        rg_shares = true;
        check_state = check_mixed(seed);
        bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
        graph = bs_graph_create(&arena, NULL);
        if (!rg_grow(&rg, graph, &weights, 30) || graph->n_routers < 3)
            continue;
        d.slot_bytes = s->streams ? UINT64_MAX : 0;
        bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
        plan = bs_plan_create(&arena, NULL, graph, &d, &error);
        bs_plan_stream_get(plan, &facts);
        plan_bytes = arena.used;
        s->found = seed;
        const bool tiles = d.order == BS_ORDER_BREADTH || (plan && plan->n_parts > 2),
                   again = !s->loops || (plan && visits_again(plan));
        if (plan && tiles && again && (facts.units > 2 || !s->streams) && fuzz_flops(graph) < FUZZ_FLOPS_MOST)
            return true;
    }
    return false;
}

/* What is said of a lie is one of the messages that are seen; numbers in it, a CRC's among them, do not make another
 * one. */
static void see_message(const char *text)
{
    static char plain[MESSAGES + 1][sizeof messages_seen[0]];
    char *const mine = plain[n_messages];
    size_t n = 0;
    for (const char *at = text; *at; at++)
        if (!isxdigit((unsigned char)*at))
            mine[n++] = *at;
    mine[n] = '\0';
    for (int32_t i = 0; i < n_messages; i++)
        if (strcmp(plain[i], mine) == 0)
            return;
    if (n_messages < MESSAGES)
        strcpy(messages_seen[n_messages++], text);
    else
        check(false, "there are at most %d messages", MESSAGES);
}

/* What looked at a lie that is within all bounds, and refused it: in this order. */
enum { BY_VALUES, BY_THE_WALK, LOOKERS };
static int64_t refused_by[LOOKERS];

static void see_looker(const uint8_t *bytes)
{
    static BS_ALIGNED uint8_t workspace[1 << 18];
    bs_plan said = {.graph = plan->graph};
    if (!bs_image_take(&said, bytes, bs_plan_image_bytes(plan)))
        return;
    bs_plan_begin(&said);
    if (!bs_image_values_sound(&said))
        refused_by[BY_VALUES]++;
    else if (bs_plan_walk(&said, true, workspace) != BS_WALK_SOUND)
        refused_by[BY_THE_WALK]++;
}

/* Opened in memory of exactly these bytes, and run. */
static void try_image(const uint8_t *bytes, size_t n, tally *t)
{
    static BS_ALIGNED uint8_t handle[1 << 18];
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    static const uint8_t how[64] = {1, 7, 200};
    fuzz_bytes options = {how, sizeof how, 0};
    uint8_t *const exact = fuzz_copy(bytes, n);
    bs_arena_init(&arena, "handle", handle, bs_plan_open_bytes(graph));
    const bs_plan *opened = bs_plan_open(&arena, NULL, graph, exact, n, &error);
    const bs_weights from = flat_weights(&source, 1);
    const bs_session_desc desc = {.weights = from};
    t->cases++;
    t->refused += !opened;
    t->ran += opened != NULL;
    t->silent += !opened && (error.status >= 0 || !error.message[0] || arena.used != 0);
    if (!opened)
        see_message(error.message);
    if (!opened && n == size && strstr(error.message, "no plan that this library makes"))
        see_looker(exact);
    if (opened && opened->tier != BS_TIER_CUDA && t->ran % (t->every ? t->every : 1) == 0)
        fuzz_session_run(graph, opened, &desc, &options);
    free(exact);
}

static void test_cuts(void)
{
    tally t = {0}, mended = {0};
    uint8_t *const copy = fuzz_copy(image, size);
    int64_t index = 0;
    for (size_t n = 0; n < size; n += n < 64 ? 1 : 1 + stride / 8) {
        if (!takes(index++))
            continue;
        try_image(image, n, &t);
        if (n < sizeof(bs_image_head))
            continue;
        memcpy(copy, image, size);
        memcpy(copy + offsetof(bs_image_head, bytes), &(uint64_t){n}, sizeof(uint64_t));
        plan_edit_mend(copy, n);
        try_image(copy, n, &mended);
    }
    free(copy);
    check(t.cases > 0 && mended.cases > 0 && t.refused == t.cases && mended.refused == mended.cases &&
              t.silent + mended.silent == 0,
          "cut at %d places, an image is refused, and when it says that it is as short, too", (int)t.cases);
}

static void test_bits(void)
{
    tally t = {0}, mended = {0};
    uint8_t *const copy = fuzz_copy(image, size);
    int64_t index = 0, rare = 0;
    for (size_t bit = 0; bit < 8 * size; bit += stride) {
        const bool now = takes(index++), as_it_is = bit / 8 / 8 * stride % 16 == 0 && takes(rare++);
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (as_it_is)
            try_image(copy, size, &t);
        if (now) {
            plan_edit_mend(copy, size);
            try_image(copy, size, &mended);
        }
        if (now || as_it_is)
            memcpy(copy, image, size);
        else
            copy[bit / 8] = image[bit / 8];
    }
    free(copy);
    check(t.cases > 0 && t.refused == t.cases && t.silent + mended.silent == 0, "%d flipped bits are found by the CRC",
          (int)t.cases);
    check(mended.refused > 0 && mended.cases == mended.refused + mended.ran,
          "where it was mended, of %d %d are refused, and %d run within their arenas", (int)mended.cases,
          (int)mended.refused, (int)mended.ran);
}

/* Row `row` of a table says another number in a field. */
static void try_field(const bs_image_field *field, uint8_t *at, const uint8_t *other, uint8_t *copy, tally *t,
                      int64_t *index)
{
    const int64_t before = bs_image_get(field, at), there = bs_image_get(field, other);
    const int64_t near = before > INT32_MIN && before < INT32_MAX ? before : 0;
    const int64_t lies[] = {3,         5,         0,         -1,        1,    2,          near + 1,
                            near - 1,  near + 64, near - 64, near * 2,  there, before ^ 32};
    const int64_t step = stride > 1 ? 3 : 1;
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++, (*index)++) {
        if (*index % step != 0 || !takes(*index / step))
            continue;
        bs_image_set(field, at, lies[i]);
        plan_edit_mend(copy, size);
        try_image(copy, size, t);
    }
    bs_image_set(field, at, before);
}

static void test_fields(void)
{
    tally t = {.every = (int64_t)(1 + stride / 6)};
    bs_image_places places;
    int64_t index = 0;
    uint8_t *const copy = fuzz_copy(image, size);
    bs_image_place(plan, &places);
    uint8_t *number = bs_bytes_at(copy, places.table[BS_IMAGE_plan]);
    const bs_image_field *field = bs_image_fields;
    for (; field->table == BS_IMAGE_plan; field++, number += 8)
        try_field(&(const bs_image_field){.bytes = 8}, number, number, copy, &t, &index);
    for (; field->bytes; field++) {
        const int32_t table = field->table, rows = bs_image_rows(plan, table);
        const size_t bytes = bs_image_row_bytes(table);
        uint8_t *const first = bs_bytes_at(copy, places.table[table]);
        for (int32_t r = 0; r < rows; r++)
            try_field(field, first + (size_t)r * bytes, first + (size_t)((r + 1 + r / 2) % rows) * bytes, copy, &t,
                      &index);
    }
    check(memcmp(copy, image, BS_IMAGE_CRC_FROM - 4) == 0 && t.silent == 0 && t.refused > t.cases / 4,
          "of %d lies in single fields %d are refused, and %d run within their arenas", (int)t.cases, (int)t.refused,
          (int)t.ran);
    free(copy);
}

/* Fields that have bounds (any number, any of 32 bits, and counts have none, or none above), below and beyond them, in
 * their first row. */
enum { UNBOUNDED = 2, UP_TO_THE_LAST = 3, FIELDS = 256 };
static bool below[FIELDS], beyond[FIELDS];

static bool is_refused(const bs_image_field *field, uint8_t *at, const uint8_t *copy, int64_t lie)
{
    const int64_t before = bs_image_get(field, at);
    bs_plan said = {.graph = plan->graph};
    bs_image_set(field, at, lie);
    const bool refused = !bs_image_take(&said, copy, size);
    bs_image_set(field, at, before);
    return refused;
}

static void test_bounds(void)
{
    bs_image_places places;
    uint8_t *const copy = fuzz_copy(image, size);
    bs_image_place(plan, &places);
    for (int32_t f = 0; bs_image_fields[f].bytes; f++) {
        const bs_image_field *field = &bs_image_fields[f], number = {.bytes = 8};
        const bool own = field->table == BS_IMAGE_plan;
        uint8_t *const at = bs_bytes_at(copy, places.table[field->table]) + (own ? 8 * f : 0);
        if (bs_image_rows(plan, field->table) == 0)
            continue;
        below[f] = is_refused(own ? &number : field, at, copy, field->bytes == 1 && !own ? 254 : -2);
        beyond[f] = is_refused(own ? &number : field, at, copy, field->bytes == 4 || own ? INT32_MAX : INT64_MAX);
    }
    free(copy);
}

static void check_bounds(void)
{
    for (int32_t f = 0; bs_image_fields[f].bytes; f++)
        if (bs_image_fields[f].range >= UNBOUNDED)
            check(below[f] && (beyond[f] || bs_image_fields[f].range == UP_TO_THE_LAST),
                  "field %d of table %d is refused out of its bounds", f, bs_image_fields[f].table);
}

#include "sweep_stories.h" /* of the plan and the image above */

static void test_image(void)
{
    bs_error error;
    flat_init(&source, graph, &weights.table, BS_F32);
    size = bs_plan_image_bytes(plan);
    image = malloc(size);
    check(bs_plan_save(NULL, image, size, &error) == BS_ERROR_ARGUMENT, "of no plan there is no image");
    see_message(error.message);
    check(bs_plan_save(plan, image, size - 1, &error) == BS_ERROR_ARGUMENT, "nor in less memory than it takes");
    see_message(error.message);
    check(bs_plan_save(plan, image, size, &error) == BS_OK, "%d nodes, %d instructions, %d parts: an image of %d bytes",
          graph->n_nodes, plan->n_instrs, plan->n_parts, (int)size);
    tally t = {0};
    try_image(image, size, &t);
    check(t.ran == 1, "which runs as it is");
    if (size >= SMALL_BYTES || round_now == 0) {
        test_cuts();
        test_bits();
        test_fields();
    }
    if (round_now == 0) {
        test_bounds();
        test_stories();
    }
    free(image);
}

static void test_subject(struct subject *s)
{
    if (check(grow(s), "a graph from seed %d, %s%s, %s", (int)s->found, s->segments ? "segments" : "rows",
              s->loops ? " in loops" : "", s->streams ? "streamed" : "resident"))
        test_image();
}

/* A plan of the graph. */
static bool small_plan(const bs_plan_desc *d, const char *what)
{
    bs_arena arena;
    bs_error error = {0};
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    weights.table.count = 0;
    plan = bs_plan_create(&arena, NULL, graph, d, &error);
    plan_bytes = arena.used;
    return check(plan != NULL, "a plan with %s", what);
}

static void small_graph(void (*build)(bs_graph *graph))
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    graph = bs_graph_create(&arena, NULL);
    build(graph);
}

#include "sweep_carried.h"

/* Where weights come and go; for a GPU: none of it is run. */
static void test_guesses(void)
{
    static const bs_plan_desc d = {.tier = BS_TIER_CUDA, .slot_bytes = UINT64_MAX};
    small_graph(small_guess);
    if (!small_plan(&d, "a guess"))
        return;
    test_image();
    tally t = {.every = 1};
    for (int32_t n = 1; n < plan->graph->n_nodes; n++) {
        plan->nodes[n].ahead_of = 0;
        tell(&t);
    }
    check(t.silent == 0 && t.refused == 1, "it is not said of which router: refused");
}

/* Scores of a device that keeps what it can in f16; none of it is run. */
static void test_halves(void)
{
    static const bs_plan_desc d = {.tier = BS_TIER_CUDA, .half = true};
    small_graph(small_halves);
    if (small_plan(&d, "halves"))
        test_image();
}

/* Stories of many graphs. */
static tally of_many = {.every = 60};
static int32_t n_many;

static void test_many(uint64_t seed)
{
    bs_error error;
    bs_arena arena;
    const bs_plan_desc d = {.order = seed % 2 ? BS_ORDER_BREADTH : BS_ORDER_DEPTH,
                            .slot_bytes = seed % 4 == 3 ? UINT64_MAX : 0};
    rg_segments = seed % 3 == 2;
    rg_loops = seed % 4 >= 2, rg_trees = seed % 8 >= 6;
    check_state = check_mixed(seed);
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    graph = bs_graph_create(&arena, NULL);
    bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
    plan = rg_grow(&rg, graph, &weights, 40) ? bs_plan_create(&arena, NULL, graph, &d, &error) : NULL;
    if (!plan)
        return;
    n_many++;
    flat_init(&source, graph, &weights.table, BS_F32);
    plan_bytes = arena.used;
    memcpy(plan_before, plan_memory, plan_bytes);
    tell_of_orders(&of_many);
    tell_of_parts(&of_many);
    tell_of_decisions(&of_many);
    tell_of_loops(&of_many);
    tell_of_phases(&of_many);
    tell_of_phases_across(&of_many);
    tell_of_layouts(&of_many);
}

/* Shares are of whole plans, within which the stride counts. */
static bool shares(const sweep_share *share, int32_t index) { return (size_t)index % share->parts == share->part; }

static void test_round(const sweep_share *share)
{
    for (int32_t i = 0; i < SUBJECTS; i++)
        if (shares(share, i))
            test_subject(&subjects[i]);
    if (shares(share, SUBJECTS + 1))
        for (uint64_t seed = 1 + (uint64_t)round_now; seed <= MANY; seed += (uint64_t)rounds)
            test_many(seed);
    if (round_now > 0)
        return;
    if (shares(share, SUBJECTS)) {
        test_caches();
        test_carried(BS_ORDER_BREADTH);
        test_carried(BS_ORDER_DEPTH);
    }
    if (shares(share, SUBJECTS + 2))
        test_guesses();
    if (shares(share, SUBJECTS + 3))
        test_halves();
}

int main(int argc, char **argv)
{
    const sweep_share share = sweep_share_of(argc, argv, PART);
    stride = share.stride;
    rounds = stride == PART && share.parts == 1 ? ROUNDS : 1;
    const budget b = rounds == 1 ? budget_whole() : budget_of(2);
    for (round_now = 0; budget_left(&b, round_now, 1, rounds); round_now++)
        test_round(&share);
    printf("%d rounds of %d\n", round_now, rounds);
    if (shares(&share, SUBJECTS + 1))
        check(of_many.silent == 0 && of_many.refused > 0 && of_many.across > 0,
              "of %d such lies of %d more plans %d are refused, and %d run", (int)of_many.cases, n_many,
              (int)of_many.refused, (int)of_many.ran);
    static const char *const by[] = {"values", "the walk"};
    for (int32_t k = 0; share.parts == 1 && k < LOOKERS; k++) /* a share does not tell all lies */
        check(refused_by[k] > 0, "%d lies are refused by %s", (int)refused_by[k], by[k]);
    if (share.parts == 1) {
        check_bounds();
        messages_of("src/plan/image_tables.c");
    }
    return check_end();
}
