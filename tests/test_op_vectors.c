/* tags: asan shipped aarch64 32-bit */
/* test_op_vectors.c - results of every op equal PyTorch's (tests/vectors, made by tools/make_op_vectors.py and
 * make_line_vectors.py, make_move_vectors.py and make_element_vectors.py), at every tier this machine can run and on
 * any layout.
 *
 * Usage: test_op_vectors [seed] */
#include "every_op.h"
#include "vector_cases.h"

/* ----------------------------------------------------------------------------------------------- the vector file */

typedef struct record { const char *name; size_t length; tensor data; } record;

#define RECORDS 1024
static record records[RECORDS];
static int32_t n_records;

static uint32_t read_u32(const uint8_t *p)
{
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Tensors have their rows in dim[0] here; vector_find splits them off. */
static bool read_vectors(const char *path)
{
    static alignas(64) uint8_t files[1 << 20];
    static size_t used;
    uint8_t *const file = files + used;
    FILE *f = fopen(path, "rb");
    const size_t size = f ? fread(file, 1, sizeof files - used, f) : 0;
    if (f)
        fclose(f);
    if (size < 8 || memcmp(file, "BSVEC1\n", 8) != 0)
        return false;
    used += size;
    for (size_t at = 8; at < size && n_records < RECORDS;) {
        record *r = &records[n_records++];
        r->length = file[at];
        r->name = (const char *)file + at + 1;
        at += 1 + r->length;
        const bs_dtype dtype = (bs_dtype)file[at];
        const int32_t rank = file[at + 1];
        int32_t dim[5] = {1, 1, 1, 1, 1};
        for (int32_t d = 0; d < rank; d++)
            dim[d] = (int32_t)read_u32(file + at + 2 + 4 * d);
        at += 2 + 4 * (size_t)rank;
        r->data.dtype = dtype;
        r->data.rank = rank;
        r->data.rows = dim[0];
        memcpy(r->data.dim, dim + 1, sizeof r->data.dim);
        r->data.data = (uint8_t *)pool_take((size_t)dim[0] * (size_t)dim[1] * (size_t)dim[2] * (size_t)dim[3] *
                                            (size_t)dim[4] * bs_dtype_bytes(dtype));
        const size_t bytes = (size_t)dim[0] * (size_t)dim[1] * (size_t)dim[2] * (size_t)dim[3] * (size_t)dim[4] *
                             bs_dtype_bytes(dtype);
        if (bytes > size - at)
            return false;
        memcpy(r->data.data, file + at, bytes);
        at += bytes;
    }
    return n_records > 0;
}

/* Rows first, or everything one row. */
static bool vector_find(const char *name, const char *part, bool by_row, tensor *t)
{
    char full[128];
    const int length = snprintf(full, sizeof full, "%s/%s", name, part);
    for (int32_t i = 0; i < n_records; i++) {
        const record *r = &records[i];
        if ((int)r->length != length || memcmp(r->name, full, r->length) != 0)
            continue;
        *t = r->data;
        if (by_row) {
            t->rank--;
        } else {
            t->dim[0] = r->data.rows;
            memcpy(t->dim + 1, r->data.dim, 3 * sizeof t->dim[0]);
            t->rows = 1;
        }
        return true;
    }
    return false;
}

/* ------------------------------------------------------------------------------------------------------ a case */

#define MADE_BY " (elements.bin is written by tools/make_element_vectors.py, others by their siblings)"

/* Inputs as rows of one domain, or root values. */
static bs_value case_input(bs_graph *g, const tensor *t, int32_t index, bool root, bs_value like)
{
    const char *const names[] = {"x0", "x1", "x2"};
    bs_shape shape = {t->rank + (root ? 0 : 1), {0}};
    if (!root)
        shape.dim[0] = t->rows;
    for (int32_t d = 0; d < t->rank; d++)
        shape.dim[d + (root ? 0 : 1)] = t->dim[d];
    const bs_value x = bs_input(g, names[index], t->dtype, shape);
    return root ? x : bs_rows(g, x, like);
}

static bool case_root(const vector_case *c, int32_t operand)
{
    return c->flags & ROOT || (c->flags & CAPTURED_0 && operand == 0) || (c->flags & CAPTURED_1 && operand == 1);
}

static bool case_build(const vector_case *c, bs_graph *g, tensor *in, int32_t *ids)
{
    static const char *const parts[] = {"x0", "x1", "x2"};
    bs_value x[3] = {{0}, {0}, {0}}, like = {0};
    for (int32_t i = 0; i < c->operands; i++) {
        if (!vector_find(c->name, parts[i], !case_root(c, i), &in[i]))
            return false;
        x[i] = case_input(g, &in[i], i, case_root(c, i), like);
        ids[i] = x[i].id;
        like = case_root(c, i) ? like : x[i];
    }
    c->build(g, x);
    ops_are_met(g);
    return true;
}

static bool case_weights(const vector_case *c, op_run *r)
{
    bs_weight_spec specs[BS_MAX_WEIGHTS];
    const int32_t n = bs_node_weights(r->graph, r->node, specs);
    for (int32_t i = 0; i < n; i++) {
        tensor w;
        if (!vector_find(c->name, specs[i].suffix, false, &w) ||
            (uint64_t)tensor_elements(&w) != bs_bytes_figure(bs_weight_elements(&specs[i])))
            return false;
        r->weights[i] = w.data;
    }
    return true;
}

/* Compares result i with the vector's. Returns what is wrong, or NULL. */
static const char *case_compare(const vector_case *c, int32_t i, storage *out, double *worst)
{
    static const char *const parts[] = {"y0", "y1", "y2", "y3"};
    const bs_operand *o = &out->operand;
    tensor expected, got = storage_drain(out);
    if (!vector_find(c->name, parts[i], !(c->flags & ROOT), &expected))
        return "tests/vectors has no result of it" MADE_BY;
    if (o->rank != expected.rank || memcmp(o->dim, expected.dim, (size_t)o->rank * sizeof *o->dim) != 0)
        return "has another shape";
    if (o->rank == 3) {
        storage part = storage_new(expected.dtype, expected.rows, 3, expected.dim, o->rect, 0, LAYOUT_PLANAR);
        storage_fill(&part, &expected, 0, 0);
        expected = storage_drain(&part);
    }
    const double distance = tensor_distance(&got, &expected);
    *worst = distance > *worst ? distance : *worst;
    return storage_is_poison(out) ? NULL : "wrote beside its output";
}

/* Runs a prepared node on storage of one layout. Returns what went wrong, or NULL. */
static const char *case_run(const vector_case *c, op_run *r, const tensor *in, const int32_t *ids, int32_t layout,
                            double *worst)
{
    int32_t rows = 1;
    const int32_t *operands = bs_node_in(r->graph, r->node);
    for (int32_t k = 0; k < r->node->n_in; k++)
        for (int32_t i = 0; i < c->operands; i++) {
            if (ids[i] != operands[k])
                continue;
            storage s = storage_new(in[i].dtype, in[i].rows, in[i].rank, in[i].dim, whole_rect(in[i].rank, in[i].dim),
                                    op_zeros(r, k, 0), layout);
            storage_fill(&s, &in[i], 0, 0);
            r->in[k] = s.operand;
            if (case_root(c, i))
                r->in[k].row_stride = 0;
            else
                rows = in[i].rows;
        }
    storage out[BS_MAX_OUTPUTS];
    for (int32_t i = 0; i < r->node->n_out; i++) {
        out[i] = storage_of_output(r, i, rows, layout);
        r->out[i] = out[i].operand;
    }
    int64_t extent = 0;
    r->call.extent = &extent;
    r->call.rows = rows;
    /* a part only: a band of rows, some columns */
    if (r->op->layout.images && out[0].operand.rank == 3 && layout % 2) {
        bs_rect *rect = &out[0].operand.rect;
        rect->y0 = check_below(rect->y1), rect->y1 -= check_below(rect->y1 - rect->y0);
        rect->x0 = check_below(rect->x1), rect->x1 -= check_below(rect->x1 - rect->x0);
        r->out[0].rect = *rect;
    }
    if (r->op->run(op_call(r)) != BS_OK)
        return "run failed";
    if (r->node->makes && extent != out[0].operand.dim[0])
        return "has another extent";
    for (int32_t i = 0; i < r->node->n_out; i++) {
        const char *wrong = case_compare(c, i, &out[i], worst);
        if (wrong)
            return wrong;
    }
    return *worst <= c->tolerance ? NULL : "differs";
}

static void test_vector(const vector_case *c)
{
    const size_t mark = pool_used;
    for (bs_tier tier = BS_TIER_SCALAR; tier != BS_TIER_AUTO; tier = next_tier(tier)) {
        const char *why = NULL;
        double worst = 0;
        for (int32_t layout = 0; layout < LAYOUTS && !why; layout++) {
            tensor in[3];
            int32_t ids[3] = {0, 0, 0};
            bs_error error;
            bs_graph *g = new_graph();
            if (c->flags & CHANNELS_LAST && tier != BS_TIER_SCALAR && layout != LAYOUT_LAST &&
                layout != LAYOUT_LAST_PADDED)
                continue;
            if (!case_build(c, g, in, ids)) {
                why = "tests/vectors has no operands of it" MADE_BY;
                break;
            }
            if (bs_graph_check(g, &error) != BS_OK) {
                check(0, "vector %s: %s", c->name, error.message);
                return;
            }
            op_run r = op_run_of(g, tier);
            if (!case_weights(c, &r)) {
                why = "a weight is missing or of another size";
                break;
            }
            op_prepare(&r, 64, 64);
            why = case_run(c, &r, in, ids, layout, &worst);
        }
        check(!why, "vector %s %s%s%s (%.2g)", c->name, bs_tier_name(tier), why ? ": " : "", why ? why : "", worst);
        pool_used = mark;
    }
}

int main(int argc, char **argv)
{
    check_seed(argc > 1 ? strtoull(argv[1], NULL, 10) : 1);
    const bool read = read_vectors("tests/vectors/ops.bin") && read_vectors("tests/vectors/lines.bin") &&
                      read_vectors("tests/vectors/moves.bin") && read_vectors("tests/vectors/elements.bin") &&
                      read_vectors("tests/vectors/extents.bin");
    if (!check(read, "vectors: %d tensors read", n_records))
        return check_end();
    for (size_t i = 0; i < sizeof vector_cases / sizeof *vector_cases; i++)
        test_vector(&vector_cases[i]);
    every_op_is_met(op_computes, "vector_cases.h, with records in tests/vectors/*.bin" MADE_BY, without_vectors);
    return check_end();
}
