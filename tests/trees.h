/* trees.h - random forests and graphs without circles for tests of levels: vertices are numbered at random, so that
 * nothing follows from their order. */
#ifndef BS_TEST_TREES_H
#define BS_TEST_TREES_H

#include "check.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { TREES_ROWS = 300, TREES_SLOTS = 3 };

typedef struct trees {
    int32_t rows, slots, n_indices;
    int32_t children[TREES_ROWS * TREES_SLOTS]; /* [rows, slots], -1 none */
    int32_t length[TREES_ROWS], indices[TREES_ROWS * TREES_SLOTS];
    int32_t level[TREES_ROWS];
    int32_t order[TREES_ROWS]; /* children before those above them */
    int32_t depth;
} trees;

static inline int32_t trees_below(uint32_t *seed, int32_t n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (int32_t)((*seed >> 8) % (uint32_t)n);
}

/* shape 0: chains; 1: trees; 2: vertices share children, and one may be the child of another twice. */
static inline trees *trees_make(trees *t, int32_t rows, int32_t slots, int32_t shape, uint32_t seed)
{
    memset(t, 0, sizeof *t);
    t->rows = rows;
    t->slots = slots;
    for (int32_t i = 0; i < rows; i++) {
        const int32_t at = trees_below(&seed, i + 1);
        t->order[i] = t->order[at];
        t->order[at] = i;
    }
    for (int32_t i = 0, free = 0; i < rows; i++) {
        const int32_t row = t->order[i], most = shape == 0 ? 1 : slots;
        int32_t *child = t->children + row * slots;
        t->level[row] = 1;
        for (int32_t k = 0; k < slots; k++) {
            const bool grows = i >= rows / 2 && free < i && trees_below(&seed, 5) < 4, any = trees_below(&seed, 3) > 0,
                       has = k < most && (shape == 0 ? i % 50 > 0 : shape == 1 ? grows : i > 0 && any);
            child[k] = !has         ? -1
                       : shape == 0 ? t->order[i - 1]
                       : shape == 1 ? t->order[free++]
                                    : t->order[trees_below(&seed, i)];
            if (has && t->level[child[k]] >= t->level[row])
                t->level[row] = t->level[child[k]] + 1;
        }
        t->depth = t->level[row] > t->depth ? t->level[row] : t->depth;
    }
    for (int32_t row = 0; row < rows; row++)
        for (int32_t k = 0; k < slots; k++)
            if (t->children[row * slots + k] >= 0) {
                t->indices[t->n_indices++] = t->children[row * slots + k];
                t->length[row]++;
            }
    return t;
}

#endif
