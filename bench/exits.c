/* exits.c: what it costs to leave a net early, and to go on: tiles of one frame through the large net of a video model.
 *
 *     exits [MODEL.gguf [ROUNDS [TILE]]]
 *
 * For each size of tiles, in turns: a net that ends at the first exit; tiles that may go on and all leave there; tiles
 * of which all go on; tiles that decide as the file says. Beside each the same with all margins computed at once, as
 * before there were rings (src/plan/rings.c): that plan is the other one without its near rectangles. Figures are
 * medians of the ratios within a turn, of processor time.
 * Owns: the biases that send tiles one way. Relies on: the names in models/sr2x_video.gguf. Must never: change a
 * result: both plans must give the same bytes. */
#include "arenas.h"
#include "brainstorm.h"
#include "peak.h"
#include "plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 640, HEIGHT = 384, MOST_ROUNDS = 101 };

typedef enum leaving { AS_IT_SAYS, AT_ONCE, NEVER } leaving;

/* The model's weights, but for the last bias of the exits. */
typedef struct biased {
    bs_weights from;
    leaving leaving;
    uint64_t handles[2];
} biased;

typedef struct arm {
    const char *name;
    bool ends, whole;
    leaving leaving;
    arenas arenas;
    biased weights;
    bs_arena graph_memory, plan_memory;
    bs_memory memory;
    bs_session *session;
    uint8_t *result;
    uint64_t scratch;
    double seconds;
} arm;

static bs_status biased_find(const void *user, const char *name, bs_weight_info *info)
{
    biased *b = (biased *)(uintptr_t)user;
    const bs_status status = b->from.find(b->from.user, name, info);
    for (int e = 0; e < 2 && status == BS_OK; e++)
        if (strcmp(name, e ? "large.exit1.out.bias" : "large.exit0.out.bias") == 0)
            b->handles[e] = info->handle;
    return status;
}

static bs_status biased_read(const void *user, const bs_weight_info *info, uint64_t offset, void *buffer, size_t bytes)
{
    const biased *b = user;
    const bool mine = info->bytes == sizeof(float) && (info->handle == b->handles[0] || info->handle == b->handles[1]);
    const float bias = b->leaving == AT_ONCE ? 1e9f : -1e9f;
    if (!mine || b->leaving == AS_IT_SAYS)
        return b->from.read(b->from.user, info, offset, buffer, bytes);
    memcpy(buffer, (const char *)&bias + offset, bytes);
    return BS_OK;
}

static bool fail(const bs_error *error)
{
    fprintf(stderr, "exits: %s\n", error->message);
    return false;
}

/* As before there were rings: the interpreter computes all of a rectangle at once, and there is nothing left. */
static void make_whole(bs_plan *plan)
{
    for (int32_t i = 0; i < plan->n_instrs; i++) {
        bs_instr *instr = &plan->instrs[i];
        if (instr->extent == BS_EXTENT_NEAR)
            instr->extent = BS_EXTENT_ALL;
        instr->done = instr->reach;
    }
}

static bool arm_open(arm *a, bs_model *model, int32_t tile, uint8_t *frame, float *budget)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    const bs_graph_desc room = bs_model_graph_desc(model);
    const bs_model_input input = {"frame", 3, {1, HEIGHT, WIDTH, 0}};
    const bs_model_build_desc build = {.inputs = &input, .n_inputs = 1};
    bs_plan_desc desc = {.threads = 1, .patch_size = tile, .n_forces = a->ends ? 2 : 1};
    desc.forces[0] = (bs_force){"route", 3};
    desc.forces[1] = (bs_force){"exit0", 0};
    if (!arenas_lend(&a->arenas, &a->graph_memory, "graph", bs_graph_bytes(&room), &error))
        return fail(&error);
    bs_graph *g = bs_graph_create(&a->graph_memory, &room);
    if (bs_model_build(model, g, &build, &error) != BS_OK ||
        !arenas_lend(&a->arenas, &a->plan_memory, "plan", bs_plan_bytes(g, &desc), &error))
        return fail(&error);
    const bs_plan *plan = bs_plan_create(&a->plan_memory, NULL, g, &desc, &error);
    if (!plan)
        return fail(&error);
    if (a->whole)
        make_whole((bs_plan *)(uintptr_t)plan);
    a->scratch = bs_bytes_figure(plan->scratch_bytes);
    bs_sizes sizes;
    bs_plan_sizes(plan, &sizes);
    a->weights = (biased){bs_model_weights(model), a->leaving, {0, 0}};
    const bs_session_desc with = {.weights = {.user = &a->weights, .find = biased_find, .read = biased_read}};
    if (!arenas_lend_session(&a->arenas, &a->memory, &sizes, &error))
        return fail(&error);
    a->session = bs_session_create(&a->memory, plan, &with, &error);
    a->result = calloc(4, (size_t)WIDTH * HEIGHT);
    const bs_buffer in = {frame, BS_U8, 3, {1, HEIGHT, WIDTH, 0}, {0}}, knob = {budget, BS_F32, 1, {1}, {0}},
                    out = {a->result, BS_U8, 3, {1, 2 * HEIGHT, 2 * WIDTH, 0}, {0}};
    return (a->session && a->result && bs_bind(a->session, "frame", &in, &error) == BS_OK &&
            bs_bind(a->session, "budget", &knob, &error) == BS_OK &&
            bs_bind(a->session, "frame_2x", &out, &error) == BS_OK) ||
           fail(&error);
}

static void arm_close(arm *a)
{
    bs_session_close(a->session);
    arenas_free(&a->arenas);
    free(a->result);
}

static bool arm_run(arm *a)
{
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    const double since = peak_cpu_seconds();
    if (bs_run(a->session, &error) != BS_OK)
        return fail(&error);
    a->seconds = peak_cpu_seconds() - since;
    return true;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { ENDS, LEAVE, LEAVE_WHOLE, ON, ON_WHOLE, MIXED, MIXED_WHOLE, ARMS };
static const struct { const char *name; int arm, by; } ratios[] = {
    {"all leave, by a net that ends there", LEAVE, ENDS},
    {"  with whole margins", LEAVE_WHOLE, ENDS},
    {"all go on, by whole margins", ON, ON_WHOLE},
    {"as the file decides, by whole margins", MIXED, MIXED_WHOLE},
};
enum { RATIOS = sizeof ratios / sizeof *ratios };

static bool measure(arm *arms, int rounds)
{
    static double all[RATIOS][MOST_ROUNDS];
    for (int r = -1; r < rounds; r++) { /* the first to warm up */
        for (int k = 0; k < ARMS; k++)
            if (!arm_run(&arms[r & 1 ? ARMS - 1 - k : k]))
                return false;
        for (int k = 0; k < RATIOS && r >= 0; k++)
            all[k][r] = arms[ratios[k].arm].seconds / arms[ratios[k].by].seconds;
    }
    for (int k = 0; k < RATIOS; k++) {
        qsort(all[k], (size_t)rounds, sizeof **all, ascending);
        printf("  %-38s %.3f\n", ratios[k].name, all[k][rounds / 2]);
    }
    for (int k = LEAVE; k < ARMS; k += 2)
        if (memcmp(arms[k].result, arms[k + 1].result, (size_t)4 * WIDTH * HEIGHT) != 0)
            return fprintf(stderr, "exits: other bytes than with whole margins\n") < 0;
    return true;
}

static bool tiles_of(bs_model *model, int32_t tile, int rounds, uint8_t *frame)
{
    static const arm kinds[ARMS] = {{.ends = true, .leaving = AT_ONCE},
                                    {.leaving = AT_ONCE}, {.leaving = AT_ONCE, .whole = true},
                                    {.leaving = NEVER}, {.leaving = NEVER, .whole = true},
                                    {.leaving = AS_IT_SAYS}, {.leaving = AS_IT_SAYS, .whole = true}};
    static arm arms[ARMS];
    float budget = 0.1f;
    bool ok = true;
    memcpy(arms, kinds, sizeof arms);
    for (int k = 0; k < ARMS && ok; k++)
        ok = arm_open(&arms[k], model, tile, frame, &budget);
    if (ok)
        printf("tiles of %d: %llu bytes of scratch, %llu of a net that ends at its first exit\n", tile,
               (unsigned long long)arms[LEAVE].scratch, (unsigned long long)arms[ENDS].scratch);
    ok = ok && measure(arms, rounds);
    for (int k = 0; k < ARMS; k++)
        arm_close(&arms[k]);
    return ok;
}

int main(int count, char **words)
{
    static uint8_t frame[WIDTH * HEIGHT];
    const char *path = count > 1 ? words[1] : "models/sr2x_video.gguf";
    const int rounds = count > 2 ? atoi(words[2]) : 15, only = count > 3 ? atoi(words[3]) : 0;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    arenas all = {0};
    bs_arena index;
    const size_t bytes = bs_model_file_bytes(NULL, path, &error);
    if (rounds < 1 || rounds > MOST_ROUNDS || only < 0 || only > 1024)
        return fprintf(stderr, "usage: exits [MODEL.gguf [ROUNDS [TILE]]]\n") > 0;
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        frame[i] = (uint8_t)(128 + 60 * ((i / WIDTH / 9 + i % WIDTH / 7) % 2) + (i * 7919) % 31);
    bs_model *model = bytes && arenas_lend(&all, &index, "index", bytes, &error)
                          ? bs_model_open_file(&index, NULL, path, &error) : NULL;
    bool ok = model || fail(&error);
    for (int32_t tile = 32; tile <= 128 && ok; tile += 32)
        ok = only ? tile > 32 || tiles_of(model, only, rounds, frame) : tiles_of(model, tile, rounds, frame);
    bs_model_close(model);
    arenas_free(&all);
    return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}
