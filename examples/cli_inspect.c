/* cli_inspect.c: `brainstorm inspect` and `check`: what a model file holds, and whether it is sound.
 * Owns: nothing. Relies on: cli.h, cli_load.h. Must never: read weights for `inspect`, or trust that they are there. */
#include "cli.h"
#include "cli_load.h"

#include <inttypes.h>
#include <stdlib.h>

static void print_facts(const cli_loaded *l, const char *path)
{
    bs_model_facts f;
    bs_model_facts_get(l->model, &f);
    const bs_graph_desc room = bs_model_graph_desc(l->model);
    printf("model     %s", f.name[0] ? f.name : "(no name)");
    printf(f.scale > 1 ? ", enlarges %" PRId32 " times\n" : "\n", f.scale);
    printf("file      %s, %llu bytes, version %" PRId32 ", op set %" PRId32 ", aligned to %llu\n", path,
           (unsigned long long)f.file_bytes, f.version, f.opset, (unsigned long long)f.alignment);
    bs_error why = {0};
    if (bs_model_can_stream(l->model, &why) == BS_OK)
        printf("stream    %s reads, aligned to %u\n", f.direct ? "direct" : "buffered", (unsigned)f.fetch_alignment);
    else
        printf("stream    no: %s\n", why.message);
    printf("holds     %" PRId32 " nodes, %" PRId32 " values, %" PRId32 " blocks, %" PRId32 " weights of %llu bytes\n",
           f.nodes, f.values, f.blocks, f.weights, (unsigned long long)f.weight_bytes);
    printf("memory    %zu bytes for the file's index, %zu for its graph\n", l->index.high_water,
           bs_graph_bytes(&room));
}

static void print_nodes(const bs_graph *graph)
{
    char line[512];
    printf("\nnodes (-> number, type and shape of what each gives)\n");
    for (int32_t i = 1; bs_graph_describe(graph, i, line, sizeof line) > 0; i++)
        printf("%s\n", line);
}

static void print_shape(const bs_weight_info *info)
{
    printf("[");
    for (int32_t i = 0; i < info->rank; i++)
        printf("%s%lld", i ? ", " : "", (long long)info->dim[i]);
    printf("]");
}

/* Weights are listed block by block. */
static void print_weights(const bs_model *model, int32_t block, int32_t *next)
{
    char name[BS_MAX_WEIGHT_NAME];
    bs_weight_info info;
    int32_t of_block;
    while (bs_model_weight_get(model, *next, name, &of_block, &info) == BS_OK && of_block == block) {
        printf("      %-34s %-4s %10llu  ", name, bs_dtype_name(info.dtype), (unsigned long long)info.bytes);
        print_shape(&info);
        printf("\n");
        ++*next;
    }
}

static void print_blocks(const bs_model *model)
{
    bs_model_block_facts block;
    int32_t next = 0;
    printf("\nblocks\n");
    for (int32_t i = 0; bs_model_block_get(model, i, &block) == BS_OK; i++) {
        printf("%4" PRId32 "  %-22s nodes %3" PRId32 "..%-3" PRId32 "  %3" PRId32 " weights  %9llu bytes", i,
               block.name, block.first_node + 1, block.end_node, block.weights, (unsigned long long)block.bytes);
        if (block.bytes)
            printf(" at %llu, CRC-32 %08x", (unsigned long long)block.offset, (unsigned)block.crc32);
        printf("\n");
        print_weights(model, i, &next);
    }
}

int cli_inspect(const char *path)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    cli_loaded l = {.model = NULL};
    bool good = cli_load_model(&l, path, NULL, &error);
    if (good)
        print_facts(&l, path);
    good = good && cli_load_graph(&l, NULL, 0, &error);
    if (good) {
        print_nodes(l.graph);
        print_blocks(l.model);
    }
    cli_unload(&l);
    return good ? EXIT_SUCCESS : cli_fail(&error);
}

int cli_check(const char *path)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    cli_loaded l = {.model = NULL};
    const bool good = cli_load_model(&l, path, NULL, &error) && cli_load_graph(&l, NULL, 0, &error) &&
                      bs_model_check(l.model, &error) == BS_OK;
    cli_unload(&l);
    if (good)
        printf("%s: sound\n", path);
    return good ? EXIT_SUCCESS : cli_fail(&error);
}
