/* tags: sweep */
/* test_cuda_sweep_plan.c - Promises: what test_sweep_plan.c promises, of images of plans for a device: one with any
 * bit, byte or word changed, with several fields that lie, or with a whole story that agrees with itself, is refused
 * with a message, or runs within the arenas of its session, the device's two among them, and leaves nothing there.
 *
 * Owns: plans for a device, and which lies are told of them. Knows no field of an image: lies go by its bytes, by
 * plan_edit.h and by what the planner itself could have said. The emulation sees what is out of bounds: under the
 * address sanitizer every access, without it a write behind an arena. By default a part of the cases: SWEEP_STRIDE=1
 * (make sweep) takes all. SWEEP_SHOW=1 tells each lie before it is run. Must never: expect the same outcome of two
 * lies. */
#define _POSIX_C_SOURCE 200809L /* nanosleep, in flat_source.h */
#include "random_graph.h"

#include "fuzz/fuzz_weights.h"
#include "fuzz/plan_edit.h"
#include "run/session.h"
#include "sweep_share.h"

#ifdef BS_CUDA_CPU
#include "cuda_cpu/control.h"
#endif

/* Orders, launch modes, halves, small tiles, weights that come and go: of rows, frames and segments. */
static const struct subject {
    uint64_t seed;
    bool segments, streams;
    bs_plan_desc desc;
} subjects[] = {
    {21, false, false, {.order = BS_ORDER_DEPTH, .launch_mode = BS_LAUNCH_STREAM}},
    {22, false, false, {.order = BS_ORDER_DEPTH, .half = 1, .in_place = 1}},
    {23, false, false, {.order = BS_ORDER_BREADTH, .half = 1, .launch_mode = BS_LAUNCH_CONDITIONAL}},
    {24, true, false, {.order = BS_ORDER_DEPTH, .launch_mode = BS_LAUNCH_GRAPH}},
    {25, true, true, {.order = BS_ORDER_BREADTH, .lanes = 1, .half = 1}},
    {26, false, true, {.order = BS_ORDER_DEPTH, .lanes = 1, .in_place = 1}},
    {27, false, false, {.order = BS_ORDER_DEPTH, .patch_size = 4, .shared_bytes = BS_DEVICE_SHARED + 1024}},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects, STEPS = 24, ARENA_MOST = FUZZ_ARENA_MOST };

static random_graph rg;
static net_table weights;
static flat_source source;
static bs_graph *graph;
static bs_plan *plan;
static uint8_t *image, *copy;
static size_t size;
static sweep_share share;
static size_t told; /* lies, of which the share takes some */
static bool shows;
static _Alignas(64) uint8_t graph_memory[1 << 20], plan_memory[1 << 20], plan_before[1 << 20];

/* A run in the emulation takes as long as a hundred openings: where more than one in a hundred lies in the bytes is
 * told, of those that are opened one in thirteen is run. */
typedef struct tally {
    int32_t cases, refused, ran, silent, left;
    bool all; /* all of them are run */
} tally;

/* A graph that has all of it: the first from the seed on. */
static bool grow(const struct subject *s)
{
    bs_error error;
    for (uint64_t seed = s->seed * 1000; seed < s->seed * 1000 + 400; seed++) {
        bs_arena arena;
        bs_plan_desc d = s->desc;
        bs_stream_plan facts;
        rg_segments = s->segments;
        rg_shares = true;
        check_state = check_mixed(seed);
        bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
        graph = bs_graph_create(&arena, NULL);
        if (!rg_grow(&rg, graph, &weights, STEPS) || graph->n_routers < 3)
            continue;
        d.tier = BS_TIER_CUDA;
        d.slot_bytes = s->streams ? UINT64_MAX : 0;
        bs_arena_init(&arena, "plan", plan_memory, sizeof plan_memory);
        plan = bs_plan_create(&arena, NULL, graph, &d, &error);
        bs_plan_stream_get(plan, &facts);
        const bool tiles = d.order == BS_ORDER_BREADTH || (plan && plan->n_parts > 2);
        if (plan && tiles && (facts.units > 2 || !s->streams) && fuzz_flops(graph) < FUZZ_FLOPS_MOST / 2)
            return true;
    }
    return false;
}

/* --------------------------------------------------------------------------------------------------- one lie */

static bool leaves_nothing(void)
{
#ifdef BS_CUDA_CPU
    struct cuda_cpu_counts c;
    cuda_cpu_counts_get(&c);
    if (cuda_cpu_trouble()) {
        printf("  %s\n", cuda_cpu_trouble());
        return false;
    }
    return c.live_allocations == 0 && c.live_streams == 0 && c.live_events == 0 && c.live_graphs == 0;
#else
    return true;
#endif
}

static int64_t kernels(void)
{
#ifdef BS_CUDA_CPU
    struct cuda_cpu_counts c;
    cuda_cpu_counts_get(&c);
    return c.kernels;
#else
    return 1;
#endif
}

/* Memory of a device holds anything, and blocks come in any order: what is read before it is written is noticed as a
 * number far too large, or below zero. */
static void vary(int32_t turn)
{
#ifdef BS_CUDA_CPU
    cuda_cpu_fill(turn % 2 ? 0xff : 0x3f);
    cuda_cpu_order(turn % 3, 1);
#else
    (void)turn;
#endif
}

/* On a device of exactly the bytes that the plan asks for. */
static void run_opened(const bs_plan *opened, tally *t)
{
    static BS_ALIGNED uint8_t memory[1024];
    static const uint8_t how[64] = {1, 7, 200};
    fuzz_bytes options = {how, sizeof how, 0};
    bs_platform platform = *bs_platform_default();
    bs_session_desc desc = {.weights = flat_weights(&source, 1), .platform = &platform};
    bs_sizes sizes;
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_plan_sizes(opened, &sizes);
    if (sizes.device > ARENA_MOST || sizes.pinned > ARENA_MOST)
        return;
    const bs_cuda_desc open = {.device_bytes = sizes.device, .pinned_bytes = sizes.pinned};
    bs_arena_init(&arena, "opened", memory, sizeof memory);
    vary(t->ran);
    desc.device = bs_cuda_open(&arena, &open, &error);
    FUZZ_PROMISE(desc.device, "%s", error.message);
    platform.thread_start = NULL; /* a lie is short, and the same each time */
    fuzz_session_run(graph, opened, &desc, &options);
    bs_cuda_close(desc.device);
    t->ran++;
    t->left += !leaves_nothing();
}

/* Opened in memory of exactly these bytes, with a CRC that fits, and run. */
static void try_image(uint8_t *bytes, size_t n, tally *t)
{
    static BS_ALIGNED uint8_t handle[1 << 18];
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    if (n >= sizeof(bs_image_head))
        plan_edit_mend(bytes, n);
    uint8_t *const exact = fuzz_copy(bytes, n);
    bs_arena_init(&arena, "handle", handle, bs_plan_open_bytes(graph));
    const bs_plan *opened = bs_plan_open(&arena, NULL, graph, exact, n, &error);
    t->cases++;
    t->refused += !opened;
    t->silent += !opened && (error.status >= 0 || !error.message[0] || arena.used != 0);
    if (opened && (t->all || share.stride >= 100 || (t->cases - t->refused) % 13 == 0))
        run_opened(opened, t);
    free(exact);
}

/* rarer: of lies of which there are few the share takes more. */
static bool takes(const char *what, size_t where, int64_t number, size_t rarer)
{
    const sweep_share of = {1 + (share.stride - 1) / rarer, share.part, share.parts};
    const bool taken = sweep_takes(&of, told++);
    if (taken && shows)
        fprintf(stderr, "%s at %zu: %lld\n", what, where, (long long)number);
    return taken;
}

static void check_tally(const tally *t, const char *what)
{
    check(t->silent == 0 && t->left == 0, "of %d %s %d are refused, and %d run within their arenas", t->cases, what,
          t->refused, t->ran);
}

/* ------------------------------------------------------------------------------------------- lies in the bytes */

static void test_bits(void)
{
    tally t = {0};
    for (size_t bit = 0; bit < 8 * size; bit++) {
        if (!takes("bit", bit, 1, 1))
            continue;
        copy[bit / 8] ^= (uint8_t)(1u << bit % 8);
        try_image(copy, size, &t);
        memcpy(copy, image, size);
    }
    check_tally(&t, "flipped bits");
}

/* Every word is another number, and every byte of it. */
CHECK_WRAPS static void test_words(void)
{
    tally t = {0};
    for (size_t at = 0; at + 4 <= size; at += 4) {
        uint32_t was;
        memcpy(&was, image + at, 4);
        const uint32_t lies[] = {0, 1, 2, 3, 5, UINT32_MAX, was + 1, was - 1, was + 64, was - 64, 2 * was, was / 2};
        for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
            if (lies[i] == was || !takes("word", at, (int64_t)lies[i], 1))
                continue;
            memcpy(copy + at, &lies[i], 4);
            try_image(copy, size, &t);
            memcpy(copy, image, size);
        }
        for (size_t i = 0; i < 12; i++) {
            static const uint8_t bytes[3] = {0, 1, 2};
            if (copy[at + i / 3] == bytes[i % 3] || !takes("byte", at + i / 3, bytes[i % 3], 1))
                continue;
            copy[at + i / 3] = bytes[i % 3];
            try_image(copy, size, &t);
            memcpy(copy, image, size);
        }
    }
    check_tally(&t, "words and bytes that lie");
}

/* Up to six fields and rows at once. */
static void test_edits(int32_t count)
{
    tally t = {.all = true};
    uint8_t dice[96];
    for (int32_t i = 0; i < count; i++) {
        for (size_t k = 0; k < sizeof dice; k++)
            dice[k] = (uint8_t)check_below(256);
        if (!takes("edits", (size_t)i, dice[0], 4))
            continue;
        fuzz_bytes from = {dice, sizeof dice, 0};
        size_t n = size;
        plan_edit(&from, plan, copy, &n);
        try_image(copy, n, &t);
        memcpy(copy, image, size);
    }
    check_tally(&t, "images with several lies");
}

/* -------------------------------------------------------------------------------------------- whole stories
 * Lies that agree with each other as far as they go: the plan itself is changed, saved, and made as it was. */

static void tell(tally *t, const char *what, int32_t where)
{
    bs_error error;
    if (takes(what, (size_t)where, 0, 64)) {
        const size_t n = bs_plan_image_bytes(plan);
        uint8_t *const other = malloc(n);
        if (bs_plan_save(plan, other, n, &error) == BS_OK)
            try_image(other, n, t);
        free(other);
    }
    memcpy(plan_memory, plan_before, sizeof plan_before);
}

/* A value lies where others of its arena do, or is in f16, or is a view of another one. */
static void tell_of_values(tally *t)
{
    for (int32_t v = 1; v < plan->graph->n_values; v++) {
        bs_value_plan *value = &plan->values[v];
        if (value->storage == BS_STORAGE_NONE)
            continue;
        value->offset = bs_bytes_of(0);
        tell(t, "offset", v);
        value->row_bytes = bs_bytes_of(bs_bytes_figure(value->row_bytes) / 2);
        tell(t, "row bytes", v);
        value->rows = value->rows / 2;
        tell(t, "rows", v);
        value->narrow = !value->narrow;
        tell(t, "half", v);
        value->narrow = !value->narrow;
        value->row_bytes =
            value->narrow ? bs_bytes_of(bs_bytes_figure(value->row_bytes) / 2) : bs_bytes_times(value->row_bytes, 2);
        tell(t, "half and its bytes", v);
        for (uint32_t place = 0; place <= BS_STORAGE_FRAME; place++) {
            value->storage = place;
            tell(t, "place", v);
        }
    }
}

static void tell_of_orders(tally *t)
{
    for (int32_t top = 1; top < plan->graph->n_domains; top++) {
        for (int32_t order = BS_ORDER_BREADTH; order <= BS_ORDER_DEPTH; order++) {
            for (int32_t d = 1; d < plan->graph->n_domains; d++)
                if (plan->graph->domains[d].top == top)
                    plan->domains[d].order = order;
            for (int32_t r = 1; r < plan->graph->n_routers; r++)
                bs_plan_size_router(plan, r, &plan->routers[r]);
            tell(t, "order", top);
        }
    }
}

/* A device launches together what has one time, by kernel: instructions from `first` on have that of this one. */
static void tell_of_times(tally *t)
{
    for (int32_t first = 0; first < plan->n_top; first++) {
        for (int32_t count = 1; first + count < plan->n_top; count = 2 * count + 1) {
            for (int32_t k = first; k <= first + count; k++)
                plan->instrs[k].time = plan->instrs[first].time;
            tell(t, "one time", first);
        }
        for (int32_t k = first; k < plan->n_top; k++)
            plan->instrs[k].time = 0;
        tell(t, "no time", first);
        plan->instrs[first].time = INT32_MAX;
        tell(t, "late", first);
    }
}

/* What the device alone looks at. */
static void tell_of_device(tally *t)
{
    static const int32_t shared[] = {0, 1, 4096, BS_DEVICE_SHARED, BS_DEVICE_SHARED + 64, 1 << 20, INT32_MAX};
    for (int32_t launch_mode = -1; launch_mode <= BS_LAUNCH_COUNT; launch_mode++) {
        plan->desc.launch_mode = launch_mode;
        tell(t, "launch mode", launch_mode);
    }
    for (size_t i = 0; i < sizeof shared / sizeof *shared; i++) {
        plan->desc.shared_bytes = shared[i];
        tell(t, "shared bytes", shared[i]);
    }
    plan->desc.in_place = !plan->desc.in_place;
    tell(t, "in place", 0);
    plan->desc.half = !plan->desc.half;
    tell(t, "half", 0);
    for (int32_t k = 0; k < plan->n_parts; k++) {
        plan->parts[k].scratch_bytes = bs_bytes_of(0);
        tell(t, "a part without scratch", k);
    }
}

static void test_stories(void)
{
    tally t = {.all = true};
    memcpy(plan_before, plan_memory, sizeof plan_before);
    tell_of_values(&t);
    tell_of_orders(&t);
    tell_of_times(&t);
    tell_of_device(&t);
    check_tally(&t, "lies that agree with each other");
}

static void test_subject(const struct subject *s)
{
    bs_error error;
    tally t = {.all = true};
    if (!check(grow(s), "a graph from seed %d, %s, %s", (int)s->seed * 1000, s->segments ? "segments" : "rows",
               s->streams ? "streamed" : "resident"))
        return;
    flat_init(&source, graph, &weights.table, BS_F32);
    size = bs_plan_image_bytes(plan);
    image = malloc(size);
    check(image && bs_plan_save(plan, image, size, &error) == BS_OK,
          "%d nodes, %d instructions, %d parts: an image of %d bytes", graph->n_nodes, plan->n_instrs, plan->n_parts,
          (int)size);
    copy = fuzz_copy(image, size);
    try_image(copy, size, &t);
    check(t.ran == 1 && t.left == 0 && kernels() > 0, "which runs as it is: %d kernels", (int)kernels());
    test_bits();
    test_words();
    test_edits(4000);
    test_stories();
    free(copy);
    free(image);
}

int main(int argc, char **argv)
{
    share = sweep_share_of(argc, argv, 211);
    shows = getenv("SWEEP_SHOW") != NULL;
    check_seed(1);
    for (int32_t i = 0; i < SUBJECTS; i++)
        test_subject(&subjects[i]);
    return check_end();
}
