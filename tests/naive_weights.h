/* naive_weights.h - the weights that the oracle (naive.h) reads, and activations of layers. */
#ifndef BS_TEST_NAIVE_WEIGHTS_H
#define BS_TEST_NAIVE_WEIGHTS_H

#include "naive_graph.h"

/* Where weights are that were asked for before; another is looked for from the last one on: nodes and tensors have one
 * order, as a rule. */
enum { NAIVE_FOUND = 256 };
static struct {
    const char *name, *suffix;
    int32_t at;
} naive_found[NAIVE_FOUND];
static int32_t naive_last;

/* Whether it is `name`, a dot and `suffix`; without a suffix, `name`. */
static inline bool naive_is_weight(const char *full, const char *name, size_t length, const char *suffix)
{
    return strncmp(full, name, length) == 0 &&
           (*suffix ? full[length] == '.' && strcmp(full + length + 1, suffix) == 0 : full[length] == '\0');
}

static inline const bs_tensor *naive_find_weight(const naive *n, const char *name, const char *suffix)
{
    const size_t slot = ((uintptr_t)name / 8 + (uintptr_t)suffix) % NAIVE_FOUND, length = strlen(name);
    if (naive_found[slot].name == name && naive_found[slot].suffix == suffix)
        return &n->weights->tensors[naive_found[slot].at];
    for (int32_t i = 0; i < n->weights->count; i++) {
        naive_last = naive_last + 1 < n->weights->count ? naive_last + 1 : 0;
        if (!naive_is_weight(n->weights->tensors[naive_last].name, name, length, suffix))
            continue;
        naive_found[slot].name = name;
        naive_found[slot].suffix = suffix;
        naive_found[slot].at = naive_last;
        return &n->weights->tensors[naive_last];
    }
    printf("FAIL the oracle has no weight \"%s\", \"%s\"\n", name, suffix);
    exit(1);
}

static inline double naive_weight_at(const bs_tensor *tensor, int64_t index)
{
    return tensor->dtype == BS_I32 ? ((const int32_t *)tensor->data)[index]
                                   : (double)((const float *)tensor->data)[index];
}

static inline double naive_weight(const naive *n, const char *name, const char *suffix, int64_t index)
{
    return naive_weight_at(naive_find_weight(n, name, suffix), index);
}

/* So many of its elements. */
static inline void naive_weights(const naive *n, const char *name, const char *suffix, double *to, int64_t count)
{
    const bs_tensor *tensor = naive_find_weight(n, name, suffix);
    for (int64_t i = 0; i < count; i++)
        to[i] = naive_weight_at(tensor, i);
}

static inline double naive_act(int32_t act, float param, double x)
{
    return (double)bs_act_apply((bs_act)act, param, 0.0f, (float)x);
}

#endif
