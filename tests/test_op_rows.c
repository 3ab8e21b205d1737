/* tags: asan */
/* Promises: an op that works across the rows of a segment finds those of a path although it alone reads them; what
 * caches of segments hold is checked before any op reads it. */
#include "segments_rig.h"

static const bs_value none = {0};
static against a;

static bs_value in_segments(bs_graph *g, const char *name, bs_dtype dtype, int32_t width, bs_dim n)
{
    static bs_value lengths;
    if (strcmp(name, "x") == 0)
        lengths = bs_input(g, "rows", BS_I32, BS_SHAPE1(SEQS));
    return bs_segments(g, bs_input(g, name, dtype, BS_SHAPE2(n, width)), lengths);
}

/* ------------------------------------------------------------------------------------------------ rows of a path */

static void reduced(bs_graph *g, bs_router router, bs_value x)
{
    bs_output(g, "out", bs_segment_reduce(g, bs_scatter(g, router, 0, x),
                                          &(bs_segment_reduce_desc){.mode = BS_SEGMENT_SUM}));
}

static void attended(bs_graph *g, bs_router router, bs_value x)
{
    const bs_value q = bs_attention(g, bs_scatter(g, router, 0, x), x, x, none, none, none,
                                    &(bs_attention_desc){.heads = 2, .bidirectional = 1}),
                   paths[2] = {q, none};
    bs_output(g, "out", bs_collect(g, bs_gather(g, router, paths, x, NULL)));
}

static const struct {
    const char *name;
    void (*build)(bs_graph *g, bs_router router, bs_value x);
} nets[] = {{"segment_reduce", reduced}, {"attention", attended}};

static double *input_of(const char *name)
{
    static double no_input[MOST];
    for (int32_t i = 0; i < a.n_inputs; i++)
        if (strcmp(a.sources[i].name, name) == 0)
            return ag_data[i];
    return no_input;
}

static void test_path(int32_t which)
{
    const int64_t extents[3] = {MOST, MOST, SEQS};
    double worst = 0;
    for (int32_t w = 0; w < WAYS; w++) {
        bs_graph *g = new_graph();
        const bs_dim n = bs_symbol(g, "N", MOST);
        const bs_value x = in_segments(g, "x", BS_F32, D, n), by = in_segments(g, "route", BS_I32, 1, n);
        nets[which].build(g,
                          bs_route(g, by, none,
                                   &(bs_route_desc){.name = "r", .protocol = BS_ROUTE_LABEL, .paths = 2}),
                          x);
        if (!start(g, &ways[w], NULL)) {
            worst = INFINITY;
            break;
        }
        memset(&a, 0, sizeof a);
        against_inputs(&a, g, NULL, &ways[w], extents);
        for (int32_t s = 0; s < SEQS; s++)
            input_of("rows")[s] = MOST / SEQS;
        for (int32_t i = 0; i < MOST; i++)
            input_of("route")[i] = check_below(2);
        const double error = error_of_run(&a, g);
        worst = !(error <= worst) ? error : worst;
        bs_session_close(r.session);
    }
    check(worst < 2e-5, "%s of rows that nothing else reads: as the oracle has it (%.1e)", nets[which].name, worst);
}

/* ------------------------------------------------------------------------------------------------- cache lengths */

static void indexed(bs_graph *g, bs_value x, bs_value past)
{
    bs_output(g, "out", bs_collect(g, bs_segment_index(g, x, past)));
}

static void attended_behind(bs_graph *g, bs_value x, bs_value past)
{
    const bs_value ring = bs_input(g, "ring", BS_F32, BS_SHAPE3(SEQS, WINDOW, D));
    bs_output(g, "out", bs_collect(g, bs_attention(g, x, x, x, ring, ring, past, &(bs_attention_desc){.heads = 2})));
}

/* Where nothing reads a state, nothing is appended to it. */
static void appended(bs_graph *g, bs_value x, bs_value past)
{
    const bs_value ring = bs_state(g, "ring", BS_F32, BS_SHAPE3(SEQS, WINDOW, D)),
                   held = bs_input(g, "held", BS_I32, BS_SHAPE1(SEQS));
    bs_state_append(g, ring, x, past);
    bs_output(g, "out", bs_collect(g, bs_attention(g, x, x, x, ring, ring, held, &(bs_attention_desc){.heads = 2})));
}

static const struct {
    const char *name;
    void (*build)(bs_graph *g, bs_value x, bs_value past);
} readers[] = {{"segment_index", indexed}, {"attention", attended_behind}, {"state_append", appended}};

static bs_status status_of(int32_t which, double past)
{
    const int64_t extents[3] = {MOST, MOST, SEQS};
    bs_buffer in[AG_SOURCES], out[AG_SOURCES];
    bs_graph *g = new_graph();
    const bs_value x = in_segments(g, "x", BS_F32, D, bs_symbol(g, "N", MOST));
    readers[which].build(g, x, bs_input(g, "past", BS_I32, BS_SHAPE1(SEQS)));
    if (!start(g, &ways[0], NULL))
        return BS_ERROR_GRAPH;
    memset(&a, 0, sizeof a);
    against_inputs(&a, g, NULL, &ways[0], extents);
    for (int32_t s = 0; s < SEQS; s++) {
        input_of("rows")[s] = MOST / SEQS;
        input_of("past")[s] = s == 2 ? past : 3;
        input_of("held")[s] = 3;
    }
    bs_status status = BS_ERROR_GRAPH;
    if (!ag_too_small(&a) && against_bind(&a, r.session, in, out))
        status = bs_run(r.session, &r.error);
    bs_session_close(r.session);
    return status;
}

static void test_cache_lengths(int32_t which)
{
    check(status_of(which, 5) == BS_OK, "%s behind a cache runs: %s", readers[which].name, r.error.message);
    check(status_of(which, -1) == BS_ERROR_DATA, "it takes no negative length: %s", r.error.message);
    check(status_of(which, 1 << 30) == BS_OK, "2^30 tokens may be held: %s", r.error.message);
    check(status_of(which, (1 << 30) + 1) == BS_ERROR_DATA, "and no more: %s", r.error.message);
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    for (int32_t i = 0; i < (int32_t)(sizeof nets / sizeof *nets); i++)
        test_path(i);
    for (int32_t i = 0; i < (int32_t)(sizeof readers / sizeof *readers); i++)
        test_cache_lengths(i);
    return check_end();
}
