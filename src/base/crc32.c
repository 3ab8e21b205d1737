/* base/crc32.c - CRC-32 as in zip and PNG (polynomial 0xedb88320).
 * Owns the table: 1 KB, with a row of 16 for each nibble of an 8-byte word, so that the 16 look-ups of a word do not
 * wait for each other. Rows for whole bytes would take 8 KB and be no faster: either way the chain from word to word
 * is the limit. A small library (BS_SMALL) has only the classic table, at a third of the speed.
 * Relies on base/base.h. Must never keep state between calls: reader threads check records side by side. */
#include "base/base.h"

/* [k][n]: what nibble n adds to the checksum when k more nibbles follow it. [0] alone is the classic table of 16. */
#ifdef BS_SMALL
#define CRC32_ROWS 1
#else
#define CRC32_ROWS 16
#endif
/* Entries of a row are sums of the four entries of nibbles with one bit. */
#define CRC32_FOUR(sum, a, b) (sum), (sum) ^ (a), (sum) ^ (b), (sum) ^ (a) ^ (b)
#define CRC32_ROW(a, b, c, d) \
    {CRC32_FOUR(0, a, b), CRC32_FOUR(c, a, b), CRC32_FOUR(d, a, b), CRC32_FOUR((c) ^ (d), a, b)}
static const uint32_t crc32_table[CRC32_ROWS][16] = {
    CRC32_ROW(0x1db71064, 0x3b6e20c8, 0x76dc4190, 0xedb88320),
#if CRC32_ROWS > 1
    CRC32_ROW(0x77073096, 0xee0e612c, 0x076dc419, 0x0edb8832),
    CRC32_ROW(0x4ac21251, 0x958424a2, 0xf0794f05, 0x3b83984b),
    CRC32_ROW(0x191b3141, 0x32366282, 0x646cc504, 0xc8d98a08),
    CRC32_ROW(0x1c26a370, 0x384d46e0, 0x709a8dc0, 0xe1351b80),
    CRC32_ROW(0x01c26a37, 0x0384d46e, 0x0709a8dc, 0x0e1351b8),
    CRC32_ROW(0x5019579f, 0xa032af3e, 0x9b14583d, 0xed59b63b),
    CRC32_ROW(0xb8bc6765, 0xaa09c88b, 0x8f629757, 0xc5b428ef),
    CRC32_ROW(0x60e09782, 0xc1c12f04, 0x58f35849, 0xb1e6b092),
    CRC32_ROW(0x3d6029b0, 0x7ac05360, 0xf580a6c0, 0x30704bc1),
    CRC32_ROW(0x03d6029b, 0x07ac0536, 0x0f580a6c, 0x1eb014d8),
    CRC32_ROW(0xcb5cd3a5, 0x4dc8a10b, 0x9b914216, 0xec53826d),
    CRC32_ROW(0x67de9cce, 0xcfbd399c, 0x440b7579, 0x8816eaf2),
    CRC32_ROW(0xa6770bb4, 0x979f1129, 0xf44f2413, 0x33ef4e67),
    CRC32_ROW(0x7cbb312b, 0xf9766256, 0x299dc2ed, 0x533b85da),
    CRC32_ROW(0xccaa009e, 0x4225077d, 0x844a0efa, 0xd3e51bb5),
#endif
};
#undef CRC32_ROW
#undef CRC32_FOUR

#if CRC32_ROWS > 1
static inline uint32_t crc32_word(uint32_t crc, const uint8_t *data)
{
    uint64_t word;
    uint32_t sum = 0;
    memcpy(&word, data, sizeof word);
    word ^= crc;
    for (int k = 15; k >= 0; k--, word >>= 4)
        sum ^= crc32_table[k][word & 15];
    return sum;
}
#endif

uint32_t bs_crc32(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    crc = ~crc;
#if CRC32_ROWS > 1
    for (; bytes >= 8; bytes -= 8, at += 8)
        crc = crc32_word(crc, at);
#endif
    for (; bytes > 0; bytes--, at++) {
        crc = (crc ^ *at) >> 4 ^ crc32_table[0][(crc ^ *at) & 15];
        crc = crc >> 4 ^ crc32_table[0][crc & 15];
    }
    return ~crc;
}
