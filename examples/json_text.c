/* json_text.c: see json_text.h. */
#include "json_text.h"

/* Bytes of the character beyond ASCII that stands here in UTF-8; 0: none does. */
static int utf8_bytes(const unsigned char *c)
{
    const int n = c[0] >= 0xc2 && c[0] <= 0xdf   ? 2
                  : c[0] >= 0xe0 && c[0] <= 0xef ? 3
                  : c[0] >= 0xf0 && c[0] <= 0xf4 ? 4
                                                 : 0;
    for (int i = 1; i < n; i++)
        if (c[i] < 0x80 || c[i] > 0xbf)
            return 0;
    /* written longer than need be, halves of pairs, beyond the last character */
    if ((c[0] == 0xe0 && c[1] < 0xa0) || (c[0] == 0xed && c[1] > 0x9f) || (c[0] == 0xf0 && c[1] < 0x90) ||
        (c[0] == 0xf4 && c[1] > 0x8f))
        return 0;
    return n;
}

void json_text(FILE *file, const char *text)
{
    const unsigned char *c = (const unsigned char *)text;
    fputc('"', file);
    while (*c) {
        const int n = utf8_bytes(c);
        if (n > 0)
            fwrite(c, 1, (size_t)n, file);
        else if (*c == '"' || *c == '\\')
            fprintf(file, "\\%c", *c);
        else if (*c < 0x20 || *c > 0x7e)
            fprintf(file, "\\u%04x", (unsigned)*c);
        else
            fputc(*c, file);
        c += n > 0 ? n : 1;
    }
    fputc('"', file);
}
