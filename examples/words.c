/* words.c: see words.h. */
#include "words.h"

#include <stdlib.h>
#include <string.h>

bool word_number(const char *word, double low, double high, double *value)
{
    char *end;
    *value = strtod(word, &end);
    return *word != 0 && *end == 0 && *value >= low && *value <= high;
}

bool word_whole(const char *word, double low, double high, int64_t *value)
{
    double n;
    if (!word_number(word, low, high, &n) || n != (double)(int64_t)n)
        return false;
    *value = (int64_t)n;
    return true;
}

/* NULL: no number stands there, or one with a sign. */
static const char *leading_number(const char *word, double *value)
{
    char *end;
    if ((*word < '0' || *word > '9') && *word != '.')
        return NULL;
    *value = strtod(word, &end);
    return end == word ? NULL : end;
}

bool word_bytes(const char *word, double unit, double *bytes)
{
    static const char units[] = "KMGkmg";
    const char *end = leading_number(word, bytes);
    const char *suffix = end && *end ? strchr(units, *end) : NULL;
    for (int power = suffix ? (int)(suffix - units) % 3 : -1; power >= 0; power--)
        *bytes *= unit;
    return end && end[suffix ? 1 : 0] == 0;
}

bool word_percent(const char *word, double *percent)
{
    const char *end = leading_number(word, percent);
    return end && strcmp(end, "%") == 0;
}

int32_t word_name(const char *word, const char *const *names)
{
    for (int32_t i = 0; names[i]; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    return -1;
}
