/* ops/unique.c - the different elements of a value, in rising order: unique.
 * Relies on common.h for the dimension that a node makes, found.h for the order, base/sort.c. Must never write an
 * element beyond its maximum: what there is is counted all the same, and the run then ends (run/extents.c). */
#include "ops/common.h"
#include "ops/found.h"

static const bs_field unique_fields[] = {BS_INT_OF("maximum", 0, 1 << 30)};

enum { UNIQUE_VALUES, UNIQUE_FIRST, UNIQUE_INVERSE, UNIQUE_COUNTS, UNIQUE_OUTPUTS };

static bool unique_infer(bs_infer *infer)
{
    const bs_value_info *x = infer->in[0];
    if (!bs_infer_number(infer, 0) || !bs_infer_rank(infer, 0, 1, BS_MAX_RANK))
        return false;
    const int64_t elements = (int64_t)bs_bytes_figure(bs_value_elements(infer->graph, x));
    if (elements > INT32_MAX)
        return bs_infer_fail(infer, BS_ERROR_LIMIT, "operand 0 has 2^31 elements or more");
    const bs_dim_id found = bs_infer_found_dim(infer, ((const bs_extent_desc *)infer->params)->maximum, elements);
    infer->n_out = UNIQUE_OUTPUTS;
    for (int32_t i = 0; i < UNIQUE_OUTPUTS; i++) {
        bs_value_info *out = &infer->out[i];
        out->dtype = i == UNIQUE_VALUES ? x->dtype : BS_I32;
        if (i == UNIQUE_INVERSE)
            continue; /* of the shape of x: a product of symbols would be no dimension */
        bs_value_set_rank(out, 1);
        out->dims[0] = found;
    }
    return found >= 0;
}

/* For each element a key, an id and room to sort ids; on a device a key with its id, and where an element begins. */
static void unique_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h, int32_t max_w,
                        bs_node_plan *plan)
{
    (void)choice, (void)max_h, (void)max_w;
    const bs_value_info *x = bs_value_get(graph, bs_node_in(graph, node)[0]);
    plan->scratch_bytes = bs_bytes_times(bs_value_elements(graph, x), 3 * sizeof(uint32_t));
}

/* Element `index` of an operand, the last dimension fastest. */
static void *element_at(const bs_operand *o, int64_t index)
{
    int64_t at = 0;
    for (int32_t d = o->rank - 1; d >= 0; d--) {
        at += index % o->dim[d] * o->stride[d];
        index /= o->dim[d];
    }
    return bs_operand_at(o, at);
}

static bool key_is_less(const void *keys, int32_t a, int32_t b)
{
    return ((const uint32_t *)keys)[a] < ((const uint32_t *)keys)[b];
}

static int32_t *count_at(const bs_call *call, int32_t output, int64_t row)
{
    return bs_operand_at(&call->out[output], row * call->out[output].stride[0]);
}

/* One more element, in order: of those before it, or the first of its kind. */
static void unique_put(const bs_call *call, int32_t id, bool first)
{
    const int64_t row = (*call->extent += first) - 1;
    *(int32_t *)element_at(&call->out[UNIQUE_INVERSE], id) = (int32_t)row;
    if (row >= call->out[UNIQUE_VALUES].dim[0])
        return;
    if (first) {
        memcpy(count_at(call, UNIQUE_VALUES, row), element_at(&call->in[0], id), sizeof(int32_t));
        *count_at(call, UNIQUE_FIRST, row) = id;
        *count_at(call, UNIQUE_COUNTS, row) = 0;
    }
    ++*count_at(call, UNIQUE_COUNTS, row);
}

static bs_status unique_run(const bs_call *call)
{
    const bs_operand *x = &call->in[0];
    int32_t n = 1;
    for (int32_t d = 0; d < x->rank; d++)
        n *= x->dim[d];
    uint32_t *keys = call->scratch;
    int32_t *ids = (int32_t *)keys + n;
    for (int32_t i = 0; i < n; i++) {
        keys[i] = bs_order_key(x->dtype, *(const uint32_t *)element_at(x, i));
        ids[i] = i;
    }
    bs_sort(ids, ids + n, n, key_is_less, keys);
    for (int32_t i = 0; i < n; i++)
        unique_put(call, ids[i], i == 0 || keys[ids[i]] != keys[ids[i - 1]]);
    return BS_OK;
}

static const bs_op_rules unique_rules = {.plan = unique_plan};

const bs_op bs_op_unique = {.name = "unique",
                            .min_in = 1,
                            .more_out = UNIQUE_OUTPUTS - 1,
                            .roles = {BS_ROLE_DECIDING},
                            .layout = {.empty = true},
                            BS_PARAMS(bs_extent_desc, unique_fields),
                            .infer = unique_infer,
                            .memory = {.on_device = true},
                            .rules = &unique_rules,
                            .run = unique_run};

bs_value bs_unique(bs_graph *graph, bs_value x, const bs_extent_desc *desc, bs_value *outputs)
{
    const bs_node *node = bs_op_build_node(graph, &bs_op_unique, &x.id, 1, desc);
    const bs_value values = {node ? node->first_out : 0};
    for (int32_t i = 0; outputs && i < UNIQUE_OUTPUTS; i++)
        outputs[i].id = node ? node->first_out + i : 0;
    return values;
}
