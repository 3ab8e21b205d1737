/* naive_found.h - unique, nms and levels as their definition reads: a part of the oracle (naive.h). */
#ifndef BS_TEST_NAIVE_FOUND_H
#define BS_TEST_NAIVE_FOUND_H

#include "naive_graph.h"

/* Whether a comes before b in rising order, NaN last. */
static inline bool naive_before(double a, double b) { return a < b || (isnan(b) && !isnan(a)); }

/* The least element that is above the last one, again and again. */
static inline int64_t naive_unique(const naive *n, const bs_node *node, const double *x, double *const *out)
{
    const int64_t elements = naive_elements(n, bs_node_in(n->g, node)[0]), room = naive_elements(n, node->first_out);
    double last = 0, spare;
    for (int64_t count = 0;; count++) {
        int64_t best = -1;
        for (int64_t i = 0; i < elements; i++)
            if ((count == 0 || naive_before(last, x[i])) && (best < 0 || naive_before(x[i], x[best])))
                best = i;
        if (best < 0)
            return count;
        last = x[best];
        *(count < room ? &out[0][count] : &spare) = last;
        *(count < room ? &out[1][count] : &spare) = (double)best;
        for (int64_t i = best; i < elements; i++)
            if (x[i] == last || (isnan(x[i]) && isnan(last))) {
                out[2][i] = (double)count;
                *(count < room ? &out[3][count] : &spare) += 1;
            }
    }
}

/* What two boxes share, as a part of the area of both. */
static inline float naive_iou(const double *a, const double *b, bool centre)
{
    float area[3] = {1, 1, 1}; /* of a, of b, of what they share */
    for (int32_t axis = 0; axis < 2; axis++) {
        float low = -INFINITY, high = INFINITY;
        for (int32_t i = 0; i < 2; i++) {
            const double *box = i ? b : a, from = box[axis], to = box[axis + 2];
            const float ends[2] = {centre ? (float)(from - to / 2) : (float)from,
                                   centre ? (float)(from + to / 2) : (float)to};
            area[i] = (float)((double)area[i] * fabsf(ends[1] - ends[0]));
            low = fmaxf(low, fminf(ends[0], ends[1]));
            high = fminf(high, fmaxf(ends[0], ends[1]));
        }
        area[2] = (float)((double)area[2] * fmaxf(high - low, 0));
    }
    const float both = area[0] + area[1] - area[2];
    return both > 0 ? area[2] / both : 0;
}

/* Of one class, whose rows begin with row `first`: the best box that is not yet tried, again and again. */
static inline int64_t naive_nms_class(const naive *n, const bs_node *node, const double *boxes, const double *scores,
                                      const double *where, int64_t first, double *y)
{
    const bs_nms_desc *p = node->params;
    const int64_t size = naive_dim(n, bs_node_in(n->g, node)[0], 1), room = naive_dim(n, node->first_out, 0);
    int64_t kept[256], count = 0;
    bool tried[256] = {false};
    while (p->max_each == 0 || count < p->max_each) {
        int64_t best = -1;
        for (int64_t i = 0; i < size; i++)
            if (!tried[i] && scores[i] > (double)p->score_above && (best < 0 || scores[i] > scores[best]))
                best = i;
        if (best < 0)
            break;
        bool apart = tried[best] = true;
        for (int64_t k = 0; k < count; k++)
            apart = apart && naive_iou(boxes + 4 * kept[k], boxes + 4 * best, p->centre) <= p->iou_threshold;
        if (!apart)
            continue;
        kept[count] = best;
        const double found[3] = {where[0], where[1], (double)best};
        if (first + count < room)
            memcpy(y + 3 * (first + count), found, sizeof found);
        count++;
    }
    return count;
}

static inline int64_t naive_nms(const naive *n, const bs_node *node, const double *const *in, double *y)
{
    const int32_t scores = bs_node_in(n->g, node)[1];
    const int64_t batches = naive_dim(n, scores, 0), classes = naive_dim(n, scores, 1), size = naive_dim(n, scores, 2);
    int64_t count = 0;
    for (int64_t l = 0; l < batches * classes; l++) {
        const double where[2] = {(double)(l / classes), (double)(l % classes)};
        count += naive_nms_class(n, node, in[0] + l / classes * size * 4, in[1] + l * size, where, count, y);
    }
    return count;
}

/* Levels of rows by their children: raised until none is too low. */
static inline void naive_levels(naive *n, const bs_node *node, const double *children, double *level)
{
    const int32_t in = bs_node_in(n->g, node)[0];
    const int64_t rows = naive_dim(n, in, 0), slots = naive_dim(n, in, 1);
    bool raised = true;
    for (int64_t row = 0; row < rows; row++)
        level[row] = 1;
    for (int64_t i = 0; i < rows * slots; i++)
        if (children[i] < -1 || children[i] >= (double)rows)
            n->status = BS_ERROR_DATA;
    for (int64_t round = 0; raised && n->status == BS_OK; round++) {
        raised = false;
        for (int64_t i = 0; i < rows * slots; i++)
            if (children[i] >= 0 && level[(int64_t)children[i]] >= level[i / slots]) {
                level[i / slots] = level[(int64_t)children[i]] + 1;
                raised = true;
            }
        if (round > rows)
            n->status = BS_ERROR_DATA; /* a circle */
    }
}

#endif
