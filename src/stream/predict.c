/* stream/predict.c - which units the next visits will need.
 *
 * Four predictors, best first: *known* (a phase without a router needs the same in every run), *look-ahead* (the next
 * router run on what is known now, handed in by the graph), *transition* (what followed the choices of the router
 * before), *frequency*. Each of them predicts every visit, so that its precision and recall are known whether or not
 * anything was read; the probability that comes out is calibrated by these.
 * Relies on stream/stream.h. Must never decide what is read. */
#include "stream/stream.h"

#if !defined(BS_NO_STREAM)

#define PREDICT_STEP (1.0 / 32)     /* weight of the newest visit in running averages */
#define PREDICT_SMOOTHING 4.0       /* a transition count starts with this many visits' worth of frequency */
#define PREDICT_MAX_COUNT 4096      /* transition counts are halved when one reaches this */
#define PREDICT_MOST_PAIRS (1 << 20)  /* pairs of units in a table of transitions */

const char *bs_predictor_name(bs_predictor predictor)
{
    return bs_name_of("known\0look-ahead\0transition\0frequency", predictor, BS_PREDICTOR_COUNT);
}

/* ---------------------------------------------------------------------------------------------- transitions */

/* Counters of a table: one for each pair of units, and totals. 0 when there are more than PREDICT_MOST_PAIRS: tables
 * grow with the product of two routers' paths, and with that many paths a pair is hardly seen often enough to learn
 * from. A phase without a table relies on the other predictors. */
static int64_t table_counts(int32_t own, int32_t other)
{
    const int64_t pairs = (int64_t)other * own;
    return pairs <= PREDICT_MOST_PAIRS ? pairs + other : 0;
}

/* Gives routed phases their tables; returns the bytes of all tables. phases may be NULL: the bytes are only counted. */
bs_bytes bs_predict_tables(const bs_stream_facts *facts, bs_phase_state *phases)
{
    bs_bytes used = bs_bytes_of(0);
    int32_t before = -1;
    for (int32_t j = 0; j < facts->n_phases; j++)
        if (facts->phases[j].router)
            before = j;
    for (int32_t j = 0; j < facts->n_phases; j++) {
        const bool routed = facts->phases[j].router != 0;
        const int64_t counts = routed ? table_counts(facts->phases[j].n_units, facts->phases[before].n_units) : 0;
        if (phases) {
            phases[j].before = counts > 0 ? before : -1;
            phases[j].rows = counts > 0 ? facts->phases[before].n_units : 0;
            phases[j].table = used;
        }
        used = bs_bytes_add(used, bs_bytes_array(counts, sizeof(uint16_t)));
        before = routed ? j : before;
    }
    return used;
}

/* Row of `from` in a table: counts [own units] of what followed that unit of the phase before. Behind the last row are
 * the totals: [units of the phase before]. */
static uint16_t *table_row(const bs_stream *s, int32_t phase, int32_t from)
{
    const bs_bytes row = bs_bytes_array(s->facts.phases[phase].n_units, sizeof(uint16_t));
    return (uint16_t *)(void *)bs_bytes_row((uint8_t *)s->transitions, s->phases[phase].table, from, row);
}

static uint16_t *table_total(const bs_stream *s, int32_t phase, int32_t from)
{
    return table_row(s, phase, s->facts.phases[s->phases[phase].before].n_units) + from;
}

/* The mean, over what the router before chose, of how often each unit followed. It stays the same until a routed phase
 * is visited, so it is computed once a visit. */
static void follow_choices(bs_stream *s, int32_t phase)
{
    const bs_stream_phase *own = &s->facts.phases[phase], *before = &s->facts.phases[s->phases[phase].before];
    const double *rate = s->rate + own->first_unit;
    int32_t chosen = 0;
    for (int32_t k = 0; k < own->n_units; k++)
        s->follows[k] = 0;
    for (int32_t a = 0; a < before->n_units; a++) {
        if (!s->chosen[before->first_unit + a])
            continue;
        const uint16_t *row = table_row(s, phase, a);
        const double total = *table_total(s, phase, a) + PREDICT_SMOOTHING;
        for (int32_t k = 0; k < own->n_units; k++)
            s->follows[k] += (row[k] + PREDICT_SMOOTHING * rate[k]) / total;
        chosen++;
    }
    for (int32_t k = 0; k < own->n_units; k++)
        s->follows[k] = chosen ? s->follows[k] / chosen : rate[k];
    s->following = phase;
}

/* Whether the table of a phase is about what was chosen last: the routed phase visited last is the one that usually
 * is. */
static bool follows_choices(const bs_stream *s, int32_t phase)
{
    const int32_t before = s->phases[phase].before;
    return before >= 0 && (s->routed < 0 || s->routed == before);
}

/* A phase that came after another routed phase than usual twice in a row, as in a loop, has it before it from now on,
 * if there is room; its table begins anew. */
static void meet_stranger(bs_stream *s, int32_t phase)
{
    bs_phase_state *state = &s->phases[phase];
    if (!state->strange || s->facts.phases[s->routed].n_units > state->rows) {
        state->strange = true;
        return;
    }
    state->before = s->routed;
    state->strange = false;
    memset(table_row(s, phase, 0), 0,
           (size_t)table_counts(s->facts.phases[phase].n_units, state->rows) * sizeof(uint16_t));
}

/* Predicts the next routed phase. No other routed phase lies between it and the visit in progress. */
static void follow_visit(bs_stream *s)
{
    for (int32_t d = 1; d <= s->facts.n_phases; d++) {
        const int32_t phase = s->order[d];
        if (!s->facts.phases[phase].router)
            continue;
        if (!follows_choices(s, phase))
            s->following = -1;
        else if (s->following != phase)
            follow_choices(s, phase);
        return;
    }
}

static void count_transitions(bs_stream *s, int32_t phase)
{
    const bs_stream_phase *own = &s->facts.phases[phase], *before = &s->facts.phases[s->phases[phase].before];
    for (int32_t a = 0; a < before->n_units; a++) {
        if (!s->chosen[before->first_unit + a])
            continue;
        uint16_t *row = table_row(s, phase, a), *total = table_total(s, phase, a);
        if (*total == PREDICT_MAX_COUNT) {
            *total /= 2;
            for (int32_t k = 0; k < own->n_units; k++)
                row[k] /= 2;
        }
        ++*total;
        for (int32_t k = 0; k < own->n_units; k++)
            row[k] = (uint16_t)(row[k] + (s->score[k] > 0)); /* score: 1 = needed now */
    }
}

/* -------------------------------------------------------------------------------------------- probabilities */

/* 1: the unit is needed at regular intervals; 0: earlier needs do not tell when the next one comes (a geometric
 * distribution, whose mean absolute deviation is about 0.74 of its mean). */
static double regularity(const bs_stream *s, int32_t use)
{
    const double r = s->interval[use] > 0 ? 1 - 2.5 * s->deviation[use] / s->interval[use] : 0;
    return r > 0 ? r : 0;
}

/* Visits of its phase until its usual interval has passed. */
static double interval_left(const bs_stream *s, int32_t phase, int32_t use)
{
    const double left = (double)s->needed_at[use] + s->interval[use] - (double)(s->phases[phase].visits + 1);
    return left > 0 ? left : 0;
}

/* The long or the short average, whichever predicted this phase better so far. */
static double rate_of(const bs_stream *s, int32_t phase, int32_t use)
{
    const bs_phase_state *state = &s->phases[phase];
    return state->error_recent < 0.95 * state->error_rate ? s->recent[use] : s->rate[use];
}

/* Without knowing other choices: how often the unit is needed, or whether it is due. */
static double frequency_probability(const bs_stream *s, int32_t phase, int32_t use)
{
    const double regular = regularity(s, use), due = interval_left(s, phase, use) < 0.5 ? 1 : 0;
    return regular * due + (1 - regular) * rate_of(s, phase, use);
}

double bs_predict_visits(const bs_stream *s, int32_t phase, int32_t use)
{
    const double p = bs_predict_use(s, phase, use), regular = regularity(s, use);
    const double usual = rate_of(s, phase, use), rate = usual > 0.01 ? usual : 0.01;
    if (s->facts.phases[phase].router == 0)
        return 0;
    return s->phases[phase].predicted ? (1 - p) / rate
                                 : regular * interval_left(s, phase, use) + (1 - regular) * (1 - p) / rate;
}

/* Resident, but not because of a guess. Residents are kept because they are needed often, so predictions of them come
 * true more often and are calibrated apart. */
static bool was_resident(const bs_stream *s, int32_t use)
{
    const bs_slot *slot = &s->slots[s->facts.uses[use]];
    return slot->state == BS_SLOT_READY && !slot->guessed;
}

double bs_predict_use(const bs_stream *s, int32_t phase, int32_t use)
{
    const bs_phase_state *state = &s->phases[phase];
    if (s->facts.phases[phase].router == 0)
        return 1;
    if (state->predicted)
        return s->expected[use] ? state->ahead_in[s->expected[use] - 1][was_resident(s, use)] : state->ahead_out;
    if (s->following == phase && state->error_transition < state->error_frequency)
        return s->follows[use - s->facts.phases[phase].first_unit];
    return frequency_probability(s, phase, use);
}

void bs_predict_distances(bs_stream *s)
{
    for (int32_t u = 0; u < s->facts.n_units; u++)
        s->distance[u] = 0;
    bs_ahead_order(s);
    for (int32_t d = 1; d <= s->facts.n_phases; d++) {
        const bs_stream_phase *phase = &s->facts.phases[s->order[d]];
        for (int32_t k = phase->first_unit; k < phase->first_unit + phase->n_units; k++) {
            const int32_t u = s->facts.uses[k];
            if (s->distance[u] != 0)
                continue;
            s->distance[u] = d;
            s->next_use[u] = k;
        }
    }
    follow_visit(s);
}

/* ------------------------------------------------------------------------------------------------- choosing */

static bool ranks_before(const bs_stream *s, int32_t a, int32_t b)
{
    return s->score[a] > s->score[b] || (!(s->score[b] > s->score[a]) && a < b);
}

static void rank_sink(bs_stream *s, int32_t at)
{
    const int32_t sinking = s->ranked[at];
    while (at < s->n_ranked / 2) {
        int32_t child = 2 * at + 1;
        if (child + 1 < s->n_ranked && ranks_before(s, s->ranked[child + 1], s->ranked[child]))
            child++;
        if (!ranks_before(s, s->ranked[child], sinking))
            break;
        s->ranked[at] = s->ranked[child];
        at = child;
    }
    s->ranked[at] = sinking;
}

void bs_rank_begin(bs_stream *s)
{
    for (int32_t at = s->n_ranked / 2 - 1; at >= 0; at--)
        rank_sink(s, at);
}

int32_t bs_rank_next(bs_stream *s)
{
    if (s->n_ranked == 0)
        return -1;
    const int32_t first = s->ranked[0];
    s->ranked[0] = s->ranked[--s->n_ranked];
    rank_sink(s, 0);
    return first;
}

/* ---------------------------------------------------------------------------------------------- measurement */

static void average(double *value, double sample) { *value += (sample - *value) * PREDICT_STEP; }

/* The first samples count more: the newest of n weighs 1 / (n + 2), until that is less than usual. So a predictor that
 * is wrong from the start is found out in a few visits, long before guessing could pause because of it. */
static void average_from(double *value, double sample, uint64_t samples)
{
    const double first = 1.0 / ((double)samples + 2);
    *value += (sample - *value) * (first > PREDICT_STEP ? first : PREDICT_STEP);
}

static bool was_needed(const bs_stream *s, int32_t use) { return s->slots[s->facts.uses[use]].in_visit; }

/* Rates a predictor's `expected` units of the highest score: how many were needed. */
static void rate_ranking(bs_stream *s, const bs_stream_phase *phase, bs_prediction *p, int32_t count, int32_t expected)
{
    for (s->n_ranked = 0; s->n_ranked < phase->n_units; s->n_ranked++)
        s->ranked[s->n_ranked] = s->n_ranked;
    bs_rank_begin(s);
    for (int32_t n = 0; n < expected; n++) {
        p->expected++;
        p->right += was_needed(s, phase->first_unit + bs_rank_next(s));
    }
    p->needed += (uint64_t)count;
}

/* Scores one of the two statistical predictors; returns its squared error a unit. */
static double rate_statistics(bs_stream *s, int32_t j, bs_predictor which, int32_t count)
{
    const bs_stream_phase *phase = &s->facts.phases[j];
    double error = 0;
    if (which == BS_PREDICT_TRANSITION && s->following != j)
        follow_choices(s, j);
    for (int32_t k = 0; k < phase->n_units; k++) {
        const double p = which == BS_PREDICT_TRANSITION ? s->follows[k]
                                                        : frequency_probability(s, j, phase->first_unit + k);
        const double miss = p - (double)was_needed(s, phase->first_unit + k);
        s->score[k] = p;
        error += miss * miss;
    }
    const double size = s->phases[j].set_size;
    const int32_t expected = bs_clamp_i32((int32_t)(size + 0.5), 1, phase->n_units);
    rate_ranking(s, phase, &s->phases[j].predictions[which], count, expected);
    return error / phase->n_units;
}

static void rate_look_ahead(bs_stream *s, int32_t j, int32_t count)
{
    const bs_stream_phase *phase = &s->facts.phases[j];
    bs_phase_state *state = &s->phases[j];
    bs_prediction *p = &state->predictions[BS_PREDICT_LOOK_AHEAD];
    int32_t inside = 0, right = 0;
    for (int32_t k = phase->first_unit; k < phase->first_unit + phase->n_units; k++) {
        const bool came = was_needed(s, k);
        inside += s->expected[k] != 0;
        right += s->expected[k] && came;
        if (s->expected[k])
            average_from(&state->ahead_in[s->expected[k] - 1][was_resident(s, k)], came, state->visits);
    }
    p->expected += (uint64_t)inside;
    p->right += (uint64_t)right;
    p->needed += (uint64_t)count;
    if (inside < phase->n_units)
        average(&state->ahead_out, (double)(count - right) / (phase->n_units - inside));
}

static void update_interval(bs_stream *s, int32_t k, uint64_t visit)
{
    const double gap = (double)(visit - s->needed_at[k]);
    if (s->needed_at[k] == 0) {
        s->deviation[k] = 0;
    } else if (s->interval[k] <= 0) {
        s->interval[k] = gap;
        s->deviation[k] = gap / 2; /* a single interval tells nothing about regularity */
    } else {
        s->deviation[k] += (fabs(gap - s->interval[k]) - s->deviation[k]) / 5;
        s->interval[k] += (gap - s->interval[k]) / 5;
    }
    s->needed_at[k] = visit;
}

static void update_tables(bs_stream *s, int32_t j, int32_t count)
{
    const bs_stream_phase *phase = &s->facts.phases[j];
    for (int32_t k = 0; k < phase->n_units; k++)
        s->score[k] = was_needed(s, phase->first_unit + k);
    if (follows_choices(s, j) && s->routed >= 0) {
        s->phases[j].strange = false;
        count_transitions(s, j);
    } else if (s->routed >= 0 && s->phases[j].before >= 0) {
        meet_stranger(s, j);
    }
    for (int32_t k = phase->first_unit; k < phase->first_unit + phase->n_units; k++) {
        const double now = s->score[k - phase->first_unit];
        average(&s->phases[j].error_rate, (now - s->rate[k]) * (now - s->rate[k]));
        average(&s->phases[j].error_recent, (now - s->recent[k]) * (now - s->recent[k]));
        average(&s->rate[k], now);
        s->recent[k] += (now - s->recent[k]) / 6;
        if (now > 0)
            update_interval(s, k, s->phases[j].visits + 1);
        s->chosen[k] = now > 0;
        s->expected[k] = 0;
    }
    s->following = -1; /* its table has changed */
    if (s->phases[j].visits == 0)
        s->phases[j].set_size = count;
    average(&s->phases[j].set_size, count);
}

void bs_predict_visit(bs_stream *s, int32_t phase, const int32_t *units, int32_t count)
{
    bs_phase_state *state = &s->phases[phase];
    if (s->facts.phases[phase].router == 0) {
        bs_prediction *known = &state->predictions[BS_PREDICT_KNOWN];
        known->expected += (uint64_t)s->facts.phases[phase].n_units;
        known->right += (uint64_t)count;
        known->needed += (uint64_t)count;
    } else {
        for (int32_t i = 0; i < count; i++)
            s->slots[units[i]].in_visit = true;
        if (state->predicted)
            rate_look_ahead(s, phase, count);
        if (follows_choices(s, phase))
            average(&state->error_transition, rate_statistics(s, phase, BS_PREDICT_TRANSITION, count));
        average(&state->error_frequency, rate_statistics(s, phase, BS_PREDICT_FREQUENCY, count));
        update_tables(s, phase, count);
        s->routed = phase;
        for (int32_t i = 0; i < count; i++)
            s->slots[units[i]].in_visit = false;
    }
    state->predicted = false;
    state->visits++;
}
#endif
