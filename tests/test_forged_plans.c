/* tags: asan */
/* Promises: a saved plan of which several fields at a time were made up, and its CRC anew, is refused with a message,
 * or runs to an end within arenas of exactly the bytes that are asked for, and opens in exactly bs_plan_open_bytes.
 *
 * Owns: forgeries. Of each of many random graphs a plan is saved, and forged FORGERIES times: fields of any rows become
 * numbers that mean something (fuzz/plan_edit.h), more often those that nothing computes again. An argument: the
 * first seed; another one: how many forgeries. Must never: expect what becomes of one. */
#define _POSIX_C_SOURCE 200809L /* nanosleep, in flat_source.h */
#include "random_graph.h"

#include "budget.h"
#include "fuzz/fuzz_weights.h"
#include "fuzz/plan_edit.h"

enum { FORGERIES = 200, EDITS = 4, NOISE = 96 };

static random_graph rg;
static net_table weights;
static flat_source source;
static _Alignas(64) uint8_t graph_memory[1 << 20];

/* What became of them. */
static int64_t refused, too_large, ran;

static bs_graph *grow(uint64_t seed)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    rg_segments = seed % 3 == 2;
    rg_shares = seed % 2 == 1;
    rg_loops = seed % 4 >= 2;
    rg_trees = seed % 8 >= 6;
    rg_boxes = seed % 5 == 4;
    return rg_grow(&rg, g, &weights, 10 + check_below(30)) && fuzz_flops(g) < FUZZ_FLOPS_MOST ? g : NULL;
}

/* Noise that the seed gives. */
static fuzz_bytes noise_of(uint8_t *noise)
{
    for (int32_t i = 0; i < NOISE; i++)
        noise[i] = (uint8_t)check_below(256);
    return (fuzz_bytes){noise, NOISE, 0};
}

/* A field of a row of `table`. */
static void forge_field(fuzz_bytes *o, const bs_plan *plan, uint8_t *image, int32_t table)
{
    bs_image_places places;
    const bs_image_field *f = bs_image_fields;
    const int32_t rows = bs_image_rows(plan, table);
    int32_t fields = 0;
    while (f->table != table)
        f++;
    while (f[fields].table == table && f[fields].bytes)
        fields++;
    if (rows == 0)
        return;
    f += fuzz_below(o, fields);
    bs_image_place(plan, &places);
    uint8_t *const first = bs_bytes_at(image, places.table[table]);
    uint8_t *const at = first + (size_t)(fuzz_u16(o) % rows) * bs_image_row_bytes(table);
    const uint8_t *const other = first + (size_t)(fuzz_u16(o) % rows) * bs_image_row_bytes(table);
    const int64_t before = bs_image_get(f, at), there = bs_image_get(f, other);
    if (fuzz_flip(o, 24))
        memcpy(at, other, bs_image_row_bytes(table));
    else
        bs_image_set(f, at, fuzz_flip(o, 128) ? there : plan_edit_number(o, before, there));
}

/* What only numbers depend on, in all rows that have to agree: the order of a domain, a value's layout. */
static void forge_numbers(fuzz_bytes *o, const bs_plan *plan, uint8_t *image)
{
    bs_image_places places;
    bs_plan said = *plan;
    bs_image_place(plan, &places);
    said.domains = (void *)bs_bytes_at(image, places.table[BS_IMAGE_domains]);
    said.routers = (void *)bs_bytes_at(image, places.table[BS_IMAGE_routers]);
    said.values = (void *)bs_bytes_at(image, places.table[BS_IMAGE_values]);
    bs_domain_plan *d = &said.domains[fuzz_below(o, plan->graph->n_domains)];
    d->order = d->order == BS_ORDER_DEPTH ? BS_ORDER_BREADTH : BS_ORDER_DEPTH;
    for (int32_t r = 1; r < plan->graph->n_routers; r++)
        bs_plan_size_router(&said, r, &said.routers[r]);
    for (int32_t v = 1; v < plan->graph->n_values; v++)
        said.values[v].planar = bs_plan_may_be_planar(&said, v) && fuzz_flip(o, 128);
}

static void forge(fuzz_bytes *o, const bs_plan *plan, uint8_t *image, size_t size)
{
    static const uint8_t often[] = {BS_IMAGE_values, BS_IMAGE_instrs, BS_IMAGE_values, BS_IMAGE_nodes,
                                    BS_IMAGE_parts, BS_IMAGE_phases, BS_IMAGE_phase_units, BS_IMAGE_units};
    const bool numbers = fuzz_flip(o, 24);
    if (numbers)
        forge_numbers(o, plan, image);
    for (int32_t edits = numbers ? 0 : 2 + fuzz_below(o, EDITS - 1); edits > 0; edits--)
        if (fuzz_flip(o, 192))
            forge_field(o, plan, image, often[fuzz_below(o, sizeof often)]);
        else
            plan_edit_field(o, plan, image);
    plan_edit_mend(image, size);
}

static void run_opened(const bs_graph *g, const bs_plan *plan, fuzz_bytes *o)
{
    const bs_weights from = flat_weights(&source, 1);
    const bs_session_desc desc = {.weights = from};
    bs_sizes sizes;
    bs_plan_sizes(plan, &sizes);
    const bool fits = sizes.persistent <= FUZZ_ARENA_MOST && sizes.transient <= FUZZ_ARENA_MOST &&
                      sizes.staging <= FUZZ_ARENA_MOST && sizes.slots <= FUZZ_ARENA_MOST;
    ran += fits;
    too_large += !fits;
    fuzz_ask_plan(plan);
    if (plan->tier != BS_TIER_CUDA)
        fuzz_session_run(g, plan, &desc, o);
}

static void try_forgery(const bs_graph *g, const uint8_t *image, size_t size, fuzz_bytes *o)
{
    bs_arena arena;
    bs_error error = {0};
    const size_t bytes = bs_plan_open_bytes(g);
    uint8_t *const exact = fuzz_copy(image, size), *const handle = fuzz_arena(&arena, "handle", bytes, 0x3A);
    const bs_plan *plan = bs_plan_open(&arena, NULL, g, exact, size, &error);
    if (plan) {
        run_opened(g, plan, o);
    } else {
        fuzz_failure(error.status, &error, "bs_plan_open");
        FUZZ_PROMISE(error.status == BS_ERROR_FORMAT && arena.used == 0, "%s", error.message);
        refused++;
    }
    free(handle);
    free(exact);
}

/* Forgeries of the plan of one seed; how many. */
static int64_t forge_all(uint64_t seed, int64_t most)
{
    uint8_t noise[NOISE];
    bs_arena arena = {0};
    bs_error error = {0};
    check_state = check_mixed(seed);
    const bs_graph *g = grow(seed);
    fuzz_bytes o = noise_of(noise);
    bs_plan_desc d = {0};
    if (g) {
        d = fuzz_plan_desc(&o, g);
        flat_init(&source, g, &weights.table, BS_F32);
    }
    const bs_plan *plan = g ? fuzz_plan(&arena, g, &d, &o, true) : NULL;
    const size_t size = bs_plan_image_bytes(plan);
    uint8_t *const image = malloc(size + 1), *const forged = malloc(size + 1);
    int64_t made = 0;
    if (plan && bs_plan_save(plan, image, size, &error) == BS_OK)
        for (; made < most; made++) {
            memcpy(forged, image, size);
            o = noise_of(noise);
            forge(&o, plan, forged, size);
            try_forgery(g, forged, size, &o);
        }
    free(forged);
    free(image);
    free(arena.base);
    return made;
}

int main(int argc, char **argv)
{
    const uint64_t first = argc > 1 ? strtoull(argv[1], NULL, 0) : 1;
    const int64_t asked = argc > 2 ? strtoll(argv[2], NULL, 0) : 0;
    const budget b = asked ? budget_whole() : budget_of(2);
    int64_t forgeries = 0;
    check_seed(first);
    for (uint64_t k = 0; asked ? forgeries < asked : budget_left(&b, (int32_t)k, 24, 400); k++)
        forgeries += forge_all(first + k, FORGERIES);
    check(refused > 0 && ran > 0 && refused + ran + too_large == forgeries,
          "of %lld forgeries %lld are refused, %lld run, %lld need more memory than there is", (long long)forgeries,
          (long long)refused, (long long)ran, (long long)too_large);
    return check_end();
}
