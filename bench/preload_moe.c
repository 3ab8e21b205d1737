/* preload_moe.c: the text model, a token of every sequence a run: routers of 4 layers choose 2 of 16 experts.
 *
 * Tokens are those of a text (this repository's own) rather than sampled ones, so that every arm and every machine sees
 * the same; its routers are real ones, which is what counts.
 * Relies on: preload.h. Must never: take part when the model is not there. */
#include "preload.h"

#include <stdlib.h>
#include <string.h>

enum { MOE_CODES = 96, MOE_TEXT = 16384, MOE_EXPERT_LAYERS = 2 };

static uint8_t moe_text[MOE_TEXT];
static size_t moe_bytes;

static bool read_text(void)
{
    FILE *f = fopen(PRELOAD_MOE_TEXT, "rb");
    moe_bytes = f ? fread(moe_text, 1, sizeof moe_text, f) : 0;
    if (f)
        fclose(f);
    return moe_bytes > 0;
}

/* The model's alphabet: a new line, then what ASCII prints. */
static int32_t code_of(uint8_t byte)
{
    return byte == '\n' ? 0 : byte >= ' ' && byte <= '~' ? byte - 31 : 1;
}

static void step_moe(preload_net *net, int32_t run)
{
    int32_t *tokens = net->inputs[0].data, *lengths = net->inputs[1].data, *past = net->inputs[2].data;
    for (int32_t s = 0; s < net->rows; s++) {
        const uint8_t byte = moe_text[((size_t)s * 397 + (size_t)run) % moe_bytes];
        tokens[s] = code_of(byte);
        lengths[s] = 1;
        past[s] = run;
    }
}

static void moe_input(preload_net *net, const char *name, int32_t rank, int64_t d0, int64_t d1)
{
    net->input_names[net->n_inputs] = name;
    net->inputs[net->n_inputs++] = (bs_buffer){calloc((size_t)d0, sizeof(int32_t)), BS_I32, rank, {d0, d1}, {0}};
}

static bool build(preload_net *net, int32_t sequences, bs_error *error)
{
    const size_t bytes = 8 << 20;
    bs_arena arena;
    net->memory = malloc(bytes);
    bs_arena_init(&arena, "model and graph", net->memory, net->memory ? bytes : 0);
    net->model = bs_model_open_file(&arena, NULL, net->model_path, error);
    if (!net->model)
        return false;
    const bs_graph_desc room = bs_model_graph_desc(net->model);
    const bs_model_input inputs[] = {
        {"tokens", 2, {sequences, 1}}, {"lengths", 1, {sequences}}, {"past", 1, {sequences}}};
    const bs_model_build_desc desc = {.inputs = inputs, .n_inputs = 3};
    net->graph = bs_graph_create(&arena, &room);
    return net->graph && bs_model_build(net->model, net->graph, &desc, error) == BS_OK;
}

/* What an expert takes in the file. */
static void expert_bytes(preload_net *net)
{
    bs_model_facts facts;
    bs_model_block_facts block;
    bs_model_facts_get(net->model, &facts);
    for (int32_t b = 1; b < facts.blocks; b++)
        if (bs_model_block_get(net->model, b, &block) == BS_OK && block.bytes > net->unit_bytes)
            net->unit_bytes = block.bytes;
    net->chunk_bytes = net->unit_bytes / MOE_EXPERT_LAYERS;
    net->n_units = facts.blocks - 1;
}

bool preload_moe_there(void)
{
    FILE *f = fopen(PRELOAD_MOE_MODEL, "rb");
    if (f)
        fclose(f);
    return f && read_text();
}

bool preload_moe(preload_net *net, int32_t sequences)
{
    bs_error error = {0};
    memset(net, 0, sizeof *net);
    snprintf(net->name, sizeof net->name, "moe_text x%d", (int)sequences);
    snprintf(net->model_path, sizeof net->model_path, "%s", PRELOAD_MOE_MODEL);
    if (!build(net, sequences, &error))
        return preload_complain(net->name, &error);
    expert_bytes(net);
    net->rows = sequences;
    net->step = step_moe;
    moe_input(net, "tokens", 2, sequences, 1);
    moe_input(net, "lengths", 1, sequences, 0);
    moe_input(net, "past", 1, sequences, 0);
    net->output_name = "logits";
    net->output = (bs_buffer){
        calloc((size_t)sequences * MOE_CODES, sizeof(float)), BS_F32, 2, {sequences, MOE_CODES}, {0}};
    return true;
}
