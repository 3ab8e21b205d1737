/* ops/recurrent.c - one step of an LSTM or a GRU on the last dimension, with PyTorch's weights.
 * Relies on kernels/recurrent.h, whose arithmetic does not depend on how many rows there are, and span.h for lines.
 * Must never let rows influence each other. */
#include "ops/forms.h"

static const bs_field recurrent_fields[] = {BS_INT("no_bias"), BS_INT_OF("projected", 0, 1)};

enum { RECURRENT_MOST = 1 << 20 }; /* units */

/* The last dimensions of x and h: what a node needs of its operands. */
static bs_recurrent recurrent_of(const bs_graph *graph, const bs_node *node)
{
    const int32_t *in = bs_node_in(graph, node);
    const bs_value_info *x = bs_value_get(graph, in[0]), *h = bs_value_get(graph, in[1]);
    const bs_recurrent_desc *desc = node->params;
    const bs_recurrent net = {desc->projected ? 0 : (int32_t)bs_dim_max(graph, x->dims[x->rank - 1]),
                              (int32_t)bs_dim_max(graph, h->dims[h->rank - 1]), bs_node_own_in(graph, node) == 2};
    return net;
}

static bool recurrent_infer(bs_infer *infer)
{
    const int32_t last = infer->in[0]->rank - 1;
    int32_t inputs, hidden;
    for (int32_t i = 0; i < infer->n_in; i++)
        if (!bs_infer_lines(infer, i) || !bs_infer_like(infer, i, last))
            return false;
    if (!bs_infer_const(infer, 0, last, "features", &inputs) || !bs_infer_const(infer, 1, last, "units", &hidden))
        return false;
    if (hidden > RECURRENT_MOST)
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "dimension %" PRId32 " of operand 1 (units) is %" PRId32 ", expected at most %d", last,
                             hidden, RECURRENT_MOST);
    if (infer->n_in == 3 && infer->in[2]->dims[last] != infer->in[1]->dims[last])
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "dimension %" PRId32 " of operand 1 is %" PRId32 ", of operand 2 %s", last, hidden,
                             bs_say_dim(infer, infer->in[2]->dims[last]));
    const bs_recurrent net = {0, hidden, infer->n_in == 2};
    if (((const bs_recurrent_desc *)infer->params)->projected && inputs != bs_recurrent_width(&net))
        return bs_infer_fail(infer, BS_ERROR_SHAPE,
                             "dimension %" PRId32 " of operand 0 is %" PRId32 ", expected %" PRId32 ": its %" PRId32
                             " gates of %" PRId32 " units",
                             last, inputs, bs_recurrent_width(&net), bs_recurrent_gates(net.gru), hidden);
    infer->n_out = infer->n_in - 1;
    infer->out[0].dims[last] = infer->out[1].dims[last] = infer->in[1]->dims[last];
    return true;
}

static double recurrent_flops(const bs_graph *graph, const bs_node *node)
{
    const bs_recurrent net = recurrent_of(graph, node);
    return 2.0 * bs_recurrent_gates(net.gru) * ((double)net.inputs + net.hidden) *
           bs_value_work(graph, node->first_out);
}

/* ---------------------------------------------------------------------------------------------------- weights */

static int32_t recurrent_weights(const bs_graph *graph, const bs_node *node, bs_weight_spec *specs)
{
    const bs_recurrent_desc *desc = node->params;
    const bs_recurrent net = recurrent_of(graph, node);
    const int32_t lines = bs_recurrent_gates(net.gru) * net.hidden;
    int32_t count = 0;
    if (!desc->projected)
        specs[count++] = bs_weight_of("weight_ih", 2, lines, net.inputs, 0, 0);
    specs[count++] = bs_weight_of("weight_hh", 2, lines, net.hidden, 0, 0);
    if (!desc->no_bias && !desc->projected)
        specs[count++] = bs_weight_vector("bias_ih", lines);
    if (!desc->no_bias)
        specs[count++] = bs_weight_vector("bias_hh", lines);
    return count;
}

/* Lines of x and h as a device wants them, or as they are, or in the panels of a tier; then biases. */
bs_recurrent_layout bs_recurrent_place(const bs_recurrent *net, const bs_node_plan *plan)
{
    const int32_t lines = bs_recurrent_gates(net->gru) * net->hidden;
    bs_recurrent_layout layout;
    layout.of_h = bs_bytes_align(bs_bytes_times(bs_linear_line(plan, net->inputs), lines));
    layout.bias = bs_bytes_align(bs_bytes_add(layout.of_h, bs_bytes_times(bs_linear_line(plan, net->hidden), lines)));
    if (plan->algorithm != BS_CONV_REFERENCE)
        layout.bias = bs_bytes_align(
            bs_bytes_times(bs_bytes_of(bs_recurrent_floats((bs_tier)plan->tier, net)), sizeof(float)));
    layout.bytes = bs_bytes_align(bs_bytes_add(
        layout.bias, bs_bytes_times(bs_bytes_array(net->hidden, sizeof(float)), BS_RECURRENT_COLUMNS)));
    return layout;
}

/* Lines for operands whose last dimension is not contiguous: x, h, c, h', c'. Then the sums. */
static bs_bytes recurrent_line(int32_t n) { return bs_bytes_align(bs_bytes_array(n, sizeof(float))); }

static void recurrent_plan(const bs_graph *graph, const bs_node *node, bs_conv_choice choice, int32_t max_h,
                           int32_t max_w, bs_node_plan *plan)
{
    const bs_recurrent net = recurrent_of(graph, node);
    const bs_tier tier = (bs_tier)plan->tier;
    (void)max_h, (void)max_w;
    const bool fast = tier != BS_TIER_CUDA && choice != BS_CONV_FORCE_REFERENCE && bs_recurrent_floats(tier, &net) > 0;
    plan->algorithm = fast ? BS_CONV_DIRECT : BS_CONV_REFERENCE;
    plan->prepared_bytes = bs_recurrent_place(&net, plan).bytes;
    if (tier != BS_TIER_CUDA)
        plan->scratch_bytes = bs_bytes_add(
            bs_bytes_add(recurrent_line(bs_recurrent_width(&net)), bs_bytes_times(recurrent_line(net.hidden), 4)),
            bs_bytes_array(fast ? (int64_t)bs_recurrent_scratch_floats(tier, &net) : 0, sizeof(float)));
}

/* The biases of a unit's column, both where both products go to it; the one of h is the last weight. */
static float recurrent_bias(const bs_recurrent *net, const void *const *weights, int32_t column, int32_t unit)
{
    const int32_t gates = bs_recurrent_gates(net->gru), of_h = column - (BS_RECURRENT_COLUMNS - gates);
    const float *bias_ih = weights[2], *bias_hh = weights[net->inputs > 0 ? 3 : 1];
    float sum = 0.0f;
    if (column < gates && net->inputs > 0)
        sum += bias_ih[(ptrdiff_t)bs_recurrent_gate(net->gru, false, column) * net->hidden + unit];
    if (of_h >= 0)
        sum += bias_hh[(ptrdiff_t)bs_recurrent_gate(net->gru, true, of_h) * net->hidden + unit];
    return sum;
}

/* Groups of at most `most` units. */
static void recurrent_biases(const bs_recurrent *net, const void *const *weights, int32_t most, float *to)
{
    for (int32_t first = 0; first < net->hidden; first += most)
        for (int32_t column = 0; column < BS_RECURRENT_COLUMNS; column++)
            for (int32_t unit = first; unit < net->hidden && unit < first + most; unit++)
                *to++ = weights ? recurrent_bias(net, weights, column, unit) : 0.0f;
}

static void recurrent_prepare(const bs_graph *graph, const bs_node *node, const bs_node_plan *plan,
                              const void *const *weights, int32_t first, int32_t count, void *prepared)
{
    const bs_recurrent_desc *desc = node->params;
    const bs_recurrent net = recurrent_of(graph, node);
    const bs_recurrent_layout layout = bs_recurrent_place(&net, plan);
    const bs_tier tier = (bs_tier)plan->tier;
    const int32_t lines = bs_recurrent_gates(net.gru) * net.hidden;
    const bool plain = plan->algorithm == BS_CONV_REFERENCE;
    const void *of_h = weights[net.inputs > 0];
    (void)first, (void)count; /* all of it: not by_rows */
    if (!plain) {
        bs_recurrent_prepare(tier, &net, weights[0], of_h, prepared);
    } else {
        bs_linear_lines(plan, net.inputs, lines, weights[0], prepared);
        bs_linear_lines(plan, net.hidden, lines, of_h, bs_bytes_at(prepared, layout.of_h));
    }
    recurrent_biases(&net, desc->no_bias ? NULL : weights, plain ? net.hidden : bs_recurrent_units(tier, net.gru),
                     (float *)(void *)bs_bytes_at(prepared, layout.bias));
}

/* -------------------------------------------------------------------------------------------------------- run */

/* Operands of a call as the walk has them: h', c' of an LSTM, x, h, c of an LSTM. */
enum { RECURRENT_OPERANDS = 5 };

typedef struct recurrent_job {
    const bs_call *call;
    bs_recurrent net;
    bs_recurrent_layout layout;
    int32_t x, operands;                /* where x is among them */
    ptrdiff_t step[RECURRENT_OPERANDS]; /* of the last dimension, in floats */
} recurrent_job;

static const float *recurrent_prepared(const recurrent_job *job, bs_bytes offset)
{
    return (const float *)(const void *)bs_bytes_read_at(job->call->prepared, offset);
}

/* Floats of a line of an operand. */
static int32_t recurrent_width(const recurrent_job *job, int32_t operand)
{
    return operand == job->x ? bs_recurrent_width(&job->net) : job->net.hidden;
}

/* Adds the products of x (or h), in order, to the sums of a unit. */
static void recurrent_sum(const bs_recurrent *net, bool of_h, const float *weights, const float *x, int32_t unit,
                          float *sums)
{
    const int32_t n = of_h ? net->hidden : net->inputs, gates = bs_recurrent_gates(net->gru);
    for (int32_t i = 0; i < gates; i++) {
        const float *line = weights + ((ptrdiff_t)bs_recurrent_gate(net->gru, of_h, i) * net->hidden + unit) * n;
        float *sum = &sums[of_h ? i + BS_RECURRENT_COLUMNS - gates : i];
        for (int32_t k = 0; k < n; k++)
            *sum += x[k] * line[k];
        if (n == 0)
            *sum += x[(ptrdiff_t)bs_recurrent_gate(net->gru, false, i) * net->hidden + unit];
    }
}

/* One dense line of each operand, in plain loops. */
static void recurrent_line_reference(const recurrent_job *job, float *const *at)
{
    const bs_recurrent *net = &job->net;
    const float *x = at[job->x], *h = at[job->x + 1], *bias = recurrent_prepared(job, job->layout.bias);
    for (int32_t unit = 0; unit < net->hidden; unit++) {
        float sums[BS_RECURRENT_COLUMNS];
        for (int32_t i = 0; i < BS_RECURRENT_COLUMNS; i++)
            sums[i] = bias[(ptrdiff_t)i * net->hidden + unit];
        recurrent_sum(net, false, job->call->prepared, x, unit, sums);
        recurrent_sum(net, true, recurrent_prepared(job, job->layout.of_h), h, unit, sums);
        at[0][unit] = net->gru ? bs_gru_step(sums, h[unit]) : bs_lstm_step(sums, at[4][unit], &at[1][unit]);
    }
}

/* Dense lines: one of each operand, or many with a step in floats between them. */
static void recurrent_dense(const recurrent_job *job, int64_t n, float *const *at, const ptrdiff_t *row, float *sums)
{
    const int32_t x = job->x, c = job->operands - 1, c_out = x - 1; /* of a gru: h and h' again, unread */
    const bs_recurrent_rows rows = {n,      at[x],     at[x + 1], at[c],     row[x], row[x + 1],
                                    row[c], at[0],     at[c_out], row[0],    row[c_out]};
    if (job->call->plan->algorithm == BS_CONV_REFERENCE)
        recurrent_line_reference(job, at);
    else
        bs_recurrent_run((bs_tier)job->call->plan->tier, &job->net, job->call->prepared,
                         recurrent_prepared(job, job->layout.bias), &rows, sums);
}

/* Lines that are not dense, and those of the reference, go through scratch one by one. */
static void recurrent_lines(const void *context, int64_t n, char *const *at, const ptrdiff_t *step)
{
    const recurrent_job *job = context;
    float *floats[RECURRENT_OPERANDS], *lines[RECURRENT_OPERANDS], *free_at = job->call->scratch;
    ptrdiff_t row[RECURRENT_OPERANDS];
    bool dense = job->call->plan->algorithm != BS_CONV_REFERENCE;
    for (int32_t i = 0; i < job->operands; i++) {
        floats[i] = (float *)(void *)at[i];
        row[i] = step[i] / (ptrdiff_t)sizeof(float);
        dense = dense && job->step[i] == 1 && row[i] >= 0 && row[i] <= INT32_MAX;
        lines[i] = free_at;
        free_at += bs_aligned_floats(recurrent_width(job, i));
    }
    if (dense) {
        recurrent_dense(job, n, floats, row, free_at);
        return;
    }
    for (int64_t line = 0; line < n; line++)
        for (int32_t i = 0; i <= job->operands; i++) {
            /* x, h, c; the step; h', c' */
            const int32_t o = i <= job->operands - job->x - 1 ? i + job->x : i - (job->operands - job->x) - 1;
            if (i == job->operands - job->x) {
                recurrent_dense(job, 1, lines, row, free_at);
                continue;
            }
            for (int32_t k = 0; k < recurrent_width(job, o); k++) {
                float *const there = floats[o] + line * row[o] + k * job->step[o];
                if (o < job->x)
                    *there = lines[o][k];
                else
                    lines[o][k] = *there;
            }
        }
}

static bs_status recurrent_run(const bs_call *call)
{
    bs_span span;
    const bool projected = ((const bs_recurrent_desc *)call->params)->projected;
    recurrent_job job = {.call = call, .net = {projected ? 0 : call->in[0].dim[call->in[0].rank - 1],
                                               call->in[1].dim[call->in[1].rank - 1], call->n_in == 2}};
    job.layout = bs_recurrent_place(&job.net, call->plan);
    job.x = call->n_out;
    job.operands = call->n_out + call->n_in;
    bs_span_open_lines(&span, &call->out[0], call->rows, call->out[0].rank - 1);
    for (int32_t i = 0; i < job.operands; i++) {
        const bs_operand *o = i < call->n_out ? &call->out[i] : &call->in[i - call->n_out];
        job.step[i] = o->dim[o->rank - 1] == 1 ? 1 : o->stride[o->rank - 1];
        if (i > 0)
            bs_span_add(&span, o, NULL);
    }
    bs_span_run(&span, recurrent_lines, &job);
    return BS_OK;
}

static const bs_op_rules recurrent_rules = {.weights = {.specs = recurrent_weights, .prepare = recurrent_prepare},
                                            .plan = recurrent_plan};

#define RECURRENT_OP(text, operands)                                                                                \
    {                                                                                                               \
        .name = text, .min_in = operands, .more_out = operands - 2, BS_PARAMS(bs_recurrent_desc, recurrent_fields), \
        .infer = recurrent_infer, .flops = recurrent_flops, .rules = &recurrent_rules, .run = recurrent_run         \
    }
const bs_op bs_op_lstm = RECURRENT_OP("lstm", 3);
const bs_op bs_op_gru = RECURRENT_OP("gru", 2);

bs_value bs_lstm(bs_graph *graph, bs_value x, bs_value h, bs_value c, const bs_recurrent_desc *desc, bs_value *c_out)
{
    const int32_t in[3] = {x.id, h.id, c.id};
    const bs_node *node = bs_op_build_node(graph, &bs_op_lstm, in, 3, desc);
    const bs_value h_out = {node ? node->first_out : 0};
    if (c_out)
        c_out->id = node ? node->first_out + 1 : 0;
    return h_out;
}

bs_value bs_gru(bs_graph *graph, bs_value x, bs_value h, const bs_recurrent_desc *desc)
{
    return bs_op_build_two(graph, x, h, desc, &bs_op_gru);
}
