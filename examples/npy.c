/* npy.c: see npy.h. The header is a Python dictionary; of that language as much is read as NumPy writes: three keys in
 * any order, a string, a truth value, a tuple of whole numbers. */
#include "npy.h"

#include <stdlib.h>
#include <string.h>

enum { MAGIC_BYTES = 8, HEADER_MOST = 1 << 16, ALIGNMENT = 64 };
static const char magic[] = "\x93NUMPY";

static const struct {
    const char *name;
    bs_dtype dtype;
    npy_wide wide;
    size_t bytes;
} types[] = {
    {"|u1", BS_U8, NPY_NARROW, 1},  {"|i1", BS_I8, NPY_NARROW, 1},  {"<u2", BS_U16, NPY_NARROW, 2},
    {"<i4", BS_I32, NPY_NARROW, 4}, {"<f2", BS_F16, NPY_NARROW, 2}, {"<f4", BS_F32, NPY_NARROW, 4},
    {"|b1", BS_U8, NPY_NARROW, 1},  {"<i8", BS_I32, NPY_I64, 8},    {"<f8", BS_F32, NPY_F64, 8},
};
enum { TYPES = sizeof types / sizeof *types };

/* ------------------------------------------------------------------------------------------------ the header */

typedef struct parser {
    const char *at, *end;
    npy_array *array;
    size_t item_bytes; /* 0: `descr` has not come yet */
    bool has_order, has_shape;
    char *message;
    size_t room;
} parser;

static bool fail(parser *p, const char *what)
{
    snprintf(p->message, p->room, "%s", what);
    return false;
}

static void spaces(parser *p)
{
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\n'))
        p->at++;
}

/* Whether `text` comes next; if so, passes it. */
static bool next(parser *p, const char *text)
{
    const size_t n = strlen(text);
    spaces(p);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, text, n) != 0)
        return false;
    p->at += n;
    return true;
}

/* A string in quotes of either kind, without escapes. */
static bool string(parser *p, char *text, size_t room)
{
    spaces(p);
    const char quote = p->at < p->end ? *p->at : 0;
    size_t n = 0;
    if (quote != '\'' && quote != '"')
        return false;
    for (p->at++; p->at < p->end && *p->at != quote; p->at++)
        if (n + 1 < room)
            text[n++] = *p->at >= 32 && *p->at < 127 ? *p->at : '?';
    text[n] = 0;
    return p->at++ < p->end;
}

static bool descr(parser *p)
{
    char name[24], said[128];
    if (!string(p, name, sizeof name))
        return fail(p, "its elements are records, which no input has");
    for (int i = 0; i < TYPES && p->item_bytes == 0; i++)
        if (strcmp(name, types[i].name) == 0) {
            p->array->dtype = types[i].dtype;
            p->array->wide = types[i].wide;
            p->item_bytes = types[i].bytes;
        }
    snprintf(said, sizeof said, "its elements are '%s', expected one of u1 i1 u2 i4 f2 f4 b1 i8 f8, little-endian",
             name);
    return p->item_bytes > 0 || fail(p, said);
}

static bool number(parser *p, int64_t *n)
{
    spaces(p);
    const char *first = p->at;
    for (*n = 0; p->at < p->end && *p->at >= '0' && *p->at <= '9'; p->at++) {
        if (*n > INT64_MAX / 10 - 1)
            return false;
        *n = 10 * *n + (*p->at - '0');
    }
    return p->at == first + 1 || (p->at > first && *first != '0'); /* 007 is no number of Python's */
}

/* (), (3,), (3, 4); (3) is a number in brackets. */
static bool shape(parser *p)
{
    npy_array *a = p->array;
    p->has_shape = true;
    if (!next(p, "("))
        return fail(p, "its shape is no tuple");
    for (a->rank = 0; !next(p, ")"); a->rank++) {
        if (a->rank == BS_MAX_RANK)
            return fail(p, "it has more than 4 dimensions");
        if (!number(p, &a->dim[a->rank]))
            return fail(p, "its shape has something that is no extent");
        if (!next(p, ",") && (a->rank == 0 || !(p->at < p->end && *p->at == ')')))
            return fail(p, "its shape is not written as NumPy does");
    }
    return true;
}

static bool entry(parser *p)
{
    char key[24];
    if (!string(p, key, sizeof key) || !next(p, ":"))
        return fail(p, "its header is no dictionary");
    if (strcmp(key, "descr") == 0 && p->item_bytes == 0)
        return descr(p);
    if (strcmp(key, "shape") == 0 && !p->has_shape)
        return shape(p);
    if (strcmp(key, "fortran_order") != 0 || p->has_order)
        return fail(p, "its header has a key twice, or one that is not known");
    p->has_order = true;
    p->array->fortran = next(p, "True");
    return p->array->fortran || next(p, "False") || fail(p, "its fortran_order is neither True nor False");
}

static bool dictionary(parser *p)
{
    if (!next(p, "{"))
        return fail(p, "its header is no dictionary");
    while (!next(p, "}")) {
        if (!entry(p))
            return false;
        if (!next(p, ",") && !(p->at < p->end && *p->at == '}'))
            return fail(p, "its header is no dictionary");
    }
    spaces(p);
    if (p->at < p->end || p->item_bytes == 0 || !p->has_order || !p->has_shape)
        return fail(p, "its header lacks descr, fortran_order or shape, or something follows");
    if (p->array->rank == 0)
        p->array->dim[p->array->rank++] = 1;
    return true;
}

/* ---------------------------------------------------------------------------------------------------- reading */

static uint32_t little(const uint8_t *bytes, int count)
{
    uint32_t n = 0;
    while (count-- > 0)
        n = n << 8 | bytes[count];
    return n;
}

/* Reads and parses the header. Returns the bytes before the elements, 0 on failure. */
static uint64_t read_header(FILE *file, parser *p, char *text)
{
    uint8_t first[MAGIC_BYTES + 4];
    if (fread(first, 1, MAGIC_BYTES, file) != MAGIC_BYTES || memcmp(first, magic, sizeof magic - 1) != 0)
        return fail(p, "it is no .npy file: it does not begin with \\x93NUMPY");
    const int version = first[6], length_bytes = version == 1 ? 2 : 4;
    if (version < 1 || version > 3 || first[7] != 0)
        return fail(p, "it is of a version of the format that is not known");
    if (fread(first + MAGIC_BYTES, 1, (size_t)length_bytes, file) != (size_t)length_bytes)
        return fail(p, "it ends within its header");
    const uint32_t length = little(first + MAGIC_BYTES, length_bytes);
    if (length > HEADER_MOST)
        return fail(p, "its header is larger than 65536 bytes");
    if (fread(text, 1, length, file) != length)
        return fail(p, "it ends within its header");
    p->at = text;
    p->end = text + length;
    return dictionary(p) ? MAGIC_BYTES + (uint64_t)length_bytes + length : 0;
}

/* Bytes of all elements; false: more than the file has, whose last `left` bytes they are. */
static bool count_bytes(parser *p, uint64_t left, size_t *bytes)
{
    npy_array *a = p->array;
    uint64_t count = 1;
    const uint64_t most = left / p->item_bytes;
    if (left > SIZE_MAX / 2)
        return fail(p, "it is larger than memory can be");
    for (int32_t i = 0; i < a->rank; i++) {
        if (a->dim[i] == 0)
            return fail(p, "it has no elements");
        if ((uint64_t)a->dim[i] > most / count)
            return fail(p, "it ends before its last element");
        count *= (uint64_t)a->dim[i];
    }
    a->count = (size_t)count;
    *bytes = a->count * p->item_bytes;
    return *bytes == left || fail(p, "bytes follow its last element");
}

bool npy_read(FILE *file, uint64_t bytes, npy_array *array, char *message, size_t room)
{
    parser p = {.array = array, .message = message, .room = room};
    char *text = malloc(HEADER_MOST);
    size_t wanted = 0;
    memset(array, 0, sizeof *array);
    const uint64_t header = text ? read_header(file, &p, text) : (uint64_t)fail(&p, "no memory to read it");
    free(text);
    if (header == 0 || !count_bytes(&p, bytes > header ? bytes - header : 0, &wanted))
        return false;
    array->data = malloc(wanted ? wanted : 1);
    if (!array->data)
        return fail(&p, "no memory for its elements");
    if (fread(array->data, 1, wanted, file) == wanted)
        return true;
    npy_free(array);
    return fail(&p, "it cannot be read to its end");
}

void npy_free(npy_array *array)
{
    free(array->data);
    memset(array, 0, sizeof *array);
}

/* ------------------------------------------------------------------------------------------------- converting */

static bool to_i32(npy_array *a, char *message, size_t room)
{
    int32_t *to = a->data; /* behind what is still to be read */
    for (size_t i = 0; i < a->count; i++) {
        int64_t n;
        memcpy(&n, (char *)a->data + 8 * i, sizeof n);
        if (n < INT32_MIN || n > INT32_MAX) {
            snprintf(message, room, "element %zu is %lld, which is no i32", i, (long long)n);
            return false;
        }
        to[i] = (int32_t)n;
    }
    return true;
}

static void to_f32(npy_array *a)
{
    float *to = a->data;
    for (size_t i = 0; i < a->count; i++) {
        double n;
        memcpy(&n, (char *)a->data + 8 * i, sizeof n);
        to[i] = (float)n;
    }
}

bool npy_convert(npy_array *array, bs_dtype to, char *message, size_t room)
{
    if (array->dtype != to) {
        const char *holds = array->wide == NPY_I64   ? "i64"
                            : array->wide == NPY_F64 ? "f64"
                                                     : bs_dtype_name(array->dtype);
        snprintf(message, room, "it holds %s, expected %s", holds, bs_dtype_name(to));
        return false;
    }
    if (array->wide == NPY_I64 && !to_i32(array, message, room))
        return false;
    if (array->wide == NPY_F64)
        to_f32(array);
    array->wide = NPY_NARROW;
    return true;
}

bs_buffer npy_buffer(const npy_array *array)
{
    bs_buffer b = {.data = array->data, .dtype = array->dtype, .rank = array->rank};
    int64_t stride = 1;
    for (int32_t i = 0; i < array->rank; i++) {
        const int32_t d = array->fortran ? i : array->rank - 1 - i;
        b.dim[d] = array->dim[d];
        b.stride[d] = stride;
        stride *= array->dim[d];
    }
    return b;
}

/* ---------------------------------------------------------------------------------------------------- writing */

static const char *type_name(bs_dtype dtype)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].dtype == dtype && types[i].wide == NPY_NARROW)
            return types[i].name;
    return NULL;
}

bool npy_writes(bs_dtype dtype) { return type_name(dtype) != NULL; }

static bool write_header(FILE *file, const bs_buffer *b, const char *type)
{
    char text[2 * ALIGNMENT + 64] = "";
    int n = snprintf(text, sizeof text, "{'descr': '%s', 'fortran_order': False, 'shape': (", type);
    for (int32_t i = 0; i < b->rank; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, "%lld,%s", (long long)b->dim[i], i + 1 < b->rank ? " " : "");
    n += snprintf(text + n, sizeof text - (size_t)n, "), }");
    while ((MAGIC_BYTES + 2 + n + 1) % ALIGNMENT) /* as NumPy does, so that elements are aligned in a mapped file */
        text[n++] = ' ';
    text[n++] = '\n';
    const uint8_t length[2] = {(uint8_t)n, (uint8_t)(n >> 8)};
    return fwrite(magic, 1, 6, file) == 6 && fwrite("\x01\0", 1, 2, file) == 2 && fwrite(length, 1, 2, file) == 2 &&
           fwrite(text, 1, (size_t)n, file) == (size_t)n;
}

bool npy_write(FILE *file, const bs_buffer *buffer)
{
    const char *type = type_name(buffer->dtype);
    const size_t each = bs_dtype_bytes(buffer->dtype);
    int64_t dim[4] = {1, 1, 1, 1}, stride[4] = {0, 0, 0, 0}, dense = 1;
    if (!type || buffer->rank > 4 || !write_header(file, buffer, type))
        return false;
    for (int32_t i = buffer->rank - 1; i >= 0; i--) {
        const int32_t to = 4 - buffer->rank + i;
        dim[to] = buffer->dim[i];
        stride[to] = buffer->stride[0] || buffer->stride[buffer->rank - 1] ? buffer->stride[i] : dense;
        dense *= buffer->dim[i];
    }
    for (int64_t i = 0; i < dense; i++) {
        const int64_t x = i % dim[3], y = i / dim[3] % dim[2], z = i / dim[3] / dim[2] % dim[1],
                      w = i / dim[3] / dim[2] / dim[1];
        const int64_t at = w * stride[0] + z * stride[1] + y * stride[2] + x * stride[3];
        if (fwrite((const char *)buffer->data + at * (int64_t)each, each, 1, file) != 1)
            return false;
    }
    return true;
}
