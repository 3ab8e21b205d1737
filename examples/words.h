/* words.h: what the words of a command line mean: numbers, sizes, one of a few names.
 * Owns: how they are written. Relies on: nothing. Must never: print, or know an option's name. */
#ifndef WORDS_H
#define WORDS_H

#include <stdbool.h>
#include <stdint.h>

bool word_number(const char *word, double low, double high, double *value);
bool word_whole(const char *word, double low, double high, int64_t *value);
/* N with K, M or G behind it, a small letter too: `unit` is what K stands for. */
bool word_bytes(const char *word, double unit, double *bytes);
bool word_percent(const char *word, double *percent); /* N% */
/* Index of `word` among names that end with NULL; -1. */
int32_t word_name(const char *word, const char *const *names);

#endif
