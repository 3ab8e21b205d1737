/* ops/trees.c - the structure of trees and graphs whose vertices are rows: children, levels.
 * Relies on common.h and trees.h. Must never let an index that was not checked reach an address. */
#include "ops/common.h"
#include "ops/trees.h"

static const bs_field children_fields[] = {BS_INT_OF("slots", 1, 1 << 15)};

/* ---------------------------------------------------------------------------------------------------- children */

static bool children_infer(bs_infer *infer)
{
    bs_value_info *out = &infer->out[0];
    for (int32_t i = 0; i < 2; i++)
        if (!bs_infer_dtype(infer, i, BS_I32) || !bs_infer_rank(infer, i, 1, 1))
            return false;
    if (!bs_infer_root(infer, 0)) /* operand 1 is of the same domain */
        return false;
    bs_value_set_rank(out, 2);
    out->dims[1] = bs_dim_const(infer->graph, ((const bs_children_params *)infer->params)->slots);
    return true;
}

static int32_t *index_at(const bs_operand *o, int64_t row, int64_t slot)
{
    return bs_operand_at(o, row * o->stride[0] + slot * o->stride[1]);
}

static bs_status children_run(const bs_call *call)
{
    const bs_operand *lengths = &call->in[0], *indices = &call->in[1], *out = &call->out[0];
    int32_t taken = 0;
    for (int32_t row = 0; row < out->dim[0]; row++) {
        const int32_t length = bs_read_once(index_at(lengths, row, 0)),
                      most = bs_min_i32(out->dim[1], indices->dim[0] - taken);
        if (length < 0 || length > most)
            return bs_call_fail(call, "row %" PRId32 " has %" PRId32 " children, expected 0 .. %" PRId32, row, length,
                                most);
        for (int32_t k = 0; k < out->dim[1]; k++)
            *index_at(out, row, k) = k < length ? *index_at(indices, taken + k, 0) : -1;
        taken += length;
    }
    return BS_OK;
}

const bs_op bs_op_children = {.name = "children",
                              .min_in = 2,
                              .rows = {.refuses = true},
                              .roles = {BS_ROLE_DECIDING, BS_ROLE_DECIDING},
                              BS_PARAMS(bs_children_params, children_fields),
                              .infer = children_infer,
                              .run = children_run};

bs_value bs_children(bs_graph *graph, bs_value lengths, bs_value indices, int32_t slots)
{
    return bs_op_build_two(graph, lengths, indices, &(bs_children_params){"", slots}, &bs_op_children);
}

/* ------------------------------------------------------------------------------------------------------ levels */

static bool levels_infer(bs_infer *infer)
{
    bs_value_info *out = &infer->out[0];
    if (!bs_infer_root(infer, 0) || !bs_infer_dtype(infer, 0, BS_I32) || !bs_infer_rank(infer, 0, 2, 2) ||
        !bs_infer_field(infer, "children", (int64_t)bs_bytes_figure(bs_value_elements(infer->graph, infer->in[0])), 1,
                        INT32_MAX))
        return false;
    out->dims[1] = bs_dim_const(infer->graph, 1);
    return true;
}

/* For each row the list of rows above it, and how many of its children have no level yet; for each index the next one
 * of its list; and the rows that have a level, in the order in which they got it. */
static void levels_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h, int32_t max_w,
                        bs_node_plan *plan)
{
    (void)choice, (void)max_h, (void)max_w;
    const bs_value_info *x = bs_value_get(graph, bs_node_in(graph, node)[0]);
    plan->scratch_bytes = bs_bytes_add(
        bs_bytes_times(bs_value_elements(graph, x), sizeof(int32_t)),
        bs_bytes_times(bs_value_elements(graph, bs_value_get(graph, node->first_out)),
                       BS_LEVEL_WORDS * sizeof(int32_t)));
}

typedef struct levels_job {
    const bs_operand *children, *levels;
    bs_level_lists lists;
    int32_t done; /* rows that have a level */
} levels_job;

/* Row `row` has its level, when `waits` of its children have none yet. */
static void levels_put(levels_job *job, int32_t row, int32_t level, int32_t waits)
{
    *index_at(job->levels, row, 0) = level;
    if (waits == 0)
        job->lists.order[job->done++] = row;
}

static bs_status levels_list(const bs_call *call, levels_job *job)
{
    const int32_t rows = job->children->dim[0], slots = job->children->dim[1];
    for (int32_t row = 0; row < rows; row++)
        job->lists.above[row] = -1;
    for (int32_t row = 0; row < rows; row++) {
        int32_t waits = 0;
        for (int32_t k = 0; k < slots; k++) {
            const int32_t child = bs_read_once(index_at(job->children, row, k)), at = row * slots + k;
            if (child < -1 || child >= rows)
                return bs_call_fail(call,
                                    "child %" PRId32 " of row %" PRId32 " is %" PRId32 ", expected -1 .. %" PRId32, k,
                                    row, child, rows - 1);
            if (child < 0)
                continue;
            job->lists.next[at] = job->lists.above[child];
            job->lists.above[child] = at;
            waits++;
        }
        job->lists.waits[row] = waits;
        levels_put(job, row, 1, waits);
    }
    return BS_OK;
}

/* A row has its level when its last child has one. Rows get theirs in rising order, so that child has the highest. */
static bs_status levels_run(const bs_call *call)
{
    const int32_t rows = call->in[0].dim[0], slots = call->in[0].dim[1];
    levels_job job = {&call->in[0], &call->out[0], bs_level_lists_in(call->scratch, rows), 0};
    const bs_status status = levels_list(call, &job);
    for (int32_t i = 0; i < job.done && status == BS_OK; i++) {
        const int32_t row = job.lists.order[i], level = *index_at(job.levels, row, 0) + 1;
        for (int32_t at = job.lists.above[row]; at >= 0; at = job.lists.next[at]) {
            const int32_t parent = at / slots;
            levels_put(&job, parent, level, --job.lists.waits[parent]);
        }
    }
    int32_t row = 0;
    while (status == BS_OK && row < rows && job.lists.waits[row] == 0)
        row++;
    return status != BS_OK || row == rows ? status
                                          : bs_call_fail(call, "the children of row %" PRId32 " go round", row);
}

static const bs_op_rules levels_rules = {.plan = levels_plan};

const bs_op bs_op_levels = {.name = "levels",
                            .min_in = 1,
                            .rows = {.refuses = true},
                            .roles = {BS_ROLE_DECIDING},
                            .infer = levels_infer,
                            .memory = {.on_device = true},
                            .rules = &levels_rules,
                            .run = levels_run};

bs_value bs_levels(bs_graph *graph, bs_value children)
{
    return bs_op_build_one(graph, children, NULL, &bs_op_levels);
}
