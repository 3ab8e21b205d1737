/* graph/tree.h - how equal entries and names are found while a graph is built: digital search trees within the tables.
 * The children of an entry, for a next hash bit of 0 and 1, are later entries: no file makes a tree deeper than a hash
 * has bits, except by names of equal hashes. Relies on base/base.h. Must never be included outside graph/. */
#ifndef BS_GRAPH_TREE_H
#define BS_GRAPH_TREE_H

#include "base/base.h"

/* Mixes a number into a hash (the finaliser of splitmix64). */
BS_WRAPS static inline uint64_t bs_tree_mix(uint64_t hash, int64_t number)
{
    uint64_t x = hash + (uint64_t)number + 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* A step down a tree: the link to follow from an entry. Once the hash is used up, every step goes the same way. */
static inline int32_t *bs_tree_step(int32_t child[2], uint64_t *hash)
{
    int32_t *link = &child[*hash & 1];
    *hash >>= 1;
    return link;
}

#endif
