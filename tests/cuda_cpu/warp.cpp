/* warp.cpp - lanes meet: shuffles, votes, reductions, tensor operations. Each lane leaves its words in the block's
 * table; the last one to come works out everybody's result. Relies on block.cpp for turns. Must never order memory
 * (only __syncwarp does) and must never move words by memcpy, which a sanitizer would see. */
#include "block.h"

#include <string.h>

namespace cuda_cpu {

static bool in(unsigned mask, int lane) { return (mask >> lane & 1u) != 0; }

static void words_move(volatile uint32_t *to, const volatile uint32_t *from, unsigned words)
{
    for (unsigned i = 0; i < words; i++)
        to[i] = from[i];
}

static void shuffle(LaneWords *lane, unsigned mask, unsigned words)
{
    for (int l = 0; l < 32; l++) {
        if (!in(mask, l))
            continue;
        const int from = lane[l].source;
        if (from >= 0 && from < 32 && in(mask, from))
            words_move(lane[l].got, lane[from].given, words);
        else /* undefined on the device: loud here */
            for (unsigned i = 0; i < words; i++)
                lane[l].got[i] = 0xa5a5a5a5u;
    }
}

static void vote(LaneWords *lane, unsigned mask)
{
    uint32_t ballot = 0;
    for (int l = 0; l < 32; l++)
        if (in(mask, l) && lane[l].given[0])
            ballot |= 1u << l;
    for (int l = 0; l < 32; l++)
        if (in(mask, l))
            lane[l].got[0] = ballot;
}

static void match(LaneWords *lane, unsigned mask, bool all)
{
    for (int l = 0; l < 32; l++) {
        if (!in(mask, l))
            continue;
        uint32_t same = 0;
        for (int k = 0; k < 32; k++)
            if (in(mask, k) && lane[k].given[0] == lane[l].given[0] && lane[k].given[1] == lane[l].given[1])
                same |= 1u << k;
        lane[l].got[0] = !all || same == mask ? same : 0;
    }
}

static uint32_t reduce_two(int kind, uint32_t a, uint32_t b)
{
    const int32_t x = static_cast<int32_t>(a), y = static_cast<int32_t>(b);
    switch (kind) {
    case CUDA_CPU_WARP_ADD: return a + b;
    case CUDA_CPU_WARP_MIN_SIGNED: return x < y ? a : b;
    case CUDA_CPU_WARP_MIN_UNSIGNED: return a < b ? a : b;
    case CUDA_CPU_WARP_MAX_SIGNED: return x > y ? a : b;
    case CUDA_CPU_WARP_MAX_UNSIGNED: return a > b ? a : b;
    case CUDA_CPU_WARP_AND: return a & b;
    case CUDA_CPU_WARP_OR: return a | b;
    default: return a ^ b;
    }
}

static void reduce(LaneWords *lane, unsigned mask, int kind)
{
    uint32_t result = lane[__builtin_ctz(mask)].given[0];
    for (int l = __builtin_ctz(mask) + 1; l < 32; l++)
        if (in(mask, l))
            result = reduce_two(kind, result, lane[l].given[0]);
    for (int l = 0; l < 32; l++)
        if (in(mask, l))
            lane[l].got[0] = result;
}

/* ---- tensor operations ---- */

static float bits_as_float(uint32_t bits)
{
    union {
        uint32_t bits;
        float value;
    } both = {bits};
    return both.value;
}

static uint32_t float_as_bits(float value)
{
    union {
        float value;
        uint32_t bits;
    } both = {value};
    return both.bits;
}

/* IEEE binary16, the lower or the upper half of a word. */
static float half_of(uint32_t word, int upper)
{
    const uint32_t half = upper ? word >> 16 : word & 0xffffu, sign = (half & 0x8000u) << 16;
    const uint32_t exponent = half >> 10 & 31u, fraction = half & 0x3ffu;
    if (exponent == 31)
        return bits_as_float(sign | 0x7f800000u | fraction << 13);
    if (exponent)
        return bits_as_float(sign | (exponent + 112) << 23 | fraction << 13);
    const float small = static_cast<float>(fraction) * (1.0f / 16777216.0f);
    return sign ? -small : small;
}

/* given: a[4], b[2], d[4]. Lane l holds, with g = l / 4 and t = l % 4: of a the rows g and g+8, columns 2t, 2t+1 and
 * those plus 8; of b the column g, rows 2t, 2t+1 and those plus 8; of d the rows g and g+8, columns 2t and 2t+1. */
static void multiply(LaneWords *lane)
{
    float a[16][16], b[16][8];
    for (int l = 0; l < 32; l++) {
        const int g = l >> 2, t = l & 3;
        for (int i = 0; i < 8; i++)
            a[g + (i >> 1 & 1) * 8][t * 2 + (i & 1) + (i >> 2) * 8] = half_of(lane[l].given[i >> 1], i & 1);
        for (int i = 0; i < 4; i++)
            b[t * 2 + (i & 1) + (i >> 1) * 8][g] = half_of(lane[l].given[4 + (i >> 1)], i & 1);
    }
    for (int l = 0; l < 32; l++) {
        const int g = l >> 2, t = l & 3;
        for (int i = 0; i < 4; i++) {
            const int row = g + (i >> 1) * 8, column = t * 2 + (i & 1);
            float sum = bits_as_float(lane[l].given[6 + i]);
            for (int k = 0; k < 16; k++)
                sum += a[row][k] * b[k][column];
            lane[l].got[i] = float_as_bits(sum);
        }
    }
}

/* given: the row of 8 halves that the lane named; lanes 8i to 8i+7 name the rows of matrix i. Plain: lane l gets of
 * each matrix the row l / 4, columns 2(l%4) and the next. Transposed: the column l / 4, rows 2(l%4) and the next. */
static void load_matrices(LaneWords *lane, bool transposed)
{
    for (int l = 0; l < 32; l++)
        for (int m = 0; m < 4; m++) {
            const int far = l >> 2, near = l & 3;
            if (!transposed) {
                lane[l].got[m] = lane[m * 8 + far].given[near];
                continue;
            }
            uint32_t word = 0;
            for (int i = 0; i < 2; i++)
                word |= (lane[m * 8 + near * 2 + i].given[far >> 1] >> 16 * (far & 1) & 0xffffu) << 16 * i;
            lane[l].got[m] = word;
        }
}

static void work_out(int kind, LaneWords *lane, unsigned mask, unsigned words)
{
    switch (kind) {
    case CUDA_CPU_WARP_SYNC: return;
    case CUDA_CPU_WARP_SHUFFLE: return shuffle(lane, mask, words);
    case CUDA_CPU_WARP_BALLOT: return vote(lane, mask);
    case CUDA_CPU_WARP_MATCH_ANY: return match(lane, mask, false);
    case CUDA_CPU_WARP_MATCH_ALL: return match(lane, mask, true);
    case CUDA_CPU_WARP_MMA_16816: return multiply(lane);
    case CUDA_CPU_WARP_LDMATRIX_X4: return load_matrices(lane, false);
    case CUDA_CPU_WARP_LDMATRIX_X4_TRANS: return load_matrices(lane, true);
    default: return reduce(lane, mask, kind);
    }
}

/* ---- the meeting ---- */

/* The meeting of this mask that has begun, else a free place: parts of a warp that have diverged may be in several. */
size_t Block::meeting_for(unsigned w, unsigned mask)
{
    const unsigned first = static_cast<unsigned>(__builtin_ctz(mask));
    size_t vacant = w * 32 + first;
    bool found = false;
    for (unsigned i = 0; i < 32; i++) {
        const size_t at = w * 32 + (first + i) % 32;
        if (meetings[at].arrived && meetings[at].mask == mask)
            return at;
        if (!meetings[at].arrived && !found) {
            found = true;
            vacant = at;
        }
    }
    return vacant;
}

void Block::warp(int kind, unsigned mask, const uint32_t *given, unsigned given_words, int source, uint32_t *got,
                 unsigned got_words, const char *file, int line)
{
    const unsigned number = cuda_cpu_self->slot, lane = cuda_cpu_self->lane, w = cuda_cpu_self->warp;
    const char *text = grid->kernel->text;
    const int name = kernel_name_length(text), in_warp = threads - static_cast<int>(w) * 32;
    const unsigned exist = in_warp < 32 ? (1u << in_warp) - 1 : ~0u;
    if (kind >= CUDA_CPU_WARP_MMA_16816 && exist != ~0u)
        die("kernel %.*s: a tensor operation at %s:%d in a warp of %d lanes", name, text, file, line, in_warp);
    mask &= exist; /* lanes that never existed may be named */
    if (!in(mask, static_cast<int>(lane)))
        die("kernel %.*s: thread %u at %s:%d is not in its own mask %08x", name, text, number, file, line, mask);
    if (mask & ~live_lanes[w])
        die("kernel %.*s: thread %u at %s:%d names lanes %08x, which have ended", name, text, number, file, line,
            mask & ~live_lanes[w]);

    const size_t where = meeting_for(w, mask);
    Meeting &meeting = meetings[where];
    if (!meeting.arrived)
        meeting = Meeting{mask, 0, kind, line, file};
    else if (meeting.kind != kind || meeting.line != line)
        die("kernel %.*s: lanes of one warp meet in different operations: thread %u at %s:%d, others at %s:%d", name,
            text, number, file, line, meeting.file, meeting.line);
    LaneWords *mine = &lanes[number], *all = mine - lane;
    words_move(mine->given, given, given_words);
    mine->source = source;
    meeting.arrived |= 1u << lane;

    const bool orders = kind == CUDA_CPU_WARP_SYNC;
    Tag *coming = &tags[2 + where * 2], *going = coming + 1;
    if (orders)
        order_release(coming);
    if (meeting.arrived == mask) {
        meeting.arrived = 0;
        work_out(kind, all, mask, got_words);
        if (orders) {
            order_acquire(coming);
            order_release(going);
        }
        runnable[w] |= mask & ~(1u << lane);
    } else {
        wait(file, line);
        if (orders)
            order_acquire(going);
    }
    words_move(got, mine->got, got_words);
}

} // namespace cuda_cpu

extern "C" void cuda_cpu_warp(int kind, unsigned mask, const uint32_t *given, unsigned given_words, int source,
                              uint32_t *got, unsigned got_words, const char *file, int line)
{
    cuda_cpu::block_now()->warp(kind, mask, given, given_words, source, got, got_words, file, line);
}
