/* tags: small asan tsan shipped aarch64 32-bit */
/* Results of 2,000 random graphs, on numbers that can tell, are the bytes that they were when the tables in
 * tests/frozen/ were made: in any order, with any number of threads, streamed or not. */
#include "frozen/coverage.h"
#include "frozen/table.h"

static const fz_variant fz_variants[] = {
    {.name = "base", .threads = 1, .paint = 0xFF},
    {.name = "breadth", .order = BS_ORDER_BREADTH, .threads = 1, .paint = 0},
    {.name = "depth", .order = BS_ORDER_DEPTH, .threads = 3, .paint = 0x7F},
    {.name = "plain", .no_dataflow = 1, .no_fusion = 1, .threads = 1, .paint = 0xA5, .strided = true},
    {.name = "slots", .slots = true, .lanes = 2, .threads = 1, .paint = 0xFF},
    {.name = "breadth-slots",
     .order = BS_ORDER_BREADTH,
     .slots = true,
     .lanes = 1,
     .chunk = 4096,
     .threads = 3,
     .paint = 1},
    {.name = "depth-slots", .order = BS_ORDER_DEPTH, .slots = true, .lanes = 3, .no_dataflow = 1, .threads = 1},
    {.name = "image", .image = true, .no_fusion = 1, .threads = 3, .paint = 0x80, .strided = true},
    {.name = "shared", .shared = true, .no_dataflow = 1, .threads = 1, .paint = 0x3F},
};
enum { VARIANTS = (int)(sizeof fz_variants / sizeof fz_variants[0]), BREADTH = 1, SLOTS = 4, PART = 20, IN_PART = 7 };

/* What the tables' texts hash to: they are never made anew. */
static const uint32_t fz_table_hashes[BS_TIER_CUDA] = {0, 0x7bb7289b, 0x22b53faa, 0xf4a973f2, 0xca042e38};

static bool fz_all_variants, fz_prints, fz_covers;
static int32_t fz_one_variant = -1;
static int32_t fz_seeds_run, fz_runs_made;
static uint32_t fz_base_codes; /* how the runs of the first variant ended */
static fz_line fz_base;        /* and what they gave */
static bs_status fz_base_status;

/* ------------------------------------------------------------------------------------------------- comparing */

/* A seed whose results differ: what, where, and how the graph is built. */
static void fz_explain(int32_t seed, bs_tier tier, const fz_variant *v, const fz_hash *h, const fz_line *want)
{
    const fz_line got = fz_line_of(h);
    for (int32_t i = 0; i < got.n || i < want->n; i++)
        if (i >= got.n || i >= want->n || got.item[i] != want->item[i])
            printf("seed %d, %s, %s: %s is %08x, expected %08x\n", seed, bs_tier_name(tier), v->name, fz_item_name(i),
                   i < got.n ? got.item[i] : 0, i < want->n ? want->item[i] : 0);
    printf("first failure: %s\nto list the graph: build/tests/test_frozen %d --graph\nas a change: %d %s",
           h->message[0] ? h->message : "none", seed, seed, bs_tier_name(tier));
    for (int32_t i = 0; i < got.n; i++)
        printf(" %08x", got.item[i]);
    printf(" | reason\n");
}

/* Whether a variant gives what is expected, but for what is excused. first: what the first variant gave. */
static bool fz_agrees(const fz_line *got, const fz_line *want, const fz_line *first, fz_excuse *excuse, bool base)
{
    bool same = got->n == want->n;
    for (int32_t i = 0; same && i < want->n; i++) {
        const bool excused = excuse && excuse->items[i];
        const uint32_t expected = excused && excuse->unwritten ? first->item[i] : want->item[i];
        if (got->item[i] == expected)
            continue;
        if (excused && (!base || excuse->breadth))
            excuse->needed = true;
        else
            same = false;
    }
    return same;
}

static bool fz_check_variant(fz *z, int32_t variant, bs_tier tier, const fz_line *want, fz_excuse *excuse)
{
    const fz_variant *v = &fz_variants[variant];
    fz_hash h;
    fz_run(z, v, tier, &h);
    fz_runs_made++;
    if (h.phases > 0)
        fz_has(z, FZ_STREAMS_FEATURE);
    if (h.phases > 1)
        fz_has(z, FZ_PHASES_FEATURE);
    fz_line got = fz_line_of(&h);
    if (variant == 0 || fz_one_variant >= 0)
        fz_base_codes = h.codes, fz_base = got, fz_base_status = h.first;
    else if (v->threads > 1 && h.first == BS_ERROR_DATA && h.codes == fz_base_codes)
        got.item[0] = want->item[0]; /* threads: any of the rows that fail may be the one that is named */
    if (excuse && excuse->breadth && variant == BREADTH)
        excuse = NULL;
    if (fz_agrees(&got, want, &fz_base, excuse, variant == 0))
        return true;
    fz_explain(z->seed, tier, v, &h, want);
    return false;
}

/* Seeds on which the library once was wrong: always run, in all variants. */
static bool fz_was_wrong(int32_t seed)
{
    static const int32_t seeds[] = {118, 311, 780, 1440};
    bool any = false;
    for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
        any = any || seeds[i] == seed;
    return any;
}

/* Which variants of a seed run: the first one, and others in turn; where something is excused, all. With NEON few, and
 * its scalar tier, whose table other processors share, for some seeds only: it mostly runs under an emulator. */
static bool fz_is_due(int32_t seed, int32_t variant, bs_tier tier, const fz_excuse *excuse)
{
    const bs_tier best = bs_tier_best();
    const int32_t others = VARIANTS - 1, turn = seed / PART + seed + 3 * (int32_t)tier, at = variant - 1;
    if (fz_one_variant >= 0)
        return variant == fz_one_variant;
    if (fz_all_variants || excuse || fz_was_wrong(seed) || (fz_covers && variant == SLOTS))
        return true;
    if (best == BS_TIER_NEON && tier == BS_TIER_SCALAR && seed % 4 != IN_PART % 4)
        return false;
    if (variant == 0)
        return true;
    if (best == BS_TIER_NEON)
        return at == turn % others && seed % 2 == IN_PART % 2;
    return at == turn % others || at == (turn + 3) % others || (tier == best && at == (turn + 6) % others);
}

static void fz_print(fz *z, bs_tier tier)
{
    fz_hash h;
    const fz_excuse *excuse = fz_excuse_of(z->seed);
    fz_run(z, &fz_variants[excuse && excuse->breadth ? BREADTH : 0], tier, &h);
    const fz_line line = fz_line_of(&h);
    printf("%d", z->seed);
    for (int32_t i = 0; i < line.n; i++)
        printf(" %08x", excuse && excuse->unwritten && i > 1 ? 0 : line.item[i]);
    printf("\n");
}

static bool fz_check_seed(int32_t seed, bs_tier only)
{
    bool same = true;
    fz *z = fz_generate(seed, false);
    fz_seeds_run++;
    for (int32_t t = BS_TIER_CUDA - 1; t >= BS_TIER_SCALAR; t--) {
        const bs_tier tier = (bs_tier)t;
        if (!bs_tier_available(tier) || (only != BS_TIER_AUTO && only != tier))
            continue;
        if (fz_prints) {
            fz_print(z, tier);
            continue;
        }
        const fz_line want = *fz_expected(seed, tier);
        fz_excuse *excuse = fz_excuse_of(seed);
        for (int32_t v = 0; v < VARIANTS; v++)
            if (fz_is_due(seed, v, tier, excuse))
                same = fz_check_variant(z, v, tier, &want, excuse) && same;
        if (fz_covers && tier == BS_TIER_SCALAR)
            fz_cover(z, fz_base_status);
    }
    return same;
}

/* ------------------------------------------------------------------------------------------------------ the test */

static void fz_check_tables(bs_tier only)
{
    for (int32_t t = BS_TIER_SCALAR; t < BS_TIER_CUDA; t++) {
        const bs_tier tier = (bs_tier)t;
        if (only != BS_TIER_AUTO && only != tier)
            continue;
        check(fz_all.tier[t].n == FZ_SEEDS && fz_all.tier[t].hash == fz_table_hashes[t],
              "the table of %s is the one that was frozen (%08x)", bs_tier_name(tier), fz_all.tier[t].hash);
    }
}

static void fz_check_excuses(bool whole)
{
    int32_t idle = 0;
    for (int32_t i = 0; i < fz_all.n_excuses; i++) {
        const fz_excuse *e = &fz_all.excuses[i];
        check(e->reason[0] != '\0', "excused.txt: seed %d says why", e->seed);
        if (whole && !e->needed)
            idle++, printf("seed %d needs no excuse any more: %s\n", e->seed, e->reason);
    }
    check(idle == 0, "%d seeds are excused, all of them need it", fz_all.n_excuses);
}

typedef struct fz_options {
    int32_t from, to; /* seeds; from -1: all, or a part */
    bs_tier tier;     /* BS_TIER_AUTO: all */
    bool whole, graph;
} fz_options;

static int fz_usage(void)
{
    printf("test_frozen [SEED [END]] [--all] [--variants] [--variant NAME] [--tier NAME] [--graph] [--dump] [--print]\n"
           "            [--coverage]\n"
           "no arguments: a part of the seeds; FROZEN=all or --all: all of them (tests/frozen/README.md)\n");
    return 2;
}

static bool fz_option(fz_options *o, const char *a)
{
    bool *const flags[] = {&o->whole, &o->graph, &fz_all_variants, &fz_prints, &fz_covers, &fz_dumps};
    static const char *const names[] = {"--all", "--graph", "--variants", "--print", "--coverage", "--dump"};
    for (int32_t i = 0; i < 6; i++)
        if (strcmp(a, names[i]) == 0)
            return *flags[i] = true;
    if (a[0] < '0' || a[0] > '9')
        return false;
    if (o->from < 0)
        o->from = atoi(a), o->to = o->from + 1;
    else
        o->to = atoi(a);
    return o->to <= FZ_SEEDS;
}

static bool fz_named_option(fz_options *o, const char *a, const char *name)
{
    for (int32_t t = BS_TIER_SCALAR; t < BS_TIER_CUDA && strcmp(a, "--tier") == 0; t++)
        if (strcmp(name, bs_tier_name((bs_tier)t)) == 0)
            return o->tier = (bs_tier)t, true;
    for (int32_t v = 0; v < VARIANTS && strcmp(a, "--variant") == 0; v++)
        if (strcmp(name, fz_variants[v].name) == 0)
            return fz_one_variant = v, true;
    return false;
}

static void fz_load_all(void)
{
    for (int32_t t = BS_TIER_SCALAR; t < BS_TIER_CUDA; t++)
        fz_load_tier((bs_tier)t);
    fz_load_changes();
    fz_load_excuses();
}

/* Runs the seeds that are asked for; returns how many are wrong. */
static int32_t fz_check_seeds(const fz_options *o)
{
    int32_t wrong = 0;
    const bool named = o->from >= 0;
    for (int32_t seed = named ? o->from : 0; seed < (named ? o->to : FZ_SEEDS); seed++) {
        if (o->graph)
            fz_generate(seed, true);
        if (!named && !o->whole && !fz_prints && seed % PART != IN_PART && !fz_was_wrong(seed))
            continue;
        if (!fz_check_seed(seed, o->tier))
            wrong++, check(0, "seed %d gives what it gave", seed);
        fflush(stdout);
    }
    return wrong;
}

int main(int argc, char **argv)
{
    const char *frozen = getenv("FROZEN");
    fz_options o = {.from = -1, .whole = frozen && strcmp(frozen, "all") == 0};
    for (int i = 1; i < argc; i++)
        if (!fz_option(&o, argv[i]) && (i + 1 == argc || !fz_named_option(&o, argv[i], argv[i + 1]) || ++i == 0))
            return fz_usage();
    fz_load_all();
    const int32_t wrong = fz_check_seeds(&o);
    if (fz_prints)
        return 0;
    check(wrong == 0, "%d seeds of %d give what they gave, in %d runs", fz_seeds_run - wrong, fz_seeds_run,
          fz_runs_made);
    fz_check_tables(o.tier);
    fz_check_changes();
    fz_check_excuses(o.whole && o.from < 0);
    if (fz_covers)
        fz_check_covered(true);
    return check_end();
}
