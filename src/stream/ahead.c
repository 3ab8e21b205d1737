/* stream/ahead.c - of which phases the coming visits will be.
 *
 * A run visits its phases in order, but for those of a loop's body, which come again with every trip. Nobody says where
 * loops are: a phase that is visited again, or one before the last, begins a loop that ends with the last. How often a
 * run goes round it is expected to be as often as it did when it last came by, twice alike; else once more each time.
 * So a session and a replay of what it recorded learn the same. A run that fails midway looks like a loop that makes
 * one trip, and is soon taken for none.
 * Relies on stream/stream.h. Must never rely on an order of visits: what it learned may be wrong. */
#include "stream/stream.h"

#if !defined(BS_NO_STREAM)

/* Whether a run that comes to the end of the loop is expected to go back. */
static bool goes_round(const bs_stream_loop *l)
{
    return l->regular ? l->round < l->usual : l->usual > 0 || l->round > 0;
}

static void add_loop(bs_stream *s, int32_t first, int32_t last)
{
    int32_t *link = &s->phases[last].ends;
    if (s->n_loops == BS_STREAM_LOOPS)
        return; /* its phases are expected to come once a run */
    while (*link && s->loops[*link - 1].first > first)
        link = &s->loops[*link - 1].around;
    s->loops[s->n_loops++] = (bs_stream_loop){first, last, *link, 0, 1, false};
    *link = s->n_loops;
    for (int32_t j = first; j <= last; j++) {
        int32_t *inner = &s->phases[j].loop;
        if (!*inner || last - first < s->loops[*inner - 1].last - s->loops[*inner - 1].first)
            *inner = s->n_loops;
    }
}

void bs_ahead_learn(bs_stream *s, int32_t phase)
{
    const int32_t from = s->phase;
    for (int32_t k = from < 0 ? 0 : s->phases[from].ends; k; k = s->loops[k - 1].around) {
        bs_stream_loop *l = &s->loops[k - 1];
        if (l->first == phase) {
            l->regular = l->regular && l->round < l->usual;
            l->round += l->round < INT32_MAX;
            return;
        }
        l->regular = l->round == l->usual;
        l->usual = l->round;
        l->round = 0;
    }
    if (phase <= from && phase != (from + 1) % s->facts.n_phases)
        add_loop(s, phase, from);
}

int32_t bs_ahead_period(const bs_stream *s, int32_t phase)
{
    const int32_t loop = s->phases[phase].loop;
    const bs_stream_loop *l = &s->loops[loop ? loop - 1 : 0];
    return loop && goes_round(l) ? l->last - l->first + 1 : s->facts.n_phases;
}

/* ------------------------------------------------------------------------------------------------ the order */

typedef struct ahead_walk {
    int32_t at, listed;
    double visits, ns;
    bool timed;
} ahead_walk;

/* The phase after w->at: a loop's first one again where it is not listed yet. Other rounds bring nothing new, but take
 * their time. */
static int32_t next_phase(const bs_stream *s, ahead_walk *w)
{
    for (int32_t k = w->at < 0 ? 0 : s->phases[w->at].ends; k; k = s->loops[k - 1].around) {
        const bs_stream_loop *l = &s->loops[k - 1];
        const int32_t place = s->phases[l->first].place, left = bs_max_i32(l->usual - l->round, 1);
        if (!goes_round(l))
            continue;
        if (place == 0)
            return l->first;
        const double rounds = left - (l->first <= s->phase && s->phase <= l->last);
        w->ns += rounds * (w->ns - s->until_ns[place]);
        w->visits += rounds * (w->visits + 1 - s->after[place]);
    }
    return (w->at + 1) % s->facts.n_phases;
}

void bs_ahead_order(bs_stream *s)
{
    ahead_walk w = {s->phase, 0, 0, 0, true};
    for (int32_t j = 0; j < s->facts.n_phases; j++)
        s->phases[j].place = 0;
    s->n_timed = 0;
    while (w.listed < s->facts.n_phases) {
        const double ns = w.at < 0 ? 0 : s->phases[w.at].compute_ns;
        w.ns += ns > 0 ? ns : 0;
        w.timed = w.timed && ns >= 0;
        w.at = next_phase(s, &w);
        w.visits++;
        if (s->phases[w.at].place)
            continue;
        s->phases[w.at].place = ++w.listed;
        s->order[w.listed] = w.at;
        s->after[w.listed] = w.visits;
        s->until_ns[w.listed] = w.ns;
        s->n_timed += w.timed;
    }
}

#endif
