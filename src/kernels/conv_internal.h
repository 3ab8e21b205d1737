/* conv_internal.h: the interface between conv.c and the per-tier kernels.
 *
 * Owns:      the argument blocks of the inner kernels and the table that each tier fills in.
 * Relies on: conv.h.
 * Must never: be included by anything outside src/kernels.
 */
#ifndef BS_KERNELS_CONV_INTERNAL_H
#define BS_KERNELS_CONV_INTERNAL_H

#include "kernels/conv.h"

/* Which family of inner kernels computes a direct convolution. A function of geometry and lane count only,
 * because the packed layout follows from it. */
typedef enum bs_conv_family {
    BS_FAMILY_OUTER,    /* lanes are output channels; inputs are broadcast */
    BS_FAMILY_GEMM,     /* a 1x1 kernel: lanes are output channels, in panels */
    BS_FAMILY_DOT,      /* lanes are input channels; four outputs a pass, reduced at the end */
    BS_FAMILY_DEPTHWISE /* lanes are channels, one group each */
} bs_conv_family;

enum {
    BS_MOST_LANES = 16,
    BS_GEMM_VECTORS = 3, /* of a panel */
    BS_GEMM_DEPTH = 192, /* products that are summed from zero: a part of the arithmetic */
    BS_OUTER_DEPTH = 384, /* the same of a direct convolution, of one that has more than twice as many */
    BS_OUTER_SUMS = 14 * 2 * BS_MOST_LANES, /* of a tile of the widest tier */
    BS_GEMM_MOST_ROWS = 8,
    BS_GEMM_ABREAST = 4, /* panels that one row takes at once, at most */
    /* columns that a kernel of this build's widest tier takes at once */
    BS_GEMM_ZEROS = BS_GEMM_VECTORS * BS_GEMM_ABREAST * (BS_HAVE_X86_TIERS ? BS_MOST_LANES : 4),
    BS_DOT_OUTPUTS = 4, /* outputs of one pass of the dot kernel */
    BS_TENSOR_STEPS = 256, /* most steps of 16 products */
    BS_WINOGRAD_DEPTH = 64, /* products that are summed from zero, at most */
    BS_WINOGRAD_OUT = 4,
    BS_WINOGRAD_IN = 6,
    BS_WINOGRAD_POINTS = 36,
    BS_WINOGRAD_TAPS = 9
};

#ifndef BS_SMALL
/* Floats that the next tile will read or write: each vector of this one fetches a share of them. */
typedef struct bs_conv_next {
    const float *at; /* or NULL */
    ptrdiff_t share;
} bs_conv_next;

enum { BS_CONV_NEXT = 3 };

/* Must be inlined: GCC drops calls of a function that does no more than this. */
static inline __attribute__((always_inline)) void bs_conv_fetch(const bs_conv_next *next, int32_t vector)
{
    for (int32_t i = 0; i < BS_CONV_NEXT && next[i].at; i++)
        for (ptrdiff_t f = 0; f < next[i].share; f += 16)
            __builtin_prefetch(next[i].at + vector * next[i].share + f);
}
#endif

#ifndef BS_SMALL
/* Where the pixels of a tile lie that reaches over the ends of rows, and the one after them, in floats from the first
 * one. */
enum { BS_ACROSS_PIXELS = 8 }; /* at most */

typedef struct bs_conv_places {
    ptrdiff_t in[BS_ACROSS_PIXELS + 1], out[BS_ACROSS_PIXELS + 1], residual[BS_ACROSS_PIXELS + 1];
} bs_conv_places;
#endif

/* A run of pixels of one output row, times one block of output channels. Strides in floats. */
typedef struct bs_conv_tile {
    const float *in;   /* first window of the tile, first channel of the group */
    ptrdiff_t in_row;  /* between kernel rows */
    ptrdiff_t in_tap;  /* between taps of a kernel row */
    ptrdiff_t in_step; /* between the windows of neighbouring pixels */
    int32_t rows, taps;
    int32_t run; /* input channels of a tap (or of a whole kernel row where taps are contiguous) */
    const float *weights;

    int32_t channel;  /* first output channel of the block */
    int32_t channels; /* valid output channels: the kernel's vectors cover them, only the last vector may be partial */
    float *out;       /* first pixel, first channel of the block */
    ptrdiff_t out_pixel;
    const float *residual; /* the same of the residual, or NULL */
    ptrdiff_t residual_pixel;
    const bs_conv_task *task; /* bias, activation, order of the residual */
#ifndef BS_SMALL
    bs_conv_next next[BS_CONV_NEXT]; /* of kernels that fetch */
    const bs_conv_places *places; /* of kernels whose pixels are of several rows: instead of the steps between them */
#endif
} bs_conv_tile;

typedef void bs_conv_tile_kernel(const bs_conv_tile *tile);

/* Some rows by a block of a panel: out = clamp(add + in x weights). Steps between rows, in floats. A kernel takes
 * `tiles` times the rows that it is for, one after the other; in a small library (BS_SMALL) `tiles` is 1. */
typedef struct bs_gemm_tile {
    const float *in;
    int32_t tiles;
    ptrdiff_t in_step;
    const float *weights;
    /* where several panels are taken: from each whole one to the next, and the weights of the last */
    ptrdiff_t panel;
    const float *last;
    int32_t depth;   /* products */
    const float *add; /* the bias (step 0), or the sums so far */
    ptrdiff_t add_step;
    float *out;
    ptrdiff_t out_step;
    int32_t columns; /* valid ones, of the last panel: the kernel's vectors cover them, only the last may be partial */
    float low, high;
    const char *next; /* what will be read soon, or the weights */
    ptrdiff_t next_step; /* bytes of it that are fetched while four products of a tile are summed */
} bs_gemm_tile;

typedef void bs_gemm_kernel(const bs_gemm_tile *tile);

#ifndef BS_SMALL
/* One row by whole vectors of columns of a matrix that is not packed. */
typedef struct bs_gemm_row {
    const float *a;
    int32_t depth; /* elements of the row, which lie side by side */
    const float *b;
    ptrdiff_t b_step; /* between those that do not: rows for kernels of lines, columns for those of turns */
    float scale;      /* of b, for kernels of turns */
    float *out;
} bs_gemm_row;

typedef void bs_gemm_row_kernel(const bs_gemm_row *row);

enum { BS_ROW_LINES = 4, BS_ROW_TURNS = 2 };
#endif

/* Winograd tiles being transformed: lines one below the other of `tiles` side by side. `points` is the element of point
 * 0 of the first; its others follow at `point_step`, the next tile's a pixel of whole vectors on. Of outputs `rows` and
 * `columns` are stored, 4 of each where there is more than one tile. */
typedef void bs_conv_winograd_in(const float *in, ptrdiff_t in_row, ptrdiff_t in_pixel, int32_t channels, int32_t tiles,
                                 int32_t lines, float *points, ptrdiff_t point_step);
typedef void bs_conv_winograd_out(const float *points, ptrdiff_t point_step, const bs_conv_tile *tile,
                                  ptrdiff_t out_row, ptrdiff_t residual_row, int32_t rows, int32_t columns,
                                  int32_t tiles, int32_t lines);

/* Whether some tier has kernels for all points of Winograd: of a small library (BS_SMALL) AVX2, that of eight channels,
 * which sums in an order of its own. */
#if !defined(BS_SMALL) || BS_HAVE_X86_TIERS
#define BS_HAVE_WINOGRAD_POINTS 1
#else
#define BS_HAVE_WINOGRAD_POINTS 0
#endif

#if BS_HAVE_WINOGRAD_POINTS
/* Products at all points of `groups` times as many tiles as a kernel is for, by a block of weights. Steps from point to
 * point, from tile to tile, and from channel to channel, in floats. */
typedef struct bs_conv_points {
    const float *in, *weights;
    float *out;
    ptrdiff_t in_step, weights_step, out_step, in_tile, out_tile, weights_channel;
    int32_t channels, groups;
} bs_conv_points;

typedef void bs_conv_points_kernel(const bs_conv_points *job);
#endif

/* Six points, those of row y, of a block of weights: tap t and point x are t or x times `floats` on, whole vectors. */
typedef void bs_conv_winograd_weights(const float *taps, ptrdiff_t floats, int32_t y, float *points);

typedef struct bs_conv_kernels {
    int32_t lanes;
    int32_t outer_pixels[3]; /* [vectors]: most pixels of a tile */
    bs_conv_tile_kernel *const *outer[3]; /* [vectors][pixels]; [0] is unused */
#ifndef BS_SMALL
    bs_conv_tile_kernel *const *across[3]; /* [vectors][pixels], from 2 to OUTER's or BS_ACROSS_PIXELS; or NULL */
#endif
    int32_t gemm_rows[BS_GEMM_VECTORS + 1]; /* [vectors]: at most, so that enough sums are under way */
    bs_gemm_kernel *const *gemm[BS_GEMM_VECTORS + 1]; /* [vectors][rows] */
    /* [panels][vectors of the last]: one row, two panels or more, of which all but the last are whole; or NULL */
    bs_gemm_kernel *const (*gemm_beside)[BS_GEMM_VECTORS + 1];
#ifndef BS_SMALL
    void (*gemm_pack)(const float *from, ptrdiff_t step, int32_t rows, int32_t columns, float scale, float *panel);
    bs_gemm_row_kernel *const *row_lines, *const *row_turns; /* [i]: 2^i vectors, i < BS_ROW_LINES or BS_ROW_TURNS */
#endif
    void (*finish)(const bs_conv_tile *tile, const float *sums, ptrdiff_t pixel, int32_t pixels);
    int32_t dot_pixels;
    bs_conv_tile_kernel *const *dot; /* [pixels], or NULL: then OUTER is used */
    int32_t depthwise_pixels;
    bs_conv_tile_kernel *const *depthwise; /* [pixels] */
#ifndef BS_SMALL
    bs_conv_tile_kernel *const *depthwise_whole; /* [pixels], of any number of whole vectors, no residual; or NULL */
    bs_conv_points_kernel *const *points[3]; /* [vectors][tiles], as many as OUTER's pixels; or NULL */
#endif
#if BS_HAVE_WINOGRAD_POINTS
    bs_conv_points_kernel *points_eight; /* `groups` tiles of eight channels to a vector; or NULL */
#endif
    int32_t winograd_tiles; /* that both transforms take at most */
    bs_conv_winograd_in *winograd_in;
    bs_conv_winograd_out *winograd_out;
    bs_conv_winograd_weights *winograd_weights;
} bs_conv_kernels;

/* The table made of a tier's templates; for DOT, its most pixels and its kernels, or 0 and NULL. */
#define BS_CONV_TABLE(pixels_of_dot, kernels_of_dot)                                     \
    {                                                                                    \
        .lanes = BS_LANES,                                                               \
        .outer_pixels = { 0, BS_OUTER_PIXELS_1, BS_OUTER_PIXELS_2 },                     \
        .outer = { NULL, BS_TIER_FN(bs_conv_outer_1), BS_TIER_FN(bs_conv_outer_2) },     \
        BS_ACROSS_KERNELS                                                                \
        .gemm_rows = { 0, BS_GEMM_ROWS_1, BS_GEMM_ROWS_2, BS_GEMM_ROWS_3 },              \
        .gemm = { NULL, BS_TIER_FN(bs_gemm_1), BS_TIER_FN(bs_gemm_2), BS_TIER_FN(bs_gemm_3) }, \
        .gemm_beside = BS_GEMM_BESIDE_KERNELS,                                           \
        BS_ROW_KERNELS                                                                   \
        .finish = BS_TIER_FN(bs_conv_finish),                                            \
        .dot_pixels = pixels_of_dot,                                                     \
        .dot = kernels_of_dot,                                                           \
        .depthwise_pixels = BS_DEPTHWISE_PIXELS,                                         \
        .depthwise = BS_TIER_FN(bs_conv_depthwise),                                      \
        BS_DEPTHWISE_WHOLE_KERNELS                                                       \
        BS_POINTS_KERNELS                                                                \
        .winograd_tiles = BS_WINOGRAD_TILES,                                             \
        .winograd_in = BS_WINOGRAD_FN(bs_conv_winograd_in),                              \
        .winograd_out = BS_WINOGRAD_FN(bs_conv_winograd_out),                            \
        .winograd_weights = BS_WINOGRAD_FN(bs_conv_winograd_weights),                    \
    }

/* The table of a tier, or NULL if it is not compiled in. */
const bs_conv_kernels *bs_conv_kernels_scalar(void);
const bs_conv_kernels *bs_conv_kernels_avx2(void);
const bs_conv_kernels *bs_conv_kernels_avx512(void);
const bs_conv_kernels *bs_conv_kernels_neon(void);

/* conv.c: the table of a tier, NULL where it is not compiled in. */
const bs_conv_kernels *bs_conv_kernels_of(bs_tier tier);

/* conv.c: what the tiles of a task share. */
bs_conv_tile bs_conv_tile_of(const bs_conv_geometry *geometry, const bs_conv_task *task, int32_t lanes,
                             bs_conv_family family);

/* conv_direct.c: OUTER and DOT; OUTER of one group also several images */
void bs_conv_run_direct(const bs_conv_geometry *geometry, const bs_conv_kernels *kernels, bs_conv_family family,
                        const bs_conv_task *task);

/* conv_depthwise.c */
void bs_conv_run_depthwise(const bs_conv_geometry *geometry, const bs_conv_kernels *kernels, const bs_conv_task *task);

/* gemm.c */
/* What is added to the first sums of a matrix without bias. */
extern const float bs_gemm_zero[BS_GEMM_ZEROS];
/* How many rows the next tile takes of those that are left, and how many tiles take as many. */
typedef struct bs_gemm_share {
    int32_t rows, tiles;
} bs_gemm_share;
bs_gemm_share bs_gemm_next_rows(const bs_conv_kernels *kernels, int32_t vectors, int32_t left);
/* Columns of the next panel of those that are left, where panels are made while a product runs: evenly, because a panel
 * of one vector has too few sums under way. */
int32_t bs_gemm_next_columns(const bs_conv_kernels *kernels, int32_t left);
/* Some rows by the block at hand. The tile is moved on beyond them. */
void bs_gemm_run(const bs_conv_kernels *kernels, int32_t vectors, int32_t rows, bs_gemm_tile *tile);
void bs_conv_run_gemm(const bs_conv_geometry *geometry, const bs_conv_kernels *kernels, const bs_conv_task *task);

/* conv_pack.c: layout, known without running the tier's instructions. Lanes of each tier are fixed. */
int32_t bs_conv_lanes(bs_tier tier);
bs_conv_family bs_conv_family_of(const bs_conv_geometry *geometry, bs_tier tier);
bool bs_conv_can_prepare(const bs_conv_geometry *geometry, bs_conv_algorithm algorithm, bs_tier tier);

#if defined(BS_NO_WINOGRAD) /* no geometry fits, so no other function of it is called */
static inline bool bs_conv_winograd_fits(const bs_conv_geometry *geometry) { return (void)geometry, false; }
static inline bool bs_conv_winograd_stores(const bs_conv_geometry *geometry) { return (void)geometry, false; }
static inline size_t bs_conv_winograd_scratch(const bs_conv_geometry *geometry, int32_t lanes)
{
    return (void)geometry, (void)lanes, (size_t)0;
}
static inline int32_t bs_conv_winograd_block(const bs_conv_geometry *geometry, int32_t lanes)
{
    return (void)geometry, (void)lanes, 0;
}
static inline void bs_conv_winograd_pack(const float *weights, int32_t out, int32_t in, int32_t width, ptrdiff_t step,
                                         float *to)
{
    (void)weights, (void)out, (void)in, (void)width, (void)step, (void)to;
}
static inline void bs_conv_winograd_run(const bs_conv_geometry *geometry, const bs_conv_kernels *kernels,
                                        const bs_conv_task *task)
{
    (void)geometry, (void)kernels, (void)task;
}
#else
/* conv_winograd_pack.c: whether Winograd serves a geometry, and whether transformed weights are stored, else those of
 * OUTER are transformed in each run; [out][in][9] -> [36 points, `step` apart] of a block of OUTER with a 1x1 kernel */
bool bs_conv_winograd_fits(const bs_conv_geometry *geometry);
bool bs_conv_winograd_stores(const bs_conv_geometry *geometry);
void bs_conv_winograd_pack(const float *weights, int32_t out, int32_t in, int32_t width, ptrdiff_t step, float *to);
/* conv_winograd.c */
size_t bs_conv_winograd_scratch(const bs_conv_geometry *geometry, int32_t lanes);
int32_t bs_conv_winograd_block(const bs_conv_geometry *geometry, int32_t lanes);
void bs_conv_winograd_run(const bs_conv_geometry *geometry, const bs_conv_kernels *kernels,
                          const bs_conv_task *task);
#endif

static inline int32_t bs_conv_ceil_div(int32_t a, int32_t b)
{
    return a / b + (a % b != 0); /* NOLINT(clang-analyzer-core.DivideZero): a count, at least 1 */
}

static inline int32_t bs_conv_round_up(int32_t a, int32_t b)
{
    return bs_conv_ceil_div(a, b) * b;
}

/* A share of `all` of at most `most`, where all shares are about equal. */
static inline int32_t bs_conv_equal(int32_t all, int32_t most)
{
    return bs_conv_ceil_div(all, bs_conv_ceil_div(all, most));
}

static inline int32_t bs_conv_images(const bs_conv_task *task)
{
    return task->images > 0 ? task->images : 1;
}

static inline int32_t bs_conv_min(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* How many pixels the next of `tiles` tiles takes. Pixels are divided evenly: 64 by at most 14 are 13 13 13 13 12, not
 * 14 14 14 14 8. A small library (BS_SMALL) has kernels for some counts only (repeat.h): 8 4 1 for 13 on x86-64. */
static inline int32_t bs_conv_next_pixels(bs_conv_tile_kernel *const *kernels, int32_t left, int32_t tiles,
                                          int32_t most)
{
#ifdef BS_SMALL
    int32_t count = bs_conv_min(left, most);
    while (!kernels[count])
        count--;
    return (void)tiles, count;
#else
    return (void)kernels, (void)most, bs_conv_ceil_div(left, tiles);
#endif
}

#endif
