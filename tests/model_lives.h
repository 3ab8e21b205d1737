/* model_lives.h - a shipped model from its file to its last run, with a plan that is made or one that is opened from an
 * image, fed with frames or text that depend on nothing but the number of the run, and all that it gives written down.
 *
 * Owns: what models are fed; a life owns all that it makes, so that of the plan that was made nothing is left when its
 * image is opened. With BS_TEST_ON_DEVICE it is run on a GPU. Relies on: arenas.h, check.h, text_model.h; whoever
 * includes it defines _POSIX_C_SOURCE first. Must never: know what a model should give. */
#ifndef BS_TEST_MODEL_LIVES_H
#define BS_TEST_MODEL_LIVES_H

#include "arenas.h"
#include "check.h"
#include "text_model.h"

#include "ops/structure.h"
#include "plan/plan.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { BUFFERS = 8, RUNS = 4, INPUTS = 4, REPORT_BYTES = 1 << 17 };

static const char sentence[] = "The mill stood where two rivers met, and nobody could say which of them turned it. ";

/* A model, built for these extents and planned so. */
typedef struct subject {
    char path[300];
    bs_model_input inputs[INPUTS];
    int32_t n_inputs, code_bits, floor;
    double slots; /* 0: nothing is streamed; nearly 0: as few bytes as will do; 1: as all units take */
    bs_plan_desc desc;
} subject;

/* What a life gave, one thing behind the other. */
typedef struct record {
    uint8_t *bytes;
    size_t n, room;
} record;

static record made, again; /* by the plan, and by its image */
static uint8_t *image;
static size_t image_bytes;
static char image_path[300], why[400];

static inline void append(record *r, const void *data, size_t n)
{
    while (r->n + n > r->room) {
        r->room = 2 * r->room + n + 4096;
        r->bytes = realloc(r->bytes, r->room);
        if (!r->bytes)
            exit(2);
    }
    memcpy(r->bytes + r->n, data, n);
    r->n += n;
}

static inline bool failed(const char *what, const bs_error *error)
{
    snprintf(why, sizeof why, "%.60s: %.300s", what, error->message);
    return false;
}

/* ------------------------------------------------------------------------------------------------------- a life */

typedef struct life {
    const subject *of;
    arenas arenas;
    bs_model *model;
    bs_graph *graph;
    const bs_plan *plan;
    bs_device *device;
    bs_session *session;
    void *buffers[BUFFERS], *mapped;
    int32_t n_buffers;
    int32_t past[TEXT_MAX_SEQUENCES];
    bs_error error;
} life;

static inline bool open_model(life *l)
{
    bs_arena arena;
    const size_t bytes = bs_model_file_bytes(NULL, l->of->path, &l->error);
    if (bytes == 0 || !arenas_lend(&l->arenas, &arena, "model", bytes, &l->error))
        return failed("the model", &l->error);
    l->model = bs_model_open_file(&arena, NULL, l->of->path, &l->error);
    return l->model || failed("the model", &l->error);
}

static inline bool build_graph(life *l)
{
    bs_arena arena;
    const subject *s = l->of;
    const bs_graph_desc room = bs_model_graph_desc(l->model);
    const bs_model_build_desc build = {s->inputs, s->n_inputs, s->code_bits, s->floor};
    if (!arenas_lend(&l->arenas, &arena, "graph", bs_graph_bytes(&room), &l->error))
        return failed("the graph", &l->error);
    l->graph = bs_graph_create(&arena, &room);
    return (l->graph && bs_model_build(l->model, l->graph, &build, &l->error) == BS_OK) ||
           failed("the graph", &l->error);
}

static inline bool plan_with(life *l, arenas *room, const bs_plan_desc *d)
{
    bs_arena arena;
    if (!arenas_lend(room, &arena, "plan", bs_plan_bytes(l->graph, d), &l->error))
        return failed("the plan", &l->error);
    l->plan = bs_plan_create(&arena, NULL, l->graph, d, &l->error);
    return l->plan || failed("the plan", &l->error);
}

/* Twice, where slots are asked for: the first plan tells what there is. */
static inline bool make_plan(life *l)
{
    bs_plan_desc d = l->of->desc;
    bs_stream_plan facts = {0};
    arenas first = {0};
    if (l->of->slots > 0) {
        d.slot_bytes = UINT64_MAX;
        if (plan_with(l, &first, &d))
            bs_plan_stream_get(l->plan, &facts);
        arenas_free(&first);
        d.slot_bytes = facts.least_bytes + (uint64_t)(l->of->slots * (double)(facts.all_bytes - facts.least_bytes));
    }
    return plan_with(l, &l->arenas, &d);
}

static inline bool save_plan(life *l)
{
    free(image);
    image_bytes = bs_plan_image_bytes(l->plan);
    image = malloc(image_bytes);
    return (image && bs_plan_save(l->plan, image, image_bytes, &l->error) == BS_OK) || failed("saving", &l->error);
}

/* Where an image may lie: in memory of exactly its bytes, read from its file, or mapped, so that a write to it would
 * end the test. */
typedef enum place { MADE, READ, MAPPED } place;

static inline const void *map_file(life *l)
{
    const int file = open(image_path, O_RDONLY);
    l->mapped = file < 0 ? MAP_FAILED : mmap(NULL, image_bytes, PROT_READ, MAP_PRIVATE, file, 0);
    if (file >= 0)
        close(file);
    l->mapped = l->mapped == MAP_FAILED ? NULL : l->mapped;
    return l->mapped;
}

static inline const void *read_file(life *l)
{
    void *const memory = malloc(image_bytes);
    FILE *const file = fopen(image_path, "rb");
    const size_t n = file ? fread(memory, 1, image_bytes, file) : 0;
    if (file)
        fclose(file);
    l->buffers[l->n_buffers++] = memory;
    return n == image_bytes ? memory : NULL;
}

static inline bool open_plan(life *l, place from)
{
    bs_arena arena;
    if (!arenas_lend(&l->arenas, &arena, "handle", bs_plan_open_bytes(l->graph), &l->error))
        return failed("the handle", &l->error);
    const void *at = from == MAPPED ? map_file(l) : read_file(l);
    l->plan = at ? bs_plan_open(&arena, NULL, l->graph, at, image_bytes, &l->error) : NULL;
    return l->plan || failed("the image", &l->error);
}

static inline bool make_session(life *l)
{
    bs_sizes sizes;
    bs_memory memory;
    bs_session_desc desc = {.weights = bs_model_weights(l->model)};
    bs_plan_sizes(l->plan, &sizes);
    if (!arenas_lend_session(&l->arenas, &memory, &sizes, &l->error))
        return failed("arenas", &l->error);
#ifdef BS_TEST_ON_DEVICE
    bs_arena arena;
    const bs_cuda_desc open = {.device_bytes = sizes.device, .pinned_bytes = sizes.pinned};
    if (!arenas_lend(&l->arenas, &arena, "device", 1024, &l->error))
        return failed("the device", &l->error);
    desc.device = l->device = bs_cuda_open(&arena, &open, &l->error);
    if (!l->device)
        return failed("the device", &l->error);
#endif
    l->session = bs_session_create(&memory, l->plan, &desc, &l->error);
    return l->session || failed("the session", &l->error);
}

static inline void end(life *l)
{
    bs_session_close(l->session);
#ifdef BS_TEST_ON_DEVICE
    bs_cuda_close(l->device);
#endif
    bs_model_close(l->model);
    for (int32_t i = 0; i < l->n_buffers; i++)
        free(l->buffers[i]);
    if (l->mapped)
        munmap(l->mapped, image_bytes);
    arenas_free(&l->arenas);
}

/* ------------------------------------------------------------------------------------------------ what it is fed */

/* Of a run: all there is, or less. Sequences are always all. */
static inline int64_t extent(const bs_graph *g, bs_dim_id id, int32_t run)
{
    static const int64_t of_8[RUNS] = {8, 8, 5, 7};
    const bs_dim_info *d = &g->dims[id];
    if (d->kind == BS_DIM_DERIVED)
        return bs_floor_div(extent(g, d->parent, run) * d->mul + d->add, d->div);
    if (d->kind == BS_DIM_CONST || strcmp(&g->text[d->name], "sequences") == 0)
        return d->maximum;
    return bs_max_i32(1, (int32_t)(d->maximum * of_8[run % RUNS] / 8));
}

/* Flat, smooth and busy parts; the left half moves from frame to frame, and some of it jumps. */
static inline int32_t light(int64_t x, int64_t y, int64_t width, int32_t run, int32_t most)
{
    const int64_t at = x < width / 2 ? x + 3 * run : x, cell = at / 24 + y / 20;
    const uint32_t noise = (uint32_t)(at * 7919 + y * 104729 + (cell % 5 == 4 ? 31 * run : 0)) * 2654435761u >> 24;
    const int64_t code = cell % 3 == 0 ? 90 : cell % 3 == 1 ? (2 * at + y) % 256 : noise;
    return (int32_t)(code * most / 255);
}

static inline void fill_frame(void *data, const bs_buffer *b, int32_t run, int32_t code_bits)
{
    const int32_t most = (1 << (code_bits > 8 ? code_bits : 8)) - 1;
    for (int64_t y = 0; y < b->dim[1]; y++)
        for (int64_t x = 0; x < b->dim[2]; x++) {
            const int32_t code = light(x, y, b->dim[2], run, most);
            if (b->dtype == BS_U8)
                ((uint8_t *)data)[y * b->dim[2] + x] = (uint8_t)code;
            else
                ((uint16_t *)data)[y * b->dim[2] + x] = (uint16_t)code;
        }
}

/* Rows of a run shared out among the sequences: evenly, or half of them to the first. */
static inline int32_t length_of(int64_t rows, int64_t sequences, int64_t s, int32_t run)
{
    const int64_t extra = run % 2 && sequences > 1 ? rows / 2 : 0, rest = rows - extra;
    return (int32_t)(rest / sequences + (s < rest % sequences) + (s == 0 ? extra : 0));
}

static inline int64_t rows_of(const life *l, int32_t run)
{
    for (int32_t d = 0; d < l->graph->n_dims; d++)
        if (strcmp(&l->graph->text[l->graph->dims[d].name], "tokens") == 0)
            return extent(l->graph, d, run);
    return 0;
}

/* False: nobody knows what this input is. */
static inline bool fill(life *l, const char *name, const bs_buffer *b, int32_t run)
{
    static const float budgets[RUNS] = {0.07f, 0.0f, 0.5f, 0.2f};
    int32_t *const ints = b->data;
    if (strcmp(name, "frame") == 0 && b->rank == 3)
        fill_frame(b->data, b, run, l->of->code_bits);
    else if (strcmp(name, "budget") == 0)
        *(float *)b->data = budgets[run % RUNS];
    else if (strcmp(name, "tokens") == 0)
        for (int64_t i = 0; i < b->dim[0]; i++)
            ints[i] = text_code(sentence[(size_t)(i + 17 * run) % (sizeof sentence - 1)]);
    else if (strcmp(name, "lengths") == 0)
        for (int64_t s = 0; s < b->dim[0]; s++)
            ints[s] = length_of(rows_of(l, run), b->dim[0], s, run);
    else if (strcmp(name, "past") == 0)
        for (int64_t s = 0; s < b->dim[0]; s++) {
            ints[s] = l->past[s];
            l->past[s] += length_of(rows_of(l, run), b->dim[0], s, run);
        }
    else
        return false;
    return true;
}

/* Memory of exactly the extents of this run. */
static inline bool bind(life *l, const bs_node *node, int32_t run, bs_buffer *b)
{
    const bool output = bs_node_is(node, &bs_op_output);
    const bs_value_info *v = &l->graph->values[output ? bs_node_in(l->graph, node)[0] : node->first_out];
    size_t bytes = bs_dtype_bytes(v->dtype);
    *b = (bs_buffer){.dtype = v->dtype, .rank = v->rank};
    for (int32_t i = 0; i < v->rank; i++)
        bytes *= (size_t)(b->dim[i] = extent(l->graph, v->dims[i], run));
    if (l->n_buffers == BUFFERS)
        exit(2);
    b->data = l->buffers[l->n_buffers++] = malloc(bytes);
    memset(b->data, 0xC3, bytes);
    if (!output && !fill(l, bs_node_name(node), b, run)) {
        snprintf(why, sizeof why, "input \"%s\" is none that this test knows", bs_node_name(node));
        return false;
    }
    return bs_bind(l->session, bs_node_name(node), b, &l->error) == BS_OK || failed("binding", &l->error);
}

/* ----------------------------------------------------------------------------------------------- what it gives */

static inline void append_plan(record *r, const bs_plan *plan)
{
    static char report[REPORT_BYTES];
    bs_sizes sizes;
    bs_stream_plan stream;
    memset(&sizes, 0, sizeof sizes);
    memset(&stream, 0, sizeof stream);
    bs_plan_sizes(plan, &sizes);
    bs_plan_stream_get(plan, &stream);
    append(r, &sizes, sizeof sizes);
    append(r, &stream, sizeof stream);
    if (bs_plan_report(plan, report, sizeof report) >= sizeof report)
        exit(2);
    append(r, strstr(report, "\ntransient"), strlen(strstr(report, "\ntransient"))); /* above: where its tables lie */
}

static inline void append_decisions(record *r, const life *l)
{
    for (int32_t k = 1; k < l->graph->n_routers; k++) {
        bs_decision d;
        const bs_status status = bs_decision_get(l->session, l->graph->routers[k].desc->name, &d);
        append(r, &status, sizeof status);
        if (status != BS_OK)
            continue;
        append(r, &d.cells, sizeof d.cells);
        append(r, &d.dropped, sizeof d.dropped);
        append(r, d.counts, (size_t)d.paths * sizeof *d.counts);
        append(r, d.chosen, (size_t)d.cells * sizeof *d.chosen);
    }
}

static inline bool run_once(life *l, int32_t run, record *r)
{
    bs_buffer outputs[BUFFERS];
    int32_t n_outputs = 0;
    const int32_t kept = l->n_buffers;
    for (int32_t n = 1; n < l->graph->n_nodes; n++) {
        const bs_node *node = &l->graph->nodes[n];
        bs_buffer b;
        if (!bs_node_is(node, &bs_op_input) && !bs_node_is(node, &bs_op_output))
            continue;
        if (!bind(l, node, run, &b))
            return false;
        if (bs_node_is(node, &bs_op_output))
            outputs[n_outputs++] = b;
    }
    if (bs_run(l->session, &l->error) != BS_OK)
        return failed("running", &l->error);
    for (int32_t i = 0; i < n_outputs; i++) {
        size_t bytes = bs_dtype_bytes(outputs[i].dtype);
        for (int32_t k = 0; k < outputs[i].rank; k++)
            bytes *= (size_t)outputs[i].dim[k];
        append(r, outputs[i].data, bytes);
    }
    append_decisions(r, l);
    while (l->n_buffers > kept)
        free(l->buffers[--l->n_buffers]);
    return true;
}

/* from: of an image in its file; MADE: of a plan that is made, and saved. */
static inline bool live(const subject *s, place from, record *r)
{
    life l;
    memset(&l, 0, sizeof l);
    l.of = s;
    r->n = 0;
    bool ok = open_model(&l) && build_graph(&l);
    if (from == MADE)
        ok = ok && make_plan(&l) && save_plan(&l);
    else
        ok = ok && open_plan(&l, from);
    if (ok)
        append_plan(r, l.plan);
    ok = ok && make_session(&l);
    for (int32_t run = 0; ok && run < RUNS; run++)
        ok = run_once(&l, run, r);
    end(&l);
    return ok;
}

#endif
