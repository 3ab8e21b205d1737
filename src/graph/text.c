/* graph/text.c - dimensions, shapes and domains in messages.
 * Relies on graph/op.h. Must never print. */
#include "graph/op.h"

#if !defined(BS_NO_MESSAGES) || !defined(BS_NO_REPORT)

void bs_text_add(bs_text *text, const char *format, ...)
{
    const size_t room = text->used < text->bytes ? text->bytes - text->used : 0;
    va_list arguments;
    va_start(arguments, format);
    const int n = vsnprintf(room ? text->text + text->used : NULL, room, format, arguments);
    va_end(arguments);
    text->used += n > 0 ? (size_t)n : 0;
}

/* "2H<=4320", "(H+1)/2<=540"; of nested derivations only the last step is shown. */
static void derived_text(const bs_graph *g, const bs_dim_info *dim, char *buffer, size_t bytes)
{
    const bs_dim_info *parent = &g->dims[dim->parent];
    const char *name = parent->kind == BS_DIM_SYMBOL && g->text[parent->name] ? g->text + parent->name : "n";
    const long long mul = (long long)dim->mul, add = (long long)dim->add, div = (long long)dim->div,
                    maximum = (long long)dim->maximum;
    char factor[24] = "";
    if (mul != 1)
        snprintf(factor, sizeof factor, "%lld", mul);
    if (add == 0 && div == 1)
        snprintf(buffer, bytes, "%s%s<=%lld", factor, name, maximum);
    else if (div == 1)
        snprintf(buffer, bytes, "%s%s%+lld<=%lld", factor, name, add, maximum);
    else
        snprintf(buffer, bytes, "(%s%s%+lld)/%lld<=%lld", factor, name, add, div, maximum);
}

const char *bs_dim_text(const bs_graph *graph, bs_dim_id d, char *buffer, size_t bytes)
{
    const bs_dim_info *dim = &graph->dims[d];
    const long long maximum = (long long)dim->maximum;
    if (dim->kind == BS_DIM_CONST)
        snprintf(buffer, bytes, "%lld", maximum);
    else if (dim->kind == BS_DIM_SYMBOL)
        snprintf(buffer, bytes, "%s<=%lld", graph->text[dim->name] ? graph->text + dim->name : "n", maximum);
    else
        derived_text(graph, dim, buffer, bytes);
    return buffer;
}

const char *bs_value_text(const bs_graph *graph, const bs_value_info *value, char *buffer, size_t bytes)
{
    bs_text text = {buffer, bytes, 0};
    for (int32_t i = 0; i < value->rank; i++) {
        char dim[64];
        bs_text_add(&text, "%s%s", i ? ", " : "[", bs_dim_text(graph, value->dims[i], dim, sizeof dim));
    }
    bs_text_add(&text, value->rank ? "]" : "[]");
    return buffer;
}

const char *bs_domain_text(const bs_graph *graph, int32_t domain, char *buffer, size_t bytes)
{
    const bs_domain *d = &graph->domains[domain];
    char a[40], b[40];
    if (d->kind == BS_DOMAIN_ROOT)
        snprintf(buffer, bytes, "the root");
    else if (d->kind == BS_DOMAIN_PATH)
        snprintf(buffer, bytes, "path %" PRId32 " of \"%s\"", d->path, graph->routers[d->router].desc->name);
    else if (bs_domain_is_patches(d))
        snprintf(buffer, bytes, "patches of %" PRId32 " [%s, %s]", d->size, bs_dim_text(graph, d->height, a, sizeof a),
                 bs_dim_text(graph, d->width, b, sizeof b));
    else
        snprintf(buffer, bytes, "%s [%s]", bs_domain_is_segments(d) ? "segments" : "rows",
                 bs_dim_text(graph, d->rows, a, sizeof a));
    return buffer;
}

static char *said_next(bs_infer *infer) { return infer->said[infer->n_said++ % 4]; }

const char *bs_say_value(bs_infer *infer, const bs_value_info *value)
{
    return bs_value_text(infer->graph, value, said_next(infer), sizeof infer->said[0]);
}

const char *bs_say_typed(bs_infer *infer, const bs_value_info *value)
{
    char *said = said_next(infer);
    const int n = snprintf(said, sizeof infer->said[0], "%s ", bs_dtype_name(value->dtype));
    bs_value_text(infer->graph, value, said + n, sizeof infer->said[0] - (size_t)n);
    return said;
}

const char *bs_say_dim(bs_infer *infer, bs_dim_id d)
{
    return bs_dim_text(infer->graph, d, said_next(infer), sizeof infer->said[0]);
}

const char *bs_say_domain(bs_infer *infer, int32_t domain)
{
    return bs_domain_text(infer->graph, domain, said_next(infer), sizeof infer->said[0]);
}
#endif
