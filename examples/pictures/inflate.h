/* inflate.h: reading what deflate.h writes, and all else in zlib's format (RFC 1950, 1951).
 *
 * Owns: the decoder. Relies on: nothing. Must never: trust its input: it reads no byte beyond `from`, writes none
 * beyond `to`, and ends.
 */
#ifndef INFLATE_H
#define INFLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { INFLATE_MOST = 1032 }; /* bytes that one byte of input can become, at most */

/* Fills exactly `bytes` from a whole stream. False: it is damaged, or holds more or fewer; `to` is then of no use. */
bool inflate_all(const uint8_t *from, size_t from_bytes, uint8_t *to, size_t bytes);

#endif
