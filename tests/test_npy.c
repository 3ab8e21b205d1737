/* tags: asan */
/* test_npy.c - .npy files: what is written is read again, strides and all; what NumPy writes is read; a file that is
 * cut, or of which any bit is another, is refused in words or read as what it then says, and never beyond its end. */
#define _POSIX_C_SOURCE 200809L
#include "check.h"
#include "npy.h"

#include <stdlib.h>

static char message[160];

/* A file of these bytes. */
static bool read_bytes(const void *bytes, size_t n, npy_array *array)
{
    FILE *file = tmpfile();
    bool good = false;
    message[0] = 0;
    if (file && fwrite(bytes, 1, n, file) == n) {
        rewind(file);
        good = npy_read(file, n, array, message, sizeof message);
    }
    if (file)
        fclose(file);
    return good;
}

static size_t write_bytes(const bs_buffer *buffer, uint8_t *to, size_t room)
{
    FILE *file = tmpfile();
    size_t n = 0;
    if (file && npy_write(file, buffer)) {
        rewind(file);
        n = fread(to, 1, room, file);
    }
    if (file)
        fclose(file);
    return n;
}

static void test_round_trip(void)
{
    static const bs_dtype dtypes[] = {BS_U8, BS_I8, BS_U16, BS_I32, BS_F16, BS_F32};
    static uint8_t bytes[1024];
    uint8_t data[2 * 3 * 4 * 4];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(31 * i + 7);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        npy_array a;
        const bs_buffer b = {data, dtypes[i], 3, {2, 3, 4}, {0}};
        const size_t n = write_bytes(&b, bytes, sizeof bytes), each = bs_dtype_bytes(dtypes[i]);
        const bool good = read_bytes(bytes, n, &a);
        check(good && n % 64 == 24 * each % 64 && a.dtype == dtypes[i] && !a.wide && a.rank == 3 && a.dim[0] == 2 &&
                  a.dim[1] == 3 && a.dim[2] == 4 && a.count == 24 && memcmp(a.data, data, 24 * each) == 0,
              "%s as it was: %s", bs_dtype_name(dtypes[i]), message);
        if (good)
            npy_free(&a);
    }
    const bs_buffer bf16 = {data, BS_BF16, 1, {4}, {0}};
    check(write_bytes(&bf16, bytes, sizeof bytes) == 0, "bf16 has no name there");
}

static void test_strides(void)
{
    static uint8_t bytes[256];
    static const float seen[6] = {1, 4, 2, 5, 3, 6};
    float data[6] = {1, 2, 3, 4, 5, 6};
    npy_array a;
    const bs_buffer transposed = {data, BS_F32, 2, {3, 2}, {1, 3}};
    const size_t n = write_bytes(&transposed, bytes, sizeof bytes);
    const bool good = read_bytes(bytes, n, &a);
    check(good && memcmp(a.data, seen, sizeof seen) == 0, "a transposed array is written row by row");
    if (good)
        npy_free(&a);
}

/* A header and bytes behind it; the length is right unless `length` is given. */
static size_t forge(uint8_t *to, int version, const char *header, size_t payload)
{
    const size_t n = strlen(header);
    memcpy(to, "\x93NUMPY", 6);
    to[6] = (uint8_t)version;
    to[7] = 0;
    to[8] = (uint8_t)n;
    to[9] = (uint8_t)(n >> 8);
    size_t at = 10;
    if (version > 1)
        to[at++] = 0, to[at++] = 0;
    memcpy(to + at, header, n);
    for (size_t i = 0; i < payload; i++)
        to[at + n + i] = (uint8_t)(i / 8 == 1 ? 0 : i % 8 == 0);
    return at + n + payload;
}

static void test_headers(void)
{
    static const struct { const char *header; size_t payload; const char *says; } rows[] = {
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }\n", 8, ""},
        {"{\"shape\": (1, 2), \"descr\": \"<f4\", \"fortran_order\": True}", 8, ""},
        {"{'descr': '<f8', 'fortran_order': False, 'shape': (), }", 8, ""},
        {"{'descr': '<i8', 'fortran_order': False, 'shape': (2, 1), }", 16, ""},
        {"{'descr': '|b1', 'fortran_order': False, 'shape': (1, 1, 1, 2), }", 2, ""},
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (2,), }", 8, "'>f4'"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }", 8, "'|O'"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }", 8, "records"},
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (2,), }", 8, "neither True nor False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2, }", 8, "no tuple"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,), }", 8, "no extent"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2), }", 0, "no elements"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 1, 2), }", 8, "more than 4"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 8, "before its last element"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 8, "bytes follow"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296), }", 8, "before its last"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 8, "no extent"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2), }", 8, "as NumPy does"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ( 2 ), }", 8, "as NumPy does"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (02,), }", 8, "no extent"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 02), }", 8, "no extent"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0002, 1), }", 8, "no extent"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (00,), }", 0, "no extent"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (,), }", 0, "no extent"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,,), }", 8, "no extent"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }", 8, "as NumPy does"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, ), }", 8, ""},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ( 1,2 ), }", 8, ""},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (20,), }", 80, ""},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (10, 2), }", 80, ""},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", 8, "twice"},
        {"{'descr': '<f4', 'shape': (2,), }", 8, "lacks"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'more': 1}", 8, "not known"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), } 1", 8, "something follows"},
        {"'descr'", 8, "no dictionary"},
        {"", 8, "no dictionary"},
    };
    static uint8_t bytes[512];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int version = 1; version <= 3; version++) {
            npy_array a;
            const size_t n = forge(bytes, version, rows[i].header, rows[i].payload);
            const bool good = read_bytes(bytes, n, &a), wanted = rows[i].says[0] == 0;
            check(good == wanted && strstr(message, rows[i].says), "version %d, %s: %s", version, rows[i].header,
                  message);
            if (good)
                npy_free(&a);
        }
    npy_array a;
    forge(bytes, 4, rows[0].header, 8);
    check(!read_bytes(bytes, 80, &a) && strstr(message, "version"), "version 4: %s", message);
    forge(bytes, 2, rows[0].header, 8);
    bytes[11] = 0x7f;
    check(!read_bytes(bytes, 80, &a) && strstr(message, "larger"), "a header of 2 GB: %s", message);
}

static void test_converting(void)
{
    static uint8_t bytes[256];
    npy_array a;
    size_t n = forge(bytes, 1, "{'descr': '<i8', 'fortran_order': False, 'shape': (2,), }", 16);
    bool good = read_bytes(bytes, n, &a) && npy_convert(&a, BS_I32, message, sizeof message);
    check(good && ((int32_t *)a.data)[0] == 1 && ((int32_t *)a.data)[1] == 0 && !a.wide, "i64 becomes i32");
    check(good && !npy_convert(&a, BS_F32, message, sizeof message) && strstr(message, "holds i32, expected f32"),
          "but no f32: %s", message);
    npy_free(&a);
    bytes[n - 9] = 0x40; /* 2^62 + 1 */
    good = read_bytes(bytes, n, &a) && !npy_convert(&a, BS_I32, message, sizeof message);
    check(good && strstr(message, "element 0 is 4611686018427387905"), "what does not fit is refused: %s", message);
    npy_free(&a);
    const double two[2] = {1.0 / 3, -1e300};
    n = forge(bytes, 1, "{'descr': '<f8', 'fortran_order': True, 'shape': (1, 2), }", 16);
    memcpy(bytes + n - 16, two, sizeof two);
    good = read_bytes(bytes, n, &a) && npy_convert(&a, BS_F32, message, sizeof message);
    const bs_buffer b = good ? npy_buffer(&a) : (bs_buffer){.data = NULL};
    check(good && ((float *)b.data)[0] == 1.0f / 3 && ((float *)b.data)[1] < -3e38f && b.stride[0] == 1 &&
              b.stride[1] == 1,
          "f64 is rounded; the first dimension is the near one in Fortran's order");
    npy_free(&a);
}

/* Every cut, and every bit that turns: an answer, and no byte beyond the file (sanitizers look). */
static void test_damage(void)
{
    static uint8_t bytes[256];
    const size_t n = forge(bytes, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24);
    int wrong = 0, read = 0;
    for (size_t cut = 0; cut < n; cut++) {
        npy_array a;
        wrong += read_bytes(bytes, cut, &a) || !message[0];
    }
    check(wrong == 0, "%d of %d cuts were read", wrong, (int)n);
    for (size_t bit = 0; bit < 8 * n; bit++) {
        npy_array a;
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        if (read_bytes(bytes, n, &a)) {
            read++;
            wrong += a.count != 6 && a.count != 12 && a.count != 3 && a.count != 24;
            npy_free(&a);
        } else {
            wrong += !message[0];
        }
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    check(wrong == 0 && read >= 24 * 8, "%d of %d files with a bit turned are read, %d of them wrongly", read,
          (int)(8 * n), wrong);
}

int main(void)
{
    test_round_trip();
    test_strides();
    test_headers();
    test_converting();
    test_damage();
    return check_end();
}
