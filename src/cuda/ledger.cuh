/* ledger.cuh - what a run launched, for bs_cuda_launches: a record for each launch of the plan, in order.
 *
 * Each launch is counted before it runs (a region before and after: tiles decide by themselves), so a recorded run
 * waits for every step; it launches what any run does, and gives the same bytes. At its end the records learn what had
 * to be moved: weights and inputs that are read for the first time, outputs that are written for the first time.
 * Relies on ledger_counts.cuh and tables.cuh. Must never change what is launched. */
#ifndef BS_CUDA_LEDGER
#define BS_CUDA_LEDGER

#include "cuda/ledger_counts.cuh"
#include "cuda/tables.cuh"

static const char *bs_cu_launch_name(int32_t kernel)
{
    static const char *const names[] = {
        "none",
#define BS_CU_NAME(name) #name,
        BS_CU_KERNELS(BS_CU_NAME) BS_CU_OTHER_LAUNCHES(BS_CU_NAME)
#undef BS_CU_NAME
    };
    return names[kernel];
}

/* Whether a launch is the one that its steps were made for: others follow it, on the same steps. */
static bool bs_cu_ledger_leads(const bs_device_launch *l, const bs_device_step *step)
{
    return bs_cu_is_region(l->kernel) || l->kernel == step->kernel;
}

/* ----------------------------------------------------------------------------------------- identities, weights */

/* Whether a is stored in the order in which b is; dimension i of a is turned[i] of b. */
static bool bs_cu_ledger_in_order(const bs_device_operand *a, const bs_device_operand *b, const int32_t *turned)
{
    bool same = a->rank == b->rank;
    for (int32_t j = 1; same && j < a->rank; j++)
        for (int32_t i = 0; i < j; i++) {
            const int32_t k = turned ? turned[i] : i, l = turned ? turned[j] : j;
            same = same && (a->dim[i] == 1 || a->dim[j] == 1 ||
                            (a->stride[i] > a->stride[j]) == (b->stride[k] > b->stride[l]));
        }
    return same;
}

/* Whether elements lie one behind the other, the last dimension fastest. */
static bool bs_cu_ledger_is_line(const bs_device_operand *o)
{
    int64_t stride = 1;
    bool line = o->cell == 0;
    for (int32_t i = o->rank - 1; i >= 0; i--) {
        line = line && (o->dim[i] == 1 || o->stride[i] == stride);
        stride *= o->dim[i];
    }
    return line;
}

/* Whether a step copies elements as they are, and as they lie: nothing changes but the place. To and from the shared
 * memory of a tile is none. */
static bool bs_cu_ledger_is_identity(const bs_device_session *s, const bs_device_step *step)
{
    if (step->n_in == 0 || step->n_out == 0)
        return false;
    const bs_device_operand out = bs_cu_operand_here(s, step->operands + step->n_in);
    bs_device_operand in = bs_cu_operand_here(s, step->operands);
    for (int32_t i = 1; i < step->n_in && in.base == 0; i++)
        in = bs_cu_operand_here(s, step->operands + i); /* of the paths that give a value the first */
    int32_t turned[BS_MAX_AXES];
    for (int32_t i = 0; i < BS_MAX_AXES; i++)
        turned[i] = step->p[i].i;
    if (in.dtype != out.dtype || in.place == BS_AT_TILE || out.place == BS_AT_TILE)
        return false;
    switch (step->kernel) {
    case BS_CU_store:
    case BS_CU_append:
    case BS_CU_fill:
    case BS_CU_slice: return bs_cu_ledger_in_order(&in, &out, NULL);
    case BS_CU_paths:
        return step->p[BS_CU_GATHER_COMBINE].i == BS_COMBINE_SELECT && bs_cu_ledger_in_order(&in, &out, NULL);
    case BS_CU_transpose: return bs_cu_ledger_in_order(&out, &in, turned);
    case BS_CU_reshape:
        return step->p[BS_CU_RESHAPE_TURNED].i == BS_CU_TURN_NONE && bs_cu_ledger_is_line(&in) &&
               bs_cu_ledger_is_line(&out);
    default: return false;
    }
}

static uint64_t bs_cu_ledger_weights(const bs_device_session *s, const bs_device_step *step)
{
    const bs_plan *p = s->client->plan;
    return bs_bytes_figure(p->nodes[p->nodes[step->node].owner].prepared_bytes);
}

/* ------------------------------------------------------------------------------------------------- counting */

/* The record of a launch; NULL: there is no room for it. One of a part of a region is the region's. */
static bs_cuda_launch *bs_cu_ledger_of(const bs_device_session *s, const bs_device_launch *l)
{
    const bs_device_launch *list = s->launches.list;
    int32_t at = (int32_t)(l - list);
    if (bs_cu_is_region(l->kernel))
        for (at = 0; !bs_cu_is_region(list[at].kernel) || l->first < list[at].first ||
                     l->first >= list[at].first + list[at].count;)
            at++;
    at++; /* [0]: bs_cu_begin */
    return at < s->device->room ? &s->device->launches[at] : NULL;
}

/* Asks the device about a step. of: whose rows are to be told. */
static bs_status bs_cu_ledger_ask(bs_device_session *s, int32_t step, int32_t of, bs_cu_when when,
                                  bs_cu_counted *counted, bs_error *error)
{
    static_assert(sizeof *counted <= BS_ALIGNMENT, "the results of a run, which come later, have room for it");
    BS_LAUNCH(bs_cu_count_step, 1, (unsigned)s->threads, 0, s->stream, s->program, step, of, when,
              bs_cu_at<bs_cu_counted>(s->pinned_there + s->layout.results));
    bs_status status = bs_cu_check(cudaGetLastError(), "counting a step", error);
    if (status == BS_OK)
        status = bs_cu_session_settle(s, error);
    if (status == BS_OK)
        memcpy(counted, s->pinned + s->layout.results, sizeof *counted);
    return status;
}

static void bs_cu_ledger_moves(const bs_device_session *s, const bs_device_step *step, int64_t bytes,
                               bs_cuda_launch *record)
{
    record->bytes += (uint64_t)bytes;
    record->identity_bytes += bs_cu_ledger_is_identity(s, step) ? (uint64_t)bytes : 0;
}

/* A region: its tiles; what its steps have moved afterwards without what they had before. */
static bs_status bs_cu_ledger_region(bs_device_session *s, const bs_device_launch *l, bool after, int32_t blocks,
                                     bs_cuda_launch *record, bs_error *error)
{
    const bs_device_part *parts = bs_cu_table<bs_device_part>(s, s->layout.parts_at);
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    bs_status status = BS_OK;
    int64_t tiles = 0;
    for (int32_t k = l->first; k < l->first + l->count; k++) {
        bs_cu_counted c = {0, 0, 0, 0};
        for (int32_t i = parts[k].first; i < parts[k].first + parts[k].count && status == BS_OK; i++) {
            status = bs_cu_ledger_ask(s, i, parts[k].domain, after ? BS_CU_AFTER_TILES : BS_CU_BEFORE_TILES, &c, error);
            bs_cu_ledger_moves(s, &steps[i], after ? c.bytes : -c.bytes, record);
            record->bytes += after && c.all > 0 ? bs_cu_ledger_weights(s, &steps[i]) : 0;
        }
        tiles += bs_ceil_div(c.rows, parts[k].tile_rows);
    }
    record->items += after ? tiles : 0;
    record->empty += after && tiles < blocks ? blocks - tiles : 0;
    return status;
}

static bs_status bs_cu_ledger_steps(bs_device_session *s, const bs_device_launch *l, int32_t blocks,
                                    bs_cuda_launch *record, bs_error *error)
{
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    bs_status status = BS_OK;
    int64_t items = 0, all = 0;
    for (int32_t k = l->first; k < l->first + l->count && status == BS_OK; k++) {
        const bs_device_step *step = &steps[k];
        bs_cu_counted c = {0, 0, 0, 0};
        status = bs_cu_ledger_ask(s, k, step->domain, BS_CU_NOW, &c, error);
        if (bs_cu_sees_all_rows(l->kernel)) { /* a block a chunk of rows, or one for all */
            all = blocks;
            items = bs_max_i64(1, bs_min_i64(bs_ceil_div(c.rows, step->batch), blocks));
        } else {
            all += c.all;
            items += c.items;
        }
        if (!bs_cu_ledger_leads(l, step))
            continue;
        bs_cu_ledger_moves(s, step, c.bytes, record);
        record->bytes += c.rows > 0 ? bs_cu_ledger_weights(s, step) : 0;
    }
    record->items += items;
    record->empty += all - items + (all < blocks ? blocks - all : 0);
    return status;
}

/* Counts a launch: called before it and, after, when it is queued. */
static bs_status bs_cu_ledger_launch(bs_device_session *s, const bs_device_launch *l, bool after, bs_error *error)
{
    bs_cuda_launch *record = s->device->launches ? bs_cu_ledger_of(s, l) : NULL;
    const int32_t blocks = bs_cu_blocks(s, l);
    if (!record || (after && !bs_cu_is_region(l->kernel)))
        return BS_OK;
    record->times += !after;
    record->blocks = bs_max_i32(record->blocks, blocks);
    if (bs_cu_is_region(l->kernel))
        return bs_cu_ledger_region(s, l, after, blocks, record, error);
    if (bs_cu_is_kernel(l->kernel) || blocks == 0)
        return bs_cu_ledger_steps(s, l, blocks, record, error);
    record->items += blocks; /* bs_cu_extend */
    return BS_OK;
}

/* Empty records of all launches of the plan, as a run begins. */
static void bs_cu_ledger_begin(bs_device_session *s)
{
    const bs_device_part *parts = bs_cu_table<bs_device_part>(s, s->layout.parts_at);
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    bs_cu_device *d = s->device;
    if (!d->launches) /* others may run on this device meanwhile: nothing is written */
        return;
    d->recorded = 1 + s->launches.count;
    for (int32_t k = 0; k < d->recorded && k < d->room; k++) {
        bs_cuda_launch *record = &d->launches[k];
        memset(record, 0, sizeof *record);
        record->kernel = k ? bs_cu_launch_name(s->launches.list[k - 1].kernel) : "begin";
        if (k == 0) {
            record->times = 1;
            record->blocks = BS_CU_TABLE_BLOCKS;
            record->items = BS_CU_TABLE_BLOCKS;
            continue;
        }
        const bs_device_launch *l = &s->launches.list[k - 1];
        const bool region = bs_cu_is_region(l->kernel);
        record->node = s->client->graph->nodes[steps[region ? parts[l->first].first : l->first].node].number;
        for (int32_t i = l->first; i < l->first + l->count; i++)
            record->steps += region ? parts[i].count : 1;
    }
}

/* --------------------------------------------------------------------------------------------------- the least */

/* Rows of a domain in the run that has ended, of all trips and tiles together. */
static int64_t bs_cu_ledger_rows_of_run(const bs_device_session *s, int32_t domain)
{
    const bs_device_client *c = s->client;
    const bs_domain *d = &c->graph->domains[domain];
    if (d->kind == BS_DOMAIN_PATH)
        return c->counts[c->graph->routers[d->router].first_path + d->path];
    return domain == 0 ? 1 : bs_domain_maker(c->graph, domain) ? c->dims[d->rows] : c->domains[domain].count;
}

/* The node whose buffer is entry `bound` of the table of what is bound. */
static int32_t bs_cu_ledger_bound_node(const bs_device_session *s, int32_t bound)
{
    int32_t n = s->client->graph->n_nodes - 1;
    while (n > 0 && (bound == 0 || s->at[n].entry != bound))
        n--;
    return n;
}

/* Whether a step before number `at` that had rows did the same: has these weights, or this operand. */
static bool bs_cu_ledger_before(const bs_device_session *s, int32_t at, const bs_device_step *weights,
                                const bs_device_operand *operand)
{
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    const bs_device_operand *all = bs_cu_table<bs_device_operand>(s, s->layout.operands_at);
    bool found = false;
    for (int32_t k = 0; k < at && !found; k++) {
        if (bs_cu_ledger_rows_of_run(s, steps[k].domain) == 0)
            continue;
        found = weights && steps[k].unit == weights->unit && steps[k].prepared == weights->prepared &&
                bs_cu_ledger_weights(s, &steps[k]) > 0;
        for (int32_t i = steps[k].operands; operand && i < steps[k].operands + steps[k].n_in + steps[k].n_out; i++)
            found = found || (all[i].bound == operand->bound && (operand->bound || all[i].base == operand->base));
    }
    return found;
}

/* What must move of operand i of a step, if no step before has moved it: an input or output that is bound, a constant.
 */
static uint64_t bs_cu_ledger_least_operand(const bs_device_session *s, int32_t at, const bs_device_step *step,
                                           int32_t i)
{
    const bs_device_client *c = s->client;
    const bs_device_operand o = bs_cu_operand_here(s, step->operands + i),
                            out = bs_cu_operand_here(s, step->operands + step->n_in);
    const int32_t node = bs_cu_ledger_bound_node(s, o.bound);
    const bs_node *n = &c->graph->nodes[node];
    const uint64_t weights = (uint64_t)(uintptr_t)c->weights,
                   whole = bs_bytes_figure(c->plan->weight_bytes);
    const bool constant = o.place == BS_AT_ROOT && o.bound == 0 && o.base >= weights && o.base - weights < whole;
    for (int32_t k = 0; k < i; k++) { /* twice in one step */
        const bs_device_operand *twin = bs_cu_table<bs_device_operand>(s, s->layout.operands_at) + step->operands + k;
        if (twin->bound == o.bound && (o.bound || twin->base == o.base))
            return 0;
    }
    if (!(constant || (node && (bs_node_is_input(n) || bs_node_is_output(n)))) || bs_cu_ledger_before(s, at, NULL, &o))
        return 0;
    uint64_t bytes = bs_dtype_bytes((bs_dtype)o.dtype);
    if (constant) {
        const int64_t read = bs_cu_product(out.dim, out.rank) * bs_cu_ledger_rows_of_run(s, step->domain);
        const int64_t elements = bs_cu_product(o.dim, o.rank);
        return bytes * (uint64_t)(bs_cu_ledger_reads_part(step->kernel) && read < elements ? read : elements);
    }
    const bs_value_info *v = &c->graph->values[bs_bound_value(c->graph, n)];
    for (int32_t d = 0; d < v->rank; d++)
        bytes *= (uint64_t)c->dims[v->dims[d]];
    return bytes;
}

static uint64_t bs_cu_ledger_least_step(const bs_device_session *s, int32_t at)
{
    const bs_device_step *step = bs_cu_table<bs_device_step>(s, s->layout.steps_at) + at;
    uint64_t bytes = 0;
    if (bs_cu_ledger_rows_of_run(s, step->domain) == 0)
        return 0;
    if (!bs_cu_ledger_before(s, at, step, NULL))
        bytes = bs_cu_ledger_weights(s, step);
    for (int32_t i = 0; i < step->n_in + step->n_out; i++)
        bytes += bs_cu_ledger_least_operand(s, at, step, i);
    return bytes;
}

/* A run has ended, and its counts are there. */
static void bs_cu_ledger_end(bs_device_session *s)
{
    const bs_device_part *parts = bs_cu_table<bs_device_part>(s, s->layout.parts_at);
    const bs_device_step *steps = bs_cu_table<bs_device_step>(s, s->layout.steps_at);
    for (int32_t k = 0; k < s->launches.count && s->device->launches && k + 1 < s->device->room; k++) {
        const bs_device_launch *l = &s->launches.list[k];
        bs_cuda_launch *record = &s->device->launches[k + 1];
        for (int32_t i = l->first; i < l->first + l->count; i++) {
            const bool region = bs_cu_is_region(l->kernel);
            const int32_t first = region ? parts[i].first : i, end = region ? first + parts[i].count : i + 1;
            for (int32_t at = first; at < end; at++)
                record->least_bytes += bs_cu_ledger_leads(l, &steps[at]) ? bs_cu_ledger_least_step(s, at) : 0;
        }
    }
}

extern "C" int32_t bs_cuda_launches(bs_device *device, bs_cuda_launch *launches, int32_t room)
{
    bs_cu_device *d = reinterpret_cast<bs_cu_device *>(device);
    if (!d)
        return 0;
    const int32_t recorded = d->recorded;
    d->launches = launches;
    d->room = launches ? room : 0;
    d->recorded = 0;
    return recorded;
}

#endif
