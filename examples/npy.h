/* npy.h: arrays in NumPy's .npy files, versions 1 to 3.
 *
 * Owns: the format, and which types of it are types of the library. Relies on: brainstorm.h.
 * Must never: trust the file: the header is checked sign by sign, and memory is taken only for bytes that are there.
 *
 *     npy_array a;
 *     if (!npy_read(file, bytes, &a, message, sizeof message)) ...     message: what is wrong, without the file's name
 *     if (!npy_convert(&a, BS_F32, message, sizeof message)) ...       i64 to i32 and such
 *     bs_buffer b = npy_buffer(&a);   ...   npy_free(&a)
 */
#ifndef NPY_H
#define NPY_H

#include "brainstorm.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Types of elements that a file may have and the library has not. */
typedef enum npy_wide { NPY_NARROW, NPY_I64, NPY_F64 } npy_wide;

typedef struct npy_array {
    bs_dtype dtype; /* of `data`, unless: */
    npy_wide wide;
    bool fortran; /* the first dimension is the one that lies closest */
    int32_t rank; /* 1 .. BS_MAX_RANK; a file of none has one, of 1 */
    int64_t dim[BS_MAX_RANK];
    size_t count; /* elements */
    void *data;
} npy_array;

/* bytes: of the whole file, which begins where `file` stands. False: nothing to free. */
bool npy_read(FILE *file, uint64_t bytes, npy_array *array, char *message, size_t room);
/* What is wide becomes i32 or f32: integers that would change are refused, f64 is rounded. Other types must be `to`. */
bool npy_convert(npy_array *array, bs_dtype to, char *message, size_t room);
bs_buffer npy_buffer(const npy_array *array);
void npy_free(npy_array *array);

/* Whether the format has a name for the type: bf16 has none. */
bool npy_writes(bs_dtype dtype);
/* Writes `buffer`, of such a type, with any strides. False: errno says why. */
bool npy_write(FILE *file, const bs_buffer *buffer);

#endif
