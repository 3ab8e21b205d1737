/* fuzz_replay.c - traces made by hand, of any shape: replayed with every policy, against what must hold of each replay.
 *
 * The input: options of the replay, then units, phases, visits with their uses and look-aheads, as bytes. One flag lets
 * a number be out of range: then it must be refused.
 *
 * Relies on: fuzz_trace.h. Must never: read beyond its tables. */
#include "fuzz_trace.h"

enum {
    MOST_UNITS = 16,
    MOST_PHASES = 8,
    MOST_PHASE_UNITS = 128,
    MOST_VISITS = 120,
    MOST_USES = 480,
    MOST_GUESSES = 240
};

static bs_trace_unit units[MOST_UNITS];
static bs_trace_phase phases[MOST_PHASES];
static int32_t phase_units[MOST_PHASE_UNITS];
static bs_trace_visit visits[MOST_VISITS];
static bs_trace_use uses[MOST_USES];
static bs_trace_guess guesses[MOST_GUESSES];

/* Small, or a power of two up to what a profile may hold. */
static uint64_t bytes_of(fuzz_bytes *in)
{
    const uint8_t n = fuzz_u8(in);
    return n < 200 ? (uint64_t)n * 997 : n < 240 ? (uint64_t)1 << n % 41 : 0;
}

static uint64_t time_of(fuzz_bytes *in)
{
    const uint8_t n = fuzz_u8(in);
    return n < 128 ? (uint64_t)n * n * 50 : n < 250 ? (uint64_t)1 << n % 36 : (uint64_t)1 << (n - 195);
}

static void make_phases(bs_trace *t, fuzz_bytes *in)
{
    t->n_phases = 1 + fuzz_below(in, MOST_PHASES);
    for (int32_t j = 0; j < t->n_phases; j++) {
        const uint8_t n = fuzz_u8(in);
        int32_t first = fuzz_below(in, t->n_units), count = 1 + (n & 15);
        count = count > t->n_units ? t->n_units : count;
        phases[j] = (bs_trace_phase){n & 64 ? 1 + n % (j + 1) : 0, t->n_phase_units, count};
        for (int32_t u = 0; u < count; u++)
            phase_units[t->n_phase_units++] = (first + u) % t->n_units;
    }
}

static void make_visit(bs_trace *t, fuzz_bytes *in)
{
    const uint8_t n = fuzz_u8(in);
    bs_trace_visit *v = &visits[t->n_visits];
    const int32_t phase = n & 128 ? n % t->n_phases : t->n_visits % t->n_phases;
    *v = (bs_trace_visit){phase, t->n_uses, 0, t->n_guesses, 0, n & 64 ? time_of(in) : 0};
    for (int32_t i = 0; i < (n & 3) && t->n_guesses < MOST_GUESSES; i++, v->n_guesses++) {
        const uint8_t g = fuzz_u8(in);
        guesses[t->n_guesses++] = (bs_trace_guess){(t->n_visits + 1) % t->n_phases, g == 255 ? -1 : g % t->n_units,
                                                   g >> 5};
    }
    const bs_trace_phase *s = &phases[phase];
    const uint16_t which = s->router ? fuzz_u16(in) : 0xffff;
    const uint64_t compute = time_of(in);
    for (int32_t i = 0; i < s->n_units && t->n_uses < MOST_USES; i++)
        if (which >> i % 16 & 1) {
            uses[t->n_uses++] = (bs_trace_use){phase_units[s->first_unit + i], -1, compute};
            v->n_uses++;
        }
    t->n_visits++;
}

/* One number of the trace becomes another. */
static void spoil(bs_trace *t, fuzz_bytes *in)
{
    static const int32_t odd[8] = {-1, INT32_MAX, INT32_MIN, 0, 1, 65536, 1 << 20, 47};
    const int32_t n = odd[fuzz_below(in, 8)], at = fuzz_u16(in);
    switch (fuzz_below(in, 14)) {
    case 0: phases[at % t->n_phases].first_unit = n; break;
    case 1: phases[at % t->n_phases].n_units = n; break;
    case 2: phases[at % t->n_phases].router = n; break;
    case 3: phase_units[at % t->n_phase_units] = n; break;
    case 4: visits[at % MOST_VISITS].phase = n; break;
    case 5: visits[at % MOST_VISITS].first_use = n; break;
    case 6: visits[at % MOST_VISITS].n_uses = n; break;
    case 7: visits[at % MOST_VISITS].first_guess = n; break;
    case 8: visits[at % MOST_VISITS].n_guesses = n; break;
    case 9: uses[at % MOST_USES].unit = n; break;
    case 10: guesses[at % MOST_GUESSES].unit = n; break;
    case 11: guesses[at % MOST_GUESSES].phase = n; break;
    case 12: guesses[at % MOST_GUESSES].strength = n; break;
    default: t->n_units = n % (MOST_UNITS + 1); break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_bytes options = {data, size < 12 ? size : 12, 0}, in = {data, size, 12};
    bs_trace t = {.units = units,
                  .phases = phases,
                  .phase_units = phase_units,
                  .visits = visits,
                  .uses = uses,
                  .guesses = guesses};
    memset(units, 0, sizeof units);
    memset(visits, 0, sizeof visits);
    memset(uses, 0, sizeof uses);
    memset(guesses, 0, sizeof guesses);
    const uint8_t kind = fuzz_u8(&options);
    t.n_units = 1 + fuzz_below(&in, MOST_UNITS);
    for (int32_t u = 0; u < t.n_units; u++) {
        snprintf(units[u].name, sizeof units[u].name, "u%d", u);
        units[u].read_bytes = kind & 1 && u ? units[0].read_bytes : bytes_of(&in);
        units[u].slot_bytes = kind & 1 && u ? units[0].slot_bytes : kind & 2 ? units[u].read_bytes : bytes_of(&in);
    }
    make_phases(&t, &in);
    while (t.n_visits < MOST_VISITS && in.at < in.n)
        make_visit(&t, &in);
    if (kind >= 240)
        spoil(&t, &options);
    fuzz_replay_all(&t, &options);
    return 0;
}
