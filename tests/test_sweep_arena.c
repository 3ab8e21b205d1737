/* tags: sweep unsigned 32-bit */
/* test_sweep_arena.c - every arena shrunk byte by byte, from enough to nothing: what is too small is refused by the
 * name of the arena, with the bytes that are needed and those that there are, and is left as it was; exactly enough is
 * enough.
 *
 * Owns: the sweeps over sizes. Nothing lies behind an arena that could be written unseen (sweep_rig.h). By default a
 * part of the sizes: SWEEP_STRIDE=1 (make sweep) takes all.
 * Must never: take a size for enough because a size query says so: it opens, plans, runs and streams with it. */
#include "sweep_profile.h"

static sweep_file file;
static sweep_wanted wanted;
static sweep_life life, other;
static bs_platform alone;
static sweep_share share;
static sweep_how resident, streamed;

typedef struct sizes_tally {
    size_t cases, wrong;
    char why[400];
} sizes_tally;

static void tally_if(sizes_tally *t, bool wrong, size_t bytes, const bs_error *e)
{
    if (wrong && t->wrong++ == 0)
        snprintf(t->why, sizeof t->why, "; of %zu bytes: %s, needed %llu, available %llu, %.200s", bytes,
                 bs_status_name(e->status), (unsigned long long)e->needed, (unsigned long long)e->available,
                 e->message);
}

/* A refusal that can be acted upon: whose arena, how much it wants and how little there is. */
static bool refusal_is_bad(const bs_error *e, const char *name, size_t bytes)
{
    return e->status != BS_ERROR_ARENA || !e->arena || strcmp(e->arena, name) != 0 || e->needed <= e->available ||
           e->available > bytes || !e->message[0];
}

static void tally_check(const sizes_tally *t, const char *what, size_t enough)
{
    check(t->wrong == 0 && t->cases > 0,
          "%s: %zu sizes below %zu bytes are refused, and exactly that is enough (%zu wrong%s)", what, t->cases, enough,
          t->wrong, t->why);
}

/* ----------------------------------------------------------------------------------------------- opening a model */

static int64_t file_read_bytes(void *user, uint64_t offset, void *buffer, size_t bytes)
{
    (void)user;
    const size_t left = offset < file.f.n ? file.f.n - (size_t)offset : 0, n = bytes < left ? bytes : left;
    memcpy(buffer, file.f.bytes + (n ? offset : 0), n);
    return (int64_t)n;
}

static int64_t fake_open(void *user, const char *path, uint64_t *bytes)
{
    (void)user, (void)path;
    *bytes = file.f.n;
    return 3;
}

static int64_t fake_open_direct(void *user, const char *path, void *probe, uint64_t *bytes, uint32_t *alignment)
{
    memset(probe, 0x5A, BS_PROBE_BYTES);
    *alignment = 512;
    return fake_open(user, path, bytes) + 1;
}

static int64_t fake_read(void *user, int64_t handle, uint64_t offset, void *buffer, size_t bytes)
{
    (void)handle;
    return file_read_bytes(user, offset, buffer, bytes);
}

static void fake_close(void *user, int64_t handle) { (void)user, (void)handle; }

static bs_model *open_as(int32_t way, bs_arena *arena, const bs_platform *files, bs_error *error)
{
    const bs_reader reader = {.read = file_read_bytes, .size = file.f.n};
    return way == 0   ? bs_model_open_memory(arena, file.f.bytes, file.f.n, error)
           : way == 1 ? bs_model_open_reader(arena, &reader, error)
                      : bs_model_open_file(arena, files, "any.gguf", error);
}

static void test_open(int32_t way)
{
    static const char *const ways[] = {"a model in memory", "a model of a reader", "a model file"};
    bs_platform files = alone;
    sizes_tally t = {0};
    bs_error error = {0};
    bs_arena arena;
    const size_t enough = sweep_model_bytes;
    files.file_open = fake_open;
    files.file_open_direct = fake_open_direct;
    files.file_read = fake_read;
    files.file_close = fake_close;
    for (size_t n = 0; n <= enough + (way == 2 ? 2 * BS_PROBE_BYTES : 0); n++) {
        if (!sweep_takes(&share, n) && n != enough && n + 1 != enough)
            continue;
        bs_arena_init(&arena, "model", sweep_fence(sweep_pools[IN_MODEL], SWEEP_ROOM, n), n);
        bs_model *m = open_as(way, &arena, &files, &error);
        tally_if(&t, n < enough ? m || refusal_is_bad(&error, "model", n) || arena.used != 0 : !m, n, &error);
        tally_if(&t, !sweep_fence_holds(sweep_pools[IN_MODEL], SWEEP_ROOM, n), n, &error);
        bs_model_close(m);
        t.cases += n < enough;
    }
    tally_check(&t, ways[way], enough);
}

/* ----------------------------------------------------------------------------------------------- graph and plan */

static void test_graph(void)
{
    const bs_graph_desc room = bs_model_graph_desc(life.model);
    const size_t enough = bs_graph_bytes(&room) - BS_ALIGNMENT;
    sizes_tally t = {0};
    bs_error error = {0};
    bs_arena arena;
    for (size_t n = 0; n <= enough; n++) {
        if (!sweep_takes(&share, n) && n != enough && n + 1 != enough)
            continue;
        bs_arena_init(&arena, "graph", sweep_fence(sweep_pools[IN_GRAPH], SWEEP_ROOM, n), n);
        bs_graph *g = bs_graph_create(&arena, &room);
        tally_if(&t, n < enough ? g || arena.used != 0 : !g || bs_model_build(life.model, g, NULL, &error) != BS_OK, n,
                 &error);
        t.cases += n < enough;
    }
    tally_check(&t, "a graph", enough);
}

/* Room for one node, value or byte of text less, and less: a limit, which the builder remembers. */
static void test_graph_room(int32_t which)
{
    static const char *const names[3] = {"nodes", "values", "bytes of text"};
    const bs_graph_desc said = bs_model_graph_desc(life.model);
    bs_error error = {0};
    bs_arena arena;
    int32_t wrong = 0, least = INT32_MAX, refused = 0;
    const int32_t most = which == 0 ? said.max_nodes : which == 1 ? said.max_values : said.max_text_bytes;
    for (int32_t n = most; n > 0; n--) {
        bs_graph_desc room = said;
        *(which == 0 ? &room.max_nodes : which == 1 ? &room.max_values : &room.max_text_bytes) = n;
        const size_t bytes = bs_graph_bytes(&room);
        if (bytes == 0) /* below what any graph has */
            break;
        bs_arena_init(&arena, "graph", sweep_fence(sweep_pools[IN_GRAPH], SWEEP_ROOM, bytes), bytes);
        bs_graph *g = bs_graph_create(&arena, &room);
        const bs_status status = g ? bs_model_build(life.model, g, NULL, &error) : BS_ERROR_ARENA;
        wrong += status == BS_OK
                     ? least < n
                     : status != BS_ERROR_LIMIT || !error.message[0] || bs_graph_check(g, NULL) != BS_ERROR_LIMIT;
        least = status == BS_OK ? n : least;
        refused += status != BS_OK;
    }
    check(wrong == 0 && refused > 0 && least <= most,
          "a graph with room for fewer %s than %d: refused below %d, %d times", names[which], most, least, refused);
}

static void test_plan(const sweep_how *how, const char *what)
{
    const size_t most = bs_plan_bytes(life.graph, &how->plan) - BS_ALIGNMENT;
    sizes_tally t = {0};
    bs_error error = {0};
    bs_arena arena;
    bs_arena_init(&arena, "plan", sweep_fence(sweep_pools[IN_PLAN], SWEEP_ROOM, most), most);
    const bs_plan *whole = bs_plan_create(&arena, NULL, life.graph, &how->plan, &error);
    const size_t enough = arena.high_water;
    check(whole && enough == most, "%s: %zu bytes, as was said: %zu", what, enough, most);
    for (size_t n = 0; n <= enough; n++) {
        if (!sweep_takes(&share, n) && n != enough && n + 1 != enough)
            continue;
        bs_arena_init(&arena, "plan", sweep_fence(sweep_pools[IN_PLAN], SWEEP_ROOM, n), n);
        bs_plan *p = bs_plan_create(&arena, NULL, life.graph, &how->plan, &error);
        const bool takes_all = p && arena.high_water == arena.size;
        tally_if(&t, n < enough ? p || refusal_is_bad(&error, "plan", n) || arena.used != 0 : !takes_all, n, &error);
        t.cases += n < enough;
    }
    tally_check(&t, what, enough);
}

/* ---------------------------------------------------------------------------------------------------- sessions */

static bool all_given_back(const sweep_life *l)
{
    return l->memory.persistent.used == 0 && l->memory.transient.used == 0 && l->memory.staging.used == 0 &&
           l->memory.slots.used == 0;
}

static bool runs_right(sweep_life *l)
{
    bool ok = true;
    sweep_set_routes(l);
    for (int32_t turn = 0; ok && turn < SWEEP_RUNS; turn++)
        ok = sweep_run(l, turn) && sweep_same(l, &wanted, turn);
    return ok;
}

static void test_session(const sweep_how *base, sweep_arena which, const char *what)
{
    sizes_tally t = {0};
    sweep_how how = *base;
    const uint64_t sizes[SWEEP_ARENAS] = {
        0, 0, 0, life.sizes.persistent, life.sizes.transient, life.sizes.staging, life.sizes.slots};
    const size_t enough = (size_t)sizes[which];
    how.least = which;
    for (size_t n = 0; n <= enough; n++) {
        if (!sweep_takes(&share, n) && n != enough && n + 1 != enough)
            continue;
        how.bytes_less = enough - n;
        const bool made = sweep_make_session(&life, &how, NULL);
        tally_if(&t,
                 n < enough ? made || refusal_is_bad(&life.error, sweep_arena_names[which], n) || !all_given_back(&life)
                            : !made || !runs_right(&life),
                 n, &life.error);
        bs_session_close(life.session);
        life.session = NULL;
        tally_if(&t, !sweep_fences_hold(&life), n, &life.error);
        t.cases += n < enough;
    }
    char name[100];
    snprintf(name, sizeof name, "%s, %s", what, sweep_arena_names[which]);
    if (enough > 0)
        tally_check(&t, name, enough);
}

/* Arenas that begin anywhere lose less than an alignment. */
static void test_shifted(const sweep_how *how, const char *what)
{
    int32_t wrong = 0;
    const uint64_t sizes[4] = {life.sizes.persistent, life.sizes.transient, life.sizes.staging, life.sizes.slots};
    bs_arena *const arenas[4] = {&life.memory.persistent, &life.memory.transient, &life.memory.staging,
                                 &life.memory.slots};
    for (size_t shift = 1; shift < BS_ALIGNMENT; shift++) {
        const bs_session_desc desc = {
            .platform = how->platform, .weights = bs_model_weights(life.model), .stream = how->stream};
        for (size_t i = 0; i < 4; i++) {
            const size_t bytes = (size_t)sizes[i] + BS_ALIGNMENT - shift;
            bs_arena_init(arenas[i], sweep_arena_names[IN_PERSISTENT + i],
                          sweep_fence(sweep_pools[IN_PERSISTENT + i], SWEEP_ROOM, shift + bytes) + shift, bytes);
        }
        life.session = bs_session_create(&life.memory, life.plan, &desc, &life.error);
        wrong += !life.session || !runs_right(&life);
        bs_session_close(life.session);
        life.session = NULL;
    }
    check(wrong == 0, "%s: arenas that begin anywhere", what);
}

static void test_sessions(const sweep_how *how, const char *what)
{
    char name[100];
    snprintf(name, sizeof name, "a plan, %s", what);
    if (!check(sweep_open(&life, how) && sweep_make_graph(&life, how), "%s: %s", what, life.error.message))
        return;
    test_plan(how, name);
    if (!check(sweep_make_plan(&life, how), "%s: %s", what, life.error.message))
        return;
    for (sweep_arena which = IN_PERSISTENT; which <= IN_SLOTS; which++)
        test_session(how, which, what);
    test_shifted(how, what);
    check(sweep_make_session(&life, how, NULL) && life.memory.persistent.used == life.sizes.persistent &&
              life.memory.transient.used == life.sizes.transient && life.memory.slots.used == life.sizes.slots,
          "%s: a session takes what was said", what);
    for (int32_t a = 0; a < SWEEP_ARENAS; a++)
        check(life.bytes[a] <= 98304, "%s: %zu bytes of %s are at most 96 KiB", what, life.bytes[a],
              sweep_arena_names[a]);
    sweep_end(&life);
}

/* ------------------------------------------------------------------------------------- slots and chunks of every
 * size */

static void test_slots(void)
{
    sweep_how how = streamed;
    sizes_tally less = {0}, more = {0};
    bs_stream_plan facts = {0};
    how.plan.slot_bytes = UINT64_MAX;
    if (sweep_open(&life, &how) && sweep_make_graph(&life, &how) && sweep_make_plan(&life, &how))
        bs_plan_stream_get(life.plan, &facts);
    for (uint64_t n = 1; n <= facts.all_bytes + BS_ALIGNMENT; n++) {
        if (!sweep_takes(&share, (size_t)n) && n != facts.least_bytes && n + 1 != facts.least_bytes)
            continue;
        how.plan.slot_bytes = n;
        const bool planned = sweep_make_plan(&life, &how);
        if (n < facts.least_bytes) {
            tally_if(&less,
                     planned || life.error.status != BS_ERROR_ARENA || life.error.needed != facts.least_bytes ||
                         life.error.available != n,
                     (size_t)n, &life.error);
            less.cases++;
        } else {
            tally_if(&more, !planned || !sweep_make_session(&life, &how, NULL) || !runs_right(&life), (size_t)n,
                     &life.error);
            more.cases++;
            bs_session_close(life.session);
            life.session = NULL;
        }
    }
    sweep_end(&life);
    tally_check(&less, "slots", (size_t)facts.least_bytes);
    check(more.wrong == 0 && more.cases > 0,
          "slots of %zu sizes from %llu to all of %llu bytes give the same bytes (%zu wrong%s)", more.cases,
          (unsigned long long)facts.least_bytes, (unsigned long long)facts.all_bytes, more.wrong, more.why);
}

static void test_chunks(void)
{
    sweep_how how = streamed;
    sizes_tally t = {0};
    for (int32_t n = 1; n <= 2400; n++) {
        if (!sweep_takes(&share, (size_t)n))
            continue;
        how.plan.chunk_bytes = n;
        const bool ok = sweep_whole(&life, &how, &wanted);
        tally_if(&t, !ok, (size_t)n, &life.error);
        t.cases++;
    }
    check(t.wrong == 0 && t.cases > 0, "chunks of %zu sizes give the same bytes (%zu wrong%s)", t.cases, t.wrong,
          t.why);
}

/* ---------------------------------------------------------------------------------------------------- profiles */

static uint8_t ring[SWEEP_RING + SWEEP_GUARD];
static _Alignas(64) uint8_t tables[SWEEP_TABLES + SWEEP_GUARD];
static sweep_written written;

static bs_profile *make_profile(bs_arena *arena, size_t arena_bytes, size_t ring_bytes, bs_error *error)
{
    static bs_platform timed;
    timed = alone;
    timed.clock_ns = sweep_clock;
    const bs_profile_desc desc = sweep_profile_desc(&timed, &written, sweep_fence(ring, sizeof ring, ring_bytes),
                                                    ring_bytes);
    bs_arena_init(arena, "tables", sweep_fence(tables, sizeof tables, arena_bytes), arena_bytes);
    return bs_profile_create(arena, &desc, error);
}

static void test_profile_create(void)
{
    sizes_tally t = {0}, rings = {0};
    bs_error error = {0};
    bs_arena arena;
    bs_profile_close(make_profile(&arena, SWEEP_TABLES, SWEEP_RING, &error), NULL);
    const size_t enough = arena.high_water;
    for (size_t n = 0; n <= enough; n++) {
        bs_profile *p = make_profile(&arena, n, SWEEP_RING, &error);
        tally_if(&t, n < enough ? p || refusal_is_bad(&error, "tables", n) || arena.used != 0 : !p, n, &error);
        bs_profile_close(p, NULL);
        t.cases += n < enough;
    }
    tally_check(&t, "a profile", enough);
    size_t least = 0;
    for (size_t n = SWEEP_RING - 1; n < SWEEP_RING; n = n ? n - 1 : SWEEP_RING) {
        if (!sweep_takes(&share, n))
            continue;
        bs_profile *p = make_profile(&arena, SWEEP_TABLES, n, &error);
        least = p ? n : least;
        tally_if(&rings, p ? rings.cases > 0 : error.status != BS_ERROR_ARGUMENT || arena.used != 0, n, &error);
        rings.cases += !p;
        bs_profile_close(p, NULL);
    }
    check(rings.wrong == 0 && rings.cases > 0 && least > 4160,
          "a profile's ring: %zu sizes below %zu bytes are refused (%zu wrong%s)", rings.cases, least, rings.wrong,
          rings.why);
}

/* One life, streamed; rings of any size give a file that can be read. */
static bool record(size_t ring_bytes)
{
    static bs_platform timed;
    bs_arena arena;
    bs_error error;
    sweep_how how = streamed;
    memset(&written, 0, offsetof(sweep_written, bytes));
    timed = alone;
    timed.clock_ns = sweep_clock;
    how.platform = &timed;
    how.stream.speculation = BS_SPECULATE_OFF;
    how.profile = make_profile(&arena, 4096, ring_bytes, &error);
    const bool ok = how.profile && sweep_whole(&life, &how, &wanted);
    return bs_profile_close(how.profile, NULL) == BS_OK && ok;
}

static bs_reader written_reader(void)
{
    return (bs_reader){.user = &written, .read = sweep_profile_read, .size = written.n};
}

static void test_profile_read(bool whole_trace)
{
    sizes_tally t = {0};
    bs_error error = {0};
    bs_trace trace;
    bs_arena arena;
    const bs_reader reader = written_reader();
    size_t enough = SWEEP_TABLES;
    /* first to learn what is enough */
    for (size_t n = SWEEP_TABLES; n <= SWEEP_TABLES; n = n == SWEEP_TABLES ? 0 : n + 1) {
        if (n != SWEEP_TABLES && n > enough)
            break;
        if (n != SWEEP_TABLES && !sweep_takes(&share, n) && n != enough && n + 1 != enough)
            continue;
        bs_arena_init(&arena, "tables", sweep_fence(tables, sizeof tables, n), n);
        const bool ok = whole_trace ? bs_trace_load(&arena, &reader, &trace, &error) == BS_OK
                                    : bs_profile_open(&arena, &reader, &error) != NULL;
        if (n == SWEEP_TABLES)
            enough = arena.high_water;
        tally_if(&t, n < enough ? ok || refusal_is_bad(&error, "tables", n) || arena.used != 0 : !ok, n, &error);
        t.cases += n < enough;
    }
    tally_check(&t, whole_trace ? "a trace" : "reading a profile", enough);
}

static void test_replay(void)
{
    static _Alignas(64) uint8_t workspace[SWEEP_TABLES + SWEEP_GUARD];
    sizes_tally t = {0};
    bs_error error = {0};
    bs_trace trace;
    bs_replay_result first, result;
    bs_arena arena, work;
    const bs_reader reader = written_reader();
    bs_arena_init(&arena, "tables", sweep_fence(tables, sizeof tables, SWEEP_TABLES), SWEEP_TABLES);
    if (!check(bs_trace_load(&arena, &reader, &trace, &error) == BS_OK, "a trace: %s", error.message))
        return;
    const bs_replay_desc desc = {.slot_bytes = trace.slot_bytes, .bytes_per_second = 1000000000, .chunk_bytes = 1024};
    const size_t enough = bs_replay_bytes(&trace) - BS_ALIGNMENT; /* a multiple of it, so the fence aligns */
    for (size_t n = 0; n <= enough && enough <= SWEEP_TABLES; n++) {
        if (!sweep_takes(&share, n) && n != enough && n + 1 != enough)
            continue;
        bs_arena_init(&work, "workspace", sweep_fence(workspace, sizeof workspace, n), n);
        const bs_status status = bs_replay(&trace, &desc, &work, &result, &error);
        tally_if(&t,
                 n < enough ? status == BS_OK || refusal_is_bad(&error, "workspace", n) || work.used != 0
                            : status != BS_OK,
                 n, &error);
        t.cases += n < enough;
    }
    tally_check(&t, "a replay", enough);
    bs_arena_init(&work, "workspace", sweep_fence(workspace, sizeof workspace, enough), enough);
    check(bs_replay(&trace, &desc, &work, &first, &error) == BS_OK &&
              bs_replay(&trace, &desc, &work, &result, &error) == BS_OK &&
              memcmp(&first.stats, &result.stats, sizeof first.stats) == 0,
          "and again in the same memory");
}

static void test_rings(void)
{
    int32_t wrong = 0, cases = 0;
    bs_error error;
    bs_trace trace;
    bs_arena arena;
    for (size_t n = SWEEP_RING; n >= 4160 + 16 * 48 + 63; n -= 131) {
        bool ok = record(n);
        const bs_reader reader = written_reader();
        bs_arena_init(&arena, "tables", sweep_fence(tables, sizeof tables, SWEEP_TABLES), SWEEP_TABLES);
        ok = ok && bs_trace_load(&arena, &reader, &trace, &error) == BS_OK;
        wrong += !ok;
        cases++;
    }
    check(wrong == 0, "rings of %d sizes record runs without changing them", cases);
}

int main(int argc, char **argv)
{
    share = sweep_share_of(argc, argv, 17);
    alone = sweep_alone();
    sweep_prepare(&file, &wanted, &alone);
    const sweep_how sound = {.bytes = file.f.bytes, .n_bytes = file.f.n, .platform = &alone, .least = SWEEP_ARENAS};
    resident = streamed = sound;
    streamed.plan = sweep_streamed(&file, &alone);
    streamed.stream.check_records = 1;
    for (int32_t way = 0; way < 3; way++)
        test_open(way);
    if (check(sweep_open(&life, &resident), "open: %s", life.error.message)) {
        test_graph();
        for (int32_t which = 0; which < 3; which++)
            test_graph_room(which);
    }
    sweep_end(&life);
    test_sessions(&resident, "weights that stay");
    test_sessions(&streamed, "weights that are streamed");
    test_slots();
    test_chunks();
    test_profile_create();
    const bool recorded = record(SWEEP_RING) && written.n > 1000;
    if (check(recorded, "a life is recorded in %zu bytes", written.n)) {
        test_profile_read(false);
        test_profile_read(true);
        test_replay();
        test_rings();
    }
    check(sweep_whole(&other, &resident, &wanted) && sweep_whole(&other, &streamed, &wanted),
          "afterwards the same memory serves: %s", other.error.message);
    return check_end();
}
