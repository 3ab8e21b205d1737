/* picture.h: resampling of planes: chroma to twice its size, and halving for test material.
 *
 * Owns: bicubic filters on planes of 8 to 10 bits, in exact integer arithmetic.
 * Relies on: nothing; scratch memory is the caller's.
 * Must never: allocate, read outside a plane, or depend on how the rows were divided among threads.
 *
 * Both filters are Keys' cubic with a = -0.5. At the positions needed here its weights are whole
 * multiples of 1/1024 and 1/256, so that nothing is rounded before the last step: the result is the
 * true value rounded half up, the same on every machine.
 *
 * Results are clipped to the code range 0 .. 2^bits - 1 and no further, in limited range too: codes
 * below 16 and above 235/240 are legal footroom and headroom there, and clipping them would change
 * pictures that use them.
 */
#ifndef PICTURE_H
#define PICTURE_H

#include <stddef.h>
#include <stdint.h>

/* A sample of up to 10 bits as it counts; `max` is the largest code. */
#define PICTURE_CODE(sample, max) ((int32_t)((sample) < (max) ? (sample) : (max)))

/* Samples are uint8_t for 8 bits and uint16_t for more, at most 10. What is read may hold any code: those above the
 * largest count as the largest. */
typedef struct picture_plane {
    void *data;
    size_t stride_bytes;
    int width, height;
    int bits;
} picture_plane;

/* Where chroma lies, for each direction. BETWEEN also serves directions that are not subsampled
 * (and luma): their samples take the same positions. picture.c derives why. */
typedef enum picture_siting { PICTURE_BETWEEN, PICTURE_COSITED } picture_siting;

/* Computes rows first .. end - 1 of out, which is twice in, or one less where the luma side is odd.
 * Calls for different rows may run at the same time, each with scratch of its own:
 * picture_double_scratch(in->width) bytes aligned for int32_t. */
size_t picture_double_scratch(int input_width);
void picture_double(const picture_plane *out, const picture_plane *in, picture_siting across, picture_siting down,
                    int first, int end, void *scratch);

/* Halves as MATLAB's imresize(x, 0.5, 'bicubic') does: the kernel widened by two against aliasing
 * (8 taps), pixel centres aligned, edges mirrored; rounded once. out has (in + 1) / 2 samples a side.
 * Rows and scratch as above: picture_halve_scratch(in->width) bytes aligned for int32_t. */
size_t picture_halve_scratch(int input_width);
void picture_halve(const picture_plane *out, const picture_plane *in, int first, int end, void *scratch);

#endif
