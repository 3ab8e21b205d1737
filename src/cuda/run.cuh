/* run.cuh - running one launch, and the callbacks of routers.
 * The host waits only for a callback. Relies on tables.cuh. Must never let a count decide what is launched. */
#ifndef BS_CUDA_RUN
#define BS_CUDA_RUN

#include "cuda/ledger.cuh"

static bs_status bs_cu_launched(bs_error *error)
{
    return bs_cu_check(cudaGetLastError(), "launching a kernel", error);
}

/* The number of rows of a domain, which a router may have decided, and its first row among the rows of all paths. */
static bs_status bs_cu_rows(bs_device_session *s, int32_t domain, int32_t *first, int32_t *rows, bs_error *error)
{
    const bs_domain *d = &s->client->graph->domains[domain];
    int32_t *fetched = reinterpret_cast<int32_t *>(s->pinned + s->layout.fetched);
    *rows = s->client->domains[domain].count;
    *first = 0;
    if (bs_domain_maker(s->client->graph, domain)) {
        const bs_status status = bs_cu_fetch(s, fetched, s->program.extents + d->rows, sizeof *fetched, error);
        *rows = fetched[0];
        return status;
    }
    if (d->kind != BS_DOMAIN_PATH)
        return BS_OK;
    const bs_status status = bs_cu_fetch(
        s, fetched, s->program.decisions + bs_cu_decision_at(s, d->router)->offsets + 4 * (size_t)d->path, 8, error);
    *first = fetched[0];
    *rows = fetched[1] - fetched[0];
    return status;
}

/* BS_OK, or the fault as an error that names the route and the row. */
static bs_status bs_cu_route_status(const bs_route_desc *desc, const bs_route_fault *fault, bs_error *error)
{
    const bs_status status = bs_route_fail(fault, error);
    if (status != BS_OK && fault->row >= 0)
        bs_error_prefix(error, "row %d: ", fault->row);
    if (status != BS_OK)
        bs_error_prefix(error, "route \"%s\": ", desc->name);
    return status;
}

/* A callback does not get the knob, but a knob that is NaN is an error whoever decides. */
static bs_status bs_cu_check_knob(bs_device_session *s, const bs_route_desc *desc, const bs_device_operand &operand,
                                  bs_error *error)
{
    float knob;
    uint8_t *here = s->pinned + s->layout.fetched;
    const bs_status status = bs_cu_fetch(s, here, bs_cu_at<const void>(operand.base),
                                         sizeof knob, error);
    if (status != BS_OK)
        return status;
    memcpy(&knob, here, sizeof knob);
    const bs_route_fault fault = bs_route_check_knob(knob);
    return bs_cu_route_status(desc, &fault, error);
}

/* Copies the scores of `rows` rows from `first` on to where the callback reads them, dense, and waits for them. */
static bs_status bs_cu_fetch_scores(bs_device_session *s, const bs_device_operand *score, int32_t first, int32_t rows,
                                    bs_error *error)
{
    const size_t width = 4 * (size_t)score->dim[0];
    const bs_status status = bs_cu_check(
        cudaMemcpy2DAsync(s->pinned + s->layout.asked, width,
                          bs_cu_at<const uint8_t>(score->base) + first * score->row_bytes,
                          (size_t)score->row_bytes, width, (size_t)rows, cudaMemcpyDeviceToHost, s->stream),
        "copying scores from the device", error);
    return status == BS_OK ? bs_cu_session_settle(s, error) : status;
}

/* Calls the callback, which chooses by the scores. */
static bs_status bs_cu_ask_caller(const bs_route_desc *desc, const bs_route_callback *callback,
                                  const bs_operand_view *view, int32_t rows, int32_t *chosen, float *gates,
                                  bs_error *error)
{
    bs_route_fault fault;
    const bs_status status = bs_route_ask(callback, view, desc->paths, rows, chosen, gates, &fault);
    return status == BS_OK ? bs_cu_route_status(desc, &fault, error)
                           : bs_fail(error, status, "route \"%s\": its callback failed: %s", desc->name,
                                     bs_status_text(status));
}

/* A router with a callback: fetches its scores and copies the answer to the device. The step packs it. */
static bs_status bs_cu_ask(bs_device_session *s, const bs_device_launch *l, bs_error *error)
{
    const bs_device_client *c = s->client;
    const bs_router_info *info = &c->graph->routers[l->callback];
    const bs_device_step *step = bs_cu_table<bs_device_step>(s, s->layout.steps_at) + l->first;
    const bs_device_operand score = bs_cu_operand_here(s, step->operands);
    uint8_t *asked = s->pinned + s->layout.asked;
    const bs_device_decision *d = bs_cu_decision_at(s, l->callback);
    int32_t first, rows;
    bs_status status = bs_cu_rows(s, info->domain, &first, &rows, error);
    if (status != BS_OK || rows == 0)
        return status;
    if (step->n_in > 1)
        status = bs_cu_check_knob(s, info->desc, bs_cu_operand_here(s, step->operands + 1), error);
    if (status == BS_OK)
        status = bs_cu_fetch_scores(s, &score, first, rows, error);
    if (status != BS_OK)
        return status;
    const bs_operand_view view = {asked, (bs_dtype)score.dtype, score.dim[0], score.dim[0], 1};
    int32_t *chosen = reinterpret_cast<int32_t *>(asked + bs_device_scores_bytes(c->plan, l->callback));
    float *gates = reinterpret_cast<float *>(chosen) + bs_aligned_floats(rows);
    status = bs_cu_ask_caller(info->desc, &c->callbacks[l->callback], &view, rows, chosen, gates, error);
    if (status == BS_OK)
        status = bs_cu_copy(s, s->program.decisions + d->chosen, chosen, 4 * (uint64_t)rows, cudaMemcpyHostToDevice,
                            "copying an answer to the device", error);
    return status == BS_OK ? bs_cu_fetch(s, s->program.decisions + d->gates, gates, 4 * (size_t)rows, error) : status;
}

#ifndef BS_NO_CUBLAS
static bs_status bs_cu_run_cublas(bs_device_session *s, const bs_device_launch *l, bs_error *error)
{
    const bs_device_client *c = s->client;
    const bool here = bs_cu_cublas_here(s);
    for (int32_t k = l->first; k < l->first + l->count; k++) {
        const bs_device_step *step = bs_cu_table<bs_device_step>(s, s->layout.steps_at) + k;
        const bs_device_operand x = bs_cu_operand_here(s, step->operands),
                                y = bs_cu_operand_here(s, step->operands + step->n_in);
        bs_cu_node n = bs_cu_node_of(c, step, bs_cu_table<bs_device_operand>(s, s->layout.operands_at), NULL,
                                    bs_cu_busy_blocks(s), s->layout.scratch_bytes == 0, true);
        n.in = &x;
        n.out = &y;
        if (!here || !bs_cu_linear_cublas(s->cublas, s->stream, &n, step, c->weights + step->prepared,
                                          c->domains[step->domain].count))
            return bs_fail(error, BS_ERROR_PLATFORM, "cuBLAS: %s \"%s\" failed", bs_op_get(n.node->op)->name,
                           bs_node_name(n.node));
    }
    return bs_cu_launched(error);
}
#endif

static bs_status bs_cu_run_extend(bs_device_session *s, const bs_device_launch *l, bs_error *error)
{
    BS_LAUNCH(bs_cu_extend, (unsigned)bs_cu_blocks(s, l), (unsigned)s->threads, 0, s->stream, s->program, l->first,
              l->count);
    return bs_cu_launched(error);
}

static bs_status bs_cu_run_region(bs_device_session *s, const bs_device_launch *l, bs_error *error)
{
    BS_LAUNCH(bs_cu_region, (unsigned)bs_cu_blocks(s, l), (unsigned)s->threads, (size_t)s->shared, s->stream,
              s->program, l->first, l->count);
    return bs_cu_launched(error);
}

static bs_status bs_cu_run_kernel(bs_device_session *s, const bs_device_launch *l, bs_error *error)
{
    bs_cu_launch_kernel(s->program, *l, (unsigned)bs_cu_blocks(s, l), s->threads, s->stream);
    return bs_cu_launched(error);
}

/* How a launch reaches the device, by what it runs. */
static bs_status (*const bs_cu_runs[])(bs_device_session *s, const bs_device_launch *l, bs_error *error) = {
    NULL,
#define BS_CU_RUN_KERNEL(name) bs_cu_run_kernel,
#define BS_CU_RUN_OTHER(name) bs_cu_run_##name,
    BS_CU_KERNELS(BS_CU_RUN_KERNEL) BS_CU_OTHER_LAUNCHES(BS_CU_RUN_OTHER)
#undef BS_CU_RUN_OTHER
#undef BS_CU_RUN_KERNEL
};

static bs_status bs_cu_run_launch(bs_device_session *s, const bs_device_launch *l, bs_error *error)
{
    bs_status status = l->callback ? bs_cu_ask(s, l, error) : BS_OK;
    if (l->items == 0 || status != BS_OK)
        return status;
    status = bs_cu_ledger_launch(s, l, false, error);
    if (status == BS_OK)
        status = bs_cu_runs[l->kernel](s, l, error);
    return status == BS_OK ? bs_cu_ledger_launch(s, l, true, error) : status;
}

#endif
