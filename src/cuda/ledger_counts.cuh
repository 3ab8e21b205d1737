/* ledger_counts.cuh - what a step has to do in this run: its work items, those that find nothing, its bytes.
 *
 * A kernel of one block asks the decisions, extents and rules that the launch itself will go by: where an op's file
 * says how its rows are dealt out, this says how many shares are not empty. Relies on launch.cuh and the op files. Must
 * never write anything but its answer. */
#ifndef BS_CUDA_LEDGER_COUNTS
#define BS_CUDA_LEDGER_COUNTS

#include "cuda/launch.cuh"

/* What a step has; `all` work items are those that blocks go through, `items` of them find something to do. */
struct bs_cu_counted {
    int64_t items, all, rows, bytes;
};

/* -------------------------------------------------------------------------------------------------- work items */

__device__ inline int64_t bs_cu_ledger_over(int64_t units, int64_t each) { return (units + each - 1) / each; }

/* Elements of a row that a step makes or reads: of an image those of its rectangle. */
__device__ inline int64_t bs_cu_ledger_elements(const bs_cu_view &v)
{
    if (v.image)
        return (int64_t)v.dim[0] * max(v.y1 - v.y0, 0) * max(v.x1 - v.x0, 0);
    return bs_cu_product(v.dim, v.rank);
}

/* Work items of a row whose elements are shared out evenly in words (move_nest.cuh), or in transposed tiles. */
__device__ inline int64_t bs_cu_ledger_moved(const bs_cu_view &to, const bs_cu_view &from, bool whole)
{
    const bs_cu_nest c = bs_cu_nest_of(to, from, bs_cu_common(to, from));
    const int64_t lines = (int64_t)c.n[1] * c.n[2] * c.n[3];
    const bool lie = c.to_step[0] == 1 && c.from_step[0] == 1,
               turned = (c.to_step[0] == 1 && c.from_step[1] == 1) || (c.from_step[0] == 1 && c.to_step[1] == 1);
    if (!lie && turned && whole && c.n[0] >= 8 && c.n[1] >= 8)
        return bs_cu_ledger_over(c.n[0], BS_CU_TILE_SLOW) * bs_cu_ledger_over(c.n[1], BS_CU_TILE_FAST) * c.n[2] *
               c.n[3];
    const int32_t bytes = bs_cu_bytes(c.to_type),
                  word = min(bs_cu_word(c.to, c.n, c.to_step, bytes),
                             bs_cu_word(c.from, c.n, c.from_step, bs_cu_bytes(c.from_type)));
    const int32_t each = !lie ? 1 : c.to_type != c.from_type ? 4 : max(word / bytes, 1);
    return lines * bs_cu_ledger_over(c.n[0], each);
}

/* Work items of a copy whose words are dealt out to the threads of all of them (op_shape.cuh). */
__device__ inline int64_t bs_cu_ledger_copied(const bs_cu_view &to, const bs_cu_view &from)
{
    bs_cu_view y = to, x = from;
    while (y.rank > BS_MAX_RANK) { /* loops around copies, each dealt out anew */
        bs_cu_drop_axis(&y);
        bs_cu_drop_axis(&x);
    }
    return bs_cu_ledger_over(bs_cu_ledger_moved(y, x, false), bs_cu_threads());
}

/* The same of a slice, a transposition, a reshape of row r; else as if words of 16 bytes could be copied. */
__device__ inline int64_t bs_cu_ledger_shaped(const bs_cu_tile &t, const bs_device_step *s, int32_t r)
{
    const bs_cu_view result = bs_cu_open_out(t, s, 0, r);
    bs_cu_view operand = bs_cu_open_in(t, s, 0, r), to, from;
    const int32_t turned = s->p[BS_CU_RESHAPE_TURNED].i;
    switch (s->kernel) {
    case BS_CU_slice:
        bs_cu_shift(&operand, s->p[BS_CU_SLICE_AXIS].i, s->p[BS_CU_SLICE_START].i);
        return bs_cu_ledger_copied(result, operand);
    case BS_CU_transpose: return bs_cu_ledger_copied(result, bs_cu_turn(operand, s));
    case BS_CU_reshape: {
        const bs_cu_view y = turned == BS_CU_TURN_RESULT ? bs_cu_turn(result, s) : result;
        const bs_cu_view x = turned == BS_CU_TURN_OPERAND ? bs_cu_turn(operand, s) : operand;
        const int32_t n = bs_cu_reshape_count(y);
        return n == bs_cu_reshape_count(x) && bs_cu_reshape_views(y, x, n, &to, &from)
                   ? bs_cu_ledger_copied(to, from)
                   : bs_cu_ledger_over(n, bs_cu_threads());
    }
    default: {
        const int64_t bytes = bs_cu_ledger_elements(result) * bs_cu_bytes(result.dtype);
        return bs_cu_ledger_over(bytes, 16 * (int64_t)bs_cu_threads());
    }
    }
}

/* Work items of a convolution of row r; of a deconvolution those of all its phases. */
__device__ inline int64_t bs_cu_ledger_conv(const bs_cu_tile &t, const bs_device_step *s, int32_t r)
{
    const bs_cu_view x = bs_cu_open_in(t, s, 0, r), y = bs_cu_open_out(t, s, 0, r);
    if (y.y1 <= y.y0 || y.x1 <= y.x0)
        return 0;
    const bs_cu_conv c = bs_cu_conv_of(t, s, x, y);
    const int64_t blocks = bs_cu_ledger_over(c.out_c, 8);
    const int32_t pad = s->p[BS_CU_CONV_PAD_H].i, up = s->p[BS_CU_CONV_UP].i;
    int64_t tiles = 0;
    switch (s->kernel) {
    case BS_CU_conv2d: tiles = bs_cu_conv_tiles_of(s, c); break;
    case BS_CU_conv2d_tensor: return bs_cu_conv_tiles_of(s, c);
    case BS_CU_conv2d_depthwise:
        return bs_cu_ledger_over((int64_t)c.h * c.w * ((c.groups + 3) / 4), bs_cu_threads());
    case BS_CU_deconv2d:
        for (int32_t phase = 0; s->p[BS_CU_CONV_LAYOUT].i && phase < up * up; phase++)
            tiles += bs_cu_conv_tiles_of(s, bs_cu_deconv_job(c, x, y, pad, up, phase));
        break;
    default: break;
    }
    return tiles ? tiles * bs_cu_ledger_over(blocks, bs_cu_threads() / bs_cu_conv_quads(s))
                 : bs_cu_ledger_over(bs_cu_ledger_elements(y), bs_cu_threads());
}

/* Work items of the lines of row r (op_lines.cuh). */
__device__ inline int64_t bs_cu_ledger_lines(const bs_cu_tile &t, const bs_device_step *s, int32_t r)
{
    const bs_cu_view x = bs_cu_open_in(t, s, 0, r);
    const int32_t first = s->p[BS_CU_FIRST].i, axis = s->p[BS_CU_AXIS].i;
    const int64_t length = max((int64_t)1, bs_cu_product(bs_cu_in(t, s, 0)->dim + first, axis + 1 - first));
    return bs_cu_ledger_over(bs_cu_ledger_elements(x) / length, bs_cu_threads() / s->p[BS_CU_LANES].i);
}

/* Rows of a table: as many threads go along one as its bytes keep busy (bs_cu_gather_rows_of). */
__device__ inline int64_t bs_cu_ledger_table(const bs_cu_view &y)
{
    const int64_t rows = y.dim[0], bytes = rows ? bs_cu_ledger_elements(y) / rows * bs_cu_bytes(y.dtype) : 0;
    int32_t width = 1;
    while (width < 32 && width * 16 < bytes)
        width *= 2;
    return bs_cu_ledger_over(rows * width, bs_cu_threads());
}

/* Whether a fill has anything to do in row r: no path gives it. */
__device__ inline bool bs_cu_ledger_left(const bs_cu_tile &t, const bs_device_step *s, int32_t r)
{
    const bs_cu_decision d = bs_cu_decision_of(t);
    const int32_t path = d.chosen[(int64_t)r * d.per_row];
    return path < 0 || !bs_cu_path_gives(t, s, BS_CU_FILL_GIVEN, path);
}

/* Work items that row r makes, of a kernel that goes row by row. Where only the number of elements is known, they are
 * taken four at a time if they can be. */
__device__ inline int64_t bs_cu_ledger_of_row(const bs_cu_tile &t, const bs_device_step *s, int32_t r)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    if (s->n_out == 0)
        return 1;
    switch (s->kernel) {
    case BS_CU_conv2d:
    case BS_CU_conv2d_tensor:
    case BS_CU_conv2d_depthwise:
    case BS_CU_conv2d_plain:
    case BS_CU_deconv2d: return bs_cu_ledger_conv(t, s, r);
    case BS_CU_softmax:
    case BS_CU_layer_norm:
    case BS_CU_rms_norm:
    case BS_CU_reduce:
    case BS_CU_argmax:
    case BS_CU_argmin:
    case BS_CU_topk:
    case BS_CU_cumsum:
    case BS_CU_line_chain: return bs_cu_ledger_lines(t, s, r);
    case BS_CU_attention: return s->p[BS_CU_ATTEND_HEADS].i;
    case BS_CU_matmul:
        return bs_cu_product(out->dim, out->rank - 2) *
               bs_cu_ledger_over(out->dim[out->rank - 2], BS_CU_GEMM_SIDE) *
               bs_cu_ledger_over(out->dim[out->rank - 1], BS_CU_GEMM_SIDE);
    case BS_CU_nms:
    case BS_CU_nms_pack: return (int64_t)bs_cu_in(t, s, 1)->dim[0] * bs_cu_in(t, s, 1)->dim[1];
    case BS_CU_pool2d_global:
        return bs_cu_ledger_over(bs_cu_in(t, s, 0)->dim[0], s->p[BS_CU_POOL_CHANNELS].i);
    case BS_CU_slice:
    case BS_CU_reshape:
    case BS_CU_concat:
    case BS_CU_transpose: return bs_cu_ledger_shaped(t, s, r);
    case BS_CU_append: return s->parts;
    case BS_CU_fill:
        if (!bs_cu_ledger_left(t, s, r))
            return 0;
        break;
    default: break;
    }
    const bs_cu_view y = s->kernel <= BS_CU_paths ? bs_cu_open_target(t, out, r) : bs_cu_open(t, out, r);
    const int64_t elements = bs_cu_ledger_elements(y);
    switch (s->kernel) {
    case BS_CU_store:
    case BS_CU_fill:
        return s->n_in ? bs_cu_ledger_moved(y, bs_cu_open_in(t, s, 0, r), s->p[BS_CU_MOVE_TEAM].i == 0)
                       : bs_cu_ledger_moved(y, y, false);
    case BS_CU_paths: return bs_cu_ledger_over(elements, 4);
    case BS_CU_beyond: return elements - elements / max(y.dim[0], 1) * bs_cu_count(t, s->p[BS_CU_BEYOND_DOMAIN].i);
    case BS_CU_gather_rows: return bs_cu_ledger_table(y);
    default: return bs_cu_ledger_over(elements % 4 ? elements : elements / 4, bs_cu_threads());
    }
}

/* How many of the work items of rows [w.row, w.end) have anything to do. */
__device__ inline int64_t bs_cu_ledger_items(const bs_cu_tile &t, const bs_device_step *s, const bs_cu_work &w)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const int32_t lines = s->n_out ? bs_cu_linear_lines(out) : 0;
    const int64_t all = (int64_t)(w.end - w.row) * lines;
    int64_t items = 0;
    switch (s->kernel) {
    case BS_CU_linear:
    case BS_CU_linear_tensor:
        items = bs_cu_ledger_over(all, BS_CU_GEMM_SIDE) *
                bs_cu_ledger_over(s->p[BS_CU_LINEAR_OUT].i, bs_cu_linear_wide(t, s, lines));
        break;
    case BS_CU_lstm:
    case BS_CU_gru:
        items = bs_cu_ledger_over(bs_cu_ledger_over(all, BS_CU_RECURRENT_LINES) * out->dim[out->rank - 1],
                                  bs_cu_warps());
        break;
    default:
        for (int32_t r = w.row; r < w.end; r++) /* each part goes through all rows */
            items = max(items, bs_cu_ledger_of_row(t, s, r));
    }
    return min(items, (int64_t)s->parts);
}

/* ------------------------------------------------------------------------------------------------------- bytes */

/* Rows of a path that is decided in tiles are known when these are done: so many more than the run had before. What is
 * known ahead is counted afterwards alone. */
typedef enum bs_cu_when { BS_CU_NOW, BS_CU_BEFORE_TILES, BS_CU_AFTER_TILES } bs_cu_when;

__device__ inline int32_t bs_cu_ledger_rows(const bs_cu_tile &t, int32_t domain, bs_cu_when when)
{
    const bs_device_domain &d = t.program->domains[domain];
    if (d.kind == BS_DOMAIN_PATH && t.program->decision[d.router].in_tile)
        return reinterpret_cast<const int32_t *>(t.program->decisions + t.program->decision[d.router].sums)[d.path];
    return when == BS_CU_BEFORE_TILES ? 0 : bs_cu_count(t, domain);
}

/* This thread's share of the bytes of `rows` rows of an operand. Which rows of a path they are is known but in tiles:
 * there each has the bytes that rows around it have in the mean. */
__device__ inline int64_t bs_cu_ledger_rows_bytes(const bs_cu_tile &t, const bs_device_operand *operand, int32_t rows)
{
    bs_device_operand o = *operand;
    const int32_t first = bs_cu_thread(), step = bs_cu_threads(), bytes = bs_cu_bytes(o.dtype);
    if (o.cell == 0)
        return first == 0 ? (int64_t)rows * bytes * bs_cu_product(o.dim, o.rank) : 0;
    int32_t top = o.domain, cells = rows;
    bool known = true;
    for (; t.program->domains[top].kind == BS_DOMAIN_PATH; top = t.program->domains[top].parent)
        known = known && !t.program->decision[t.program->domains[top].router].in_tile;
    if (!known) {
        o.domain = top;
        o.depth = 0;
        cells = t.program->domains[top].count;
    }
    o.place = BS_AT_ROOT; /* only its rectangle is looked at */
    o.trip = 0;
    int64_t sum = 0;
    for (int32_t r = first; r < cells; r += step)
        sum += bs_cu_ledger_elements(bs_cu_open(t, &o, r));
    return known || cells == 0 ? sum * bytes : sum * rows / cells * bytes;
}

/* Whether an operand is there, in memory: one that is not given has no address; rows of a tile are in shared memory. */
__device__ inline bool bs_cu_ledger_in_memory(const bs_cu_tile &t, const bs_device_operand *o)
{
    return o->place == BS_AT_TILE ? t.program->scratch_bytes > 0 : o->base != 0;
}

/* This thread's share of the bytes of an operand. */
__device__ inline int64_t bs_cu_ledger_operand(const bs_cu_tile &t, const bs_device_operand *o, bs_cu_when when)
{
    return bs_cu_ledger_in_memory(t, o) ? bs_cu_ledger_rows_bytes(t, o, bs_cu_ledger_rows(t, o->domain, when)) : 0;
}

/* Whether a step reads of its first operand no more than it makes: an index or an axis says which part. */
__host__ __device__ static inline bool bs_cu_ledger_reads_part(int32_t kernel)
{
    switch (kernel) {
    case BS_CU_gather_rows:
    case BS_CU_gather_elements:
    case BS_CU_select:
    case BS_CU_slice: return true;
    default: return false;
    }
}

/* This thread's share of the bytes of rows that a fill copies or zeroes. */
__device__ inline int64_t bs_cu_ledger_filled(const bs_cu_tile &t, const bs_device_step *s, int32_t rows)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    const bs_device_decision &d = t.program->decision[s->router];
    const int32_t each = bs_cu_bytes(out->dtype) + (s->n_in ? bs_cu_bytes(bs_cu_in(t, s, 0)->dtype) : 0);
    const int32_t *sums = reinterpret_cast<const int32_t *>(t.program->decisions + d.sums);
    int32_t left = rows;
    int64_t sum = 0;
    for (int32_t p = 0; p < d.paths && d.in_tile; p++)
        left -= bs_cu_path_gives(t, s, BS_CU_FILL_GIVEN, p) ? sums[p] : 0;
    if (d.in_tile)
        return bs_cu_ledger_in_memory(t, out) ? bs_cu_ledger_rows_bytes(t, out, left) / bs_cu_bytes(out->dtype) * each
                                              : 0;
    for (int32_t r = bs_cu_thread(); r < rows; r += bs_cu_threads())
        sum += bs_cu_ledger_left(t, s, r) ? bs_cu_ledger_elements(bs_cu_open_target(t, out, r)) * each : 0;
    return sum;
}

/* This thread's share of what a step on `rows` rows reads and writes, without its weights. */
__device__ inline int64_t bs_cu_ledger_bytes(const bs_cu_tile &t, const bs_device_step *s, int32_t rows,
                                             bs_cu_when when)
{
    const bs_device_operand *out = bs_cu_out(t, s, 0);
    int64_t sum = 0;
    switch (s->kernel) {
    case BS_CU_fill: return bs_cu_ledger_filled(t, s, rows);
    case BS_CU_beyond:
        return bs_cu_ledger_operand(t, out, when) / max(out->dim[0], 1) *
               max(out->dim[0] - bs_cu_count(t, s->p[BS_CU_BEYOND_DOMAIN].i), 0);
    default: break;
    }
    for (int32_t i = 0; i < s->n_in + s->n_out; i++) {
        const bs_device_operand *o = bs_cu_in_of_many(t, s, i);
        if (i == 0 && bs_cu_ledger_reads_part(s->kernel))
            sum += bs_cu_ledger_in_memory(t, o) ? bs_cu_ledger_operand(t, out, when) / bs_cu_bytes(out->dtype) *
                                                      bs_cu_bytes(o->dtype)
                                                : 0;
        else if (o->place == BS_AT_RING) /* of the ring the rows that are appended */
            sum += bs_cu_ledger_rows_bytes(t, bs_cu_in(t, s, 0), rows) / bs_cu_bytes(bs_cu_in(t, s, 0)->dtype) *
                   bs_cu_bytes(o->dtype);
        else
            sum += bs_cu_ledger_operand(t, o, when);
    }
    return sum;
}

/* ------------------------------------------------------------------------------------------------------- a step */

/* Counts a step of a launch that comes next, or, in a region, its bytes. of: the domain whose rows are told. */
__global__ void bs_cu_count_step(BS_CU_ARGUMENT bs_cu_program program, int32_t step, int32_t of, bs_cu_when when,
                                 bs_cu_counted *counted)
{
    BS_SHARED(uint64_t, sums, [8]);
    BS_SHARED(uint4, room, [sizeof(bs_cu_record) / sizeof(uint4)]);
    bs_cu_record *record = reinterpret_cast<bs_cu_record *>(room);
    const bs_cu_tile t = bs_cu_everything(&program, NULL, record);
    bs_cu_take_record(program, bs_cu_step_number(program, step), record);
    __syncthreads();
    const bs_device_step *s = &record->step;
    const bool now = when == BS_CU_NOW, wanted = !bs_cu_failed(program) && (!now || bs_cu_wants_kernel(t, s));
    const int32_t rows = wanted ? bs_cu_ledger_rows(t, s->domain, when) : 0;
    const int64_t batches = bs_cu_ledger_over(rows, s->batch);
    int64_t items = 0;
    for (int64_t b = bs_cu_thread(); b < batches && now; b += bs_cu_threads()) {
        const int32_t first = (int32_t)b * s->batch;
        const bs_cu_work w = {first, first + min(s->batch, rows - first), 0, s->parts};
        items += bs_cu_ledger_items(t, s, w);
    }
    const int64_t bytes = wanted && (rows > 0 || !now) ? bs_cu_ledger_bytes(t, s, rows, when) : 0;
    const bs_cu_counted all = {(int64_t)bs_cu_sum_threads(sums, (uint64_t)items), batches * s->parts,
                               wanted ? bs_cu_ledger_rows(t, of, when) : 0,
                               (int64_t)bs_cu_sum_threads(sums, (uint64_t)bytes)};
    if (bs_cu_thread() == 0)
        *counted = all;
}

#endif
