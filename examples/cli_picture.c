/* cli_picture.c: see cli_picture.h. */
#include "cli_picture.h"

#include "cli.h"
#include "pictures/png.h"
#include "pictures/png_read.h"
#include "pictures/resample.h"
#include "plan_options.h"
#include "words.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *word, const char *end)
{
    const size_t n = strlen(word), k = strlen(end);
    return n > k && strcmp(word + n - k, end) == 0;
}

bool picture_is_named(const char *word)
{
    return ends_with(word, ".ppm") || ends_with(word, ".pgm") || ends_with(word, ".png");
}

/* ----------------------------------------------------------------------------------------------------- options */

static bool numbers(const char *word, float *to, int32_t *count)
{
    char *end = NULL;
    for (*count = 0; *count < 3; word = end + 1) {
        const float n = strtof(word, &end);
        if (end == word || !isfinite(n))
            return false;
        to[(*count)++] = n;
        if (*end != ',')
            return *end == 0 && *count != 2;
    }
    return false;
}

static bool resize_option(picture_options *o, const char *word)
{
    int32_t rank;
    int64_t dim[BS_MAX_RANK];
    o->as_input = strcmp(word, "input") == 0;
    if (o->as_input)
        return true;
    if (!plan_word_extents(word, &rank, dim) || rank != 2 || dim[0] < 1 || dim[1] < 1 || dim[0] > PNM_MOST ||
        dim[1] > PNM_MOST)
        return false;
    o->height = dim[0];
    o->width = dim[1];
    return true;
}

bool picture_options_value(picture_options *o, const char *name, const char *word, bool *taken)
{
    *taken = true;
    if (strcmp(name, "--resize") == 0)
        return resize_option(o, word);
    if (strcmp(name, "--mean") == 0)
        return numbers(word, o->mean, &o->means);
    if (strcmp(name, "--scale") == 0)
        return numbers(word, o->scale, &o->scales);
    *taken = false;
    return true;
}

/* ----------------------------------------------------------------------------------------------------- reading */

static float luma(const uint8_t *rgb) { return 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2]; }

/* What the input does not take of the options, or of pictures. */
static const char *wrong_input(const bs_port_facts *port, const picture_options *o)
{
    const int64_t channels = port->rank == 3 || port->rank == 4 ? port->dim[port->rank - 3] : 0;
    const int32_t asked = o->means > o->scales ? o->means : o->scales;
    if ((channels != 1 && channels != 3) || (port->dtype != BS_U8 && port->dtype != BS_F32))
        return "a picture goes to an input of [1, H, W] or [3, H, W], or of [N, 1, H, W] or [N, 3, H, W], u8 or f32";
    if (port->dtype == BS_U8 && asked)
        return "an input of u8 gets codes as they are: --mean and --scale are for f32";
    return asked > channels ? "--mean and --scale have three numbers, and this input one channel" : NULL;
}

static float value_of(const picture_options *o, int64_t channel, float code)
{
    const float mean = o->means ? o->mean[o->means == 3 ? channel : 0] : 0;
    return o->scales ? (code - mean) * o->scale[o->scales == 3 ? channel : 0] : (code - mean) / 255;
}

static bs_buffer described(const bs_port_facts *port, const pnm_picture *p, void *data)
{
    const int64_t pixels = (int64_t)p->width * p->height, channels = port->dim[port->rank - 3];
    bs_buffer b = {.data = data, .dtype = port->dtype, .rank = port->rank};
    const int32_t c = port->rank - 3;
    b.dim[0] = 1;
    b.stride[0] = channels * pixels;
    b.dim[c] = channels, b.dim[c + 1] = p->height, b.dim[c + 2] = p->width;
    b.stride[c] = pixels, b.stride[c + 1] = p->width, b.stride[c + 2] = 1;
    return b;
}

static void fill(const bs_buffer *b, const pnm_picture *p, const picture_options *o)
{
    const int64_t pixels = (int64_t)p->width * p->height, channels = b->dim[b->rank - 3];
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < pixels; i++) {
            const uint8_t *at = p->pixels + i * p->channels;
            const float code = p->channels == 1 ? at[0] : channels == 3 ? at[c] : luma(at);
            if (b->dtype == BS_U8)
                ((uint8_t *)b->data)[c * pixels + i] = (uint8_t)(code + 0.5f);
            else
                ((float *)b->data)[c * pixels + i] = value_of(o, c, code);
        }
}

/* As large as the options say. */
static bool resize(pnm_picture *p, const bs_port_facts *port, const picture_options *o)
{
    const int64_t height = o->as_input ? port->dim[port->rank - 2] : o->height,
                  width = o->as_input ? port->dim[port->rank - 1] : o->width;
    pnm_picture other;
    if (height == 0 || (height == p->height && width == p->width))
        return true;
    if (height > PNM_MOST || width > PNM_MOST || !resample(p, (int)width, (int)height, &other))
        return false;
    free(p->pixels);
    *p = other;
    return true;
}

bool picture_read(FILE *file, uint64_t bytes, const char *name, const char *word, const bs_port_facts *port,
                  const picture_options *o, bs_buffer *array, bs_error *error)
{
    pnm_picture p;
    char message[160];
    const char *const wrong = wrong_input(port, o);
    if (wrong)
        return cli_say(error, BS_ERROR_UNSUPPORTED, wrong, name);
    if (!(ends_with(word, ".png") ? png_read(file, bytes, &p, message, sizeof message)
                                  : pnm_read(file, &p, message, sizeof message)))
        return cli_say(error, BS_ERROR_FORMAT, message, word);
    const int64_t channels = port->dim[port->rank - 3];
    const bool sized = resize(&p, port, o);
    const uint64_t wanted = (uint64_t)channels * (uint64_t)p.width * (uint64_t)p.height * bs_dtype_bytes(port->dtype);
    void *data = sized && wanted <= SIZE_MAX ? malloc((size_t)wanted) : NULL;
    if (data) {
        *array = described(port, &p, data);
        fill(array, &p, o);
    }
    free(p.pixels);
    return data || cli_say(error, BS_ERROR_ARENA, "no memory for it, or for its new size", word);
}

/* ----------------------------------------------------------------------------------------------------- writing */

bool picture_is_one(const bs_buffer *b)
{
    const int32_t c = b->rank - 3;
    return (c == 0 || (c == 1 && b->dim[0] == 1)) && (b->dim[c] == 1 || b->dim[c] == 3) &&
           (b->dtype == BS_U8 || b->dtype == BS_F32) && b->dim[c + 1] > 0 && b->dim[c + 2] > 0 &&
           b->dim[c + 1] <= PNM_MOST && b->dim[c + 2] <= PNM_MOST;
}

static uint8_t code_of(const bs_buffer *b, int64_t at)
{
    if (b->dtype == BS_U8)
        return ((const uint8_t *)b->data)[at];
    const float n = ((const float *)b->data)[at] * 255 + 0.5f;
    return n >= 255 ? 255 : n > 0 ? (uint8_t)n : 0;
}

static bool to_picture(const bs_buffer *b, pnm_picture *p)
{
    const int64_t *const dim = b->dim + b->rank - 3, *const stride = b->stride + b->rank - 3;
    *p = (pnm_picture){malloc((size_t)(dim[0] * dim[1] * dim[2])), (int)dim[2], (int)dim[1], (int)dim[0]};
    for (int64_t i = 0; p->pixels && i < dim[1] * dim[2]; i++)
        for (int64_t c = 0; c < dim[0]; c++)
            p->pixels[i * dim[0] + c] =
                code_of(b, c * stride[0] + i / dim[2] * stride[1] + i % dim[2] * stride[2]);
    return p->pixels != NULL;
}

bool picture_write(FILE *file, const char *word, const bs_buffer *b)
{
    pnm_picture p;
    bool good = to_picture(b, &p);
    if (good && ends_with(word, ".png")) {
        void *scratch = malloc(png_scratch(p.width, p.channels));
        good = scratch && png_write(file, p.pixels, (size_t)(p.width * p.channels), p.width, p.height, p.channels,
                                    scratch);
        free(scratch);
    } else {
        good = good && pnm_write(file, &p);
    }
    free(p.pixels);
    return good;
}
