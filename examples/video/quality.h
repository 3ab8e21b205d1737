/* quality.h: how far one plane is from another: PSNR and SSIM.
 *
 * Owns: the two measures, as the super-resolution papers define them.
 * Relies on: picture.h for what a plane is; libm.
 * Must never: allocate, or mix planes: each is measured by itself.
 */
#ifndef QUALITY_H
#define QUALITY_H

#include "picture.h"

/* Sum of squared differences, exact. Both planes have the same size and bits. shave leaves out that
 * many samples at each side (papers shave the scale from stills; clips are measured whole). */
uint64_t quality_squared_error(const picture_plane *a, const picture_plane *b, int shave);

/* 10 log10(peak^2 / mean squared error) with peak 2^bits - 1; INFINITY for equal planes. */
double quality_psnr_of(uint64_t squared_error, uint64_t samples, int bits);
double quality_psnr(const picture_plane *a, const picture_plane *b, int shave);

/* Mean SSIM (Wang et al. 2004): 11x11 Gaussian window of sigma 1.5, valid positions only,
 * K1 = 0.01, K2 = 0.03, no downsampling first. NAN for planes smaller than the window.
 * scratch: quality_ssim_scratch(width) bytes aligned for double. */
size_t quality_ssim_scratch(int width);
double quality_ssim(const picture_plane *a, const picture_plane *b, int shave, void *scratch);

#endif
