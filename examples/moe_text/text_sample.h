/* text_sample.h: from logits to the next character, in integers.
 * Owns: the random numbers of one sequence. Relies on: nothing.
 * Must never: let the last bits of a logit, a thread or a library's exp() decide more than they must. */
#ifndef TEXT_SAMPLE_H
#define TEXT_SAMPLE_H

#include <stdint.h>

typedef struct text_sampler {
    uint64_t state;
    float steps; /* 1/256 of a power of two in a unit of logit; 0: always the greatest logit */
} text_sampler;

/* temperature: 0 or more. Sequences of one seed draw independent numbers, the same whatever runs beside them. */
void text_sampler_open(text_sampler *sampler, double temperature, uint64_t seed, int sequence);
/* Index drawn with probability softmax(logits / temperature). */
int text_sample(text_sampler *sampler, const float *logits, int count);

#endif
