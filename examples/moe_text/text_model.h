/* text_model.h: the network of moe_text: sequences of characters in, the next character's logits out.
 * Owns: the arenas of one session, the rows of a run, how far each sequence is; the GPU's memory where one computes.
 * Relies on: the library, arenas.h, stream_options.h, device_options.h. Must never: take memory after
 * text_model_open. */
#ifndef TEXT_MODEL_H
#define TEXT_MODEL_H

#include "arenas.h"
#include "brainstorm.h"
#include "text_options.h"

#define TEXT_CODES 96    /* a new line, and the 95 printable characters of ASCII */
#define TEXT_MAX_ROWS 512 /* characters in one run, of all sequences */

typedef struct text_model {
    bs_model *model;
    bs_graph *graph;
    bs_plan *plan;
    bs_session *session;
    bs_memory memory;
    bs_sizes planned;
    device_tools gpu;
    bs_error error; /* of what failed last */
    arenas arenas; /* of these, and of memory */
    bs_arena index_memory, graph_memory, plan_memory;
    uint64_t fixed_bytes; /* model index, graph and plan, and what is known of a GPU */
    int sequences, rows_most;
    int32_t past[TEXT_MAX_SEQUENCES];
    float logits[TEXT_MAX_SEQUENCES][TEXT_CODES]; /* of the last run */
} text_model;

/* Code of a character, -1 when the model has none. */
int text_code(char c);
char text_character(int code);

/* rows_most: characters of a sequence in one run, at most TEXT_MAX_ROWS / sequences. tools must outlive the model; may
 * be NULL. */
bool text_model_open(text_model *model, const text_options *options, int rows_most, const stream_tools *tools);
void text_model_close(text_model *model);
/* Every sequence grows by `rows` characters: those of sequence s are codes[s * rows ..]. */
bool text_model_run(text_model *model, const int32_t *codes, int rows);

#endif
