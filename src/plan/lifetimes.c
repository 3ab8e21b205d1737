/* plan/lifetimes.c - lifetimes to offsets: what is alive at the same time never shares bytes.
 *
 * Up to EXACT_ALIVE lives alive together: greedy by size, each into the lowest gap among the larger ones that overlap
 * it in time. With more alive, that would take time that grows with the square of their number. Then time is swept,
 * forwards and backwards: what begins is put into the smallest gap that holds it, what ends leaves a gap. Where a few
 * large lives stand among many small ones, their gaps go to waste; so the sweeps are also made without the large ones,
 * which are then placed above the rest, greedily in one of three orders. The best result is taken. test_placing.c
 * checks that it is within 1.1 of the largest sum alive at once; only where a handful of lives makes up nearly all of
 * that sum can it be more, as with any way to place them.
 * Relies on plan/plan.h. Must never take memory but its workspace, nor time that grows with the square of the lives. */
#include "plan/plan.h"

#if !defined(BS_NO_PLANNER)

#define EXACT_ALIVE 1024
#define LARGE_ALIVE 64 /* most large lives alive together; each other life is then at most 1/64 of the whole */

typedef struct place_pass {
    bs_life *lives;
    int32_t count;
    int32_t *by_start; /* [count] in the order in which they begin */
    int32_t *rank;     /* [count] index of each in by_start */
    int32_t *by_size;  /* [count] the largest first */
    int32_t *by_birth, *by_death; /* [count] in the order of a sweep */
    int32_t *met;      /* [count] a heap of placed lives that overlap in time, the lowest first */
    int32_t *ends;     /* [2 * leaves] a tree over by_start: the latest end of the placed lives below */
    int32_t leaves;
    /* for a sweep; only when there are more than EXACT_ALIVE lives */
    bool backwards;
    int32_t large;     /* how many of by_size are placed above the others */
    int32_t *size_rank, *birth_rank; /* [count] index of each in by_size, in by_birth */
    /* [2 * leaves] a tree over by_birth: bytes in use after each birth, and the most of those below */
    bs_bytes *level;
    /* [count + 1] neighbours in memory; the tree of gaps. Life `count` is the bottom. */
    int32_t *above, *below, *left, *right;
    int32_t root, last; /* of the tree of gaps; the topmost in memory */
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

/* The first placed life from rank `from` on that ends at `time` or later; p->leaves: there is none. */
static int32_t next_met(const place_pass *p, int32_t from, int32_t time)
{
    int32_t at = p->leaves + from;
    if (from >= p->leaves)
        return p->leaves;
    while (p->ends[at] < time) { /* to the right, as far up as needed */
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
    for (int32_t r = next_met(p, 0, life->first); r < p->count && p->lives[p->by_start[r]].first <= life->last;
         r = next_met(p, r + 1, life->first))
        p->met[count++] = p->by_start[r];
    for (int32_t at = count / 2 - 1; at >= 0; at--)
        heap_down(p, at, count);
    return count;
}

static bs_bytes end_of(const place_pass *p, int32_t life)
{
    return life == p->count ? bs_bytes_of(0)
                            : bs_bytes_align(bs_bytes_add(p->lives[life].offset, p->lives[life].bytes));
}

/* The lowest gap from `offset` on that holds the life: goes past every life that leaves none. */
static bs_bytes lowest_gap(place_pass *p, const bs_life *life, bs_bytes offset)
{
    for (int32_t count = find_met(p, life); count > 0; count--) {
        const bs_life *other = &p->lives[p->met[0]];
        if (!bs_bytes_less(other->offset, bs_bytes_add(offset, life->bytes)))
            break;
        offset = bs_bytes_max(offset, end_of(p, p->met[0]));
        p->met[0] = p->met[count - 1];
        heap_down(p, 0, count - 1);
    }
    return offset;
}

/* ---------------------------------------------------------------------------------------------------- gaps */

/* A gap is named after the life below it. Gaps are in a treap, ordered by size, then from below. */
static bs_bytes gap_of(const place_pass *p, int32_t life)
{
    return bs_bytes_sub(p->lives[p->above[life]].offset, end_of(p, life));
}

static bool gap_before(const place_pass *p, int32_t a, int32_t b)
{
    const bs_bytes x = gap_of(p, a), y = gap_of(p, b);
    return bs_bytes_same(x, y) ? bs_bytes_less(end_of(p, a), end_of(p, b)) : bs_bytes_less(x, y);
}

/* Looks random, but is the same every time. */
BS_WRAPS static uint32_t gap_weight(int32_t life)
{
    uint32_t x = (uint32_t)life * 0x9E3779B1u;
    x = (x ^ (x >> 15)) * 0x85EBCA77u;
    return x ^ (x >> 13);
}

static void gap_insert(place_pass *p, int32_t life)
{
    int32_t *link = &p->root;
    while (*link >= 0 && gap_weight(*link) >= gap_weight(life))
        link = gap_before(p, *link, life) ? &p->right[*link] : &p->left[*link];
    int32_t *less = &p->left[life], *more = &p->right[life];
    for (int32_t at = *link; at >= 0;) {
        if (gap_before(p, at, life)) {
            *less = at;
            less = &p->right[at];
            at = *less;
        } else {
            *more = at;
            more = &p->left[at];
            at = *more;
        }
    }
    *less = *more = -1;
    *link = life;
}

static void gap_remove(place_pass *p, int32_t life)
{
    int32_t *link = &p->root;
    while (*link != life)
        link = gap_before(p, *link, life) ? &p->right[*link] : &p->left[*link];
    int32_t a = p->left[life], b = p->right[life];
    while (a >= 0 && b >= 0) {
        if (gap_weight(a) >= gap_weight(b)) {
            *link = a;
            link = &p->right[a];
            a = *link;
        } else {
            *link = b;
            link = &p->left[b];
            b = *link;
        }
    }
    *link = a >= 0 ? a : b;
}

/* The life below the smallest gap of at least `bytes`; -1: there is none. */
static int32_t gap_find(const place_pass *p, bs_bytes bytes)
{
    int32_t best = -1;
    for (int32_t at = p->root; at >= 0;) {
        const bool holds = !bs_bytes_less(gap_of(p, at), bytes);
        best = holds ? at : best;
        at = holds ? p->left[at] : p->right[at];
    }
    return best;
}

static void take_room(place_pass *p, int32_t life)
{
    int32_t under = gap_find(p, bs_bytes_align(p->lives[life].bytes));
    const bool inside = under >= 0;
    under = inside ? under : p->last;
    if (inside)
        gap_remove(p, under);
    p->lives[life].offset = end_of(p, under);
    p->below[life] = under;
    p->above[life] = p->above[under];
    p->above[under] = life;
    if (!inside) {
        p->last = life;
        return;
    }
    p->below[p->above[life]] = life;
    if (bs_bytes_any(gap_of(p, life)))
        gap_insert(p, life);
}

static void give_room(place_pass *p, int32_t life)
{
    const int32_t under = p->below[life], over = p->above[life];
    if (bs_bytes_any(gap_of(p, under)))
        gap_remove(p, under);
    if (life == p->last) {
        p->last = under;
        return;
    }
    if (bs_bytes_any(gap_of(p, life)))
        gap_remove(p, life);
    p->above[under] = over;
    p->below[over] = under;
    gap_insert(p, under);
}

/* --------------------------------------------------------------------------------------------------- sweeps */

static int32_t birth(const place_pass *p, int32_t life)
{
    return p->backwards ? -p->lives[life].last : p->lives[life].first;
}
static int32_t death(const place_pass *p, int32_t life)
{
    return p->backwards ? -p->lives[life].first : p->lives[life].last;
}

/* Of lives born at the same time, the one that lives longer goes first. */
static bool is_born_before(const void *user, int32_t a, int32_t b)
{
    const place_pass *p = user;
    const int32_t x = birth(p, a), y = birth(p, b);
    return x != y ? x < y : death(p, a) > death(p, b);
}

static bool dies_before(const void *user, int32_t a, int32_t b) { return death(user, a) < death(user, b); }

static bool is_swept(const place_pass *p, int32_t life)
{
    return bs_bytes_any(p->lives[life].bytes) && p->size_rank[life] >= p->large;
}

/* Places all lives but the large ones and those without bytes; p->level tells how high they reach. */
static bs_bytes sweep(place_pass *p)
{
    bs_bytes total = bs_bytes_of(0);
    int32_t dead = 0;
    p->root = -1;
    p->last = p->count;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t life = p->by_birth[i];
        for (; death(p, p->by_death[dead]) < birth(p, life); dead++)
            if (is_swept(p, p->by_death[dead]))
                give_room(p, p->by_death[dead]);
        if (is_swept(p, life))
            take_room(p, life);
        p->birth_rank[life] = i;
        p->level[p->leaves + i] = end_of(p, p->last);
        total = bs_bytes_max(total, end_of(p, p->last));
    }
    for (int32_t i = p->leaves - 1; i >= 1; i--)
        p->level[i] = bs_bytes_max(p->level[2 * i], p->level[2 * i + 1]);
    return total;
}

/* How high the swept lives reach while this one lives. */
static bs_bytes level_of(const place_pass *p, int32_t life)
{
    int32_t low = p->birth_rank[life], high = p->count; /* the last that is born before it dies */
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (birth(p, p->by_birth[middle]) <= death(p, life))
            low = middle;
        else
            high = middle;
    }
    bs_bytes most = bs_bytes_of(0);
    for (int32_t a = p->leaves + p->birth_rank[life], b = p->leaves + low; a <= b; a = (a + 1) / 2, b = (b - 1) / 2) {
        most = bs_bytes_max(most, p->level[a]);
        most = bs_bytes_max(most, p->level[b]);
    }
    return most;
}

/* ------------------------------------------------------------------------------------------------ placing */

/* Places lives in that order, above the swept ones or from the bottom. */
static bs_bytes place_greedily(place_pass *p, const int32_t *order, int32_t count, bool above)
{
    bs_bytes total = bs_bytes_of(0);
    for (int32_t i = 0; i < 2 * p->leaves; i++)
        p->ends[i] = INT32_MIN;
    for (int32_t i = 0; i < count; i++) {
        bs_life *life = &p->lives[order[i]];
        life->offset = bs_bytes_of(0);
        if (!bs_bytes_any(life->bytes))
            continue;
        life->offset = lowest_gap(p, life, above ? level_of(p, order[i]) : bs_bytes_of(0));
        met_insert(p, order[i]);
        total = bs_bytes_max(total, end_of(p, order[i]));
    }
    return total;
}

static bool is_born_earlier(const void *user, int32_t a, int32_t b)
{
    const place_pass *p = user;
    return p->birth_rank[a] < p->birth_rank[b];
}

static bool takes_more(const void *user, int32_t a, int32_t b)
{
    const bs_life *x = &((const bs_life *)user)[a], *y = &((const bs_life *)user)[b];
    return (double)bs_bytes_figure(x->bytes) * ((double)x->last - x->first + 1) >
           (double)bs_bytes_figure(y->bytes) * ((double)y->last - y->first + 1);
}

#define WAYS 8 /* forwards and backwards, each with nothing above, or with large lives by size, birth or bytes x time */

static bs_bytes place_swept(place_pass *p, int32_t way, int32_t large)
{
    p->backwards = way & 1;
    p->large = way < 2 ? 0 : large;
    bs_sort(p->by_birth, p->met, p->count, is_born_before, p);
    bs_sort(p->by_death, p->met, p->count, dies_before, p);
    const bs_bytes swept = sweep(p);
    int32_t *order = p->left; /* the tree of gaps is not needed any more */
    memcpy(order, p->by_size, (size_t)p->large * sizeof *order);
    if (way / 2 == 2)
        bs_sort(order, p->right, p->large, is_born_earlier, p);
    if (way / 2 == 3)
        bs_sort(order, p->right, p->large, takes_more, p->lives);
    return bs_bytes_max(swept, place_greedily(p, order, p->large, true));
}

/* How many of the `large` largest lives are alive together at most. */
static int32_t most_alive_of(const place_pass *p, int32_t large)
{
    int32_t alive = 0, most = 0, dead = 0;
    for (int32_t i = 0; i < p->count; i++) {
        const int32_t life = p->by_start[i];
        for (; p->lives[p->by_death[dead]].last < p->lives[life].first; dead++)
            alive -= p->size_rank[p->by_death[dead]] < large;
        alive += p->size_rank[life] < large;
        most = bs_max_i32(most, alive);
    }
    return most;
}

static int32_t count_large(const place_pass *p)
{
    int32_t low = 0, high = p->count;
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (most_alive_of(p, middle) <= LARGE_ALIVE)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Whether no sum of lives alive at once exceeds what any plan may have: then no offset of a sweep is cut. */
static bool sums_are_exact(const place_pass *p)
{
    bs_bytes sum = bs_bytes_of(0);
    int32_t dead = 0;
    for (int32_t i = 0; i < p->count; i++) {
        const bs_life *life = &p->lives[p->by_start[i]];
        for (; p->lives[p->by_death[dead]].last < life->first; dead++)
            sum = bs_bytes_sub(sum, bs_bytes_align(p->lives[p->by_death[dead]].bytes));
        sum = bs_bytes_add(sum, bs_bytes_align(life->bytes));
        if (bs_bytes_figure(sum) > BS_MAX_PLAN_BYTES)
            return false;
    }
    return true;
}

static bs_bytes place_best(place_pass *p)
{
    if (!sums_are_exact(p))
        return bs_bytes_of(BS_BYTES_TOO_MANY); /* refused, however they are placed */
    const int32_t large = count_large(p);
    int32_t best = 0;
    bs_bytes least = bs_bytes_of(BS_BYTES_TOO_MANY), total = least;
    for (int32_t way = 0; way < WAYS; way++) {
        total = place_swept(p, way, large);
        best = bs_bytes_less(total, least) ? way : best;
        least = bs_bytes_min(total, least);
    }
    return best == WAYS - 1 ? total : place_swept(p, best, large);
}

static void carve_place(bs_carver *c, place_pass *p, int32_t count)
{
    enum { LIVES, ENDS, SWEPT, LEVELS };
    static const bs_carved arrays[] = {
        BS_CARVED(place_pass, by_start, LIVES),   BS_CARVED(place_pass, rank, LIVES),
        BS_CARVED(place_pass, by_size, LIVES),    BS_CARVED(place_pass, met, LIVES),
        BS_CARVED(place_pass, ends, ENDS),        BS_CARVED(place_pass, by_birth, SWEPT),
        BS_CARVED(place_pass, by_death, SWEPT),   BS_CARVED(place_pass, size_rank, SWEPT),
        BS_CARVED(place_pass, birth_rank, SWEPT), BS_CARVED(place_pass, above, SWEPT),
        BS_CARVED(place_pass, below, SWEPT),      BS_CARVED(place_pass, left, SWEPT),
        BS_CARVED(place_pass, right, SWEPT),      BS_CARVED(place_pass, level, LEVELS),
    };
    p->count = count;
    p->leaves = 1;
    while (p->leaves < count)
        p->leaves *= 2;
    const bool sweeps = count > EXACT_ALIVE;
    const int64_t ends = 2 * (int64_t)p->leaves;
    const int64_t counts[] = {count, ends, sweeps ? (int64_t)count + 1 : 0, sweeps ? ends : 0};
    BS_CARVE_ARRAYS(c, p, arrays, counts);
}

bs_bytes bs_place_workspace(int32_t count)
{
    place_pass p;
    bs_carver c = {NULL, {0}};
    carve_place(&c, &p, count);
    return c.used;
}

static void sort_lives(place_pass *p)
{
    for (int32_t i = 0; i < p->count; i++)
        p->by_start[i] = p->by_size[i] = i;
    bs_sort(p->by_start, p->met, p->count, begins_before, p->lives);
    bs_sort(p->by_size, p->met, p->count, is_larger, p->lives);
    for (int32_t i = 0; i < p->count; i++)
        p->rank[p->by_start[i]] = i;
}

static bool many_are_alive(place_pass *p)
{
    if (p->count <= EXACT_ALIVE)
        return false;
    p->backwards = false;
    for (int32_t i = 0; i < p->count; i++) {
        p->by_birth[i] = p->by_death[i] = i;
        p->size_rank[p->by_size[i]] = i;
    }
    bs_sort(p->by_death, p->met, p->count, dies_before, p);
    return most_alive_of(p, p->count) > EXACT_ALIVE;
}

bs_bytes bs_place_lives(bs_life *lives, int32_t count, void *workspace)
{
    place_pass p;
    bs_carver c = {workspace, {0}};
    memset(&p, 0, sizeof p);
    carve_place(&c, &p, count);
    p.lives = lives;
    sort_lives(&p);
    for (int32_t i = 0; i < count; i++)
        lives[i].offset = bs_bytes_of(0);
    return many_are_alive(&p) ? place_best(&p) : place_greedily(&p, p.by_size, count, false);
}

#endif
