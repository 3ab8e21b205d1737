/* tags: asan */
/* test_bound_extents.c - promises: bs_bound_extents tells what the buffers of outputs and states must be for the inputs
 * that are bound, run after run, so that a run with such buffers takes them and one with any other does not; what comes
 * from data has its maximum; what bs_run would say of the inputs it says as well. */
#include "against.h"

enum { MOST = 12 };

static float floats[8][4096];
static _Alignas(64) uint8_t graph_memory[1 << 20];

static bs_graph *some_net(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "graph", graph_memory, sizeof graph_memory);
    bs_graph *g = bs_graph_create(&arena, NULL);
    const bs_dim h = bs_symbol(g, "H", MOST), n = bs_symbol(g, "N", MOST);
    const bs_value x = bs_input(g, "x", BS_F32, BS_SHAPE3(1, h, 8)), line = bs_input(g, "line", BS_F32, BS_SHAPE1(n)),
                   kept = bs_state(g, "kept", BS_F32, BS_SHAPE2(bs_times(g, h, 2), 3));
    bs_output(g, "half", bs_pool2d(g, x, &(bs_pool2d_desc){.kind = BS_POOL_MAX, .kernel = 2, .stride = 2}));
    bs_output(g, "fixed", bs_affine(g, bs_slice(g, line, &(bs_slice_desc){.start = 1, .length = 3}), 2, 0));
    bs_output(g, "found", bs_nonzero(g, line, &(bs_extent_desc){.name = "F", .maximum = 7}));
    bs_state_write(g, kept, bs_affine(g, kept, 1, 1));
    return g;
}

static rig r;

static void bind(const char *name, bs_dtype dtype, void *data, const int64_t *dims)
{
    bs_buffer b = {.data = data, .dtype = dtype};
    for (; b.rank < BS_MAX_RANK && dims[b.rank] > 0; b.rank++)
        b.dim[b.rank] = dims[b.rank];
    check(bs_bind(r.session, name, &b, &r.error) == BS_OK, "%s: %s", name, r.error.message);
}

static bool tells(const char *name, int64_t first, int64_t second, int64_t third,
                  int64_t *dims)
{
    memset(dims, 0x55, BS_MAX_RANK * sizeof *dims);
    const bs_status status = bs_bound_extents(r.session, name, dims, &r.error);
    return check(status == BS_OK && dims[0] == first && dims[1] == second && dims[2] == third && dims[3] == 0,
                 "\"%s\" is [%lld, %lld, %lld, %lld], expected [%lld, %lld, %lld]: %s", name, (long long)dims[0],
                 (long long)dims[1], (long long)dims[2], (long long)dims[3], (long long)first, (long long)second,
                 (long long)third, r.error.message);
}

/* Inputs of these extents; buffers as told; and of one that is another the run has to complain. */
static void test_run(int64_t h, int64_t n, bool state)
{
    int64_t dims[BS_MAX_RANK];
    bind("x", BS_F32, floats[0], (int64_t[BS_MAX_RANK]){1, h, 8});
    bind("line", BS_F32, floats[1], (int64_t[BS_MAX_RANK]){n});
    if (tells("fixed", 3, 0, 0, dims))
        bind("fixed", BS_F32, floats[2], dims);
    if (tells("found", 7, 1, 0, dims))
        bind("found", BS_I32, floats[3], dims);
    if (tells("kept", 2 * h, 3, 0, dims) && state)
        bind("kept", BS_F32, floats[4], dims);
    if (!tells("half", 1, h / 2, 4, dims))
        return;
    dims[1] = dims[1] == 1 ? 2 : 1;
    bind("half", BS_F32, floats[5], dims);
    check(bs_run(r.session, &r.error) == BS_ERROR_SHAPE, "another extent than what is told is refused");
    tells("half", 1, h / 2, 4, dims);
    bind("half", BS_F32, floats[5], dims);
    check(bs_run(r.session, &r.error) == BS_OK, "what is told is taken: %s", r.error.message);
    check(bs_output_extents(r.session, "found", dims) == BS_OK && dims[0] == 5, "a run makes %lld rows, expected 5",
          (long long)dims[0]);
    tells("found", 7, 1, 0, dims); /* its maximum again */
}

static void test_refusals(void)
{
    int64_t dims[BS_MAX_RANK];
    check(bs_bound_extents(r.session, "half", dims, &r.error) == BS_ERROR_UNBOUND && strstr(r.error.message, "\"x\""),
          "what nothing tells is not known: %s", r.error.message);
    bind("x", BS_F32, floats[0], (int64_t[BS_MAX_RANK]){1, 4, 8});
    bind("line", BS_F32, floats[1], (int64_t[BS_MAX_RANK]){3});
    check(bs_bound_extents(r.session, "half", dims, &r.error) == BS_ERROR_SHAPE && strstr(r.error.message, "N"),
          "an input that is too short: %s", r.error.message);
    static const char *const others[] = {"x", "line", "none", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        check(bs_bound_extents(r.session, others[i], dims, &r.error) == BS_ERROR_ARGUMENT && *r.error.message,
              "\"%s\" is neither output nor state", others[i]);
}

int main(void)
{
    for (int32_t i = 0; i < 5; i++)
        floats[1][i] = 1;
    if (check(rig_plan(&r, some_net(), NULL) && rig_session(&r, NULL, NULL, 0), "a net: %s", r.error.message)) {
        test_refusals();
        test_run(4, 8, false);
        test_run(MOST, MOST, true);
        test_run(2, 5, true);
        test_run(2, 6, false);
        bs_session_close(r.session);
    }
    return check_end();
}
