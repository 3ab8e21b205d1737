/* tags: asan tsan */
/* Promises: the file of a profile says what was recorded, and a trace what follows from it. */
#include "profile_rig.h"

static void odd_router(const void *user, int32_t i, bs_profile_router *router)
{
    static const char *const names[3] = {NULL, "caf\xc3\xa9 \x7f~",
                                         "0123456789012345678901234567890123456789012345678901234567890123456789"};
    (void)user;
    router->name = names[i];
    router->paths = 1;
}

static void test_names(void)
{
    static const char *const expected[3] = {"", "caf?? ?~",
                                            "012345678901234567890123456789012345678901234567890123456789012"};
    static uint8_t ring[1 << 14];
    const bs_profile_header_desc header = {.n_routers = 3, .router = odd_router};
    bs_profile_router_facts facts;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    synth_bytes b = {0};
    bs_arena arena;
    bs_profile *p = make(NULL, synth_write, &b, ring, sizeof ring, NULL);
    bs_profile_header(p, &header);
    bs_profile_close(p, NULL);
    bs_profile_reader *r = open_bytes(&b, &arena, &error);
    for (int32_t i = 0; i < 3; i++)
        check(r && bs_profile_router_get(r, i + 1, &facts) == BS_OK && strcmp(facts.name, expected[i]) == 0,
              "a name of no more than plain ASCII: \"%s\"", r ? facts.name : error.message);
    synth_free(&b);
}

/* What nobody asks for is not filled. */
static void test_asking(void)
{
    bs_arena arena;
    bs_error error;
    bs_stream_unit_facts unit;
    bs_stream_phase_facts phase;
    bs_trace trace;
    synth_bytes b = synth_profile(1, NULL);
    bs_reader reader = synth_reader(&b);
    bs_profile_reader *r = open_bytes(&b, &arena, &error);
    check(r && bs_profile_unit_get(r, 1, &unit, NULL) == BS_OK && bs_profile_phase_get(r, 1, &phase, NULL) == BS_OK &&
              phase.n_units == SYNTH_PATHS && bs_profile_phase_get(r, -1, &phase, NULL) == BS_ERROR_ARGUMENT &&
              bs_profile_phase_get(r, SYNTH_PHASES, &phase, NULL) == BS_ERROR_ARGUMENT &&
              bs_profile_unit_get(r, -1, &unit, NULL) == BS_ERROR_ARGUMENT,
          "facts of what there is, without what is not asked for");
    reader.read = NULL;
    check(bs_trace_load(&arena, &reader, &trace, NULL) == BS_ERROR_ARGUMENT &&
              bs_trace_load(NULL, &reader, &trace, NULL) == BS_ERROR_ARGUMENT,
          "without a function that reads, or an arena, nothing is read");
    synth_free(&b);
}

static void test_round_trip(void)
{
    bs_arena arena;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    bs_profile_facts facts;
    bs_profile_router_facts router;
    bs_stream_unit_facts unit;
    bs_stream_phase_facts phase;
    int32_t units[SYNTH_PATHS];
    uint64_t read_bytes;
    synth_bytes b = synth_profile(3, NULL);
    bs_profile_reader *r = open_bytes(&b, &arena, &error);
    if (!check(r != NULL, "a profile opens %s", error.message))
        return;
    bs_profile_facts_get(r, &facts);
    check(facts.routers == 2 && facts.units == SYNTH_UNITS && facts.phases == SYNTH_PHASES &&
              facts.slot_bytes == 150000 && facts.chunk_bytes == SYNTH_CHUNK && facts.policy == BS_POLICY_LRU &&
              facts.torn_bytes == 0 && facts.events > 30,
          "its facts are those that were given");
    check(bs_profile_router_get(r, 2, &router) == BS_OK && router.paths == SYNTH_PATHS &&
              strcmp(router.name, "second \"quoted\\\" ??") == 0,
          "names come back, as plain text: %s", router.name);
    check(bs_profile_unit_get(r, 6, &unit, &read_bytes) == BS_OK && unit.router == 2 && unit.path == 1 &&
              read_bytes == 20000 && unit.slot_bytes == 20064 && strcmp(unit.name, "b1") == 0,
          "units come back");
    check(bs_profile_phase_get(r, 2, &phase, units) == BS_OK && phase.router == 2 && phase.n_units == 4 &&
              units[0] == 5 && units[3] == 8,
          "phases come back");
    check(bs_profile_router_get(r, 0, &router) != BS_OK && bs_profile_router_get(r, 3, &router) != BS_OK &&
              bs_profile_unit_get(r, 9, &unit, NULL) != BS_OK && bs_profile_unit_get(r, -1, &unit, NULL) != BS_OK &&
              bs_profile_phase_get(r, 3, &phase, NULL) != BS_OK,
          "numbers that are not there are refused");
    bs_event first, e;
    uint64_t n = 1;
    bs_profile_next(r, &first, &error);
    while (bs_profile_next(r, &e, &error))
        n++;
    bs_profile_rewind(r);
    check(n == facts.events && bs_profile_next(r, &e, &error) && memcmp(&e, &first, sizeof e) == 0,
          "events can be read twice");
    synth_free(&b);
}

/* Two runs, and what is left of one whose beginning was lost. */
static synth_bytes figures_profile(void)
{
    bs_event e[] = {
        synth_event(BS_EVENT_STALL, 0, 0, 0, 1010, 1040),
        synth_event(BS_EVENT_USE, 0, 0, BS_USE_MISS, 1045, 1095),
        synth_event(BS_EVENT_PHASE, 0, 0, 1, 1010, 1100), /* 90, of them 30 stalled and 50 computed */
        synth_event(BS_EVENT_READ, 5, 0, 1000, 1000, 2000), /* two lanes, at the same time for 500 */
        synth_event(BS_EVENT_READ, 6, 0, 1000, 1500, 2500),
        synth_event(BS_EVENT_PREPARE, 5, 0, 1000, 2000, 2250),
        synth_event(BS_EVENT_GUESS, 6, 2, 3, 1150, 1150),
        synth_event(BS_EVENT_GUESS, -1, 2, 99, 1150, 1150),
        synth_event(BS_EVENT_USE, 2, 1, BS_USE_HIT, 1120, 1140),
        synth_event(BS_EVENT_USE, 3, 1, BS_USE_LATE, 1140, 1160),
        synth_event(BS_EVENT_USE, 2, 1, BS_USE_HIT, 1160, 1170), /* again */
        synth_event(BS_EVENT_PHASE, 1, 0, 2, 1115, 1170), /* 15 after, 5 inside */
        synth_event(BS_EVENT_RUN, 0, 0, 0, 1000, 1200),   /* 10 before, 30 after */
        synth_event(BS_EVENT_USE, 0, 0, BS_USE_HIT, 5000, 5007),
        synth_event(BS_EVENT_PHASE, 0, 0, 1, 4990, 4980), /* time went backwards: no length */
        synth_event(BS_EVENT_RUN, 1, 0, 0, 4900, 5010),
        synth_event(BS_EVENT_DROPPED, -1, 0, 12, 5010, 5010),
        synth_event(BS_EVENT_USE, 4, 1, BS_USE_HIT, 5100, 5200), /* its phase was lost */
        synth_event(BS_EVENT_USE, 8, 2, 77, 5200, 5210),         /* an outcome of a later version */
        synth_event(BS_EVENT_PHASE, 2, 0, 1, 5200, 5215),
        synth_event(BS_EVENT_USE, 7, 2, BS_USE_HIT, 5300, 5400), /* never left */
        synth_event(BS_EVENT_GUESS, 7, 2, 0, 5300, 5300),
    };
    return file_of(e, (int)(sizeof e / sizeof *e));
}

static void test_trace_figures(void)
{
    bs_trace t;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    synth_bytes b = figures_profile();
    if (!check(load(&b, &t, &error) == BS_OK, "a trace is made of a profile %s", error.message))
        return;
    check(t.n_visits == 4 && t.n_uses == 5 && t.n_guesses == 2,
          "phases are visits, their uses and guesses come along: %d, %d, %d", t.n_visits, t.n_uses, t.n_guesses);
    check(t.visits[0].before_ns == 10 + 10,
          "before the first visit: since the run began, and what is neither use nor stall: %d",
          (int)t.visits[0].before_ns);
    check(t.visits[1].before_ns == 15 + 5, "before the next: since the one before: %d", (int)t.visits[1].before_ns);
    check(t.visits[2].before_ns == 30 + 90, "a run's rest counts for the next run: %d", (int)t.visits[2].before_ns);
    check(t.visits[3].before_ns == 20 + 5, "a run that never ended counts from its first phase: %d",
          (int)t.visits[3].before_ns);
    check(t.visits[1].n_uses == 2 && t.visits[1].first_use == 1 && t.uses[1].unit == 2 && t.uses[2].unit == 3 &&
              t.uses[1].compute_ns == 30 && t.uses[2].compute_ns == 20 && t.uses[2].outcome == BS_USE_LATE,
          "uses are those of the phase, in order, and one a unit");
    check(t.visits[3].n_uses == 1 && t.uses[4].unit == 8 && t.uses[4].outcome == -1,
          "uses without their phase are left out");
    check(t.visits[1].n_guesses == 2 && t.guesses[0].phase == 2 && t.guesses[0].unit == 6 &&
              t.guesses[0].strength == 3 && t.guesses[1].unit == -1 && t.guesses[1].strength == 7 &&
              t.visits[0].n_guesses == 0 && t.visits[2].n_guesses == 0,
          "look-aheads belong to the visit they were made in");
    check(t.ns_per_byte == 0.75, "reads at the same time share the device: %g ns a byte", t.ns_per_byte);
    check(t.prepare_ns_per_byte == 0.25, "packing takes %g ns a byte", t.prepare_ns_per_byte);
    check(t.lost_events == 12 && t.policy == BS_POLICY_LRU && t.slot_bytes == 150000, "what was lost is known");
    synth_free(&b);
}

static void test_busy(void)
{
    bs_event e[64];
    bs_trace t;
    bs_error error;
    for (int i = 0; i < 40; i++) /* apart, more than are kept open */
        e[i] = synth_event(BS_EVENT_READ, 0, 0, 10, (uint64_t)(i * 100), (uint64_t)(i * 100 + 50));
    e[40] = synth_event(BS_EVENT_READ, 0, 0, 100, 3700, 4050); /* covers three of them and reaches 100 further */
    synth_bytes b = file_of(e, 41);
    const bs_status status = load(&b, &t, &error);
    check(status == BS_OK && t.ns_per_byte == (37 * 50 + 350) / 500.0, "a read that spans others counts once: %g",
          t.ns_per_byte);
    synth_free(&b);
}

static void test_synthetic(void)
{
    synth_net net;
    bs_trace t;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    synth_bytes b = synth_profile(40, &net);
    int outcomes[3] = {0, 0, 0};
    if (!check(load(&b, &t, &error) == BS_OK, "forty runs load %s", error.message))
        return;
    for (int32_t i = 0; i < t.n_uses; i++)
        outcomes[t.uses[i].outcome]++;
    check(t.n_visits == 120 && t.n_uses == 120 && t.n_guesses == 40 && outcomes[BS_USE_HIT] == net.hits &&
              outcomes[BS_USE_MISS] == net.misses,
          "as many visits, uses and guesses as were made: %d hits, %d misses", net.hits, net.misses);
    uint64_t before = 0;
    for (int32_t i = 0; i < t.n_visits; i++)
        before += t.visits[i].before_ns;
    check(before == 40 * 6000 + 39 * 4000, "and as much time beside them");
    synth_free(&b);
}

int main(void)
{
    test_names();
    test_asking();
    test_round_trip();
    test_trace_figures();
    test_busy();
    test_synthetic();
    return check_end();
}
