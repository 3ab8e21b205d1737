/* plan_options.c: see plan_options.h. */
#include "plan_options.h"

#include "words.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------ words */

bool plan_word_number(const char *word, char **end, long long low, long long high, long long *number)
{
    if (*word < '0' || *word > '9')
        return false;
    *number = strtoll(word, end, 10);
    return *number >= low && *number <= high;
}

bool plan_word_i32(const char *word, int32_t low, int32_t high, int32_t *target)
{
    char *end;
    long long n;
    if (!plan_word_number(word, &end, low, high, &n) || *end)
        return false;
    *target = (int32_t)n;
    return true;
}

char *plan_word_split(char *word)
{
    char *sign = strchr(word, '=');
    if (!sign || sign == word)
        return NULL;
    *sign = 0;
    return sign + 1;
}

bool plan_word_extents(const char *word, int32_t *rank, int64_t *dim)
{
    for (*rank = 0; *rank < BS_MAX_RANK; word++) {
        char *end;
        long long n;
        if (!plan_word_number(word, &end, 0, (long long)1 << 30, &n))
            return false;
        dim[(*rank)++] = n;
        word = end;
        if (*word != 'x')
            return *word == 0;
    }
    return false;
}

/* ---------------------------------------------------------------------------------------------------- options */

static plan_taken taken(bool good) { return good ? PLAN_TAKEN : PLAN_WRONG; }

static bool force_path(plan_options *o, char *word)
{
    const char *path = plan_word_split(word);
    if (!path || o->desc.n_forces == BS_MAX_FORCES)
        return false;
    bs_force *force = &o->desc.forces[o->desc.n_forces++];
    force->router = word;
    return plan_word_i32(path, 0, BS_MAX_PATHS - 1, &force->path);
}

static bool choose_tier(plan_options *o, const char *word)
{
    for (int32_t tier = BS_TIER_AUTO; tier <= BS_TIER_NEON; tier++)
        if (strcmp(bs_tier_name((bs_tier)tier), word) == 0) {
            o->desc.tier = tier;
            return true;
        }
    return false;
}

static bool choose(const char *word, const char *const *names, int32_t *target)
{
    *target = word_name(word, names);
    return *target >= 0;
}

plan_taken plan_options_value(plan_options *o, const char *name, char *word)
{
    static const char *const orders[] = {"auto", "breadth", "depth", NULL};
    static const char *const switches[] = {"on", "off", NULL};
    static const char *const convs[] = {"auto", "direct", "winograd", NULL};
    if (strcmp(name, "--code-bits") == 0)
        return taken(plan_word_i32(word, 8, 15, &o->code_bits));
    if (strcmp(name, "--threads") == 0)
        return taken(plan_word_i32(word, 1, 64, &o->desc.threads));
    if (strcmp(name, "--tier") == 0)
        return taken(choose_tier(o, word));
    if (strcmp(name, "--order") == 0)
        return taken(choose(word, orders, &o->desc.order));
    if (strcmp(name, "--conv") == 0)
        return taken(choose(word, convs, &o->desc.conv));
    if (strcmp(name, "--dataflow") == 0)
        return taken(choose(word, switches, &o->desc.no_dataflow));
    if (strcmp(name, "--fusion") == 0)
        return taken(choose(word, switches, &o->desc.no_fusion));
    if (strcmp(name, "--patch") == 0)
        return taken(plan_word_i32(word, 1, 8192, &o->desc.patch_size));
    return strcmp(name, "--force") == 0 ? taken(force_path(o, word)) : PLAN_OTHER;
}
