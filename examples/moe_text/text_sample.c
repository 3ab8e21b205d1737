/* text_sample.c: see text_sample.h. */
#include "text_sample.h"

#define FRACTIONS 256 /* steps in a factor of two */
#define TOP_BITS 31   /* weight of the greatest logit: 2^31 */
#define MOST 128      /* logits that are looked at */

/* splitmix64 (Steele, Lea, Flood 2014). */
static uint64_t next_number(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void text_sampler_open(text_sampler *sampler, double temperature, uint64_t seed, int sequence)
{
    const double log2_e = 1.4426950408889634;
    sampler->state = seed;
    sampler->state = next_number(&sampler->state) + (uint64_t)sequence * 0xD1342543DE82EF95u;
    sampler->steps = temperature > 0 ? (float)(FRACTIONS * log2_e / temperature) : 0.0f;
}

static int greatest(const float *logits, int count)
{
    int best = 0;
    for (int i = 1; i < count; i++)
        if (logits[i] > logits[best])
            best = i;
    return best;
}

/* 2^TOP_BITS times 2^(-fraction / FRACTIONS), by as many multiplications: the same integers everywhere. */
static uint32_t power(int fraction)
{
    const uint64_t factor = 4283353945u; /* 2^(32 - 1/256) */
    uint64_t value = (uint64_t)1 << TOP_BITS;
    for (int i = 0; i < fraction; i++)
        value = (value * factor + ((uint64_t)1 << 31)) >> 32;
    return (uint32_t)value;
}

/* In proportion to e^(-below / temperature). Not a number counts as never. */
static uint32_t weight_of(const text_sampler *sampler, float below)
{
    const float steps = below * sampler->steps + 0.5f;
    if (!(steps < (float)(FRACTIONS * (TOP_BITS + 1))))
        return 0;
    return power((int)steps % FRACTIONS) >> ((int)steps / FRACTIONS);
}

int text_sample(text_sampler *sampler, const float *logits, int count)
{
    uint32_t weight[MOST];
    uint64_t total = 0;
    const int n = count < MOST ? count : MOST, best = greatest(logits, n);
    if (sampler->steps <= 0)
        return best;
    for (int i = 0; i < n; i++)
        total += weight[i] = weight_of(sampler, logits[best] - logits[i]);
    /* total is below 2^38, the number below 2^24: the product fits. */
    uint64_t left = (next_number(&sampler->state) >> 40) * total >> 24;
    int chosen = 0;
    while (chosen + 1 < n && left >= weight[chosen]) /* NOLINT(clang-analyzer-*): count is at least 1 */
        left -= weight[chosen++];
    return left < weight[chosen] ? chosen : best; /* NOLINT(clang-analyzer-*): as above */
}
