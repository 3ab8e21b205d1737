/* tags: asan */
/* Promises: what a kernel, or a decision, checks of an index is what it uses: a run in which the index becomes one that
 * is out of range, at any of the times at which it is read, is an error, or gives what the index before gives. So a
 * saved plan that lets another tile write there reads no row beyond its table.
 *
 * Owns: a page that holds the indices and cannot be read. Each read of it is a fault, after which one instruction goes
 * on by itself: where a processor can do that. Must never: run with threads. */
#define _GNU_SOURCE /* REG_EFL */
#include "check.h"
#include "net.h"

#if defined(__x86_64__) && defined(__linux__)
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { ROWS = 4, WIDTH = 4, INDICES = 3, PAGE = 4096, STEP = 0x100, MOST = 500 };

static BS_ALIGNED uint8_t persistent[1 << 20], transient[1 << 20], staging[1 << 16];
static bs_memory memory;
static bs_error error;
static const bs_value none;
static net_table weights;
static int32_t *page;
static volatile int32_t reads, turn; /* reads so far, and the first one that finds the other index */
static volatile int32_t *changes;    /* the index that does, from this to that */
static int32_t from, to;

static void on_read(int number, siginfo_t *info, void *context)
{
    const uintptr_t at = (uintptr_t)info->si_addr - (uintptr_t)page;
    if (at >= PAGE) {
        signal(number, SIG_DFL);
        return;
    }
    mprotect(page, PAGE, PROT_READ | PROT_WRITE);
    *changes = reads++ < turn ? from : to;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] |= STEP;
}

static void on_step(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    mprotect(page, PAGE, PROT_NONE);
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~STEP;
}

/* ------------------------------------------------------------------------------------------- what reads an index */

static bs_value rows_of(bs_graph *g, bs_value x) { return bs_rows(g, x, none); }
static bs_value first_of(bs_graph *g, bs_value x, int32_t rows)
{
    return bs_slice(g, x, &(bs_slice_desc){.length = rows});
}

static bs_value gathers(bs_graph *g, bs_value x, bs_value index) { return bs_gather_rows(g, x, index); }

/* Elements, one after the other. */
static bs_value gathers_words(bs_graph *g, bs_value x, bs_value index)
{
    const bs_value line = bs_reshape(g, first_of(g, x, 1), BS_SHAPE1(WIDTH));
    return bs_select(g, line, index, 0);
}

static bs_value gathers_elements(bs_graph *g, bs_value x, bs_value index)
{
    const bs_value line = bs_reshape(g, first_of(g, x, 1), BS_SHAPE1(WIDTH));
    return bs_gather_elements(g, line, index, 0);
}

static bs_value scatters(bs_graph *g, bs_value x, bs_value index)
{
    return bs_scatter_rows(g, x, index, bs_affine(g, first_of(g, x, INDICES), 2, 0), NULL);
}

static bs_value labels(bs_graph *g, bs_value x, bs_value index)
{
    const bs_value rows = rows_of(g, first_of(g, x, INDICES));
    const bs_router r = bs_route(g, rows_of(g, index), none,
                                 &(bs_route_desc){.name = "r", .protocol = BS_ROUTE_LABEL, .paths = ROWS});
    bs_value out[ROWS];
    for (int32_t k = 0; k < ROWS; k++)
        out[k] = bs_affine(g, bs_scatter(g, r, k, rows), (float)(k + 1), 0);
    return bs_collect(g, bs_gather(g, r, out, none, NULL));
}

static bs_value counts(bs_graph *g, bs_value x, bs_value index)
{
    const bs_value rows = rows_of(g, first_of(g, x, INDICES));
    const bs_router loop = bs_loop_begin(g, rows, rows_of(g, index),
                                         &(bs_loop_desc){.name = "l", .bound = ROWS - 1});
    const bs_value now = bs_loop_carry(g, loop, rows);
    const bs_value next = bs_loop_next(g, loop, now, bs_affine(g, now, 1, 1));
    bs_loop_end(g, loop, none);
    return bs_collect(g, next);
}

static bs_value children(bs_graph *g, bs_value x, bs_value index)
{
    const bs_value named = bs_input(g, "named", BS_I32, BS_SHAPE1(ROWS));
    const bs_value listed = bs_convert(g, bs_children(g, index, named, ROWS), &(bs_convert_desc){.dtype = BS_F32});
    return bs_add(g, listed, first_of(g, x, INDICES));
}

static bs_value levels(bs_graph *g, bs_value x, bs_value index)
{
    const bs_value level = bs_levels(g, index);
    return bs_add(g, bs_convert(g, level, &(bs_convert_desc){.dtype = BS_F32}), first_of(g, x, INDICES));
}

/* -------------------------------------------------------------------------------------------------------- runs */

/* A table, what is made of it, and what lies behind each: nothing of that may come or go. */
static float x[2 * ROWS][WIDTH], y[2 * ROWS][WIDTH], expected[2 * ROWS][WIDTH];

static void fill(void)
{
    for (int32_t r = 0; r < 2 * ROWS; r++)
        for (int32_t c = 0; c < WIDTH; c++) {
            x[r][c] = r < ROWS ? (float)(10 * r + c) : 777;
            y[r][c] = 555;
        }
}

static const struct reader {
    const char *what;
    bs_value (*of)(bs_graph *g, bs_value x, bs_value index);
    int32_t first[INDICES], bad; /* indices, and one that is out of range */
    int32_t rank;                /* of the indices */
} readers[] = {
    {"gather_rows", gathers, {2, 0, 3}, ROWS, 1},
    {"gather_rows, of a run", gathers, {1, 2, 3}, ROWS, 1},
    {"select", gathers_words, {2, 0, 3}, ROWS, 1},
    {"gather_elements", gathers_elements, {2, 0, 3}, ROWS, 1},
    {"scatter_rows", scatters, {2, 0, 3}, ROWS, 1},
    {"labels", labels, {2, 0, 3}, ROWS, 2},
    {"counts of a loop", counts, {2, 0, 3}, 1 << 20, 2},
    {"children", children, {1, 2, 1}, ROWS + 1, 1},
    {"levels", levels, {-1, 0, 1}, ROWS, 2},
};

static bs_session *session_of(const struct reader *r)
{
    static int32_t named[ROWS] = {0, 1, 2, 2};
    bs_arena_init(&memory.persistent, "persistent", persistent, sizeof persistent);
    bs_arena_init(&memory.transient, "transient", transient, sizeof transient);
    bs_arena_init(&memory.staging, "staging", staging, sizeof staging);
    bs_graph *g = bs_graph_create(&memory.persistent, NULL);
    const bs_value index = bs_input(g, "index", BS_I32, r->rank == 1 ? BS_SHAPE1(INDICES) : BS_SHAPE2(INDICES, 1));
    bs_output(g, "y", r->of(g, bs_input(g, "x", BS_F32, BS_SHAPE2(ROWS, WIDTH)), index));
    const bs_plan *plan = bs_plan_create(&memory.persistent, NULL, g, NULL, &error);
    const bs_session_desc with = {.weights = bs_weights_from_table(&weights.table)};
    bs_session *s = plan ? bs_session_create(&memory, plan, &with, &error) : NULL;
    int64_t dims[BS_MAX_RANK] = {0};
    if (!s || bs_bind(s, "x", &(bs_buffer){x, BS_F32, 2, {ROWS, WIDTH}, {0}}, &error) != BS_OK ||
        bs_bind(s, "index", &(bs_buffer){page, BS_I32, r->rank, {INDICES, 1}, {0}}, &error) != BS_OK)
        return NULL;
    if (r->of == children)
        bs_bind(s, "named", &(bs_buffer){named, BS_I32, 1, {ROWS}, {0}}, &error);
    bs_bound_extents(s, "y", dims, &error);
    const int32_t rank = dims[1] ? 2 : 1;
    return bs_bind(s, "y", &(bs_buffer){y, BS_F32, rank, {dims[0], dims[1]}, {0}}, &error) == BS_OK ? s : NULL;
}

/* The index `which` is good, then is not: at each read in turn. */
static int32_t change(bs_session *s, const char *what, int32_t which, int32_t good, int32_t bad)
{
    int32_t wrong = 0;
    from = good, to = bad;
    changes = page + which;
    for (turn = MOST, reads = MOST; turn >= 0 && wrong == 0; turn = turn == MOST ? reads : turn - 1) {
        fill();
        reads = 0;
        mprotect(page, PAGE, PROT_NONE);
        const bs_status status = bs_run(s, &error);
        mprotect(page, PAGE, PROT_READ | PROT_WRITE);
        if (turn == MOST)
            memcpy(expected, y, sizeof y);
        wrong += (turn == MOST || status != BS_ERROR_DATA) && (status != BS_OK || memcmp(expected, y, sizeof y) != 0);
        wrong += y[2 * ROWS - 1][WIDTH - 1] != 555 || reads >= MOST;
    }
    if (wrong)
        printf("  %s: index %d, at read %d: %s\n", what, which, turn, error.message);
    return wrong;
}

int main(void)
{
    page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigaction(SIGSEGV, &(struct sigaction){.sa_sigaction = on_read, .sa_flags = SA_SIGINFO}, NULL);
    sigaction(SIGTRAP, &(struct sigaction){.sa_sigaction = on_step, .sa_flags = SA_SIGINFO}, NULL);
    for (const struct reader *r = readers; r < readers + sizeof readers / sizeof *readers; r++) {
        bs_session *s = session_of(r);
        int32_t wrong = s == NULL;
        for (int32_t k = 0; k < INDICES && !wrong; k++) {
            memcpy(page, r->first, sizeof r->first);
            wrong += change(s, r->what, k, r->first[k], r->bad);
        }
        check(wrong == 0, "%s: an index that changes while it is read%s", r->what, s ? "" : error.message);
        bs_session_close(s);
    }
    return check_end();
}
#else
int main(void)
{
    printf("not here: no single steps of a processor\n");
    return check_end();
}
#endif
