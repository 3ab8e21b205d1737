/* table.h - the committed hashes: a line of each seed, a file of each tier; what changed on purpose; and what today's
 * library does not do the same way in all variants.
 *
 * Relies on run.h. Must never write a table. */
#ifndef BS_FROZEN_TABLE_H
#define BS_FROZEN_TABLE_H

#include "frozen/run.h"

enum { FZ_SEEDS = 2000, FZ_ITEMS = 2 + FZ_OUTPUTS, FZ_LISTED = 400, FZ_FILE = 1 << 18 };

/* Items: status, decisions, outputs. */
typedef struct fz_line {
    uint32_t item[FZ_ITEMS];
    int32_t n;
} fz_line;

typedef struct fz_table {
    fz_line lines[FZ_SEEDS];
    uint32_t hash; /* of the text */
    int32_t n;
} fz_table;

typedef struct fz_change {
    int32_t seed;
    bs_tier tier;
    fz_line line;
    char reason[100];
} fz_change;

/* Items of a seed that variants do not agree on. breadth: results are those of that order; unwritten: they come from
 * memory that was never written, so that the table has no right ones. */
typedef struct fz_excuse {
    int32_t seed;
    bool breadth, unwritten, items[FZ_ITEMS], needed;
    char reason[100];
} fz_excuse;

typedef struct fz_tables {
    fz_table tier[BS_TIER_CUDA];
    fz_change changes[FZ_LISTED];
    fz_excuse excuses[FZ_LISTED];
    int32_t n_changes, n_excuses;
} fz_tables;

static fz_tables fz_all;
static char fz_file[FZ_FILE];

static inline fz_line fz_line_of(const fz_hash *h)
{
    fz_line line = {{h->status, h->decisions}, 2 + h->n_out};
    memcpy(line.item + 2, h->out, (size_t)h->n_out * sizeof h->out[0]);
    return line;
}

static inline bool fz_same_line(const fz_line *a, const fz_line *b)
{
    return a->n == b->n && memcmp(a->item, b->item, (size_t)a->n * sizeof a->item[0]) == 0;
}

static inline const char *fz_item_name(int32_t i)
{
    static const char *const names[FZ_ITEMS] = {"status", "decisions", "output 0", "output 1", "output 2", "output 3"};
    return names[i];
}

static inline bool fz_load(const char *name)
{
    char path[80];
    snprintf(path, sizeof path, "tests/frozen/%s.txt", name);
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(fz_file, 1, sizeof fz_file - 1, f) : 0;
    if (f)
        fclose(f);
    fz_file[n] = '\0';
    return f && n < sizeof fz_file - 1;
}

/* The next line of a text, cut off; NULL at its end. Comments and empty lines are passed over. */
static inline char *fz_next_line(char **at)
{
    while (**at) {
        char *line = *at, *end = line + strcspn(line, "\n");
        *at = *end ? end + 1 : end;
        *end = '\0';
        if (*line && *line != '#')
            return line;
    }
    return NULL;
}

/* Hashes, in hexadecimal, up to the end or a bar. */
static inline fz_line fz_items(char **at)
{
    fz_line line = {{0}, 0};
    char *end;
    for (; line.n < FZ_ITEMS && **at && **at != '|'; *at = end) {
        const unsigned long item = strtoul(*at, &end, 16);
        if (end == *at)
            break;
        line.item[line.n++] = (uint32_t)item;
    }
    return line;
}

static inline const char *fz_reason(const char *at)
{
    at = strchr(at, '|');
    return at ? at + 1 + strspn(at + 1, " ") : "";
}

static inline void fz_load_tier(bs_tier tier)
{
    fz_table *t = &fz_all.tier[tier];
    char *at = fz_file, *line;
    if (!fz_load(bs_tier_name(tier)))
        return;
    t->hash = fz_mix_text(5, fz_file);
    while ((line = fz_next_line(&at)) != NULL) {
        char *items;
        const long seed = strtol(line, &items, 10);
        if (seed >= 0 && seed < FZ_SEEDS)
            t->lines[seed] = fz_items(&items), t->n++;
    }
}

static inline void fz_load_changes(void)
{
    char *at = fz_file, *line;
    if (!fz_load("changed"))
        return;
    while ((line = fz_next_line(&at)) != NULL && fz_all.n_changes < FZ_LISTED) {
        fz_change *c = &fz_all.changes[fz_all.n_changes++];
        char tier[16] = "", *items = line;
        int used = 0;
        if (sscanf(line, "%d %15s%n", &c->seed, tier, &used) != 2)
            c->seed = -1;
        for (int32_t t = BS_TIER_SCALAR; t < BS_TIER_CUDA; t++)
            if (strcmp(tier, bs_tier_name((bs_tier)t)) == 0)
                c->tier = (bs_tier)t;
        items += used;
        c->line = fz_items(&items);
        snprintf(c->reason, sizeof c->reason, "%s", fz_reason(items));
    }
}

static inline void fz_load_excuses(void)
{
    char *at = fz_file, *line;
    if (!fz_load("excused"))
        return;
    while ((line = fz_next_line(&at)) != NULL && fz_all.n_excuses < FZ_LISTED) {
        fz_excuse *e = &fz_all.excuses[fz_all.n_excuses++];
        char *words;
        e->seed = (int32_t)strtol(line, &words, 10);
        snprintf(e->reason, sizeof e->reason, "%s", fz_reason(words));
        words[strcspn(words, "|")] = '\0';
        e->breadth = strstr(words, "breadth") != NULL;
        e->unwritten = strstr(words, "unwritten") != NULL;
        for (int32_t i = 0; i < FZ_ITEMS; i++)
            e->items[i] = e->breadth || (e->unwritten && i > 1) || strstr(words, fz_item_name(i)) != NULL;
    }
}

static inline fz_excuse *fz_excuse_of(int32_t seed)
{
    for (int32_t i = 0; i < fz_all.n_excuses; i++)
        if (fz_all.excuses[i].seed == seed)
            return &fz_all.excuses[i];
    return NULL;
}

static inline const fz_change *fz_change_of(int32_t seed, bs_tier tier)
{
    for (int32_t i = 0; i < fz_all.n_changes; i++)
        if (fz_all.changes[i].seed == seed && fz_all.changes[i].tier == tier)
            return &fz_all.changes[i];
    return NULL;
}

/* What this seed must give: the frozen line, or what took its place. */
static inline const fz_line *fz_expected(int32_t seed, bs_tier tier)
{
    const fz_change *c = fz_change_of(seed, tier);
    return c ? &c->line : &fz_all.tier[tier].lines[seed];
}

/* Every change differs from what was frozen, and says why. */
static inline void fz_check_changes(void)
{
    for (int32_t i = 0; i < fz_all.n_changes; i++) {
        const fz_change *c = &fz_all.changes[i];
        const bool known = c->seed >= 0 && c->seed < FZ_SEEDS && c->tier != BS_TIER_AUTO;
        check(known && c->reason[0], "changed.txt: seed %d of tier %s says why", c->seed, bs_tier_name(c->tier));
        check(known && !fz_same_line(&c->line, &fz_all.tier[c->tier].lines[c->seed]),
              "changed.txt: seed %d of tier %s differs from what is frozen", c->seed, bs_tier_name(c->tier));
    }
    check(fz_all.n_changes < FZ_LISTED, "%d results changed on purpose", fz_all.n_changes);
}

#endif
