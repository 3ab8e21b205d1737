/* plan_lives.c - lives to offsets: what is alive at the same time never shares bytes.
 *
 * Up to EXACT_ALIVE lives alive together: greedy by size, each into the lowest gap among the larger ones that it meets.
 * Relies on plan.h. Must never take memory but its workspace, nor time that grows with the square of the lives. */
#include "plan.h"

typedef struct place_pass {
    bs_life *lives;
    int32_t count;
    int32_t *by_start; /* [count] in the order in which they begin */
    int32_t *rank;     /* [count] where each stands there */
    int32_t *by_size;  /* [count] the largest first */
    int32_t *met;      /* [count] a heap of placed lives that overlap in time, the lowest first */
    int32_t *ends;     /* [2 * leaves] a tree over by_start: when the last one below ends, of those that are placed */
    int32_t leaves;
} place_pass;

static bool begins_before(const void *user, int32_t a, int32_t b)
{
    const bs_life *lives = user;
    return lives[a].first < lives[b].first;
}

static bool is_larger(const void *user, int32_t a, int32_t b)
{
    const bs_life *lives = user;
    return bs_bytes_less(lives[b].bytes, lives[a].bytes);
}

/* ------------------------------------------------------------------------------------- who is met in time */

static void met_insert(place_pass *p, int32_t life)
{
    const int32_t last = p->lives[life].last;
    for (int32_t at = p->leaves + p->rank[life]; at >= 1 && p->ends[at] < last; at /= 2)
        p->ends[at] = last;
}

/* The first placed one from rank `from` on that ends at `time` or later; p->leaves: none. */
static int32_t next_met(const place_pass *p, int32_t from, int32_t time)
{
    int32_t at = p->leaves + from;
    if (from >= p->leaves)
        return p->leaves;
    while (p->ends[at] < time) { /* to the right, as high as it goes */
        while (at & 1)
            at /= 2;
        if (at == 0)
            return p->leaves;
        at++;
    }
    while (at < p->leaves) /* down to the leftmost */
        at = p->ends[2 * at] >= time ? 2 * at : 2 * at + 1;
    return at - p->leaves;
}

static void heap_down(place_pass *p, int32_t at, int32_t count)
{
    const int32_t life = p->met[at];
    for (int32_t child; (child = 2 * at + 1) < count; at = child) {
        if (child + 1 < count && bs_bytes_less(p->lives[p->met[child + 1]].offset, p->lives[p->met[child]].offset))
            child++;
        if (!bs_bytes_less(p->lives[p->met[child]].offset, p->lives[life].offset))
            break;
        p->met[at] = p->met[child];
    }
    p->met[at] = life;
}

static int32_t find_met(place_pass *p, const bs_life *life)
{
    int32_t count = 0;
    for (int32_t r = next_met(p, 0, life->first); r < p->count && p->lives[p->by_start[r]].first <= life->last; r = next_met(p, r + 1, life->first))
        p->met[count++] = p->by_start[r];
    for (int32_t at = count / 2 - 1; at >= 0; at--)
        heap_down(p, at, count);
    return count;
}

/* From below: past every one that leaves no gap. */
static bs_bytes lowest_gap(place_pass *p, const bs_life *life)
{
    bs_bytes offset = bs_bytes_of(0);
    for (int32_t count = find_met(p, life); count > 0; count--) {
        const bs_life *other = &p->lives[p->met[0]];
        if (!bs_bytes_less(other->offset, bs_bytes_add(offset, life->bytes)))
            break;
        offset = bs_bytes_max(offset, bs_bytes_align(bs_bytes_add(other->offset, other->bytes)));
        p->met[0] = p->met[count - 1];
        heap_down(p, 0, count - 1);
    }
    return offset;
}

/* ------------------------------------------------------------------------------------------------ placing */

static bs_bytes place_by_size(place_pass *p)
{
    bs_bytes total = bs_bytes_of(0);
    for (int32_t i = 0; i < 2 * p->leaves; i++)
        p->ends[i] = INT32_MIN;
    for (int32_t i = 0; i < p->count; i++)
        p->by_size[i] = i;
    bs_sort(p->by_size, p->met, p->count, is_larger, p->lives);
    for (int32_t i = 0; i < p->count; i++) {
        bs_life *life = &p->lives[p->by_size[i]];
        life->offset = bs_bytes_of(0);
        if (!bs_bytes_any(life->bytes))
            continue;
        life->offset = lowest_gap(p, life);
        met_insert(p, p->by_size[i]);
        total = bs_bytes_max(total, bs_bytes_add(life->offset, life->bytes));
    }
    return bs_bytes_align(total);
}

static void carve_place(bs_carver *c, place_pass *p, int32_t count)
{
    const uint64_t n = (uint64_t)count;
    p->count = count;
    p->leaves = 1;
    while (p->leaves < count)
        p->leaves *= 2;
    p->by_start = bs_carve(c, n, sizeof *p->by_start);
    p->rank = bs_carve(c, n, sizeof *p->rank);
    p->by_size = bs_carve(c, n, sizeof *p->by_size);
    p->met = bs_carve(c, n, sizeof *p->met);
    p->ends = bs_carve(c, 2 * (uint64_t)p->leaves, sizeof *p->ends);
}

bs_bytes bs_place_workspace(int32_t count)
{
    place_pass p;
    bs_carver c = {NULL, {0}};
    carve_place(&c, &p, count);
    return c.used;
}

bs_bytes bs_place_lives(bs_life *lives, int32_t count, void *workspace)
{
    place_pass p;
    bs_carver c = {workspace, {0}};
    carve_place(&c, &p, count);
    p.lives = lives;
    for (int32_t i = 0; i < count; i++)
        p.by_start[i] = i;
    bs_sort(p.by_start, p.met, count, begins_before, lives);
    for (int32_t r = 0; r < count; r++)
        p.rank[p.by_start[r]] = r;
    return place_by_size(&p);
}
