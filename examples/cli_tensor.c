/* cli_tensor.c: see cli_tensor.h. */
#define _POSIX_C_SOURCE 200809L
#include "cli_tensor.h"

#include "cli.h"
#include "plan_options.h"

#include <errno.h>
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

static bool read_array(npy_array *array, bs_dtype dtype, FILE *file, uint64_t bytes, const char *path, bs_error *error)
{
    char message[160];
    return (npy_read(file, bytes, array, message, sizeof message) &&
            npy_convert(array, dtype, message, sizeof message)) ||
           cli_say(error, BS_ERROR_FORMAT, message, path);
}

static bool read_file(cli_tensor *t, const picture_options *pictures, FILE *file, uint64_t bytes, bs_error *error)
{
    if (picture_is_named(t->word)) {
        const bool good = picture_read(file, bytes, t->name, t->word, &t->port, pictures, &t->buffer, error);
        t->array.data = good ? t->buffer.data : NULL;
        return good;
    }
    const bool good = read_array(&t->array, t->port.dtype, file, bytes, t->word, error);
    t->buffer = good ? npy_buffer(&t->array) : t->buffer;
    return good;
}

bool cli_tensor_read(cli_tensor *t, const picture_options *pictures, bs_error *error)
{
    uint64_t bytes;
    const char *word = t->word ? t->word : "zeros";
    if (!cli_tensor_writes(word)) {
        const char *extents = strncmp(word, "zeros", 5) == 0    ? word + 5
                              : strncmp(word, "random", 6) == 0 ? word + 6
                                                                : word;
        if (extents == word || *extents == ':')
            return plan_word_extents(extents + (extents != word), &t->buffer.rank, t->buffer.dim) ||
                   cli_say(error, BS_ERROR_ARGUMENT, "expected " CLI_INPUT_WORDS, word);
        return *extents == 0 || cli_say(error, BS_ERROR_ARGUMENT, "expected " CLI_INPUT_WORDS, word);
    }
    FILE *file = open_array(t, "an input", word, &bytes, error);
    const bool good = file && read_file(t, pictures, file, bytes, error);
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
    return ends_with(word, ".npy") || picture_is_named(word);
}

static bool no_picture(const cli_tensor *t, bs_error *error)
{
    return cli_say(error, BS_ERROR_UNSUPPORTED,
                   "a picture is made of [1, H, W] or [3, H, W], with one batch before or none, u8 or f32 of 0 to 1",
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
    if (t->word && !ends_with(t->word, ".npy") && !picture_is_one(&t->buffer))
        return no_picture(t, error);
    if (t->word && !npy_writes(t->port.dtype))
        return cli_say(error, BS_ERROR_UNSUPPORTED, "the format has no name for elements of this type", t->word);
    t->file = t->word ? files_add(cli_files(), FILES_WRITE, "an output", t->word) : -1;
    if (t->word && t->file < 0)
        return cli_refused(error);
    return !t->beside || read_expected(t, error);
}

bool cli_tensor_write(const cli_tensor *t, bs_error *error)
{
    const bool npy = ends_with(t->word, ".npy");
    if (!npy && !picture_is_one(&t->buffer)) /* extents may come from data */
        return no_picture(t, error);
    FILE *file = files_stream(cli_files(), t->file);
    bool good = file && (npy ? npy_write(file, &t->buffer) : picture_write(file, t->word, &t->buffer));
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
