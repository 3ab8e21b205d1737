/* frame_rgb.h: a frame as RGB, for pictures of it.
 *
 * Owns: frames to RGB, by matrix, range and siting.
 * Relies on: y4m.h for layouts and ranges. Pixels are the caller's.
 * Must never: be used on the way to an output video: RGB of 8 bits loses codes.
 */
#ifndef FRAME_RGB_H
#define FRAME_RGB_H

#include "y4m.h"

/* y4m does not say which; below 720 lines 601 is usual. Pass the rule of the *input* for both sides
 * of a comparison, or enlarging a picture would change its colours. */
typedef enum frame_matrix { FRAME_BT601, FRAME_BT709 } frame_matrix;
frame_matrix frame_matrix_for(int height);

/* A frame in y4m order to rows of R, G, B without padding: 3 bytes for each of its luma samples. Chroma is
 * interpolated by its siting; a range that the stream does not state counts as limited. */
void frame_to_rgb(uint8_t *rgb, const y4m_info *info, const void *frame, frame_matrix matrix);

#endif
