/* cli_tensor.c: see cli_tensor.h. */
#define _POSIX_C_SOURCE 200809L
#include "cli_tensor.h"

#include "cli.h"
#include "pictures/png.h"
#include "pictures/png_read.h"
#include "pictures/pnm.h"
#include "plan_options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool ends_with(const char *word, const char *end)
{
    const size_t n = strlen(word), k = strlen(end);
    return n > k && strcmp(word + n - k, end) == 0;
}

/* Dense, with these extents. */
static bs_buffer dense(bs_dtype dtype, int32_t rank, const int64_t *dim, void *data)
{
    bs_buffer b = {.data = data, .dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        b.dim[i] = dim[i];
        b.stride[i] = stride;
        stride *= dim[i];
    }
    return b;
}

/* Of one extent per dimension; 0: more than can be counted. */
static uint64_t elements(int32_t rank, const int64_t *dim)
{
    uint64_t n = 1;
    for (int32_t i = 0; i < rank; i++) {
        if (dim[i] < 1 || n > ((uint64_t)1 << 40) / (uint64_t)dim[i])
            return 0;
        n *= (uint64_t)dim[i];
    }
    return n;
}

/* ----------------------------------------------------------------------------------------------------- inputs */

static FILE *open_array(const cli_tensor *t, const char *role, const char *path, uint64_t *bytes, bs_error *error)
{
    const int number = files_add(cli_files(), FILES_WHOLE, role, path);
    if (number < 0) {
        cli_say(error, BS_ERROR_IO, cli_files()->message, t->name);
        return NULL;
    }
    *bytes = files_bytes(cli_files(), number);
    FILE *file = files_stream(cli_files(), number);
    if (!file)
        cli_say(error, BS_ERROR_IO, "no memory to read it", path);
    return file;
}

static float luma(const uint8_t *rgb) { return 0.299f * rgb[0] + 0.587f * rgb[1] + 0.114f * rgb[2]; }

/* [channels, H, W]; codes for u8, else 0 to 1. */
static bool from_picture(cli_tensor *t, const pnm_picture *p, bs_error *error)
{
    const int64_t channels = t->port.dim[0], pixels = (int64_t)p->width * p->height;
    const bool codes = t->port.dtype == BS_U8;
    if (t->port.rank != 3 || (channels != 1 && channels != 3) || (!codes && t->port.dtype != BS_F32))
        return cli_say(error, BS_ERROR_UNSUPPORTED, "a picture goes to an input of [1, H, W] or [3, H, W], u8 or f32",
                       t->name);
    t->array.data = malloc((size_t)(channels * pixels) * (codes ? 1 : sizeof(float)));
    if (!t->array.data)
        return cli_say(error, BS_ERROR_ARENA, "no memory for it", t->word);
    for (int64_t c = 0; c < channels; c++)
        for (int64_t i = 0; i < pixels; i++) {
            const uint8_t *at = p->pixels + i * p->channels;
            const float n = p->channels == 1 ? at[0] : channels == 3 ? at[c] : luma(at);
            if (codes)
                ((uint8_t *)t->array.data)[c * pixels + i] = (uint8_t)(n + 0.5f);
            else
                ((float *)t->array.data)[c * pixels + i] = n / 255;
        }
    t->buffer = dense(t->port.dtype, 3, (int64_t[]){channels, p->height, p->width}, t->array.data);
    return true;
}

static bool read_picture(cli_tensor *t, const char *word, FILE *file, uint64_t bytes, bs_error *error)
{
    pnm_picture picture;
    char message[160];
    if (!(ends_with(word, ".png") ? png_read(file, bytes, &picture, message, sizeof message)
                                     : pnm_read(file, &picture, message, sizeof message)))
        return cli_say(error, BS_ERROR_FORMAT, message, t->word);
    const bool good = from_picture(t, &picture, error);
    free(picture.pixels);
    return good;
}

static bool read_array(npy_array *array, bs_dtype dtype, FILE *file, uint64_t bytes, const char *path, bs_error *error)
{
    char message[160];
    return (npy_read(file, bytes, array, message, sizeof message) &&
            npy_convert(array, dtype, message, sizeof message)) ||
           cli_say(error, BS_ERROR_FORMAT, message, path);
}

static bool read_file(cli_tensor *t, const char *word, bool picture, FILE *file, uint64_t bytes, bs_error *error)
{
    if (picture)
        return read_picture(t, word, file, bytes, error);
    const bool good = read_array(&t->array, t->port.dtype, file, bytes, word, error);
    t->buffer = good ? npy_buffer(&t->array) : t->buffer;
    return good;
}

bool cli_tensor_read(cli_tensor *t, bs_error *error)
{
    uint64_t bytes;
    const char *word = t->word ? t->word : "zeros";
    const bool picture = ends_with(word, ".ppm") || ends_with(word, ".pgm") || ends_with(word, ".png");
    if (!picture && !ends_with(word, ".npy")) {
        const char *extents = strncmp(word, "zeros", 5) == 0    ? word + 5
                              : strncmp(word, "random", 6) == 0 ? word + 6
                                                                : word;
        if (extents == word || *extents == ':')
            return plan_word_extents(extents + (extents != word), &t->buffer.rank, t->buffer.dim) ||
                   cli_say(error, BS_ERROR_ARGUMENT, "expected " CLI_INPUT_WORDS, word);
        return *extents == 0 || cli_say(error, BS_ERROR_ARGUMENT, "expected " CLI_INPUT_WORDS, word);
    }
    FILE *file = open_array(t, "an input", word, &bytes, error);
    const bool good = file && read_file(t, word, picture, file, bytes, error);
    if (file)
        files_close(file);
    return good;
}

bool cli_tensor_extents(const cli_tensor *t, bs_model_input *input)
{
    *input = (bs_model_input){.name = t->name, .rank = t->buffer.rank};
    memcpy(input->dim, t->buffer.dim, sizeof input->dim);
    return t->buffer.rank > 0;
}

/* Numbers that look like standard normal ones, the same each time. */
static void fill_noise(float *to, uint64_t count)
{
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (uint64_t i = 0; i < count; i++) {
        double sum = -6;
        for (int k = 0; k < 12; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            sum += (double)(state >> 40) / (1 << 24);
        }
        to[i] = (float)sum;
    }
}

bool cli_tensor_fill(cli_tensor *t, bs_error *error)
{
    const uint64_t count = elements(t->port.rank, t->port.dim);
    if (t->buffer.data)
        return true;
    t->array.data = count && count <= SIZE_MAX / 8 ? calloc((size_t)count, bs_dtype_bytes(t->port.dtype)) : NULL;
    if (!t->array.data)
        return cli_say(error, BS_ERROR_ARENA, "no memory for this input", t->name);
    t->buffer = dense(t->port.dtype, t->port.rank, t->port.dim, t->array.data);
    if (t->word && strncmp(t->word, "random", 6) == 0) {
        if (t->port.dtype != BS_F32)
            return cli_say(error, BS_ERROR_UNSUPPORTED, "random is for f32", t->name);
        fill_noise(t->array.data, count);
    }
    return true;
}

/* ---------------------------------------------------------------------------------------------------- outputs */

bool cli_tensor_room(cli_tensor *t, bs_error *error)
{
    const char *word = t->word;
    t->word = NULL;
    const bool good = cli_tensor_fill(t, error);
    t->word = word;
    return good;
}

void cli_tensor_trim(cli_tensor *t, const int64_t *dims)
{
    for (int32_t i = 0; i < t->buffer.rank; i++)
        t->buffer.dim[i] = dims[i];
}

bool cli_tensor_writes(const char *word)
{
    return ends_with(word, ".npy") || ends_with(word, ".ppm") || ends_with(word, ".pgm") || ends_with(word, ".png");
}

static uint8_t code_of(const bs_buffer *b, int64_t at)
{
    if (b->dtype == BS_U8)
        return ((const uint8_t *)b->data)[at];
    const float n = ((const float *)b->data)[at] * 255 + 0.5f;
    return n >= 255 ? 255 : n > 0 ? (uint8_t)n : 0;
}

static bool is_picture(const bs_buffer *b)
{
    return b->rank == 3 && (b->dim[0] == 1 || b->dim[0] == 3) && (b->dtype == BS_U8 || b->dtype == BS_F32) &&
           b->dim[1] > 0 && b->dim[2] > 0 && b->dim[1] <= PNM_MOST && b->dim[2] <= PNM_MOST;
}

static bool no_picture(const cli_tensor *t, bs_error *error)
{
    return cli_say(error, BS_ERROR_UNSUPPORTED, "a picture is made of [1, H, W] or [3, H, W], u8 or f32 of 0 to 1",
                   t->word);
}

static bool read_expected(cli_tensor *t, bs_error *error)
{
    uint64_t bytes;
    FILE *file = open_array(t, "what is compared with", t->beside, &bytes, error);
    const bool good = file && read_array(&t->expected, t->port.dtype, file, bytes, t->beside, error);
    if (file)
        files_close(file);
    return good;
}

bool cli_tensor_open(cli_tensor *t, bs_error *error)
{
    if (t->word && !ends_with(t->word, ".npy") && !is_picture(&t->buffer))
        return no_picture(t, error);
    if (t->word && !npy_writes(t->port.dtype))
        return cli_say(error, BS_ERROR_UNSUPPORTED, "the format has no name for elements of this type", t->word);
    t->file = t->word ? files_add(cli_files(), FILES_WRITE, "an output", t->word) : -1;
    if (t->word && t->file < 0)
        return cli_refused(error);
    return !t->beside || read_expected(t, error);
}

static bool to_picture(const bs_buffer *b, pnm_picture *p)
{
    const bool fits = is_picture(b);
    *p = (pnm_picture){NULL, fits ? (int)b->dim[2] : 0, fits ? (int)b->dim[1] : 0, fits ? (int)b->dim[0] : 0};
    p->pixels = fits ? malloc((size_t)(b->dim[0] * b->dim[1] * b->dim[2])) : NULL;
    for (int64_t i = 0; p->pixels && i < b->dim[1] * b->dim[2]; i++)
        for (int64_t c = 0; c < b->dim[0]; c++)
            p->pixels[i * b->dim[0] + c] =
                code_of(b, c * b->stride[0] + i / b->dim[2] * b->stride[1] + i % b->dim[2] * b->stride[2]);
    return p->pixels != NULL;
}

static bool write_picture(FILE *file, const char *word, const pnm_picture *p)
{
    if (!ends_with(word, ".png"))
        return pnm_write(file, p);
    void *scratch = malloc(png_scratch(p->width, p->channels));
    const bool good = scratch && png_write(file, p->pixels, (size_t)(p->width * p->channels), p->width, p->height,
                                           p->channels, scratch);
    free(scratch);
    return good;
}

bool cli_tensor_write(const cli_tensor *t, bs_error *error)
{
    pnm_picture picture = {NULL, 0, 0, 0};
    const bool npy = ends_with(t->word, ".npy");
    if (!npy && !to_picture(&t->buffer, &picture))
        return no_picture(t, error);
    FILE *file = files_stream(cli_files(), t->file);
    bool good = file && (npy ? npy_write(file, &t->buffer) : write_picture(file, t->word, &picture));
    free(picture.pixels);
    const int why = errno;
    if (!good)
        files_discard(file);
    errno = why;
    good = good && files_close(file);
    return good || cli_say(error, BS_ERROR_IO, strerror(errno), t->word);
}

void cli_tensor_free(cli_tensor *t)
{
    npy_free(&t->array);
    npy_free(&t->expected);
}
